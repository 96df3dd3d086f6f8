#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "base/cores.h"
#include "base/guarded.h"
#include "base/log.h"
#include "base/text.h"
#include "collective/agreement.h"
#include "file/file_impl.h"
#include "file/hint_sources.h"
#include "file/profiles.h"
#include "file/view.h"
#include "storage/posix.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kWorthCounting = Bytes{64} << 10;  // writes for which other ranks wait

// The name wherever the process goes: of a link its own, not that of what it leads to.
std::string absolute(const std::string& path) {
  const std::filesystem::path name(path);
  return (std::filesystem::path(resolved_posix((name.parent_path() / ".").string())) / name.filename()).string();
}

Error at_path(Error error, const std::string& path) {
  if (error.path.empty()) error.path = path;
  return error;
}

std::uint64_t fingerprint(const View& view) {
  const std::vector<std::byte> bytes = view.filetype.encode();
  const std::int64_t numbers[] = {view.displacement, view.filetype_extent};
  return XXH64(bytes.data(), bytes.size(), XXH64(numbers, sizeof numbers, 0));
}

}  // namespace

FileImpl::FileImpl(FileParts parts) : parts_(std::move(parts)), shown_(parts_.hints.visible_at_once) {
  note_layout();
  if (parts_.mode.writes()) cache_ = std::make_unique<WriteCache>(*parts_.storage, cache_budget());
  if (parts_.checks) conflicts_ = std::make_unique<Conflicts>();
}

void FileImpl::note_layout() {
  parts_.hints.entries["stridio_layout"] = parts_.interval ? "interval" : "flat";
  const bool at_once =
      parts_.interval ? shown_ && parts_.mode.writes() : shown_ || parts_.hints.cache != Switch::kEnable;
  parts_.hints.entries["romio_visibility_immediate"] = at_once ? "true" : "false";
  if (parts_.interval && parts_.mode.read_only && parts_.hints.wait_generation)
    parts_.hints.entries["stridio_wait_generation"] = std::to_string(parts_.interval->root().generation);
}

// ---- Sizes, synchronization, closing

Status FileImpl::change_size(Bytes size, Status (Storage::*change)(Bytes), const char* what) {
  Status mine;
  if (size < 0) mine = fail(Code::kArgument, fmt::format("{}: size {} is negative", what, size));
  if (mine && !parts_.mode.writes())
    mine = fail(Code::kReadOnly, fmt::format("{}: the file was opened for reading only", what));
  struct Entry {
    Bytes size;
    Verdict verdict;
  };
  ASSIGN_OR_RETURN(const auto entries, allgather(*parts_.group, Entry{size, verdict_of(mine)}));
  std::vector<Verdict> verdicts;
  for (const Entry& entry : entries) verdicts.push_back(entry.verdict);
  RETURN_IF_ERROR(worst(verdicts));
  for (const Entry& entry : entries)
    if (entry.size != entries.front().size)
      return fail(Code::kNotSame,
                  fmt::format("{}: the ranks give different sizes, {} and {}", what, entries.front().size, entry.size));
  RETURN_IF_ERROR(flush_together());
  reached_ = 0;
  if (parts_.group->rank() == 0 || parts_.interval) mine = (parts_.storage.get()->*change)(size);
  RETURN_IF_ERROR(agree(*parts_.group, mine));
  return refresh();
}

Status FileImpl::set_size(Bytes size) { return change_size(size, &Storage::resize, "set_size"); }
Status FileImpl::preallocate(Bytes size) { return change_size(size, &Storage::reserve, "preallocate"); }
Result<Bytes> FileImpl::size() { return seen_storage().size(); }
Status FileImpl::sync() {
  RETURN_IF_ERROR(check_conflicts());
  RETURN_IF_ERROR(flush_together());
  RETURN_IF_ERROR(parts_.interval ? parts_.interval->commit() : agree(*parts_.group, parts_.storage->sync()));
  return refresh();
}

