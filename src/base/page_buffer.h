// Memory to read into or write from by the kernel, which copies fastest where pages begin at its bounds, as the file's do.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/extent.h"

namespace stridio {

inline constexpr std::size_t kPageBytes = 4096;

struct FreePages {
  void operator()(std::byte* pages) const { ::operator delete[](pages, std::align_val_t{kPageBytes}); }
};
using PageBuffer = std::unique_ptr<std::byte[], FreePages>;

// Not initialized. Throws std::bad_alloc.
inline PageBuffer page_buffer(Bytes size) {
  return PageBuffer(new (std::align_val_t{kPageBytes}) std::byte[static_cast<std::size_t>(size)]);
}

}  // namespace stridio
