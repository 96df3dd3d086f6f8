// Decisions of the planner that users would notice.
#include <gtest/gtest.h>

#include <random>

#include "plan/collective_plan.h"

namespace stridio {
namespace {

constexpr Caps kPlain{};

Profile far(double latency, double bytes_per_second, int depth = 16) {
  Profile profile;
  profile.read = profile.write = {.request_seconds = latency,
                                  .byte_seconds = 1 / bytes_per_second,
                                  .shared_byte_seconds = 1 / bytes_per_second,
                                  .depth = depth,
                                  .overlap = 0.75 * depth};
  if (depth == 1) profile.read.overlap = profile.write.overlap = 1;
  return profile;
}

AccessPlan plan(Direction direction, const Pattern& file, const Profile& profile, const AccessRules& rules = {},
                const Correction& correction = {}) {
  return plan_access(shape_of(direction, file, Pattern::run(0, file.size())), kPlain, profile, rules, correction);
}

Pattern pieces(std::int64_t count, Bytes piece, Bytes stride) {
  return Pattern::strided(count, stride, Pattern::run(0, piece));
}

// ---- Holes

TEST(Gaps, OfARegularPatternAreExact) {
  const Pattern rows = Pattern::strided(10, 100000, pieces(64, 8, 16));
  const Gaps gaps = gaps_of(rows);
  EXPECT_EQ(gaps.count(), 10 * 63 + 9);
  EXPECT_EQ(gaps.shorter_than(16).count, 10 * 63);
  EXPECT_EQ(gaps.shorter_than(16).bytes, 10 * 63 * 8);
}

TEST(Gaps, OfALongIrregularPatternAreAboutRight) {
  std::vector<Offset> places;
  for (Offset i = 0; i < 100000; ++i) places.push_back(i < 50000 ? i * 16 : i * 4096);
  const Gaps gaps = gaps_of(Pattern::indexed(places, {}, 0, Pattern::run(0, 8)));
  EXPECT_NEAR(gaps.count(), 1e5, 1e4);
  EXPECT_NEAR(gaps.shorter_than(16).count, 5e4, 1e4) << "half is dense, half is not: no average says that";
}

TEST(Gaps, OfAUnionAreWhatIsLeftBetweenAll) {
  const std::vector<Pattern> whole = {pieces(1000, 8, 16), pieces(1000, 8, 16).shifted(8)};
  EXPECT_EQ(union_gaps_of(whole).count(), 0);
  const std::vector<Pattern> holes = {pieces(100000, 8, 1024), pieces(100000, 8, 1024).shifted(8)};
  EXPECT_NEAR(union_gaps_of(holes).count(), 1e5, 5e3);
  EXPECT_NEAR(union_gaps_of(holes).shorter_than(1024).bytes, 1e5 * 1008, 5e6);
}

// ---- One process

TEST(Plan, FarStorageGetsLongRequests) {
  // FLASH: one run of the file, 8-byte pieces of memory.
  const RequestShape flash = shape_of(Direction::kWrite, Pattern::run(0, 8 << 20), pieces(1 << 20, 8, 16));
  const AccessPlan plan = plan_access(flash, kPlain, far(1e-3, 1e9), {});
  EXPECT_TRUE(plan.staged);
  EXPECT_GE(plan.window, 1 << 20);
  EXPECT_LE(plan.first_window, plan.window / 4) << "the storage waits for the first copy";
  EXPECT_GE(plan.deep.unit, 1 << 19);
}

TEST(Plan, WhereRequestsOverlapAMebibyteIsTwo) {
  const RequestShape whole = shape_of(Direction::kRead, Pattern::run(0, 1 << 20), Pattern::run(0, 1 << 20));
  Profile network = far(1e-3, 1e9);
  network.read.depth = 1;
  EXPECT_EQ(plan_access(whole, kPlain, network, {}).deep.unit, 1 << 20);
  network.read.depth = 4;
  EXPECT_EQ(plan_access(whole, kPlain, network, {}).deep.unit, 1 << 19);
}

TEST(Plan, WhatOthersWaitForHasTheirRequestsUnderWay) {
  const RequestShape sparse = shape_of(Direction::kWrite, pieces(10000, 4096, 16384), Pattern::run(0, 10000 * 4096));
  Profile network = far(1e-3, 1e9);
  network.write.depth = 16;
  AccessRules rules;
  const int alone = plan_access(sparse, kPlain, network, rules).deep.depth;
  rules.waited_for = true;
  EXPECT_GT(plan_access(sparse, kPlain, network, rules).deep.depth, alone);
  EXPECT_EQ(plan_access(sparse, kPlain, Profile{}, rules).deep.depth, 1) << "calls to a local file take turns";
}

TEST(Plan, WhatKnowsHowItIsStoredGathersForItself) {
  Caps interval;
  interval.appends = true;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    const RequestShape sparse = shape_of(direction, pieces(10000, 4096, 16384), Pattern::run(0, 10000 * 4096));
    EXPECT_GT(plan_access(sparse, kPlain, far(1e-3, 1e9), {}).deep.depth, 1);
    const AccessPlan plan = plan_access(sparse, interval, far(1e-3, 1e9), {});
    EXPECT_EQ(plan.deep.depth, 1);
    EXPECT_GE(plan.ranges, 10000);
  }
}

TEST(Plan, WhatHasChecksumsMovesByShortRequestsWhereStorageIsNearAndByManyAtOnceWhereItIsFar) {
  const SummedRequests near = summed_requests(Profile());
  EXPECT_LE(near.longest_read, Profile().staging / 2);
  EXPECT_EQ(near.write.depth, 1);
  EXPECT_FALSE(near.waits);
  EXPECT_EQ(near.least_mapped, SummedRequests::kNever) << "mapped pages cost more than they spare";
  Profile mapped;
  mapped.run_page_seconds = 1e-7;
  EXPECT_LE(summed_requests(mapped).least_mapped, 2 * near.longest_read);
  EXPECT_DOUBLE_EQ(summed_requests(mapped).calls_a_page, 0.1);
  const Bytes run = summed_requests(mapped).least_mapped_run;
  EXPECT_GT(run, 40 << 10);
  EXPECT_LT(run, 80 << 10) << "what 9 ranks want of FLASH's columns is mapped";
  mapped.run_page_seconds *= 2;
  EXPECT_NEAR(static_cast<double>(summed_requests(mapped).least_mapped_run), 2.0 * static_cast<double>(run), 2);
  mapped.run_page_seconds /= 2;
  mapped.map_seconds = 1e-3;
  EXPECT_GT(summed_requests(mapped).least_mapped, Bytes{32} << 20) << "what it takes is not repaid before";
  mapped.map_seconds = 1e-2;
  EXPECT_EQ(summed_requests(mapped).least_mapped, SummedRequests::kNever);
  Profile network = far(1e-3, 1e9);
  network.write.depth = 16;
  network.write.extends_alone = true;
  const SummedRequests requests = summed_requests(network);
  EXPECT_EQ(requests.longest_read, network.longest_staging);
  EXPECT_TRUE(requests.waits);
  Profile far_to_read;
  far_to_read.read = network.read;
  EXPECT_TRUE(summed_requests(far_to_read).waits);
  EXPECT_EQ(requests.longest_written, network.longest_staging);
  EXPECT_EQ(requests.least_mapped, SummedRequests::kNever);
  EXPECT_EQ(requests.read.depth, network.read.depth);
  EXPECT_EQ(requests.write.depth, 16);
  EXPECT_TRUE(requests.write.extend_first);
  EXPECT_LE(requests.write.unit * 4, requests.longest_written / 2) << "few requests of a window are under way";
}

// Ranks of one file take turns: who copies several requests' bytes before the first of them leaves the file idle.
TEST(Plan, AWindowOfStagedMemoryIsOneRequestOfAnIntervalFile) {
  Caps interval;
  interval.appends = true;
  const Pattern cell = Pattern::run(0, 8);
  const Pattern variable = Pattern::strided(1 << 20, 192, cell);  // of structures of 24
  const auto plan_for = [&](const Pattern& memory, const Profile& profile) {
    return plan_access(shape_of(Direction::kWrite, Pattern::run(0, memory.size()), memory), interval, profile, {});
  };
  for (const Profile& profile : {Profile(), far(1e-3, 1e9)}) {
    const AccessPlan of_one = plan_for(variable, profile);
    EXPECT_TRUE(of_one.staged);
    EXPECT_LE(of_one.window / 2, summed_requests(profile).longest_written);
    const Columns of_all = plan_for(Pattern::strided(24, 8, variable), profile).columns;
    EXPECT_EQ(of_all.together, 24);
    EXPECT_LE(of_all.together * of_all.part, summed_requests(profile).longest_written);
    EXPECT_GT(of_all.together * of_all.part, summed_requests(profile).longest_written / 5);
  }
}

TEST(Plan, ScatteredMemoryCostsTheCacheLinesThatItTouches) {
  const auto variables = [](Bytes count) {  // of structures of so many doubles, one variable after the other
    return Pattern::strided(count, 8, pieces(4096, 8, 8 * count));
  };
  EXPECT_EQ(scattered(variables(2)), 0.25) << "four pieces a line";
  EXPECT_EQ(scattered(variables(24)), 1) << "FLASH";
  EXPECT_EQ(scattered(pieces(4096, 8, 192)), 0) << "in the order of memory";
  EXPECT_EQ(scattered(Pattern::strided(24, 256, pieces(32, 256, 6144))), 0) << "pieces of whole lines";
}

TEST(Plan, WindowsStayBelowTheHints) {
  AccessRules rules;
  rules.read_window = 65536;
  EXPECT_EQ(plan(Direction::kRead, pieces(100000, 8, 16), far(1e-3, 1e9), rules).window, 65536);
}

TEST(Plan, LatencyDecidesBetweenListAndSieve) {
  const Pattern sparse = pieces(1000, 64, 100000);
  EXPECT_NE(plan(Direction::kRead, sparse, Profile{}).method, Method::kSieve);
  EXPECT_EQ(plan(Direction::kRead, sparse, far(1e-2, 1e9, 1)).method, Method::kSieve);
  EXPECT_EQ(plan(Direction::kRead, sparse, far(1e-3, 1e8)).method, Method::kList) << "16 at once overlap";
}

TEST(Plan, ADensePartIsSievedAndASparseOneListed) {
  const Pattern mixed = Pattern::sequence({pieces(10000, 8, 16), pieces(100, 4096, 50 << 20).shifted(1 << 20)});
  const AccessPlan hybrid = plan(Direction::kRead, mixed, far(1e-3, 1e9));
  EXPECT_EQ(hybrid.method, Method::kSieve);
  EXPECT_GE(hybrid.largest_gap, 8);
  EXPECT_LT(hybrid.largest_gap, 50 << 20);
  EXPECT_LT(hybrid.seconds, 0.05) << hybrid.explain();
}

TEST(Plan, PastCallsShiftTheBalance) {
  const Pattern file = pieces(1000, 4096, 4096 + 9000);
  const AccessPlan before = plan(Direction::kRead, file, Profile{});
  Correction slow;
  for (int i = 0; i < 20; ++i) slow.learn(before.method, 1e-3, 4e-3);
  EXPECT_EQ(plan(Direction::kRead, file, Profile{}, {}, slow).method, before.method)
      << "the others were never tried: the machine is slow, not the method";
  const Method other = before.method == Method::kList ? Method::kSieve : Method::kList;
  for (int i = 0; i < 20; ++i) slow.learn(other, 1e-3, 0.3e-3);
  EXPECT_EQ(plan(Direction::kRead, file, Profile{}, {}, slow).method, other);
}

// ---- Corrections

TEST(Correction, IsBoundedAndSmoothed) {
  Correction correction;
  EXPECT_EQ(correction.of(Method::kList), 1);
  correction.learn(Method::kList, 1e-3, 1);
  EXPECT_LT(correction.of(Method::kList), 1.5) << "one disturbed call";
  for (int i = 0; i < 100; ++i) correction.learn(Method::kList, 1e-3, 1);
  EXPECT_NEAR(correction.of(Method::kList), 4, 0.01);
  EXPECT_TRUE(correction.contradicts());
  for (int i = 0; i < 100; ++i) correction.learn(Method::kList, 1, 1e-3);
  EXPECT_NEAR(correction.of(Method::kList), 0.25, 0.01);
  EXPECT_NEAR(correction.of_two_phase(), 0.25, 0.01) << "never tried";
}

TEST(Correction, ShortCallsTeachNothing) {
  Correction correction;
  for (int i = 0; i < 100; ++i) correction.learn(Method::kDirect, 1e-6, 1e-5);
  EXPECT_EQ(correction.of(Method::kDirect), 1);
}

TEST(Plan, CallsTakeTurnsWithOtherWritersAndMappingsDoNot) {
  // A tile: nearly all of each page.
  Profile profile;
  profile.write = {.request_seconds = 5e-7, .byte_seconds = 1.35e-10, .shared_byte_seconds = 1.35e-10};
  profile.written_page_seconds = 7e-7;
  const RequestShape tile =
      shape_of(Direction::kWrite, pieces(6144, 3072, 6144), Pattern::run(0, 6144 * 3072), Bytes{1} << 30);
  AccessRules rules;
  const AccessPlan alone = plan_access(tile, {.maps = true}, profile, rules);
  EXPECT_EQ(alone.method, Method::kList);
  rules.other_writers = 1;
  EXPECT_EQ(plan_access(tile, {.maps = true}, profile, rules).method, Method::kMapped);
  EXPECT_NEAR(plan_access(tile, kPlain, profile, rules).seconds, 2 * profile.turns_taken * alone.seconds, 1e-6);
  const auto sieving = [&](int others) {
    AccessRules modifying;
    modifying.other_writers = others;
    modifying.may_modify_holes = true;
    for (const Candidate& candidate : plan_access(tile, kPlain, profile, modifying).considered)
      if (candidate.method == Method::kSieve) return candidate.storage_seconds;
    return 0.0;
  };
  EXPECT_GT(sieving(1), sieving(0) + alone.storage_seconds) << "it writes by calls too";
  const double waited = plan_access(tile, kPlain, far(1e-3, 1e9), {}).seconds;
  EXPECT_EQ(plan_access(tile, kPlain, far(1e-3, 1e9), rules).seconds, waited) << "far requests overlap";
  const RequestShape read = shape_of(Direction::kRead, pieces(6144, 3072, 6144), Pattern::run(0, 6144 * 3072));
  EXPECT_EQ(plan_access(read, kPlain, profile, rules).seconds, plan_access(read, kPlain, profile, {}).seconds);
}

TEST(Plan, NewPagesAreLeftToCalls) {
  // FLASH: mapping saves a copy, but what makes room for new pages costs more than that.
  Profile profile;
  profile.written_page_seconds = 1e-7;
  profile.new_page_seconds = 1e-6;
  profile.new_mapped_page_seconds = 3e-6;
  const auto method_for = [&](Bytes file_size, int others) {
    const auto shape = shape_of(Direction::kWrite, Pattern::run(0, 8 << 20), pieces(1 << 20, 8, 16), file_size);
    AccessRules rules;
    rules.other_writers = others;
    return plan_access(shape, {.maps = true}, profile, rules).method;
  };
  EXPECT_EQ(method_for(8 << 20, 0), Method::kMapped);
  for (const int others : {0, 1, 3}) EXPECT_EQ(method_for(0, others), Method::kDirect) << others << " write beside";
  EXPECT_EQ(shape_of(Direction::kWrite, pieces(10, 8, 16), pieces(10, 8, 16), 50).fresh, 6 * 8 + 6);
  EXPECT_EQ(shape_of(Direction::kRead, pieces(10, 8, 16), pieces(10, 8, 16), 50).fresh, 0);
}

// 24 variables of 80 blocks of 512 cells, in the file one after the other.
TEST(AccessPlan, MemoryInColumnsIsPassedOverOnce) {
  constexpr Bytes kCell = 192, kVariable = 80 * 512 * 8;
  const Pattern cells = Pattern::strided(512, kCell, Pattern::run(0, 8));
  const Pattern memory = Pattern::strided(24, 8, Pattern::strided(80, 4096 * kCell, cells));
  const Pattern file = Pattern::strided(24, 4 * kVariable, Pattern::run(0, kVariable));
  const auto plan = [&](const Profile& profile, const AccessRules& rules, const Caps& caps, const Pattern& of) {
    return plan_access(shape_of(Direction::kWrite, file, of), caps, profile, rules);
  };
  const Columns columns = plan(Profile{}, {}, kPlain, memory).columns;
  EXPECT_EQ(columns.count, 24);
  EXPECT_EQ(columns.stride, 8);
  EXPECT_EQ(columns.inside, kVariable);
  EXPECT_EQ(columns.together, 24);
  EXPECT_EQ(columns.part, 5 * 4096) << "whole blocks, of all variables in half a staging buffer";
  AccessRules locked;
  locked.lock_writes = true;
  Caps log = kPlain;
  log.appends = true;
  Profile slow = far(3e-5, 1e9);
  slow.scattered_range_seconds = 1e-6;
  EXPECT_EQ(plan(slow, {}, kPlain, memory).columns.together, 0) << "requests that are waited for overlap with copies";
  EXPECT_EQ(plan(slow, {}, log, memory).columns.together, 24) << "each window is one request, beside the next copy";
  EXPECT_EQ(plan(Profile{}, locked, kPlain, memory).columns.together, 0) << "one lock";
  EXPECT_EQ(plan(Profile{}, {}, log, memory).columns.part, 10 * 4096) << "what is stored in the order of writing";
  log.alignment = 4 * 4096;
  EXPECT_EQ(plan(Profile{}, {}, log, memory).columns.part, 8 * 4096) << "whole cells";
  EXPECT_EQ(plan(slow, {}, log, memory).columns.part, 10 * 4096) << "fewer requests";
  for (const Bytes alignment : {6000, 1 << 20}) {
    log.alignment = alignment;
    EXPECT_EQ(plan(Profile{}, {}, log, memory).columns.part, 10 * 4096) << "no whole blocks, or too long";
  }
  const Pattern apart = Pattern::strided(24, 80 * 512 * kCell, Pattern::strided(80 * 512, kCell, Pattern::run(0, 8)));
  EXPECT_EQ(plan(Profile{}, {}, kPlain, apart).columns.together, 0) << "a line holds one piece";
}

TEST(AccessPlan, RowsAcrossColumnsFindTheirLinesInACache) {
  constexpr Bytes kColumn = 32768 * 16;
  const auto far = [](const Pattern& memory) {
    return shape_of(Direction::kRead, Pattern::run(0, memory.size()), memory).far;
  };
  const Pattern piece = Pattern::run(0, 16);
  const Pattern row = Pattern::strided(128, kColumn, piece);
  EXPECT_EQ(far(Pattern::strided(32768, 16, row)), 0.25) << "four rows a line";
  EXPECT_EQ(far(Pattern::strided(32768, 64, row)), 1) << "each row has lines of its own";
  EXPECT_EQ(far(Pattern::strided(32, 16, Pattern::strided(1 << 20, 512, piece))), 1) << "no cache keeps so many lines";
  EXPECT_EQ(far(Pattern::strided(128, 1024, Pattern::run(0, 16))), 0) << "in the order of memory";
}

// ---- A group

CollectivePlan plan_together(Direction direction, const std::vector<Pattern>& files, const Profile& profile,
                             const CollectiveRules& rules = {}, double correction = 1, bool known = true,
                             bool locks = false, const Caps& caps = kPlain) {
  std::vector<RankShape> shapes;
  Topology topology{.node_of = std::vector<int>(files.size(), 0), .nodes = 1};
  AccessRules access;
  access.lock_writes = locks;
  for (const Pattern& file : files) {
    const Pattern memory = Pattern::run(0, file.size());
    const RequestShape shape = shape_of(direction, file, memory);
    const AccessPlan own = plan_access(shape, caps, profile, access);
    shapes.push_back(rank_shape(shape, file, own, caps, 2, correction));
  }
  return plan_collective(direction, shapes, topology, profile, rules,
                         known ? std::span<const Pattern>(files) : std::span<const Pattern>());
}

std::vector<Pattern> interleaved(int ranks, std::int64_t count, Bytes piece) {
  std::vector<Pattern> files;
  for (int rank = 0; rank < ranks; ++rank) files.push_back(pieces(count, piece, ranks * piece).shifted(rank * piece));
  return files;
}

TEST(CollectivePlan, FarStorageIsAggregatedInLongRequests) {
  const auto files = interleaved(4, 100000, 64);
  const CollectivePlan plan = plan_together(Direction::kWrite, files, far(1e-3, 1e9));
  EXPECT_EQ(plan.strategy, Strategy::kTwoPhase);
  EXPECT_GE(plan.window, 1 << 20);
  EXPECT_GT(plan.deep.depth, 1);
}

// What is stored in the order of writing.
TEST(CollectivePlan, LongWindowsAreGatheredFromAllOverUnlessTheyShouldStayInTheCaches) {
  CollectiveRules rules;
  rules.force = "two_phase";
  Caps log = kPlain;
  log.appends = true;
  const auto window = [&](int ranks, const Profile& profile) {
    const auto files = interleaved(ranks, 10000, 4096);
    return plan_together(Direction::kRead, files, profile, rules, 1, true, false, log).window;
  };
  EXPECT_LE(window(2, Profile{}), Profile{}.staging);
  EXPECT_EQ(window(4, Profile{}), rules.window) << "ranks wait for each other's cores";
  EXPECT_EQ(window(2, far(1e-3, 1e9)), rules.window);
}

TEST(CollectivePlan, TheCheaperEstimateDecides) {
  const auto files = interleaved(2, 10000, 3000);
  const auto with = [&](double correction) {
    return plan_together(Direction::kRead, files, Profile{}, {}, correction);
  };
  const CollectivePlan plan = with(1);
  ASSERT_EQ(plan.considered.size(), 2U);
  const double ratio = plan.considered[1].seconds / plan.considered[0].seconds;  // independent over two-phase
  EXPECT_EQ(with(0.97 * ratio).strategy, Strategy::kTwoPhase);
  EXPECT_EQ(with(1.03 * ratio).strategy, Strategy::kIndependent);
}

// Pieces of 64 bytes, dealt to the ranks at random, `apart` bytes from one to the next.
std::vector<Pattern> dealt(int ranks, int count, Bytes apart) {
  std::vector<std::vector<Extent>> extents(static_cast<std::size_t>(ranks));
  std::minstd_rand random(7);
  for (int i = 0; i < count; ++i) extents[random() % extents.size()].push_back({i * apart, 64});
  std::vector<Pattern> files;
  for (const auto& each : extents) files.push_back(Pattern::extents(each));
  return files;
}

TEST(CollectivePlan, HolesAreReadWhereToFindThemCostsMore) {
  CollectiveRules rules;
  rules.force = "two_phase";
  const auto whole = [&](Direction direction, const std::vector<Pattern>& files, bool known) {
    return plan_together(direction, files, Profile{}, rules, 1, known).whole;
  };
  const auto dense = dealt(4, 100000, 64);
  EXPECT_TRUE(whole(Direction::kRead, dense, false));
  EXPECT_FALSE(whole(Direction::kRead, dense, true));
  EXPECT_FALSE(whole(Direction::kWrite, dense, false)) << "a write must not touch holes";
  EXPECT_FALSE(whole(Direction::kRead, dealt(4, 100000, 6400), false));
  const auto one = dealt(1, 100000, 6400).front();
  EXPECT_FALSE(whole(Direction::kRead, std::vector<Pattern>(4, one), false)) << "all read the same pieces";
  EXPECT_FALSE(plan_together(Direction::kRead, dense, far(1e-3, 1e12), rules, 1, false).whole);
  auto parted = dense;
  for (Pattern& each : parted) {
    const Bytes half = each.size() / 2;
    each = Pattern::sequence({each.slice(0, half), each.slice(half, each.size()).shifted(16 << 20)});
  }
  EXPECT_FALSE(whole(Direction::kRead, parted, false)) << "one long hole";
}

TEST(CollectivePlan, WindowsOfAWriteThatIsWaitedForOverlap) {
  const auto files = interleaved(4, 100000, 64);
  Profile profile = far(1e-3, 1e9);
  profile.write.extends_alone = true;
  const CollectivePlan plan = plan_together(Direction::kWrite, files, profile);
  EXPECT_EQ(plan.slots, 3);
  EXPECT_EQ(plan_together(Direction::kWrite, interleaved(4, 1000, 64), profile).slots, 2) << "a single window";
  EXPECT_EQ(plan_together(Direction::kWrite, files, profile, {}, 1, true, true).slots, 2) << "locked";
  EXPECT_EQ(plan_together(Direction::kRead, files, profile).slots, 2);
  EXPECT_EQ(plan_together(Direction::kWrite, files, Profile{}).slots, 2);
}

TEST(CollectivePlan, NearbyWindowsAreShortAndGrowWithTheRequest) {
  const auto window_of = [](std::int64_t count, CollectiveRules rules = {}) {
    return plan_together(Direction::kWrite, interleaved(2, count, 64), Profile{}, rules).window;
  };
  const Bytes some = window_of(1 << 18), many = window_of(1 << 26);
  EXPECT_LE(some, 1 << 20);
  EXPECT_GT(many, some);
  EXPECT_LE(many, CollectiveRules{}.window);
  CollectiveRules tight;
  tight.window = 5000;
  EXPECT_EQ(window_of(1 << 18, tight), 5000);
}

TEST(CollectivePlan, AsManyAggregateAsTheStorageServes) {
  const auto files = interleaved(4, 1 << 14, 4096);
  Profile profile = far(1e-3, 2.5e8, 1);
  profile.write.shared_byte_seconds = 1e-9;  // four streams are four times as fast as one
  EXPECT_EQ(plan_together(Direction::kWrite, files, profile).domains.size(), 4u);
  profile.write.byte_seconds = profile.write.shared_byte_seconds = 1e-6;  // one saturates it
  EXPECT_LE(plan_together(Direction::kWrite, files, profile).domains.size(), 2u);
  EXPECT_LE(plan_together(Direction::kWrite, files, Profile{}).domains.size(), 2u) << "two cores";
}

TEST(CollectivePlan, ReadersThatShareTheCoresAreAllAggregatorsUpToTwoACore) {
  CollectiveRules rules;
  rules.force = "two_phase";
  const auto aggregators = [&](int ranks, Direction direction) {
    return plan_together(direction, interleaved(ranks, 1 << 12, 4096), Profile{}, rules).domains.size();
  };
  EXPECT_EQ(aggregators(3, Direction::kRead), 3u);
  EXPECT_EQ(aggregators(7, Direction::kRead), 4u);
  EXPECT_EQ(aggregators(7, Direction::kWrite), 2u);
}

// An interval file's pages that several ranks want are mapped by each of them.
TEST(CollectivePlan, WhatLiesInPagesOfSeveralReadersIsReadOnce) {
  constexpr int kRanks = 4;
  const auto files = interleaved(kRanks, 4000, 4096);
  Caps interval;
  interval.appends = true;
  const auto plan = [&](Bytes touched, std::int64_t pieces_together, const Profile& profile,
                        const CollectiveRules& rules = {}) {
    std::vector<RankShape> shapes;
    for (const Pattern& file : files) {
      RequestShape shape = shape_of(Direction::kRead, file, Pattern::run(0, file.size()));
      shape.stored = {.pieces = 8000, .touched = touched};
      shape.pieces_together = pieces_together;
      shapes.push_back(rank_shape(shape, file, plan_access(shape, interval, profile, {}), interval, 2));
    }
    const Topology topology{.node_of = std::vector<int>(kRanks, 0), .nodes = 1};
    return plan_collective(Direction::kRead, shapes, topology, profile, rules, files);
  };
  const auto strategy = [&](Bytes touched, std::int64_t pieces_together, const Profile& profile) {
    return plan(touched, pieces_together, profile).strategy;
  };
  Profile memory;
  memory.run_page_seconds = 1.3e-7;
  memory.read.byte_seconds = 2e-10;
  memory.read.request_seconds = 2.5e-7;
  const Bytes size = files[0].size();
  EXPECT_EQ(strategy(kRanks * size, 5000, memory), Strategy::kTwoPhase);
  EXPECT_EQ(strategy(size, 5000, memory), Strategy::kIndependent) << "nobody else wants them";
  EXPECT_EQ(strategy(kRanks * size, 100000, memory), Strategy::kIndependent) << "aggregators would meet more pieces";
  Profile barely = memory;
  while (strategy(kRanks * size, 5000, barely) == Strategy::kTwoPhase) barely.run_page_seconds *= 0.99;
  const CollectivePlan left = plan(kRanks * size, 5000, barely);
  EXPECT_LT(left.considered[0].seconds, left.considered[1].seconds) << "for little nobody should wait for others";
  EXPECT_NE(left.explain().find("too little less"), std::string::npos) << left.explain();
  CollectiveRules forced;
  forced.force = "independent";
  EXPECT_EQ(plan(kRanks * size, 5000, memory, forced).explain().find("too little less"), std::string::npos);
  Profile folios = memory;
  folios.run_page_seconds = 1e-8;
  EXPECT_EQ(strategy(kRanks * size, 5000, folios), Strategy::kIndependent) << "mapping them costs little";
  const auto alone = [&](Bytes touched) { return plan(touched, 5000, memory).considered[1].seconds; };
  EXPECT_LT(alone(2 * size), alone(3 * size));
  EXPECT_EQ(alone(50 * size), alone(100 * size)) << "a call for each piece costs less";
}

TEST(CollectivePlan, ScatteredMemoryIsNotCutIntoWindowsForLittle) {
  const auto files = interleaved(4, 1 << 12, 4096);
  const Bytes size = files[0].size();
  const auto plan = [&](const Pattern& memory, double request_seconds) {
    Profile profile;
    profile.write.request_seconds = request_seconds;
    std::vector<RankShape> shapes;
    for (const Pattern& file : files) {
      const RequestShape shape = shape_of(Direction::kWrite, file, memory);
      shapes.push_back(rank_shape(shape, file, plan_access(shape, {}, profile, {}), {}, 2));
    }
    const Topology topology{.node_of = std::vector<int>(4, 0), .nodes = 1};
    return plan_collective(Direction::kWrite, shapes, topology, profile, {}, files);
  };
  const auto least_gain = [&](const Pattern& memory) {
    double gain = 1;  // where two-phase is first chosen
    for (double seconds = 1e-9; plan(memory, seconds).strategy != Strategy::kTwoPhase; seconds *= 1.01) {
      const CollectivePlan last = plan(memory, seconds);
      gain = last.considered[0].seconds / last.considered[1].seconds;
    }
    return gain;
  };
  EXPECT_NEAR(least_gain(Pattern::run(0, size)), 1, 0.02);
  const Pattern column = Pattern::strided(size / 8 / 32, 256, Pattern::run(0, 8));
  EXPECT_NEAR(least_gain(Pattern::strided(32, 8, column)), 0.8, 0.02);
}

TEST(CollectivePlan, WhatIsSparseForAllIsNotAggregatedForNothing) {
  // Far apart, so that aggregators would send as many requests as the ranks, and copy besides.
  std::vector<Pattern> files;
  for (int rank = 0; rank < 4; ++rank) files.push_back(pieces(1000, 8192, 1 << 20).shifted(rank * (256 << 10)));
  const CollectivePlan plan = plan_together(Direction::kWrite, files, far(1e-3, 1e9));
  EXPECT_EQ(plan.strategy, Strategy::kIndependent) << plan.explain();
}

TEST(CollectivePlan, OverlappingLockedWritesAreOneAfterTheOther) {
  CollectiveRules rules;
  rules.force = "independent";
  const bool alone = false, locked = true;
  const auto seconds = [&](const std::vector<Pattern>& files, bool locks) {
    return plan_together(Direction::kWrite, files, far(1e-3, 1e9), rules, 1, true, locks).seconds;
  };
  const auto mixed = interleaved(4, 640, 4096);
  EXPECT_NEAR(seconds(mixed, locked), 4 * seconds(mixed, alone), 0.2 * seconds(mixed, locked));
  std::vector<Pattern> apart;
  for (int rank = 0; rank < 4; ++rank) apart.push_back(pieces(640, 4096, 16384).shifted(rank * (640 * 16384)));
  EXPECT_NEAR(seconds(apart, locked), seconds(apart, alone), 1e-5);
  // Nearby, long ranges are locked each by itself.
  const auto long_ranges = interleaved(4, 100, 1 << 20);
  const auto at_once = [&](bool locks) {
    return plan_together(Direction::kWrite, long_ranges, Profile{}, rules, 1, true, locks).seconds;
  };
  EXPECT_NEAR(at_once(locked), at_once(alone), 0.1 * at_once(alone));
}

TEST(CollectivePlan, LocalWritesTakeTurnsAtTheFileAndReadsDoNot) {
  const auto seconds = [&](Direction direction, std::size_t ranks, int calls) {
    std::vector<Pattern> files;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      files.push_back(pieces(calls, (16 << 20) / calls, 32 << 20).shifted(static_cast<Offset>(rank) * (16 << 20)));
    CollectiveRules rules;
    rules.force = "independent";
    return plan_together(direction, files, Profile{}, rules).seconds;
  };
  EXPECT_NEAR(seconds(Direction::kWrite, 4, 1), 4 * seconds(Direction::kWrite, 1, 1), 1e-5) << "one call each";
  EXPECT_NEAR(seconds(Direction::kWrite, 4, 8), Profile{}.turns_taken * 4 * seconds(Direction::kWrite, 1, 8), 1e-4);
  EXPECT_NEAR(seconds(Direction::kRead, 4, 1), 2 * seconds(Direction::kRead, 1, 1), 1e-5) << "two cores";
}

TEST(CollectivePlan, AMappingHasToBeCheaperByAFifth) {
  const Pattern file = pieces(100, 3000, 6000);
  const RequestShape request = shape_of(Direction::kRead, file, Pattern::run(0, file.size()));
  const auto seconds = [&](Method method) {
    return rank_shape(request, file, {.method = method, .seconds = 1}, {}, 2).independent_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(Method::kMapped), 1.25);
  EXPECT_DOUBLE_EQ(seconds(Method::kList), 1);
}

TEST(CollectivePlan, RanksThatReadBytesOfTheSameCellsVerifyThemTogether) {
  const auto together = [](const std::vector<Pattern>& files, Caps caps, Direction direction = Direction::kRead,
                           int nodes = 1, bool one_by_one = false, bool first_shares = true) {
    caps.appends = true;
    CollectiveRules rules;
    rules.force = "independent";
    rules.one_by_one = one_by_one;
    Topology topology{.node_of = {}, .nodes = nodes};
    std::vector<RankShape> ranks;
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
      topology.node_of.push_back(static_cast<int>(rank) % nodes);
      const RequestShape request = shape_of(direction, files[rank], Pattern::run(0, files[rank].size()));
      ranks.push_back(rank_shape(request, files[rank], plan_access(request, caps, Profile{}, {}), caps, 2));
      ranks.back().shares_reads = caps.shares_reads && (rank > 0 || first_shares);
    }
    return plan_collective(direction, ranks, topology, Profile{}, rules).verifies_together;
  };
  Caps shares;
  shares.shares_reads = true;
  const auto mixed = interleaved(4, 640, 4096);
  EXPECT_TRUE(together(mixed, shares));
  EXPECT_FALSE(together(mixed, {})) << "nothing has to be verified";
  EXPECT_FALSE(together(mixed, shares, Direction::kWrite));
  EXPECT_FALSE(together(mixed, shares, Direction::kRead, 2)) << "more than one agreement";
  EXPECT_FALSE(together(mixed, shares, Direction::kRead, 1, true)) << "atomic: each sees another moment";
  EXPECT_FALSE(together(mixed, shares, Direction::kRead, 1, false, false)) << "one rank's handle cannot";
  EXPECT_FALSE(together(interleaved(4, 6, 4096), shares)) << "not worth it";
  std::vector<Pattern> sparse;
  for (int rank = 0; rank < 4; ++rank) sparse.push_back(pieces(640, 4096, 8 * 4096).shifted(rank * 4096));
  EXPECT_FALSE(together(sparse, shares)) << "half of each cell nobody has asked for";
  std::vector<Pattern> apart;
  for (int rank = 0; rank < 4; ++rank) apart.push_back(Pattern::run(rank * (4 << 20), 4 << 20));
  EXPECT_FALSE(together(apart, shares)) << "each has its cells for itself";
}

