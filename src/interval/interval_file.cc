// The stored file: headers, a word from which space is taken, and then data, metadata and roots in any order, each
// process's together as far as its chunks reach. Nothing that the newest generation refers to is ever written again; what it
// no longer refers to is free once no reader holds the generation before.
#include "interval/interval_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ranges>
#include <set>

#include "access/deep.h"
#include "base/crc32c.h"
#include "base/guarded.h"
#include "collective/agreement.h"
#include "interval/read_sums.h"
#include "storage/request.h"

namespace stridio {
namespace {

constexpr std::int64_t kFew = 64;  // pieces of a write that all ranks are told of
constexpr std::size_t kMostLayers = 256;
constexpr std::size_t kMostCompared = std::size_t{1} << 16;  // groups, each with each: less than to put them in order

IntervalMap bytes_of(std::span<const Extent> extents) {
  WriteLog bytes;
  for (const Extent& each : extents)
    if (!each.empty()) bytes.add({each.offset, each.length, each.offset});
  return bytes.merged();
}

// Without those in whose places a later one is: who has written the same places again and again counts once. And without those that
// only tell of the size.
std::vector<PieceGroup> latest_of(std::span<const PieceGroup> groups) {
  std::set<std::array<std::int64_t, 4>> places;
  std::vector<PieceGroup> latest;
  for (const PieceGroup& group : groups | std::views::reverse)
    if (group.first.length > 0 &&
        places.insert({group.first.logical, group.first.length, group.count, group.stride}).second)
      latest.push_back(group);
  std::ranges::reverse(latest);
  return latest;
}

// The groups' pieces in the order of the file, in which a log takes them without merging: where they are few, and none overlaps
// another.
std::optional<std::vector<Piece>> apart(std::span<const PieceGroup> groups) {
  constexpr std::int64_t kMost = 4096;
  std::int64_t count = 0;
  for (const PieceGroup& group : groups) {
    if (group.count > kMost - count) return std::nullopt;
    count += group.count;
  }
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<std::size_t>(count));
  for (const PieceGroup& group : groups)
    for (std::int64_t i = 0; i < group.count; ++i) pieces.push_back(group.at(i));
  std::ranges::sort(pieces, {}, &Piece::logical);
  const auto overlap = [](const Piece& a, const Piece& b) { return b.logical < a.end(); };
  if (std::ranges::adjacent_find(pieces, overlap) != pieces.end()) return std::nullopt;
  return pieces;
}

IntervalMap map_of(const PieceList& pieces) {
  WriteLog log;
  for (const PieceGroup& group : pieces.groups()) log.add_group(group);
  return log.merged();
}

}  // namespace

// While it is held no commit begins or ends on this rank: what others log is of this epoch, and what a generation has stored
// is not written over.
std::shared_lock<std::shared_mutex> IntervalFile::stay_in_epoch() {
  const std::scoped_lock turn(turnstile_);
  return std::shared_lock(epoch_);
}

// What this process sees, with what others have told of `bounds`.
Result<Intervals> IntervalFile::visible(Extent bounds) {
  const std::scoped_lock lock(mutex_);
  if (!is_mine(bounds)) RETURN_IF_ERROR(look_around());
  Intervals seen = seen_;
  for (WriteLog* log : {&shared(), &written_.log})
    for (const IntervalMap& layer : log->layers()) seen.layers.push_back(layer);
  for (const IntervalMap* layer : {&written_.telling, &written_.told})
    if (!layer->empty()) seen.layers.push_back(*layer);
  seen.layers.insert(seen.layers.end(), others_.begin(), others_.end());
  return seen;
}

Result<Transferred> IntervalFile::readv(std::span<const Extent> extents, std::span<const Span> memory) {
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  const auto epoch = stay_in_epoch();
  ASSIGN_OR_RETURN(const Intervals seen, visible(bounds_of(extents)));
  return guarded([&] { return read_intervals(*storage_, seen, extents, memory, requests_); });
}

