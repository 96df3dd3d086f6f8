#include "interval/cache.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace stridio {
namespace {

constexpr Bytes kOfStructure = 16;  // bytes in a batch's patterns for one of the log's

// Pieces as patterns: groups as strided ones, those in between as lists.
class Patterns {
 public:
  void add(const PieceGroup& group) {
    if (group.count == 1) {
      places_.push_back(group.first.range());
      memories_.push_back(group.first.stored_range());
      return;
    }
    add_singles();
    const Pattern piece = Pattern::run(0, group.first.length);
    file_.push_back(Pattern::strided(group.count, group.stride, piece).shifted(group.first.logical));
    memory_.push_back(Pattern::strided(group.count, group.stored_stride, piece).shifted(group.first.stored));
  }
  WriteCache::Batch batch(std::byte* bytes) {
    add_singles();
    return {Pattern::sequence(std::move(file_)), {bytes, Pattern::sequence(std::move(memory_))}};
  }

 private:
  void add_singles() {
    if (places_.empty()) return;
    file_.push_back(Pattern::extents(places_));
    memory_.push_back(Pattern::extents(memories_));
    places_.clear();
    memories_.clear();
  }

  std::vector<Pattern> file_, memory_;
  std::vector<Extent> places_, memories_;
};

// Copies what layers have of ranges; what none has is listed.
class Overlay {
 public:
  struct Layer {
    MapCursor cursor;
    const std::byte* bytes;
  };

  explicit Overlay(std::vector<Layer> newest_first) : layers_(std::move(newest_first)) {}

  void find(Extent range, std::byte* data) { find(0, range, data); }

  std::vector<Extent> missing;
  std::vector<Span> into;

 private:
  void find(std::size_t layer, Extent range, std::byte* data) {
    if (range.empty()) return;
    if (layer == layers_.size()) {
      missing.push_back(range);
      into.push_back({data, range.length});
      return;
    }
    Offset at = range.offset;
    auto& [cursor, bytes] = layers_[layer];
    for (cursor.seek(at); !cursor.done(); cursor.next()) {
      const Piece piece = cursor.piece().clipped(range);
      if (piece.length == 0) break;
      find(layer + 1, {at, piece.logical - at}, data + (at - range.offset));
      std::memcpy(data + (piece.logical - range.offset), bytes + piece.stored, static_cast<std::size_t>(piece.length));
      at = piece.end();
    }
    find(layer + 1, {at, range.end() - at}, data + (at - range.offset));
  }

  std::vector<Layer> layers_;
};

}  // namespace

bool WriteCache::empty() const {
  const std::scoped_lock lock(mutex_);
  return kept_.empty() || kept_.front().used == 0;
}

Result<WriteCache::Sizes> WriteCache::sizes() const {
  Sizes sizes;
  ASSIGN_OR_RETURN(sizes.stored, storage_.size());
  sizes.seen = sizes.stored;
  for (const Kept& kept : kept_) sizes.seen = std::max(sizes.seen, kept.end);
  return sizes;
}

bool WriteCache::fits(Bytes bytes) const {
  const std::scoped_lock lock(mutex_);
  for (const Kept& kept : kept_) bytes += kept.used + kOfStructure * kept.log.footprint();
  return bytes <= budget_;
}

Bytes WriteCache::newest() const {
  const std::scoped_lock lock(mutex_);
  return sealed_ || kept_.empty() ? 0 : kept_.back().used;
}

Result<std::byte*> WriteCache::make_room(Bytes bytes) {
  if (sealed_ || kept_.empty() || kept_.back().capacity - kept_.back().used < bytes) {
    const Bytes capacity = std::max(bytes, budget_);
    std::unique_ptr<std::byte[]> memory;
    if (capacity == budget_) memory = std::move(spare_);
    if (!memory) memory.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(capacity)]);
    if (!memory)
      return fail(Code::kNoMemory, "out of memory for what is written and kept until MPI_File_sync or close");
    if (!sealed_ && !kept_.empty() && kept_.back().used == 0) kept_.pop_back();
    kept_.push_back({.log = {}, .bytes = std::move(memory), .capacity = capacity});
    sealed_ = false;
  }
  return kept_.back().bytes.get() + kept_.back().used;
}

Status WriteCache::prepare(Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  RETURN_IF_ERROR(make_room(bytes));
  return {};
}

