#include "access/execute.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "storage/memory.h"
#include "storage/wrap/fault.h"
#include "support/waits_for_company.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

// Nor does it fail then: a rank that has nothing to do with a fault must not hide another's error.
TEST(Execute, AnAccessOfNoBytesDoesNotAskForTheSizeOfTheFile) {
  const auto storage = wrap_fault(open_memory(make_memory_file(), {.read = true, .write = true}),
                                  {.kinds = kFaultAny, .first = 0, .every = 1, .sys_errno = EIO});
  ASSERT_TRUE(storage->caps().maps) << "nobody asks for the size then";
  const Memory memory{nullptr, Pattern::run(0, 8)};
  EXPECT_FALSE(shape_on(*storage, Profile{}, Direction::kWrite, Pattern::run(0, 8), memory));
  EXPECT_TRUE(shape_on(*storage, Profile{}, Direction::kWrite, Pattern(), {nullptr, Pattern()}));
}

// Where of each extent every 1000 bytes lie by themselves, and a page is touched for each.
class InPieces final : public Wrapped {
 public:
  Caps caps() const override {
    Caps caps = Wrapped::caps();
    caps.shares_reads = true;
    return caps;
  }
  Result<StoredAs> look_up(std::span<const Extent> extents) override {
    StoredAs found;
    for (const Extent& extent : extents) found.pieces += (extent.length + 999) / 1000;
    found.touched = found.pieces * Profile::kPage;
    looked_up += std::ssize(extents);
    if (fails) return fail(Code::kIo, "damaged");
    return found;
  }

  std::ptrdiff_t looked_up = 0;  // extents
  bool fails = false;
};

TEST(Execute, HowALongReadIsStoredIsSeenFromASample) {
  InPieces storage;
  const auto stored = [&](const Pattern& file, const Profile& profile = {}) {
    RequestShape shape = shape_of(Direction::kRead, file, Pattern::run(0, file.size()));
    storage.looked_up = 0;
    note_stored(storage, profile, file, shape);
    EXPECT_LE(storage.looked_up, 300) << "it takes as long as reading";
    return shape;
  };
  const Pattern file = Pattern::strided(10000, 5000, Pattern::run(0, 2000));
  const RequestShape shape = stored(file);
  EXPECT_NEAR(static_cast<double>(shape.stored.pieces), 20000, 500);
  EXPECT_NEAR(static_cast<double>(shape.stored.touched), 20000.0 * Profile::kPage, 500.0 * Profile::kPage);
  EXPECT_NEAR(static_cast<double>(shape.pieces_together), 20000, 500);
  const RequestShape tiny = stored(Pattern::strided(1 << 20, 100, Pattern::run(0, 8)));
  EXPECT_EQ(tiny.stored.pieces, 1 << 20);
  EXPECT_NEAR(static_cast<double>(tiny.pieces_together), 8400, 200) << "bytes that lie together, not all between these";
  EXPECT_EQ(stored(Pattern::run(0, 1 << 20)).stored.pieces, 0) << "not worth it";
  Profile far;
  far.read.request_seconds = 1e-3;
  EXPECT_EQ(stored(file, far).stored.pieces, 0) << "it is waited for";
  const auto plain = open_memory(make_memory_file(), {.read = true, .write = true});
  RequestShape as_asked;
  note_stored(*plain, Profile{}, file, as_asked);
  EXPECT_EQ(as_asked.stored.pieces, 0);
  storage.fails = true;
  EXPECT_EQ(stored(file).stored.pieces, 0) << "what is wrong there the read finds, if it comes there";
}

constexpr Bytes kPieces = 4096, kPieceBytes = 16;

AccessPlan in_windows(bool locked) {
  return {.method = Method::kList, .staged = true, .locked = locked, .pipelined = true, .window = 16384};
}

