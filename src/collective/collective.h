// One collective access of a group: entry agreement, plan, strategy, exit agreement.
#pragma once

#include <functional>
#include <optional>

#include "access/execute.h"
#include "base/times.h"
#include "group/group.h"
#include "pattern/copy.h"
#include "plan/collective_plan.h"
#include "storage/storage.h"

namespace stridio {

// What a two-phase access across nodes has told the aggregators, so that one of the same shape need not again. Kept by the
// file, on every rank; the same calls fill it on all.
struct PatternCache {
  Buffer file;  // this rank's request relative to `lower`, encoded; empty: it asked for nothing
  Offset lower = 0;
  std::vector<FileDomain> domains;  // empty: nothing is kept
  std::vector<Pattern> patterns;    // on an aggregator: by rank, cut to its domain
};

// What the ranks know of each other's file patterns before two-phase begins.
struct Known {
  std::vector<Buffer> patterns = {};  // by rank, encoded, where all know all; else empty
  std::optional<Offset> shift = {};   // all requests are those that filled the cache, moved so far
  PatternCache* cache = nullptr;
};

// An access, by which storage it is told.
using AccessTo = std::function<Result<Transferred>(Storage&)>;

struct CollectiveRequest {
  Direction direction = Direction::kRead;
  Pattern file;
  Memory memory;                      // of the file pattern's size
  std::optional<Error> invalid = {};  // a rank whose arguments were bad: its file and memory are empty
  AccessRules access;                 // for the independent strategy
  CollectiveRules rules;              // the same on all ranks
  // Atomic mode: carries out what a rank does on its own, in one.
  std::function<Result<Transferred>(const AccessTo&)> atomically = {};
  Profile profile;
  Correction correction = {};     // of the direction, as this rank has learnt it
  PatternCache* cache = nullptr;  // null: nothing is kept for the next call
  bool explains = false;          // the outcome says why
};

struct CollectiveOutcome {
  Transferred moved;  // of this rank
  Strategy strategy = Strategy::kNothing;
  Method own_method = Method::kNothing;  // of the independent strategy
  bool in_windows = false;               // of two-phase: what corrections are of
  double planned_seconds = 0;            // of this rank's access or of the two phases, without correction
  double seconds = 0;                    // that it took
  const char* method = "";               // what ran here, and why
  std::string why;
};

// Collective over `group`. Fails alike on all ranks; where an argument was bad on any, nothing is moved. Where
// storage failed midway, any of the requested bytes may have been moved, and no other.
Result<CollectiveOutcome> run_collective(Group& group, Storage& storage, const CollectiveRequest& request,
                                         Times& times);

// The two-phase strategy alone, over an agreed plan; ends with an agreement.
Result<Transferred> two_phase(Group& group, Storage& storage, const CollectivePlan& plan, Direction direction,
                              const Pattern& file, const Memory& memory, const Known& known, Times& times);

}  // namespace stridio
