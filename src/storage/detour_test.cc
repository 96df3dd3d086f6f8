#include "storage/detour.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <vector>

#include "storage/posix_calls.h"
#include "storage/testing/temp_directory.h"
#include "support/random_pattern.h"

namespace stridio {
namespace {

constexpr Bytes kPage = kPageBytes;

// Bytes from an address that lies `behind` a page's beginning.
class Aligned {
 public:
  explicit Aligned(Bytes size, Bytes behind = 0) : buffer_(page_buffer(size + kPage)), data_(buffer_.get() + behind) {
    std::fill_n(buffer_.get(), size + kPage, std::byte{0xEE});
  }
  std::byte* data() const { return data_; }

 private:
  PageBuffer buffer_;
  std::byte* data_;
};

TEST(Detour, TakesWhatLiesALittleBehindItsPlaceInAPage) {
  const Aligned memory(2 * kPage);
  for (const Offset offset : {Offset{0}, Offset{5}, Offset{kPage - 1}, Offset{1} << 40})
    for (Bytes behind = 0; behind < kPage; ++behind) {
      Detour detour(true);
      const Bytes at = (offset + behind) % kPage;
      const Span piece{memory.data() + at, kPage};
      const Span place = detour.place(piece, offset);
      const bool lags = behind >= 1 && behind <= 31;
      ASSERT_EQ(place.data != piece.data, lags) << offset << ' ' << behind;
      ASSERT_EQ(place.length, kPage);
      const auto apart = (reinterpret_cast<std::uintptr_t>(place.data) - static_cast<std::uintptr_t>(offset)) % kPage;
      ASSERT_FALSE(apart >= 1 && apart <= 31);
    }
}

TEST(Detour, IsTakenWhereItIsNeeded) {
  const Aligned memory(kPage, 16);
  Detour detour(false);
  EXPECT_EQ(detour.place({memory.data(), kPage}, 0).data, memory.data());
}

TEST(Detour, LeavesShortPieces) {
  const Aligned memory(kPage, 16);
  Detour detour(true);
  EXPECT_EQ(detour.place({memory.data(), Detour::kLeast - 1}, 0).data, memory.data());
  EXPECT_NE(detour.place({memory.data(), Detour::kLeast}, 0).data, memory.data());
}

TEST(Detour, EndsWhereItsRoomDoes) {
  const Aligned memory(4 * Detour::kRoom, 16);
  Detour detour(true);
  Bytes placed = 0;
  for (Span place{nullptr, 1}; place.length > 0; placed += place.length)
    place = detour.place({memory.data() + placed, 5000}, placed);
  EXPECT_LE(placed, Detour::kRoom);
  EXPECT_GT(placed, Detour::kRoom - 2 * Detour::kLeast);
  detour.arrive(0);
  EXPECT_EQ(detour.place({memory.data(), 2 * Detour::kRoom}, 0).length, Detour::kRoom) << "it is all free again";
}

TEST(Detour, BringsWhatHasArrived) {
  constexpr Bytes kPiece = 3000;
  for (const Bytes arrived : {0, 1, 2999, 3000, 3001, 6000, 7000, 9000}) {
    const Aligned memory(3 * kPage, 16);
    Detour detour(true);
    for (Bytes before = 0; before < 3 * kPiece; before += kPiece) {
      const Span place = detour.place({memory.data() + before, kPiece}, before);
      ASSERT_NE(place.data, memory.data() + before);
      std::fill_n(place.data, kPiece, static_cast<std::byte>(before / kPiece));
    }
    detour.arrive(arrived);
    for (Bytes at = 0; at < 3 * kPiece; ++at)
      ASSERT_EQ(memory.data()[at], at < arrived ? static_cast<std::byte>(at / kPiece) : std::byte{0xEE}) << at;
  }
}

// How many pieces the calls were to put elsewhere than into the user's memory.
std::byte *user_begin, *user_end;
int detours;

void count_detour(const void* data) {
  if (data < user_begin || data >= user_end) ++detours;
}

PosixCalls counting(bool copies_lag) {
  PosixCalls calls;
  calls.copies_lag = copies_lag;
  calls.pread = [](int fd, void* data, std::size_t length, off_t offset) -> ssize_t {
    count_detour(data);
    return ::pread(fd, data, length, offset);
  };
  calls.preadv = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    for (int i = 0; i < count; ++i) count_detour(pieces[i].iov_base);
    return ::preadv(fd, pieces, count, offset);
  };
  return calls;
}

// Whatever the processor, at any places of file and memory.
TEST(Detour, ReadsTheSameBytesByAnyWay) {
  const std::uint64_t seed = testing::seed_of_run();
  SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed));
  testing::Random random(seed);
  const auto below = [&](Bytes most) { return std::uniform_int_distribution<Bytes>(0, most - 1)(random); };
  constexpr Bytes kSize = 300000;
  const TempDirectory directory;
  const std::string path = directory.file("file");
  std::vector<char> stored(kSize);
  for (char& each : stored) each = static_cast<char>(below(256));
  std::ofstream(path, std::ios::binary).write(stored.data(), kSize);

  bool is_local = false;
  detours = 0;
  for (int round = 0; round < 300; ++round) {
    const bool lag = round % 4 != 0;
    const int before = detours;
    auto storage = open_posix(path, {.read = true, .write = false, .create = false}, counting(lag));
    ASSERT_TRUE(storage) << storage.error().text();
    std::vector<Extent> extents;
    std::vector<Span> memory;
    Bytes size = 0;
    for (Bytes i = 1 + below(5); i > 0; --i) {
      const Offset offset = below(2) ? below(kSize / kPage) * kPage : below(kSize);
      extents.push_back({offset, 1 + below(below(3) == 0 ? 150000 : 5000)});
      size += extents.back().length;
    }
    const Aligned whole(2 * size + 64 * kPage);
    std::byte* at = whole.data();
    user_begin = at, user_end = at + 2 * size + 64 * kPage;
    for (Bytes left = size; left > 0; left -= memory.back().length) {
      at += below(3) == 0 ? 16 : below(kPage);
      memory.push_back({at, std::min(left, 1 + below(below(2) ? size : 3000))});
      at += memory.back().length;
      if (memory.size() == 60) memory.back().length = left;
    }
    const auto got = (*storage)->readv(extents, memory);
    ASSERT_TRUE(got) << got.error().text();
    std::vector<char> read, expected;
    for (const Span& piece : memory)
      read.insert(read.end(), reinterpret_cast<char*>(piece.data), reinterpret_cast<char*>(piece.data) + piece.length);
    for (const Extent& extent : extents) {
      const Extent there = intersect(extent, {0, kSize});
      expected.insert(expected.end(), stored.begin() + there.offset, stored.begin() + there.offset + there.length);
      if (there.length < extent.length) break;
    }
    is_local = (*storage)->caps().maps;
    ASSERT_TRUE(lag || detours == before);
    ASSERT_EQ(got->bytes, std::ssize(expected)) << round;
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), read.begin())) << round;
    for (std::size_t i = expected.size(); i < read.size(); ++i) ASSERT_EQ(read[i], static_cast<char>(0xEE)) << i;
  }
  EXPECT_EQ(detours > 0, is_local);
}

}  // namespace
}  // namespace stridio
