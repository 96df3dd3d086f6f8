#include "collective/collective.h"

#include <gtest/gtest.h>

#include <vector>

#include "group/threads.h"
#include "support/waits_for_company.h"

namespace stridio {
namespace {

TEST(Collective, TwoWindowsOfAWriteThatIsWaitedForAreUnderWay) {
  constexpr int kRanks = 3;
  constexpr Bytes kPiece = 1024, kPieces = 64, kSize = kRanks * kPieces * kPiece;
  WaitsForCompany storage(std::chrono::seconds(20));
  run_threads(kRanks, {}, [&](Group& group) {
    const Bytes piece = group.rank() * kPiece;
    std::vector<std::byte> bytes(kPieces * kPiece, static_cast<std::byte>(group.rank() + 1));
    CollectiveRequest request;
    request.direction = Direction::kWrite;
    request.file = Pattern::strided(kPieces, kRanks * kPiece, Pattern::run(piece, kPiece));
    request.memory = {bytes.data(), Pattern::run(0, kPieces * kPiece)};
    request.profile.write.request_seconds = 1e-3;
    request.rules.force = "two_phase";
    request.rules.aggregators = 1;
    request.rules.window = 16 * kPiece;
    request.rules.shorter_windows = false;
    Times times;
    const auto outcome = run_collective(group, storage, request, times);
    ASSERT_TRUE(outcome) << outcome.error().text();
    EXPECT_EQ(outcome->moved.bytes, kPieces * kPiece);
  });
  EXPECT_EQ(storage.most(), 2);
  std::vector<std::byte> stored(kSize);
  ASSERT_TRUE(storage.read({0, kSize}, stored.data()));
  for (Offset at = 0; at < kSize; ++at)
    ASSERT_EQ(static_cast<int>(stored[static_cast<std::size_t>(at)]), at / kPiece % kRanks + 1) << at;
}

}  // namespace
}  // namespace stridio
