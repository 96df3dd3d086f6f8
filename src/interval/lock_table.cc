// A manager's table: a queue of requests. A request is a slot: who, which locks, which range. It is granted when no request
// before it conflicts: fair, and a holder has waited for nobody behind it. A rank takes its requests at several managers in
// ascending order of the managers, so no circle of waiting ranks can close.
//
// A slot's `state` is its request's number and what has become of it; a robust mutex a table guards everything else.
//   free -> waiting -> held        by whoever asks, under the mutex
//   held -> cached                 on release, without the mutex: the lock stays this rank's
//   cached -> held                 when the rank asks for no more than that again, without the mutex
//   cached -> free                 by anybody whose request conflicts, under the mutex: the cached lock is revoked
//   held|wanted -> free            on release where somebody waits for it: who is then woken
// Cached and held differ in one word that both sides change by compare-and-swap: a lock is either taken up again or revoked.
// The request's number in it tells the slot's next request apart.
//
// A process that dies leaves its mutex to the next (robust), and its slots to whoever waits for them and finds it dead.
#include "interval/lock_table.h"

#include <pthread.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <optional>
#include <vector>

#include "group/futex.h"
#include "group/process_id.h"

namespace stridio {
namespace {

constexpr int kMostTables = 16;                // managers beyond share them
constexpr std::size_t kMostLocks = 12;         // named by one request; with more it asks for all of the table's
constexpr std::chrono::milliseconds kNap{50};  // then looks whether those it waits for live

enum State : std::uint64_t { kFree, kWaiting, kHeld, kCached, kWanted = 4, kStates = 8 };

State state_of(std::uint64_t word) { return static_cast<State>(word & 3); }
std::uint64_t number_of(std::uint64_t word) { return word / kStates; }

struct Request {
  Extent range;
  LockMode mode = LockMode::kShared;
  std::size_t count = 0;  // of `locks`; more than kMostLocks: all
  std::array<std::uint64_t, kMostLocks> locks{};

  bool names(std::uint64_t lock) const {
    return count > kMostLocks || std::find(locks.begin(), locks.begin() + count, lock) != locks.begin() + count;
  }
  bool names_all(const Request& other) const {
    if (count > kMostLocks || other.count > kMostLocks) return count > kMostLocks;
    return std::all_of(other.locks.begin(), other.locks.begin() + other.count, [&](auto lock) { return names(lock); });
  }
  bool conflicts(const Request& other) const {
    if (mode == other.mode && mode != LockMode::kExclusive) return false;
    if (intersect(range, other.range).empty()) return false;
    if (other.count > kMostLocks) return count > 0;
    return std::any_of(other.locks.begin(), other.locks.begin() + other.count, [&](auto lock) { return names(lock); });
  }
  bool covers(const Request& other) const {
    return range.offset <= other.range.offset && range.end() >= other.range.end() &&
           (mode == LockMode::kExclusive || mode == other.mode) && names_all(other);
  }
};

struct alignas(64) Slot {
  std::atomic<std::uint64_t> state;
  std::int32_t rank;
  Request request;
};

struct alignas(64) Table {
  pthread_mutex_t mutex;
  SharedWord changed;     // sleepers wait on it
  std::uint64_t numbers;  // of requests, given out
};

struct Layout {
  explicit Layout(int ranks) : tables(std::min(ranks, kMostTables)), slots(2 * ranks + 16) {
    const auto round = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
    cards = round(sizeof(ProcessId) * static_cast<std::size_t>(ranks));
    table = sizeof(Table) + sizeof(Slot) * static_cast<std::size_t>(slots);
    length = cards + table * static_cast<std::size_t>(tables);
  }
  int tables, slots;
  std::size_t cards, table, length;
};

Status make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int failed = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (failed != 0) return fail_errno(failed, "making a lock manager's mutex");
  return {};
}

// A request of this rank's that is held, or cached.
struct Grant {
  Slot* slot = nullptr;
  std::uint64_t number = 0;
  Request request;  // as this rank has made it: the slot's may be another's by now
};

class LockTables final : public LockManager {
 public:
  LockTables(std::shared_ptr<Segment> segment, int rank, int ranks)
      : segment_(std::move(segment)),
        layout_(ranks),
        rank_(rank),
        ranks_(ranks),
        cached_(static_cast<std::size_t>(layout_.tables)) {
    cards()[rank] = this_process();
  }
  ~LockTables() override {
    for (std::optional<Grant>& grant : cached_)
      if (grant) revoke(*grant->slot, grant->number * kStates + kCached);
  }

