#include "property/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "property/contents.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

// ---- File patterns

// How the ranks' parts of the file lie to one another.
enum class Arrangement { kScattered, kInterleaved, kSame };

// Mostly small: the engine's limits are drawn as small. Some as large as several file domains.
Bytes draw_span(Random& random) {
  switch (random() % 16) {
    case 0: return pick(random, 16000, 60000);
    case 1:
    case 2:
    case 3: return pick(random, 4000, 16000);
    default: return pick(random, 20, 1500);
  }
}

// The shape's pattern `count` times in tiles of its own, rank after rank.
Pattern interleaved(Random& random, Shape shape, Bytes span, int rank, int ranks) {
  const std::int64_t count = shape == Shape::kRun ? 1 : pick(random, 1, 8);
  const Bytes tile = std::max<Bytes>(1, span / (count * ranks));
  return Pattern::strided(count, tile * ranks, random_ascending(random, shape, tile)).shifted(rank * tile);
}

// A run that the shape's pattern holds, or, of a run, a part of it.
Pattern one_run(Random& random, const Pattern& pattern) {
  if (pattern.empty()) return pattern;
  const Extent run = Cursor(pattern, pick(random, 0, pattern.size() - 1)).next_range();
  return Pattern::run(run.offset, run.length);
}

// Too many ranges without a rule to travel with the entry agreement.
Pattern ragged(Random& random, Bytes span) {
  std::vector<Extent> extents;
  const Bytes step = std::max<Bytes>(2, span / pick(random, 300, 800));
  for (Offset at = pick(random, 0, step); at + step <= span; at += pick(random, 2, 2 * step))
    extents.push_back({at, pick(random, 1, step)});
  for (std::size_t i = 1; i < extents.size(); ++i) {  // no overlap
    Extent& before = extents[i - 1];
    before.length = std::min(before.length, extents[i].offset - before.offset);
  }
  return Pattern::extents(extents);
}

Pattern draw_scattered(Random& random, Shape shape, Bytes span) {
  if (span < 1000 || shape == Shape::kRun || shape == Shape::kStrided || !one_in(random, 3))
    return random_ascending(random, shape, span);
  if (shape == Shape::kIndexed) return ragged(random, span);
  return Pattern::strided(2, span / 2, ragged(random, span / 2));
}

// In any order; for a read with overlaps.
Pattern any_order(Random& random, Direction direction) {
  if (direction == Direction::kWrite) return random_memory(random, pick(random, 0, 600));
  const Pattern pattern = random_pattern(random, 400);
  return pattern.shifted(-pattern.lower() + pick(random, 0, 100));
}

bool takes_any_order(Way way) { return way == Way::kList || way == Way::kIndependent || way == Way::kPlanned; }

// The pattern of an interleaved or same arrangement must be alike on all ranks: it is drawn with a
// stream of its own.
Pattern draw_file(Random& random, const Case& drawn, Arrangement arrangement, Bytes span, int rank) {
  Random common(mixed(drawn.seed + 1));
  const Shape shape = drawn.cell.shape;
  if (drawn.cell.way == Way::kDirect) return one_run(random, random_ascending(random, shape, span));
  if (takes_any_order(drawn.cell.way) && one_in(random, 10)) return any_order(random, drawn.direction);
  if (one_in(random, 12)) return {};
  switch (arrangement) {
    case Arrangement::kScattered: return draw_scattered(random, shape, span);
    case Arrangement::kSame: return random_ascending(common, shape, span);
    case Arrangement::kInterleaved: return interleaved(common, shape, span, rank, drawn.crew.ranks);
  }
  return {};
}

void draw_requests(Random& random, Case& drawn) {
  const Bytes span = draw_span(random);
  const auto arrangement = Arrangement(pick(random, 0, 5) / 2);
  const Offset displacement = one_in(random, 3) ? pick(random, 0, 5000) : 0;
  for (int rank = 0; rank < drawn.crew.ranks; ++rank) {
    RankRequest request;
    if (rank != drawn.invalid_rank) {
      request.file = draw_file(random, drawn, arrangement, span, rank).shifted(displacement);
      if (request.file.upper() > kMostOffsets) request.file = {};
      request.memory = random_memory(random, request.file.size());
    }
    drawn.ranks.push_back(std::move(request));
  }
  const Offset upper = drawn.upper();
  drawn.length = one_in(random, 4) ? pick(random, 0, upper) : upper + pick(random, 0, 50);
  drawn.length = std::min(drawn.length, kMostOffsets);
}

