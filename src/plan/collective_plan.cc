// Costs, with b all ranks' bytes, f and m their file and memory ranges, c the workers (ranks, at most the cores):
//   independent  the ranks' own plans, c at a time; where the storage is mostly waited for, all at a time, but no faster than
//                it serves all of them together
//   two_phase    agreements (entry, patterns, one a round) + (b copied bytes in max(f, m) pieces, and finding the union of
//                patterns by their structure) / c + what the union of all requests takes of the storage, in windows, by the
//                aggregators together; messages copy twice more. A read of everything between the first and the last byte
//                needs no union. What is stored in other places costs its pieces, too; two-phase must spare a twentieth then,
//                and a fifth where memory is scattered.
// File domains hold equal bytes: the ranks' quantiles tell the density of bytes over the file.
#include "plan/collective_plan.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "storage/stored_read.h"

namespace stridio {
namespace {

// Of all ranks.
struct Totals : RankShape {
  std::int64_t pieces = 0;
  double in_turn = 0;  // where writes lock: of the ranks that wait for one another
  bool locks = false;  // a write, of which all do
  int workers = 1;
  Bytes largest = 0;   // of the ranks' sizes
  bool whole = false;  // all between the first and the last byte is read
  Bytes united = 0;    // what two-phase moves for all, at most, but for the holes in it;
  Gaps gaps;           // ... that it meets
  int under_way = 1;   // windows of an aggregator at a time
  bool in_stored_order = false;