Result<std::unique_ptr<SharedRead>> IntervalFile::share_read() {
  class Shared final : public SharedRead {
   public:
    Shared(IntervalFile& file, std::shared_lock<std::shared_mutex> epoch, Intervals seen)
        : SharedRead(file), file_(file), epoch_(std::move(epoch)), seen_(std::move(seen)) {}
    Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
      if (auto valid = check_request(extents, memory); !valid)
        return file_.refuse(valid.error().code, valid.error().what);
      return guarded([&]() -> Result<Transferred> {
        ReadSums sums;
        ASSIGN_OR_RETURN(const Transferred moved,
                         read_intervals(*file_.storage_, seen_, extents, memory, file_.requests_, &sums));
        const std::scoped_lock lock(mutex_);
        sums_.append(std::move(sums));
        return moved;
      });
    }
    Result<Bytes> size() override { return seen_.size; }
    bool leaves_some() const override { return sums_.leaves_some(); }
    std::vector<std::vector<std::byte>> sums(int ranks) const override { return sums_.by_rank(ranks); }
    Status verify(std::span<const std::vector<std::byte>> told) override {
      return guarded([&] { return verify_told(*file_.storage_, told, file_.requests_); });
    }

   private:
    IntervalFile& file_;
    const std::shared_lock<std::shared_mutex> epoch_;
    const Intervals seen_;
    std::mutex mutex_;
    ReadSums sums_;
  };
  return guarded([&]() -> Result<std::unique_ptr<SharedRead>> {
    auto epoch = stay_in_epoch();
    ASSIGN_OR_RETURN(Intervals seen, visible(kWholeFile));
    return std::make_unique<Shared>(*this, std::move(epoch), std::move(seen));
  });
}

Result<std::unique_ptr<StoredRead>> IntervalFile::read_stored() {
  if (writes_)
    return refuse(Code::kUnsupportedOperation, "reading blocks of what is stored, of a file that is written");
  return guarded([&]() -> Result<std::unique_ptr<StoredRead>> { return read_blocks(*storage_, seen_.generation); });
}

Result<StoredAs> IntervalFile::look_up(std::span<const Extent> extents) {
  return guarded([&]() -> Result<StoredAs> {
    const auto epoch = stay_in_epoch();
    ASSIGN_OR_RETURN(const Intervals seen, visible(bounds_of(extents)));
    return look_up_intervals(*storage_, seen, extents);
  });
}

Result<Transferred> IntervalFile::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  return write(extents, memory, [&](const Appended& appended) {
    PieceList pieces;
    note(extents, appended, written_, pieces);
    return count(pieces);
  });
}

// `stored` is called when the bytes are, under the lock.
Result<Transferred> IntervalFile::write(std::span<const Extent> extents, std::span<const Span> memory,
                                        const std::function<Status(const Appended&)>& stored) {
  RETURN_IF_ERROR(check_writable());
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  RETURN_IF_ERROR(check_end(bounds_of(extents).end(), "writing"));
  Bytes bytes = 0;
  for (const Extent& extent : extents) bytes += extent.length;
  if (bytes == 0) return Transferred{};
  return guarded([&]() -> Result<Transferred> {
    const auto epoch = stay_in_epoch();
    {
      const std::scoped_lock lock(mutex_);
      RETURN_IF_ERROR(check_whole());
      (void)guarded([&] { return reclaim(bytes); });  // what it does not find now is free later
    }
    const auto appended = guarded([&] { return append(bytes, memory); });
    const std::scoped_lock lock(mutex_);
    if (!appended) {
      failed_.note(bytes_of(extents), appended.error());
      return fail(appended.error());
    }
    try {
      RETURN_IF_ERROR(stored(*appended));
    } catch (...) {
      failed_.note(bytes_of(extents), Error{.code = Code::kNoMemory, .what = "no memory to note it"});
      throw;
    }
    return appended->moved;
  });
}

// These bytes are part of the file from now on.
Status IntervalFile::count(const PieceList& pieces) {
  const auto logged = guarded([&] { return log(pieces); });
  if (!logged) {
    failed_.note(map_of(pieces), logged.error());
    return fail(logged.error());
  }
  if (!*logged) return too_many();
  if (!failed_.empty()) failed_.forget(map_of(pieces));
  seen_.size = std::max(seen_.size, pieces.bounds().end());
  return {};
}

