// Ranks that read the same cells together verify them together: each sums the bytes that it takes, while its caches have them, and
// who is told all ranks' sums of a cell finds whether they are that of the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interval/generation.h"

namespace stridio {

// What one reader of a generation knows of the cells that it has met. Where a read fails it is of no use any more.
class ReadSums {
 public:
  // Of so many bytes of a cell, as parts of it. A byte that is read twice is added twice: then they are no whole.
  void add(CellOfPart cell, std::uint32_t sum, Bytes bytes);
  void add_verified(CellOfPart cell) { cells_.push_back({cell, 0, kVerified}); }

  // Whether of some cell there are bytes that others' sums are needed for.
  bool leaves_some() const;
  // What each of `ranks` is to put together.
  std::vector<std::vector<std::byte>> by_rank(const Root& root, int ranks) const;
  // From what all readers have for this one: the cells that their sums do not verify, ascending.
  static Result<std::vector<CellOfPart>> not_verified(std::span<const std::vector<std::byte>> told,
                                                      Generation& generation, Storage& storage);

 private:
  static constexpr std::int32_t kVerified = -1;
  struct Cell {
    CellOfPart cell;
    std::uint32_t sum;
    std::int32_t bytes;  // kCell + 1 for more than a cell has, or kVerified
  };
  std::vector<Cell> cells_;  // some several times
};

}  // namespace stridio