  Bytes span() const { return upper - lower; }
};

// How many ranks' bounds lie over one another, on average.
double crowding(std::span<const RankShape> ranks, const Totals& totals) {
  double bounds = 0;
  for (const RankShape& rank : ranks)
    if (rank.size > 0) bounds += static_cast<double>(rank.upper - rank.lower);
  return bounds / static_cast<double>(totals.span());
}

std::vector<RankShape> by_lower(std::span<const RankShape> ranks) {
  std::vector<RankShape> sorted;
  for (const RankShape& rank : ranks)
    if (rank.size > 0) sorted.push_back(rank);
  std::sort(sorted.begin(), sorted.end(), [](const RankShape& a, const RankShape& b) { return a.lower < b.lower; });
  return sorted;
}

// Whether the bounds of any do.
bool overlap(std::span<const RankShape> ranks) {
  const std::vector<RankShape> sorted = by_lower(ranks);
  const auto reaches = [](const RankShape& a, const RankShape& b) { return a.upper > b.lower; };
  return std::adjacent_find(sorted.begin(), sorted.end(), reaches) != sorted.end();
}

// Ranks whose bounds overlap write one after the other, where each locks its own.
double seconds_in_turn(std::span<const RankShape> ranks) {
  double longest = 0, seconds = 0;
  Offset upper = 0;
  for (const RankShape& rank : by_lower(ranks)) {
    if (rank.lower >= upper) seconds = 0;
    seconds += rank.locking_seconds;
    longest = std::max(longest, seconds);
    upper = std::max(upper, rank.upper);
  }
  return longest;
}

Totals sum(std::span<const RankShape> ranks, const Topology& topology) {
  Totals totals;
  static_cast<RankShape&>(totals) = united(ranks);
  for (const RankShape& rank : ranks) {
    totals.pieces += std::max(rank.file_ranges, rank.memory_ranges);
    totals.largest = std::max(totals.largest, rank.size);
  }
  totals.workers = std::min(static_cast<int>(topology.node_of.size()), totals.cores * topology.nodes);
  return totals;
}

// The ranks that aggregate: spread over the nodes, on each node its first ranks.
std::vector<int> pick_aggregators(int count, const Topology& topology) {
  std::vector<std::vector<int>> by_node(static_cast<std::size_t>(topology.nodes));
  for (int rank = 0; rank < static_cast<int>(topology.node_of.size()); ++rank)
    by_node[static_cast<std::size_t>(topology.node_of[static_cast<std::size_t>(rank)])].push_back(rank);
  std::vector<int> picked;
  for (std::size_t turn = 0; static_cast<int>(picked.size()) < count; ++turn)
    for (const auto& node : by_node)
      if (turn < node.size() && static_cast<int>(picked.size()) < count) picked.push_back(node[turn]);
  std::sort(picked.begin(), picked.end());
  return picked;
}

// From `offset` on, a byte of the file holds `bytes` more requested ones than before.
struct Change {
  Offset offset;
  double bytes, ranges;  // and so many more ranges
};

// Each part of a rank's bytes is taken to be spread evenly from its quantile to the next: put at the quantile, the parts of
// ranks whose requests are alike would all stand together.
std::vector<Change> density(std::span<const RankShape> ranks) {
  std::vector<Change> changes;
  for (const RankShape& rank : ranks) {
    if (rank.size == 0) continue;
    const double part = static_cast<double>(rank.size) / RankShape::kParts;
    const double ranges = static_cast<double>(rank.file_ranges) / RankShape::kParts;
    for (std::size_t i = 0; i < rank.quantiles.size(); ++i) {
      const Offset from = rank.quantiles[i];
      const Offset next = i + 1 < rank.quantiles.size() ? rank.quantiles[i + 1] : rank.upper;
      const Offset to = std::max(next, from + 1);
      const double bytes = part / static_cast<double>(to - from);
      const double pieces = ranges / static_cast<double>(to - from);
      changes.push_back({from, bytes, pieces});
      changes.push_back({to, -bytes, -pieces});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.offset < b.offset; });
  return changes;
}

// Starts of domains are multiples of `unit`, so that no two aggregators write one page or stripe.
std::vector<FileDomain> cut_domains(std::span<const RankShape> ranks, const Totals& totals,
                                    const std::vector<int>& aggregators, Bytes unit) {
  const std::vector<Change> changes = density(ranks);
  const double share = static_cast<double>(totals.size) / static_cast<double>(aggregators.size());
  std::vector<Offset> starts{totals.lower};
  double below = 0, density_here = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    density_here += changes[i].bytes;
    const double here = density_here * static_cast<double>(changes[i + 1].offset - changes[i].offset);
    while (starts.size() < aggregators.size()) {
      const double wanted = share * static_cast<double>(starts.size()) - below;
      if (here <= 0 || wanted > here) break;
      const Offset start = changes[i].offset + static_cast<Offset>(wanted / density_here);
      starts.push_back(std::max(starts.back(), start / unit * unit));
    }
    below += here;
  }
  starts.push_back(totals.upper);
  std::vector<FileDomain> domains;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    if (starts[i] < starts[i + 1])
      domains.push_back({aggregators[domains.size()], {starts[i], starts[i + 1] - starts[i]}});
  return domains;
}

// Of the union of the ranks' requests, as their quantiles tell: where the bytes of all do not fill the part between two of
// them, each range is a run with an equal share of what is left.
Gaps estimate_gaps(std::span<const RankShape> ranks) {
  const std::vector<Change> changes = density(ranks);
  Gaps gaps;
  double bytes = 0, ranges = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    bytes += changes[i].bytes;
    ranges += changes[i].ranges;
    const auto length = static_cast<double>(changes[i + 1].offset - changes[i].offset);
    const double holes = length * (1 - bytes), count = std::max(1.0, length * ranges);
    if (length > 0 && holes > 0.01 * length) gaps.add(holes / count, count, length * bytes / count);
  }
  return gaps;
}

constexpr std::size_t kMostPatterns = 64;  // whose union is looked at: each rank does that

