// Interval sets: the views of all ranks cut into elementary intervals, each private to one rank, shared by several, or
// nobody's. Managers own a part of the file each, and tell a rank only what is shared in its own view: all else there is
// private. See docs/design/004-interval-sets.md.
#pragma once

#include <optional>

#include "group/group.h"
#include "pattern/pattern.h"

namespace stridio {

// What a rank may touch: `tile` from `displacement` on, repeated every `extent` bytes. An empty tile: nothing.
struct TiledView {
  Offset displacement = 0;
  Pattern tile;
  Bytes extent = 1;
};

// The elementary intervals of one manager's domain that the same ranks share.
struct SharedIntervals {
  Pattern bytes;           // of the range that the sets describe
  Pattern sharers;         // the ranks, ascending: "offsets" are ranks
  int manager = 0;         // the rank that owns their lock
  std::uint32_t lock = 0;  // its number at the manager, from 0 on
  bool exact = true;       // false: beyond the budget, `bytes` are runs that may hold others' bytes too
};

// What one rank knows.
class IntervalSets {
 public:
  IntervalSets() = default;  // nothing is shared
  IntervalSets(Pattern own, Offset repeats_from, Bytes period, std::vector<SharedIntervals> shared)
      : own_(std::move(own)), repeats_from_(repeats_from), period_(period), shared_(std::move(shared)) {}

  // The sets describe [0, end()); what follows repeats the last period() bytes of it for ever (0: nothing follows).
  Offset end() const { return repeats_from_ + period_; }
  Bytes period() const { return period_; }
  // The rank's own view in that range.
  const Pattern& own() const { return own_; }
  std::span<const SharedIntervals> shared() const { return shared_; }
  // Its bytes that nobody else has. Costs an overlay.
  Pattern private_bytes() const;
  // Calls `visit` for each of shared() that has bytes in `range`, which may lie anywhere in the file.
  template <typename Visit>
  void each_shared_in(Extent range, Visit visit) const {
    const auto parts = folded(range);
    for (const SharedIntervals& each : shared_)
      for (const Extent& part : parts)
        if (each.bytes.bytes_below(part.end()) > each.bytes.bytes_below(part.offset)) {
          visit(each);
          break;
        }
  }

 private:
  std::vector<Extent> folded(Extent range) const;

  Pattern own_;
  Offset repeats_from_ = 0;
  Bytes period_ = 0;
  std::vector<SharedIntervals> shared_;
};

struct IntervalOptions {
  std::optional<Offset> end = {};  // where the file ends for these views; nothing: it does not
  int managers = 0;                // 0: by the views' structure
  Bytes budget = Bytes{16} << 20;  // of a manager's results, where views are irregular
};

// Collective; options are the same on all ranks. Fails on all ranks or none.
Result<IntervalSets> cut_intervals(Group& group, const TiledView& view, const IntervalOptions& options = {});

}  // namespace stridio
