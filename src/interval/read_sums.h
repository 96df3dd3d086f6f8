// Ranks that read the same cells together verify them together: each sums the bytes that it takes, while its caches have them, and
// who is told all ranks' sums finds whether they are those of what was stored. Of several cells, for the sums of cells give those of
// blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interval/generation.h"

namespace stridio {

// What one reader of a generation knows of the blocks that it has met: 48 bytes for each, and again where it meets one later. Where
// a read fails it is of no use any more.
class ReadSums {
 public:
  static constexpr int kCells = 4;  // of a block
  static constexpr Bytes kBlock = kCells * kCell;

  struct Block {
    Extent stored;          // several cells of one run
    std::uint32_t sum = 0;  // as a part's with nothing behind it
  };
  // What is added next is of the block in which `offset` lies; where it is stored. `sums` are of the run's cells.
  const Extent& meet_block(Extent run, std::span<const std::uint32_t> sums, Offset offset);
  // `sum`: of the bytes that are stored there, by crc32c_of_part() of the block.
  void add(Extent stored, std::uint32_t sum);
  void add_verified(Extent cell);
  void append(ReadSums others);

  // Whether of some block there are bytes that others' sums are needed for.
  bool leaves_some() const;
  // What each of `ranks` is to put together.
  std::vector<std::vector<std::byte>> by_rank(int ranks) const;

  struct Found {
    std::vector<Block> unknown;  // ascending: some bytes nobody has read, or several
    std::vector<Block> wrong;    // what was read is not what was stored
  };
  // From what all readers have for this one.
  static Found put_together(std::span<const std::vector<std::byte>> told);

 private:
  struct Told {
    Block block;
    std::uint32_t sum = 0;
    std::uint64_t cover = 0;     // proves that each byte is there once
    std::uint32_t verified = 0;  // cells of it
    bool leaves_some = false;    // bytes to others
  };

  std::vector<Told> told_;
};

}  // namespace stridio
