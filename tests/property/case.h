// One case of the property test of access and collective: all that it is follows from one 64-bit
// seed.
#pragma once

#include <string>
#include <vector>

#include "collective/collective.h"
#include "property/crew.h"
#include "storage/wrap/fault.h"
#include "support/random_pattern.h"

namespace stridio::testing {

// By which way the ranks' requests are carried out.
enum class Way {
  // Each rank by itself.
  kDirect,
  kList,
  kMapped,
  kSieve,
  // By a collective call.
  kIndependent,
  kTwoPhaseShared,
  kTwoPhaseMessages,
  kPlanned,
};
inline constexpr Way kWays[] = {Way::kDirect,      Way::kList,           Way::kMapped,           Way::kSieve,
                                Way::kIndependent, Way::kTwoPhaseShared, Way::kTwoPhaseMessages, Way::kPlanned};
const char* name_of(Way way);
inline bool collective(Way way) { return way >= Way::kIndependent; }

enum class FaultKind {
  kNone,
  kTransient,  // system calls are interrupted and fall short
  kOnce,       // one operation fails with ENOSPC, EIO or EDQUOT
  kForGood,    // so do all after it
};
inline constexpr FaultKind kFaultKinds[] = {FaultKind::kNone, FaultKind::kTransient, FaultKind::kOnce,
                                            FaultKind::kForGood};
const char* name_of(FaultKind kind);

// The coarse kind of a case. Consecutive seeds go round all cells, so that each gets its share.
struct Cell {
  Way way;
  Shape shape;
  FaultKind fault;
};
inline constexpr int kCells = static_cast<int>(std::size(kWays) * std::size(kShapes) * std::size(kFaultKinds));
inline int index_of_cell(std::uint64_t seed) { return static_cast<int>(seed % kCells); }
Cell cell_of(std::uint64_t seed);
// The group that carries the case out; cheap, so that cases can be sorted by it.
CrewOptions crew_of(std::uint64_t seed);

struct RankRequest {
  Pattern file;
  Pattern memory;  // lower() >= 0
};

struct Case {
  std::uint64_t seed = 0;
  Cell cell{};
  CrewOptions crew;
  Direction direction = Direction::kRead;
  Bytes length = 0;    // of the file, before
  bool posix = false;  // else in memory
  std::vector<RankRequest> ranks;
  std::vector<Pattern> earlier;  // by rank: read before this call, from another file; or empty
  AccessRules access;
  CollectiveRules rules;
  Profile profile;
  FaultPlan fault;        // of the ranks that fail
  int faulty_rank = -1;   // -1: every rank
  int invalid_rank = -1;  // whose arguments are bad; -1: nobody's

  bool fails_on(int rank) const { return faulty_rank < 0 || faulty_rank == rank; }
  // Whether a write may put back bytes that nobody asked for.
  bool may_modify_holes() const;
  Offset upper() const;  // one past the last byte that anybody asks for
  std::string text() const;
};
Case make_case(std::uint64_t seed);

}  // namespace stridio::testing
