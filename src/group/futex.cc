#include "group/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace stridio {

// Not FUTEX_PRIVATE_FLAG: that form finds sleepers by address, which differs between processes.
Nap futex_sleep(SharedWord& word, std::uint32_t seen, std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(longest);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (longest - seconds).count()};
  const long rc = syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
  return rc != 0 && errno == ETIMEDOUT ? Nap::kTimedOut : Nap::kChanged;
}

void futex_wake(SharedWord& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace stridio