std::unique_ptr<IntervalFile::Whole> IntervalFile::begin_whole() {
  const std::scoped_lock lock(mutex_);
  return std::make_unique<Whole>(*this);
}

Result<Transferred> IntervalFile::Whole::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  return file_.write(extents, memory, [&](const Appended& appended) -> Status {
    if (file_.era_ != era_) return {};  // count() will tell
    note(extents, appended, written_, pieces_);
    return {};
  });
}

Result<bool> IntervalFile::Whole::count() {
  return guarded([&]() -> Result<bool> {
    const auto epoch = file_.stay_in_epoch();
    const std::scoped_lock lock(file_.mutex_);
    RETURN_IF_ERROR(file_.check_whole());
    const PieceList pieces = std::exchange(pieces_, {});
    if (file_.era_ != era_) return false;
    auto& fragments = file_.written_.fragments;
    fragments.insert(fragments.end(), written_.fragments.begin(), written_.fragments.end());
    file_.written_.bytes += written_.bytes;
    RETURN_IF_ERROR(file_.count(pieces));
    return true;
  });
}

IntervalFile::Whole::~Whole() {
  if (pieces_.empty()) return;
  (void)guarded([&]() -> Status {
    const std::scoped_lock lock(file_.mutex_);
    file_.failed_.note(map_of(pieces_), Error{.code = Code::kIo, .what = "it did not come to its end"});
    return {};
  });
}

void IntervalFile::Failed::note(const IntervalMap& bytes, const Error& error) {
  fresh = overlaid(bytes, fresh);
  told = without(told, bytes);
  why = error;
}

void IntervalFile::Failed::forget(const IntervalMap& written) {
  for (IntervalMap* const map : {&fresh, &told}) *map = without(*map, written);
}

// A commit does, at which others have `now`.
void IntervalFile::Failed::tell(IntervalMap now) {
  told = overlaid(fresh, told);
  fresh = {};
  others = std::move(now);
}

void IntervalFile::Failed::cut(Offset end) {
  for (IntervalMap* const map : {&fresh, &told}) *map = below(*map, end);
}

// Stores the memory's bytes somewhere: as many at a time as are still in the caches once they are summed.
Result<IntervalFile::Appended> IntervalFile::append(Bytes bytes, std::span<const Span> memory) {
  Appended appended;
  Extent last;  // stored first, and alone
  Deep deep = requests_.write;
  deep.extend_first = false;
  const auto beyond = [&] {
    const auto is_beyond = [&](const Extent& each) { return each.end() > lengthened_; };
    return requests_.write.extend_first && std::any_of(appended.stored.begin(), appended.stored.end(), is_beyond);
  };
  bool waits = false;
  {
    const std::scoped_lock lock(mutex_);
    last = allocate_last(bytes);
    ASSIGN_OR_RETURN(appended.stored, allocate(bytes - last.length));
    waits = last.empty() && beyond();
    extending_ = extending_ || !last.empty();
  }
  std::vector<Extent> extents;
  std::vector<Span> spans;
  Bytes summed = 0;  // of them
  const auto store = [&]() -> Status {
    if (std::exchange(waits, false)) {
      std::unique_lock lock(mutex_);
      extended_.wait(lock, [&] { return !extending_; });
      if (beyond()) deep = {};
    }
    ASSIGN_OR_RETURN(const Transferred moved, transfer_deep(*storage_, Direction::kWrite, extents, spans, deep));
    appended.moved += moved;
    extents.clear();
    spans.clear();
    summed = 0;
    return {};
  };
  const auto store_runs = [&](std::span<const Extent> runs, MemoryCursor& from) -> Status {
    for (const Extent& run : runs)
      for (Offset at = run.offset; at < run.end(); at = appended.fragments.back().stored.end()) {
        Fragment fragment{cell_at(run, at), 0};
        for (Bytes left = fragment.stored.length; left > 0;) {
          const Span piece = from.take(left);
          fragment.sum = crc32c({piece.data, static_cast<std::size_t>(piece.length)}, fragment.sum);
          if (!spans.empty() && spans.back().data + spans.back().length == piece.data)
            spans.back().length += piece.length;
          else
            spans.push_back(piece);
          left -= piece.length;
        }
        appended.fragments.push_back(fragment);
        extents.push_back(fragment.stored);
        summed += fragment.stored.length;
        if (summed >= requests_.longest_written) RETURN_IF_ERROR(store());
      }
    return summed > 0 ? store() : Status();
  };
  if (!last.empty()) {
    const Status reached = guarded([&] {
      MemoryCursor from(memory);
      for (Bytes before = bytes - last.length; before > 0;) before -= from.take(before).length;
      return store_runs({&last, 1}, from);
    });
    {
      const std::scoped_lock lock(mutex_);
      extending_ = false;
      if (reached) lengthened_ = std::max(lengthened_, last.end());
    }
    extended_.notify_all();
    RETURN_IF_ERROR(reached);
  }
  MemoryCursor from(memory);
  RETURN_IF_ERROR(store_runs(appended.stored, from));
  if (!last.empty()) appended.stored.push_back(last);
  const std::scoped_lock lock(mutex_);
  ++appends_;
  return appended;
}