// Collective, after an agreement: what all have synced before, all see.
Status FileImpl::refresh() { return parts_.caches ? agree(*parts_.group, parts_.storage->refresh()) : Status(); }

// Of an interval file, before a read. What is in no generation is synced by nobody.
Status FileImpl::share() {
  if (!parts_.mode.writes()) return {};
  RETURN_IF_ERROR(refresh());
  RETURN_IF_ERROR(parts_.interval->share());
  return refresh();
}

Status FileImpl::close() {
  Status mine;
  {
    const Stopwatch watch(parts_.report->times().open), all(parts_.report->times().total);
    // All have come here when somebody has agreed, and then nobody uses the pointer any more: a commit is such an agreement.
    const bool commits = parts_.interval && parts_.mode.writes() && !parts_.mode.delete_on_close;
    Status intact = shared_.pointer->intact();
    if (!commits) intact = agree(*parts_.group, intact);
    Status committed = check_conflicts();
    beside_.wait();
    if (!parts_.mode.delete_on_close) {
      if (const Status flushed = flush_together(); !flushed) committed = flushed;
      if (committed && parts_.interval) committed = parts_.interval->commit();
      if (!committed && parts_.interval) parts_.interval->give_up();
      if (committed && parts_.replaces) committed = parts_.storage->sync();
    }
    mine = shared_.pointer->reset(0);
    if (!committed) mine = committed;
    shared_ = {};
    cache_.reset();
    parts_.interval = nullptr;
    // Where nothing has forced a flat file's bytes to the disk, this alone tells that they could not be written.
    const Status stored = parts_.storage->close();
    if (mine && !parts_.mode.delete_on_close) mine = stored;
    parts_.storage.reset();
    if (parts_.mode.delete_on_close) IntervalFile::await_closed();
    mine = agree(*parts_.group, intact ? mine : intact);
    if (parts_.replaces) mine = replace(mine);
    if (mine && parts_.mode.delete_on_close) {
      if (parts_.group->rank() == 0) mine = remove_posix(removed_);
      mine = agree(*parts_.group, mine);
    }
  }
  const bool contradicted = corrections_[0].contradicts() || corrections_[1].contradicts();
  if (contradicted && parts_.group->rank() == 0) forget_profile(parts_.path);
  if (!parts_.report_directory.empty()) {
    parts_.report->note_profile(describe(parts_.profile));
    parts_.report->note_hints(parts_.hints);
    parts_.report->note_view(view_.displacement, view_.filetype_extent, view_.filetype.encode());
    const Status written =
        parts_.report->write(parts_.report_directory, parts_.path, parts_.group->rank(), parts_.group->size());
    if (!written) warn(written.error().text());
  }
  parts_.group.reset();
  return mine;
}

void FileImpl::note(Direction direction, const Pattern& file) {
  if (conflicts_ && !atomic_) conflicts_->note(direction, file);
}

Status FileImpl::check_conflicts() { return conflicts_ ? conflicts_->check(*parts_.group, parts_.path) : Status(); }

// The new version takes the file's place, if it is whole.
Status FileImpl::replace(const Status& closed) {
  RETURN_IF_ERROR(closed);
  Status whole;
  if (write_failed_)
    whole = fail(Error{.code = Code::kIo,
                       .what = "the file is left as it was, since a write to its new version has failed (hint "
                               "stridio_commit=atomic)",
                       .path = parts_.path});
  RETURN_IF_ERROR(agree(*parts_.group, whole));
  return agree(*parts_.group, parts_.replacement ? parts_.replacement->commit() : Status());
}

// ---- View and hints

Status FileImpl::set_view(const View& view, const HintList& hints, std::optional<Error> invalid) {
  if (!invalid) {
    if (const Status checked = view.check(parts_.mode); !checked) invalid = checked.error();
  }
  if (!invalid) {
    if (const Status intact = shared_.pointer->intact(); !intact) invalid = intact.error();
  }
  RETURN_IF_ERROR(agreed_view(view, hints, std::move(invalid)));
  if (atomic_) RETURN_IF_ERROR(cut_view(view));
  view_ = view;
  {
    const std::scoped_lock lock(pointer_mutex_);
    pointer_ = 0;
  }
  return reset_shared_pointer(0);
}

