// The stored file: two header slots, a word from which space is taken, and then data, metadata and roots in any order, each
// process's together as far as its chunks reach. Nothing that the newest generation refers to is ever written again; what it
// no longer refers to is free once no reader holds the generation before.
//
// A commit: all tell what they wrote; each takes from its own parts what anybody has overwritten (within a commit the
// higher rank's bytes count), and says where it will store their metadata; they are stored, the root beside them by rank 0,
// and all this is made durable; then rank 0 overwrites one header slot, then the other, the order alternating. So at
// every moment one slot names a whole generation, and at rest both name the newest.
#include "interval/interval_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/guarded.h"
#include "base/worker.h"
#include "collective/agreement.h"
#include "storage/request.h"

namespace stridio {
namespace {

// Locks that are no bytes of the file.
constexpr Offset kLocks = kWriterLock.offset;
Extent pin_of(std::uint64_t generation) { return {kLocks + 1 + static_cast<Offset>(generation), 1}; }
Extent pins_below(std::uint64_t generation) { return {kLocks + 1, static_cast<Offset>(generation)}; }

// How far space is taken; means something only while the file is open for writing.
constexpr Extent kTaken{kSlots * kSlotBytes, 8};

constexpr Bytes kLeastChunk = 4 * kCell, kLargestChunk = Bytes{16} << 20;
constexpr Bytes kLeastReclaimed = Bytes{256} << 10;
constexpr std::size_t kFew = 64;               // extents of a write that all ranks are told of
constexpr Bytes kCopied = Bytes{4} << 20;  // at once, when a part is moved

Offset up(Offset offset) { return (offset + kCell - 1) / kCell * kCell; }
Offset down(Offset offset) { return offset / kCell * kCell; }

template <typename Fragments>
Sums sums_of(Fragments fragments) {
  std::sort(fragments.begin(), fragments.end(),
            [](const auto& a, const auto& b) { return a.stored.offset < b.stored.offset; });
  Sums sums;
  for (const auto& each : fragments) sums.add(each.stored, each.sum);
  return sums;
}

// A part of the given intervals, with the cells of `stored` in which any of them lies.
Part with_cells(IntervalMap map, const Sums& stored, std::vector<Extent>& runs) {
  std::vector<std::pair<Extent, std::uint32_t>> cells;
  each_cell(stored.runs, stored.sums, [&](Extent cell, std::uint32_t sum) { cells.emplace_back(cell, sum); });
  std::vector<bool> used(cells.size());
  for (MapCursor cursor(map); !cursor.done(); cursor.next()) {
    const Extent wanted = cursor.piece().stored_range();
    auto cell = std::upper_bound(cells.begin(), cells.end(), wanted.offset,
                                 [](Offset offset, const auto& each) { return offset < each.first.end(); });
    for (; cell != cells.end() && cell->first.offset < wanted.end(); ++cell)
      used[static_cast<std::size_t>(cell - cells.begin())] = true;
  }
  Sums kept;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (used[i]) kept.add(cells[i].first, cells[i].second);
  runs = std::move(kept.runs);
  return {std::move(map), std::move(kept.sums)};
}

}  // namespace

// ---- Opening

Result<IntervalFile::Content> IntervalFile::recognized(Storage& storage) {
  ASSIGN_OR_RETURN(const Head head, Head::read(storage));
  return head.content();
}

Status IntervalFile::format(Storage& storage) {
  const std::vector<std::byte> root = encode(Root{.generation = 1, .size = 0, .processes = 0, .parts = {}});
  const auto header = encode(
      Header{.generation = 1, .root = {kFirstStored, static_cast<Bytes>(root.size())}, .root_sum = crc32c(root)});
  std::vector<std::byte> bytes(static_cast<std::size_t>(kFirstStored));
  for (int slot = 0; slot < kSlots; ++slot) std::copy(header.begin(), header.end(), bytes.begin() + slot * kSlotBytes);
  bytes.insert(bytes.end(), root.begin(), root.end());
  RETURN_IF_ERROR(storage.write({0, static_cast<Bytes>(bytes.size())}, bytes.data()));
  return {};
}

Result<std::unique_ptr<IntervalFile>> IntervalFile::open(Group& group, std::unique_ptr<Storage> storage, bool writes) {
  std::unique_ptr<IntervalFile> file(new IntervalFile(group, std::move(storage), writes));
  RETURN_IF_ERROR(file->load());
  return file;
}

Status IntervalFile::load() {
  Status mine;
  std::vector<std::byte> bytes;
  Finished told;
  if (group_.rank() == 0) mine = guarded([&] { return begin(bytes, told); });
  RETURN_IF_ERROR(agree(group_, mine));
  ASSIGN_OR_RETURN(const std::vector<Buffer> all, allgatherv(group_, bytes));
  ASSIGN_OR_RETURN(const std::vector<Finished> finished, allgather(group_, told));
  auto root = decode_root(all.front());
  RETURN_IF_ERROR(agree(group_, root ? Status() : fail(root.error())));
  if (writes_) {
    ASSIGN_OR_RETURN(shared_log_, SharedLog::make(group_));
  }
  adopt(*std::move(root), {}, finished.front());
  for (std::size_t i = static_cast<std::size_t>(group_.rank()); i < seen_.generation->root().parts.size();
       i += static_cast<std::size_t>(group_.size()))
    own_parts_.push_back(i);
  return {};
}

// On rank 0: takes the locks, finds the newest generation's root, and where there is space.
Status IntervalFile::begin(std::vector<std::byte>& root, Finished& told) {
  if (writes_) {
    auto lock = storage_->lock(kWriterLock, LockMode::kExclusiveNow);
    if (lock) {
      writing_ = *std::move(lock);
    } else if (lock.error().code == Code::kFileInUse) {
      return fail(Error{.code = Code::kFileInUse,
                        .what = "somebody has the interval file open for writing; one program at a time may",
                        .path = path()});
    } else if (lock.error().code != Code::kUnsupportedOperation || group_.size() > 1) {
      return fail(lock.error());
    }
  }
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(Head head, Head::read(*storage_));
    ASSIGN_OR_RETURN(const Header header, head.newest());
    if (!writes_) {
      RETURN_IF_ERROR(pin(header.generation));
      ASSIGN_OR_RETURN(head, Head::read(*storage_));
      ASSIGN_OR_RETURN(const Header now, head.newest());
      if (now.generation != header.generation) continue;  // committed meanwhile, maybe before we held the pin
    }
    ASSIGN_OR_RETURN(StoredRoot stored, read_root(*storage_, head, header));
    root = std::move(stored.bytes);
    told.root = header.root;
    if (!writes_) return {};
    ASSIGN_OR_RETURN(const Root decoded, decode_root(root));
    told.reuse = nobody_reads_before(header.generation);
    stored_size_ = stored.size;
    return settle_space(decoded, told);
  }
  return fail(
      Error{.code = Code::kIo, .what = "the interval file is committed faster than it can be opened", .path = path()});
}

