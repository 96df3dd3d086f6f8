// The stored file: two header slots, a word from which space is taken, and then data, metadata and roots in any order, each
// process's together as far as its chunks reach. Nothing that the newest generation refers to is ever written again; what it
// no longer refers to is free once no reader holds the generation before.
//
// A commit: all tell what they wrote; each takes from its own parts what anybody has overwritten (within a commit the
// higher rank's bytes count), stores their metadata and makes data and metadata durable; rank 0 stores the root, makes it
// durable, and overwrites the older header slot. So at every moment one slot names a whole generation.
#include "interval/interval_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/guarded.h"
#include "collective/agreement.h"
#include "storage/request.h"

namespace stridio {
namespace {

// Locks that are no bytes of the file.
constexpr Offset kLocks = Offset{1} << 62;
constexpr Extent kWriting{kLocks, 1};
Extent pin_of(std::uint64_t generation) { return {kLocks + 1 + static_cast<Offset>(generation), 1}; }
Extent pins_below(std::uint64_t generation) { return {kLocks + 1, static_cast<Offset>(generation)}; }

// The end of what is taken; means something only while the file is open for writing.
constexpr Extent kAllocated{kSlots * kSlotBytes, 8};

constexpr Bytes kLeastChunk = 4 * kCell, kLargestChunk = Bytes{16} << 20;

Offset up(Offset offset) { return (offset + kCell - 1) / kCell * kCell; }
Offset down(Offset offset) { return offset / kCell * kCell; }

// What is stored of a part, with its sums.
struct Sums {
  std::vector<Extent> runs;
  std::vector<std::uint32_t> sums;

