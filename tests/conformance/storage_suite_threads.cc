// Several handles, several threads, locks.
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "conformance/storage_suite.h"
#include "conformance/storage_suite_io.h"

namespace stridio {

namespace {

using namespace std::chrono_literals;

// A wait that ought to last is believed to after this long.
constexpr auto kLong = 30ms;
// A wait that ought to end is given up after this long.
constexpr auto kForever = 60s;

constexpr LockMode kShared = LockMode::kShared, kExclusive = LockMode::kExclusive;

std::unique_ptr<RangeLock> lock(Storage& storage, Extent range, LockMode mode) {
  auto locked = storage.lock(range, mode);
  EXPECT_TRUE(succeeded(locked));
  return locked ? std::move(*locked) : nullptr;
}

// Locks and lets go, on another thread.
std::future<void> visit(Storage& storage, Extent range, LockMode mode) {
  return std::async(std::launch::async, [&storage, range, mode] { lock(storage, range, mode); });
}

bool waits(std::future<void>& visitor) { return visitor.wait_for(kLong) == std::future_status::timeout; }

bool arrives(std::future<void>&& visitor) { return visitor.wait_for(kForever) == std::future_status::ready; }

// ---- Several handles and threads

TEST_P(StorageSuite, HandlesSeeOneAnother) {
  const auto other = open();
  write_at(*storage_, 0, numbered(10));
  EXPECT_EQ(whole(*other), numbered(10));
  ASSERT_TRUE(succeeded(other->resize(5)));
  EXPECT_EQ(whole(*storage_), numbered(5));
}

// Each thread writes every kThreads'th block of 100 bytes, in lists of 10, and reads its own back.
TEST_P(StorageSuite, ThreadsWriteDisjointRanges) {
  constexpr int kThreads = 4, kRounds = 20, kList = 10;
  constexpr Bytes kBlock = 100;
  const auto other = open();
  const auto work = [&](int thread) {
    Storage& storage = thread % 2 == 0 ? *storage_ : *other;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Extent> extents;
      for (int i = 0; i < kList; ++i) extents.push_back({((round * kList + i) * kThreads + thread) * kBlock, kBlock});
      Data data(kList * kBlock, static_cast<std::byte>(thread + 1));
      write_all(storage, extents, {span_of(data)});
      EXPECT_EQ(read_list(storage, extents), data);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  const Data all = whole(*storage_);
  ASSERT_EQ(all.size(), std::size_t{kThreads * kRounds * kList * kBlock});
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], static_cast<std::byte>(i / kBlock % kThreads + 1)) << i;
}

TEST_P(StorageSuite, LocksAreRefusedWhereThereAreNone) {
  if (storage_->has_locks()) GTEST_SKIP() << "has locks";
  expect_error(storage_->lock({0, 10}, kShared), {Code::kUnsupportedOperation}, *storage_);
}

TEST_P(StorageSuite, ExclusiveLocksExcludeOtherHandlesAndThreads) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  for (Storage* visited : {storage_.get(), other.get()}) {
    for (LockMode mode : {kShared, kExclusive}) {
      auto held = lock(*storage_, {10, 10}, kExclusive);
      auto visitor = visit(*visited, {19, 5}, mode);
      EXPECT_TRUE(waits(visitor));
      held.reset();
      EXPECT_TRUE(arrives(std::move(visitor)));
    }
  }
}

TEST_P(StorageSuite, SharedLocksExcludeOnlyExclusiveOnes) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  for (Storage* visited : {storage_.get(), other.get()}) {
    auto held = lock(*storage_, {10, 10}, kShared);
    EXPECT_TRUE(arrives(visit(*visited, {0, 100}, kShared)));
    auto visitor = visit(*visited, {0, 100}, kExclusive);
    EXPECT_TRUE(waits(visitor));
    held.reset();
    EXPECT_TRUE(arrives(std::move(visitor)));
  }
}

