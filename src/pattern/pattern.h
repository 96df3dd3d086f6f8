// Pattern: a structured, immutable set of byte ranges in data order: what an MPI typemap describes.
//
// Mathematics. A pattern P of size n maps data positions 0 <= p < n to offsets P(p). It is one of
//   run(L)                       p -> p                                                    n = L
//   strided(c, s, Q)             p -> (p / |Q|) * s + Q(p mod |Q|)                         n = c |Q|
//   indexed(d[], k[], s, Q)      block i is strided(k[i], s, Q) at d[i]                    n = sum k[i] |Q|
//   sequence(P0, P1, ...)        the Pi one after the other in data order                  n = sum |Pi|
// each at a displacement. Nothing is ever flattened: memory follows the structure, so that a vector of 10^8
// segments costs bytes. Values share their nodes and are cheap to copy; all members are thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

// `count` ranges of `length` bytes, from `offset` on `stride` bytes apart or where a table says; in data order.
struct Block {
  Offset offset = 0;
  Bytes length = 0;
  std::int64_t count = 0;
  Bytes stride = 0;
  const Offset* table = nullptr;

  Bytes size() const { return length * count; }
  // The first range; drop_first() leaves the others.
  Extent first() const { return {table ? offset + *table : offset, length}; }
  void drop_first() {
    if (table) {
      ++table;
    } else {
      offset += stride;
    }
    --count;
  }
};

// A loop nest of equal ranges: `length` bytes at `offset`, repeated by each level around it; in data order. The
// outermost level may take its copies' places from a table.
struct Nest {
  static constexpr int kLevels = 6;
  struct Level {
    std::int64_t count;
    Bytes stride;
    Bytes inside;         // bytes of one copy
    const Offset* table;  // place of each copy, instead of multiples of `stride`; or null

    Offset place(std::int64_t copy) const { return table ? table[copy] : copy * stride; }
  };

  Offset offset = 0;
  Bytes length = 0;
  Bytes size = 0;  // of all ranges
  int depth = 0;
  std::array<Level, kLevels> levels;  // the innermost first; the first `depth` are set

  Nest() {}
  Nest(const Nest& other) { *this = other; }
  Nest& operator=(const Nest& other) {
    offset = other.offset;
    length = other.length;
    size = other.size;
    depth = other.depth;
    std::copy_n(other.levels.begin(), depth, levels.begin());
    return *this;
  }

  Level& outer() { return levels[static_cast<std::size_t>(depth - 1)]; }
  const Level& outer() const { return levels[static_cast<std::size_t>(depth - 1)]; }
  // A single outermost copy is its inside.
  void simplify() {
    while (depth > 0 && outer().count == 1) {
      offset += outer().place(0);
      --depth;
    }
  }
  // Its first outermost copy alone. Of a nest with a level.
  Nest first() const;
  // Without its first `copies` outermost copies, less than all.
  void drop(std::int64_t copies);
  // Its longest part from the start that is a nest of at most `limit` bytes, limit >= 1.
  void shorten(Bytes limit);
};

class Pattern {
 public:
  // The empty pattern.
  Pattern();

  static Pattern run(Offset offset, Bytes length);
  // `count` copies of `child`, `stride` bytes (any sign) apart.
  static Pattern strided(std::int64_t count, Bytes stride, const Pattern& child);
  // Block i is counts[i] copies of `child`, `child_stride` bytes apart, moved by displacements[i]. An empty
  // `counts` means one copy each.
  static Pattern indexed(std::vector<Offset> displacements, std::vector<std::int64_t> counts, Bytes child_stride,
                         const Pattern& child);
  static Pattern sequence(std::vector<Pattern> parts);
  // Runs at given extents.
  static Pattern extents(std::span<const Extent> extents);

  // Moved by `delta` bytes. O(1).
  Pattern shifted(Offset delta) const;
  // The data positions [begin, end) of this pattern, as a pattern of size end - begin; clamped to [0, size()].
  // O(depth * log width), and the width of what is kept of an indexed node.
  Pattern slice(Bytes begin, Bytes end) const;
  // The bytes whose offsets lie in `window`. Requires ascending().
  Pattern clip(Extent window) const;
  // How many bytes lie at offsets below `offset`. Requires ascending(). O(depth * log width).
  Bytes bytes_below(Offset offset) const;