Status WriteCache::put(const Pattern& file, const Memory& memory) {
  if (file.empty()) return {};
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(std::byte* const to, make_room(file.size()));
  pack(to, memory.base, memory.pattern);
  Kept& kept = kept_.back();
  for (Cursor cursor(file); !cursor.done();) {
    const Extent range = cursor.next_range();
    kept.log.add({range.offset, range.length, kept.used});
    kept.used += range.length;
  }
  kept.end = std::max(kept.end, file.upper());
  return {};
}

int WriteCache::batches() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(std::count_if(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.used > 0; }));
}

WriteCache::Batch WriteCache::oldest() {
  const std::scoped_lock lock(mutex_);
  if (kept_.empty() || kept_.front().used == 0) return {};
  Kept& kept = kept_.front();
  if (kept_.size() == 1) sealed_ = true;
  Patterns patterns;
  for (MapCursor cursor(kept.log.merged()); !cursor.done(); cursor.next_group()) patterns.add(cursor.group());
  return patterns.batch(kept.bytes.get());
}

void WriteCache::drop() {
  const std::scoped_lock lock(mutex_);
  if (kept_.size() > 1) {
    if (kept_.front().capacity == budget_) spare_ = std::move(kept_.front().bytes);
    kept_.pop_front();
  } else {  // its memory serves again
    kept_.front().log.clear();
    kept_.front().used = kept_.front().end = 0;
    sealed_ = false;
  }
}

Result<Transferred> WriteCache::readv(std::span<const Extent> extents, std::span<const Span> memory) {
  if (empty()) return storage_.readv(extents, memory);
  Transferred moved;
  std::unique_lock lock(mutex_);
  ASSIGN_OR_RETURN(const Sizes sizes, this->sizes());
  std::vector<Overlay::Layer> layers;
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept)
    for (const IntervalMap& layer : kept->log.layers()) layers.push_back({MapCursor(layer), kept->bytes.get()});
  Overlay overlay(std::move(layers));
  std::size_t next = 0;
  Span span;
  for (const Extent& extent : extents) {
    Extent left = intersect(extent, {0, sizes.seen});
    moved.eof = left.length < extent.length;
    while (!left.empty()) {
      while (span.length == 0) span = memory[next++];
      const Bytes length = std::min(left.length, span.length);
      overlay.find({left.offset, length}, span.data);
      left = {left.offset + length, left.length - length};
      span = {span.data + length, span.length - length};
      moved.bytes += length;
    }
    if (moved.eof) break;
  }
  lock.unlock();
  return read_missing(sizes.stored, std::move(overlay.missing), std::move(overlay.into), moved);
}

// What nobody has written between the end of the stored file and what is kept are zeros.
Result<Transferred> WriteCache::read_missing(Bytes stored, std::vector<Extent> missing, std::vector<Span> into,
                                             Transferred moved) {
  Bytes wanted = 0;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const Bytes present = intersect(missing[i], {0, stored}).length;
    std::memset(into[i].data + present, 0, static_cast<std::size_t>(missing[i].length - present));
    missing[i].length = into[i].length = present;
    wanted += present;
  }
  std::erase_if(missing, [](const Extent& extent) { return extent.empty(); });
  std::erase_if(into, [](const Span& span) { return span.length == 0; });
  if (missing.empty()) return moved;
  ASSIGN_OR_RETURN(const Transferred got, storage_.readv(missing, into));
  if (got.bytes < wanted) return fail(Code::kIo, "the file has become shorter while it was read");
  moved.requests += got.requests;
  return moved;
}

Result<Transferred> WriteCache::map(Extent range, bool writes, const MapBody& body) {
  if (writes || !empty()) return fail(Code::kUnsupportedOperation, "what is kept in memory is no part of a mapping");
  return storage_.map(range, writes, body);
}

Result<Bytes> WriteCache::size() {
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(const Sizes sizes, this->sizes());
  return sizes.seen;
}

Caps WriteCache::caps() const {
  Caps caps = storage_.caps();
  caps.maps = caps.maps && empty();
  caps.shares_reads = false;
  return caps;
}

Result<Transferred> WriteCache::writev(std::span<const Extent>, std::span<const Span>) {
  return fail(Code::kUnsupportedOperation, "a cache is written by put()");
}

}  // namespace stridio
