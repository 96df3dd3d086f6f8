// Writes that a rank keeps in memory (interval/cache.h) until the file is synchronized or closed, or the memory is full.
// Until then other ranks may not see them, which MPI allows outside atomic mode (MPI-4.1 section 14.6.1), and
// nothing of them costs a request or another rank. Together they go through the collective engine; where one rank alone is full,
// by itself, since an independent write must not wait for others.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/guarded.h"
#include "base/text.h"
#include "collective/agreement.h"
#include "file/file_impl.h"

namespace stridio {
namespace {

constexpr Bytes kOfLongWrite = 4;  // a fourth of a long write is long enough to go by itself

}  // namespace

// The same on all ranks. Unasked only where nobody could see a write before the commit anyway: not another rank, which a message
// may tell that something has been written (so parallel HDF5 and PnetCDF order their accesses), nor another program.
bool FileImpl::may_keep() const {
  const bool alone = parts_.group->size() == 1 && parts_.interval;
  const Switch wanted = parts_.hints.cache;
  return cache_ && !atomic_ && !shown_ && (wanted == Switch::kEnable || (wanted == Switch::kAutomatic && alone));
}

// To an interval file whatever is kept goes by one long write, so it goes as soon as it makes one: where storage is near by this
// thread, as bytes that a core's cache still has; where it is far in the background, while the program computes.
Bytes FileImpl::long_write() const { return summed_requests(parts_.profile).longest_written; }

Bytes FileImpl::cache_budget() const {
  const bool goes_on = parts_.interval && !parts_.profile.write.waits();
  return goes_on ? std::min(parts_.hints.cache_bytes, long_write()) : parts_.hints.cache_bytes;
}

// Whether a write is worth it: if asked for, where there will be room, and an interval file would not take it as well as it is;
// else where its bytes cost the storage less than a request.
bool FileImpl::keeps(Bytes bytes) const {
  if (!may_keep()) return false;
  if (parts_.hints.cache != Switch::kEnable) return static_cast<double>(bytes) < parts_.profile.write.request_bytes();
  const bool is_long = parts_.interval && bytes >= long_write() / kOfLongWrite;
  return bytes <= cache_->budget() && !is_long;
}

Storage& FileImpl::seen_storage() {
  if (cache_ && !cache_->empty()) return *cache_;
  return *parts_.storage;
}

Result<Bytes> FileImpl::keep(const Pattern& file, const Memory& memory, bool collective) {
  RETURN_IF_ERROR(cache_->put(file, memory));
  if (parts_.interval && parts_.profile.write.waits() && cache_->newest() >= long_write()) drain_beside();
  const char* const until = parts_.interval ? "a long write, sync or close" : "sync or close";
  const std::string why = !wants_reasons() ? std::string()
                                           : fmt::format("kept in memory until {} (stridio_cache): {} in {}", until,
                                                         counted(file.size(), "byte"), counted(file.runs(), "range"));
  parts_.report->count(Direction::kWrite, collective, file.size(), "cache", why);
  explain(collective ? "write_all" : "write", "cache: " + why);
  return file.size();
}

// Afterwards something is kept only if another thread is handing it on: then this write must come behind it.
Result<Bytes> FileImpl::write_alone(const Pattern& file, const Memory& memory) {
  const bool wanted = keeps(file.size());
  if (cache_ && (wanted ? !cache_->fits(file.size()) : !cache_->empty())) RETURN_IF_ERROR(drain());
  if (cache_ && ((wanted && cache_->fits(file.size())) || !cache_->empty())) return keep(file, memory, false);
  ASSIGN_OR_RETURN(const Transferred moved, execute_alone(Direction::kWrite, file, memory));
  return moved.bytes;
}

// Collective: whether all keep what they write; then there is room on each.
Result<bool> FileImpl::kept_together(const CollectiveRequest& request) {
  if (!may_keep() || parts_.hints.cache != Switch::kEnable) return false;
  struct Entry {
    Verdict verdict;
    bool fits, ever, empty;
  };
  const Bytes bytes = request.file.size();
  Status mine = request.invalid ? fail(*request.invalid) : Status();
  const bool ever = keeps(bytes), fits = ever && cache_->fits(bytes);
  if (mine && ever) mine = cache_->prepare(bytes);
  ASSIGN_OR_RETURN(const auto entries, allgather(*parts_.group, Entry{verdict_of(mine), fits, ever, cache_->empty()}));
  std::vector<Verdict> verdicts;
  bool all_fit = true, all_ever = true, all_empty = true;
  for (const Entry& entry : entries) {
    verdicts.push_back(entry.verdict);
    all_fit = all_fit && entry.fits;
    all_ever = all_ever && entry.ever;
    all_empty = all_empty && entry.empty;
  }
  RETURN_IF_ERROR(worst(verdicts));
  if (!all_fit && !all_empty) RETURN_IF_ERROR(flush_together());
  return all_ever;
}

// Of this rank alone. Waits for another thread that is at it, but not for one that may be waiting for other ranks.
Status FileImpl::drain() {
  if (!cache_ || cache_->empty()) return {};
  std::unique_lock lock(draining_, std::try_to_lock);
  while (!lock && !flushing_together_) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.try_lock();
  }
  return lock ? hand_on() : Status();
}

