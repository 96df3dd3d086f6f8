// What atomic mode holds during an access: the locks of the intervals that it touches and other ranks' views share, and
// its place among other openers of the file.
#pragma once

#include <atomic>
#include <memory>

#include "base/worker.h"
#include "file/file.h"
#include "interval/lock.h"
#include "interval/sets.h"
#include "storage/range_table.h"

namespace stridio {

class Atomicity {
 public:
  // Collective. `storage` must outlive it, and it what hold() gives. `far`: locks of the storage that nobody waits for are given
  // back in the background. kUnsupportedOperation where the ranks share no memory and the storage has no locks.
  static Result<std::unique_ptr<Atomicity>> start(Group& group, Storage& storage, bool readable, bool far);

  // Collective: the ranks' views from now on. Nobody is in an access. Where the sets cannot be had, for want of memory, all
  // counts as shared by all.
  void cut(Group& group, const View& view);

  // While held, the access to `range`, of which the rank's view has all bytes that it touches, is atomic. `whole_range`:
  // the range is locked against all that lock ranges of the file.
  Result<std::unique_ptr<RangeLock>> hold(Extent range, LockMode mode, bool whole_range);

  // Whether other ranks' views have bytes of the rank's own in `range`, as far as is known.
  bool shares(Extent range) const;

  const IntervalSets& sets() const { return sets_; }

 private:
  Atomicity(Storage& storage, bool far) : storage_(storage), far_(far) {}
  Status join_openers(bool readable);
  Result<std::unique_ptr<RangeLock>> exclude_openers(Extent range, LockMode mode, bool whole_range);

  Storage& storage_;
  const bool far_;
  std::unique_ptr<LockManager> locks_;
  IntervalSets sets_;
  bool known_ = false;                   // the sets
  RangeTable own_;                       // held by this rank's threads
  std::unique_ptr<RangeLock> presence_;  // on the first rank
  bool may_be_alone_ = false;            // the first of the file's openers
  std::atomic<std::uint32_t> accesses_{0};
  std::uint32_t place_ = 0;
  Worker releasing_;  // ends first
};

}  // namespace stridio
