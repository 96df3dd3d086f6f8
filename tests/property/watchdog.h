// Ends the program when a case does not come to an end: a rank that waits for ever is a finding
// like any other, and its seed must be known.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace stridio::testing {

class Watchdog {
 public:
  // `replay`: how to run the one case again, printed before the seed.
  explicit Watchdog(std::string replay, std::chrono::seconds patience = std::chrono::seconds(20));
  ~Watchdog();

  // A case starts; the one before has ended.
  void start(std::uint64_t seed);

 private:
  void watch();

  const std::string replay_;
  const std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::atomic<std::uint64_t> seed_ = 0;
  std::atomic<std::int64_t> starts_ = 0;
  std::thread thread_;
};

}  // namespace stridio::testing
