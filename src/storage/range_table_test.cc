// What one thread can see; who waits for whom is in the conformance suite.
#include "storage/range_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace stridio {
namespace {

constexpr LockMode kShared = LockMode::kShared;

TEST(RangeTable, FreesTheWholeRangeOfTheOnlyTicket) {
  RangeTable table;
  std::vector<Extent> freed;
  table.release(table.acquire({3, 7}, LockMode::kExclusive), [&](Extent part) { freed.push_back(part); });
  EXPECT_EQ(freed, (std::vector<Extent>{{3, 7}}));
}

TEST(RangeTable, FreesOnlyWhatNobodyElseCovers) {
  RangeTable table;
  table.acquire({0, 12}, kShared);
  table.acquire({20, 5}, kShared);
  table.acquire({23, 7}, kShared);
  table.acquire({90, 50}, kShared);
  std::vector<Extent> freed;
  table.release(table.acquire({10, 90}, kShared), [&](Extent part) { freed.push_back(part); });
  EXPECT_EQ(freed, (std::vector<Extent>{{12, 8}, {30, 60}}));
}

TEST(RangeTable, FreesNothingThatIsCovered) {
  RangeTable table;
  table.acquire({0, 50}, kShared);
  table.acquire({50, 50}, kShared);
  table.release(table.acquire({10, 60}, kShared), [](Extent) { FAIL(); });
}

TEST(RangeTable, HoldsDisjointExclusiveRangesTogether) {
  RangeTable table;
  const auto first = table.acquire({0, 10}, LockMode::kExclusive);
  const auto second = table.acquire({10, 10}, LockMode::kExclusive);
  table.release(first);
  table.release(second);
}

}  // namespace
}  // namespace stridio
