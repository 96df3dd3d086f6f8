#include "storage/wrap/trace.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "storage/memory.h"
#include "storage/wrap/delay.h"
#include "storage/wrap/fault.h"

namespace stridio {
namespace {

class Trace : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> traced(const FaultPlan& plan = {}) {
    return wrap_trace(wrap_fault(open_memory(file_), plan), counters_);
  }

  const std::shared_ptr<MemoryFile> file_ = make_memory_file();
  const std::shared_ptr<StorageCounters> counters_ = std::make_shared<StorageCounters>();
  std::byte data_[100] = {};
};

TEST_F(Trace, ARequestIsARunOfExtents) {
  const auto storage = traced();
  const std::vector<Extent> extents = {{0, 10}, {10, 10}, {40, 10}, {30, 0}, {30, 10}};
  const Span memory{data_, 40};
  ASSERT_TRUE(storage->writev(extents, {&memory, 1}));
  ASSERT_TRUE(storage->readv(extents, {&memory, 1}));
  EXPECT_EQ(counters_->write.calls, 1);
  EXPECT_EQ(counters_->write.requests, 3);
  EXPECT_EQ(counters_->write.bytes, 40);
  EXPECT_EQ(counters_->read.requests, 3);
  EXPECT_EQ(counters_->read.bytes, 40);
}

TEST_F(Trace, ShortReadsCountWhatTheyMoved) {
  const auto storage = traced();
  ASSERT_TRUE(storage->write({0, 10}, data_));
  ASSERT_TRUE(storage->read({5, 50}, data_));
  EXPECT_EQ(counters_->read.bytes, 5);
}

TEST_F(Trace, EveryOperationHasItsOwnCounters) {
  const auto storage = traced();
  ASSERT_TRUE(storage->size());
  ASSERT_TRUE(storage->resize(10));
  ASSERT_TRUE(storage->reserve(10));
  ASSERT_TRUE(storage->sync());
  ASSERT_TRUE(storage->lock({0, 1}, LockMode::kShared));
  for (const OperationCounters* one :
       {&counters_->size, &counters_->resize, &counters_->reserve, &counters_->sync, &counters_->lock}) {
    EXPECT_EQ(one->calls, 1);
    EXPECT_EQ(one->requests, 1);
    EXPECT_EQ(one->failures, 0);
  }
  EXPECT_EQ(counters_->read.calls + counters_->write.calls, 0);
}

TEST_F(Trace, FailuresAreCounted) {
  const auto storage = traced({.first = 0});
  EXPECT_FALSE(storage->write({0, 10}, data_));
  EXPECT_EQ(counters_->write.calls, 1);
  EXPECT_EQ(counters_->write.failures, 1);
  EXPECT_EQ(counters_->write.requests, 1);
  EXPECT_EQ(counters_->write.bytes, 0);
}

TEST_F(Trace, TimeIsThatOfTheStorageBelow) {
  using namespace std::chrono_literals;
  const auto line = std::make_shared<DelayLine>(DelayModel{.latency = 2ms});
  const auto storage = wrap_trace(wrap_delay(open_memory(file_), line), counters_);
  ASSERT_TRUE(storage->write({0, 10}, data_));
  EXPECT_GE(counters_->write.nanoseconds, 2'000'000);
}

TEST_F(Trace, ACopyIsASnapshot) {
  const auto storage = traced();
  ASSERT_TRUE(storage->write({0, 10}, data_));
  const StorageCounters before = *counters_;
  ASSERT_TRUE(storage->write({0, 10}, data_));
  EXPECT_EQ(before.write.bytes, 10);
  EXPECT_EQ(counters_->write.bytes, 20);
}

TEST_F(Trace, ThreadsAndHandlesShareCounters) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([this] {
      const auto storage = traced();
      std::byte data[10] = {};
      for (int round = 0; round < 100; ++round) ASSERT_TRUE(storage->write({0, 10}, data));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters_->write.bytes, 4000);
}

}  // namespace
}  // namespace stridio