Status FileImpl::reset_shared_pointer(Bytes value) {
  const Status mine = shared_.pointer->reset(value);
  return shared_.pointer->needs_agreement_after_reset() ? agree(*parts_.group, mine) : mine;
}

// Views may differ; etype sizes and the hints that must agree may not.
Status FileImpl::agreed_view(const View& view, const HintList& hints, std::optional<Error> invalid) {
  struct Entry {
    Verdict verdict;
    Bytes etype_size;
    std::uint64_t view;
    std::uint64_t representation;
    bool has_hints;
  };
  const bool unique = parts_.mode.unique_open && parts_.mode.writes();
  const Entry mine{verdict_of(invalid ? fail(at_path(*invalid, parts_.path)) : Status()), view.etype_size,
                   unique && !invalid ? fingerprint(view) : 0,
                   XXH64(view.representation.data(), view.representation.size(), 0), !hints.empty()};
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, allgather(*parts_.group, mine));
  std::vector<Verdict> verdicts;
  for (const Entry& entry : entries) verdicts.push_back(entry.verdict);
  RETURN_IF_ERROR(worst(verdicts));
  bool same_view = true, any_hints = false;
  for (const Entry& entry : entries) {
    same_view = same_view && entry.view == mine.view;
    any_hints = any_hints || entry.has_hints;
    if (entry.etype_size != entries.front().etype_size)
      return fail(Code::kNotSame, fmt::format("set_view: the etype must be the same on all ranks, here are "
                                              "sizes of {} and {} bytes",
                                              entries.front().etype_size, entry.etype_size));
    if (entry.representation != entries.front().representation)
      return fail(Code::kNotSame, fmt::format("set_view: the data representation must be the same on all ranks; here "
                                              "it is \"{}\"",
                                              view.representation));
  }
  if (any_hints) RETURN_IF_ERROR(set_hints(hints));
  own_holes_ = unique && same_view && holes_belong_to_view(view);
  return {};
}

Status FileImpl::set_hints(const HintList& hints) {
  RETURN_IF_ERROR(flush_together());
  std::vector<std::string> warnings;
  Hints all = apply_hints(parts_.hints, of_open_files(hints), kFromProgram, warnings);
  ASSIGN_OR_RETURN(parts_.hints, agree_on_hints(*parts_.group, std::move(all), warnings));
  note_layout();
  return {};
}

// ---- Pointers

Status FileImpl::begin() {
  ASSIGN_OR_RETURN(shared_, share_state(*parts_.group, parts_.path));
  if (parts_.mode.delete_on_close) removed_ = absolute(parts_.path);
  if (parts_.caches && parts_.mode.writes() && parts_.group->node_count() > 1) parts_.storage->keep_apart();
  if (parts_.interval && parts_.mode.writes()) RETURN_IF_ERROR(refresh());  // the first rank has begun it
  RETURN_IF_ERROR(show_writes());
  if (parts_.mode.append) {
    struct End {
      Verdict verdict;
      Bytes bytes = 0;
    };
    const auto end = size();
    const End mine{verdict_of(end ? Status() : fail(end.error())), end.value_or(0)};
    ASSIGN_OR_RETURN(const std::vector<End> all, allgather(*parts_.group, mine));
    std::vector<Verdict> verdicts;
    for (const End& each : all) verdicts.push_back(each.verdict);
    RETURN_IF_ERROR(worst(verdicts));
    pointer_ = all.front().bytes;  // another program may lengthen the file meanwhile
  }
  return reset_shared_pointer(pointer_);
}