// Where bytes lie in other places, and nearly all of what lies between is wanted by readers that share memory.
TEST(CollectivePlan, ReadersOfOneNodeGoInStoredOrder) {
  struct Case {
    std::vector<Pattern> files = interleaved(4, 4000, 4096);
    Direction direction = Direction::kRead;
    std::int64_t pieces = 5000;
    int nodes = 1;
    int cores = 2;
    bool last_shares = true;
    std::string force = {};
  };
  const auto plan = [](const Case& drawn) {
    Caps caps;
    caps.appends = caps.shares_reads = true;
    Profile profile;
    profile.run_page_seconds = 6e-7;
    CollectiveRules rules;
    rules.force = drawn.force;
    Topology topology{.node_of = {}, .nodes = drawn.nodes};
    std::vector<RankShape> ranks;
    for (std::size_t rank = 0; rank < drawn.files.size(); ++rank) {
      const Pattern& file = drawn.files[rank];
      topology.node_of.push_back(static_cast<int>(rank) % drawn.nodes);
      RequestShape request = shape_of(drawn.direction, file, Pattern::run(0, file.size()));
      if (drawn.pieces > 0) request.stored = {.pieces = drawn.pieces, .touched = 4 * file.size()};
      request.pieces_together = drawn.pieces;
      ranks.push_back(rank_shape(request, file, plan_access(request, caps, profile, {}), caps, drawn.cores));
      ranks.back().shares_reads = rank + 1 < drawn.files.size() || drawn.last_shares;
    }
    return plan_collective(drawn.direction, ranks, topology, profile, rules);
  };
  const CollectivePlan turns = plan({});
  EXPECT_EQ(turns.strategy, Strategy::kTwoPhase);
  EXPECT_EQ(turns.in_stored_order, (Extent{0, Bytes{16000} * 4096}));
  EXPECT_GE(turns.stored_window, Bytes{16} << 20);
  EXPECT_EQ(turns.stored_blocks, 32);
  EXPECT_EQ(plan({.files = interleaved(16, 1000, 4096)}).stored_blocks, 32) << "two cores";
  EXPECT_EQ(plan({.files = interleaved(16, 1000, 4096), .cores = 16}).stored_blocks, 128);
  EXPECT_EQ(plan({.files = interleaved(20, 1000, 4096)}).stored_blocks, 40) << "two a rank at least";
  EXPECT_NE(turns.explain().find("each block of what is stored by one rank for all"), std::string::npos);
  EXPECT_LT(plan({.pieces = 10000000}).stored_window, turns.stored_window) << "each rank keeps its pieces of it";
  const auto goes = [&](const Case& drawn) { return !plan(drawn).in_stored_order.empty(); };
  EXPECT_FALSE(goes({.direction = Direction::kWrite}));
  EXPECT_FALSE(goes({.nodes = 2, .force = "two_phase"})) << "they share no memory";
  EXPECT_FALSE(goes({.last_shares = false, .force = "two_phase"})) << "one rank's handle cannot";
  EXPECT_FALSE(goes({.force = "independent"}));
  EXPECT_TRUE(goes({.force = "two_phase"}));
  EXPECT_FALSE(goes({.pieces = 0, .force = "two_phase"})) << "nobody knows that bytes lie in other places";
  std::vector<Pattern> sparse, apart;
  for (int rank = 0; rank < 4; ++rank) {
    sparse.push_back(pieces(4000, 4096, 8 * 4096).shifted(rank * 4096));
    apart.push_back(Pattern::run(rank * (16 << 20), 16 << 20));
  }
  EXPECT_FALSE(goes({.files = sparse, .force = "two_phase"})) << "half of each block is wanted by nobody";
  for (const char* force : {"", "two_phase"})
    EXPECT_FALSE(goes({.files = apart, .force = force})) << "each has its blocks for itself, and would wait";
  std::vector<Pattern> ghosts;  // rows of others at the borders
  for (int rank = 0; rank < 4; ++rank) ghosts.push_back(Pattern::run(rank * (16 << 20), (16 << 20) + 4096));
  EXPECT_FALSE(goes({.files = ghosts, .force = "two_phase"}));
}

TEST(CollectivePlan, TheRanksCorrectionsCountTogether) {
  const auto files = interleaved(4, 100000, 64);
  const double before = plan_together(Direction::kWrite, files, far(1e-3, 1e9)).seconds;
  EXPECT_NEAR(plan_together(Direction::kWrite, files, far(1e-3, 1e9), {}, 2).seconds, 2 * before, 0.01 * before);
}

TEST(Explain, NamesTheProfilesOrigin) {
  Profile profile;
  EXPECT_NE(describe(profile).find("default profile"), std::string::npos);
  profile.measured_at = 1700000000;
  EXPECT_NE(describe(profile).find("2023-11-14"), std::string::npos) << describe(profile);
}

}  // namespace
}  // namespace stridio