  // At or behind what was added before; within a cell.
  void add(Extent stored, std::uint32_t sum) {
    if (runs.empty() || runs.back().end() < stored.offset) {
      runs.push_back(stored);
      sums.push_back(sum);
      return;
    }
    runs.back().length += stored.length;
    if (stored.offset % kCell == 0) {
      sums.push_back(sum);
    } else {
      sums.back() = crc32c_joined(sums.back(), sum, stored.length);
    }
  }
};

// Calls visit(cell, sum) for each cell, ascending.
template <typename Visit>
void each_cell(std::span<const Extent> runs, std::span<const std::uint32_t> sums, Visit visit) {
  std::size_t next = 0;
  for (const Extent& run : runs)
    for (Offset at = run.offset; at < run.end(); at = cell_at(run, at).end()) visit(cell_at(run, at), sums[next++]);
}

}  // namespace

// ---- Opening

Result<bool> IntervalFile::recognized(Storage& storage) {
  std::vector<std::byte> bytes(static_cast<std::size_t>((kSlots - 1) * kSlotBytes + kHeaderBytes));  // one request
  ASSIGN_OR_RETURN(const Transferred got, storage.read({0, static_cast<Bytes>(bytes.size())}, bytes.data()));
  const auto present = std::span(bytes).first(static_cast<std::size_t>(got.bytes));
  return begins_interval_file(present) ||
         (!got.eof && begins_interval_file(present.subspan(static_cast<std::size_t>(kSlotBytes))));
}

Status IntervalFile::format(Storage& storage) {
  const std::vector<std::byte> root = encode(Root{.generation = 1, .size = 0, .processes = 0, .parts = {}});
  RETURN_IF_ERROR(storage.write({kFirstStored, static_cast<Bytes>(root.size())}, root.data()));
  RETURN_IF_ERROR(storage.sync());
  const auto header =
      encode(Header{.generation = 1, .root = {kFirstStored, static_cast<Bytes>(root.size())}, .root_sum = crc32c(root)});
  for (int slot = 0; slot < kSlots; ++slot)  // both, so that one is recognized by its first bytes at once
    RETURN_IF_ERROR(storage.write({slot * kSlotBytes, kHeaderBytes}, header.data()));
  return storage.sync();
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
  adopt(*std::move(root), {}, finished.front());
  for (std::size_t i = static_cast<std::size_t>(group_.rank()); i < seen_.generation->root().parts.size();
       i += static_cast<std::size_t>(group_.size()))
    own_parts_.push_back(i);
  return {};
}

// On rank 0: takes the locks, finds the newest generation's root, and where there is space.
Status IntervalFile::begin(std::vector<std::byte>& root, Finished& told) {
  if (writes_) {
    auto lock = storage_->lock(kWriting, LockMode::kExclusiveNow);
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
    ASSIGN_OR_RETURN(const Header header, newest_header(*storage_));
    if (!writes_) RETURN_IF_ERROR(pin(header.generation));
    ASSIGN_OR_RETURN(const Header now, newest_header(*storage_));
    if (now.generation != header.generation) continue;  // committed meanwhile, maybe before we held the pin
    ASSIGN_OR_RETURN(root, read_root(*storage_, header));
    told.root = header.root;
    if (!writes_) return {};
    ASSIGN_OR_RETURN(const Root decoded, decode_root(root));
    return settle_space(decoded, told);
  }
  return fail(Error{.code = Code::kIo, .what = "the interval file is committed faster than it can be opened", .path = path()});
}

Status IntervalFile::pin(std::uint64_t generation) {
  auto lock = storage_->lock(pin_of(generation), LockMode::kShared);
  if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
  reading_ = lock ? *std::move(lock) : nullptr;
  return {};
}

// On rank 0, of the generation that is the newest from now on: whether older ones may be overwritten, and from where on
// space is taken.
Status IntervalFile::settle_space(const Root& root, Finished& told) {
  told.reuse = storage_->lock(pins_below(root.generation), LockMode::kExclusiveNow).has_value();
  const Offset end = up(std::max(root.end(), told.root.end()));
  ASSIGN_OR_RETURN(const Bytes size, storage_->size());
  if (told.reuse && size > end) RETURN_IF_ERROR(storage_->resize(end));
  told.end = told.reuse ? end : std::max(end, up(size));
  RETURN_IF_ERROR(storage_->write(kAllocated, reinterpret_cast<const std::byte*>(&told.end)));
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
  log_.clear();
  fragments_.clear();
  seen_.size = seen_.cut = generation->root().size;
  seen_.generation = std::move(generation);
  chunk_ = {};
  end_ = told.end;
  free_.clear();
  if (writes_ && told.reuse) share_space(told);
}

// This rank's share of what lies free below the end.
void IntervalFile::share_space(const Finished& told) {
  auto taken = stored_extents(seen_.generation->root());
  if (!taken) return;
  taken->push_back(told.root);
  taken->push_back({told.end, 0});
  std::sort(taken->begin(), taken->end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::vector<Extent> holes;
  Bytes all = 0;
  Offset at = kFirstStored;
  for (const Extent& extent : *taken) {
    const Extent hole{up(at), std::max<Bytes>(0, down(extent.offset) - up(at))};
    if (!hole.empty()) holes.push_back(hole);
    all += hole.length;
    at = std::max(at, extent.end());
  }
  const auto share = [&](int rank) { return down(static_cast<Offset>(__int128{all} * rank / group_.size())); };
  Extent mine{share(group_.rank()), share(group_.rank() + 1) - share(group_.rank())};
  if (group_.rank() + 1 == group_.size()) mine.length = all - mine.offset;
  Bytes before = 0;
  for (const Extent& hole : holes) {
    const Extent part = intersect({before, hole.length}, mine);
    if (!part.empty()) free_.push_back({hole.offset + part.offset - before, part.length});
    before += hole.length;
  }
}

// ---- Space

Result<Extent> IntervalFile::allocate_at_end(Bytes bytes) {
  bytes = up(bytes);
  if (group_.size() == 1) return Extent{std::exchange(end_, end_ + bytes), bytes};
  ASSIGN_OR_RETURN(const auto lock, storage_->lock(kAllocated, LockMode::kExclusive));
  Offset end = 0;
  ASSIGN_OR_RETURN(const Transferred got, storage_->read(kAllocated, reinterpret_cast<std::byte*>(&end)));
  if (got.eof || end < end_ || end > kLocks - bytes || end % kCell != 0)
    return fail(Error{.code = Code::kIo, .what = "somebody else has written to the interval file", .path = path()});
  const Offset next = end + bytes;
  RETURN_IF_ERROR(storage_->write(kAllocated, reinterpret_cast<const std::byte*>(&next)));
  return Extent{end, bytes};
}

// One extent at least; as few as can be.
Result<std::vector<Extent>> IntervalFile::allocate(Bytes bytes) {
  std::vector<Extent> taken;
  while (bytes > 0) {
    if (chunk_.empty() && !free_.empty()) {
      chunk_ = free_.back();
      free_.pop_back();
    } else if (chunk_.empty()) {
      ASSIGN_OR_RETURN(chunk_, allocate_at_end(std::max(bytes, std::clamp(written_ / 4, kLeastChunk, kLargestChunk))));
    }
    const Extent part{chunk_.offset, std::min(bytes, chunk_.length)};
    chunk_ = {part.end(), chunk_.length - part.length};
    if (!taken.empty() && taken.back().end() == part.offset) {
      taken.back().length += part.length;
    } else {
      taken.push_back(part);
    }
    bytes -= part.length;
    written_ += part.length;
  }
  return taken;
}

// Metadata are one run.
Result<Extent> IntervalFile::allocate_whole(Bytes bytes) {
  if (chunk_.length < bytes) {
    const auto enough = std::find_if(free_.begin(), free_.end(), [&](const Extent& each) { return each.length >= bytes; });
    if (enough != free_.end()) {
      chunk_ = *enough;
      free_.erase(enough);
    } else {
      ASSIGN_OR_RETURN(chunk_, allocate_at_end(bytes));
    }
  }
  const Extent taken{chunk_.offset, bytes};
  chunk_ = {taken.end(), chunk_.length - bytes};
  return taken;
}

// ---- Reading and writing

Result<Transferred> IntervalFile::readv(std::span<const Extent> extents, std::span<const Span> memory) {
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  Intervals from;
  {
    const std::scoped_lock lock(mutex_);
    from = seen_;
    const auto layers = log_.layers();
    from.layers.assign(layers.begin(), layers.end());
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
    std::vector<Extent> stored;
    {
      const std::scoped_lock lock(mutex_);
      if (broken_) return refuse(Code::kIo, "a commit has failed at its last step: open the interval file anew");
      ASSIGN_OR_RETURN(stored, allocate(bytes));
    }
    std::vector<Fragment> fragments;
    MemoryCursor from(memory);
    for (const Extent& run : stored)
      for (Offset at = run.offset; at < run.end(); at = fragments.back().stored.end()) {
        Fragment fragment{cell_at(run, at), 0};
        for (Bytes left = fragment.stored.length; left > 0;) {
          const Span piece = from.take(left);
          fragment.sum = crc32c({piece.data, static_cast<std::size_t>(piece.length)}, fragment.sum);
          left -= piece.length;
        }
        fragments.push_back(fragment);
      }
    ASSIGN_OR_RETURN(const Transferred moved, storage_->writev(stored, memory));
    note(extents, stored, fragments);
    return moved;
  });
}

// Where the bytes have gone.
void IntervalFile::note(std::span<const Extent> extents, std::span<const Extent> stored,
                        std::span<const Fragment> fragments) {
  const std::scoped_lock lock(mutex_);
  for (const Fragment& fragment : fragments) {
    Fragment* const last = fragments_.empty() ? nullptr : &fragments_.back();
    if (last && last->stored.end() == fragment.stored.offset && fragment.stored.offset % kCell != 0) {
      last->sum = crc32c_joined(last->sum, fragment.sum, fragment.stored.length);
      last->stored.length += fragment.stored.length;
    } else {
      fragments_.push_back(fragment);
    }
  }
  auto run = stored.begin();
  Bytes used = 0;  // of the run
  for (Extent extent : extents) {
    seen_.size = extent.empty() ? seen_.size : std::max(seen_.size, extent.end());
    while (!extent.empty()) {
      if (used == run->length) {
        ++run;
        used = 0;
      }
      const Bytes length = std::min(extent.length, run->length - used);
      log_.add({extent.offset, length, run->offset + used});
      extent = {extent.offset + length, extent.length - length};
      used += length;
    }
  }
}

Result<Transferred> IntervalFile::map(Extent, bool, const MapBody&) {
  return refuse(Code::kUnsupportedOperation, "mapping an interval file");
}

Result<Bytes> IntervalFile::size() {
  const std::scoped_lock lock(mutex_);
  return seen_.size;
}

Status IntervalFile::resize(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "resizing to a negative size");
  return guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    seen_.size = size;
    seen_.cut = std::min(seen_.cut, size);
    log_.cut(size);
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

Caps IntervalFile::caps() const {
  return {.appends = true, .alignment = 1, .preferred = storage_->caps().preferred};
}

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
  ASSIGN_OR_RETURN(const std::vector<Announcement> all, announce());
  Bytes size = 0;
  bool changed = false;
  for (const Announcement& each : all) {
    size = std::max(size, each.size);
    changed = changed || !each.written.empty() || each.cut < before.size;
  }
  if (!changed && size == before.size) return {};

