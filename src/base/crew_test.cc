#include "base/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>

namespace stridio {
namespace {

// Whether so many come within some seconds.
class Meeting {
 public:
  explicit Meeting(int wanted) : wanted_(wanted) {}
  bool come() {
    std::unique_lock lock(mutex_);
    ++here_;
    all_.notify_all();
    return all_.wait_for(lock, std::chrono::seconds(20), [&] { return here_ >= wanted_; });
  }

 private:
  const int wanted_;
  int here_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

TEST(Crew, AllWorkAtOnceAndAreKept) {
  Crew crew;
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int turn = 0; turn < 20; ++turn) {
    Meeting meeting(5);
    std::atomic<int> met = 0;
    crew.run(4, [&] {
      met += meeting.come();
      const std::scoped_lock lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(met, 5);
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(seen.count(std::this_thread::get_id()), 1U);
}

TEST(Crew, SeveralRunAtOnce) {
  Crew crew;
  Meeting meeting(3 * 4);
  std::atomic<int> met = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { crew.run(3, [&] { met += meeting.come(); }); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, 12);
}

TEST(Crew, NothingRunsOnOnceItHasReturned) {
  Crew crew;
  for (int turn = 0; turn < 2000; ++turn) {
    std::atomic<int> left = 10, running = 0;
    crew.run(3, [&] {
      ++running;
      while (left-- > 0) {
      }
      --running;
    });
    ASSERT_EQ(running, 0);
    ASSERT_LE(left, 0);
  }
}

TEST(Crew, WithoutHelpersItIsACall) {
  Crew crew;
  int calls = 0;
  crew.run(0, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace stridio
