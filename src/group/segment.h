// Memory that several processes of one machine map, with its space reserved, and how they agree on
// having it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

class Group;

// How ranks talk before they have a group: what MPI, threads and forked processes can each supply.
struct Bootstrap {
  int rank = 0;
  int size = 1;
  // Every rank's bytes (equal lengths, a few hundred at most), by rank; returns when all ranks have
  // called.
  std::function<Status(std::span<const std::byte> mine, std::span<std::byte> all)> allgather;
};

// One group as the bootstrap of the next. The group must outlive its use.
Bootstrap bootstrap_over(Group& group);

// A mapping, unmapped with its last owner. Zeroed at creation.
class Segment {
 public:
  // Of the object behind `fd`, which it closes; none: all space is reserved.
  Segment(std::byte* data, Bytes length, Bytes reserved, int fd = -1)
      : data_(data), length_(length), fd_(fd), reserved_(reserved) {}
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  Bytes length() const { return length_; }

  // Whether the first `length` bytes have their space, which they are given where they have not: who touches others may
  // die of it. Not collective; any rank, any thread.
  bool reserve(Bytes length);

 private:
  std::byte* const data_;
  const Bytes length_;
  const int fd_;
  std::atomic<Bytes> reserved_;  // as this process knows it
};

// Collective over the bootstrap: a segment of `length` bytes (the same on all ranks, rounded up to
// pages), the first `reserved` of them with their space, that every rank has mapped, and on which every rank has run
// `attached` before any rank gets it. `one_address_space`: the ranks are threads, which share one mapping. Fails with
// kNoMemory, on every rank, where any rank cannot have it; with another code where the bootstrap
// does. No name of it remains afterwards, whatever happens, unless rank 0 is killed during the
// call.
Result<std::shared_ptr<Segment>> agree_on_segment(const Bootstrap& bootstrap, Bytes length, Bytes reserved,
                                                  bool one_address_space,
                                                  const std::function<void(Segment&)>& attached = {});

}  // namespace stridio
