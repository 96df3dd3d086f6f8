// Memory to read into or write from by the kernel, which copies fastest where pages begin at its bounds, as the file's do.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/extent.h"

namespace stridio {

inline constexpr std::size_t kPageBytes = 4096;

struct FreePages {
  void* block = nullptr;  // which they lie in
  void operator()(std::byte*) const { ::operator delete(block); }
};
using PageBuffer = std::unique_ptr<std::byte[], FreePages>;

// Not initialized; null where there is no memory. (Aligned blocks of some megabytes glibc maps anew each time, others from the second on
// not; and to touch new pages takes about as long as to pack FLASH's variables into them.)
inline PageBuffer page_buffer(Bytes size, std::nothrow_t) {
  std::size_t room = static_cast<std::size_t>(size) + kPageBytes - 1;
  void* const block = ::operator new(room, std::nothrow);
  if (!block) return nullptr;
  void* pages = block;
  std::align(kPageBytes, static_cast<std::size_t>(size), pages, room);
  return {static_cast<std::byte*>(pages), FreePages{block}};
}

// Throws std::bad_alloc.
inline PageBuffer page_buffer(Bytes size) {
  PageBuffer buffer = page_buffer(size, std::nothrow);
  if (!buffer) throw std::bad_alloc();
  return buffer;
}

}  // namespace stridio
