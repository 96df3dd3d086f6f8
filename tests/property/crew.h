// Ranks on threads that carry out one case after the other: making the threads and their group
// costs more than most cases.
#pragma once

#include <compare>

#include "group/group.h"

namespace stridio::testing {

struct CrewOptions {
  int ranks = 1;
  bool shared_memory = true;
  int ranks_per_node = 0;  // 0: all on one node

  bool all_share_memory() const { return shared_memory && (ranks_per_node == 0 || ranks <= ranks_per_node); }
  auto operator<=>(const CrewOptions&) const = default;
};

// What a crew works through.
class Series {
 public:
  virtual ~Series() = default;
  // On one thread, while no rank acts: judges the case before, if any, and draws the next; false at
  // the end.
  virtual bool prepare() = 0;
  // On every rank at once.
  virtual void act(Group& group) = 0;
};

void work_through(const CrewOptions& options, Series& series);

}  // namespace stridio::testing
