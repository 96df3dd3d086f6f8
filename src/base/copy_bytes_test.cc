#include "base/copy_bytes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace stridio {
namespace {

constexpr std::size_t kAround = 64;  // of which nothing may change

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <typename Copy>
void expect_copies(std::mt19937_64& random, std::size_t length, Copy copy) {
  const std::size_t from = random() % 64, to = kAround + random() % 64;
  const std::vector<std::byte> bytes = random_bytes(random, from + length);
  std::vector<std::byte> copied = random_bytes(random, to + length + kAround), expected = copied;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), length,
              expected.begin() + static_cast<std::ptrdiff_t>(to));
  copy(copied.data() + to, bytes.data() + from, length);
  ASSERT_EQ(copied, expected) << length;
}

TEST(CopyBytes, CopiesAllAndNoMore) {
  std::mt19937_64 random(1);
  for (const Stores stores : {Stores::kCached, Stores::kLongStreamed, Stores::kStreamed}) {
    const auto copy = [&](std::byte* to, const std::byte* from, std::size_t length) {
      copy_bytes(to, from, length, stores);
    };
    for (std::size_t length = 0; length < 300; ++length) expect_copies(random, length, copy);
    for (const std::size_t least : {kLeastStreamed, kLeastLong, kLeastLongStreamed})
      for (std::size_t more = 0; more < 300; ++more) expect_copies(random, least - 8 + more, copy);
    expect_copies(random, (std::size_t{1} << 20) + 5, copy);
  }
}

TEST(CopyBytes, CopiesByVectors) {
  std::mt19937_64 random(2);
  std::vector<std::byte> some(kLeastLong);
  if (!copy_by_vectors(some.data(), std::vector<std::byte>(kLeastLong).data(), kLeastLong)) GTEST_SKIP();
  for (std::size_t more = 0; more < 300; ++more) expect_copies(random, kLeastLong + more, copy_by_vectors);
}

TEST(CopyBytes, CopiesByStreaming) {
  std::mt19937_64 random(3);
  std::byte one{};
  if (!copy_by_streaming(&one, &one, 0)) GTEST_SKIP();
  for (std::size_t length = 0; length < 300; ++length)
    for (int i = 0; i < 8; ++i) expect_copies(random, length, copy_by_streaming);
}

TEST(CopyBytes, StreamsWhatTheCachesWouldNotKeep) {
  EXPECT_EQ(Streaming(Streaming::kLeast - 1).stores(), Stores::kCached);
  EXPECT_EQ(Streaming(Streaming::kLeast).stores(), Streaming(Streaming::kLeast << 10).stores());
}

}  // namespace
}  // namespace stridio