Result<Offset> FileImpl::seek_target(Offset offset, Whence whence, Bytes current) {
  if (parts_.mode.sequential)
    return fail(Code::kUnsupportedOperation, "seek: the file was opened with MPI_MODE_SEQUENTIAL");
  Offset base = 0;
  if (whence == Whence::kCurrent) base = current / view_.etype_size;
  if (whence == Whence::kEnd) {
    ASSIGN_OR_RETURN(const Bytes size, this->size());
    base = (view_bytes_below(view_, size) + view_.etype_size - 1) / view_.etype_size;
  }
  const __int128 target = __int128{base} + offset;
  if (target < 0)
    return fail(Code::kArgument,
                fmt::format("seek: {} etypes from {} lies before the start of the view", offset, base));
  const auto most = std::numeric_limits<Offset>::max();
  const Offset etypes = target < most ? static_cast<Offset>(target) : most;
  RETURN_IF_ERROR(check_reach(view_, etypes, 0));
  return etypes;
}

Status FileImpl::seek(Offset offset, Whence whence) {
  const std::scoped_lock lock(pointer_mutex_);
  ASSIGN_OR_RETURN(const Offset target, seek_target(offset, whence, pointer_));
  pointer_ = target * view_.etype_size;
  return {};
}

Result<Offset> FileImpl::position() {
  const std::scoped_lock lock(pointer_mutex_);
  if (parts_.mode.sequential)
    return fail(Code::kUnsupportedOperation, "position: the file was opened with MPI_MODE_SEQUENTIAL");
  return pointer_ / view_.etype_size;
}

Status FileImpl::seek_shared(Offset offset, Whence whence) {
  struct Entry {
    Offset offset;
    Whence whence;
  };
  const Entry mine{offset, whence};
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, allgather(*parts_.group, mine));
  for (const Entry& entry : entries)
    if (entry.offset != entries.front().offset || entry.whence != entries.front().whence)
      return fail(Code::kNotSame, "seek_shared: offset and whence must be the same on all ranks");
  Status moved;
  if (parts_.group->rank() == 0) moved = move_shared_pointer(offset, whence);
  return agree(*parts_.group, moved);
}

Status FileImpl::move_shared_pointer(Offset offset, Whence whence) {
  ASSIGN_OR_RETURN(const Bytes current, shared_.pointer->load());
  ASSIGN_OR_RETURN(const Offset target, seek_target(offset, whence, current));
  return shared_.pointer->store(target * view_.etype_size);
}

Result<Offset> FileImpl::position_shared() {
  ASSIGN_OR_RETURN(const Bytes position, shared_.pointer->load());
  return position / view_.etype_size;
}

Result<Offset> FileImpl::byte_offset(Offset etype_offset) {
  if (etype_offset < 0) return fail(Code::kArgument, fmt::format("byte_offset: offset {} is negative", etype_offset));
  if (view_.filetype.empty()) return view_.displacement;
  RETURN_IF_ERROR(check_reach(view_, etype_offset, 1));
  return view_pattern(view_, etype_offset * view_.etype_size, 1).lower();
}

// The group's lock managers and its place among the file's openers are made once and kept: accesses of other threads may
// hold locks.
Status FileImpl::set_atomicity(bool atomic) {
  ASSIGN_OR_RETURN(const std::vector<int> all, allgather(*parts_.group, static_cast<int>(atomic)));
  for (const int each : all)
    if (each != all.front()) return fail(Code::kNotSame, "set_atomicity: the flag must be the same on all ranks");
  RETURN_IF_ERROR(flush_together());
  if (atomic && !shared_.atomicity) {
    ASSIGN_OR_RETURN(shared_.atomicity,
                     Atomicity::start(*parts_.group, *parts_.storage, parts_.readable, parts_.profile.write.waits()));
  }
  RETURN_IF_ERROR(show_writes(atomic));
  if (atomic) {
    if (Status cut = cut_view(view_); !cut) {
      RETURN_IF_ERROR(show_writes(atomic_));
      return cut;
    }
  }
  atomic_ = atomic;
  return {};
}