// Ranks that do not know each other's patterns would have to exchange and unite them. Whatever is asked for twice, the union
// holds the largest request: no more than the rest is read in vain. That must be worth it everywhere, which keeps out a long
// hole in the midst of short ones: a file that no cache holds is read page by page in any case, but not there.
bool read_whole(Direction direction, std::span<const RankShape> ranks, const Totals& totals, const Topology& topology,
                const Profile& profile, std::span<const Pattern> patterns) {
  if (direction == Direction::kWrite || profile.read.waits()) return false;
  if (topology.nodes > 1 || !patterns.empty() || !totals.ascending) return false;
  const Bytes in_vain = totals.span() - totals.largest;
  const double byte_seconds = Profile::kUnwanted * profile.read.byte_seconds * static_cast<double>(in_vain) /
                              static_cast<double>(totals.span());
  const double range_seconds =
      static_cast<double>(totals.structure) / static_cast<double>(totals.file_ranges) * profile.structure_byte_seconds;
  const std::vector<Change> changes = density(ranks);
  double ranges = 0;  // a byte
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    ranges += changes[i].ranges;
    const auto length = static_cast<double>(changes[i + 1].offset - changes[i].offset);
    if (length > profile.read.request_bytes() && byte_seconds >= ranges * range_seconds) return false;
  }
  return true;
}

Gaps gaps_of_union(std::span<const RankShape> ranks, const Totals& totals, std::span<const Pattern> patterns) {
  if (totals.whole || totals.size >= totals.span() || !totals.ascending) return {};
  return patterns.empty() || patterns.size() > kMostPatterns ? estimate_gaps(ranks) : union_gaps_of(patterns);
}

// A window is part of the file: a hole longer than one parts them.
double rounds_of(const Totals& totals, Bytes window, double aggregators) {
  const Gaps::Class within = totals.gaps.shorter_than(window);
  const double windows = (static_cast<double>(totals.united) + within.bytes) / static_cast<double>(window) +
                         totals.gaps.count() - within.count;
  return std::max(1.0, windows / aggregators);
}

// Where ranks share memory, a window is filled while others are written.
int windows_under_way(Direction direction, const Totals& totals, const Topology& topology, const StorageCosts& costs) {
  const bool beside = direction == Direction::kWrite && costs.waits() && !totals.locks && topology.nodes == 1;
  return beside ? CollectivePlan::kMostSlots - 1 : 1;
}

// What the storage takes for the union, moved in windows by `aggregators` at once.
double union_seconds(Direction direction, const Totals& totals, const Profile& profile, const CollectiveRules& rules,
                     double aggregators) {
  const StorageCosts& costs = profile.of(direction);
  const auto size = static_cast<double>(totals.united);
  // A read takes small holes along. A write does so where it may, reading them first, or sends each run.
  const int taken = std::bit_width(static_cast<std::uint64_t>(costs.request_bytes()));
  const Gaps::Class small = totals.gaps.below(std::min(taken, Gaps::kClasses));
  const double rounds = rounds_of(totals, rules.window, aggregators);
  const auto moving = [&](Direction moved, double requests, double bytes) {
    const StorageCosts& of = profile.of(moved);
    const double at_once = takes_turns(moved, of) ? 1
                           : of.waits()           ? aggregators
                                                  : std::min<double>(aggregators, totals.workers);
    const double latencies = std::max(rounds, requests / at_once / of.overlap) * of.request_seconds;
    const double passing = bytes / at_once * of.byte_seconds;
    if (!of.waits()) return latencies + passing;
    const double together = bytes * of.shared_byte_seconds;
    const bool lists = requests > rounds * at_once;  // whose requests are many at once by themselves
    if (totals.under_way == 1 || lists) return latencies + std::max(passing, together);
    return of.request_seconds + std::max((latencies + passing) / totals.under_way, together);
  };
  const double with_holes = size + small.bytes, runs = 1 + totals.gaps.count();
  if (direction == Direction::kRead) {
    const double once = size / static_cast<double>(totals.size);
    const double in_pieces = once * summing(totals.stored_pieces) / std::min<double>(aggregators, totals.workers);
    return moving(direction, runs - small.count, with_holes) + in_pieces;
  }
  const double adding = static_cast<double>(totals.fresh) / Profile::kPage * profile.new_page_seconds;
  const double as_list = adding + moving(direction, runs, size);
  if (!rules.may_modify_holes || !totals.locks) return as_list;
  return std::min(as_list, adding + moving(Direction::kRead, 1, with_holes) + moving(direction, 1, with_holes));
}

