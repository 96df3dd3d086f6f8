// On one node an agreement of all ranks. Across nodes, the ranks of a node agree, and its leader tells the others the sum
// of their shapes: what a rank receives grows with the nodes only.
#include "collective/entry.h"

#include <algorithm>
#include <numeric>

namespace stridio {
namespace {

// A small pattern travels with the entry, which saves the exchange of patterns where all ranks' are small, as those
// of regular views are.
constexpr std::size_t kInlinePattern = 512;

struct RankEntry {
  RankShape shape;
  Verdict verdict;
  std::int32_t pattern_length = -1;  // -1: too long to travel here
  std::byte pattern[kInlinePattern];
};

void put_pattern(RankEntry& entry, const Pattern& file) {
  if (file.footprint() > 16 * static_cast<Bytes>(kInlinePattern)) return;
  const std::vector<std::byte> bytes = file.encode();
  if (bytes.size() > kInlinePattern) return;
  entry.pattern_length = static_cast<std::int32_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), entry.pattern);
}

// By rank; empty where any rank's did not travel.
std::vector<Buffer> patterns_in(std::span<const RankEntry> entries) {
  std::vector<Buffer> patterns;
  for (const RankEntry& entry : entries) {
    if (entry.pattern_length < 0) return {};
    patterns.emplace_back(entry.pattern, entry.pattern + entry.pattern_length);
  }
  return patterns;
}

Result<Entry> agree_on_one_node(Group& group, const RankShape& shape, const Status& status, const Pattern& file) {
  RankEntry mine{};
  mine.shape = shape;
  mine.verdict = verdict_of(status);
  put_pattern(mine, file);
  ASSIGN_OR_RETURN(const std::vector<RankEntry> entries, allgather(group, mine));
  std::vector<Verdict> verdicts;
  Entry all;
  for (const RankEntry& each : entries) {
    verdicts.push_back(each.verdict);
    all.shapes.push_back(each.shape);
  }
  RETURN_IF_ERROR(worst(verdicts));
  all.known.patterns = patterns_in(entries);
  return all;
}

// ---- Across nodes

// Whether requests are those of the last call, moved by the same distance.
struct Repetition {
  bool repeats = true;
  bool moved = false;  // something was asked for, so that `shift` counts
  Offset shift = 0;

  void add(const Repetition& other) {
    repeats = repeats && other.repeats && (!moved || !other.moved || shift == other.shift);
    if (other.moved) shift = other.shift;
    moved = moved || other.moved;
  }
};

struct NodeEntry {
  RankShape shape;
  Verdict verdict;
  Repetition repetition;
};

Repetition repetition_of(const Pattern& file, const PatternCache* cache) {
  if (cache == nullptr || cache->domains.empty()) return {.repeats = false};
  if (file.empty() || cache->file.empty()) return {.repeats = file.empty() && cache->file.empty()};
  return {file.shifted(-file.lower()).encode() == cache->file, true, file.lower() - cache->lower};
}

// The shapes of several ranks as if they were one's; its quantiles are those of all their parts.
RankShape sum(std::span<const RankShape> shapes) {
  RankShape all = united(shapes);
  std::vector<std::pair<Offset, double>> parts;
  for (const RankShape& each : shapes)
    for (const Offset offset : each.quantiles)
      if (each.size > 0) parts.emplace_back(offset, static_cast<double>(each.size));
  std::sort(parts.begin(), parts.end());
  double below = 0;
  std::size_t next = 0;
  for (const auto& [offset, weight] : parts) {
    // The parts weigh RankShape::kParts times all.size.
    for (; next < all.quantiles.size() && below >= static_cast<double>(all.size) * static_cast<double>(next); ++next)
      all.quantiles[next] = offset;
    below += weight;
  }
  for (; next < all.quantiles.size() && !parts.empty(); ++next) all.quantiles[next] = parts.back().first;
  return all;
}

Result<Entry> agree_across_nodes(Levels& levels, const RankShape& shape, const Status& status, const Pattern& file,
                                 const PatternCache* cache) {
  const NodeEntry mine{shape, verdict_of(status), repetition_of(file, cache)};
  ASSIGN_OR_RETURN(const std::vector<NodeEntry> here, allgather(levels.node(), mine));
  std::vector<RankShape> shapes;
  std::vector<Verdict> verdicts;
  NodeEntry node{};
  for (const NodeEntry& each : here) {
    shapes.push_back(each.shape);
    verdicts.push_back(each.verdict);
    node.repetition.add(each.repetition);
  }
  node.shape = sum(shapes);
  node.verdict = worst_of_node(levels, verdicts);
  ASSIGN_OR_RETURN(const std::vector<NodeEntry> nodes, allgather(levels, node));

  Entry all;
  verdicts.clear();
  Repetition repetition;
  for (const NodeEntry& each : nodes) {
    all.shapes.push_back(each.shape);
    verdicts.push_back(each.verdict);
    repetition.add(each.repetition);
  }
  RETURN_IF_ERROR(worst(verdicts));
  if (repetition.repeats) all.known.shift = repetition.shift;
  return all;
}

}  // namespace

Result<Entry> agree_on_entry(Group& group, const RankShape& shape, const Status& status, const Pattern& file,
                             PatternCache* cache) {
  if (group.node_count() == 1) return agree_on_one_node(group, shape, status, file);
  ASSIGN_OR_RETURN(Levels* const levels, group.levels());
  ASSIGN_OR_RETURN(Entry entry, agree_across_nodes(*levels, shape, status, file, cache));
  entry.known.cache = cache;
  return entry;
}

}  // namespace stridio
