#include "conformance/unreliable_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace stridio {

namespace {

// The next of a fixed sequence of well-mixed numbers (splitmix64), so that one thread always sees
// the same.
std::uint64_t next_number() {
  static std::atomic<std::uint64_t> calls = 0;
  std::uint64_t z = calls.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool interrupted() {
  if (next_number() % 2 == 0) return false;
  errno = EINTR;
  return true;
}

// At least one byte of any that are asked for, and at most half where there are two.
std::size_t part_of(std::size_t length) {
  if (length < 2) return length;
  return 1 + next_number() % (length / 2);
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

PosixCalls unreliable_calls() {
  PosixCalls calls;
  calls.pread = [](int fd, void* data, std::size_t length, off_t offset) -> ssize_t {
    return interrupted() ? -1 : ::pread(fd, data, part_of(length), offset);
  };
  calls.pwrite = [](int fd, const void* data, std::size_t length, off_t offset) -> ssize_t {
    return interrupted() ? -1 : ::pwrite(fd, data, part_of(length), offset);
  };
  calls.preadv = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    if (interrupted()) return -1;
    const std::vector<iovec> part = part_of(pieces, count);
    return ::preadv(fd, part.data(), static_cast<int>(part.size()), offset);
  };
  calls.pwritev = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    if (interrupted()) return -1;
    const std::vector<iovec> part = part_of(pieces, count);
    return ::pwritev(fd, part.data(), static_cast<int>(part.size()), offset);
  };
  calls.ftruncate = [](int fd, off_t size) { return interrupted() ? -1 : ::ftruncate(fd, size); };
  calls.fallocate = [](int fd, int mode, off_t offset, off_t length) {
    return interrupted() ? -1 : ::fallocate(fd, mode, offset, length);
  };
  calls.fsync = [](int fd) { return interrupted() ? -1 : ::fsync(fd); };
  calls.lock = [](int fd, int command, struct flock* range) {
    return command == F_OFD_SETLKW && interrupted() ? -1 : ::fcntl(fd, command, range);
  };
  return calls;
}

}  // namespace stridio
