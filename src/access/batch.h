// A bounded list of ranges of file and memory, as a storage takes them.
#pragma once

#include <vector>

#include "base/extent.h"
#include "pattern/pattern.h"

namespace stridio {

struct Batch {
  std::size_t most = 1024;  // ranges
  std::vector<Extent> extents = {};
  std::vector<Span> spans = {};
  Bytes bytes = 0;

  void clear() {
    extents.clear();
    spans.clear();
    bytes = 0;
  }
  void add(Offset offset, Bytes length) {
    if (!extents.empty() && extents.back().end() == offset) {
      extents.back().length += length;
    } else {
      extents.push_back({offset, length});
    }
    bytes += length;
  }
  void add(std::byte* data, Bytes length) {
    if (!spans.empty() && spans.back().data + spans.back().length == data) {
      spans.back().length += length;
    } else {
      spans.push_back({data, length});
    }
  }
  bool full() const { return extents.size() >= most || spans.size() >= most; }
};

// The next ranges of file and memory side by side, straight from the user's memory, up to data position `to`.
void fill_direct(Batch& batch, Cursor& file, Cursor& memory, std::byte* base, Bytes to);

}  // namespace stridio
