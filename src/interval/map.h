// IntervalMap: where each interval of the logical file is stored. Ascending disjoint pieces, run-length coded: pieces of
// equal length, equally far apart in the file and in storage, are one group. The coded bytes are the form in memory and
// in the file alike (docs/interval-file-format.md), so that both follow the structure of what was written.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

struct Piece {
  Offset logical = 0;
  Bytes length = 0;
  Offset stored = 0;

  Offset end() const { return logical + length; }
  Extent range() const { return {logical, length}; }
  Extent stored_range() const { return {stored, length}; }
  // The part of it that lies in `window`.
  Piece clipped(Extent window) const {
    const Extent part = intersect(range(), window);
    return {part.offset, part.length, stored + (part.offset - logical)};
  }
  bool operator==(const Piece&) const = default;
};

struct PieceGroup {
  Piece first;
  std::int64_t count = 1;
  Bytes stride = 0;         // between the pieces in the file,
  Bytes stored_stride = 0;  // and in storage, where it may be negative

  Piece at(std::int64_t i) const {
    return {first.logical + i * stride, first.length, first.stored + i * stored_stride};
  }
  Piece last() const { return at(count - 1); }
  bool operator==(const PieceGroup&) const = default;
};

// False only where no piece of one has bytes of the file in common with a piece of the other. O(1).
bool may_meet(const PieceGroup& one, const PieceGroup& other);

// Pieces as they come, of which those of equal length and equally far apart are one group.
class PieceList {
 public:
  void add(const Piece& piece);
  std::span<const PieceGroup> groups() const { return groups_; }
  bool empty() const { return groups_.empty(); }
  std::int64_t count() const;  // of pieces
  Extent bounds() const;       // in the logical file

 private:
  std::vector<PieceGroup> groups_;
};

// Immutable; cheap to copy.
class IntervalMap {
 public:
  IntervalMap();

  bool empty() const;
  Bytes size() const;     // bytes that it maps
  Extent bounds() const;  // of them in the logical file
  std::int64_t groups() const;
  std::int64_t pieces() const;
  std::span<const std::byte> encoded() const;
  // kIo with what is wrong, unless the bytes are those of a map all of whose numbers lie within 0 .. 2^62.
  static Result<IntervalMap> decode(std::vector<std::byte> bytes);

  // Whether every piece is stored within one of `runs`, which ascend and do not touch. O(groups * log runs) and more only
  // where a group reaches over several runs.
  bool stored_within(std::span<const Extent> runs) const;

 private:
  friend class MapBuilder;
  friend class MapCursor;
  struct Content;
  explicit IntervalMap(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  std::shared_ptr<const Content> content_;
};

// What a group is coded relative to: the group before.
struct MapState {
  Offset logical_end = 0, stored_end = 0;
  Bytes length = 0;
  std::int64_t count = 1;
  Bytes stride = 0;
};

class MapBuilder {
 public:
  MapBuilder();
  // At or after the end of the piece before.
  void add(const Piece& piece);
  void add_group(const PieceGroup& group);  // of ascending pieces
  Offset end() const { return group_.last().end(); }
  bool empty() const { return group_.first.length == 0; }
  Bytes footprint() const;  // of what is coded
  // Leaves the builder empty.
  IntervalMap finish();

 private:
  void flush();

  std::shared_ptr<IntervalMap::Content> content_;
  MapState state_;
  PieceGroup group_;  // not coded yet
};

// Walks the pieces in order. Keeps the map alive.
class MapCursor {
 public:
  explicit MapCursor(IntervalMap map);
  bool done() const { return done_; }
  // Not when done().
  Piece piece() const { return group_.at(index_); }
  const PieceGroup& group() const { return group_; }
  void next() {
    if (++index_ == group_.count) next_group();
  }
  void next_group();
  // To the first piece that ends behind `offset`; any way.
  void seek(Offset offset);

 private:
  void seek_group(Offset offset);

  IntervalMap map_;
  std::size_t at_ = 0;  // behind the group
  Offset before_ = 0;   // the end of the group before it
  MapState state_;
  PieceGroup group_;
  std::int64_t index_ = 0;
  bool done_ = false;
};

// `over`, and where it maps nothing `under`.
IntervalMap overlaid(const IntervalMap& over, const IntervalMap& under);
// `map` without the intervals of `taken`.
IntervalMap without(const IntervalMap& map, const IntervalMap& taken);
IntervalMap below(const IntervalMap& map, Offset end);
// What both map to the same place.
IntervalMap stored_alike(const IntervalMap& one, const IntervalMap& other);

// Pieces in the order in which they were written; of those that overlap the last counts.
class WriteLog {
 public:
  void add(const Piece& piece);
  void add_group(const PieceGroup& group);
  bool empty() const { return layers_.empty() && latest_.empty(); }
  Bytes footprint() const;
  // Each hides those behind it.
  std::span<const IntervalMap> layers();
  IntervalMap merged();
  void cut(Offset end);
  void clear();

 private:
  void settle(std::size_t ratio);

  MapBuilder latest_;
  std::vector<IntervalMap> layers_;  // newest first; each is at least twice as large as the one before
};

}  // namespace stridio
