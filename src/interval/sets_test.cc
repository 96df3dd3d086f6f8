// Interval sets of random views against a byte array, and of views that are known.
#include "interval/sets.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include "group/threads.h"
#include "pattern/overlay.h"
#include "support/random_pattern.h"
#include "support/sanitized.h"

namespace stridio {
namespace {

using testing::flatten;
using testing::pick;
using testing::Random;

// By rank.
std::vector<IntervalSets> cut(const std::vector<TiledView>& views, const IntervalOptions& options = {},
                              const ThreadGroupOptions& nodes = {}) {
  std::vector<IntervalSets> all(views.size());
  run_threads(static_cast<int>(views.size()), nodes, [&](Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    auto sets = cut_intervals(group, views[rank], options);
    ASSERT_TRUE(sets) << sets.error().text();
    all[rank] = *std::move(sets);
  });
  return all;
}

std::vector<int> ranks_of(const Pattern& sharers) {
  std::vector<int> ranks;
  for (const Offset rank : flatten(sharers)) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

// ---- The figure of the Interval-IO paper: three views of 125 bytes make eight elementary intervals. The ends of P0's two
// regions are the paper's; its picture of the other two is not in its text, so they are placed to make the eight.

TEST(IntervalSets, ThePapersFigure) {
  const auto view = [](std::vector<Extent> regions) { return TiledView{0, Pattern::extents(regions), 125}; };
  const std::vector<TiledView> views = {view({{0, 25}, {50, 25}}), view({{15, 25}, {65, 25}}),
                                        view({{40, 10}, {90, 35}})};
  for (const int managers : {1, 2, 3}) {
    const auto all = cut(views, {.end = 125, .managers = managers});
    std::map<Offset, std::pair<Bytes, std::vector<int>>> intervals;  // by start; those of a set of ranks merge
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto add = [&](const Pattern& bytes, const std::vector<int>& ranks) {
        RunReader runs{Cursor(bytes)};
        while (const auto run = runs.next()) intervals[run->offset] = {run->length, ranks};
      };
      add(all[rank].private_bytes(), {static_cast<int>(rank)});
      for (const SharedIntervals& each : all[rank].shared()) add(each.bytes, ranks_of(each.sharers));
    }
    // A manager's domain may end within an interval.
    for (auto at = intervals.begin(); at != intervals.end();) {
      const auto next = std::next(at);
      if (next != intervals.end() && at->first + at->second.first == next->first &&
          at->second.second == next->second.second) {
        at->second.first += next->second.first;
        intervals.erase(next);
      } else {
        at = next;
      }
    }
    const std::map<Offset, std::pair<Bytes, std::vector<int>>> expected = {
        {0, {15, {0}}},  {15, {10, {0, 1}}}, {25, {15, {1}}}, {40, {10, {2}}},
        {50, {15, {0}}}, {65, {10, {0, 1}}}, {75, {15, {1}}}, {90, {35, {2}}}};
    EXPECT_EQ(intervals, expected) << managers << " managers";
  }
}

// ---- Random views

TiledView random_view(Random& random) {
  TiledView view;
  if (pick(random, 0, 9) == 0) return view;  // no view
  view.displacement = pick(random, 0, 3) * pick(random, 0, 40);
  view.tile = testing::random_ascending(random, testing::kShapes[pick(random, 0, 5)], pick(random, 1, 60));
  view.extent = std::max<Bytes>(1, view.tile.upper() + pick(random, 0, 1) * pick(random, 0, 12));
  if (pick(random, 0, 3) == 0) view.extent = 60;
  if (pick(random, 0, 5) == 0) view.extent = std::max<Bytes>(1, view.tile.upper() / 2);  // tiles reach into each other
  return view;
}

bool is_regular(const TiledView& view) {
  return view.tile.ascending() && view.tile.upper() - view.tile.lower() <= view.extent;
}

using Touched = std::map<Offset, std::set<int>>;

void add_view(Touched& touched, const TiledView& view, int rank, Offset end) {
  if (view.tile.empty()) return;
  for (Offset start = view.displacement; start + view.tile.lower() < end; start += view.extent)
    for (const Offset offset : flatten(view.tile))
      if (start + offset < end) touched[start + offset].insert(rank);
}

TEST(IntervalSets, AgreeWithAByteArray) {
  const std::uint64_t seed = testing::seed_of_run();
  std::printf("STRIDIO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < testing::rounds(400, 100); ++round) {
    std::vector<TiledView> views(static_cast<std::size_t>(pick(random, 1, 8)));
    for (TiledView& view : views) view = random_view(random);
    IntervalOptions options;
    if (pick(random, 0, 2) == 0) options.end = pick(random, 0, 300);
    options.managers = static_cast<int>(pick(random, 0, std::ssize(views)));
    const bool small_budget = pick(random, 0, 4) == 0;
    if (small_budget) options.budget = pick(random, 0, 500);
    const ThreadGroupOptions nodes{static_cast<int>(pick(random, 0, 3)), pick(random, 0, 1) == 0};
    const auto all = cut(views, options, nodes);

    const Offset shown = options.end ? *options.end : 700;  // some periods, mostly
    Touched touched;
    for (std::size_t rank = 0; rank < views.size(); ++rank)
      add_view(touched, views[rank], static_cast<int>(rank), shown);
    std::map<std::pair<int, std::uint32_t>, std::vector<int>> sharers_of_lock;
    for (std::size_t r = 0; r < views.size(); ++r) {
      const int rank = static_cast<int>(r);
      for (const SharedIntervals& each : all[r].shared()) {
        const std::vector<int> ranks = ranks_of(each.sharers);
        ASSERT_GE(ranks.size(), 2u);
        ASSERT_TRUE(std::binary_search(ranks.begin(), ranks.end(), rank));
        const auto known = sharers_of_lock.emplace(std::pair(each.manager, each.lock), ranks).first;
        ASSERT_EQ(known->second, ranks) << "round " << round << ": one lock, two sets of sharers";
      }
      const std::vector<Offset> alone = flatten(all[r].private_bytes());
      const std::set<Offset> own_alone(alone.begin(), alone.end());
      for (const auto& [offset, ranks] : touched) {
        if (!ranks.count(rank)) continue;
        std::vector<std::pair<const SharedIntervals*, std::vector<int>>> found;
        all[r].each_shared_in({offset, 1},
                              [&](const SharedIntervals& each) { found.emplace_back(&each, ranks_of(each.sharers)); });
        ASSERT_LE(found.size(), 1u);
        const std::set<int> sharers = found.empty()
                                          ? std::set<int>{rank}
                                          : std::set<int>(found.front().second.begin(), found.front().second.end());
        ASSERT_TRUE(std::includes(sharers.begin(), sharers.end(), ranks.begin(), ranks.end()))
            << "round " << round << ", rank " << rank << ", byte " << offset;
        const bool all_regular = std::all_of(views.begin(), views.end(), is_regular);
        const bool exact = found.empty() || found.front().first->exact;
        if (all_regular && !small_budget && options.end) {
          ASSERT_TRUE(exact);
          ASSERT_EQ(sharers, ranks) << "round " << round << ", byte " << offset;
          ASSERT_EQ(own_alone.count(offset), found.empty()) << "round " << round << ", byte " << offset;
        }
      }
    }
  }
}

// Open views of a common extent, or of extents with a small multiple, are exact for ever.
TEST(IntervalSets, OpenViewsRepeat) {
  for (const auto& [first, second] : {std::pair<Bytes, Bytes>{12, 12}, {12, 8}, {1, 12}}) {
    const std::vector<TiledView> views = {{5, Pattern::run(0, first == 1 ? 1 : 4), first},
                                          {0, Pattern::run(2, 4), second}};
    const auto all = cut(views);
    Touched touched;
    constexpr Offset kFar = 400;
    for (int rank = 0; rank < 2; ++rank) add_view(touched, views[static_cast<std::size_t>(rank)], rank, kFar);
    for (const auto& [offset, ranks] : touched)
      for (const int rank : ranks) {
        int found = 0;
        all[static_cast<std::size_t>(rank)].each_shared_in({offset, 1}, [&](const SharedIntervals&) { ++found; });
        EXPECT_EQ(found > 0, ranks.size() > 1) << first << " and " << second << ", byte " << offset;
      }
    EXPECT_FALSE(all[0].shared().empty());
  }
}

// ---- Cost follows structure

TEST(IntervalSets, FlashIsPrivateAndSmall) {
  constexpr int kRanks = 8;
  std::vector<TiledView> views;
  for (int rank = 0; rank < kRanks; ++rank)  // 24 variables of 80 blocks of 4096 bytes
    views.push_back({0,
                     Pattern::strided(24, kRanks * 80 * 4096, Pattern::strided(80, 4096, Pattern::run(0, 4096)))
                         .shifted(rank * 80 * 4096),
                     24 * kRanks * 80 * 4096});
  for (const IntervalSets& sets : cut(views)) {
    EXPECT_TRUE(sets.shared().empty());
    EXPECT_LT(sets.own().footprint(), 4096);
  }
}

TEST(IntervalSets, OpenedWithoutViewsAllIsShared) {
  const std::vector<TiledView> views(5, TiledView{0, Pattern::run(0, 1), 1});
  for (const IntervalSets& sets : cut(views)) {
    ASSERT_EQ(sets.shared().size(), 1u);
    EXPECT_EQ(ranks_of(sets.shared().front().sharers), (std::vector<int>{0, 1, 2, 3, 4}));
    int found = 0;
    sets.each_shared_in({1'000'000'000'000, 10}, [&](const SharedIntervals&) { ++found; });
    EXPECT_EQ(found, 1);
  }
}

TEST(IntervalSets, FarAwayViewsAreShared) {
  constexpr Offset kFar = std::numeric_limits<Offset>::max();
  const std::vector<TiledView> views = {{kFar - 100, Pattern::run(0, 4), 4},
                                        {kFar - 2, Pattern::run(8, 4), kFar},
                                        {0, Pattern::run(kFar / 4, 4), kFar / 2}};
  for (const IntervalSets& sets : cut(views)) EXPECT_EQ(sets.shared().size(), 1u);
}

// Pieces of 64 bytes at random places, some of them another rank's too.
TEST(IntervalSets, RandomPiecesWithinTheBudget) {
  Random random(1);
  constexpr Bytes kPiece = 64;
  constexpr std::int64_t kPlaces = 200'000;
  std::vector<TiledView> views;
  for (int rank = 0; rank < 4; ++rank) {
    std::set<Offset> places;
    for (int i = 0; i < 40'000; ++i) places.insert(pick(random, 0, kPlaces - 1) * kPiece);
    views.push_back(
        {0, Pattern::indexed({places.begin(), places.end()}, {}, 0, Pattern::run(0, kPiece)), kPlaces * kPiece});
  }
  const auto exact = cut(views, {.end = kPlaces * kPiece});
  const auto cut_short = cut(views, {.end = kPlaces * kPiece, .budget = 100'000});
  for (std::size_t rank = 0; rank < views.size(); ++rank) {
    Bytes shared = 0, conservative = 0;
    for (const SharedIntervals& each : exact[rank].shared()) shared += each.bytes.size();
    for (const SharedIntervals& each : cut_short[rank].shared()) conservative += each.bytes.size();
    EXPECT_EQ(shared + exact[rank].private_bytes().size(), views[rank].tile.size());
    EXPECT_GT(conservative, shared);
    Bytes footprint = 0;
    for (const SharedIntervals& each : cut_short[rank].shared()) footprint += each.bytes.footprint();
    EXPECT_LT(footprint, 4 * 200'000) << "four managers";
  }
}

}  // namespace
}  // namespace stridio
