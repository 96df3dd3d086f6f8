// Counts what a program asks of its storage: operations, requests to the system, bytes, time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "storage/storage.h"

namespace stridio {

// A number that many threads add to. A copy is a snapshot of it.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other) {}
  Counter& operator=(const Counter& other) {
    value_.store(other, std::memory_order_relaxed);
    return *this;
  }

  void add(std::int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  operator std::int64_t() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_ = 0;
};

struct OperationCounters {
  Counter calls;        // of the Storage's member function
  Counter failures;     // of those calls
  Counter requests;     // operations of the system: for reads and writes as Transferred tells, else
                        // one a call
  Counter bytes;        // moved by reads and writes that succeeded
  Counter nanoseconds;  // inside the calls; of a lock: waiting for it, not holding it
};

struct StorageCounters {
  OperationCounters read, write, size, resize, reserve, sync, lock;
};

// Forwards everything to `storage`, unchanged, and adds to `counters`, which several wrappers may
// share. A read or write that failed adds one request, since nobody knows how many it took.
std::unique_ptr<Storage> wrap_trace(std::unique_ptr<Storage> storage, std::shared_ptr<StorageCounters> counters);

}  // namespace stridio
