#include "storage/wrap/delay.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "storage/memory.h"

namespace stridio {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Delay : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> delayed(const DelayModel& model) {
    return wrap_delay(open_memory(make_memory_file()), std::make_shared<DelayLine>(model));
  }

  template <typename Work>
  static Clock::duration time_of(Work work) {
    const auto start = Clock::now();
    work();
    return Clock::now() - start;
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(100000);
};

TEST_F(Delay, LatencyIsPaidForEveryRequest) {
  const auto storage = delayed({.latency = 5ms});
  const std::vector<Extent> extents = {{0, 10}, {20, 10}, {40, 10}, {50, 10}};
  const Span memory{data_.data(), 40};
  EXPECT_GE(time_of([&] { ASSERT_TRUE(storage->writev(extents, {&memory, 1})); }), 15ms);
  EXPECT_GE(time_of([&] { ASSERT_TRUE(storage->sync()); }), 5ms);
}

TEST_F(Delay, BandwidthIsPaidForEveryByte) {
  const auto storage = delayed({.bytes_per_second = 1e7});
  EXPECT_GE(time_of([&] { ASSERT_TRUE(storage->write({0, 100000}, data_.data())); }), 10ms);
}

TEST_F(Delay, HandlesShareTheLine) {
  const auto line = std::make_shared<DelayLine>(DelayModel{.bytes_per_second = 1e7});
  const auto work = [&] {
    const auto storage = wrap_delay(open_memory(make_memory_file()), line);
    ASSERT_TRUE(storage->write({0, 100000}, data_.data()));
  };
  const auto together = time_of([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_GE(together, 40ms);
}

TEST_F(Delay, NothingMovedCostsNothing) {
  const auto storage = delayed({.latency = 10s});
  EXPECT_LT(time_of([&] { ASSERT_TRUE(storage->writev({}, {})); }), 5s);
}

}  // namespace
}  // namespace stridio
