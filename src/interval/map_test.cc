#include "interval/map.h"

#include <gtest/gtest.h>

#include <map>

#include "interval/testing.h"

namespace stridio {
namespace {

constexpr Offset kEnd = 3000;
using Bytewise = std::map<Offset, Offset>;  // logical byte to stored byte

Bytewise bytewise(const IntervalMap& map) {
  Bytewise bytes;
  Offset end = 0;
  for (MapCursor cursor(map); !cursor.done(); cursor.next()) {
    const Piece piece = cursor.piece();
    EXPECT_GE(piece.logical, end);
    EXPECT_GT(piece.length, 0);
    end = piece.end();
    for (Bytes i = 0; i < piece.length; ++i) bytes[piece.logical + i] = piece.stored + i;
  }
  EXPECT_EQ(map.size(), static_cast<Bytes>(bytes.size()));
  if (!bytes.empty()) {
    EXPECT_EQ(map.bounds().offset, bytes.begin()->first);
    EXPECT_EQ(map.bounds().end(), bytes.rbegin()->first + 1);
  }
  return bytes;
}

// Pieces as programs make them: single ones and regular groups.
std::vector<Piece> random_pieces(Random& random) {
  std::vector<Piece> pieces;
  Offset at = draw(random, 0, 200), stored = draw(random, 0, 100000);
  while (at < kEnd) {
    const Bytes length = draw(random, 1, 20), stride = length + draw(random, 0, 30);
    const Bytes apart = draw(random, 0, 2) == 0 ? draw(random, -50, 50) : length;
    for (std::int64_t left = draw(random, 0, 1) == 0 ? 1 : draw(random, 2, 20); left > 0 && at < kEnd; --left) {
      pieces.push_back({at, length, stored + 5000});
      at += stride;
      stored += apart;
    }
    if (draw(random, 0, 1) == 0) stored = draw(random, 0, 100000);
    at += draw(random, 0, 200);
  }
  return pieces;
}

IntervalMap map_of(const std::vector<Piece>& pieces) {
  MapBuilder builder;
  for (const Piece& piece : pieces) builder.add(piece);
  return builder.finish();
}

TEST(IntervalMap, RegularPiecesTakeBytesNotKilobytes) {
  MapBuilder builder;
  for (int i = 0; i < 100000; ++i) builder.add({i * 4096 * 4, 4096, i * 4096});
  EXPECT_LT(builder.finish().encoded().size(), 20u);
  for (int plane = 0; plane < 100; ++plane)  // two levels
    for (int row = 0; row < 100; ++row) builder.add({plane * 1000000 + row * 5000, 640, (plane * 100 + row) * 640});
  EXPECT_LT(builder.finish().encoded().size(), 100u * 8);
  for (int i = 0; i < 100; ++i) builder.add({i * 10, 10, i * 10});  // one piece
  EXPECT_LT(builder.finish().encoded().size(), 8u);
}

TEST(IntervalMap, IsCodedAsTheFormatPageSays) {
  MapBuilder builder;
  for (int i = 0; i < 1000; ++i) builder.add({4096 + i * 16384, 4096, 32768 + i * 4096});
  std::vector<std::byte> expected;
  for (const int byte : {0x03, 0x80, 0x20, 0x80, 0x20, 0x80, 0x80, 0x04, 0xe8, 0x07, 0x80, 0x80, 0x01})
    expected.push_back(static_cast<std::byte>(byte));
  const IntervalMap map = builder.finish();
  EXPECT_TRUE(std::ranges::equal(map.encoded(), expected));
}

TEST(IntervalMap, HoldsWhatWasAdded) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    const std::vector<Piece> pieces = random_pieces(random);
    const IntervalMap map = map_of(pieces);
    Bytewise expected;
    for (const Piece& piece : pieces)
      for (Bytes i = 0; i < piece.length; ++i) expected[piece.logical + i] = piece.stored + i;
    ASSERT_EQ(bytewise(map), expected);
    const auto decoded = IntervalMap::decode({map.encoded().begin(), map.encoded().end()});
    ASSERT_TRUE(decoded);
    ASSERT_EQ(bytewise(*decoded), expected);
    MapCursor cursor(map);
    for (int i = 0; i < 50; ++i) {
      const Offset wanted = draw(random, 0, kEnd + 100);
      cursor.seek(wanted);
      const auto first = expected.lower_bound(wanted);
      ASSERT_EQ(cursor.done(), first == expected.end());
      if (cursor.done()) continue;
      const Piece piece = cursor.piece();
      ASSERT_GT(piece.end(), wanted);
      ASSERT_EQ(std::max(piece.logical, wanted), first->first);
      if (draw(random, 0, 1) == 0) cursor.next();
    }
  }
}