// Each block is fetched once, by whoever comes first; ranks wait for who is far behind, and at the ends.
double stored_order_seconds(const Totals& totals, double agreement, const Profile& profile) {
  const auto bytes = static_cast<double>(totals.size), united = static_cast<double>(totals.united);
  const double pieces = static_cast<double>(totals.pieces + totals.stored_pieces);
  const double fetching = united * profile.read.byte_seconds +
                          united / static_cast<double>(StoredRead::kBlock) * profile.read.request_seconds;
  const double taking = bytes * profile.copy_byte_seconds + pieces * profile.copy_range_seconds +
                        summing(totals.pieces + totals.stored_pieces) +
                        static_cast<double>(totals.scattered_ranges) * profile.far_range_seconds;
  return 4 * agreement + (fetching + taking) / totals.workers;
}

double two_phase_seconds(Direction direction, const Totals& totals, const Topology& topology, const Profile& profile,
                         const CollectiveRules& rules, double aggregators) {
  const bool crowded = topology.nodes > 1 || std::ssize(topology.node_of) > totals.workers;
  const double agreement = crowded ? profile.crowded_agreement_seconds : profile.agreement_seconds;
  if (totals.in_stored_order) return stored_order_seconds(totals, agreement, profile);
  const double bytes = static_cast<double>(totals.size);
  const double rounds = rounds_of(totals, rules.window, aggregators);
  const double copies = topology.nodes == 1 ? 1 : 3;
  const double copying =
      copies * (bytes * profile.copy_byte_seconds + static_cast<double>(totals.pieces) * profile.copy_range_seconds) +
      static_cast<double>(totals.scattered_ranges) * profile.far_range_seconds;  // a window holds few pieces of a line
  const double uniting = totals.whole ? 0 : static_cast<double>(totals.structure) * profile.structure_byte_seconds;
  const double storage = union_seconds(direction, totals, profile, rules, aggregators);
  const double working = copying + uniting;
  const double moving = takes_turns(direction, profile.of(direction))  // while one writes, others copy
                            ? std::max(storage, (working + storage) / totals.workers)
                            : working / totals.workers + storage;
  return (3 + rounds) * agreement + (totals.locks ? rounds * profile.lock_seconds : 0) + moving;
}

constexpr Bytes kLeastWindow = Bytes{256} << 10;
constexpr Bytes kLeastDeepWindow = Bytes{1} << 20;    // where several are under way
constexpr Bytes kBytesAnAggregator = Bytes{1} << 20;  // fewer are not worth one more, where it has work and not to wait

// Cores are what one storage's requests take, of readers two ranks a core; where they are waited for, more ranks wait at once than
// there are cores, until the storage gives no more to all together. That an aggregator has several windows under way does not save
// aggregators: they meet each round.
int count_aggregators(Direction direction, Totals totals, const Topology& topology, const Profile& profile,
                      const CollectiveRules& rules) {
  totals.under_way = 1;
  const auto ranks = static_cast<int>(topology.node_of.size());
  if (rules.aggregators > 0) return std::min(rules.aggregators, ranks);
  // Two on one core would leave another idle.
  const int a_core = direction == Direction::kRead ? 2 : 1;
  const int wanted = topology.nodes == 1 ? std::min(ranks, a_core * totals.cores) : topology.nodes;
  const Bytes useful = (totals.size + kBytesAnAggregator - 1) / kBytesAnAggregator;
  int best = static_cast<int>(std::clamp<Bytes>(useful, 1, wanted));
  if (!profile.of(direction).waits()) return best;
  constexpr double kWorthIt = 0.95;
  double least = two_phase_seconds(direction, totals, topology, profile, rules, best);
  for (int count = best + 1; count <= std::min(ranks, 2 * best + 32); ++count) {
    const double seconds = two_phase_seconds(direction, totals, topology, profile, rules, count);
    if (seconds > kWorthIt * least) continue;
    best = count;
    least = seconds;
  }
  return best;
}