Status IntervalFile::pin(std::uint64_t generation) {
  auto lock = storage_->lock(pin_of(generation), LockMode::kShared);
  if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
  reading_ = lock ? *std::move(lock) : nullptr;
  return {};
}

// On rank 0, once `generation` is the newest: then nobody comes to read an older one.
bool IntervalFile::nobody_reads_before(std::uint64_t generation) {
  return generation == 1 || storage_->lock(pins_below(generation), LockMode::kExclusiveNow).has_value();
}

// On rank 0, of the generation that is the newest from now on, durably: where space is.
Status IntervalFile::settle_space(const Root& root, Finished& told) {
  const Offset end = up(std::max(root.end(), told.root.end()));
  if (told.reuse && stored_size_ > end) {
    RETURN_IF_ERROR(storage_->resize(end));
    stored_size_ = end;
  }
  told.end = told.reuse ? end : std::max(end, up(stored_size_));
  if (shared_log_) shared_log_->clear();
  if (std::atomic<Bytes>* const taken = taken_on_node()) {
    taken->store(0);
  } else if (group_.size() > 1) {
    constexpr Bytes kNothing = 0;
    RETURN_IF_ERROR(storage_->write(kTaken, reinterpret_cast<const std::byte*>(&kNothing)));
  }
  return {};
}

// Every rank goes on from the generation `root`. `own` are this rank's lines of it, known already.
void IntervalFile::adopt(Root root, const std::vector<Own>& own, const Finished& told) {
  auto generation = std::make_shared<Generation>(std::move(root));
  own_parts_.clear();
  const auto& parts = generation->root().parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (seen_.generation) generation->keep_from(*seen_.generation, i);
    for (const Own& each : own) {
      if (each.entry.metadata != parts[i].metadata) continue;
      own_parts_.push_back(i);
      if (each.part) generation->keep(i, each.part);
    }
  }
  written_ = {};
  shared_ = {};
  others_.clear();
  told_ = false;
  if (shared_log_) shared_log_->begin(generation->root().generation);
  reclaim_at_ = kLeastReclaimed;
  seen_.size = seen_.cut = generation->root().size;
  seen_.generation = std::move(generation);
  chunk_ = {};
  free_.clear();
  taken_ = 0;
  reach_ = 0;
  find_space(told);
}

