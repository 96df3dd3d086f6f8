// STRIDIO_CHECK=1 against an oracle: who wrote and read each byte since the last sync.
#include "file/conflicts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <regex>

#include "file/file.h"
#include "group/threads.h"
#include "support/sanitized.h"

namespace stridio {
namespace {

constexpr AccessMode kCreate{.read_write = true, .create = true};
constexpr int kRanks = 3;
constexpr Bytes kReach = 200;

struct Step {
  int rank;
  Direction direction;
  Extent extent;
  bool together;
};

class ConflictsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("STRIDIO_CHECK", "1", 1), 0);
    char name[] = "/tmp/stridio-conflicts-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    unsetenv("STRIDIO_CHECK");
    std::filesystem::remove_all(folder_);
  }

  // What is said when each rank runs the body.
  std::string warnings(const std::function<void(File&, Group&)>& body) const {
    ::testing::internal::CaptureStderr();
    run_threads(kRanks, {}, [&](Group& group) {
      auto file = File::open({&group, [](Group*) {}}, folder_ + "/data", kCreate, {});
      ASSERT_TRUE(file) << file.error().text();
      body(**file, group);
      ASSERT_TRUE((*file)->close());
    });
    return ::testing::internal::GetCapturedStderr();
  }

  std::string folder_;
};

void access(File& file, Direction direction, Extent extent, bool together) {
  std::vector<std::byte> data(static_cast<std::size_t>(extent.length));
  Access access{.direction = direction, .collective = together, .offset = extent.offset};
  access.memory = {data.data(), Pattern::run(0, extent.length)};
  EXPECT_TRUE(file.transfer(access));
}

TEST_F(ConflictsTest, WritesOfOneCollectiveCallThatOverlap) {
  const std::string said = warnings([](File& file, Group& group) {
    access(file, Direction::kWrite, {group.rank() == 2 ? 95 : group.rank() * 50, 50}, true);
  });
  EXPECT_TRUE(said.find("conflict in bytes 95 to 99: rank 1 writes them in a call, rank 2 writes them in a call") !=
              std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(ConflictsTest, ASyncAndAtomicModeSeparate) {
  for (const bool atomic : {false, true})
    EXPECT_EQ(warnings([&](File& file, Group& group) {
                if (atomic) {
                  ASSERT_TRUE(file.set_atomicity(true));
                }
                access(file, Direction::kWrite, {group.rank() * 50, 50}, true);
                if (!atomic) {
                  ASSERT_TRUE(file.sync());
                }
                access(file, Direction::kRead, {0, 150}, true);
              }),
              "");
}

TEST_F(ConflictsTest, StridedPiecesAreNotTakenForTheirBounds) {
  EXPECT_EQ(warnings([](File& file, Group& group) {
              ASSERT_TRUE(file.set_view({4 * group.rank(), 4, Pattern::run(0, 4), 4 * kRanks}, {}));
              access(file, Direction::kWrite, {0, 4000}, true);
              access(file, Direction::kRead, {0, 4000}, false);
            }),
            "");
}

TEST_F(ConflictsTest, WhoReachesFarthestHidesNobody) {
  const std::string said = warnings([](File& file, Group& group) {
    if (group.rank() == 0) access(file, Direction::kRead, {0, 10}, false);
    if (group.rank() == 1) access(file, Direction::kRead, {2, 18}, false);
    if (group.rank() == 1) access(file, Direction::kWrite, {5, 1}, false);
  });
  EXPECT_TRUE(said.find("bytes 5 to 5: rank 0 reads them in a call, rank 1 writes them") != std::string::npos) << said;
}

TEST_F(ConflictsTest, WhatIsAccessedAgainTakesNoMoreRoom) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "minutes, and nothing that threads share";
  constexpr std::int64_t kPieces = 1 << 20;
  for (const bool again : {true, false}) {
    ::testing::internal::CaptureStderr();
    run_threads(2, {}, [&](Group& group) {
      Conflicts conflicts;
      for (int call = 0; call < 4 && group.rank() == 0; ++call) {
        const Pattern pieces = Pattern::strided(kPieces, 16, Pattern::run(again ? 0 : call * kPieces * 16, 8));
        conflicts.note(Direction::kWrite, pieces);
      }
      if (group.rank() == 0) conflicts.note(Direction::kWrite, Pattern::run(-100, 8));
      if (group.rank() == 1) conflicts.note(Direction::kRead, Pattern::run(-100, 4));
      EXPECT_TRUE(conflicts.check(group, "data"));
    });
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("conflict in bytes -100 to -97") != std::string::npos, again) << said;
    EXPECT_EQ(said.find("rank 0 accessed more pieces") != std::string::npos, !again) << said;
  }
}

TEST_F(ConflictsTest, AgreesWithAnOracle) {
  const char* const given = std::getenv("STRIDIO_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::mt19937_64 random(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int conflicts = 0;
  constexpr std::int64_t kRounds = testing::rounds(600, 150);
  for (std::int64_t round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    std::vector<Step> steps;
    for (std::int64_t i = draw(1, 8); i > 0; --i)
      steps.push_back({static_cast<int>(draw(0, kRanks - 1)),
                       draw(0, 3) ? Direction::kRead : Direction::kWrite,
                       {draw(0, kReach), draw(1, 30)},
                       draw(0, 1) == 1});
    const std::string said = warnings([&](File& file, Group& group) {
      for (const Step& step : steps) {
        if (step.rank == group.rank()) access(file, step.direction, step.extent, step.together);
        if (step.rank != group.rank() && step.together) access(file, step.direction, {0, 0}, true);
      }
    });
    const auto touches = [&](int rank, Direction direction, Offset byte) {
      return std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
        return step.rank == rank && step.direction == direction && !intersect(step.extent, {byte, 1}).empty();
      });
    };
    bool expected = false;
    for (Offset byte = 0; byte < kReach + 30; ++byte)
      for (int a = 0; a < kRanks; ++a)
        for (int b = 0; b < kRanks; ++b)
          expected = expected || (a != b && touches(a, Direction::kWrite, byte) &&
                                  (touches(b, Direction::kWrite, byte) || touches(b, Direction::kRead, byte)));
    conflicts += expected;
    EXPECT_EQ(!said.empty(), expected) << said;
    const std::regex line(R"(bytes (\d+) to (\d+).*: rank (\d) (writes|reads) .*, rank (\d) (writes|reads))");
    for (std::sregex_iterator at(said.begin(), said.end(), line), end; at != end; ++at) {
      const std::smatch& found = *at;
      EXPECT_NE(found[3], found[5]);
      EXPECT_TRUE(found[4] == "writes" || found[6] == "writes");
      for (Offset byte = std::stoll(found[1]); byte <= std::stoll(found[2]); ++byte)
        for (const int side : {3, 5})
          EXPECT_TRUE(touches(
              std::stoi(found[static_cast<std::size_t>(side)]),
              found[static_cast<std::size_t>(side + 1)] == "writes" ? Direction::kWrite : Direction::kRead, byte))
              << said;
    }
  }
  EXPECT_TRUE(HasFailure() || conflicts > kRounds / 12) << conflicts;
  std::cout << conflicts << " of " << kRounds << " programs conflict\n";
}

}  // namespace
}  // namespace stridio
