// A range of an open file as memory, for the storages of a local file system.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

// What can go wrong while it is used is that another program cuts the file off, or, where pages were not brought in first, that
// the disk is full or fails: a page that cannot be had is then replaced by memory of our own, as are those behind it, and the Watch
// tells.
class Mapping {
 public:
  static constexpr Bytes kMostBroughtIn = Bytes{16} << 20;

  // With `brings_in` every page is there before this returns, or it fails: so on a full disk, and where the file system or the
  // kernel (before 5.14) cannot do it. Nothing has been done then. Pages that are only read come as they are touched, where the Watch
  // sees that they do not; else ranges longer than kMostBroughtIn cannot be had, of which somebody may want little.
  static Result<std::unique_ptr<Mapping>> make(int fd, Extent range, bool writable, bool brings_in = true);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // The byte of the file at range.offset. To be touched under a Watch only.
  std::byte* data() const { return data_; }

  // The thread that makes it uses the mapping until the same thread destroys it; no other may meanwhile. They nest.
  class Watch {
   public:
    explicit Watch(const Mapping& mapping);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // Whether all that was read or written there was the file's. If not, the mapping is of no use any more.
    bool whole() const;
    // Whether this thread's errors come to the handler: the program may have blocked them, or have set another one.
    static bool sees_errors();

    // In a handler of bus errors: whether the address was some watched mapping's of this thread, and has memory again.
    static bool replace_page(std::uintptr_t address);

   private:
    const std::uintptr_t begin_, end_;
    volatile std::sig_atomic_t torn_ = 0;
    Watch* const outer_;
  };

 private:
  Mapping(void* pages, Bytes length, std::byte* data) : pages_(pages), length_(length), data_(data) {}

  void* const pages_;
  const Bytes length_;
  std::byte* const data_;
};

}  // namespace stridio
