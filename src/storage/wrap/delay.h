// A storage at a distance: latency and bandwidth for simulations and for tests of who waits for
// whom.
#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>

#include "storage/storage.h"

namespace stridio {

struct DelayModel {
  std::chrono::nanoseconds latency{0};  // of every request
  double bytes_per_second = std::numeric_limits<double>::infinity();
};

// The way to a storage, shared by all who use it: bytes pass one after the other, latencies overlap
// between threads but add up within an operation of several requests. Thread-safe.
class DelayLine {
 public:
  explicit DelayLine(const DelayModel& model) : model_(model) {}

  // Sleeps until the requests and their bytes have passed.
  void carry(std::int64_t requests, Bytes bytes);

 private:
  using Clock = std::chrono::steady_clock;

  const DelayModel model_;
  std::mutex mutex_;
  Clock::time_point free_at_{};  // when the last byte that is under way has passed
};

// Forwards everything to `storage`, unchanged, and adds the delay to what it takes. A read or write
// counts as many requests as Transferred tells, any other operation as one; caps() and path() cost
// nothing.
std::unique_ptr<Storage> wrap_delay(std::unique_ptr<Storage> storage, std::shared_ptr<DelayLine> line);

}  // namespace stridio