// The sums of what was appended, and which bytes of `extents` it is.
void IntervalFile::note(std::span<const Extent> extents, const Appended& appended, Written& written,
                        PieceList& pieces) {
  for (const Fragment& fragment : appended.fragments) {
    Fragment* const last = written.fragments.empty() ? nullptr : &written.fragments.back();
    if (last && last->stored.end() == fragment.stored.offset && fragment.stored.offset % kCell != 0) {
      last->sum = crc32c_joined(last->sum, fragment.sum, fragment.stored.length);
      last->stored.length += fragment.stored.length;
    } else {
      written.fragments.push_back(fragment);
    }
    written.bytes += fragment.stored.length;
  }
  auto run = appended.stored.begin();
  Bytes used = 0;  // of the run
  for (Extent extent : extents) {
    while (!extent.empty()) {
      if (used == run->length) {
        ++run;
        used = 0;
      }
      const Bytes length = std::min(extent.length, run->length - used);
      pieces.add({extent.offset, length, run->offset + used});
      extent = {extent.offset + length, extent.length - length};
      used += length;
    }
  }
}

// That the newest bytes are in these pieces: with all ranks where they must be shown, or are few and need no request for it, else
// with this one; but of what all know, all are told. False, and nothing is noted, where that cannot be for want of room.
Result<bool> IntervalFile::log(const PieceList& pieces) {
  written_.has_more = written_.has_more || written_.groups.size() + pieces.groups().size() > kMostCompared;
  if (!written_.has_more) written_.groups.insert(written_.groups.end(), pieces.groups().begin(), pieces.groups().end());
  const Extent bounds = pieces.bounds();
  const bool shown = shared_log_ && shown_ && shown_(bounds);
  if (shown || (shared_log_ && !shared_log_->asks_storage() && pieces.count() <= kFew)) {
    ASSIGN_OR_RETURN(const bool published, publish(pieces));
    if (published || shown) return published;
  }
  if (shared_log_) {
    if (!is_mine(bounds)) RETURN_IF_ERROR(look_around());
    const IntervalMap map = map_of(pieces);
    IntervalMap unknown = without(map, shared().merged());
    // In atomic mode views may have changed: what was another's alone can be this one's, and that one's again.
    for (std::size_t i = 0; shown_ && i < others_.size(); ++i) unknown = without(unknown, others_[i]);
    const IntervalMap known = without(map, unknown);
    PieceList newer;
    for (MapCursor cursor(known); !cursor.done(); cursor.next()) newer.add(cursor.piece());
    if (shown_ && bounds.end() > seen_.size) newer.add({bounds.end(), 0, 0});  // the size is everybody's
    if (!newer.empty()) {
      ASSIGN_OR_RETURN(const bool published, publish(newer));
      if (!published) return false;
    }
  }
  for (const PieceGroup& group : pieces.groups()) written_.log.add_group(group);
  return true;
}

Result<bool> IntervalFile::publish(const PieceList& pieces) {
  published_ = true;  // what fails may have come so far
  const bool lacks_some = std::exchange(written_.lacks_published, true);
  ASSIGN_OR_RETURN(const bool done, shared_log_->publish(pieces.groups()));
  for (const PieceGroup& group : pieces.groups())
    if (done && group.first.length > 0) written_.published.add_group(group);
  written_.lacks_published = lacks_some;
  return done;
}