// To all ranks at once, where that has to be seen to.
Status FileImpl::show_writes(bool atomic) {
  if (!parts_.interval) return {};
  std::function<bool(Extent)> where;
  if (shown_) {
    where = [](Extent) { return true; };
  } else if (atomic) {
    where = [this](Extent range) { return shared_.atomicity && shared_.atomicity->shares(range); };
  }
  return parts_.interval->show_at_once(std::move(where));
}

// Collective. What was nobody else's may be shared now.
Status FileImpl::cut_view(const View& view) {
  if (parts_.interval) RETURN_IF_ERROR(share());
  shared_.atomicity->cut(*parts_.group, view);
  const auto shared = shared_.atomicity->sets().shared();
  const auto inexact =
      std::count_if(shared.begin(), shared.end(), [](const SharedIntervals& each) { return !each.exact; });
  parts_.report->note_intervals(std::ssize(shared), inexact);
  explain("atomic mode", fmt::format("{} of intervals shared with other ranks{}", counted(std::ssize(shared), "set"),
                                     inexact > 0 ? ", some only perhaps: the views are too irregular" : ""));
  return {};
}

// ---- Transfers

Status FileImpl::check(const Access& access) const {
  if (access.invalid) return fail(*access.invalid);
  const Bytes length = access.memory.pattern.size();
  if (access.direction == Direction::kRead && !parts_.mode.reads())
    return fail(Code::kAccess, "read: the file was opened for writing only");
  if (access.direction == Direction::kWrite && !parts_.mode.writes())
    return fail(Code::kReadOnly, "write: the file was opened for reading only");
  if (parts_.mode.sequential && access.pointer != Pointer::kShared && !access.bound)
    return fail(Code::kUnsupportedOperation,
                "a file opened with MPI_MODE_SEQUENTIAL is accessed through the shared file pointer only");
  if (access.pointer == Pointer::kExplicit && access.offset < 0)
    return fail(Code::kArgument, fmt::format("offset {} is negative; it counts etypes from the start of "
                                             "the view",
                                             access.offset));
  if (access.pointer == Pointer::kExplicit) RETURN_IF_ERROR(check_reach(view_, access.offset, length));
  if (length % view_.etype_size != 0)
    return fail(Code::kArgument,
                fmt::format("{} bytes are no whole number of etypes of {} bytes", length, view_.etype_size));
  if (length > 0 && view_.filetype.empty())
    return fail(Code::kArgument, "the view's file type has no bytes, so nothing can be accessed through it");
  return {};
}

// Where the access starts; moves the pointer that it uses past the bytes asked for (MPI-4.1 section 14.4.3).
Result<Bytes> FileImpl::take_position(const Access& access, Bytes length) {
  switch (access.pointer) {
    case Pointer::kExplicit: return access.offset * view_.etype_size;
    case Pointer::kIndividual: {
      const std::scoped_lock lock(pointer_mutex_);
      const Bytes position = pointer_;
      RETURN_IF_ERROR(check_reach(view_, position / view_.etype_size, length));
      pointer_ += length;
      return position;
    }
    case Pointer::kShared: return shared_.pointer->fetch_add(length, reach(view_));
  }
  return fail(Code::kOther, "no such file pointer");
}

// Rank order through the shared pointer; collective. The pointer is read once all ranks are here, and with them their
// independent calls done, and moved once all have read it.
Result<Bytes> FileImpl::take_ordered(Bytes length) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> lengths, allgather(*parts_.group, length));
  const auto start = shared_.pointer->load();
  RETURN_IF_ERROR(agree(*parts_.group, start ? Status() : fail(start.error())));
  __int128 end = *start;
  Bytes mine = 0;
  for (int rank = 0; rank < parts_.group->size(); ++rank) {
    if (rank == parts_.group->rank()) mine = static_cast<Bytes>(end);
    end += lengths[static_cast<std::size_t>(rank)];
  }
  if (end > reach(view_))
    return fail(Code::kArgument, "the shared file pointer would move beyond the largest offset that a file can have");
  if (parts_.group->rank() == 0) RETURN_IF_ERROR(shared_.pointer->store(static_cast<Bytes>(end)));
  return mine;
}

