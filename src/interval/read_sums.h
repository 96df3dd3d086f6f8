// Ranks that read the same cells together verify them together: each sums the bytes that it takes, while its caches have them, and
// who is told all ranks' sums finds whether they are those of what was stored. Of several cells, for the sums of cells give those of
// blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "interval/generation.h"

namespace stridio {

// What one reader of a generation knows of the blocks that it has met: 56 bytes for each, and again where it meets one later. Where
// a read fails it is of no use any more.
class ReadSums {
 public:
  static constexpr int kCells = 4;  // of a block
  static constexpr Bytes kBlock = kCells * kCell;

  struct Cell {
    Extent stored;
    std::uint32_t sum = 0;
  };
  // What is added next is of the run's cells in the block of `offset`, which lies in it; where they are. `sums`: of all its cells.
  const Extent& meet_block(Extent run, std::span<const std::uint32_t> sums, Offset offset);
  // `sum`: of the bytes that are stored there, in one cell, by crc32c_of_part() of the block.
  void add(Extent stored, std::uint32_t sum);
  void add_verified(Extent cell);
  void append(ReadSums others);

  // Whether others' sums are needed.
  bool leaves_some() const;
  // What each of `ranks` is to put together.
  std::vector<std::vector<std::byte>> by_rank(int ranks) const;

  struct Found {
    std::vector<Cell> unknown;  // ascending: some bytes of their blocks nobody has read, or several
    std::vector<Extent> wrong;  // blocks of which what was read is not what was stored
  };
  // From what all readers have for this one.
  static Found put_together(std::span<const std::vector<std::byte>> told);

 private:
  struct Told {
    Extent stored;
    std::array<std::uint32_t, kCells> sums = {};
    std::uint32_t verified = 0, left = 0;  // cells, by bits: all of them, and some of their bytes
    std::uint32_t sum = 0;                 // of what was left,
    std::uint64_t cover = 0;               // which proves that each byte is there once
  };
  static void judge(const Told& told, Found& found);

  std::vector<Told> told_;
};

}  // namespace stridio