std::vector<std::byte> numbered() {
  std::vector<std::byte> bytes(kPieces * kPieceBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

int most_at_once(WaitsForCompany& storage, Direction direction, bool locked) {
  const Pattern file = Pattern::strided(kPieces, 2 * kPieceBytes, Pattern::run(0, kPieceBytes));
  std::vector<std::byte> bytes = numbered();
  Times times;
  const Memory memory{bytes.data(), Pattern::run(0, std::ssize(bytes))};
  const auto moved = execute(in_windows(locked), storage, direction, file, memory, times);
  EXPECT_TRUE(moved) << moved.error().text();
  EXPECT_EQ(moved->bytes, std::ssize(bytes));
  return storage.most();
}

TEST(Execute, BothHalvesOfTheStagingBufferAreUnderWayWhereTheStorageIsWaitedFor) {
  const auto patience = std::chrono::seconds(20);
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    WaitsForCompany storage(patience);
    ASSERT_TRUE(storage.resize(2 * kPieces * kPieceBytes));
    EXPECT_EQ(most_at_once(storage, direction, false), 2);
  }
}

TEST(Execute, WindowsThatLockFollowOneAnother) {
  WaitsForCompany storage(std::chrono::milliseconds(20));
  EXPECT_EQ(most_at_once(storage, Direction::kWrite, true), 1);
}

TEST(Execute, AReadInWindowsEndsWithTheFile) {
  const Bytes all = kPieces * kPieceBytes;
  for (const Bytes size :
       {Bytes{0}, Bytes{1}, Bytes{8191}, Bytes{8192}, Bytes{8193}, Bytes{16384}, Bytes{20000}, all}) {
    const auto storage = open_memory(make_memory_file(), {.read = true, .write = true});
    const std::vector<std::byte> stored = numbered();
    ASSERT_TRUE(storage->write({0, size}, stored.data()));
    std::vector<std::byte> bytes(static_cast<std::size_t>(all), std::byte{255});
    Times times;
    const auto moved = execute(in_windows(false), *storage, Direction::kRead, Pattern::run(0, all),
                               {bytes.data(), Pattern::run(0, all)}, times);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->bytes, size);
    EXPECT_EQ(moved->eof, size < all);
    EXPECT_TRUE(std::equal(stored.begin(), stored.begin() + size, bytes.begin()));
    EXPECT_TRUE(std::all_of(bytes.begin() + size, bytes.end(), [](std::byte each) { return each == std::byte{255}; }));
  }
}

TEST(Execute, AnErrorOfAnyWindowFailsTheAccess) {
  std::vector<std::byte> bytes = numbered();
  const Pattern all = Pattern::run(0, std::ssize(bytes));
  const auto file = make_memory_file();
  ASSERT_TRUE(open_memory(file, {.read = true, .write = true})->write({0, 20000}, bytes.data()));
  // A read meets the end of the file in its third window, when the fourth has been asked for.
  for (const auto& [direction, kind, windows] :
       {std::tuple(Direction::kRead, kFaultRead, 4), std::tuple(Direction::kWrite, kFaultWrite, 8)}) {
    for (int first = 0; first < windows; ++first) {
      const auto storage =
          wrap_fault(open_memory(file, {.read = true, .write = true}),
                     {.kinds = static_cast<unsigned>(kind), .first = first, .every = 1000, .sys_errno = EIO});
      Times times;
      EXPECT_FALSE(execute(in_windows(false), *storage, direction, all, {bytes.data(), all}, times)) << first;
    }
  }
}

class CountsWrites final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    ++calls;
    return Wrapped::writev(extents, memory);
  }
  std::atomic<int> calls = 0;
};

