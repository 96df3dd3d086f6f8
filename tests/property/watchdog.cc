#include "property/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace stridio::testing {

Watchdog::Watchdog(std::string replay, std::chrono::seconds patience)
    : replay_(std::move(replay)), patience_(patience), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::start(std::uint64_t seed) {
  seed_ = seed;
  ++starts_;
}

// Looks four times as often as it is patient, so that a hang lasts at most a quarter longer than
// that.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  std::int64_t seen = -1;
  int idle = 0;
  while (!ended_.wait_for(lock, patience_ / 4, [&] { return over_; })) {
    idle = seen == starts_ ? idle + 1 : 0;
    seen = starts_;
    if (idle < 4) continue;
    std::fprintf(stderr, "a case hangs; replay: %s%llu\n", replay_.c_str(),
                 static_cast<unsigned long long>(seed_.load()));
    std::abort();
  }
}

}  // namespace stridio::testing
