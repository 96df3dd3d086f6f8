#include "storage/request.h"

#include <gtest/gtest.h>

#include <vector>

namespace stridio {
namespace {

std::vector<Extent> runs_of(const std::vector<Extent>& extents) {
  std::vector<Extent> runs;
  RunCursor cursor(extents);
  while (auto run = cursor.next()) runs.push_back(*run);
  return runs;
}

TEST(RunCursor, MergesNeighboursThatAreAdjacent) {
  EXPECT_EQ(runs_of({{0, 4}, {4, 4}, {9, 1}}), (std::vector<Extent>{{0, 8}, {9, 1}}));
}

TEST(RunCursor, KeepsTheOrder) {
  const std::vector<Extent> backwards = {{8, 4}, {4, 4}, {0, 4}};
  EXPECT_EQ(runs_of(backwards), backwards);
}

TEST(RunCursor, SkipsEmptyExtents) {
  EXPECT_EQ(runs_of({{7, 0}, {0, 4}, {100, 0}, {4, 1}, {5, 0}}), (std::vector<Extent>{{0, 5}}));
  EXPECT_TRUE(runs_of({}).empty());
  EXPECT_TRUE(runs_of({{1, 0}, {2, 0}}).empty());
}

TEST(RunCursor, DoesNotMergeOverlaps) {
  const std::vector<Extent> overlapping = {{0, 4}, {2, 4}, {0, 4}};
  EXPECT_EQ(runs_of(overlapping), overlapping);
}

TEST(MemoryCursor, TakesPiecesAndPartsOfThem) {
  std::byte bytes[10];
  const std::vector<Span> memory = {{bytes, 3}, {nullptr, 0}, {bytes + 5, 4}};
  MemoryCursor cursor(memory);
  EXPECT_EQ(cursor.take(2).data, bytes);
  const Span rest = cursor.take(10);
  EXPECT_EQ(rest.data, bytes + 2);
  EXPECT_EQ(rest.length, 1);
  cursor.skip(2);
  EXPECT_EQ(cursor.take(10).data, bytes + 7);
  EXPECT_EQ(cursor.take(10).length, 0);
}

TEST(CheckRequest, SaysWhatIsWrong) {
  std::byte bytes[10];
  const std::vector<Extent> extents = {{0, 4}, {-3, 4}};
  const std::vector<Span> memory = {{bytes, 8}};
  const Status refused = check_request(extents, memory);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kArgument);
  EXPECT_NE(refused.error().what.find("4 bytes at offset -3"), std::string::npos);
}

}  // namespace
}  // namespace stridio