  std::vector<Own> own;
  const Status stored = guarded([&]() -> Status {
    ASSIGN_OR_RETURN(own, prepare(all));
    return store(own);
  });
  RETURN_IF_ERROR(agree(group_, stored));
  std::vector<PartEntry> entries;
  for (const Own& each : own) entries.push_back(each.entry);
  ASSIGN_OR_RETURN(const std::vector<Buffer> told, allgatherv(group_, encode(std::span(entries))));
  Root root{.generation = before.generation + 1, .size = size,
            .processes = static_cast<std::uint32_t>(group_.size()), .parts = {}};
  for (const Buffer& each : told) {
    ASSIGN_OR_RETURN(const std::vector<PartEntry> theirs, decode_entries(each));
    root.parts.insert(root.parts.end(), theirs.begin(), theirs.end());
  }
  Finished mine;
  Status finished;
  if (group_.rank() == 0) finished = guarded([&] { return finish(root, mine); });
  mine.verdict = verdict_of(finished);
  ASSIGN_OR_RETURN(const std::vector<Finished> all_finished, allgather(group_, mine));
  const std::scoped_lock lock(mutex_);
  broken_ = all_finished.front().broken;
  RETURN_IF_ERROR(worst({&all_finished.front().verdict, 1}));
  adopt(std::move(root), own, all_finished.front());
  return {};
}