// What fails stays, for the next try to fail or not.
void FileImpl::drain_beside() {
  if (draining_beside_.exchange(true)) return;
  beside_.post_or_run([this] {
    if (const std::unique_lock lock(draining_, std::try_to_lock); lock) (void)guarded([&] { return hand_on(); });
    draining_beside_ = false;
  });
}

CollectiveRequest FileImpl::request_for(const WriteCache::Batch& batch) {
  CollectiveRequest request;
  request.direction = Direction::kWrite;
  request.file = batch.file;
  request.memory = batch.memory;
  request.access = access_rules(Direction::kWrite, batch.file);
  request.access.may_modify_holes = request.access.lock_writes;  // the holes are no longer those of a view
  request.rules = collective_rules(Direction::kWrite);
  request.profile = parts_.profile;
  request.correction = correction(Direction::kWrite);
  request.explains = parts_.explain;
  return request;
}

// All that is kept now; other threads may keep more meanwhile.
Status FileImpl::hand_on() {
  for (int left = cache_->batches(); left > 0; --left) {
    const CollectiveRequest request = request_for(cache_->oldest());
    if (request.file.empty()) return {};
    ASSIGN_OR_RETURN(const RequestShape shape,
                     shape_on(*parts_.storage, parts_.profile, Direction::kWrite, request.file, request.memory));
    const AccessPlan plan =
        plan_access(shape, parts_.storage->caps(), parts_.profile, request.access, request.correction);
    if (parts_.explain) explain("full cache", plan.explain());
    RETURN_IF_ERROR(
        execute(plan, *parts_.storage, Direction::kWrite, request.file, request.memory, parts_.report->times()));
    cache_->drop();
  }
  return {};
}

// Collective; fails alike on all ranks, and what was not written is still kept for a further try.
Status FileImpl::flush_together() {
  if (!may_keep()) return {};
  std::unique_lock lock(draining_);
  if (parts_.interval) {
    const Status mine = guarded([&] { return hand_on(); });
    lock.unlock();
    return agree(*parts_.group, mine);
  }
  flushing_together_ = true;
  const Status flushed = flush_batches();
  flushing_together_ = false;
  return flushed;
}

Status FileImpl::flush_batches() {
  ASSIGN_OR_RETURN(const auto batches, allgather(*parts_.group, cache_->batches()));
  for (int left = *std::max_element(batches.begin(), batches.end()); left > 0; --left) {
    CollectiveRequest request;
    request.direction = Direction::kWrite;
    const Status made = guarded([&]() -> Status {
      request = request_for(cache_->oldest());
      return {};
    });
    if (!made) request.invalid = made.error();
    ASSIGN_OR_RETURN(const CollectiveOutcome outcome,
                     run_collective(*parts_.group, *parts_.storage, request, parts_.report->times()));
    explain("flush", outcome.why);
    if (!request.file.empty()) cache_->drop();
  }
  return {};
}

}  // namespace stridio
