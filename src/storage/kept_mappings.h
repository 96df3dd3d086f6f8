// Mappings of what is written again and again to a file in memory: to copy into pages that are mapped already takes no look into
// the page cache, and no turn among the writers of the file. (On a disk, pages that the kernel has written out meanwhile are dearer
// to write to in a mapping than by a call.)
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/extent.h"

namespace stridio {

// Thread-safe.
class KeptMappings {
 public:
  static constexpr Bytes kLeast = Bytes{64} << 10;  // a mapping of less is not worth finding again
  static constexpr Bytes kMost = Bytes{1} << 30;    // mapped in all: the process is taken to use it

  explicit KeptMappings(int fd) : fd_(fd) {}

  // Copies a request into the mapping that is kept of its extents; false where it has to be written by calls: the first
  // time (it is remembered), or where something was in the way, and some of it may have been stored. `has` says whether the file
  // has the range.
  bool store(std::span<const Extent> extents, std::span<const Span> memory, const std::function<bool(Extent)>& has);
  // As if nothing had been written yet.
  void clear();

 private:
  struct Kept;

  std::shared_ptr<Kept> find(std::span<const Extent> extents);

  const int fd_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Kept>> kept_;  // the oldest first
  Bytes length_ = 0;                        // of them
};

}  // namespace stridio
