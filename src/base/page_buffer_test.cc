// Memory for the kernel's copies, and that its pages are taken again.
#include "base/page_buffer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace stridio {
namespace {

TEST(PageBuffer, BeginsWithAPage) {
  for (const Bytes size : {0, 1, 4095, 4096, 100000}) {
    const PageBuffer buffer = page_buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % kPageBytes, 0u) << size;
    std::fill_n(buffer.get(), size, std::byte{1});
  }
}

// Sanitizers keep what is freed.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(PageBuffer, OneAfterTheOtherTakesNoNewPages) {
  constexpr Bytes kSize = Bytes{4} << 20;
  const auto new_pages = [] {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const PageBuffer buffer = page_buffer(kSize);
    std::fill_n(buffer.get(), kSize, std::byte{1});
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
  };
  new_pages(), new_pages();
  EXPECT_LT(new_pages(), kSize / static_cast<Bytes>(kPageBytes) / 4);
}
#endif

}  // namespace
}  // namespace stridio
