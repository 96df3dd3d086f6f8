#include "interval/map.h"

#include <algorithm>
#include <cassert>

namespace stridio {
namespace {

constexpr __int128 kLargest = __int128{1} << 62;
constexpr std::int64_t kIndexed = 64;  // groups between two entries of the index

// A group begins with a byte of these; what the flags say is left out.
enum Flags : std::uint8_t {
  kMany = 1,          // several pieces: count and stride follow
  kElsewhere = 2,     // not stored right behind the group before: the distance follows
  kSameLength = 4,    // as the group before
  kSameShape = 8,     // count and stride too; with kMany
  kStoredApart = 16,  // the pieces are not stored one right behind the other: how far follows; with kMany
  kAllFlags = 31,
};

void put(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}
void put_signed(std::vector<std::byte>& out, std::int64_t value) {
  put(out, (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

// After a number that cannot be read, ok() is false and every number 0.
class Numbers {
 public:
  Numbers(std::span<const std::byte> bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  std::int64_t next() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63 && ok_; shift += 7) {
      const std::uint8_t byte = next_byte();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return ok_ ? static_cast<std::int64_t>(value) : 0;
    }
    ok_ = false;
    return 0;
  }
  std::int64_t next_signed() {
    const auto value = static_cast<std::uint64_t>(next());
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  std::uint8_t next_byte() {
    ok_ = ok_ && at_ < bytes_.size();
    return ok_ ? static_cast<std::uint8_t>(bytes_[at_++]) : 0;
  }
  std::size_t at() const { return at_; }
  bool ok() const { return ok_; }

 private:
  const std::span<const std::byte> bytes_;
  std::size_t at_;
  bool ok_ = true;
};

bool fits(__int128 value) { return value >= 0 && value < kLargest; }

// The group at `in`, whose numbers may be anything; nothing unless all lie within 0 .. 2^62. `state` moves past it.
std::optional<PieceGroup> read_group(Numbers& in, MapState& state) {
  const std::uint8_t flags = in.next_byte();
  const __int128 logical = __int128{state.logical_end} + in.next();
  const Bytes length = flags & kSameLength ? state.length : in.next();
  const __int128 stored = __int128{state.stored_end} + (flags & kElsewhere ? in.next_signed() : 0);
  std::int64_t count = 1;
  Bytes stride = 0, stored_stride = 0;
  if (flags & kMany) {
    count = flags & kSameShape ? state.count : in.next();
    stride = flags & kSameShape ? state.stride : in.next();
    stored_stride = flags & kStoredApart ? in.next_signed() : length;
    if (count < 2 || stride < length) return std::nullopt;
  } else if (flags & (kSameShape | kStoredApart)) {
    return std::nullopt;
  }
  const __int128 reach = __int128{count - 1} * stride, stored_reach = __int128{count - 1} * stored_stride;
  if (!in.ok() || flags > kAllFlags || length <= 0 || !fits(logical + reach + length) || !fits(stored) ||
      !fits(stored + length) || !fits(stored + stored_reach) || !fits(stored + stored_reach + length))
    return std::nullopt;
  PieceGroup group{{static_cast<Offset>(logical), length, static_cast<Offset>(stored)}, count, stride, stored_stride};
  state = {group.last().end(), group.last().stored + length, length, count, stride};
  return group;
}

void write_group(std::vector<std::byte>& out, const PieceGroup& group, MapState& state) {
  const bool many = group.count > 1, same_length = group.first.length == state.length;
  const bool same_shape = many && group.count == state.count && group.stride == state.stride;
  const bool elsewhere = group.first.stored != state.stored_end;
  const bool apart = many && group.stored_stride != group.first.length;
  out.push_back(static_cast<std::byte>(many * kMany | elsewhere * kElsewhere | same_length * kSameLength |
                                       same_shape * kSameShape | apart * kStoredApart));
  put(out, static_cast<std::uint64_t>(group.first.logical - state.logical_end));
  if (!same_length) put(out, static_cast<std::uint64_t>(group.first.length));
  if (elsewhere) put_signed(out, group.first.stored - state.stored_end);
  if (many && !same_shape) {
    put(out, static_cast<std::uint64_t>(group.count));
    put(out, static_cast<std::uint64_t>(group.stride));
  }
  if (apart) put_signed(out, group.stored_stride);
  state = {group.last().end(), group.last().stored + group.first.length, group.first.length, group.count, group.stride};
}

}  // namespace

struct IntervalMap::Content {
  struct Entry {  // of every kIndexed-th group
    Offset begin;
    std::size_t at;
    MapState before;
  };
  void note(const PieceGroup& group, const MapState& before, std::size_t at) {
    if (groups++ % kIndexed == 0) index.push_back({group.first.logical, at, before});
    if (size == 0) bounds.offset = group.first.logical;
    bounds.length = group.last().end() - bounds.offset;
    size += group.count * group.first.length;
    pieces += group.count;
  }

  std::vector<std::byte> bytes;
  std::vector<Entry> index;
  std::int64_t groups = 0, pieces = 0;
  Bytes size = 0;
  Extent bounds;
};

// ---- PieceList

bool may_meet(const PieceGroup& one, const PieceGroup& other) {
  const auto bounds = [](const PieceGroup& group) {
    const Offset first = group.first.logical, last = group.last().logical;
    return Extent{std::min(first, last), std::abs(last - first) + group.first.length};
  };
  if (intersect(bounds(one), bounds(other)).empty()) return false;
  const PieceGroup& many = one.count > 1 ? one : other;
  const PieceGroup& rest = one.count > 1 ? other : one;
  if (many.count == 1) return true;
  const Bytes stride = many.stride;
  if (stride < many.first.length || (rest.count > 1 && rest.stride != stride) || rest.first.length > stride)
    return true;
  const Bytes behind = (((rest.first.logical - many.first.logical) % stride) + stride) % stride;
  return behind < many.first.length || behind + rest.first.length > stride;
}

void PieceList::add(const Piece& piece) {
  if (!groups_.empty()) {
    PieceGroup& last = groups_.back();
    if (last.count == 1 && piece.length == last.first.length) {
      last.stride = piece.logical - last.first.logical;
      last.stored_stride = piece.stored - last.first.stored;
    }
    if (piece == last.at(last.count)) {
      ++last.count;
      return;
    }
  }
  groups_.push_back({.first = piece});
}

std::int64_t PieceList::count() const {
  std::int64_t count = 0;
  for (const PieceGroup& group : groups_) count += group.count;
  return count;
}

Extent PieceList::bounds() const {
  Extent bounds;
  for (const PieceGroup& group : groups_) {
    const Offset begin = std::min(group.first.logical, group.last().logical);
    const Offset end = std::max(group.first.end(), group.last().end());
    bounds = bounds.empty()
                 ? Extent{begin, end - begin}
                 : Extent{std::min(bounds.offset, begin), std::max(bounds.end(), end) - std::min(bounds.offset, begin)};
  }
  return bounds;
}

// ---- IntervalMap

IntervalMap::IntervalMap() {
  static const auto empty = std::make_shared<const Content>();
  content_ = empty;
}

bool IntervalMap::empty() const { return content_->size == 0; }
Bytes IntervalMap::size() const { return content_->size; }
Extent IntervalMap::bounds() const { return content_->bounds; }
std::int64_t IntervalMap::groups() const { return content_->groups; }
std::int64_t IntervalMap::pieces() const { return content_->pieces; }
std::span<const std::byte> IntervalMap::encoded() const { return content_->bytes; }

Result<IntervalMap> IntervalMap::decode(std::vector<std::byte> bytes) {
  auto content = std::make_shared<Content>();
  MapState state;
  for (Numbers in(bytes, 0); in.at() < bytes.size();) {
    const std::size_t at = in.at();
    const MapState before = state;
    const auto group = read_group(in, state);
    if (!group) return fail(Code::kIo, "a map of intervals is malformed at its byte " + std::to_string(at));
    content->note(*group, before, at);
  }
  content->bytes = std::move(bytes);
  return IntervalMap(std::move(content));
}

bool IntervalMap::stored_within(std::span<const Extent> runs) const {
  for (MapCursor cursor(*this); !cursor.done(); cursor.next_group()) {
    PieceGroup group = cursor.group();
    if (group.stored_stride < 0) {
      group.first.stored = group.last().stored;
      group.stored_stride = -group.stored_stride;
    }
    const Offset begin = group.first.stored, end = group.last().stored + group.first.length;
    auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                                [](Offset offset, const Extent& each) { return offset < each.end(); });
    std::int64_t inside = 0;
    const Bytes step = std::max<Bytes>(group.stored_stride, 1);
    for (; run != runs.end() && run->offset < end; ++run) {
      if (run->offset <= begin && end <= run->end()) {
        inside = group.count;
        break;
      }
      if (group.stored_stride == 0) continue;
      // The pieces that begin at or behind the run's begin, and end at or before its end.
      const Bytes late = std::max<Bytes>(0, run->offset - begin), room = run->end() - group.first.length - begin;
      if (room < 0) continue;
      const std::int64_t first = late / step + (late % step != 0), last = std::min(room / step, group.count - 1);
      inside += std::max<std::int64_t>(0, last - first + 1);
    }
    if (inside != group.count) return false;
  }
  return true;
}

// ---- MapBuilder

MapBuilder::MapBuilder() : content_(std::make_shared<IntervalMap::Content>()) {}

void MapBuilder::add(const Piece& piece) {
  if (piece.length == 0) return;
  if (empty()) {
    group_ = {piece};
    return;
  }
  const Piece last = group_.last();
  assert(piece.logical >= last.end());
  if (piece.logical == last.end() && piece.stored == last.stored + last.length) {  // one piece with the last
    if (group_.count > 1) {
      --group_.count;
      flush();
      group_ = {last};
    }
    group_.first.length += piece.length;
  } else if (piece.length != last.length) {
    flush();
    group_ = {piece};
  } else if (group_.count == 1) {
    group_ = {last, 2, piece.logical - last.logical, piece.stored - last.stored};
  } else if (piece == group_.at(group_.count)) {
    ++group_.count;
  } else {
    flush();
    group_ = {piece};
  }
}

// Where two pieces, one after the other, end the builder's own group, the others go on as they do.
void MapBuilder::add_group(const PieceGroup& group) {
  for (std::int64_t i = 0; i < group.count; ++i) {
    add(group.at(i));
    if (i == 0 || group_.count == 1 || group_.last() != group.at(i)) continue;
    group_.count += group.count - 1 - i;
    return;
  }
}

void MapBuilder::flush() {
  if (group_.count == 1) group_.stride = group_.stored_stride = 0;
  content_->note(group_, state_, content_->bytes.size());
  write_group(content_->bytes, group_, state_);
}

Bytes MapBuilder::footprint() const { return std::ssize(content_->bytes); }

IntervalMap MapBuilder::finish() {
  if (!empty()) flush();
  IntervalMap map(std::shared_ptr<const IntervalMap::Content>(std::move(content_)));
  *this = MapBuilder();
  return map;
}

// ---- MapCursor

MapCursor::MapCursor(IntervalMap map) : map_(std::move(map)) { next_group(); }

void MapCursor::next_group() {
  const auto& bytes = map_.content_->bytes;
  done_ = at_ == bytes.size();
  if (done_) return;
  before_ = state_.logical_end;
  Numbers in(bytes, at_);
  group_ = *read_group(in, state_);
  at_ = in.at();
  index_ = 0;
}

void MapCursor::seek(Offset offset) {
  if (done_ || offset < before_ || offset >= group_.last().end()) seek_group(offset);
  if (done_) return;
  const Bytes into = offset - group_.first.end();
  index_ = into < 0 || group_.count == 1 ? 0 : into / group_.stride + 1;
}

// To the first group that ends behind `offset`.
void MapCursor::seek_group(Offset offset) {
  const auto& index = map_.content_->index;
  auto entry = std::upper_bound(index.begin(), index.end(), offset,
                                [](Offset wanted, const auto& each) { return wanted < each.begin; });
  if (entry != index.begin()) --entry;
  // Going on from here is right where no entry lies between, and here is not behind.
  const bool behind = offset < (done_ ? state_.logical_end : before_);
  if (entry != index.end() && (behind || (!done_ && group_.first.logical < entry->begin))) {
    at_ = entry->at;
    state_ = entry->before;
    next_group();
  }
  while (!done_ && group_.last().end() <= offset) next_group();
}

// ---- Algebra

namespace {

IntervalMap merge(const IntervalMap& over, const IntervalMap& under, bool keep_over) {
  MapBuilder out;
  MapCursor high(over), low(under);
  Piece rest;  // of the low piece
  const auto take = [&] {
    rest = {};
    if (low.done()) return;
    rest = low.piece();
    low.next();
  };
  take();
  while (!high.done() || rest.length > 0) {
    const Piece top = high.done() ? Piece{} : high.piece();
    if (high.done() || (rest.length > 0 && rest.end() <= top.logical)) {
      out.add(rest);
      take();
    } else if (rest.length == 0 || top.end() <= rest.logical) {
      if (keep_over) out.add(top);
      high.next();
    } else {
      out.add(rest.clipped({rest.logical, std::max<Bytes>(0, top.logical - rest.logical)}));
      rest = rest.clipped({top.end(), std::max<Bytes>(0, rest.end() - top.end())});
      if (rest.length == 0) take();
    }
  }
  return out.finish();
}

std::vector<PieceGroup> groups_of(const IntervalMap& map) {
  std::vector<PieceGroup> groups;
  for (MapCursor cursor(map); !cursor.done(); cursor.next_group()) groups.push_back(cursor.group());
  return groups;
}

// False also where to compare their groups would take longer than to go through their pieces.
bool are_apart(const IntervalMap& one, const IntervalMap& other) {
  if (intersect(one.bounds(), other.bounds()).empty()) return true;
  if (one.groups() > (one.pieces() + other.pieces()) / other.groups()) return false;
  const std::vector<PieceGroup> ours = groups_of(one), theirs = groups_of(other);
  return std::ranges::none_of(ours, [&](const PieceGroup& our) {
    return std::ranges::any_of(theirs, [&](const PieceGroup& their) { return may_meet(our, their); });
  });
}

}  // namespace

IntervalMap overlaid(const IntervalMap& over, const IntervalMap& under) {
  if (over.empty()) return under;
  return under.empty() ? over : merge(over, under, true);
}

IntervalMap without(const IntervalMap& map, const IntervalMap& taken) {
  return are_apart(map, taken) ? map : merge(taken, map, false);
}

IntervalMap below(const IntervalMap& map, Offset end) {
  if (map.bounds().end() <= end) return map;
  MapBuilder out;
  for (MapCursor cursor(map); !cursor.done() && cursor.piece().logical < end; cursor.next())
    out.add(cursor.piece().clipped({0, end}));
  return out.finish();
}

IntervalMap stored_alike(const IntervalMap& one, const IntervalMap& other) {
  MapBuilder alike;
  MapCursor theirs(other);
  for (MapCursor cursor(one); !cursor.done(); cursor.next()) {
    const Piece piece = cursor.piece();
    for (theirs.seek(piece.logical); !theirs.done() && theirs.piece().logical < piece.end(); theirs.next()) {
      const Piece part = theirs.piece().clipped(piece.range());
      if (part.stored - part.logical == piece.stored - piece.logical) alike.add(part);
    }
  }
  return alike.finish();
}

// ---- WriteLog

void WriteLog::add(const Piece& piece) {
  if (!latest_.empty() && piece.logical < latest_.end()) settle(2);
  latest_.add(piece);
}

void WriteLog::add_group(const PieceGroup& group) {
  if (group.count > 1 && group.stride < group.first.length) {
    for (std::int64_t i = 0; i < group.count; ++i) add(group.at(i));
    return;
  }
  if (!latest_.empty() && group.first.logical < latest_.end()) settle(2);
  latest_.add_group(group);
}

// Merges layers until each is `ratio` times as large as the one before it; 0: into one.
void WriteLog::settle(std::size_t ratio) {
  if (!latest_.empty()) layers_.insert(layers_.begin(), latest_.finish());
  while (layers_.size() > 1 && (ratio == 0 || layers_[0].encoded().size() * ratio > layers_[1].encoded().size())) {
    layers_[1] = overlaid(layers_[0], layers_[1]);
    layers_.erase(layers_.begin());
  }
}

std::span<const IntervalMap> WriteLog::layers() {
  settle(2);
  return layers_;
}

IntervalMap WriteLog::merged() {
  settle(0);
  return layers_.empty() ? IntervalMap() : layers_.front();
}

Bytes WriteLog::footprint() const {
  Bytes bytes = latest_.footprint();
  for (const IntervalMap& layer : layers_) bytes += std::ssize(layer.encoded());
  return bytes;
}

void WriteLog::cut(Offset end) {
  settle(2);
  for (IntervalMap& layer : layers_) layer = below(layer, end);
  std::erase_if(layers_, [](const IntervalMap& layer) { return layer.empty(); });
}

void WriteLog::clear() {
  latest_ = MapBuilder();
  layers_.clear();
}

}  // namespace stridio