// Longer windows take fewer rounds and requests, but more memory, which the first call has to get.
Bytes best_window(Direction direction, const Totals& totals, const Topology& topology, const Profile& profile,
                  CollectiveRules rules, int aggregators) {
  const Bytes most = rules.window, least_window = totals.under_way > 1 ? kLeastDeepWindow : kLeastWindow;
  Bytes best = most;
  double least = std::numeric_limits<double>::max();
  for (Bytes window = most; window >= std::min(most, least_window); window /= 2) {
    rules.window = window;
    const double pages = static_cast<double>((totals.under_way + 1) * aggregators * window) / Profile::kPage;
    const double seconds = two_phase_seconds(direction, totals, topology, profile, rules, aggregators) +
                           pages * profile.shared_page_seconds;
    if (seconds >= least) continue;
    best = window;
    least = seconds;
  }
  return best;
}

// Calls in stored order are another thing than windows.
double correction_of(const Totals& totals) { return totals.in_stored_order ? 1 : totals.two_phase_correction; }

CollectiveCandidate propose_two_phase(Direction direction, const Totals& totals, const Topology& topology,
                                      const Profile& profile, const CollectiveRules& rules, int aggregators) {
  const auto impossible = [](const char* why) { return CollectiveCandidate{Strategy::kTwoPhase, why}; };
  if (!totals.ascending) return impossible("a rank's file ranges are not in ascending order");
  if (rules.one_by_one) return impossible("atomic mode: requests must not mix");
  if (!rules.two_phase) return impossible(rules.two_phase_reason);
  return {
      .strategy = Strategy::kTwoPhase,
      .seconds = two_phase_seconds(direction, totals, topology, profile, rules, aggregators) * correction_of(totals),
      .size = totals.size,
      .file_ranges = totals.file_ranges,
      .aggregators = aggregators,
      .window = rules.window,
      .whole = totals.whole ? totals.span() : 0,
      .runs = 1 + totals.gaps.count(),
      .in_stored_order = totals.in_stored_order};
}

CollectiveCandidate propose_independent(Direction direction, const Totals& totals, const Profile& profile) {
  const StorageCosts& costs = profile.of(direction);
  const double working = costs.waits() ? totals.working_seconds : totals.independent_seconds;
  double seconds = std::max(working / totals.workers, totals.longest_seconds);
  if (costs.waits())
    seconds = std::max(seconds, totals.longest_latency + totals.independent_moved * costs.shared_byte_seconds);
  if (takes_turns(direction, costs))
    seconds =
        std::max(seconds, totals.writing_seconds * (totals.alternates && totals.workers > 1 ? profile.turns_taken : 1));
  seconds = std::max(seconds, totals.in_turn);
  return {
      .strategy = Strategy::kIndependent, .seconds = seconds, .size = totals.size, .file_ranges = totals.file_ranges};
}

constexpr double kWorthMeeting = 0.95;
constexpr double kWorthScattering = 0.8;
constexpr Bytes kStoredWindow = Bytes{64} << 20;  // ranks keep their pieces of it
constexpr std::int64_t kStoredPieces = 1 << 16;   // so many at most, as a rule
constexpr double kTogether = 0.75;                // of the workers: so many read between the same bounds
constexpr double kShared = 0.75;                  // of all between the first and the last byte: so much is asked for

