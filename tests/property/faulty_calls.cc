#include "property/faulty_calls.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

namespace stridio::testing {
namespace {

// What this thread's calls do.
struct Fate {
  bool transient = false;
  std::uint64_t state = 0;
  std::optional<FaultPlan> plan;
  std::int64_t operations = 0;

  // splitmix64.
  std::uint64_t random() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
};
thread_local Fate fate;

// Whether this call fails, with errno set.
bool strikes(unsigned kind) {
  if (fate.transient && fate.random() % 4 == 0) {
    errno = EINTR;
    return true;
  }
  if (!fate.plan || (fate.plan->kinds & kind) == 0) return false;
  const std::int64_t after = fate.operations++ - fate.plan->first;
  const bool fails = after == 0 || (after > 0 && fate.plan->every > 0 && after % fate.plan->every == 0);
  if (fails) errno = fate.plan->sys_errno;
  return fails;
}

// At least one byte of any that are asked for.
std::size_t part_of(std::size_t length) {
  if (!fate.transient || length < 2 || fate.random() % 2 == 0) return length;
  return 1 + fate.random() % (length - 1);
}

std::vector<iovec> part_of(const iovec* pieces, int count) {
  std::size_t length = 0;
  for (int i = 0; i < count; ++i) length += pieces[i].iov_len;
  length = part_of(length);
  std::vector<iovec> part;
  for (int i = 0; i < count && length > 0; ++i) {
    part.push_back({pieces[i].iov_base, std::min(length, pieces[i].iov_len)});
    length -= part.back().iov_len;
  }
  return part;
}

}  // namespace

TransientFaults::TransientFaults(std::uint64_t seed) {
  fate = {};
  fate.transient = true;
  fate.state = seed;
}
TransientFaults::~TransientFaults() { fate = {}; }

LastingFaults::LastingFaults(const FaultPlan& plan) {
  fate = {};
  fate.plan = plan;
}
LastingFaults::~LastingFaults() { fate = {}; }

PosixCalls faulty_calls() {
  PosixCalls calls;
  calls.pread = [](int fd, void* data, std::size_t length, off_t offset) -> ssize_t {
    return strikes(kFaultRead) ? -1 : ::pread(fd, data, part_of(length), offset);
  };
  calls.pwrite = [](int fd, const void* data, std::size_t length, off_t offset) -> ssize_t {
    return strikes(kFaultWrite) ? -1 : ::pwrite(fd, data, part_of(length), offset);
  };
  calls.preadv = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    if (strikes(kFaultRead)) return -1;
    const std::vector<iovec> part = part_of(pieces, count);
    return ::preadv(fd, part.data(), static_cast<int>(part.size()), offset);
  };
  calls.pwritev = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    if (strikes(kFaultWrite)) return -1;
    const std::vector<iovec> part = part_of(pieces, count);
    return ::pwritev(fd, part.data(), static_cast<int>(part.size()), offset);
  };
  calls.ftruncate = [](int fd, off_t size) { return strikes(kFaultResize) ? -1 : ::ftruncate(fd, size); };
  calls.fsync = [](int fd) { return strikes(kFaultSync) ? -1 : ::fsync(fd); };
  calls.lock = [](int fd, int command, struct flock* range) {
    return command == F_OFD_SETLKW && strikes(kFaultLock) ? -1 : ::fcntl(fd, command, range);
  };
  return calls;
}

}  // namespace stridio::testing
