// A range of an open file as memory, for the storages of a local file system.
#pragma once

#include <memory>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

// To be used and destroyed by the thread that made it, one at a time for each thread.
//
// Every page is brought in before the first byte is touched, so that a full disk is an error here and not a SIGBUS
// later. What can still go wrong is that another program cuts the file off while it is mapped: the page that is gone
// is then replaced by memory of our own, and whole() tells.
class Mapping {
 public:
  // Fails where the file system or the kernel (before 5.14) cannot do it; nothing has been done then.
  static Result<std::unique_ptr<Mapping>> make(int fd, Extent range, bool writable);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // The byte of the file at range.offset.
  std::byte* data() const { return data_; }
  // Whether all that was read or written there was the file's.
  bool whole() const;

 private:
  Mapping(void* pages, Bytes length, std::byte* data);

  void* const pages_;
  const Bytes length_;
  std::byte* const data_;
};

}  // namespace stridio