// Of ranks that share memory, of a storage that shares reads: whether nearly all of what lies between is wanted by somebody.
bool reads_nearly_all(Direction direction, std::span<const RankShape> ranks, const Totals& totals,
                      const Topology& topology, const CollectiveRules& rules) {
  const auto can = [](const RankShape& rank) { return rank.shares_reads; };
  if (direction == Direction::kWrite || topology.nodes > 1 || rules.one_by_one) return false;
  const bool filled = static_cast<double>(totals.size) >= kShared * static_cast<double>(totals.span());
  return filled && std::all_of(ranks.begin(), ranks.end(), can);
}

// Where ranks want bytes of the same cells, each would read and sum all of these. Together each sums what it wants; cells of which
// something is wanted by nobody are read once more, so there must not be many.
bool verify_together(Direction direction, std::span<const RankShape> ranks, const Totals& totals,
                     const Topology& topology, const CollectiveRules& rules) {
  return totals.size >= kBytesAnAggregator && overlap(ranks) &&
         reads_nearly_all(direction, ranks, totals, topology, rules);
}

// They go through the file together: where each has a part for itself, one would wait for the other.
bool read_in_stored_order(Direction direction, std::span<const RankShape> ranks, const Totals& totals,
                          const Topology& topology, const CollectiveRules& rules) {
  return totals.ascending && totals.stored_pieces > 0 && reads_nearly_all(direction, ranks, totals, topology, rules) &&
         crowding(ranks, totals) >= kTogether * totals.workers;
}

// The window of a read in stored order.
Bytes stored_window(const Totals& totals) {
  const double apiece = static_cast<double>(totals.size) / static_cast<double>(totals.pieces + totals.stored_pieces);
  return std::clamp<Bytes>(static_cast<Bytes>(apiece * kStoredPieces), kBytesAnAggregator, kStoredWindow);
}

// So many that ranks seldom wait for each other; but where they share cores, few enough to stay in the caches.
int stored_blocks(int ranks, int workers) {
  const int most = std::clamp(8 * workers, 32, 256);
  return std::max(std::min(8 * ranks, most), 2 * ranks);
}

}  // namespace

const char* name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::kNothing: return "nothing";
    case Strategy::kIndependent: return "independent";
    case Strategy::kTwoPhase: return "two_phase";
  }
  return "?";
}

RankShape united(std::span<const RankShape> ranks) {
  RankShape all;
  double correction = 0;
  for (const RankShape& each : ranks) {
    all.cores = std::max(all.cores, each.cores);
    all.alignment = std::max(all.alignment, each.alignment);
    all.appends = all.appends || each.appends;
    correction += std::log(each.two_phase_correction);
    if (each.size == 0) continue;
    all.lower = all.size == 0 ? each.lower : std::min(all.lower, each.lower);
    all.upper = std::max(all.upper, each.upper);
    all.size += each.size;
    all.fresh += each.fresh;
    all.file_ranges += each.file_ranges;
    all.memory_ranges += each.memory_ranges;
    all.scattered_ranges += each.scattered_ranges;
    all.structure += each.structure;
    all.stored_pieces += each.stored_pieces;
    all.independent_seconds += each.independent_seconds;
    all.working_seconds += each.working_seconds;
    all.locking_seconds += each.locking_seconds;
    all.writing_seconds += each.writing_seconds;
    all.longest_seconds = std::max(all.longest_seconds, each.longest_seconds);
    all.longest_latency = std::max(all.longest_latency, each.longest_latency);
    all.independent_moved += each.independent_moved;
    all.ascending = all.ascending && each.ascending;
    all.alternates = all.alternates || each.alternates;
    all.lockless = all.lockless || each.lockless;
  }
  if (!ranks.empty()) all.two_phase_correction = std::exp(correction / static_cast<double>(ranks.size()));
  return all;
}

