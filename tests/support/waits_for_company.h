#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "support/wrapped_storage.h"

namespace stridio {

// The first call waits for a second one, up to `patience`.
class WaitsForCompany final : public Wrapped {
 public:
  explicit WaitsForCompany(std::chrono::milliseconds patience) : patience_(patience) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    const Visit visit(*this);
    return Wrapped::readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    const Visit visit(*this);
    return Wrapped::writev(extents, memory);
  }
  int most() const { return most_; }

 private:
  struct Visit {
    explicit Visit(WaitsForCompany& at) : here(at) {
      std::unique_lock lock(here.mutex_);
      here.most_ = std::max(here.most_, ++here.now_);
      here.changed_.notify_all();
      here.changed_.wait_for(lock, here.patience_, [&] { return here.most_ > 1; });
    }
    ~Visit() {
      const std::scoped_lock lock(here.mutex_);
      --here.now_;
    }
    WaitsForCompany& here;
  };

  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int now_ = 0, most_ = 0;
};

}  // namespace stridio