// ---- Space
//
// All ranks know the holes of a generation, and see them and what lies behind its end as one sequence of bytes to take
// from. How far it is taken is a word in the group's memory; where it has none, in the stored file, under a lock.

// `reuse`: the holes too.
void IntervalFile::find_space(const Finished& told) {
  space_.clear();
  if (told.reuse) {
    auto used = stored_extents(seen_.generation->root()).value_or(std::vector<Extent>{});
    used.push_back(told.root);
    std::sort(used.begin(), used.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    Offset at = kFirstStored;
    for (const Extent& extent : used) {
      const Extent hole{up(at), down(extent.offset) - up(at)};
      if (!hole.empty()) space_.push_back(hole);
      at = std::max(at, extent.end());
    }
  }
  space_.push_back({told.end, kLocks - told.end});
}

// The last word of the group's persistent bytes; the others are those of a file's shared state.
std::atomic<Bytes>* IntervalFile::taken_on_node() const {
  static_assert(sizeof(std::atomic<Bytes>) == sizeof(Bytes) && std::atomic<Bytes>::is_always_lock_free);
  const SharedMemory memory = group_.persistent();
  if (memory.length < Group::kPersistentBytes) return nullptr;
  return reinterpret_cast<std::atomic<Bytes>*>(memory.data + Group::kPersistentBytes - sizeof(Bytes));
}

Result<Offset> IntervalFile::take_space(Bytes bytes) {
  if (std::atomic<Bytes>* const taken = taken_on_node()) return taken->fetch_add(bytes);
  if (group_.size() == 1) return std::exchange(taken_, taken_ + bytes);
  ASSIGN_OR_RETURN(const auto lock, storage_->lock(kTaken, LockMode::kExclusive));
  Bytes taken = 0;
  ASSIGN_OR_RETURN(const Transferred got, storage_->read(kTaken, reinterpret_cast<std::byte*>(&taken)));
  if (got.eof || taken < 0 || taken % kCell != 0)
    return refuse(Code::kIo, "somebody else has written to the interval file");
  const Bytes next = taken + bytes;
  RETURN_IF_ERROR(storage_->write(kTaken, reinterpret_cast<const std::byte*>(&next)));
  return taken;
}

// Makes the next `bytes` bytes or more this process's.
Status IntervalFile::take_extents(Bytes bytes) {
  const Bytes length = up(bytes);
  ASSIGN_OR_RETURN(const Offset first, take_space(length));
  std::vector<Extent> mine;
  Offset before = 0;  // of the sequence
  for (const Extent& extent : space_) {
    const Extent part = intersect({first - before, length}, {0, extent.length});
    if (!part.empty()) mine.push_back({extent.offset + part.offset, part.length});
    before += extent.length;
    if (before >= first + length) break;
  }
  free_.insert(free_.begin(), mine.rbegin(), mine.rend());  // the lowest is taken first
  return {};
}

// One extent at least; as few as can be.
Result<std::vector<Extent>> IntervalFile::allocate(Bytes bytes) {
  std::vector<Extent> taken;
  while (bytes > 0) {
    if (chunk_.empty()) {
      if (free_.empty())
        RETURN_IF_ERROR(take_extents(std::max(bytes, std::clamp(written_.bytes / 8, kLeastChunk, kLargestChunk))));
      chunk_ = free_.back();
      free_.pop_back();
    }
    const Extent part{chunk_.offset, std::min(bytes, chunk_.length)};
    chunk_ = {part.end(), chunk_.length - part.length};
    reach_ = std::max(reach_, part.end());
    if (!taken.empty() && taken.back().end() == part.offset) {
      taken.back().length += part.length;
    } else {
      taken.push_back(part);
    }
    bytes -= part.length;
  }
  return taken;
}

// Metadata are one run.
Result<Extent> IntervalFile::allocate_whole(Bytes bytes) {
  while (chunk_.length < bytes) {
    const auto enough =
        std::find_if(free_.rbegin(), free_.rend(), [&](const Extent& each) { return each.length >= bytes; });
    if (enough == free_.rend()) {
      RETURN_IF_ERROR(take_extents(bytes));
      continue;
    }
    const Extent rest{up(chunk_.offset), down(chunk_.end()) - up(chunk_.offset)};
    chunk_ = *enough;
    free_.erase(std::next(enough).base());
    if (!rest.empty()) free_.push_back(rest);
  }
  const Extent taken{chunk_.offset, bytes};
  chunk_ = {taken.end(), chunk_.length - bytes};
  reach_ = std::max(reach_, taken.end());
  return taken;
}

// ---- Reading and writing

Result<Transferred> IntervalFile::readv(std::span<const Extent> extents, std::span<const Span> memory) {
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  Intervals from;
  {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(look_around());
    from = seen_;
    for (WriteLog* log : {&shared_, &written_.log})
      for (const IntervalMap& layer : log->layers()) from.layers.push_back(layer);
    from.layers.insert(from.layers.end(), others_.begin(), others_.end());
  }
  return guarded([&] { return read_intervals(*storage_, from, extents, memory); });
}

Result<Transferred> IntervalFile::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  RETURN_IF_ERROR(check_writable());
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  Bytes bytes = 0;
  for (const Extent& extent : extents) bytes += extent.length;
  if (bytes == 0) return Transferred{};
  return guarded([&]() -> Result<Transferred> {
    const std::shared_lock epoch(epoch_);
    {
      const std::scoped_lock lock(mutex_);
      if (broken_) return refuse(Code::kIo, "a commit has failed at its last step: open the interval file anew");
      RETURN_IF_ERROR(reclaim());
    }
    ASSIGN_OR_RETURN(const Appended appended, append(bytes, memory));
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(log(extents, note(extents, appended, written_)));
    for (const Extent& extent : extents)
      if (!extent.empty()) seen_.size = std::max(seen_.size, extent.end());
    return appended.moved;
  });
}

