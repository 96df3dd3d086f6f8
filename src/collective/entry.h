// The entry agreement of a collective call: what the planner and two-phase have to know of all ranks.
#pragma once

#include "collective/agreement.h"
#include "collective/collective.h"

namespace stridio {

struct Entry {
  std::vector<RankShape> shapes;  // of the ranks, or, across nodes, of the nodes
  Known known;
};

// Collective. Fails on all ranks with the error of the first that brings one.
Result<Entry> agree_on_entry(Group& group, const RankShape& shape, const Status& status, const Pattern& file,
                             PatternCache* cache);

}  // namespace stridio
