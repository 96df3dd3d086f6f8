// Two handles of a file, opened apart, know nothing of each other's views; only locks of the storage tell them apart, and
// those would also tell apart the ranks of one handle, whose ranges meet while their bytes do not. So:
//  - The first opener in atomic mode holds a byte of the side range exclusively, for as long as it has the file open. While it
//    is the only one, an access of its ranks takes a byte of the crossing, each another one, which never waits.
//  - Every later opener holds the whole crossing shared: from then on no access of the first gets its byte.
//  - Whoever has no byte of the crossing locks the range of its access, from its first to its last byte.
// So two accesses of different openers never run at once unless their ranges do not meet.
#include "file/atomicity.h"

#include <algorithm>
#include <random>

#include "base/guarded.h"
#include "collective/agreement.h"

namespace stridio {
namespace {

constexpr Offset kFirstOpener = kIntervalLocks.offset + kIntervalLocks.length;
constexpr Extent kCrossing{kFirstOpener + 1, Bytes{1} << 48};
constexpr std::uint32_t kAccesses = 1 << 16;  // places a rank has in the crossing

// The intervals are given back first: for them others wait.
class Held final : public RangeLock {
 public:
  Held(RangeTable& table, RangeTable::Ticket own) : table_(table), own_(own) {}
  ~Held() override {
    intervals_.reset();
    openers_.reset();
    table_.release(own_);
  }
  void set_intervals(std::unique_ptr<RangeLock> lock) { intervals_ = std::move(lock); }
  void set_openers(std::unique_ptr<RangeLock> lock) { openers_ = std::move(lock); }

 private:
  RangeTable& table_;
  const RangeTable::Ticket own_;
  std::unique_ptr<RangeLock> intervals_, openers_;
};

// One that nobody waits for, as a rule: it is given back in the background if nothing else is under way there.
class ReleasedBeside final : public RangeLock {
 public:
  ReleasedBeside(std::unique_ptr<RangeLock> lock, Worker& worker) : lock_(std::move(lock)), worker_(worker) {}
  ~ReleasedBeside() override {
    if (!worker_.idle_within(std::chrono::microseconds(0))) return;
    (void)guarded([&]() -> Status {
      const auto lock = std::make_shared<std::unique_ptr<RangeLock>>(std::move(lock_));
      worker_.post_or_run([lock] { lock->reset(); });
      return {};
    });
  }

 private:
  std::unique_ptr<RangeLock> lock_;
  Worker& worker_;
};

bool has_no_locks(const Error& error) { return error.code == Code::kUnsupportedOperation; }

// An exclusive lock is refused to who may only read.
bool is_refused(const Error& error) { return error.code == Code::kFileInUse || error.code == Code::kAccess; }

}  // namespace

Result<std::unique_ptr<Atomicity>> Atomicity::start(Group& group, Storage& storage, bool readable, bool far) {
  std::unique_ptr<Atomicity> made(new Atomicity(storage, far));
  ASSIGN_OR_RETURN(made->locks_, make_lock_manager(group, storage));
  Status mine;
  const IntervalLock any;  // whether locks can be had shows at the first try
  if (const auto probe = made->locks_->lock({&any, 1}, {0, 1}, readable ? LockMode::kShared : LockMode::kExclusive);
      !probe)
    mine = fail(probe.error());
  if (mine && group.rank() == 0) mine = made->join_openers(readable);
  RETURN_IF_ERROR(agree(group, mine));
  made->place_ = std::random_device()();
  ASSIGN_OR_RETURN(const std::vector<char> alone, allgather(group, static_cast<char>(made->may_be_alone_)));
  made->may_be_alone_ = alone.front() != 0;
  return made;
}

// Of all ranks by the first. Where locks cannot be had there is nobody to be told apart from.
Status Atomicity::join_openers(bool readable) {
  auto first = storage_.lock({kFirstOpener, 1}, LockMode::kExclusiveNow);
  if (first) {
    presence_ = *std::move(first);
    may_be_alone_ = true;
    return {};
  }
  if (has_no_locks(first.error())) return {};
  if (!is_refused(first.error())) return fail(first.error());
  if (!readable) return {};                                     // who may not read cannot hold a shared lock
  auto crossing = storage_.lock(kCrossing, LockMode::kShared);  // waits for accesses under way
  if (crossing) presence_ = *std::move(crossing);
  if (!crossing) return fail(crossing.error());
  return {};
}

void Atomicity::cut(Group& group, const View& view) {
  known_ = false;
  auto sets = cut_intervals(group, {view.displacement, view.filetype, view.filetype_extent});
  known_ = sets.has_value();
  sets_ = known_ ? *std::move(sets) : IntervalSets();
}

bool Atomicity::shares(Extent range) const {
  bool any = !known_;
  if (known_) sets_.each_shared_in(range, [&](const SharedIntervals&) { any = true; });
  return any;
}

Result<std::unique_ptr<RangeLock>> Atomicity::exclude_openers(Extent range, LockMode mode, bool whole_range) {
  if (may_be_alone_ && !whole_range) {
    const Offset place = static_cast<Offset>(std::uint64_t{place_} * kAccesses + accesses_++ % kAccesses);
    auto crossing = storage_.lock({kCrossing.offset + place, 1}, LockMode::kExclusiveNow);
    if (crossing && far_) return std::make_unique<ReleasedBeside>(*std::move(crossing), releasing_);
    if (crossing || !(is_refused(crossing.error()) || has_no_locks(crossing.error()))) return crossing;
  }
  const Extent bytes = intersect(range, {0, kSideRange});
  auto lock = storage_.lock(bytes.empty() ? Extent{kSideRange - 1, 1} : bytes, mode);
  if (!lock && has_no_locks(lock.error())) return nullptr;
  return lock;
}

Result<std::unique_ptr<RangeLock>> Atomicity::hold(Extent range, LockMode mode, bool whole_range) {
  auto held = std::make_unique<Held>(own_, own_.acquire(range, mode));
  // First, as it asks the storage: nobody should wait for that.
  ASSIGN_OR_RETURN(auto openers, exclude_openers(range, mode, whole_range));
  held->set_openers(std::move(openers));
  std::vector<IntervalLock> intervals;
  if (known_) {
    sets_.each_shared_in(range, [&](const SharedIntervals& each) { intervals.push_back({each.manager, each.lock}); });
  } else {
    intervals.push_back({});
  }
  if (!intervals.empty()) {
    std::sort(intervals.begin(), intervals.end());
    ASSIGN_OR_RETURN(auto locks, locks_->lock(intervals, range, mode));
    held->set_intervals(std::move(locks));
  }
  return held;
}

}  // namespace stridio
