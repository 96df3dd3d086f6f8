// Locks of shared intervals, for accesses that must be atomic. An access takes all that it needs at once, managers in
// ascending order, so that nobody waits in a circle. No lock ever needs its manager, or any other rank, to be inside MPI:
// on one node the managers' tables are memory that all ranks map, across nodes the locks are the storage's.
#pragma once

#include <compare>
#include <memory>
#include <span>

#include "group/group.h"
#include "storage/storage.h"

namespace stridio {

// The lock of one set of shared intervals.
struct IntervalLock {
  int manager = 0;           // a rank
  std::uint32_t number = 0;  // of the manager's locks
  auto operator<=>(const IntervalLock&) const = default;
};

// Thread-safe.
class LockManager {
 public:
  virtual ~LockManager() = default;
  // Waits until nobody else holds a conflicting lock: a common interval, ranges that meet, and not both shared, or both
  // kTogether (by the storage that is exclusive). `intervals` ascend; an interval is locked in `range` of the file only. First come, first served. What a process held that has died
  // is taken from it, as far as this process can see that.
  virtual Result<std::unique_ptr<RangeLock>> lock(std::span<const IntervalLock> intervals, Extent range,
                                                  LockMode mode) = 0;
};

// Collective over `group`; `storage` must outlive it. In memory where all ranks share some, else by the storage.
Result<std::unique_ptr<LockManager>> make_lock_manager(Group& group, Storage& storage);

// Where the ranges of files end, for locks of the storage: what lies behind stands for other things than bytes.
inline constexpr Offset kSideRange = Offset{1} << 62;
// Of them, what lock managers lock.
inline constexpr Extent kIntervalLocks{kSideRange, Bytes{1} << 61};

}  // namespace stridio
