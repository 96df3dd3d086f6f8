// Where the time of an access goes; a stopwatch that adds a scope's time to a part of it; and a clock that does not stop.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stridio {

// Nanoseconds, summed over calls and threads.
struct Times {
  std::atomic<std::int64_t> exchange{0};  // sending patterns and data to other ranks
  std::atomic<std::int64_t> copy{0};      // between the user's memory and buffers
  std::atomic<std::int64_t> storage{0};
  std::atomic<std::int64_t> waiting{0};  // for other ranks, in agreements
  std::atomic<std::int64_t> open{0};     // opening and closing
  std::atomic<std::int64_t> total{0};    // inside calls
};

class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& sum) : sum_(sum), start_(Clock::now()) {}
  ~Stopwatch() {
    const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
    sum_.fetch_add(elapsed.count(), std::memory_order_relaxed);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<std::int64_t>& sum_;
  Clock::time_point start_;
};

// Of this machine. It goes on while that sleeps.
using SinceBoot = std::chrono::nanoseconds;
inline SinceBoot since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace stridio
