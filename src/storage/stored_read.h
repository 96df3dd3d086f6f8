// Reading a storage whose bytes lie in another order than they are asked for in, by several readers of the same bytes: each block
// of what is stored is fetched once, by one of them, and all take from it.
#pragma once

#include <span>
#include <vector>

#include "base/extent.h"
#include "base/result.h"
#include "storage/storage.h"

namespace stridio {

// Where asked bytes are stored, and where in memory they go.
struct StoredPiece {
  Offset stored = 0;
  Bytes length = 0;
  std::byte* data = nullptr;

  Offset end() const { return stored + length; }
};

// What one of the readers needs. The storage must outlive it, and does not change while it lives.
class StoredRead {
 public:
  // Block b has the bytes from b * kBlock on.
  static constexpr Bytes kBlock = Bytes{256} << 10;

  virtual ~StoredRead() = default;
  // Behind the last one; the same for all readers.
  virtual std::int64_t blocks() const = 0;
  // As Storage::readv, but puts only zeros into memory, where holes are asked for. What else is asked for is in `pieces` afterwards: in
  // ascending order, and each in one block. kNoMemory where they are too many to be kept.
  virtual Result<Transferred> find(std::span<const Extent> extents, std::span<const Span> memory,
                                   std::vector<StoredPiece>& pieces) = 0;
  // All that any reader can want of the block, to where it lies there; kBlock bytes have room. False where any of it is not right, or
  // cannot be had: who wants some of that reads it by Storage::readv, which tells.
  virtual bool fetch(std::int64_t block, std::byte* to) = 0;
};

}  // namespace stridio