// Whether there can be no news about the bytes in `range`, in atomic mode: by the views they are no other rank's, and when the views
// were set all looked around. Where looking costs a request, that saves it.
bool IntervalFile::is_mine(Extent range) const {
  return shared_log_ && shared_log_->asks_storage() && shown_ && !published_ && range.end() <= seen_.size &&
         !shown_(range);
}

// What others have told.
Status IntervalFile::look_around() {
  if (!shared_log_) return {};
  ASSIGN_OR_RETURN(const std::vector<PieceGroup> news, shared_log_->news());
  heard_.insert(heard_.end(), news.begin(), news.end());
  for (const PieceGroup& group : news) seen_.size = std::max({seen_.size, group.first.end(), group.last().end()});
  shared_log_->heard();
  published_ = false;
  return {};
}

// With what was heard last. That is put in when it is needed: programs that write, each to other places, need none of it.
WriteLog& IntervalFile::shared() {
  const std::vector<PieceGroup> latest = latest_of(heard_);
  if (const auto pieces = apart(latest))
    for (const Piece& piece : *pieces) shared_.add(piece);
  else
    for (const PieceGroup& group : latest) shared_.add_group(group);
  heard_.clear();  // what was put in half, for want of memory, is put in again
  return shared_;
}

// Whether all that was heard since the last commit is, in its places, what this process has written there, or elsewhere.
bool IntervalFile::is_untouched() const {
  if (!shared_.empty() || written_.lacks_published || written_.has_more) return false;
  if (written_.groups.size() * heard_.size() > kMostCompared) return false;
  return std::ranges::all_of(heard_, [&](const PieceGroup& heard) {
    return heard.first.length == 0 || std::ranges::all_of(written_.groups, [&](const PieceGroup& own) {
             return own == heard || !may_meet(own, heard);
           });
  });
}

// Whom the storage fails is not alone with that.
Status IntervalFile::look_around_together() {
  const Status looked = guarded([&] {
    const std::scoped_lock lock(mutex_);
    return look_around();
  });
  return shared_log_ && shared_log_->asks_storage() ? agree(group_, looked) : looked;
}

Status IntervalFile::show_at_once(std::function<bool(Extent)> where) {
  const std::scoped_lock lock(mutex_);
  if (where && writes_ && group_.size() > 1 && !shared_log_) {
    if (taken_on_node())
      return refuse(
          Code::kUnsupportedOperation,
          "atomic mode of an interval file, or stridio_visibility=immediate: no memory to share, /dev/shm is full");
    shared_log_ = make_storage_log(*storage_, {.head = kLogHead,
                                               .take = [this](Bytes bytes) -> Result<Offset> {
                                                 ASSIGN_OR_RETURN(const Offset first, take_space(bytes));
                                                 reach_ = std::max(reach_, stored_space({first, bytes}).back().end());
                                                 return first;
                                               },
                                               .stored = [this](Extent taken) { return stored_space(taken); }});
    shared_log_->begin(seen_.generation->root().generation);
  }
  shown_ = std::move(where);
  return {};
}

