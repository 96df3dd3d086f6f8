// Laws of the planner: what is chosen is allowed and cheapest, the same for the same input; the
// file domains of a collective plan are a partition of what is requested, in parts of about equal
// bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "collective/window_reader.h"
#include "plan/collective_plan.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

// Calls body(seed) for each case of the run, with the seed in the trace of what fails.
template <typename Body>
void for_each_seed(std::int64_t in_release, Body body) {
  const std::uint64_t first = seed_of_run();
  const std::int64_t cases = std::min(in_release, cases_of_run(in_release, in_release / 10));
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(cases); ++seed) {
    SCOPED_TRACE(fmt::format("STRIDIO_CASES=1 STRIDIO_SEED={}", seed));
    body(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

struct CollectiveCase {
  std::vector<Pattern> files;
  std::vector<RankShape> shapes;
  Topology topology;
  CollectiveRules rules;
  Profile profile;

  CollectivePlan plan() const { return plan_collective(Direction::kWrite, shapes, topology, profile, rules); }
  Bytes bytes_in(const Extent& range) const {
    Bytes bytes = 0;
    for (const Pattern& file : files) bytes += file.clip(range).size();
    return bytes;
  }
};

CollectiveCase draw_case(std::uint64_t seed) {
  Random random(mixed(seed));
  CollectiveCase drawn;
  const auto ranks = static_cast<int>(pick(random, 1, 40));
  const int ranks_per_node = static_cast<int>(pick(random, 1, ranks));
  const Bytes span = Bytes{1} << pick(random, 5, 34);
  const bool same_shape = one_in(random, 2);
  const auto first_shape = static_cast<Shape>(pick(random, 0, 5));
  for (int rank = 0; rank < ranks; ++rank) {
    const Shape shape = same_shape ? first_shape : static_cast<Shape>(pick(random, 0, 5));
    Pattern file = one_in(random, 5) ? Pattern() : random_ascending(random, shape, span);
    if (one_in(random, 3)) file = file.shifted(pick(random, 0, span));
    const RequestShape request =
        shape_of(Direction::kWrite, file, Pattern::run(0, file.size()), pick(random, 0, 2 * span));
    const Caps caps{.alignment = one_in(random, 2) ? 1 : Bytes{1} << pick(random, 0, 20)};
    drawn.shapes.push_back(rank_shape(request, file, AccessPlan{.seconds = 1e-3}, caps, 4));
    drawn.files.push_back(std::move(file));
    drawn.topology.node_of.push_back(rank / ranks_per_node);
  }
  drawn.topology.nodes = (ranks - 1) / ranks_per_node + 1;
  drawn.rules.aggregators = static_cast<int>(pick(random, 0, ranks + 2));
  drawn.rules.window = pick(random, 1, span);
  drawn.rules.force = one_in(random, 4) ? "" : "two_phase";
  return drawn;
}

Bytes alignment(const CollectiveCase& drawn) {
  Bytes most = 4096;
  for (const RankShape& shape : drawn.shapes) most = std::max(most, shape.alignment);
  return most;
}

// Every byte of every request in exactly one domain, and an aggregator for one domain only; borders suit every rank's storage.
void expect_partition(const CollectiveCase& drawn, const CollectivePlan& plan) {
  std::set<int> aggregators;
  Offset end = 0;
  Bytes bytes = 0, total = 0;
  for (const FileDomain& domain : plan.domains) {
    EXPECT_GT(domain.range.length, 0);
    EXPECT_GE(domain.range.offset, end);
    if (end > 0) {
      EXPECT_EQ(domain.range.offset % alignment(drawn), 0);
    }
    end = domain.range.end();
    EXPECT_TRUE(aggregators.insert(domain.aggregator).second) << domain.aggregator;
    EXPECT_GE(domain.aggregator, 0);
    EXPECT_LT(domain.aggregator, static_cast<int>(drawn.files.size()));
    bytes += drawn.bytes_in(domain.range);
  }
  for (const Pattern& file : drawn.files) total += file.size();
  EXPECT_EQ(bytes, total);
  EXPECT_GT(plan.window, 0);
  EXPECT_LE(plan.window, drawn.rules.window);
}

// Equal up to what the planner knows of the density: sixteenths of each rank's request, and the
// alignment.
void expect_equal_parts(const CollectiveCase& drawn, const CollectivePlan& plan) {
  Bytes total = 0, unit = 0, most = 0;
  for (const Pattern& file : drawn.files) {
    total += file.size();
    unit += std::min(alignment(drawn), file.size());
  }
  for (const FileDomain& domain : plan.domains) most = std::max(most, drawn.bytes_in(domain.range));
  const auto parts = static_cast<Bytes>(drawn.rules.aggregators > 0
                                            ? std::min(drawn.rules.aggregators, static_cast<int>(drawn.files.size()))
                                            : static_cast<int>(plan.domains.size()));
  EXPECT_LE(most, total / parts + total / 8 + 2 * unit + 16 * static_cast<Bytes>(drawn.files.size()))
      << "of " << total << " in " << parts << " parts";
}

TEST(PlanProperty, FileDomainsPartitionTheRequests) {
  std::int64_t with_several = 0;
  for_each_seed(5000, [&](std::uint64_t seed) {
    const CollectiveCase drawn = draw_case(seed);
    const CollectivePlan plan = drawn.plan();
    const auto asks = [](const Pattern& file) { return !file.empty(); };
    const bool anything = std::any_of(drawn.files.begin(), drawn.files.end(), asks);
    if (!drawn.rules.force.empty()) {
      EXPECT_EQ(plan.strategy, anything ? Strategy::kTwoPhase : Strategy::kNothing);
    }
    if (plan.strategy != Strategy::kTwoPhase) {
      EXPECT_TRUE(plan.domains.empty());
      return;
    }
    expect_partition(drawn, plan);
    expect_equal_parts(drawn, plan);
    with_several += plan.domains.size() > 1;
  });
  if (!std::getenv("STRIDIO_CASES")) {
    EXPECT_GT(with_several, 100);
  }
}

// Ranks plan by themselves, so a plan must follow from its input alone.
TEST(PlanProperty, EqualInputGivesEqualPlans) {
  for_each_seed(1000, [](std::uint64_t seed) {
    const CollectivePlan one = draw_case(seed).plan(), other = draw_case(seed).plan();
    EXPECT_EQ(one.explain(), other.explain());
    ASSERT_EQ(one.domains.size(), other.domains.size());
    for (std::size_t i = 0; i < one.domains.size(); ++i) {
      EXPECT_EQ(one.domains[i].aggregator, other.domains[i].aggregator);
      EXPECT_EQ(one.domains[i].range, other.domains[i].range);
    }
    EXPECT_EQ(one.window, other.window);
    EXPECT_EQ(one.largest_gap, other.largest_gap);
  });
}

// ---- Windows

// An aggregator's windows hold the union of the ranks' bytes, each run once and in order, in bounded pieces.
void expect_windows_of(const std::vector<Pattern>& files, Bytes length) {
  WindowReader reader(files, length);
  UnionReader all(files);
  Extent rest;
  for (FileWindow window = reader.next(); !window.empty(); window = reader.next()) {
    EXPECT_LE(window.range.length, length);
    EXPECT_LE(window.runs.size(), std::size_t{1} << 16);
    EXPECT_EQ(window.runs.front().offset, window.range.offset);
    EXPECT_EQ(window.runs.back().end(), window.range.end());
    for (const Extent& run : window.runs) {
      if (rest.empty()) rest = all.next().value_or(Extent{});
      ASSERT_EQ(run.offset, rest.offset);
      ASSERT_LE(run.length, rest.length);
      rest = {run.end(), rest.end() - run.end()};
    }
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_FALSE(all.next());
}

TEST(PlanProperty, WindowsHoldTheUnion) {
  for_each_seed(2000, [](std::uint64_t seed) {
    Random random(mixed(seed));
    std::vector<Pattern> files;
    const Bytes span = Bytes{1} << pick(random, 3, 13);
    for (std::int64_t rank = pick(random, 1, 9); rank > 0; --rank)
      files.push_back(random_ascending(random, static_cast<Shape>(pick(random, 0, 5)), span));
    expect_windows_of(files, pick(random, 1, span));
  });
  expect_windows_of({Pattern::strided(200000, 2, Pattern::run(0, 1))}, Bytes{1} << 20);
}

// ---- One process

struct AccessCase {
  RequestShape shape;
  Caps caps;
  Profile profile;
  AccessRules rules;
};

AccessCase draw_access_case(std::uint64_t seed) {
  Random random(mixed(seed));
  const Pattern file = one_in(random, 4) ? random_pattern(random, 4000)
                                         : random_ascending(random, static_cast<Shape>(pick(random, 0, 5)),
                                                            Bytes{1} << pick(random, 3, 30));
  AccessCase drawn;
  drawn.shape = shape_of(one_in(random, 2) ? Direction::kRead : Direction::kWrite, file,
                         random_memory(random, std::min<Bytes>(file.size(), 1000)));
  if (one_in(random, 4)) drawn.caps = {.native_list = true, .largest_list = pick(random, 1, 256)};
  drawn.caps.maps = one_in(random, 2);
  drawn.rules.may_modify_holes = one_in(random, 2);
  drawn.rules.lock_writes = one_in(random, 2);
  drawn.rules.sieve_reads = !one_in(random, 4);
  drawn.rules.prefer_sieve = one_in(random, 4);
  const char* methods[] = {"", "", "direct", "list", "mapped", "sieve", "no such method"};
  drawn.rules.force = methods[random() % std::size(methods)];
  return drawn;
}

void expect_allowed(const AccessCase& drawn, const AccessPlan& plan) {
  const bool writes = drawn.shape.direction == Direction::kWrite;
  if (plan.method == Method::kSieve) {
    EXPECT_TRUE(drawn.shape.ascending);
    EXPECT_TRUE(writes ? drawn.rules.may_modify_holes : drawn.rules.sieve_reads);
  }
  EXPECT_EQ(plan.locked, writes && drawn.rules.lock_writes);
  const bool mapped = plan.method == Method::kMapped;
  EXPECT_EQ(plan.method == Method::kDirect, drawn.shape.file_ranges == 1 && !mapped);
  EXPECT_TRUE(!mapped || (drawn.caps.maps && drawn.shape.ascending));
  EXPECT_GT(plan.window, 0);
}

TEST(PlanProperty, TheChoiceIsAllowedAndTheCheapest) {
  for_each_seed(20000, [](std::uint64_t seed) {
    const AccessCase drawn = draw_access_case(seed);
    const AccessPlan plan = plan_access(drawn.shape, drawn.caps, drawn.profile, drawn.rules);
    if (drawn.shape.size == 0) {
      EXPECT_EQ(plan.method, Method::kNothing);
      return;
    }
    expect_allowed(drawn, plan);
    bool forced = false;
    for (const Candidate& each : plan.considered)
      forced = forced || (!each.impossible && drawn.rules.force == name_of(each.method));
    if (forced) {
      EXPECT_EQ(drawn.rules.force, name_of(plan.method));
      return;
    }
    const auto worth = [](Method method) { return method == Method::kMapped ? 0.8 : 1; };  // a mapping: a fifth cheaper
    for (const Candidate& each : plan.considered)
      if (!each.impossible && !drawn.rules.prefer_sieve) {
        EXPECT_LE(plan.seconds / worth(plan.method), each.seconds / worth(each.method)) << plan.explain();
      }
  });
}

}  // namespace
}  // namespace stridio::testing