Result<Access> FileImpl::bind(const Access& access) {
  Access bound = access;
  bound.bound = true;
  Status checked = check(access);
  if (checked) {
    const auto position = take_position(access, access.memory.pattern.size());
    if (!position) checked = fail(position.error());
    bound.pointer = Pointer::kExplicit;
    bound.offset = position.value_or(0) / view_.etype_size;
  }
  if (checked) return bound;
  if (!access.collective) return fail(at_path(checked.error(), parts_.path));
  bound.invalid = checked.error();
  return bound;
}

Result<Bytes> FileImpl::transfer(const Access& access) {
  const Stopwatch watch(parts_.report->times().total);
  auto moved = access.collective ? transfer_together(access) : transfer_alone(access);
  if (!moved && access.direction == Direction::kWrite) write_failed_ = true;
  if (!moved) return fail(at_path(std::move(moved).error(), parts_.path));
  return moved;
}

// Where all writers lock their ranges, since holes may be written back, atomic accesses do so too.
Result<std::unique_ptr<RangeLock>> FileImpl::hold(Direction direction, Extent range) {
  const bool whole_range = parts_.hints.ds_write == Switch::kEnable;
  const LockMode writes = parts_.interval ? LockMode::kTogether : LockMode::kExclusive;
  const LockMode mode = direction == Direction::kRead ? LockMode::kShared : writes;
  return shared_.atomicity->hold(range, mode, whole_range);
}

// An interval file stores bytes beside those that they replace. Only that they count from now on is done under the locks, which
// keep readers out: whose write is the later one the file knows.
Result<Transferred> FileImpl::atomically(Direction direction, Extent range, const AccessTo& access) {
  if (direction == Direction::kRead || !parts_.interval) {
    ASSIGN_OR_RETURN(const auto lock, hold(direction, range));
    return access(*parts_.storage);
  }
  for (;;) {
    const auto whole = parts_.interval->begin_whole();
    ASSIGN_OR_RETURN(const Transferred moved, access(*whole));
    ASSIGN_OR_RETURN(const auto lock, hold(direction, range));
    ASSIGN_OR_RETURN(const bool counts, whole->count());
    if (counts) return moved;
  }
}

void FileImpl::note_reached(Offset end) {
  Offset before = reached_;
  while (before < end && !reached_.compare_exchange_weak(before, end)) continue;
}

// What is one piece in file and memory, and one request, needs no plan: programs make millions of such calls.
bool FileImpl::is_one_request(Direction direction, const Pattern& file, const Memory& memory) const {
  const bool locks = direction == Direction::kWrite && parts_.hints.ds_write == Switch::kEnable;
  return !file.empty() && file.size() <= deep_of(parts_.profile.of(direction)).unit && file.contiguous() &&
         memory.pattern.contiguous() && !atomic_ && !locks;
}

Result<Transferred> FileImpl::move_one(Direction direction, Storage& storage, const Pattern& file,
                                       const Memory& memory) {
  const Stopwatch watch(parts_.report->times().storage);
  const Extent extent = file.bounds();
  const Span span{memory.base + memory.pattern.lower(), extent.length};
  if (direction == Direction::kRead) return storage.readv({&extent, 1}, {&span, 1});
  storage.expect_write(extent.length);
  return storage.writev({&extent, 1}, {&span, 1});
}

