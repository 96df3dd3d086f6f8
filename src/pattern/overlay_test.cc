// Overlays against a byte array, and their cost against the structure of what is laid over each other.
#include "pattern/overlay.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "support/random_pattern.h"

namespace stridio {
namespace {

using testing::pick;
using testing::Random;

Pattern random_view(Random& random, Bytes span) {
  Pattern pattern = testing::random_ascending(random, testing::kShapes[pick(random, 0, 5)], span);
  if (pattern.empty() || pick(random, 0, 1) == 0) return pattern;
  const Bytes extent = pattern.upper() + pick(random, 0, 20);
  return Pattern::strided(pick(random, 1, 5), extent, pattern);
}

// Patterns that have strides in common are what repeats together.
std::vector<Pattern> random_patterns(Random& random, Bytes span) {
  std::vector<Pattern> patterns(static_cast<std::size_t>(pick(random, 0, 6)));
  for (Pattern& pattern : patterns) pattern = random_view(random, span);
  if (patterns.empty() || pick(random, 0, 1) == 0) return patterns;
  const Bytes stride = pick(random, 8, 60);
  for (Pattern& pattern : patterns) {
    const Pattern child = testing::random_ascending(random, testing::kShapes[pick(random, 0, 5)], stride);
    const Bytes own = stride * pick(random, 1, 3);
    pattern = Pattern::strided(pick(random, 1, 12), own, child.clip({0, stride})).shifted(pick(random, 0, 2 * stride));
  }
  return patterns;
}

using ByteOwners = std::map<Offset, std::vector<int>>;

ByteOwners owners_by_byte(const std::vector<Pattern>& patterns) {
  ByteOwners owners;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    for (const Offset offset : testing::flatten(patterns[i])) owners[offset].push_back(static_cast<int>(i));
  return owners;
}

TEST(Overlay, AgreesWithAByteArray) {
  const std::uint64_t seed = testing::seed_of_run();
  std::printf("STRIDIO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  for (int round = 0; round < 4000; ++round) {
    const std::vector<Pattern> patterns = random_patterns(random, pick(random, 1, 400));
    ByteOwners expected = owners_by_byte(patterns), found;
    std::set<std::vector<int>> sets;
    for (const Overlap& each : overlay(patterns)) {
      ASSERT_TRUE(each.exact);
      ASSERT_TRUE(each.bytes.ascending());
      ASSERT_FALSE(each.bytes.empty());
      ASSERT_TRUE(sets.insert(each.owners).second);
      for (const Offset offset : testing::flatten(each.bytes))
        ASSERT_TRUE(found.emplace(offset, each.owners).second) << "round " << round << ", byte " << offset;
    }
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST(Overlay, BeyondTheBudgetOwnersAreASuperset) {
  const std::uint64_t seed = testing::seed_of_run();
  std::printf("STRIDIO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Random random(seed);
  int gave_up = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Pattern> patterns = random_patterns(random, pick(random, 1, 400));
    const ByteOwners expected = owners_by_byte(patterns);
    ByteOwners found;
    for (const Overlap& each : overlay(patterns, pick(random, 0, 300))) {
      gave_up += !each.exact;
      for (const Offset offset : testing::flatten(each.bytes)) {
        ASSERT_TRUE(found.emplace(offset, each.owners).second) << "round " << round << ", byte " << offset;
        const auto owners = expected.find(offset);
        if (each.exact) {
          ASSERT_TRUE(owners != expected.end() && owners->second == each.owners) << "round " << round;
        } else if (owners != expected.end()) {
          ASSERT_TRUE(
              std::includes(each.owners.begin(), each.owners.end(), owners->second.begin(), owners->second.end()))
              << "round " << round << ", byte " << offset;
        }
      }
    }
    for (const auto& [offset, owners] : expected) ASSERT_TRUE(found.count(offset)) << "round " << round;
  }
  EXPECT_GT(gave_up, 100);
}

TEST(Overlay, IntersectsAndSubtracts) {
  const Pattern a = Pattern::strided(5, 10, Pattern::run(0, 6)), b = Pattern::strided(5, 10, Pattern::run(4, 4));
  EXPECT_EQ(intersect(a, b).encode(), Pattern::strided(5, 10, Pattern::run(4, 2)).encode());
  EXPECT_EQ(subtract(a, b).encode(), Pattern::strided(5, 10, Pattern::run(0, 4)).encode());
  EXPECT_EQ(subtract(b, a).encode(), Pattern::strided(5, 10, Pattern::run(6, 2)).encode());
  EXPECT_TRUE(subtract(a, a).empty());
  EXPECT_TRUE(intersect(a, {}).empty());
}

Bytes footprint(const std::vector<Overlap>& all) {
  Bytes total = 0;
  for (const Overlap& each : all) total += each.bytes.footprint();
  return total;
}

// Every rank's every eighth int, 10^8 of each; the last rank's overlap its neighbours'.
TEST(Overlay, ManyInterleavedPiecesCostTheirStructure) {
  std::vector<Pattern> patterns;
  for (int rank = 0; rank < 8; ++rank)
    patterns.push_back(Pattern::strided(100'000'000, 32, Pattern::run(0, rank == 7 ? 6 : 4)).shifted(4 * rank));
  const auto all = overlay(patterns);
  EXPECT_EQ(all.size(), 9u);  // eight, and what rank 7 shares with rank 0's next
  EXPECT_LT(footprint(all), 20'000);
  Bytes bytes = 0;
  for (const Overlap& each : all) bytes += each.bytes.size();
  EXPECT_EQ(bytes, 8 * 4 * 100'000'000ll + 2);
}

// Tiles of 100,000 rows with ghost rows and columns: nine ranks, and what they share by two and by four.
TEST(Overlay, TilesCostTheirStructure) {
  constexpr Bytes kSide = 100'000, kGhost = 10, kRow = 3 * kSide;
  std::vector<Pattern> patterns;
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 3; ++x) {
      const Bytes left = std::max<Bytes>(0, x * kSide - kGhost), right = std::min(kRow, (x + 1) * kSide + kGhost);
      const Bytes top = std::max<Bytes>(0, y * kSide - kGhost), bottom = std::min(kRow, (y + 1) * kSide + kGhost);
      patterns.push_back(
          Pattern::strided(bottom - top, kRow, Pattern::run(0, right - left)).shifted(top * kRow + left));
    }
  const auto all = overlay(patterns);
  std::map<std::size_t, int> by_sharers;
  for (const Overlap& each : all) ++by_sharers[each.owners.size()];
  EXPECT_EQ(by_sharers, (std::map<std::size_t, int>{{1, 9}, {2, 12}, {4, 4}}));
  EXPECT_LT(footprint(all), 100'000);
}

// Strides that have a large common multiple, and none within reach.
TEST(Overlay, StridesThatDoNotFitFollowTheRunsWithinTheBudget) {
  const Pattern fit[] = {Pattern::strided(1'000'000, 100, Pattern::run(0, 50)),
                         Pattern::strided(1'000'000, 96, Pattern::run(0, 50))};
  const auto exact = overlay(fit);
  EXPECT_LT(footprint(exact), 20'000);
  const Pattern misfit[] = {Pattern::strided(10'000'000, 1'000'003, Pattern::run(0, 500'000)),
                            Pattern::strided(10'000'000, 1'000'033, Pattern::run(0, 500'000))};
  const auto cut_short = overlay(misfit, 100'000);
  EXPECT_LT(footprint(cut_short), 200'000);
  EXPECT_TRUE(std::any_of(cut_short.begin(), cut_short.end(), [](const Overlap& each) { return !each.exact; }));
}

}  // namespace
}  // namespace stridio
