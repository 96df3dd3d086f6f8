// The space of the stored file. All ranks know the holes of a generation, and see them and what lies behind its end as one
// sequence of bytes to take from. How far it is taken is a word in the group's memory; where it has none, in the stored file,
// under a lock.
#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "interval/interval_file.h"

namespace stridio {
namespace {

constexpr Bytes kLeastChunk = 4 * kCell, kLargestChunk = Bytes{16} << 20;
constexpr Bytes kLarge = 16 * kCell;  // a write: the rest of a cell is little beside it

}  // namespace

// `reuse`: the holes too.
void IntervalFile::find_space(const Finished& told) {
  space_.clear();
  if (told.reuse) {
    auto used = stored_extents(seen_.generation->root()).value_or(std::vector<Extent>{});
    if (!in_tail(told.root)) used.push_back(told.root);
    std::sort(used.begin(), used.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    Offset at = kFirstStored;
    for (const Extent& extent : used) {
      const Extent hole{up_to_cell(at), down_to_cell(extent.offset) - up_to_cell(at)};
      if (!hole.empty()) space_.push_back(hole);
      at = std::max(at, extent.end());
    }
  }
  space_.push_back({told.end, kWriterLock.offset - told.end});
}

// The last word of the group's persistent bytes, of which a file's shared state has the first ones.
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

// Where what take_space() gave lies.
std::vector<Extent> IntervalFile::stored_space(Extent taken) const {
  std::vector<Extent> places;
  Offset before = 0;  // of the sequence
  for (const Extent& extent : space_) {
    const Extent part = intersect({taken.offset - before, taken.length}, {0, extent.length});
    if (!part.empty()) places.push_back({extent.offset + part.offset, part.length});
    before += extent.length;
    if (before >= taken.end()) break;
  }
  return places;
}

// Makes the next `bytes` bytes or more this process's.
Status IntervalFile::take_extents(Bytes bytes) {
  const Bytes length = up_to_cell(bytes);
  ASSIGN_OR_RETURN(const Offset first, take_space(length));
  const std::vector<Extent> mine = stored_space({first, length});
  free_.insert(free_.begin(), mine.rbegin(), mine.rend());  // the lowest is taken first
  return {};
}

// For `bytes` bytes, and all that is expected besides. But where much was written in this epoch, that may be what is written over:
// its space is free again then, and no more is taken than a part of it.
Status IntervalFile::take_chunk(Bytes bytes) {
  const Bytes wanted = expected_ / 4 >= written_.bytes ? std::max(bytes, expected_) : bytes;
  return take_extents(std::max(wanted, std::clamp(written_.bytes / 8, kLeastChunk, kLargestChunk)));
}

// One extent at least; as few as can be. What is written over is written again, in the same lengths most often: where a large write
// has its cells to itself, the next one but one finds them free, and lies there as this one did.
Result<std::vector<Extent>> IntervalFile::allocate(Bytes bytes) {
  const bool in_own_cells = reuses_ && bytes >= kLarge;
  if (in_own_cells) find_whole(bytes);
  std::vector<Extent> taken;
  while (bytes > 0) {
    if (chunk_.empty()) {
      if (free_.empty()) RETURN_IF_ERROR(take_chunk(bytes));
      chunk_ = free_.back();
      free_.pop_back();
    }
    const Extent part{chunk_.offset, std::min(bytes, chunk_.length)};
    chunk_ = {part.end(), chunk_.length - part.length};
    reach_ = std::max(reach_, part.end());
    expected_ = std::max<Bytes>(0, expected_ - part.length);
    if (!taken.empty() && taken.back().end() == part.offset) {
      taken.back().length += part.length;
    } else {
      taken.push_back(part);
    }
    bytes -= part.length;
  }
  if (in_own_cells) chunk_ = leave_cell();
  return taken;
}

// Whether the chunk begins within a cell whose rest it has.
bool IntervalFile::ends_in_cell() const {
  return chunk_.offset % kCell != 0 && chunk_.end() >= up_to_cell(chunk_.offset);
}

// What the chunk has besides the rest of a cell, which nobody gets: it is free when what lies before it is.
Extent IntervalFile::leave_cell() {
  if (ends_in_cell()) padded_.insert(chunk_.offset);
  return whole_cells(chunk_);
}

// Whether the chunk is a free extent now that has so many bytes.
bool IntervalFile::change_chunk(Bytes bytes) {
  const auto enough =
      std::find_if(free_.rbegin(), free_.rend(), [&](const Extent& each) { return each.length >= bytes; });
  if (enough == free_.rend()) return false;
  const Extent place = *enough, rest = leave_cell();
  free_.erase(std::next(enough).base());
  chunk_ = place;
  if (!rest.empty()) put_back(rest);
  return true;
}

// So many bytes come next, in cells of their own: in one extent if there is one, else in the lowest ones.
void IntervalFile::find_whole(Bytes bytes) {
  const Extent rest = leave_cell();
  chunk_ = {};
  if (!rest.empty()) put_back(rest);
  change_chunk(bytes);
}

// Among the free ones, the lowest of which are used first.
void IntervalFile::put_back(Extent rest) {
  auto next = std::lower_bound(free_.begin(), free_.end(), rest,
                               [](const Extent& a, const Extent& b) { return a.offset > b.offset; });
  if (next != free_.end() && next->end() == rest.offset)
    *next = {next->offset, next->length + rest.length};
  else
    next = free_.insert(next, rest);
  if (next == free_.begin() || std::prev(next)->offset != next->end()) return;
  std::prev(next)->length += next->length;
  std::prev(next)->offset = next->offset;
  free_.erase(next);
}

// Extents of cells that nobody has any more, and what the chunk is: of the cell in which it begins it stays the rest. The lowest free
// ones come next.
void IntervalFile::add_free(std::span<const Extent> freed, Extent chunk) {
  const Extent rest = whole_cells(chunk);
  std::vector<Extent> all(freed.begin(), freed.end());
  all.insert(all.end(), free_.begin(), free_.end());
  if (!rest.empty()) all.push_back(rest);
  std::sort(all.begin(), all.end(), [](const Extent& a, const Extent& b) { return a.offset > b.offset; });
  std::vector<Extent> joined;
  for (const Extent& each : all) {
    if (!joined.empty() && each.end() == joined.back().offset)
      joined.back() = {each.offset, each.length + joined.back().length};
    else
      joined.push_back(each);
  }
  for (const Extent& each : freed) padded_.erase(padded_.lower_bound(each.offset), padded_.lower_bound(each.end()));
  free_ = std::move(joined);
  chunk_ = rest.empty() ? chunk : Extent{chunk.offset, rest.offset - chunk.offset};
  reuses_ = reuses_ || !freed.empty();
}

// Metadata are one run.
Result<Extent> IntervalFile::allocate_whole(Bytes bytes) {
  while (chunk_.length < bytes && !change_chunk(bytes)) RETURN_IF_ERROR(take_extents(bytes));
  const Extent taken{chunk_.offset, bytes};
  chunk_ = {taken.end(), chunk_.length - bytes};
  reach_ = std::max(reach_, taken.end());
  return taken;
}

// Where writes overlap within the file only, the first bytes that are ready are stored where the last ones would be: it reaches so
// far then, and the others overlap.
void IntervalFile::expect_write(Bytes bytes) {
  if (!writes_) return;
  const auto epoch = stay_in_epoch();
  const std::scoped_lock lock(mutex_);
  expected_ = bytes;
  // Space that is used again lies within the file, and in another order.
  if (requests_.write.extend_first && bytes >= requests_.worth_extending && !reuses_) expected_end_ = end_of_expected();
}

// For the last of `bytes` bytes, at most one request; empty where they may lie anywhere.
Extent IntervalFile::allocate_last(Bytes bytes) {
  const Offset end = std::exchange(expected_end_, 0);
  if (end <= lengthened_) return {};
  const auto holds = [&](const Extent& each) { return each.offset < end && end <= each.end(); };
  auto place = std::find_if(free_.begin(), free_.end(), holds);
  if (holds(chunk_)) place = free_.insert(free_.end(), std::exchange(chunk_, {}));
  if (place == free_.end()) return {};
  const Extent last{end - std::min({bytes, requests_.write.unit, end - place->offset}), 0};
  const Extent behind{up_to_cell(end), down_to_cell(place->end()) - up_to_cell(end)};
  place->length = last.offset - place->offset;
  if (place->empty()) free_.erase(place);
  if (!behind.empty()) free_.insert(free_.begin(), behind);
  reach_ = std::max(reach_, end);
  expected_ = std::max<Bytes>(0, expected_ - (end - last.offset));
  return {last.offset, end - last.offset};
}

// Where the last of the bytes will lie that are expected, whose space is taken; 0: that is not known.
Offset IntervalFile::end_of_expected() {
  Bytes left = expected_ - chunk_.length;
  for (const Extent& each : free_) left -= each.length;
  if (left > 0 && (expected_ / 4 < written_.bytes || !guarded([&] { return take_extents(left); }))) return 0;
  Offset end = chunk_.offset + std::min(chunk_.length, expected_);
  left = expected_ - chunk_.length;
  for (auto each = free_.rbegin(); each != free_.rend() && left > 0; ++each) {
    end = std::max(end, each->offset + std::min(left, each->length));
    left -= each->length;
  }
  return end;
}

}  // namespace stridio