Result<Transferred> FileImpl::execute_alone(Direction direction, const Pattern& file, const Memory& memory) {
  Storage& storage = direction == Direction::kRead ? seen_storage() : *parts_.storage;
  const char* const call = direction == Direction::kRead ? "read" : "write";
  if (is_one_request(direction, file, memory)) {
    ASSIGN_OR_RETURN(const Transferred moved, move_one(direction, storage, file, memory));
    parts_.report->count_one(direction, moved.bytes);
    if (parts_.explain) explain(call, fmt::format("direct: one request of {}", counted(file.size(), "byte")));
    return moved;
  }
  ASSIGN_OR_RETURN(RequestShape shape, shape_on(storage, parts_.profile, direction, file, memory));
  if (direction == Direction::kRead) note_stored(storage, parts_.profile, file, shape);
  AccessRules rules = access_rules(direction, file);
  std::optional<Writing> writing;
  // More ranks than cores take turns at these, by whatever method.
  if (direction == Direction::kWrite && file.size() >= kWorthCounting && parts_.group->size() <= cores() && !atomic_)
    rules.other_writers = writing.emplace(shared_.writers).others();
  AccessPlan plan = plan_access(shape, storage.caps(), parts_.profile, rules, correction(direction));
  if (file.bounds().end() <= reached_) plan.deep.extend_first = false;
  if (plan.method == Method::kMapped) writing.reset();
  double seconds = 0;
  const auto access = [&](Storage& to) {
    const auto start = Clock::now();
    auto moved = execute(plan, to, direction, file, memory, parts_.report->times());
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return moved;
  };
  const bool alone = !atomic_ || file.empty();
  ASSIGN_OR_RETURN(const Transferred moved, alone ? access(storage) : atomically(direction, file.bounds(), access));
  if (direction == Direction::kWrite) note_reached(file.bounds().end());
  if (!moved.eof && moved.requests > 0) {
    correct(direction, [&](Correction& all) { all.learn(plan.method, plan.uncorrected_seconds, seconds); });
  }
  const std::string why = wants_reasons() ? plan.explain() : std::string();
  parts_.report->count(direction, false, moved.bytes, name_of(plan.method), why);
  explain(call, why);
  return moved;
}

Result<Bytes> FileImpl::transfer_alone(const Access& access) {
  RETURN_IF_ERROR(check(access));
  const Bytes length = access.memory.pattern.size();
  ASSIGN_OR_RETURN(const Bytes position, take_position(access, length));
  const Pattern file = view_pattern(view_, position, length);
  note(access.direction, file);
  if (access.direction == Direction::kWrite) return write_alone(file, access.memory);
  ASSIGN_OR_RETURN(const Transferred moved, execute_alone(access.direction, file, access.memory));
  return moved.bytes;
}

Result<Bytes> FileImpl::transfer_together(const Access& access) {
  CollectiveRequest request;
  request.direction = access.direction;
  if (const Status checked = check(access); !checked) request.invalid = checked.error();
  const Bytes length = request.invalid ? 0 : access.memory.pattern.size();
  Result<Bytes> position = 0;
  if (access.pointer == Pointer::kShared) {
    position = take_ordered(length);
  } else if (!request.invalid) {
    position = take_position(access, length);
  }
  if (!position && !request.invalid) request.invalid = position.error();
  if (!request.invalid) {
    const Status made = guarded([&]() -> Status {
      request.file = view_pattern(view_, *position, length);
      request.memory = access.memory;
      note(access.direction, request.file);
      return {};
    });
    if (!made) {  // for want of memory: the others must not wait
      request.file = {};
      request.memory = {};
      request.invalid = made.error();
    }
  }
  request.access = access_rules(access.direction, request.file);
  request.rules = collective_rules(access.direction);
  request.profile = parts_.profile;
  request.correction = correction(access.direction);
  request.cache = &patterns_;
  request.explains = wants_reasons();
  if (atomic_)
    request.atomically = [&](const AccessTo& alone) {
      return atomically(access.direction, request.file.bounds(), alone);
    };
  if (access.direction == Direction::kWrite) {
    ASSIGN_OR_RETURN(const bool kept, kept_together(request));
    if (kept) return keep(request.file, request.memory, true);
  }
  ASSIGN_OR_RETURN(const CollectiveOutcome outcome, move_together(request));
  if (!outcome.moved.eof) {
    correct(access.direction, [&](Correction& all) {
      if (outcome.in_windows)
        all.learn_two_phase(outcome.planned_seconds, outcome.seconds);
      else if (outcome.strategy == Strategy::kIndependent && outcome.moved.requests > 0)
        all.learn(outcome.own_method, outcome.planned_seconds, outcome.seconds);
    });
  }
  parts_.report->count(access.direction, true, outcome.moved.bytes, outcome.method, outcome.why);
  explain(access.direction == Direction::kRead ? "read_all" : "write_all", outcome.why);
  return outcome.moved.bytes;
}