// Stores the memory's bytes somewhere.
Result<IntervalFile::Appended> IntervalFile::append(Bytes bytes, std::span<const Span> memory) {
  Appended appended;
  {
    const std::scoped_lock lock(mutex_);
    ASSIGN_OR_RETURN(appended.stored, allocate(bytes));
  }
  MemoryCursor from(memory);
  for (const Extent& run : appended.stored)
    for (Offset at = run.offset; at < run.end(); at = appended.fragments.back().stored.end()) {
      Fragment fragment{cell_at(run, at), 0};
      for (Bytes left = fragment.stored.length; left > 0;) {
        const Span piece = from.take(left);
        fragment.sum = crc32c({piece.data, static_cast<std::size_t>(piece.length)}, fragment.sum);
        left -= piece.length;
      }
      appended.fragments.push_back(fragment);
    }
  ASSIGN_OR_RETURN(appended.moved, storage_->writev(appended.stored, memory));
  return appended;
}

// The sums of what was appended; returns which bytes of `extents` it is.
std::vector<Piece> IntervalFile::note(std::span<const Extent> extents, const Appended& appended, Written& written) {
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
  std::vector<Piece> pieces;
  auto run = appended.stored.begin();
  Bytes used = 0;  // of the run
  for (Extent extent : extents) {
    while (!extent.empty()) {
      if (used == run->length) {
        ++run;
        used = 0;
      }
      const Bytes length = std::min(extent.length, run->length - used);
      pieces.push_back({extent.offset, length, run->offset + used});
      extent = {extent.offset + length, extent.length - length};
      used += length;
    }
  }
  return pieces;
}

// That the newest bytes of `extents` are in these pieces: with all ranks where they are few, else with this one; but of what
// all know, all are told.
Status IntervalFile::log(std::span<const Extent> extents, std::span<const Piece> pieces) {
  if (shared_log_ && extents.size() <= kFew && shared_log_->publish(pieces)) return {};
  told_ = false;
  WriteLog mine;
  for (const Piece& piece : pieces) {
    written_.log.add(piece);
    if (shared_log_) mine.add(piece);
  }
  if (!shared_log_) return {};
  RETURN_IF_ERROR(look_around());
  const IntervalMap map = mine.merged(), known = without(map, without(map, shared_.merged()));
  std::vector<Piece> newer;
  for (MapCursor cursor(known); !cursor.done(); cursor.next()) newer.push_back(cursor.piece());
  if (newer.empty() || shared_log_->publish(newer)) return {};
  return refuse(Code::kNoMemory, "too many small writes to an interval file since the last MPI_File_sync");
}

