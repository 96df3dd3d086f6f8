#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace stridio {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Crc32c, IsTheStandardOne) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(Crc32c, PartsGiveTheSumOfTheWhole) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(100000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int i = 0; i < 300; ++i) {
    const std::size_t length = random() % (i % 3 == 0   ? 64
                                           : i % 3 == 1 ? 2000
                                                        : bytes.size()),
                      middle = length == 0 ? 0 : random() % length;
    const auto all = std::span(bytes).first(length);
    std::uint32_t bitwise = 0;
    for (const std::byte& byte : all) bitwise = crc32c({&byte, 1}, bitwise);
    const std::uint32_t first = crc32c(all.first(middle)), second = crc32c(all.subspan(middle));
    EXPECT_EQ(crc32c(all), bitwise);
    EXPECT_EQ(crc32c(all.subspan(middle), first), bitwise);
    for (const Stores stores : {Stores::kCached, Stores::kLongStreamed, Stores::kStreamed}) {
      std::vector<std::byte> copy(length - middle);
      EXPECT_EQ(copy_crc32c(copy.data(), all.subspan(middle), first, stores), bitwise);
      EXPECT_TRUE(std::ranges::equal(copy, all.subspan(middle)));
    }
    for (const std::uint32_t sum : crc32c_by_all_ways(all.subspan(middle), first)) EXPECT_EQ(sum, bitwise);
    EXPECT_EQ(crc32c_joined(first, second, static_cast<Bytes>(length - middle)), bitwise);
  }
}

// Nothing is read or written beside the bytes, wherever they lie; a sanitizer sees it.
TEST(Crc32c, ShortStringsAreCopiedFromAndToAnyPlace) {
  std::mt19937_64 random(3);
  for (std::size_t length = 0; length < 330; ++length)
    for (std::size_t place = 0; place < 64; ++place) {
      const std::size_t from = random() % 64;
      std::vector<std::byte> bytes(from + length), copy(place + length);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      const auto string = std::span(bytes).subspan(from);
      const auto before = static_cast<std::uint32_t>(random());
      const std::uint32_t sum = copy_crc32c(copy.data() + place, string, before);
      for (const std::uint32_t each : crc32c_by_all_ways(string, before)) ASSERT_EQ(each, sum) << length;
      ASSERT_TRUE(std::ranges::equal(std::span(copy).subspan(place), string)) << length;
    }
}

TEST(Crc32c, PartsInAnyOrderGiveTheSumOfTheWhole) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes(1 + random() % (i % 2 == 0 ? 100 : 1 << 16));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    constexpr std::size_t kAround = 200;  // of which nothing may change
    std::vector<std::byte> copy(bytes.size() + 2 * kAround), expected(copy);
    std::copy(bytes.begin(), bytes.end(), expected.begin() + kAround);
    std::uint32_t parts = 0;
    for (std::size_t at = bytes.size(); at > 0;) {  // from the end on
      const std::size_t length = 1 + random() % std::min<std::size_t>(at, 6000);
      const auto part = std::span(bytes).subspan(at - length, length);
      const auto behind = static_cast<Bytes>(bytes.size() - at);
      const std::uint32_t sum = crc32c_of_part(part, behind);
      EXPECT_EQ(crc32c_as_part(crc32c(part), std::ssize(part), behind), sum);
      EXPECT_EQ(copy_crc32c_of_part(copy.data() + kAround + at - length, part, behind), sum);
      for (const Stores stores : {Stores::kCached, Stores::kLongStreamed, Stores::kStreamed}) {
        const std::vector<std::byte> nothing(kAround + length + kAround);
        std::vector<std::byte> other(nothing), all(nothing);
        const std::size_t to = kAround / 2 + random() % (kAround / 2);
        std::ranges::copy(part, all.begin() + static_cast<std::ptrdiff_t>(to));
        copy_crc32c_of_part_by_all_ways(other.data() + to, part, behind, stores, [&](std::uint32_t each) {
          EXPECT_EQ(each, sum);
          EXPECT_EQ(other, all);
          std::ranges::copy(nothing, other.begin());
        });
      }
      parts ^= sum;
      at -= length;
    }
    EXPECT_EQ(crc32c_as_part(crc32c(bytes), std::ssize(bytes), 0), parts);
    EXPECT_EQ(copy, expected);
  }
}

}  // namespace
}  // namespace stridio
