#include "access/deep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include "storage/memory.h"
#include "storage/wrap/delay.h"
#include "storage/wrap/fault.h"

namespace stridio {
namespace {

using namespace std::chrono_literals;
using Random = std::mt19937_64;

constexpr OpenMode kBoth{.read = true, .write = true};

struct Request {
  std::vector<Extent> extents;
  std::vector<Span> memory;
  std::vector<std::byte> buffer;
};

Request draw(Random& random) {
  Request request;
  const auto pick = [&](Bytes most) { return static_cast<Bytes>(random() % static_cast<std::uint64_t>(most)); };
  Offset at = pick(50);
  Bytes size = 0;
  for (Bytes i = pick(30); i >= 0; --i) {
    request.extents.push_back({at, pick(200)});
    size += request.extents.back().length;
    at = request.extents.back().end() + pick(60);
  }
  request.buffer.resize(static_cast<std::size_t>(size));
  for (std::byte& byte : request.buffer) byte = static_cast<std::byte>(random());
  for (Bytes from = 0; from < size;) {
    const Bytes length = std::min(size - from, 1 + pick(100));
    request.memory.push_back({request.buffer.data() + from, length});
    from += length;
  }
  return request;
}

TEST(Deep, MovesWhatOneCallMoves) {
  const std::uint64_t seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", case " << i);
    const auto storage = open_memory(make_memory_file(), kBoth), other = open_memory(make_memory_file(), kBoth);
    Request request = draw(random);
    const int depth = 1 + static_cast<int>(random() % 6);
    const Bytes unit = 1 + static_cast<Bytes>(random() % 150);
    const bool extend_first = random() % 2 == 0;
    const auto written =
        transfer_deep(*storage, Direction::kWrite, request.extents, request.memory, {depth, unit, extend_first});
    ASSERT_TRUE(written);
    ASSERT_TRUE(other->writev(request.extents, request.memory));
    ASSERT_EQ(*storage->size(), *other->size());
    std::vector<std::byte> all(static_cast<std::size_t>(*storage->size())), expected = all;
    ASSERT_TRUE(storage->read({0, *storage->size()}, all.data()));
    ASSERT_TRUE(other->read({0, *storage->size()}, expected.data()));
    ASSERT_TRUE(all == expected);

    ASSERT_TRUE(storage->resize(static_cast<Bytes>(random() % (all.size() + 2))));
    ASSERT_TRUE(other->resize(*storage->size()));
    const std::vector<std::byte> before(request.buffer.size(), std::byte{0xEE});
    request.buffer = before;
    for (std::size_t from = 0; Span & span : request.memory) {
      span.data = request.buffer.data() + from;
      from += static_cast<std::size_t>(span.length);
    }
    const auto one = other->readv(request.extents, request.memory);
    const std::vector<std::byte> wanted = request.buffer;
    std::copy(before.begin(), before.end(), request.buffer.begin());
    const auto deep =
        transfer_deep(*storage, Direction::kRead, request.extents, request.memory, {depth, unit, extend_first});
    ASSERT_TRUE(one && deep);
    EXPECT_EQ(deep->bytes, one->bytes);
    EXPECT_EQ(deep->eof, one->eof);
    EXPECT_TRUE(request.buffer == wanted);
  }
}

TEST(Deep, AReadOfOverlappingExtentsEndsWhereTheFirstMeetsTheEnd) {
  const auto storage = open_memory(make_memory_file(), kBoth);
  ASSERT_TRUE(storage->write({0, 48}, std::vector(48, std::byte{1}).data()));
  const std::array<Extent, 3> extents = {Extent{16, 48}, {29, 48}, {42, 48}};
  std::vector<std::byte> buffer(144, std::byte{9});
  const Span span{buffer.data(), 144};
  const auto moved = transfer_deep(*storage, Direction::kRead, extents, {&span, 1}, {4, 100});
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->bytes, 32);
  EXPECT_TRUE(moved->eof);
  EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{1}), 32);
}

TEST(Deep, LatenciesOverlap) {
  const auto line = std::make_shared<DelayLine>(DelayModel{.latency = 10ms});
  const auto storage = wrap_delay(open_memory(make_memory_file(), kBoth), line);
  std::vector<std::byte> buffer(1 << 16);
  const Extent extent{0, 1 << 16};
  const Span span{buffer.data(), extent.length};
  const auto start = std::chrono::steady_clock::now();
  const auto moved = transfer_deep(*storage, Direction::kWrite, {&extent, 1}, {&span, 1}, {16, 1 << 10});
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->requests, 64);
  EXPECT_GE(took, 40ms);
  EXPECT_LT(took, 320ms) << "64 requests of 10 ms, 16 at once";
}

TEST(Deep, AFailureIsTheCallers) {
  const auto storage =
      wrap_fault(open_memory(make_memory_file(), kBoth), {.kinds = kFaultWrite, .first = 7, .sys_errno = ENOSPC});
  std::vector<std::byte> buffer(1000);
  const Extent extent{0, 1000};
  const Span span{buffer.data(), 1000};
  const auto moved = transfer_deep(*storage, Direction::kWrite, {&extent, 1}, {&span, 1}, {4, 10});
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kNoSpace);
}

TEST(Deep, LengthensTheFileFirst) {
  for (const int failing : {0, 1}) {
    const auto storage = wrap_fault(open_memory(make_memory_file(), kBoth),
                                    {.kinds = kFaultWrite, .first = failing, .sys_errno = ENOSPC});
    std::vector<std::byte> buffer(1000);
    const Extent extent{500, 1000};
    const Span span{buffer.data(), 1000};
    ASSERT_FALSE(transfer_deep(*storage, Direction::kWrite, {&extent, 1}, {&span, 1}, {4, 10, true}));
    EXPECT_EQ(*storage->size(), failing == 0 ? 0 : 1500);
  }
}

}  // namespace
}  // namespace stridio
