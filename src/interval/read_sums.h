// Ranks that read the same cells together verify them together: each sums the bytes that it takes, while its caches have them, and
// who is told all ranks' sums of a cell finds whether they are that of the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interval/generation.h"

namespace stridio {

// What one reader of a generation knows of its cells: 8 bytes for each of the parts that it has met. Where a read fails it is of no
// use any more.
struct ReadSums {
  struct Cell {
    static constexpr std::int32_t kVerified = -1;
    std::uint32_t sum = 0;   // of the bytes that were read, as parts of the cell,
    std::int32_t bytes = 0;  // of so many: kCell + 1 for more than a cell has, or kVerified
  };
  std::vector<std::vector<Cell>> parts = {};  // by part; empty: nothing of it

  // A byte that is read twice is added twice, and the cell is no whole then.
  void add(std::size_t part, std::int64_t cell, std::uint32_t sum, Bytes bytes);

  // Whether of some cell there are bytes that others' sums are needed for.
  bool leaves_some() const;
  // What each of `ranks` is to put together.
  std::vector<std::vector<std::byte>> by_rank(const Root& root, int ranks) const;
};

// From what all readers have for this one: the cells that their sums do not verify, ascending.
Result<std::vector<CellOfPart>> not_verified_by(std::span<const std::vector<std::byte>> told, Generation& generation,
                                                Storage& storage);

}  // namespace stridio
