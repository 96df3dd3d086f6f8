// Mappings of what is written again and again, for the storages of a local file system: to copy into pages that are mapped
// already takes no call of the system, and no turn among the writers of the file.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/extent.h"

namespace stridio {

// Thread-safe. The descriptor must outlive it.
class KeptMappings {
 public:
  static constexpr Bytes kLeast = Bytes{64} << 10;  // a mapping of less is not worth finding again

  explicit KeptMappings(int fd) : fd_(fd) {}

  // Copies a request into the mapping that is kept of its extents; false where it has to be written by calls: if they have not
  // been asked for before (but are remembered now), or something was in the way, and some of it may have been stored. `settled`
  // says of their bounds whether the file has them and nobody is making it longer.
  bool store(std::span<const Extent> extents, std::span<const Span> memory, const std::function<bool(Extent)>& settled);
  // What was stored before, and is stored from now on by calls, is as if nothing had been remembered.
  void clear();

 private:
  struct Kept;

  std::shared_ptr<Kept> find(std::span<const Extent> extents);

  const int fd_;
  std::mutex mutex_;
  std::array<std::shared_ptr<Kept>, 64> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace stridio