Result<std::vector<IntervalFile::Announcement>> IntervalFile::announce() {
  struct Fixed {
    Bytes size, cut;
  };
  Buffer mine;
  {
    const std::scoped_lock lock(mutex_);
    const Fixed fixed{seen_.size, seen_.cut};
    const auto bytes = std::as_bytes(std::span(&fixed, 1));
    mine.assign(bytes.begin(), bytes.end());
    const IntervalMap written = log_.merged();
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

namespace {

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

IntervalFile::Own IntervalFile::make_own(IntervalMap map, const std::vector<Extent>& runs,
                                         const std::vector<std::uint32_t>& sums) const {
  Own own;
  own.part = std::make_shared<const Part>(with_cells(std::move(map), {runs, sums}, own.entry.runs));
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
      parts.push_back(make_own(std::move(left), entry.runs, part->sums));
    }
  }
  IntervalMap written = all[static_cast<std::size_t>(group_.rank())].written;
  for (std::size_t rank = static_cast<std::size_t>(group_.rank()) + 1; rank < all.size(); ++rank)
    written = without(written, all[rank].written);
  if (!written.empty()) {
    std::vector<Fragment> fragments = fragments_;
    std::sort(fragments.begin(), fragments.end(),
              [](const Fragment& a, const Fragment& b) { return a.stored.offset < b.stored.offset; });
    Sums stored;
    for (const Fragment& each : fragments) stored.add(each.stored, each.sum);
    parts.push_back(make_own(std::move(written), stored.runs, stored.sums));
  }
  RETURN_IF_ERROR(merge_small(parts));
  return parts;
}

// A part is merged into the one before it where it is not much smaller, so that a process's parts are few, and a piece
// of metadata is written again only a few times, however often is committed.
Status IntervalFile::merge_small(std::vector<Own>& parts) {
  const auto bytes_of = [](const Own& own) {
    return own.changed ? static_cast<Bytes>(own.part->map.encoded().size() + 4 * own.part->sums.size())
                       : own.entry.metadata.length;
  };
  while (parts.size() > 1 && parts.back().changed &&
         2 * bytes_of(parts.back()) >= bytes_of(parts[parts.size() - 2])) {
    Own last = std::move(parts.back());
    parts.pop_back();
    Own& before = parts.back();
    if (!before.part) {
      for (const std::size_t i : own_parts_)
        if (seen_.generation->root().parts[i].metadata == before.entry.metadata) {
          ASSIGN_OR_RETURN(before.part, seen_.generation->part(i, *storage_));
        }
    }
    std::vector<std::pair<Extent, std::uint32_t>> cells;
    for (const Own* own : {&before, &last})
      each_cell(own->entry.runs, own->part->sums, [&](Extent cell, std::uint32_t sum) { cells.emplace_back(cell, sum); });
    std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
    Sums stored;
    for (const auto& [cell, sum] : cells) stored.add(cell, sum);
    before = make_own(overlaid(last.part->map, before.part->map), stored.runs, stored.sums);
  }
  return {};
}

// Writes the metadata of what has changed; then data and metadata are durable.
Status IntervalFile::store(std::vector<Own>& parts) {
  bool any = !fragments_.empty();
  for (Own& own : parts) {
    if (!own.changed) continue;
    any = true;
    const std::vector<std::byte> bytes = encode(*own.part);
    ASSIGN_OR_RETURN(own.entry.metadata, allocate_whole(static_cast<Bytes>(bytes.size())));
    own.entry.sum = crc32c(bytes);
    RETURN_IF_ERROR(storage_->write(own.entry.metadata, bytes.data()));
  }
  return any ? storage_->sync() : Status();
}

// On rank 0: makes `root` the newest generation.
Status IntervalFile::finish(const Root& root, Finished& told) {
  RETURN_IF_ERROR(stored_extents(root));
  const std::vector<std::byte> bytes = encode(root);
  ASSIGN_OR_RETURN(told.root, allocate_whole(static_cast<Bytes>(bytes.size())));
  RETURN_IF_ERROR(storage_->write(told.root, bytes.data()));
  RETURN_IF_ERROR(storage_->sync());
  const Header header{.generation = root.generation, .root = told.root, .root_sum = crc32c(bytes)};
  told.broken = true;
  RETURN_IF_ERROR(storage_->write({static_cast<Offset>(root.generation % kSlots) * kSlotBytes, kHeaderBytes},
                                  encode(header).data()));
  RETURN_IF_ERROR(storage_->sync());
  RETURN_IF_ERROR(settle_space(root, told));
  told.broken = false;
  return {};
}

}  // namespace stridio