// What others have told.
Status IntervalFile::look_around() {
  if (!shared_log_) return {};
  ASSIGN_OR_RETURN(const std::vector<Piece> news, shared_log_->news());
  for (const Piece& piece : news) {
    shared_.add(piece);
    seen_.size = std::max(seen_.size, piece.end());
  }
  return {};
}

Status IntervalFile::share() {
  if (!writes_ || group_.size() == 1) return {};
  struct State {
    Bytes size;
    bool told;
  };
  Buffer mine;
  State state;
  Status looked;
  {
    const std::scoped_lock lock(mutex_);
    looked = look_around();
    state = {seen_.size, told_ || written_.log.empty()};
    const IntervalMap map = written_.log.merged();
    mine.assign(map.encoded().begin(), map.encoded().end());
  }
  RETURN_IF_ERROR(agree(group_, looked));
  ASSIGN_OR_RETURN(const std::vector<State> states, allgather(group_, state));
  const bool news = std::any_of(states.begin(), states.end(), [](const State& each) { return !each.told; });
  std::vector<Buffer> maps;
  if (news) {
    ASSIGN_OR_RETURN(maps, allgatherv(group_, mine));
  }
  const std::scoped_lock lock(mutex_);
  for (const State& each : states) seen_.size = std::max(seen_.size, each.size);
  if (!news) return {};
  told_ = true;
  others_.clear();
  for (std::size_t rank = maps.size(); rank-- > 0;) {  // the higher ranks' count
    if (static_cast<int>(rank) == group_.rank() || maps[rank].empty()) continue;
    ASSIGN_OR_RETURN(IntervalMap map, IntervalMap::decode(std::move(maps[rank])));
    others_.push_back(std::move(map));
  }
  return {};
}

// What this process has written since the last commit, without what is known to be overwritten.
IntervalMap IntervalFile::still_mine() {
  const IntervalMap shared = shared_.merged();
  if (shared.empty()) return written_.log.merged();
  const std::vector<Extent> own = sums_of(written_.fragments).runs;
  MapBuilder mine;
  for (MapCursor cursor(shared); !cursor.done(); cursor.next()) {
    const Piece piece = cursor.piece();
    auto run = std::upper_bound(own.begin(), own.end(), piece.stored,
                                [](Offset offset, const Extent& each) { return offset < each.end(); });
    for (; run != own.end() && run->offset < piece.stored + piece.length; ++run) {
      const Extent part = intersect(*run, piece.stored_range());
      mine.add({piece.logical + part.offset - piece.stored, part.length, part.offset});
    }
  }
  return overlaid(mine.finish(), without(written_.log.merged(), shared));
}

// Bytes that were overwritten before any commit are nobody's: where they are many, their cells are free again.
Status IntervalFile::reclaim() {
  if (written_.bytes < reclaim_at_) return {};
  RETURN_IF_ERROR(look_around());
  const IntervalMap map = still_mine();
  std::vector<Extent> kept, freed;
  const Sums stored = sums_of(written_.fragments);
  const Part part = with_cells(map, stored, kept);
  Bytes bytes = 0;
  auto next = kept.begin();
  for (const Extent& run : stored.runs) {
    Offset at = run.offset;
    for (; next != kept.end() && next->offset < run.end(); ++next) {
      freed.push_back({at, next->offset - at});
      at = next->end();
      bytes += next->length;
    }
    freed.push_back({at, run.end() - at});
  }
  reclaim_at_ = kLeastReclaimed + bytes + bytes / 4;
  for (const Extent& each : freed) {
    const Extent whole{up(each.offset), down(each.end()) - up(each.offset)};
    if (!whole.empty()) free_.push_back(whole);
  }
  written_.bytes = bytes;
  written_.fragments.clear();
  each_cell(kept, part.sums, [&](Extent cell, std::uint32_t sum) { written_.fragments.push_back({cell, sum}); });
  return {};
}

Result<Transferred> IntervalFile::map(Extent, bool, const MapBody&) {
  return refuse(Code::kUnsupportedOperation, "mapping an interval file");
}

Result<Bytes> IntervalFile::size() {
  const std::scoped_lock lock(mutex_);
  RETURN_IF_ERROR(look_around());
  return seen_.size;
}

Status IntervalFile::resize(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "resizing to a negative size");
  return guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(look_around());
    seen_.size = size;
    seen_.cut = std::min(seen_.cut, size);
    written_.log.cut(size);
    shared_.cut(size);
    for (IntervalMap& layer : others_) layer = below(layer, size);
    return {};
  });
}