// A call before this one, of the same shape or nearly, whose patterns the aggregators may have kept.
void draw_earlier(Random& random, Case& drawn) {
  if (!collective(drawn.cell.way) || !one_in(random, 2)) return;
  const Offset shift = one_in(random, 3) ? pick(random, 0, 5000) : 4096 * pick(random, 0, 3);
  const int other = one_in(random, 3) ? static_cast<int>(pick(random, 0, drawn.crew.ranks - 1)) : -1;
  const bool halved = one_in(random, 2);  // else it has moved further than the others
  for (int rank = 0; rank < drawn.crew.ranks; ++rank) {
    const Pattern& file = drawn.ranks[static_cast<std::size_t>(rank)].file;
    if (rank == other) {
      drawn.earlier.push_back(halved ? file.slice(0, file.size() / 2).shifted(shift) : file.shifted(shift + 4096));
    } else {
      drawn.earlier.push_back(file.shifted(shift));
    }
  }
}

// ---- Rules

void draw_access(Random& random, Case& drawn) {
  AccessRules& rules = drawn.access;
  rules.read_window = pick(random, 1, one_in(random, 2) ? 64 : 5000);
  rules.write_window = pick(random, 1, one_in(random, 2) ? 64 : 5000);
  rules.lock_writes = one_in(random, 2);
  // Only who locks may modify holes, if there are other writers.
  rules.may_modify_holes = rules.lock_writes || drawn.crew.ranks == 1;
  rules.prefer_sieve = one_in(random, 4);
  if (drawn.cell.way == Way::kSieve) {
    rules.force = "sieve";
    rules.may_modify_holes = true;
    rules.lock_writes = rules.lock_writes || drawn.crew.ranks > 1;
  } else if (drawn.cell.way == Way::kList || drawn.cell.way == Way::kMapped || drawn.cell.way == Way::kDirect) {
    rules.force = name_of(drawn.cell.way);
    rules.may_modify_holes = false;
  }
}

void draw_collective(Random& random, Case& drawn) {
  CollectiveRules& rules = drawn.rules;
  rules.window = one_in(random, 3) ? pick(random, 16, 300) : pick(random, 300, 8000);
  rules.aggregators = static_cast<int>(pick(random, 0, drawn.crew.ranks + 1));
  rules.may_modify_holes = drawn.access.lock_writes && drawn.access.may_modify_holes;
  if (drawn.cell.way == Way::kIndependent) rules.force = "independent";
  if (drawn.cell.way == Way::kTwoPhaseShared || drawn.cell.way == Way::kTwoPhaseMessages) rules.force = "two_phase";
  if (drawn.cell.way == Way::kPlanned) {
    rules.two_phase = !one_in(random, 8);
    rules.one_by_one = one_in(random, 16);
  }
}

// Machines of all kinds, so that the planner chooses each way now and then, and staging and gaps
// vary.
void draw_profile(Random& random, Case& drawn) {
  Profile& profile = drawn.profile;
  if (one_in(random, 2)) profile.agreement_seconds = profile.crowded_agreement_seconds = 0;
  for (StorageCosts* costs : {&profile.read, &profile.write}) {
    if (one_in(random, 3)) costs->request_seconds *= 100;
    if (one_in(random, 3)) costs->request_seconds /= 100;
    if (one_in(random, 3)) costs->depth = 4, costs->overlap = 3, costs->extends_alone = one_in(random, 2);
  }
  profile.staging = one_in(random, 2) ? pick(random, 1, 100) : pick(random, 100, 10000);
  profile.map_window = one_in(random, 2) ? pick(random, 1, 100) : pick(random, 100, 20000);
  profile.long_range = one_in(random, 2) ? 2048 : pick(random, 1, 40);
}

// ---- Faults

