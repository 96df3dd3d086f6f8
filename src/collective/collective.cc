#include "collective/collective.h"

#include <chrono>

#include "base/cores.h"
#include "base/guarded.h"
#include "collective/agreement.h"
#include "collective/entry.h"
#include "storage/forwarding.h"

namespace stridio {
namespace {

Topology topology_of(const Group& group) {
  Topology topology{.node_of = {}, .nodes = group.node_count()};
  for (int rank = 0; rank < group.size(); ++rank) topology.node_of.push_back(group.node_of(rank));
  return topology;
}

Result<RequestShape> shape_of(Storage& storage, const CollectiveRequest& request) {
  if (request.invalid) return fail(*request.invalid);
  return guarded([&]() -> Result<RequestShape> {
    ASSIGN_OR_RETURN(RequestShape shape,
                     shape_on(storage, request.profile, request.direction, request.file, request.memory));
    if (request.direction == Direction::kRead) note_stored(storage, request.profile, request.file, shape);
    return shape;
  });
}

Result<Entry> enter(Group& group, const RankShape& shape, const Status& ready, const CollectiveRequest& request,
                    Times& times) {
  const Stopwatch watch(times.waiting);
  return agree_on_entry(group, shape, ready, request.file, request.cache);
}

// In atomic mode it is over, and what was held given back, before anybody is waited for.
Result<Transferred> execute_alone(Storage& storage, const CollectiveRequest& request, AccessPlan plan, Times& times) {
  const auto access = [&](Storage& to) {
    return execute(plan, to, request.direction, request.file, request.memory, times);
  };
  if (!request.atomically || request.file.empty()) return access(storage);
  plan.locked = false;  // within what is held
  return request.atomically(access);
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

// All verify what they have read, if anybody cannot do so alone.
Result<Transferred> read_together(Group& group, Storage& storage, const CollectiveRequest& request,
                                  const AccessPlan& plan, double& seconds, Times& times) {
  const auto start = Clock::now();
  const auto shared = storage.share_read();
  const auto moved =
      shared ? execute(plan, **shared, request.direction, request.file, request.memory, times) : fail(shared.error());
  seconds = seconds_since(start);
  struct Read {
    Verdict verdict;
    bool leaves_some = false;
  };
  const Read mine{verdict_of(moved ? Status() : fail(moved.error())), shared && (*shared)->leaves_some()};
  std::vector<Read> all;
  {
    const Stopwatch watch(times.waiting);
    ASSIGN_OR_RETURN(all, allgather(group, mine));
  }
  std::vector<Verdict> verdicts;
  for (const Read& each : all) verdicts.push_back(each.verdict);
  RETURN_IF_ERROR(worst(verdicts));
  if (std::none_of(all.begin(), all.end(), [](const Read& each) { return each.leaves_some; })) return moved;
  std::vector<Buffer> mine_to(static_cast<std::size_t>(group.size())), told;
  Status verified = guarded([&]() -> Status {
    mine_to = (*shared)->sums(group.size());
    return {};
  });
  {
    const Stopwatch watch(times.exchange);
    ASSIGN_OR_RETURN(told, alltoallv(group, mine_to));
  }
  if (verified) {
    const Stopwatch watch(times.storage);
    const auto again = Clock::now();
    verified = (*shared)->verify(told);
    seconds += seconds_since(again);
  }
  const Stopwatch watch(times.waiting);
  RETURN_IF_ERROR(agree(group, verified));
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
  // A rank that cannot take part says so in the entry agreement.
  const auto shape = shape_of(storage, request);
  const Status ready = shape ? Status() : fail(shape.error());
  const RequestShape planned = shape.value_or(RequestShape{});
  const AccessPlan own = plan_access(planned, caps, request.profile, request.access, request.correction);
  const RankShape mine = rank_shape(planned, request.file, own, caps, cores(), request.correction.of_two_phase());
  ASSIGN_OR_RETURN(const Entry entry, enter(group, mine, ready, request, times));
  const CollectivePlan plan = plan_collective(request.direction, entry.shapes, topology_of(group), request.profile,
                                              request.rules, decoded(entry.known.patterns));
  CollectiveOutcome outcome{.moved = {},
                            .strategy = plan.strategy,
                            .planned_seconds = plan.uncorrected_seconds,
                            .method = name_of(plan.strategy),
                            .why = request.explains ? plan.explain() : std::string()};
  switch (plan.strategy) {
    case Strategy::kNothing: break;
    case Strategy::kIndependent: {
      const auto access = plan.verifies_together ? read_together : independent;
      ASSIGN_OR_RETURN(outcome.moved, access(group, storage, request, own, outcome.seconds, times));
      outcome.own_method = own.method;
      outcome.planned_seconds = own.uncorrected_seconds;
      outcome.method = name_of(own.method);
      if (request.explains) outcome.why += "; here " + own.explain();
      break;
    }
    case Strategy::kTwoPhase: {
      const auto start = Clock::now();
      ASSIGN_OR_RETURN(outcome.moved, two_phase(group, storage, plan, request.direction, request.file, request.memory,
                                                entry.known, times));
      outcome.seconds = seconds_since(start);
      outcome.in_windows = plan.in_stored_order.empty();
      break;
    }
  }
  return outcome;
}

}  // namespace stridio