Status IntervalFile::share() {
  if (!writes_ || group_.size() == 1) return {};
  struct State {
    Verdict looked;
    Bytes size = 0;
    bool told = false;
  };
  Buffer mine;
  State state;
  state.looked = verdict_of(guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(look_around());
    state.size = seen_.size;
    Written& own = written_;
    own.telling = overlaid(own.log.merged(), own.telling);
    own.log.clear();
    state.told = own.telling.empty();
    if (!state.told) {
      own.told_fragments.insert(own.told_fragments.end(), own.fragments.begin(), own.fragments.end());
      own.fragments.clear();
    }
    mine.assign(own.telling.encoded().begin(), own.telling.encoded().end());
    return {};
  }));
  ASSIGN_OR_RETURN(const std::vector<State> states, allgather(group_, state));
  std::vector<Verdict> verdicts;
  for (const State& each : states) verdicts.push_back(each.looked);
  RETURN_IF_ERROR(worst(verdicts));
  const bool news = std::any_of(states.begin(), states.end(), [](const State& each) { return !each.told; });
  std::vector<Buffer> maps;
  if (news) {
    ASSIGN_OR_RETURN(maps, allgatherv(group_, mine));
  }
  const std::scoped_lock lock(mutex_);
  for (const State& each : states) seen_.size = std::max(seen_.size, each.size);
  if (!news) return {};
  std::vector<IntervalMap> theirs;  // the higher ranks' first, which count
  for (std::size_t rank = maps.size(); rank-- > 0;) {
    if (static_cast<int>(rank) == group_.rank() || maps[rank].empty()) continue;
    ASSIGN_OR_RETURN(IntervalMap map, IntervalMap::decode(std::move(maps[rank])));
    if (static_cast<int>(rank) > group_.rank()) written_.telling = without(written_.telling, map);
    written_.told = without(written_.told, map);
    theirs.push_back(std::move(map));
  }
  written_.told = overlaid(written_.telling, written_.told);
  written_.telling = {};
  others_.insert(others_.begin(), theirs.begin(), theirs.end());
  if (others_.size() > kMostLayers) {
    IntervalMap all;
    for (const IntervalMap& layer : others_) all = overlaid(all, layer);
    others_ = {std::move(all)};
  }
  return {};
}

Result<Transferred> IntervalFile::map(Extent, bool, const MapBody&) {
  return refuse(Code::kUnsupportedOperation, "mapping an interval file");
}

Result<Bytes> IntervalFile::size() {
  const auto epoch = stay_in_epoch();
  const std::scoped_lock lock(mutex_);
  RETURN_IF_ERROR(look_around());
  return seen_.size;
}

Status IntervalFile::resize(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "resizing to a negative size");
  RETURN_IF_ERROR(check_end(size, "resizing"));
  RETURN_IF_ERROR(look_around_together());
  return guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    seen_.size = size;
    seen_.cut = std::min(seen_.cut, size);
    written_.log.cut(size);
    written_.published.cut(size);
    for (IntervalMap* map : {&written_.telling, &written_.told}) *map = below(*map, size);
    shared().cut(size);
    failed_.cut(size);
    for (IntervalMap& layer : others_) layer = below(layer, size);
    return {};
  });
}

// Space cannot be reserved where every write goes to a new place: only the size is seen to.
Status IntervalFile::reserve(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "reserving a negative size");
  RETURN_IF_ERROR(check_end(size, "reserving"));
  const std::scoped_lock lock(mutex_);
  seen_.size = std::max(seen_.size, size);
  return {};
}

Caps IntervalFile::caps() const {
  const Caps stored = storage_->caps();
  const bool near = !requests_.waits && requests_.read.depth <= 1;
  return {.appends = true, .shares_reads = near, .alignment = kCell, .preferred = stored.preferred};
}

tl::unexpected<Error> IntervalFile::too_many() const {
  return refuse(Code::kNoMemory,
                "too many writes to an interval file that all ranks see before the next MPI_File_sync: of small ones, "
                "or in atomic mode or with stridio_visibility=immediate, all ranks together may have 65,536 between "
                "two commits (across nodes 8 MB of maps of them), or fewer where /dev/shm is full");
}

tl::unexpected<Error> IntervalFile::refuse(Code code, std::string what) const {
  return fail(Error{.code = code, .what = std::move(what), .path = path()});
}

Status IntervalFile::check_end(Offset end, const char* what) const {
  if (end <= kMostBytes) return {};
  return fail(Error{.code = Code::kNoSpace,
                    .what = fmt::format("{} up to byte {}: an interval file has at most 2^62 bytes", what, end),
                    .sys_errno = EFBIG,
                    .path = path()});
}

tl::unexpected<Error> IntervalFile::refuse_broken() const {
  return refuse(Code::kIo, "a commit has failed at its last step: open the interval file anew");
}

Status IntervalFile::check_whole() const { return broken_ ? Status(refuse_broken()) : Status(); }

Status IntervalFile::check_writable() const {
  if (writes_) return {};
  return refuse(Code::kReadOnly, "changing an interval file opened for reading only");
}

}  // namespace stridio