  Status make_mutexes() {
    for (int i = 0; i < layout_.tables; ++i) RETURN_IF_ERROR(make_mutex(table(i).mutex));
    return {};
  }
  Result<std::unique_ptr<RangeLock>> lock(std::span<const IntervalLock> intervals, Extent range,
                                          LockMode mode) override;
  void release(int index, Grant grant);

 private:
  ProcessId* cards() const { return reinterpret_cast<ProcessId*>(segment_->data()); }
  Table& table(int i) const {
    return *reinterpret_cast<Table*>(segment_->data() + layout_.cards + layout_.table * static_cast<std::size_t>(i));
  }
  std::span<Slot> slots(int i) const {
    return {reinterpret_cast<Slot*>(&table(i) + 1), static_cast<std::size_t>(layout_.slots)};
  }
  int table_of(int manager) const { return static_cast<int>(std::int64_t{manager} * layout_.tables / ranks_); }

  Result<Grant> acquire(int index, const Request& request);
  bool take_up(int index, const Request& request, Grant& grant);
  bool may_go(int index, const Slot& own, std::uint64_t number);
  Slot* free_slot(int index);
  void take_from_the_dead(int index, const Slot& own);
  static bool revoke(Slot& slot, std::uint64_t cached) { return slot.state.compare_exchange_strong(cached, kFree); }
  void wake(int index) const {
    table(index).changed.fetch_add(1);
    futex_wake(table(index).changed);
  }

  const std::shared_ptr<Segment> segment_;
  const Layout layout_;
  const int rank_, ranks_;
  std::mutex mutex_;
  std::vector<std::optional<Grant>> cached_;  // by table: what this rank last released
};

// A waiter that is killed can take along the wake-up that another one needed, while a third takes the mutex and gives it back
// without seeing that anybody waits. So nobody waits long without trying again.
int lock_robust(pthread_mutex_t& mutex) {
  for (;;) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += std::chrono::nanoseconds(kNap).count();
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    const int error = pthread_mutex_timedlock(&mutex, &until);
#ifdef __SANITIZE_THREAD__  // which takes it for not locked
    if (error == EOWNERDEAD) {
      __tsan_mutex_pre_lock(&mutex, __tsan_mutex_try_lock);
      __tsan_mutex_post_lock(&mutex, __tsan_mutex_try_lock, 0);
    }
#endif
    if (error != ETIMEDOUT) return error;
  }
}

// The table's mutex, held.
class Guard {
 public:
  explicit Guard(pthread_mutex_t& mutex) : mutex_(mutex), error_(lock_robust(mutex)) {
    if (error_ != EOWNERDEAD) return;
    pthread_mutex_consistent(&mutex);
    error_ = 0;
  }
  ~Guard() {
    if (error_ == 0) pthread_mutex_unlock(&mutex_);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  Status status() const {
    if (error_ != 0) return fail_errno(error_, "entering a lock manager's table");
    return {};
  }

 private:
  pthread_mutex_t& mutex_;
  int error_;
};

// What an access holds, the last one first.
class Held final : public RangeLock {
 public:
  explicit Held(LockTables& tables) : tables_(tables) {}
  ~Held() override {
    for (auto grant = grants_.rbegin(); grant != grants_.rend(); ++grant)
      tables_.release(grant->first, std::move(grant->second));
  }
  void add(int index, Grant grant) { grants_.emplace_back(index, std::move(grant)); }