  Bytes size() const;
  bool empty() const { return size() == 0; }
  Offset lower() const;  // the smallest offset (0 where empty)
  Offset upper() const;  // one past the largest offset (0 where empty)
  Extent bounds() const { return {lower(), upper() - lower()}; }
  // Ranges that a cursor yields before coalescing across node borders: an upper bound of the distinct runs.
  std::int64_t runs() const;
  // Offsets strictly ascend in data order: sorted and without overlap.
  bool ascending() const;
  // Each range starts at or after the start of the one before (overlap allowed): MPI's "monotonically
  // nondecreasing displacements" (MPI-4.1 section 14.1.1).
  bool nondecreasing() const;
  bool contiguous() const { return empty() || (ascending() && upper() - lower() == size()); }
  // Bytes that the structure itself takes in memory, shared nodes counted once for each use.
  Bytes footprint() const;

  // A compact, versioned and checksummed byte form, for messages and cache keys; decode refuses anything else.
  std::vector<std::byte> encode() const;
  static Result<Pattern> decode(std::span<const std::byte> bytes);

  struct Node;

 private:
  friend class Cursor;
  friend struct PatternCodec;
  friend struct PatternTop;
  Pattern(Offset offset, std::shared_ptr<const Node> node);

  Offset offset_ = 0;
  std::shared_ptr<const Node> node_;
};

// Walks a pattern in data order by strided blocks. Keeps the pattern alive.
class Cursor {
 public:
  explicit Cursor(Pattern pattern, Bytes position = 0);

  // O(depth * log width).
  void seek(Bytes position);
  // The data position of the next byte.
  Bytes position() const { return position_; }
  bool done() const { return position_ >= pattern_.size(); }

  // The next block, of at most `limit` bytes (limit >= 1); not past the end (done() must be false). A range
  // that `limit` cuts continues in the next block. Consumes what it returns. Amortised O(1).
  Block next(Bytes limit = std::numeric_limits<Bytes>::max());
  // Like next() for one range: the block's count is 1.
  Extent next_range(Bytes limit = std::numeric_limits<Bytes>::max());

  // The longest nest that starts at the next byte (done() must be false); valid until the cursor moves. skip() passes
  // bytes of it, at most all.
  const Nest& peek();
  void skip(Bytes bytes);

 private:
  struct Frame {
    const Pattern::Node* node;
    Offset base;
    std::int64_t index;  // copy of a strided node, block of an indexed one, part of a sequence
    std::int64_t copy;   // copy within an indexed node's block
  };
  void descend(const Pattern::Node* node, Offset base, Bytes position);
  bool enter_sibling(Frame& frame);
  void push(const Pattern::Node& node, Offset base);
  void split();

  Pattern pattern_;
  Bytes position_ = 0;
  std::vector<Frame> frames_;  // innermost last; what lies after `pending_`
  std::vector<Nest> pending_;  // the next one last
};

// Merges neighbouring ranges: yields maximal runs, in data order.
class RunReader {
 public:
  explicit RunReader(Cursor cursor) : cursor_(std::move(cursor)) {}
  // Nothing at the end.
  std::optional<Extent> next();

 private:
  std::optional<Extent> fetch();
  Cursor cursor_;
  Block block_;
  Extent ahead_;
};

// The union of ascending patterns, as maximal runs in ascending order; exact, lazily. O(log k) a range, and where the
// patterns' blocks interleave with one stride, O(1) for all of a period that are not one run.
class UnionReader {
 public:
  explicit UnionReader(std::span<const Pattern> patterns);
  UnionReader(const UnionReader&) = delete;
  UnionReader& operator=(const UnionReader&) = delete;
  std::optional<Extent> next();

 private:
  struct Source {
    Cursor cursor;
    Block block;      // its next ranges
    Offset next = 0;  // where the first of them starts
  };
  std::optional<Extent> fetch();
  bool start_periods();
  void moved(Source& source);
  void sink();

  std::vector<Source> sources_;
  std::vector<Source*> heap_;  // those with ranges left, a min-heap by `next`
  Extent ahead_;               // fetched, not yet part of a run

  std::vector<Extent> period_;  // ranges that recur every `stride_` bytes, `periods_` more times; `at_` is next
  std::size_t at_ = 0;
  std::int64_t periods_ = 0;
  Bytes stride_ = 0;
};

}  // namespace stridio