void draw_fault(Random& random, Case& drawn) {
  drawn.posix = drawn.cell.fault == FaultKind::kTransient || one_in(random, 4);
  if (drawn.cell.fault == FaultKind::kNone || drawn.cell.fault == FaultKind::kTransient) return;
  // Ranks that are aggregators, and operations that happen, are rather the first ones.
  if (!one_in(random, 4))
    drawn.faulty_rank =
        static_cast<int>(std::min(pick(random, 0, drawn.crew.ranks - 1), pick(random, 0, drawn.crew.ranks - 1)));
  constexpr int kErrors[] = {ENOSPC, EIO, EDQUOT};
  drawn.fault.sys_errno = kErrors[random() % std::size(kErrors)];
  drawn.fault.first = one_in(random, 2) ? 0 : pick(random, 0, one_in(random, 2) ? 2 : 12);
  drawn.fault.every = drawn.cell.fault == FaultKind::kForGood ? 1 : 0;
  drawn.fault.prefix = one_in(random, 2) ? 0 : pick(random, 0, 40);
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::kDirect: return "direct";
    case Way::kList: return "list";
    case Way::kMapped: return "mapped";
    case Way::kSieve: return "sieve";
    case Way::kIndependent: return "independent";
    case Way::kTwoPhaseShared: return "two_phase (shared memory)";
    case Way::kTwoPhaseMessages: return "two_phase (messages)";
    case Way::kPlanned: return "planned";
  }
  return "?";
}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone: return "no fault";
    case FaultKind::kTransient: return "transient";
    case FaultKind::kOnce: return "once";
    case FaultKind::kForGood: return "for good";
  }
  return "?";
}

Cell cell_of(std::uint64_t seed) {
  const int index = index_of_cell(seed);
  constexpr int kFaults = static_cast<int>(std::size(kFaultKinds));
  constexpr int kShapeCount = static_cast<int>(std::size(kShapes));
  return {kWays[index / kFaults / kShapeCount], kShapes[index / kFaults % kShapeCount], kFaultKinds[index % kFaults]};
}

CrewOptions crew_of(std::uint64_t seed) {
  constexpr int kSizes[] = {1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 7, 8, 9};
  const std::uint64_t drawn = mixed(seed);
  CrewOptions crew{.ranks = kSizes[drawn % std::size(kSizes)]};
  const std::uint64_t more = drawn >> 32;
  const Way way = cell_of(seed).way;
  crew.shared_memory = way == Way::kTwoPhaseShared || more % 2 == 0;
  const auto nodes = static_cast<int>(more / 2 % 3);
  if (way == Way::kTwoPhaseMessages && crew.shared_memory)
    crew.ranks_per_node = 1 + nodes;
  else if (way != Way::kTwoPhaseShared)
    crew.ranks_per_node = nodes;
  return crew;
}

bool Case::may_modify_holes() const {
  return cell.way == Way::kTwoPhaseShared || cell.way == Way::kTwoPhaseMessages
             ? rules.may_modify_holes
             : access.may_modify_holes || rules.may_modify_holes;
}

Offset Case::upper() const {
  Offset upper = 0;
  for (const RankRequest& request : ranks) upper = std::max(upper, request.file.upper());
  return upper;
}

Case make_case(std::uint64_t seed) {
  Case drawn;
  drawn.seed = seed;
  drawn.cell = cell_of(seed);
  drawn.crew = crew_of(seed);
  Random random(mixed(seed ^ 0x5851F42D4C957F2Du));
  drawn.direction = one_in(random, 3) ? Direction::kRead : Direction::kWrite;
  if (collective(drawn.cell.way) && drawn.cell.fault == FaultKind::kNone && one_in(random, 20))
    drawn.invalid_rank = static_cast<int>(pick(random, 0, drawn.crew.ranks - 1));
  draw_requests(random, drawn);
  draw_access(random, drawn);
  draw_collective(random, drawn);
  draw_profile(random, drawn);
  draw_fault(random, drawn);
  draw_earlier(random, drawn);
  return drawn;
}

std::string Case::text() const {
  std::string text = fmt::format(
      "{} by {}, {} patterns, {}; {} ranks, {}, {} a node; file of {} bytes in {}; window {}, {} "
      "aggregators, {}{}",
      direction == Direction::kRead ? "read" : "write", name_of(cell.way), name_of(cell.shape), name_of(cell.fault),
      crew.ranks, crew.shared_memory ? "shared memory" : "messages", crew.ranks_per_node, length,
      posix ? "posix" : "memory", rules.window, rules.aggregators,
      may_modify_holes() ? "may modify holes" : "must not modify holes", access.lock_writes ? ", locks" : "");
  if (fault.first >= 0)
    text += fmt::format("; errno {} at operation {} of rank {}", fault.sys_errno, fault.first, faulty_rank);
  if (!earlier.empty()) text += "; after a call like it";
  if (invalid_rank >= 0) text += fmt::format("; bad arguments on rank {}", invalid_rank);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    text += fmt::format("\n  rank {}: {} bytes in [{}, {}), {} ranges of the file, {} of memory", rank,
                        ranks[rank].file.size(), ranks[rank].file.lower(), ranks[rank].file.upper(),
                        ranks[rank].file.runs(), ranks[rank].memory.runs());
  return text;
}

}  // namespace stridio::testing