TEST(IntervalMap, AlgebraAgreesWithBytes) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    const IntervalMap a = map_of(random_pieces(random)), b = map_of(random_pieces(random));
    const Bytewise in_a = bytewise(a), in_b = bytewise(b);
    Bytewise both = in_a;
    both.insert(in_b.begin(), in_b.end());
    ASSERT_EQ(bytewise(overlaid(a, b)), both);
    Bytewise difference;
    for (const auto& [logical, stored] : in_a)
      if (!in_b.contains(logical)) difference[logical] = stored;
    ASSERT_EQ(bytewise(without(a, b)), difference);
    const Offset end = draw(random, 0, kEnd);
    Bytewise cut = in_a;
    cut.erase(cut.lower_bound(end), cut.end());
    ASSERT_EQ(bytewise(below(a, end)), cut);
  }
}

TEST(PieceList, KeepsTheOrder) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    PieceList list;
    std::vector<Piece> pieces, kept;
    for (std::int64_t i = draw(random, 0, 20); i > 0; --i) {
      const Piece piece{draw(random, 0, 3), draw(random, 1, 2), draw(random, 0, 3)};
      const Bytes stride = draw(random, 0, 1), stored_stride = draw(random, 0, 1);
      for (std::int64_t n = 0, count = draw(random, 1, 4); n < count; ++n)
        pieces.push_back({piece.logical + n * stride, piece.length, piece.stored + n * stored_stride});
    }
    Offset begin = 100, end = 0;
    for (const Piece& piece : pieces) {
      list.add(piece);
      begin = std::min(begin, piece.logical);
      end = std::max(end, piece.end());
    }
    for (const PieceGroup& group : list.groups())
      for (std::int64_t n = 0; n < group.count; ++n) kept.push_back(group.at(n));
    ASSERT_EQ(kept, pieces);
    ASSERT_EQ(list.count(), std::ssize(pieces));
    ASSERT_EQ(list.bounds(), pieces.empty() ? Extent{} : (Extent{begin, end - begin}));
  }
  PieceList rows;
  for (int i = 0; i < 1000; ++i) rows.add({i * 4096, 640, i * 640});
  EXPECT_EQ(rows.groups().size(), 1u);
}

TEST(WriteLog, TheLastWriteCounts) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    WriteLog log;
    Bytewise expected;
    Offset stored = 0;
    for (std::int64_t i = draw(random, 0, 200); i > 0; --i) {
      if (draw(random, 0, 30) == 0) {
        const Offset end = draw(random, 0, kEnd);
        log.cut(end);
        expected.erase(expected.lower_bound(end), expected.end());
      }
      PieceGroup group{{draw(random, 0, kEnd), draw(random, 1, 60), stored}};
      stored += group.first.length;
      if (draw(random, 0, 2) == 0) {
        group.count = draw(random, 2, 6);
        group.stride = draw(random, -group.first.logical / 5, 100);  // they may overlap, and come from behind
        group.stored_stride = draw(random, 0, 1) == 0 ? group.first.length : draw(random, 1, 100);
        stored += 600;
        log.add_group(group);
      } else {
        log.add(group.first);
      }
      for (std::int64_t n = 0; n < group.count; ++n)
        for (Bytes k = 0; k < group.first.length; ++k) expected[group.at(n).logical + k] = group.at(n).stored + k;
      if (draw(random, 0, 20) != 0) continue;
      Bytewise seen;
      for (const IntervalMap& layer : log.layers()) seen.merge(bytewise(layer));
      ASSERT_EQ(seen, expected);
    }
    ASSERT_EQ(bytewise(log.merged()), expected);
  }
}