TEST_P(StorageSuite, DisjointLocksDoNotWait) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  const auto held = lock(*storage_, {10, 10}, kExclusive);
  for (Storage* visited : {storage_.get(), other.get()}) {
    EXPECT_TRUE(arrives(visit(*visited, {0, 10}, kExclusive)));
    EXPECT_TRUE(arrives(visit(*visited, {20, 10}, kExclusive)));
    EXPECT_TRUE(arrives(visit(*visited, {15, 0}, kExclusive)));
  }
}

TEST_P(StorageSuite, ALockOfNowDoesNotWait) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  for (Storage* visited : {storage_.get(), other.get()}) {
    for (LockMode mode : {kShared, kExclusive}) {
      auto held = lock(*storage_, {10, 10}, mode);
      for (LockMode at_once : {LockMode::kExclusiveNow, LockMode::kAsk}) {
        expect_error(visited->lock({19, 5}, at_once), {Code::kFileInUse}, *visited);
        EXPECT_TRUE(succeeded(visited->lock({20, 5}, at_once)));
      }
      held.reset();
      const auto asked = lock(*visited, {19, 5}, LockMode::kAsk);  // holds nothing
      EXPECT_TRUE(arrives(visit(*storage_, {10, 10}, kExclusive)));
      auto now = lock(*visited, {19, 5}, LockMode::kExclusiveNow);
      auto visitor = visit(*storage_, {10, 10}, kShared);
      EXPECT_TRUE(waits(visitor));
      now.reset();
      EXPECT_TRUE(arrives(std::move(visitor)));
    }
  }
}

TEST_P(StorageSuite, TheWholeFileIsARange) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  auto held = lock(*storage_, kWholeFile, kExclusive);
  auto visitor = visit(*other, {Offset{1} << 61, 1}, kShared);
  EXPECT_TRUE(waits(visitor));
  held.reset();
  EXPECT_TRUE(arrives(std::move(visitor)));
}

// Of two shared locks of one handle that overlap, the second to go still holds the common part.
TEST_P(StorageSuite, OverlappingSharedLocksOfAHandleEndSeparately) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  const auto other = open();
  auto middle = lock(*storage_, {10, 10}, kShared);
  auto around = lock(*storage_, {0, 30}, kShared);
  around.reset();
  EXPECT_TRUE(arrives(visit(*other, {0, 10}, kExclusive)));
  EXPECT_TRUE(arrives(visit(*other, {20, 10}, kExclusive)));
  auto visitor = visit(*other, {12, 1}, kExclusive);
  EXPECT_TRUE(waits(visitor));
  middle.reset();
  EXPECT_TRUE(arrives(std::move(visitor)));
}

TEST_P(StorageSuite, BadRangesAreNotLocked) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  expect_error(storage_->lock({-1, 5}, kShared), {Code::kArgument}, *storage_);
  expect_error(storage_->lock({5, -1}, kShared), {Code::kArgument}, *storage_);
}

// Threads of two handles add to one number in the file: without the locks some additions get lost.
TEST_P(StorageSuite, LocksMakeReadModifyWriteSafe) {
  if (!storage_->has_locks()) GTEST_SKIP() << "no locks";
  constexpr int kThreads = 4, kRounds = 50;
  const auto other = open();
  write_at(*storage_, 0, Data(4));
  const auto work = [&](Storage& storage) {
    for (int round = 0; round < kRounds; ++round) {
      const auto held = lock(storage, {0, 4}, kExclusive);
      std::int32_t number = 0;
      ASSERT_TRUE(succeeded(storage.read({0, 4}, reinterpret_cast<std::byte*>(&number))));
      ++number;
      ASSERT_TRUE(succeeded(storage.write({0, 4}, reinterpret_cast<std::byte*>(&number))));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { work(i % 2 == 0 ? *storage_ : *other); });
  for (std::thread& thread : threads) thread.join();
  std::int32_t number = 0;
  ASSERT_TRUE(succeeded(storage_->read({0, 4}, reinterpret_cast<std::byte*>(&number))));
  EXPECT_EQ(number, kThreads * kRounds);
}

}  // namespace

}  // namespace stridio