// Aggregators read for others: all hand on first what they have kept.
Result<CollectiveOutcome> FileImpl::move_together(CollectiveRequest& request) {
  const bool reads = request.direction == Direction::kRead;
  if (reads) {
    RETURN_IF_ERROR(flush_together());
    if (parts_.interval) RETURN_IF_ERROR(share());
  }
  if (!reads && !request.invalid) {
    if (const Status drained = drain(); !drained) request.invalid = drained.error();
  }
  return run_collective(*parts_.group, *parts_.storage, request, parts_.report->times());
}

// ---- Rules: what hints and consistency allow

AccessRules FileImpl::access_rules(Direction direction, const Pattern& file) const {
  const Hints& hints = parts_.hints;
  AccessRules rules;
  rules.waited_for = atomic_ && !file.empty() && shared_.atomicity->shares(file.bounds());
  const bool promised = hints.ds_write == Switch::kEnable && parts_.storage->has_locks();
  rules.lock_writes = promised && !atomic_;
  rules.may_modify_holes = hints.ds_write != Switch::kDisable && (promised || own_holes_) && parts_.readable;
  if (!parts_.readable)
    rules.holes_reason = "the file may not be read";
  else if (hints.ds_write == Switch::kDisable)
    rules.holes_reason = "romio_ds_write=disable";
  else if (hints.ds_write == Switch::kEnable)
    rules.holes_reason = "the storage has no range locks";
  else if (parts_.mode.unique_open)
    rules.holes_reason = "other ranks' views might cover the holes";
  rules.sieve_reads = hints.ds_read != Switch::kDisable;
  rules.prefer_sieve = (direction == Direction::kRead ? hints.ds_read : hints.ds_write) == Switch::kEnable;
  rules.read_window = hints.ind_rd_buffer_size;
  rules.write_window = hints.ind_wr_buffer_size;
  rules.force = hints.method;
  return rules;
}

CollectiveRules FileImpl::collective_rules(Direction direction) const {
  const Hints& hints = parts_.hints;
  const Switch two_phase = direction == Direction::kRead ? hints.cb_read : hints.cb_write;
  CollectiveRules rules;
  // What a rank has written to an interval file it must see at once, and its later writes over its earlier ones: none of
  // that may go through another rank, which notes what it writes as its own.
  const bool own_writes = parts_.interval != nullptr && parts_.mode.writes();
  rules.two_phase = two_phase != Switch::kDisable && !own_writes;
  if (own_writes) rules.two_phase_reason = "an interval file keeps apart what each rank writes";
  rules.prefer_two_phase = two_phase == Switch::kEnable;
  rules.aggregators = hints.cb_nodes;
  rules.window = hints.cb_buffer_size;
  rules.shorter_windows = hints.cb_buffer_size == Hints{}.cb_buffer_size;
  rules.may_modify_holes = hints.ds_write == Switch::kEnable && parts_.readable;
  rules.one_by_one = atomic_;
  rules.force = hints.method;
  return rules;
}

Correction FileImpl::correction(Direction direction) {
  const std::scoped_lock lock(correction_mutex_);
  return corrections_[static_cast<std::size_t>(direction)];
}

void FileImpl::explain(const char* call, const std::string& why) const {
  if (parts_.explain && parts_.group->rank() == 0) inform(fmt::format("{} {}: {}", parts_.path, call, why));
}

}  // namespace stridio
