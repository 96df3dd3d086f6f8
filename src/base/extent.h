// Offsets, byte counts and half-open byte ranges: the vocabulary of every folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace stridio {

using Offset = std::int64_t;  // a position in a file or relative to a buffer's address, in bytes
using Bytes = std::int64_t;   // a length, in bytes

// The half-open range [offset, offset + length).
struct Extent {
  Offset offset = 0;
  Bytes length = 0;

  Offset end() const { return offset + length; }
  bool empty() const { return length <= 0; }
  bool operator==(const Extent&) const = default;
};

inline Extent intersect(Extent a, Extent b) {
  const Offset begin = std::max(a.offset, b.offset);
  return {begin, std::max<Bytes>(0, std::min(a.end(), b.end()) - begin)};
}

// A piece of memory to read into or write from.
struct Span {
  std::byte* data = nullptr;
  Bytes length = 0;
};

}  // namespace stridio
