// A group of processes that do collective I/O together: the little of message passing that the collective
// strategies need, over MPI, over threads of one process (tests, simulation), with or without shared memory.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "base/result.h"
#include "group/futex.h"

namespace stridio {

using Buffer = std::vector<std::byte>;

// One message of an exchange: `bytes` to or from `peer`.
struct Message {
  int peer = 0;
  Span bytes;
};

// An exchange that was started.
using Ticket = std::uint64_t;

class Levels;
class Segment;

// Memory that all ranks of the group see, at different addresses. Zeroed at creation.
struct SharedMemory {
  std::byte* data = nullptr;
  Bytes length = 0;
};

// Every member function except rank(), size(), node_of() and node_count() is collective: all ranks call it,
// in the same order, and a rank that failed locally still does. One thread of a rank at a time.
// Waits sleep at most 1 ms at a time and then drive the host's progress. Where a peer is found dead, the call
// fails on every surviving rank with kOther naming it; a group that has failed so stays failed.
class Group {
 public:
  Group();
  virtual ~Group();

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The node of a rank, 0 <= node < node_count(); ranks of one node share memory if shared() can be had.
  virtual int node_of(int rank) const = 0;
  virtual int node_count() const = 0;

  // Every rank's `mine` (equal lengths on all ranks, at most kAgreementBytes), by rank, in `all`.
  virtual Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // Starts to send and to receive; lengths of both sides agree, and at most one message is under way from one rank to
  // another. The buffers are lent until finish(), which every exchange needs: it waits until this one is done, and
  // meanwhile drives those that were started besides. A rank without messages need not take part.
  virtual Ticket start(std::span<const Message> sends, std::span<const Message> receives) = 0;
  virtual Status finish(Ticket ticket) = 0;
  Status exchange(std::span<const Message> sends, std::span<const Message> receives) {
    return finish(start(sends, receives));
  }
  virtual Status barrier() = 0;

  // A segment of at least `length` bytes (the same on all ranks) that all ranks map, or an empty one where the
  // group is not on one node or memory cannot be had on every rank (the same answer on all ranks; a length that
  // was refused once is refused from then on). Zeroed when made. The group owns it; it stays valid, and keeps
  // its bytes' place, until the next call with a larger length. A call that needs no new one does not wait.
  virtual Result<SharedMemory> shared(Bytes length) = 0;

  // A new segment of at least `length` bytes, zeroed, which all ranks map until the last of them drops it; null where
  // shared() would be empty. The first `reserved` bytes have their space at once, the others by Segment::reserve(). Both
  // are the same on all ranks. Always waits.
  virtual Result<std::shared_ptr<Segment>> segment(Bytes length, Bytes reserved);
  // One that the group keeps: made at the first call, with its lengths, and at each later one as it was left, without waiting.
  virtual Result<std::shared_ptr<Segment>> lasting_segment(Bytes length, Bytes reserved);
  // The same where it has been made, else null. Not collective.
  virtual std::shared_ptr<Segment> lasting_segment();

  // Between two collective calls, by any rank: waits until `bell`, which lies in shared(), has rung since `heard` rings. Fails as
  // those do. `missing`: the ranks that are waited for, to tell where it takes too long.
  virtual Status await(Bell& bell, std::uint32_t heard, const std::function<std::vector<int>()>& missing);

  // kPersistentBytes that all ranks map for as long as the group lives, at one place, zeroed when the group was made;
  // empty where memory is not shared. Not collective: any rank may use it at any time (atomically).
  virtual SharedMemory persistent() { return {}; }

  // Whether the members work on a thread that must not call the MPI library: nothing but shared memory is behind them.
  virtual bool runs_anywhere() const { return false; }

  // The group as nodes; made at the first call. `share`: false takes each rank for a node of its own, as is done
  // anyway where memory cannot be shared on every node.
  Result<Levels*> levels(bool share = true);

  static constexpr Bytes kAgreementBytes = 4096;
  static constexpr Bytes kPersistentBytes = 64;

 protected:
  virtual Result<std::unique_ptr<Levels>> make_levels(bool share) = 0;

 private:
  std::unique_ptr<Levels> shared_levels_, solo_levels_;
};

// An exchange under way; finished at the latest when its scope ends, since its buffers may end there too.
class Exchange {
 public:
  Exchange(Group& group, std::span<const Message> sends, std::span<const Message> receives)
      : group_(group), ticket_(group.start(sends, receives)) {}
  ~Exchange() { (void)finish(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Status finish() {
    if (std::exchange(finished_, true)) return {};
    return group_.finish(ticket_);
  }

 private:
  Group& group_;
  const Ticket ticket_;
  bool finished_ = false;
};

// allgather of one trivially copyable value.
template <typename T>
Result<std::vector<T>> allgather(Group& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) <= Group::kAgreementBytes);
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  RETURN_IF_ERROR(group.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all))));
  return all;
}

// Every rank's bytes, of any length, by rank.
Result<std::vector<Buffer>> allgatherv(Group& group, std::span<const std::byte> mine);

// Bytes of any length to and from each rank, by rank (an empty buffer sends nothing); lengths are exchanged first.
Result<std::vector<Buffer>> alltoallv(Group& group, std::span<const Buffer> sends);

}  // namespace stridio