RankShape rank_shape(const RequestShape& request, const Pattern& file, const AccessPlan& own, const Caps& caps,
                     int cores, double two_phase_correction) {
  const double seconds = weighed(own.method, own.seconds);
  RankShape shape{.size = request.size,
                  .fresh = request.fresh,
                  .lower = file.lower(),
                  .upper = file.upper(),
                  .file_ranges = request.file_ranges,
                  .memory_ranges = request.memory_ranges,
                  .scattered_ranges = std::llround(request.far * static_cast<double>(request.memory_ranges)),
                  .structure = file.footprint(),
                  .independent_seconds = seconds,
                  .working_seconds = seconds - own.storage_seconds,
                  .locking_seconds = own.locked && own.ranges > 1 ? own.seconds : 0,
                  .writing_seconds = request.direction == Direction::kWrite ? own.storage_seconds : 0,
                  .longest_seconds = seconds,
                  .longest_latency = own.latency_seconds,
                  .independent_moved = own.moved_bytes,
                  .stored_pieces = request.pieces_together,
                  .two_phase_correction = two_phase_correction,
                  .cores = cores,
                  .ascending = request.ascending,
                  .alternates = std::max(request.file_ranges, request.memory_ranges) > 1,
                  .lockless = !own.locked,
                  .alignment = caps.alignment,
                  .appends = caps.appends,
                  .shares_reads = caps.shares_reads};
  if (file.empty()) return shape;
  for (int i = 0; i < RankShape::kParts; ++i) {
    const Bytes position = file.size() / RankShape::kParts * i;
    shape.quantiles[static_cast<std::size_t>(i)] = Cursor(file, position).next_range(1).offset;
  }
  return shape;
}

CollectivePlan plan_collective(Direction direction, std::span<const RankShape> ranks, const Topology& topology,
                               const Profile& profile, const CollectiveRules& rules,
                               std::span<const Pattern> patterns) {
  CollectivePlan plan;
  const StorageCosts& costs = profile.of(direction);
  Totals totals = sum(ranks, topology);
  if (totals.size == 0) return plan;
  totals.locks = direction == Direction::kWrite && !totals.lockless;
  if (totals.locks) totals.in_turn = seconds_in_turn(ranks);
  totals.in_stored_order = read_in_stored_order(direction, ranks, totals, topology, rules);
  totals.whole = read_whole(direction, ranks, totals, topology, profile, patterns);
  totals.united = totals.whole ? totals.span() : std::min(totals.size, totals.span());
  totals.gaps = gaps_of_union(ranks, totals, patterns);
  // A window of what is stored in the order of writing is gathered from all over it: the longer, the fewer pieces are cut. But
  // where each rank has a core, and none waits for another's, it should stay in the caches.
  const bool shorter = rules.shorter_windows && !totals.appends && topology.nodes == 1;
  totals.under_way = windows_under_way(direction, totals, topology, costs);
  CollectiveRules sized = rules;
  if (shorter && totals.under_way > 1) sized.window = std::min(rules.window, kLeastDeepWindow);
  const int aggregators = count_aggregators(direction, totals, topology, profile, sized);
  if (shorter) sized.window = best_window(direction, totals, topology, profile, rules, aggregators);
  const bool crowded = std::ssize(topology.node_of) > totals.workers;
  if (rules.shorter_windows && totals.appends && topology.nodes == 1 && !crowded && !costs.waits())
    sized.window = std::min(rules.window, profile.staging);
  const auto two_phase = propose_two_phase(direction, totals, topology, profile, sized, aggregators);
  const auto independent = propose_independent(direction, totals, profile);
  const bool asked = rules.force == name_of(Strategy::kTwoPhase) || rules.prefer_two_phase;
  const bool forbidden = !rules.force.empty() && rules.force != name_of(Strategy::kTwoPhase);
  // Where each can read its own, ranks should not meet in windows for little; nor where a window has few pieces of a line: they are
  // priced as at equal distances, which the processor foresees, and can take three times as long.
  const double worth = totals.in_stored_order        ? 1
                       : totals.scattered_ranges > 0 ? kWorthScattering
                       : totals.stored_pieces > 0    ? kWorthMeeting
                                                     : 1;
  const bool chosen = !two_phase.impossible && !forbidden && (asked || two_phase.seconds < worth * independent.seconds);
  plan.considered = {two_phase, independent};
  plan.spares_little = !chosen && !two_phase.impossible && !forbidden && two_phase.seconds < independent.seconds;
  plan.strategy = chosen ? Strategy::kTwoPhase : Strategy::kIndependent;
  plan.seconds = chosen ? two_phase.seconds : independent.seconds;
  plan.uncorrected_seconds = chosen ? two_phase.seconds / correction_of(totals) : independent.seconds;
  if (!chosen) {
    plan.verifies_together = verify_together(direction, ranks, totals, topology, rules);
    return plan;
  }

  const Bytes unit = std::max<Bytes>(totals.alignment, 4096);
  plan.domains = cut_domains(ranks, totals, pick_aggregators(aggregators, topology), unit);
  Bytes longest = 0;
  for (const FileDomain& domain : plan.domains) longest = std::max(longest, domain.range.length);
  plan.window = std::min(sized.window, longest);
  if (!totals.appends) plan.deep = deep_of(costs);
  plan.slots = longest > plan.window ? totals.under_way + 1 : 2;
  plan.read = profile.read;
  plan.write = profile.write;
  plan.largest_gap = static_cast<Bytes>(costs.request_bytes());
  plan.whole = totals.whole;
  if (totals.in_stored_order) {
    plan.in_stored_order = {totals.lower, totals.span()};
    plan.stored_window = stored_window(totals);
    plan.stored_blocks = stored_blocks(static_cast<int>(std::ssize(ranks)), totals.workers);
  }
  plan.may_modify_holes = rules.may_modify_holes && totals.locks;
  plan.lock_writes = totals.locks;
  return plan;
}