// Random columns of random nests; each position's byte is found by walking both sides in data order.
TEST(Execute, PartsOfSeveralColumnsAtATimeAreTheSameBytes) {
  const auto seed = std::random_device()();
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int turn = 0; turn < 300; ++turn) {
    const Bytes piece = pick(1, 12);
    const std::int64_t count = pick(2, 9);
    const Bytes stride = piece + pick(0, 3);
    Pattern one = Pattern::strided(pick(2, 9), count * stride + pick(0, 5), Pattern::run(0, piece));
    for (std::int64_t levels = pick(0, 2); levels > 0; --levels)
      one = Pattern::strided(pick(2, 5), one.upper() + count * stride + pick(0, 99), one);
    const Pattern memory = pick(0, 1) == 0 ? Pattern::strided(count, stride, one)
                                           : Pattern::strided(count, -stride, one.shifted((count - 1) * stride));
    const Bytes size = memory.size(), range = pick(1, 300);
    const Pattern file =
        Pattern::strided((size + range - 1) / range, range + pick(0, 20), Pattern::run(7, range)).slice(0, size);

    Profile profile;
    profile.long_range = pick(piece + 1, 40);
    profile.staging = pick(4 * profile.long_range, 4000);
    profile.copy_range_seconds = 0;
    profile.scattered_range_seconds = 1;
    AccessRules rules;
    rules.force = "list";
    AccessPlan plan = plan_access(shape_of(Direction::kWrite, file, memory), {}, profile, rules);
    plan.ranges = static_cast<std::size_t>(pick(1, 50));
    if (plan.pipelined = pick(0, 1) == 0; plan.pipelined) plan.first_window = pick(1, 2000);
    ASSERT_GT(plan.columns.together, 1) << "seed " << seed << ", turn " << turn;
    ASSERT_EQ(plan.columns.count, count);

    std::vector<std::byte> bytes(static_cast<std::size_t>(memory.upper()));
    for (std::byte& each : bytes) each = static_cast<std::byte>(pick(0, 255));
    const auto storage = std::make_unique<CountsWrites>(open_memory(make_memory_file(), {.read = true, .write = true}));
    Times times;
    ASSERT_TRUE(execute(plan, *storage, Direction::kWrite, file, {bytes.data(), memory}, times));
    for (const int failing : {0, storage->calls / 2, storage->calls - 1}) {
      const auto faulty = wrap_fault(open_memory(make_memory_file(), {.read = true, .write = true}),
                                     {.kinds = kFaultWrite, .first = failing, .every = 1 << 30, .sys_errno = EIO});
      ASSERT_FALSE(execute(plan, *faulty, Direction::kWrite, file, {bytes.data(), memory}, times))
          << "seed " << seed << ", turn " << turn << ", call " << failing << " of " << storage->calls;
    }
    std::vector<std::byte> stored(static_cast<std::size_t>(file.upper()));
    ASSERT_TRUE(storage->read({0, file.upper()}, stored.data()));
    const auto byte_at = [](const Pattern& pattern, Bytes position) {
      return static_cast<std::size_t>(Cursor(pattern, position).next_range(1).offset);
    };
    for (Bytes at = 0; at < size; ++at)
      ASSERT_EQ(stored[byte_at(file, at)], bytes[byte_at(memory, at)]) << "seed " << seed << ", turn " << turn;

    const Bytes end = pick(0, 1) == 0 ? file.upper() : pick(0, file.upper());
    ASSERT_TRUE(storage->resize(end));
    const Bytes there = file.bytes_below(end);
    std::vector<std::byte> wanted(bytes.size(), std::byte{99}), got = wanted;
    for (Bytes at = 0; at < there; ++at) wanted[byte_at(memory, at)] = bytes[byte_at(memory, at)];
    const auto moved = execute(plan, *storage, Direction::kRead, file, {got.data(), memory}, times);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->bytes, there);
    EXPECT_EQ(moved->eof, there < size);
    ASSERT_EQ(got, wanted) << "seed " << seed << ", turn " << turn;
  }
}

class Fails final : public Wrapped {
 public:
  Result<Transferred> readv(std::span<const Extent>, std::span<const Span>) override { return refuse(); }
  Result<Transferred> writev(std::span<const Extent>, std::span<const Span>) override { return refuse(); }
  int calls() const { return calls_; }

 private:
  Result<Transferred> refuse() {
    ++calls_;
    return fail_errno(ENOSPC, "moving bytes", path());
  }
  int calls_ = 0;
};

// One call takes its time, and fails.
class FailsLate final : public Wrapped {
 public:
  explicit FailsLate(int which) : which_(which) {}
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (calls++ != which_) return Wrapped::writev(extents, memory);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return fail_errno(ENOSPC, "moving bytes", path());
  }
  std::atomic<int> calls = 0;

 private:
  const int which_;
};

TEST(Execute, WhatFailsLateIsWaitedFor) {
  std::vector<std::byte> bytes = numbered();
  const Pattern two_windows = Pattern::run(0, 16384);
  FailsLate storage(1);
  Times times;
  const Memory memory{bytes.data(), two_windows};
  EXPECT_FALSE(execute(in_windows(false), storage, Direction::kWrite, two_windows, memory, times));
}

// The next is staged meanwhile, and not written.
TEST(Execute, WindowsThatLockEndWithAnError) {
  std::vector<std::byte> bytes = numbered();
  const Pattern all = Pattern::run(0, std::ssize(bytes));
  FailsLate storage(0);
  Times times;
  EXPECT_FALSE(execute(in_windows(true), storage, Direction::kWrite, all, {bytes.data(), all}, times));
  EXPECT_EQ(storage.calls, 1);
}

TEST(Execute, WhereNothingOverlapsAnErrorEndsTheAccess) {
  std::vector<std::byte> bytes = numbered();
  const Pattern all = Pattern::run(0, std::ssize(bytes));
  for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
    Fails storage;
    AccessPlan plan = in_windows(false);
    plan.pipelined = false;
    Times times;
    const auto moved = execute(plan, storage, direction, all, {bytes.data(), all}, times);
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().sys_errno, ENOSPC);
    EXPECT_EQ(storage.calls(), 1);
  }
}

}  // namespace
}  // namespace stridio
