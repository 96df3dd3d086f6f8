// Costs, with b all ranks' bytes, f and m their file and memory ranges, c the workers (ranks, at most the cores):
//   independent  the ranks' own plans, c at a time
//   two_phase    agreements (entry, patterns, one a round) + (b copied bytes in max(f, m) pieces, and finding the union of
//                patterns by their structure) / c + b storage bytes in windows / aggregators; messages copy twice more.
// File domains hold equal bytes: the ranks' quantiles tell the density of bytes over the file.
#include "plan/collective_plan.h"

#include <fmt/format.h>

#include <numeric>

#include "base/text.h"

namespace stridio {
namespace {

struct Totals {
  Bytes size = 0;
  Offset lower = std::numeric_limits<Offset>::max();
  Offset upper = 0;
  std::int64_t file_ranges = 0;
  std::int64_t pieces = 0;
  Bytes structure = 0;
  double independent_seconds = 0;
  bool ascending = true;
  int cores = 1;
};

Totals sum(std::span<const RankShape> ranks) {
  Totals totals;
  for (const RankShape& rank : ranks) {
    totals.cores = std::max(totals.cores, static_cast<int>(rank.cores));
    if (rank.size == 0) continue;
    totals.size += rank.size;
    totals.lower = std::min(totals.lower, rank.lower);
    totals.upper = std::max(totals.upper, rank.upper);
    totals.file_ranges += rank.file_ranges;
    totals.pieces += std::max(rank.file_ranges, rank.memory_ranges);
    totals.structure += rank.structure;
    totals.independent_seconds += rank.independent_seconds;
    totals.ascending = totals.ascending && rank.ascending;
  }
  return totals;
}

constexpr Bytes kBytesAnAggregator = Bytes{1} << 20;  // fewer are not worth one more

int count_aggregators(const Totals& totals, const Topology& topology, const CollectiveRules& rules) {
  const auto ranks = static_cast<int>(topology.node_of.size());
  if (rules.aggregators > 0) return std::min(rules.aggregators, ranks);
  const int wanted = topology.nodes == 1 ? std::min(ranks, totals.cores) : topology.nodes;
  const Bytes useful = (totals.size + kBytesAnAggregator - 1) / kBytesAnAggregator;
  return static_cast<int>(std::clamp<Bytes>(useful, 1, wanted));
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
  double bytes;
};

// Each part of a rank's bytes is taken to be spread evenly from its quantile to the next: put at the quantile, the parts of
// ranks whose requests are alike would all stand together.
std::vector<Change> density(std::span<const RankShape> ranks) {
  std::vector<Change> changes;
  for (const RankShape& rank : ranks) {
    if (rank.size == 0) continue;
    const double part = static_cast<double>(rank.size) / RankShape::kParts;
    for (std::size_t i = 0; i < rank.quantiles.size(); ++i) {
      const Offset from = rank.quantiles[i];
      const Offset next = i + 1 < rank.quantiles.size() ? rank.quantiles[i + 1] : rank.upper;
      const Offset to = std::max(next, from + 1);
      const double bytes = part / static_cast<double>(to - from);
      changes.push_back({from, bytes});
      changes.push_back({to, -bytes});
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

double two_phase_seconds(const Totals& totals, const Topology& topology, const Profile& profile,
                         Bytes window, double aggregators) {
  const double bytes = static_cast<double>(totals.size);
  const double workers = std::min<double>(static_cast<double>(topology.node_of.size()),
                                          static_cast<double>(totals.cores * topology.nodes));
  const double rounds = std::max(1.0, bytes / (static_cast<double>(window) * aggregators));
  const double copies = topology.nodes == 1 ? 1 : 3;
  const double copying = copies * (bytes * profile.copy_byte_seconds +
                                   static_cast<double>(totals.pieces) * profile.copy_range_seconds);
  const double uniting = static_cast<double>(totals.structure) * profile.structure_byte_seconds;
  return (3 + rounds) * profile.agreement_seconds + (copying + uniting) / workers + rounds * profile.request_seconds +
         bytes * profile.storage_byte_seconds / aggregators;
}

CollectiveCandidate propose_two_phase(const Totals& totals, const Topology& topology,
                                      const Profile& profile, const CollectiveRules& rules,
                                      int aggregators) {
  const auto impossible = [](std::string why) {
    return CollectiveCandidate{Strategy::kTwoPhase, false, 0, std::move(why)};
  };
  if (!totals.ascending) return impossible("a rank's file ranges are not in ascending order");
  if (rules.one_by_one) return impossible("atomic mode: requests must not mix");
  if (!rules.two_phase) return impossible("switched off by a hint");
  return {Strategy::kTwoPhase, true,
          two_phase_seconds(totals, topology, profile, rules.window, aggregators),
          fmt::format("{}, windows of {} bytes at most for {} bytes in {}", counted(aggregators, "aggregator"),
                      rules.window, totals.size, counted(totals.file_ranges, "range"))};
}

CollectiveCandidate propose_independent(const Totals& totals, const Topology& topology) {
  const auto workers = std::min<double>(static_cast<double>(topology.node_of.size()),
                                        static_cast<double>(totals.cores * topology.nodes));
  return {Strategy::kIndependent, true, totals.independent_seconds / workers,
          fmt::format("{} bytes in {}, each rank its own", totals.size, counted(totals.file_ranges, "range"))};
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

RankShape rank_shape(const Pattern& file, const Pattern& memory, double independent_seconds, int cores) {
  RankShape shape{.size = file.size(),
                  .lower = file.lower(),
                  .upper = file.upper(),
                  .file_ranges = file.contiguous() ? 1 : file.runs(),
                  .memory_ranges = memory.contiguous() ? 1 : memory.runs(),
                  .structure = file.footprint(),
                  .independent_seconds = independent_seconds,
                  .cores = cores,
                  .ascending = file.ascending()};
  if (file.empty()) return shape;
  for (int i = 0; i < RankShape::kParts; ++i) {
    const Bytes position = file.size() / RankShape::kParts * i;
    shape.quantiles[static_cast<std::size_t>(i)] = Cursor(file, position).next_range(1).offset;
  }
  return shape;
}

CollectivePlan plan_collective(Direction, std::span<const RankShape> ranks, const Topology& topology,
                               const Caps& caps, const Profile& profile, const CollectiveRules& rules) {
  CollectivePlan plan;
  const Totals totals = sum(ranks);
  if (totals.size == 0) return plan;
  const int aggregators = count_aggregators(totals, topology, rules);
  const auto two_phase = propose_two_phase(totals, topology, profile, rules, aggregators);
  const auto independent = propose_independent(totals, topology);
  const bool asked = rules.force == name_of(Strategy::kTwoPhase) || rules.prefer_two_phase;
  const bool forbidden = !rules.force.empty() && rules.force != name_of(Strategy::kTwoPhase);
  const bool chosen =
      two_phase.possible && !forbidden && (asked || two_phase.seconds < independent.seconds);
  plan.considered = {two_phase, independent};
  plan.strategy = chosen ? Strategy::kTwoPhase : Strategy::kIndependent;
  plan.seconds = chosen ? two_phase.seconds : independent.seconds;
  if (!chosen) return plan;

  const Bytes unit = std::max<Bytes>(caps.alignment, 4096);
  plan.domains = cut_domains(ranks, totals, pick_aggregators(aggregators, topology), unit);
  Bytes longest = 0;
  for (const FileDomain& domain : plan.domains) longest = std::max(longest, domain.range.length);
  plan.window = std::min(rules.window, longest);
  plan.largest_gap = static_cast<Bytes>(profile.request_seconds / profile.storage_byte_seconds);
  plan.may_modify_holes = rules.may_modify_holes;
  plan.lock_writes = rules.lock_writes;
  plan.request_bytes = profile.request_seconds / profile.storage_byte_seconds;
  return plan;
}

bool CollectivePlan::modify_holes(Bytes span, std::int64_t runs) const {
  return may_modify_holes && runs > 1 &&
         static_cast<double>(span) < static_cast<double>(runs) * request_bytes;
}

std::string CollectivePlan::explain() const {
  std::string line = fmt::format("{} ({:.3g} ms)", name_of(strategy), seconds * 1e3);
  for (const CollectiveCandidate& candidate : considered) {
    if (candidate.strategy == strategy) {
      line += fmt::format(": {}", candidate.why);
    } else if (candidate.possible) {
      line += fmt::format("; not {} ({:.3g} ms: {})", name_of(candidate.strategy),
                          candidate.seconds * 1e3, candidate.why);
    } else {
      line += fmt::format("; not {}: {}", name_of(candidate.strategy), candidate.why);
    }
  }
  return line;
}

}  // namespace stridio
