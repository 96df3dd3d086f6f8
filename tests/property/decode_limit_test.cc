// Decoding costs memory for what is there, not for what is promised: lengths nested in lengths are
// an old trick to exhaust a receiver.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "pattern/pattern.h"
#include "property/seed.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stridio::testing {
namespace {

// Sequences in sequences, each of which claims as many parts as bytes are left.
std::vector<std::byte> nested_promises(std::size_t length) {
  std::vector<std::byte> bytes{std::byte{'P'}, std::byte{1}};
  for (int depth = 0; depth < 60; ++depth) {
    bytes.push_back(std::byte{0});  // displacement
    bytes.push_back(std::byte{3});  // sequence
    std::size_t parts = length - 1000;
    for (; parts >= 0x80; parts >>= 7) bytes.push_back(static_cast<std::byte>(parts | 0x80));
    bytes.push_back(static_cast<std::byte>(parts));
  }
  bytes.resize(length);
  const std::uint32_t sum = XXH32(bytes.data(), bytes.size(), 0);
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(sum >> shift));
  return bytes;
}

// Lets this process take `more` bytes than it has.
void limit_memory(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * 4096 + more;
  const rlimit limit{most, most};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

TEST(DecodeLimit, PromisedLengthsCostNoMemory) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more memory than can be limited";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto bytes = nested_promises(1 << 20);
  EXPECT_EXIT(
      {
        limit_memory(200 << 20);
        std::exit(Pattern::decode(bytes).has_value() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace stridio::testing
