#include "collective/collective.h"

#include <chrono>
#include <thread>

#include "collective/agreement.h"

namespace stridio {
namespace {

// A small pattern travels with the entry, which saves the exchange of patterns where all ranks' are small, as those
// of regular views are.
constexpr std::size_t kInlinePattern = 512;

struct Entry {
  RankShape shape;
  Verdict verdict;
  std::int32_t pattern_length = -1;  // -1: too long to travel here
  std::byte pattern[kInlinePattern];
};

void put_pattern(Entry& entry, const Pattern& file) {
  if (file.footprint() > 16 * static_cast<Bytes>(kInlinePattern)) return;
  const std::vector<std::byte> bytes = file.encode();
  if (bytes.size() > kInlinePattern) return;
  entry.pattern_length = static_cast<std::int32_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), entry.pattern);
}

// By rank; empty where any rank's did not travel.
std::vector<Buffer> patterns_in(std::span<const Entry> entries) {
  std::vector<Buffer> patterns;
  for (const Entry& entry : entries) {
    if (entry.pattern_length < 0) return {};
    patterns.emplace_back(entry.pattern, entry.pattern + entry.pattern_length);
  }
  return patterns;
}

Topology topology_of(const Group& group) {
  Topology topology{.node_of = {}, .nodes = group.node_count()};
  for (int rank = 0; rank < group.size(); ++rank) topology.node_of.push_back(group.node_of(rank));
  return topology;
}

Result<std::vector<Entry>> exchange_entries(Group& group, const Entry& mine, Times& times) {
  const Stopwatch watch(times.waiting);
  return allgather(group, mine);
}

// In atomic mode under a lock from the first to the last byte, which is given back before anybody is waited for.
Result<Transferred> execute_alone(Storage& storage, const CollectiveRequest& request, AccessPlan plan,
                                  Times& times) {
  std::unique_ptr<RangeLock> lock;
  if (request.hold && !request.file.empty()) {
    ASSIGN_OR_RETURN(lock, request.hold());
    plan.locked = false;  // within that one
  }
  return execute(plan, storage, request.direction, request.file, request.memory, times);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Result<Transferred> independent(Group& group, Storage& storage, const CollectiveRequest& request,
                                const AccessPlan& plan, double& seconds, Times& times) {
  const auto start = Clock::now();
  auto moved = execute_alone(storage, request, plan, times);
  seconds = seconds_since(start);
  const Stopwatch watch(times.waiting);
  RETURN_IF_ERROR(agree(group, moved ? Status() : fail(moved.error())));
  return moved;
}

// What all ranks know of all patterns.
std::vector<Pattern> decoded(std::span<const Buffer> encoded) {
  std::vector<Pattern> patterns;
  for (const Buffer& bytes : encoded) {
    auto pattern = Pattern::decode(bytes);
    if (!pattern) return {};
    patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

}  // namespace

Result<CollectiveOutcome> run_collective(Group& group, Storage& storage, const CollectiveRequest& request,
                                         Times& times) {
  const Caps caps = storage.caps();
  const RequestShape shape = shape_of(request.direction, request.file, request.memory.pattern);
  const AccessPlan own = plan_access(shape, caps, request.profile, request.access, request.correction);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  Entry entry{};
  entry.shape = rank_shape(request.file, request.memory.pattern, own, std::max(1, cores),
                           request.correction.of_two_phase());
  put_pattern(entry, request.file);
  if (request.invalid) entry.verdict = verdict_of(fail(*request.invalid));
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, exchange_entries(group, entry, times));

  std::vector<Verdict> verdicts;
  std::vector<RankShape> shapes;
  for (const Entry& each : entries) {
    verdicts.push_back(each.verdict);
    shapes.push_back(each.shape);
  }
  RETURN_IF_ERROR(worst(verdicts));

  const std::vector<Buffer> known = patterns_in(entries);
  const CollectivePlan plan = plan_collective(request.direction, shapes, topology_of(group), caps, request.profile,
                                              request.rules, decoded(known));
  CollectiveOutcome outcome{.moved = {},
                            .strategy = plan.strategy,
                            .planned_seconds = plan.uncorrected_seconds,
                            .method = name_of(plan.strategy),
                            .why = plan.explain()};
  switch (plan.strategy) {
    case Strategy::kNothing: break;
    case Strategy::kIndependent: {
      ASSIGN_OR_RETURN(outcome.moved, independent(group, storage, request, own, outcome.seconds, times));
      outcome.own_method = own.method;
      outcome.planned_seconds = own.uncorrected_seconds;
      outcome.method = name_of(own.method);
      outcome.why += "; here " + own.explain();
      break;
    }
    case Strategy::kTwoPhase: {
      const auto start = Clock::now();
      ASSIGN_OR_RETURN(outcome.moved, two_phase(group, storage, plan, request.direction, request.file,
                                                request.memory, known, times));
      outcome.seconds = seconds_since(start);
      break;
    }
  }
  return outcome;
}

}  // namespace stridio
