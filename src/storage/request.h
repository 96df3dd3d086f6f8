// What every storage does with a request of extents x memory: check it, and walk its two lists side
// by side. Nothing here allocates, so that a request of 10^6 extents costs no memory.
#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

// kArgument where an offset or a length is negative, an extent ends beyond 2^63 - 1, or the two
// lists describe different numbers of bytes.
Status check_request(std::span<const Extent> extents, std::span<const Span> memory);

// The smallest range that holds all that are not empty; {} if there is none.
Extent bounds_of(std::span<const Extent> extents);
Bytes size_of(std::span<const Extent> extents);

// Yields the extents as runs, in order: neighbours in the list that are adjacent in the file are
// merged and empty ones skipped.
class RunCursor {
 public:
  explicit RunCursor(std::span<const Extent> extents) : extents_(extents) {}

  std::optional<Extent> next() {
    Extent run;
    for (; index_ < extents_.size(); ++index_) {
      const Extent& extent = extents_[index_];
      if (extent.empty()) continue;
      if (run.empty()) {
        run = extent;
      } else if (extent.offset == run.end()) {
        run.length += extent.length;
      } else {
        break;
      }
    }
    if (run.empty()) return std::nullopt;
    return run;
  }

 private:
  std::span<const Extent> extents_;
  std::size_t index_ = 0;
};

// A position in a list of memory pieces.
class MemoryCursor {
 public:
  explicit MemoryCursor(std::span<const Span> memory) : memory_(memory) {}

  // The next piece that is one in memory, of at most `most` bytes; moves past it. Empty at the end.
  Span take(Bytes most) {
    while (index_ < memory_.size() && done_ == memory_[index_].length) {
      ++index_;
      done_ = 0;
    }
    if (index_ == memory_.size()) return {};
    const Span& piece = memory_[index_];
    const Span taken{piece.data + done_, std::min(most, piece.length - done_)};
    done_ += taken.length;
    return taken;
  }

  void skip(Bytes bytes) {
    while (bytes > 0) bytes -= take(bytes).length;
  }

 private:
  std::span<const Span> memory_;
  std::size_t index_ = 0;
  Bytes done_ = 0;  // of memory_[index_]
};

}  // namespace stridio
