// Ranks that read the same cells together verify them together: each sums the bytes that it takes, while its caches have them, and
// who is told all ranks' sums of a cell finds whether they are that of the whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interval/generation.h"

namespace stridio {

// What one reader of a generation knows of the cells that it has met: 40 bytes for each, and again where it meets one later. Where a
// read fails it is of no use any more.
class ReadSums {
 public:
  struct Cell {
    Extent stored;
    std::uint32_t sum = 0;
  };
  // `sum`: of the bytes at `inside`, by crc32c_of_part().
  void add(const Cell& cell, Extent inside, std::uint32_t sum);
  void add_verified(Extent stored);
  void append(const ReadSums& others) { told_.insert(told_.end(), others.told_.begin(), others.told_.end()); }

  // Whether of some cell there are bytes that others' sums are needed for.
  bool leaves_some() const;
  // What each of `ranks` is to put together.
  std::vector<std::vector<std::byte>> by_rank(int ranks) const;

  struct Found {
    std::vector<Cell> unknown;  // ascending: some bytes nobody has read, or several
    std::vector<Cell> wrong;    // what was read is not what was stored
  };
  // From what all readers have for this one.
  static Found put_together(std::span<const std::vector<std::byte>> told);

 private:
  struct Told {
    Cell cell;
    std::uint32_t sum;
    std::uint64_t cover;  // proves that each byte is there once
    bool verified;        // the whole cell
  };
  std::vector<Told> told_;
};

}  // namespace stridio