TEST(IntervalMap, KnowsWhetherItIsStoredWithinRuns) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  int within = 0;
  for (int round = 0; round < 3000; ++round) {
    const Bytes length = draw(random, 1, 8), stored_stride = draw(random, -12, 12);
    const std::int64_t count = draw(random, 1, 5);
    MapBuilder builder;
    for (std::int64_t i = 0; i < count; ++i) builder.add({i * 10, length, 100 + i * stored_stride});
    std::vector<Extent> runs;
    for (Offset at = draw(random, 30, 110); at < 200;) {
      runs.push_back({at, draw(random, 1, 60)});
      at = runs.back().end() + draw(random, 1, 4);
    }
    bool expected = true;
    for (std::int64_t i = 0; i < count; ++i) {
      bool found = false;
      for (const Extent& run : runs)
        found = found || (run.offset <= 100 + i * stored_stride && 100 + i * stored_stride + length <= run.end());
      expected = expected && found;
    }
    within += expected;
    ASSERT_EQ(builder.finish().stored_within(runs), expected) << "STRIDIO_SEED=" << seed << ", round " << round;
  }
  EXPECT_GT(within, 100);
}

TEST(IntervalMap, RefusesWhatIsNoMap) {
  const auto refused = [](std::initializer_list<int> bytes) {
    std::vector<std::byte> data;
    for (const int byte : bytes) data.push_back(static_cast<std::byte>(byte));
    return !IntervalMap::decode(data);
  };
  EXPECT_FALSE(refused({}));
  EXPECT_FALSE(refused({0, 5, 3}));
  EXPECT_TRUE(refused({0, 5}));           // ends in the middle
  EXPECT_TRUE(refused({0, 5, 0}));        // no length
  EXPECT_TRUE(refused({4, 5}));           // as long as a group before that is not there
  EXPECT_TRUE(refused({64, 5, 3}));       // unknown flag
  EXPECT_TRUE(refused({1, 5, 3, 1, 9}));  // many of one
  EXPECT_TRUE(refused({1, 5, 3, 2, 2}));  // they overlap
  EXPECT_TRUE(refused({2, 5, 3, 1}));     // stored before the file
  EXPECT_TRUE(refused({0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 3}));  // 2^62
  EXPECT_TRUE(refused({0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3}));
}

// Never that they do not where they do; and of equal strides, or a single piece, exactly.
TEST(PieceGroup, MayMeetWhereAByteIsInBoth) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  const auto drawn = [&] {
    PieceGroup group{.first = {draw(random, 0, 60), draw(random, 1, 6), 0}};
    if (draw(random, 0, 2) == 0) return group;
    group.count = draw(random, 2, 5);
    group.stride = draw(random, 0, 9) == 0 ? -draw(random, 6, 9) : draw(random, 6, 9);
    return group;
  };
  int met = 0, apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const PieceGroup one = drawn(), other = drawn();
    bool meet = false;
    for (std::int64_t i = 0; i < one.count; ++i)
      for (std::int64_t j = 0; j < other.count; ++j)
        meet = meet || !intersect(one.at(i).range(), other.at(j).range()).empty();
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
    EXPECT_EQ(may_meet(one, other), may_meet(other, one));
    ASSERT_TRUE(!meet || may_meet(one, other));
    (may_meet(one, other) ? met : apart) += 1;
  }
  EXPECT_GT(apart, met / 4);
  const auto column = [](Offset at, Bytes length) { return PieceGroup{{at, length, 0}, 24, 100, 10}; };
  EXPECT_FALSE(may_meet(column(0, 40), column(40, 40)));
  EXPECT_FALSE(may_meet(column(40, 60), column(200, 40))) << "of later rows";
  EXPECT_TRUE(may_meet(column(40, 60), column(200, 41)));
  EXPECT_FALSE(may_meet(column(0, 40), PieceGroup{{340, 60, 0}}));
  EXPECT_TRUE(may_meet(column(0, 40), PieceGroup{{340, 61, 0}}));
}

}  // namespace
}  // namespace stridio