// Space cannot be reserved where every write goes to a new place: only the size is seen to.
Status IntervalFile::reserve(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "reserving a negative size");
  const std::scoped_lock lock(mutex_);
  seen_.size = std::max(seen_.size, size);
  return {};
}

Result<std::unique_ptr<RangeLock>> IntervalFile::lock(Extent, LockMode) {
  return refuse(Code::kUnsupportedOperation, "locking a range of an interval file");
}

Caps IntervalFile::caps() const { return {.appends = true, .alignment = 1, .preferred = storage_->caps().preferred}; }

tl::unexpected<Error> IntervalFile::refuse(Code code, std::string what) const {
  return fail(Error{.code = code, .what = std::move(what), .path = path()});
}

Status IntervalFile::check_writable() const {
  if (writes_) return {};
  return refuse(Code::kReadOnly, "changing an interval file opened for reading only");
}

// ---- Committing

Status IntervalFile::commit() {
  if (!writes_) return {};
  const std::unique_lock epoch(epoch_);
  const Root& before = seen_.generation->root();
  if (shared_log_) RETURN_IF_ERROR(group_.barrier());  // all have written
  ASSIGN_OR_RETURN(const std::vector<Announcement> all, announce());
  Bytes size = 0;
  bool changed = false;
  for (const Announcement& each : all) {
    size = std::max(size, each.size);
    changed = changed || !each.written.empty() || each.cut < before.size;
  }
  if (!changed && size == before.size) {
    const bool new_file = before.generation == 1 && group_.rank() == 0;
    return before.generation == 1 ? agree(group_, new_file ? storage_->sync() : Status()) : Status();
  }

  std::vector<Own> own;
  const Status prepared = guarded([&]() -> Status {
    ASSIGN_OR_RETURN(own, prepare(all));
    return place(own);
  });
  RETURN_IF_ERROR(agree(group_, prepared));
  ASSIGN_OR_RETURN(Root root, gather_root(own, size));
  const std::vector<std::byte> encoded = group_.rank() == 0 ? encode(root) : std::vector<std::byte>();
  Finished mine;
  RETURN_IF_ERROR(agree(group_, guarded([&] { return store(own, encoded, mine.root); })));
  Status finished;
  if (group_.rank() == 0) finished = guarded([&] { return finish(root, crc32c(encoded), mine); });
  mine.verdict = verdict_of(finished);
  ASSIGN_OR_RETURN(const std::vector<Finished> all_finished, allgather(group_, mine));
  const std::scoped_lock lock(mutex_);
  broken_ = all_finished.front().broken;
  RETURN_IF_ERROR(worst({&all_finished.front().verdict, 1}));
  adopt(std::move(root), own, all_finished.front());
  return {};
}

// The next generation of everybody's parts; rank 0 learns how far the stored file reaches.
Result<Root> IntervalFile::gather_root(const std::vector<Own>& own, Bytes size) {
  std::vector<PartEntry> entries;
  for (const Own& each : own) entries.push_back(each.entry);
  Buffer mine = encode(std::span(entries));
  const auto reach = std::as_bytes(std::span(&reach_, 1));
  mine.insert(mine.end(), reach.begin(), reach.end());
  ASSIGN_OR_RETURN(std::vector<Buffer> told, allgatherv(group_, mine));
  Root root{.generation = seen_.generation->root().generation + 1,
            .size = size,
            .processes = static_cast<std::uint32_t>(group_.size()),
            .parts = {}};
  for (Buffer& each : told) {
    Offset theirs_reach = 0;
    std::memcpy(&theirs_reach, each.data() + each.size() - sizeof theirs_reach, sizeof theirs_reach);
    each.resize(each.size() - sizeof theirs_reach);
    stored_size_ = std::max(stored_size_, theirs_reach);
    ASSIGN_OR_RETURN(const std::vector<PartEntry> theirs, decode_entries(each));
    root.parts.insert(root.parts.end(), theirs.begin(), theirs.end());
  }
  RETURN_IF_ERROR(stored_extents(root));
  return root;
}

Result<std::vector<IntervalFile::Announcement>> IntervalFile::announce() {
  struct Fixed {
    Bytes size, cut;
  };
  Buffer mine;
  {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(look_around());
    const Fixed fixed{seen_.size, seen_.cut};
    const auto bytes = std::as_bytes(std::span(&fixed, 1));
    mine.assign(bytes.begin(), bytes.end());
    const IntervalMap written = still_mine();
    mine.insert(mine.end(), written.encoded().begin(), written.encoded().end());
  }
  ASSIGN_OR_RETURN(const std::vector<Buffer> told, allgatherv(group_, mine));
  std::vector<Announcement> all;
  for (const Buffer& each : told) {
    Fixed fixed;
    std::memcpy(&fixed, each.data(), sizeof fixed);
    ASSIGN_OR_RETURN(IntervalMap written, IntervalMap::decode({each.begin() + sizeof fixed, each.end()}));
    all.push_back({fixed.size, fixed.cut, std::move(written)});
  }
  return all;
}