bool CollectivePlan::modify_holes(Bytes span, Bytes bytes, std::int64_t runs) const {
  if (!may_modify_holes || runs == 1) return false;
  const double at_once = read.request_seconds + write.request_seconds +
                         static_cast<double>(span) * (read.byte_seconds + write.byte_seconds);
  const double as_list = std::max(1.0, static_cast<double>(runs) / write.overlap) * write.request_seconds +
                         static_cast<double>(bytes) * write.byte_seconds;
  return at_once < as_list;
}

std::string CollectiveCandidate::why() const {
  if (impossible) return impossible;
  if (in_stored_order)
    return fmt::format("{} bytes in {}, each block of what is stored by one rank for all", size,
                       counted(file_ranges, "range"));
  if (strategy == Strategy::kIndependent)
    return fmt::format("{} bytes in {}, each rank its own", size, counted(file_ranges, "range"));
  return fmt::format(
      "{}, windows of {} bytes at most for {} bytes in {}, together in {}", counted(aggregators, "aggregator"), window,
      size, counted(file_ranges, "range"),
      whole > 0 ? fmt::format("{} bytes, which are read whole", whole) : counted(std::llround(runs), "run"));
}

std::string CollectivePlan::explain() const {
  std::string line = fmt::format("{} ({:.3g} ms)", name_of(strategy), seconds * 1e3);
  for (const CollectiveCandidate& candidate : considered) {
    if (candidate.strategy == strategy) {
      line += fmt::format(": {}{}", candidate.why(), verifies_together ? ", verified together" : "");
    } else if (candidate.impossible) {
      line += fmt::format("; not {}: {}", name_of(candidate.strategy), candidate.impossible);
    } else {
      line += fmt::format("; not {} ({:.3g} ms{}: {})", name_of(candidate.strategy), candidate.seconds * 1e3,
                          spares_little ? ", too little less" : "", candidate.why());
    }
  }
  return line;
}

}  // namespace stridio