 private:
  LockTables& tables_;
  std::vector<std::pair<int, Grant>> grants_;  // by table
};

Result<std::unique_ptr<RangeLock>> LockTables::lock(std::span<const IntervalLock> intervals, Extent range,
                                                    LockMode mode) {
  auto held = std::make_unique<Held>(*this);
  for (std::size_t i = 0; i < intervals.size();) {
    const int index = table_of(intervals[i].manager);
    Request request{range, mode};
    for (; i < intervals.size() && table_of(intervals[i].manager) == index; ++i) {
      if (request.count < kMostLocks)
        request.locks[request.count] = static_cast<std::uint64_t>(intervals[i].manager) << 32 | intervals[i].number;
      request.count = std::min(request.count + 1, kMostLocks + 1);
    }
    ASSIGN_OR_RETURN(Grant grant, acquire(index, request));
    held->add(index, std::move(grant));
  }
  return held;
}

// What this rank has cached at the table, if that will do; drops it if not.
bool LockTables::take_up(int index, const Request& request, Grant& grant) {
  std::optional<Grant> cached;
  {
    const std::lock_guard lock(mutex_);
    cached = std::exchange(cached_[static_cast<std::size_t>(index)], std::nullopt);
  }
  if (!cached) return false;
  std::uint64_t word = cached->number * kStates + kCached;
  if (!cached->request.covers(request)) {
    revoke(*cached->slot, word);
    return false;
  }
  if (!cached->slot->state.compare_exchange_strong(word, cached->number * kStates + kHeld)) return false;
  grant = std::move(*cached);
  return true;
}

void LockTables::release(int index, Grant grant) {
  std::uint64_t word = grant.number * kStates + kHeld;
  Slot& slot = *grant.slot;
  bool keep = false;
  {
    const std::lock_guard lock(mutex_);
    std::optional<Grant>& cached = cached_[static_cast<std::size_t>(index)];
    keep = !cached;
    if (keep) cached = grant;
  }
  if (keep && slot.state.compare_exchange_strong(word, grant.number * kStates + kCached)) return;
  slot.state.store(kFree);
  wake(index);
}

Slot* LockTables::free_slot(int index) {
  for (const bool revoking : {false, true})
    for (Slot& slot : slots(index)) {
      const std::uint64_t word = slot.state.load();
      if (state_of(word) == kFree || (revoking && state_of(word) == kCached && revoke(slot, word))) return &slot;
    }
  return nullptr;
}

// Whether no request before `number` conflicts with it; leaves word with those that do.
bool LockTables::may_go(int index, const Slot& own, std::uint64_t number) {
  bool free = true;
  for (Slot& other : slots(index)) {
    for (std::uint64_t word = other.state.load(); &other != &own;) {
      if (state_of(word) == kFree || number_of(word) > number || !other.request.conflicts(own.request)) break;
      const bool cached = state_of(word) == kCached;
      if (!other.state.compare_exchange_strong(word, cached ? std::uint64_t{kFree} : word | kWanted)) continue;
      free = free && cached;
      break;
    }
  }
  return free;
}

void LockTables::take_from_the_dead(int index, const Slot& own) {
  const ProcessId& here = cards()[rank_];
  for (Slot& other : slots(index)) {
    if (&other == &own || state_of(other.state.load()) == kFree) continue;
    const ProcessId& there = cards()[other.rank];
    if (there.pid == here.pid || there.pid_namespace != here.pid_namespace || there.start_time == 0) continue;
    if (has_died(there)) other.state.store(kFree);
  }
  wake(index);
}

Result<Grant> LockTables::acquire(int index, const Request& request) {
  Grant grant;
  if (take_up(index, request, grant)) return grant;
  Table& table = this->table(index);
  grant.request = request;
  for (bool timed_out = false;;) {
    std::uint32_t seen = 0;
    {
      const Guard guard(table.mutex);
      RETURN_IF_ERROR(guard.status());
      seen = table.changed.load();
      if (timed_out && grant.slot) take_from_the_dead(index, *grant.slot);
      if (!grant.slot) {
        grant.slot = free_slot(index);
        if (grant.slot) {
          grant.number = ++table.numbers;
          grant.slot->rank = rank_;
          grant.slot->request = request;
          grant.slot->state.store(grant.number * kStates + kWaiting);
        }
      }
      if (grant.slot && may_go(index, *grant.slot, grant.number)) {
        const std::uint64_t wanted = grant.slot->state.load() & kWanted;
        grant.slot->state.store(grant.number * kStates + kHeld + wanted);
        return grant;
      }
    }
    // Who finds no slot is told of none that becomes free.
    timed_out = futex_sleep(table.changed, seen, grant.slot ? kNap : std::chrono::milliseconds(1)) == Nap::kTimedOut;
  }
}

}  // namespace

Bytes lock_table_bytes(int ranks) { return static_cast<Bytes>(Layout(ranks).length); }

Result<std::unique_ptr<LockManager>> make_lock_tables(std::shared_ptr<Segment> segment, int rank, int ranks,
                                                      bool first) {
  auto tables = std::make_unique<LockTables>(std::move(segment), rank, ranks);
  if (first) RETURN_IF_ERROR(tables->make_mutexes());
  return tables;
}

}  // namespace stridio