IntervalFile::Own IntervalFile::make_own(IntervalMap map, const Sums& stored) const {
  Own own;
  own.part = std::make_shared<const Part>(with_cells(std::move(map), stored, own.entry.runs));
  own.changed = true;
  own.entry.process = static_cast<std::uint32_t>(group_.rank());
  own.entry.bounds = own.part->map.bounds();
  own.entry.bytes = own.part->map.size();
  return own;
}

// This rank's lines of the next generation.
Result<std::vector<IntervalFile::Own>> IntervalFile::prepare(const std::vector<Announcement>& all) {
  Bytes cut = seen_.cut;
  for (const Announcement& each : all) cut = std::min(cut, each.cut);
  std::vector<Own> parts;
  for (const std::size_t i : own_parts_) {
    const PartEntry& entry = seen_.generation->root().parts[i];
    const bool touched = std::any_of(all.begin(), all.end(), [&](const Announcement& each) {
      return !intersect(each.written.bounds(), entry.bounds).empty();
    });
    if (!touched && entry.bounds.end() <= cut) {
      parts.push_back({entry, nullptr});
      continue;
    }
    ASSIGN_OR_RETURN(const auto part, seen_.generation->part(i, *storage_));
    IntervalMap left = below(part->map, cut);
    for (const Announcement& each : all) left = without(left, each.written);
    if (left.size() == entry.bytes) {
      parts.push_back({entry, part});
    } else if (!left.empty()) {
      parts.push_back(make_own(std::move(left), {entry.runs, part->sums}));
    }
  }
  RETURN_IF_ERROR(compact(parts));
  IntervalMap written = all[static_cast<std::size_t>(group_.rank())].written;
  for (std::size_t rank = static_cast<std::size_t>(group_.rank()) + 1; rank < all.size(); ++rank)
    written = without(written, all[rank].written);
  if (!written.empty()) {
    parts.push_back(make_own(std::move(written), sums_of(written_.fragments)));
  }
  RETURN_IF_ERROR(merge_small(parts));
  return parts;
}

// Moves parts of which much has been overwritten, so that their space is free with the next generation; and parts that lie
// far behind the end that a compact file would have, where there is space before. A whole commit that writes everything
// anew needs as much again as is live: with a quarter more overwritten, the file stays below 2.5 times that.
Status IntervalFile::compact(std::vector<Own>& parts) {
  const Bytes live = seen_.generation->root().live() + written_.bytes;
  Bytes room = -written_.bytes;
  for (std::size_t i = 0; i + 1 < space_.size(); ++i) room += space_[i].length / group_.size();
  for (Own& own : parts) {
    Bytes stored = 0;
    for (const Extent& run : own.entry.runs) stored += run.length;
    const bool sparse = stored - own.entry.bytes > own.entry.bytes / 4 + kCell;
    const bool far = own.entry.runs.back().end() > 2 * live + kLeastReclaimed && room > own.entry.bytes;
    if (!sparse && !far) continue;
    if (!own.part) {
      ASSIGN_OR_RETURN(own.part, known_part(own.entry));
    }
    ASSIGN_OR_RETURN(own, moved(own.part->map));
    room -= own.entry.bytes;
  }
  return {};
}

// Intervals of this generation, stored anew.
Result<IntervalFile::Own> IntervalFile::moved(const IntervalMap& map) {
  Written written;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kCopied, map.size())));
  std::vector<Extent> extents;
  Bytes bytes = 0;
  const auto copy = [&]() -> Status {
    const Span span{buffer.data(), bytes};
    ASSIGN_OR_RETURN(const Transferred got, read_intervals(*storage_, seen_, extents, {&span, 1}));
    if (got.bytes < bytes) return refuse(Code::kIo, "the interval file is damaged: intervals behind its end");
    ASSIGN_OR_RETURN(const Appended appended, append(bytes, {&span, 1}));
    for (const Piece& piece : note(extents, appended, written)) written.log.add(piece);
    extents.clear();
    bytes = 0;
    return {};
  };
  for (MapCursor cursor(map); !cursor.done(); cursor.next())
    for (Extent left = cursor.piece().range(); !left.empty();) {
      const Bytes length = std::min(left.length, static_cast<Bytes>(buffer.size()) - bytes);
      extents.push_back({left.offset, length});
      left = {left.offset + length, left.length - length};
      bytes += length;
      if (bytes == static_cast<Bytes>(buffer.size())) RETURN_IF_ERROR(copy());
    }
  if (bytes > 0) RETURN_IF_ERROR(copy());
  return make_own(written.log.merged(), sums_of(written.fragments));
}

