// Locks by the storage: each interval has a stretch of the side range, in which its part at an offset of the file stands at
// that offset. The kernel or the file server keeps the order of requests and drops what dead processes held.
#include "interval/lock.h"

#include <algorithm>
#include <vector>

#include "interval/lock_table.h"

namespace stridio {
namespace {

constexpr std::int64_t kStretches = 2048;                       // intervals beyond share them
constexpr Bytes kStretch = kIntervalLocks.length / kStretches;  // of which the last byte stands for all offsets beyond
constexpr std::size_t kMostStretches = 16;  // locked one by one; an access with more locks all there are

class HeldRanges final : public RangeLock {
 public:
  void add(std::unique_ptr<RangeLock> lock) { locks_.push_back(std::move(lock)); }

 private:
  std::vector<std::unique_ptr<RangeLock>> locks_;
};

class StorageLocks final : public LockManager {
 public:
  explicit StorageLocks(Storage& storage) : storage_(storage) {}

  Result<std::unique_ptr<RangeLock>> lock(std::span<const IntervalLock> intervals, Extent range,
                                          LockMode mode) override {
    auto held = std::make_unique<HeldRanges>();
    for (const Extent& each : side_ranges(intervals, range)) {
      ASSIGN_OR_RETURN(auto lock, storage_.lock(each, mode == LockMode::kTogether ? LockMode::kExclusive : mode));
      held->add(std::move(lock));
    }
    return held;
  }

 private:
  // Ascending: the order in which all ranks, of all programs, take them.
  static std::vector<Extent> side_ranges(std::span<const IntervalLock> intervals, Extent range) {
    if (intervals.size() > kMostStretches) return {kIntervalLocks};
    const Offset begin = std::min(range.offset, kStretch - 1), end = std::clamp(range.end(), begin + 1, kStretch);
    std::vector<std::int64_t> stretches;
    for (const IntervalLock& each : intervals)
      stretches.push_back((std::int64_t{each.manager} * 61 + each.number) % kStretches);
    std::sort(stretches.begin(), stretches.end());
    stretches.erase(std::unique(stretches.begin(), stretches.end()), stretches.end());
    std::vector<Extent> ranges;
    for (const std::int64_t each : stretches) ranges.push_back({kSideRange + each * kStretch + begin, end - begin});
    return ranges;
  }

  Storage& storage_;
};

}  // namespace

Result<std::unique_ptr<LockManager>> make_lock_manager(Group& group, Storage& storage) {
  const Bytes length = lock_table_bytes(group.size());
  ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, group.segment(length, length));
  if (!segment) return std::make_unique<StorageLocks>(storage);
  auto tables = make_lock_tables(std::move(segment), group.rank(), group.size(), group.rank() == 0);
  ASSIGN_OR_RETURN(const std::vector<Code> made, allgather(group, tables ? Code::kOk : tables.error().code));
  if (!tables) return fail(tables.error());
  for (const Code code : made)
    if (code != Code::kOk) return fail(code, "another rank could not make the lock managers' tables");
  return tables;
}

}  // namespace stridio