// Of a line that is this rank's.
Result<std::shared_ptr<const Part>> IntervalFile::known_part(const PartEntry& entry) {
  for (const std::size_t i : own_parts_)
    if (seen_.generation->root().parts[i].metadata == entry.metadata) return seen_.generation->part(i, *storage_);
  return refuse(Code::kOther, "a part of an interval file is not this process's");
}

// A part is merged into the one before it where it is not much smaller, so that a process's parts are few, and a piece
// of metadata is written again only a few times, however often is committed.
Status IntervalFile::merge_small(std::vector<Own>& parts) {
  const auto bytes_of = [](const Own& own) {
    return own.changed ? static_cast<Bytes>(own.part->map.encoded().size() + 4 * own.part->sums.size())
                       : own.entry.metadata.length;
  };
  while (parts.size() > 1 && parts.back().changed && 2 * bytes_of(parts.back()) >= bytes_of(parts[parts.size() - 2])) {
    Own last = std::move(parts.back());
    parts.pop_back();
    Own& before = parts.back();
    if (!before.part) {
      ASSIGN_OR_RETURN(before.part, known_part(before.entry));
    }
    std::vector<Fragment> cells;
    for (const Own* own : {&before, &last})
      each_cell(own->entry.runs, own->part->sums, [&](Extent cell, std::uint32_t sum) {
        cells.push_back({cell, sum});
      });
    before = make_own(overlaid(last.part->map, before.part->map), sums_of(std::move(cells)));
  }
  return {};
}

// Gives the metadata of what has changed their places.
Status IntervalFile::place(std::vector<Own>& parts) {
  for (Own& own : parts) {
    if (!own.changed) continue;
    own.metadata = encode(*own.part);
    own.entry.sum = crc32c(own.metadata);
    ASSIGN_OR_RETURN(own.entry.metadata, allocate_whole(static_cast<Bytes>(own.metadata.size())));
  }
  return {};
}

// Writes the metadata, and rank 0 the root; then they and the data are durable.
Status IntervalFile::store(const std::vector<Own>& parts, const std::vector<std::byte>& root, Extent& root_place) {
  std::vector<Extent> extents;
  std::vector<Span> memory;
  const auto add = [&](Extent extent, const std::vector<std::byte>& bytes) {
    extents.push_back(extent);
    memory.push_back({const_cast<std::byte*>(bytes.data()), extent.length});
  };
  for (const Own& own : parts)
    if (own.changed) add(own.entry.metadata, own.metadata);
  if (group_.rank() == 0) {
    ASSIGN_OR_RETURN(root_place, allocate_whole(static_cast<Bytes>(root.size())));
    stored_size_ = std::max(stored_size_, root_place.end());
    add(root_place, root);
  }
  if (!extents.empty()) RETURN_IF_ERROR(storage_->writev(extents, memory));
  return extents.empty() && written_.fragments.empty() ? Status() : storage_->sync();
}

// On rank 0: makes `root` the newest generation. What need not wait for the slot to be durable goes on beside.
Status IntervalFile::finish(const Root& root, std::uint32_t sum, Finished& told) {
  const std::vector<std::byte> header = encode(Header{.generation = root.generation, .root = told.root, .root_sum = sum});
  const auto slot = [&](std::uint64_t number) -> Status {
    RETURN_IF_ERROR(storage_->write({static_cast<Offset>(number % kSlots) * kSlotBytes, kHeaderBytes}, header.data()));
    return {};
  };
  told.broken = true;
  RETURN_IF_ERROR(slot(root.generation));
  Status both;
  {
    Worker beside;
    beside.post([&] { told.reuse = nobody_reads_before(root.generation); });
    both = storage_->sync();
    if (both) both = slot(root.generation + 1);  // durable before the next commit writes a slot
  }
  RETURN_IF_ERROR(both);
  RETURN_IF_ERROR(settle_space(root, told));
  told.broken = false;
  return {};
}

}  // namespace stridio
