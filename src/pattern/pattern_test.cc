// Patterns against their definition: every pattern is built together with the plain list of its offsets.
#include "pattern/pattern.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <set>

#include "pattern/copy.h"
#include "support/random_pattern.h"

namespace stridio {
namespace {

using testing::pick;
using testing::Random;

struct Model {
  Pattern pattern;
  std::vector<Offset> offsets;
};

void append(std::vector<Offset>& to, const std::vector<Offset>& from, Offset delta) {
  for (const Offset offset : from) to.push_back(offset + delta);
}

Model random_model(Random& random, int depth) {
  Model model;
  const std::int64_t kind = depth == 0 ? 0 : pick(random, 0, 3);
  if (kind == 0) {
    const Offset at = pick(random, -20, 20);
    const Bytes length = pick(random, 0, 9);
    model.pattern = Pattern::run(at, length);
    model.offsets.resize(static_cast<std::size_t>(length));
    std::iota(model.offsets.begin(), model.offsets.end(), at);
    return model;
  }
  const std::int64_t count = pick(random, 0, 4);
  if (kind == 3) {
    std::vector<Pattern> parts;
    for (std::int64_t i = 0; i < count; ++i) {
      const Model part = random_model(random, depth - 1);
      const Offset delta = pick(random, 0, 2) * pick(random, -40, 80);
      parts.push_back(part.pattern.shifted(delta));
      append(model.offsets, part.offsets, delta);
    }
    model.pattern = Pattern::sequence(std::move(parts));
    return model;
  }
  const Model child = random_model(random, depth - 1);
  const Bytes tight = child.pattern.upper() - child.pattern.lower();
  const Bytes stride = pick(random, 0, 1) == 0 ? tight : pick(random, -30, 60);
  if (kind == 1) {
    model.pattern = Pattern::strided(count, stride, child.pattern);
    for (std::int64_t i = 0; i < count; ++i) append(model.offsets, child.offsets, i * stride);
    return model;
  }
  const bool even = pick(random, 0, 2) == 0, single = pick(random, 0, 1) == 0;
  std::vector<Offset> displacements;
  std::vector<std::int64_t> counts;
  Offset at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    at = even ? at + tight : at + pick(random, -20, 70);
    displacements.push_back(at);
    counts.push_back(single ? 1 : pick(random, 0, 3));
    for (std::int64_t j = 0; j < counts.back(); ++j) append(model.offsets, child.offsets, at + j * stride);
  }
  model.pattern = Pattern::indexed(displacements, single ? std::vector<std::int64_t>() : counts, stride, child.pattern);
  return model;
}

std::vector<Offset> expand(Block block) {
  std::vector<Offset> offsets;
  for (; block.count > 0; block.drop_first())
    for (Bytes j = 0; j < block.length; ++j) offsets.push_back(block.first().offset + j);
  return offsets;
}

std::vector<Offset> expand(const Nest& nest, int depth, Offset at) {
  std::vector<Offset> offsets;
  if (depth == 0)
    for (Bytes j = 0; j < nest.length; ++j) offsets.push_back(at + j);
  for (std::int64_t i = 0; depth > 0 && i < nest.levels[static_cast<std::size_t>(depth - 1)].count; ++i) {
    const Nest::Level& level = nest.levels[static_cast<std::size_t>(depth - 1)];
    const auto inside = expand(nest, depth - 1, at + level.place(i));
    EXPECT_EQ(static_cast<Bytes>(inside.size()), level.inside);
    offsets.insert(offsets.end(), inside.begin(), inside.end());
  }
  return offsets;
}

// One seeded case a test run; a failure prints the seed that replays it with STRIDIO_SEED.
class Cases : public ::testing::Test {
 protected:
  template <typename Body>
  void each(int count, Body body) {
    const std::uint64_t seed = testing::seed_of_run();
    for (int i = 0; i < count && !HasFailure(); ++i) {
      SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed + static_cast<std::uint64_t>(i)));
      Random random(seed + static_cast<std::uint64_t>(i));
      body(random);
    }
  }
};

using PatternTest = Cases;

TEST_F(PatternTest, WalksItsOffsetsFromAnyPosition) {
  each(20000, [](Random& random) {
    const Model model = random_model(random, 4);
    const auto size = static_cast<Bytes>(model.offsets.size());
    ASSERT_EQ(model.pattern.size(), size);
    const Bytes start = size == 0 ? 0 : pick(random, 0, size);
    std::vector<Offset> walked(model.offsets.begin(), model.offsets.begin() + start);
    for (Cursor cursor(model.pattern, start); !cursor.done();) {
      ASSERT_EQ(cursor.position(), static_cast<Bytes>(walked.size()));
      if (pick(random, 0, 2) == 0) {
        Nest nest = cursor.peek();
        if (pick(random, 0, 1) == 0) nest.shorten(pick(random, 1, 40));
        const auto offsets = expand(nest, nest.depth, nest.offset);
        ASSERT_EQ(static_cast<Bytes>(offsets.size()), nest.size);
        const Bytes passed = pick(random, 1, nest.size);
        walked.insert(walked.end(), offsets.begin(), offsets.begin() + passed);
        cursor.skip(passed);
        continue;
      }
      const Bytes limit = pick(random, 0, 1) == 0 ? size + 1 : pick(random, 1, 20);
      const Block block = pick(random, 0, 3) == 0 ? [&] {
        const Extent range = cursor.next_range(limit);
        return Block{range.offset, range.length, 1, 0};
      }() : cursor.next(limit);
      ASSERT_LE(block.size(), limit);
      append(walked, expand(block), 0);
    }
    ASSERT_EQ(walked, model.offsets);
  });
}

TEST_F(PatternTest, KnowsItsBoundsAndOrder) {
  each(20000, [](Random& random) {
    const auto [pattern, offsets] = random_model(random, 4);
    if (offsets.empty()) return;
    EXPECT_EQ(pattern.lower(), *std::min_element(offsets.begin(), offsets.end()));
    EXPECT_EQ(pattern.upper(), *std::max_element(offsets.begin(), offsets.end()) + 1);
    const bool strictly = std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>()) == offsets.end();
    EXPECT_EQ(pattern.ascending(), strictly);
    if (strictly) {
      EXPECT_TRUE(pattern.nondecreasing());
    }
    const std::set<Offset> distinct(offsets.begin(), offsets.end());
    if (pattern.nondecreasing() && !strictly) {
      EXPECT_LT(distinct.size(), offsets.size());
    }
  });
}

TEST_F(PatternTest, SlicesAndShifts) {
  each(20000, [](Random& random) {
    const auto [pattern, offsets] = random_model(random, 4);
    const auto size = static_cast<Bytes>(offsets.size());
    const Bytes begin = pick(random, 0, size), end = pick(random, begin, size);
    std::vector<Offset> expected;
    append(expected, {offsets.begin() + begin, offsets.begin() + end}, 1000);
    const Pattern slice = pattern.slice(begin, end).shifted(1000);
    ASSERT_EQ(testing::flatten(slice), expected);
    const Bytes again = pick(random, 0, end - begin);
    ASSERT_EQ(testing::flatten(slice.slice(again, end - begin)),
              std::vector<Offset>(expected.begin() + again, expected.end()));
  });
}

TEST_F(PatternTest, ClipsAscendingPatternsToAWindow) {
  each(20000, [](Random& random) {
    const auto shape = testing::kShapes[pick(random, 0, 5)];
    const Pattern pattern = testing::random_ascending(random, shape, pick(random, 1, 600));
    ASSERT_TRUE(pattern.ascending());
    const std::vector<Offset> offsets = testing::flatten(pattern);
    const Offset begin = pick(random, -5, 600);
    const Extent window{begin, pick(random, 0, 300)};
    std::vector<Offset> inside;
    for (const Offset offset : offsets)
      if (offset >= window.offset && offset < window.end()) inside.push_back(offset);
    ASSERT_EQ(testing::flatten(pattern.clip(window)), inside);
  });
}

TEST_F(PatternTest, SurvivesEncoding) {
  each(5000, [](Random& random) {
    const auto [pattern, offsets] = random_model(random, 4);
    const auto decoded = Pattern::decode(pattern.encode());
    ASSERT_TRUE(decoded) << decoded.error().what;
    ASSERT_EQ(testing::flatten(*decoded), offsets);
    ASSERT_EQ(decoded->ascending(), pattern.ascending());
  });
}

// A table of two places may become a stride, of which one more would lie beyond what offsets can be.
TEST_F(PatternTest, SurvivesEncodingFarAway) {
  for (const Offset far : {(Offset{1} << 62) - 10, -(Offset{1} << 62) + 10}) {
    const Pattern pattern = Pattern::indexed({0, far}, {}, 0, Pattern::run(0, 5));
    const auto decoded = Pattern::decode(pattern.encode());
    ASSERT_TRUE(decoded) << decoded.error().what;
    EXPECT_EQ(decoded->lower(), std::min<Offset>(0, far));
    EXPECT_EQ(decoded->upper(), std::max<Offset>(0, far) + 5);
  }
}

// A part of the table would be a stride that is beyond what offsets can be.
TEST_F(PatternTest, RefusesOffsetsTooFarApart) {
  const auto decoded = [](Offset from) {
    const Offset far = (Offset{1} << 62) - 10;
    return Pattern::decode(Pattern::indexed({from, 3, far}, {}, 0, Pattern::run(0, 5)).encode()).has_value();
  };
  EXPECT_TRUE(decoded(-4));
  EXPECT_FALSE(decoded(-20));
}

TEST_F(PatternTest, RefusesDamagedBytes) {
  each(5000, [](Random& random) {
    std::vector<std::byte> bytes = random_model(random, 3).pattern.encode();
    bytes[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(bytes.size()) - 1))] ^=
        std::byte{static_cast<unsigned char>(pick(random, 1, 255))};
    EXPECT_FALSE(Pattern::decode(bytes));
  });
}

TEST_F(PatternTest, CopiesBetweenAnyTwo) {
  each(20000, [](Random& random) {
    const Bytes size = pick(random, 0, 400);
    const Pattern from = testing::random_memory(random, size), to = testing::random_memory(random, size);
    std::vector<std::byte> source(5000), target(5000, std::byte{7}), expected(5000, std::byte{7});
    for (auto& byte : source) byte = static_cast<std::byte>(random());
    const auto a = testing::flatten(from), b = testing::flatten(to);
    for (std::size_t i = 0; i < a.size(); ++i) expected[b[i]] = source[a[i]];
    Side left{target.data(), Cursor(to)}, right{source.data(), Cursor(from)};
    for (Bytes left_over = size; left_over > 0;) {
      const Bytes part = pick(random, 1, left_over);
      copy(left, right, part);
      left_over -= part;
    }
    ASSERT_EQ(target, expected);
  });
}

// A nest of `size` = 2^a 3^b bytes: levels of random counts, padded.
Pattern random_nest(Random& random, Bytes size) {
  Bytes length = 1;
  while (length < size && pick(random, 0, 2) > 0) length *= size / length % 2 == 0 ? 2 : 3;
  Pattern nest = Pattern::run(0, length);
  while (nest.size() < size) {
    const Bytes left = size / nest.size();
    std::int64_t count = left % 3 == 0 && (left % 2 != 0 || pick(random, 0, 1) == 0) ? 3 : 2;
    if (pick(random, 0, 2) == 0 && left % (count * 2) == 0) count *= 2;
    nest = Pattern::strided(count, nest.upper() + pick(random, 0, 3), nest);
  }
  return nest;
}

void expect_copied(Random& random, const Pattern& to, const Pattern& from) {
  std::vector<std::byte> source(static_cast<std::size_t>(from.upper())), target(static_cast<std::size_t>(to.upper()));
  for (auto& byte : source) byte = static_cast<std::byte>(random());
  auto expected = target;
  const auto a = testing::flatten(from), b = testing::flatten(to);
  for (std::size_t i = 0; i < a.size(); ++i) expected[b[i]] = source[a[i]];
  Side left{target.data(), Cursor(to)}, right{source.data(), Cursor(from)};
  copy(left, right, to.size());
  ASSERT_EQ(target, expected);
}

TEST_F(PatternTest, CopiesBetweenNests) {
  each(5000, [](Random& random) {
    Bytes size = 1;
    for (std::int64_t factors = pick(random, 0, 8); factors > 0; --factors) size *= pick(random, 2, 3);
    const Pattern from = random_nest(random, size), to = random_nest(random, size);
    expect_copied(random, to, from);
  });
}

// Cells of variables, cell by cell on the one side and variable by variable on the other, as FLASH has them.
TEST_F(PatternTest, CopiesTranspositions) {
  each(5000, [](Random& random) {
    const Bytes length = pick(random, 0, 4) == 0 ? pick(random, 1, 9) : 4 << pick(random, 0, 1);
    const std::int64_t most = pick(random, 0, 7) == 0 ? 150 : 21;
    const std::int64_t cells = pick(random, 1, most), variables = pick(random, 1, most), rows = pick(random, 1, 3);
    const Bytes cell = variables * length + pick(random, 0, 3) * length;
    const Pattern row = Pattern::strided(cells, cell, Pattern::run(0, length));
    const Pattern variable = Pattern::strided(rows, cells * cell + pick(random, 0, 9), row);
    const Pattern by_cell = Pattern::strided(variables, length, variable);
    const Pattern by_variable = Pattern::strided(variables, rows * cells * length + pick(random, 0, 1) * 3,
                                                 Pattern::run(0, rows * cells * length));
    const bool packs = pick(random, 0, 1) == 0;
    const Pattern &to = packs ? by_variable : by_cell, &from = packs ? by_cell : by_variable;
    expect_copied(random, to, from);
  });
}

// Tiles of ranges `stride` apart; a tile may begin anywhere behind the last range of the one before.
Pattern random_tiles(Random& random, Bytes stride) {
  const Pattern range = Pattern::run(0, pick(random, 1, std::min<Bytes>(stride, 4)));
  const Pattern tile = Pattern::strided(pick(random, 1, 8), stride, range);
  const Bytes step = tile.upper() + pick(random, 0, 2 * stride);
  return Pattern::strided(pick(random, 1, 6), step, tile).shifted(pick(random, 0, 100));
}

TEST_F(PatternTest, UnitesExactly) {
  each(10000, [](Random& random) {
    std::vector<Pattern> patterns(static_cast<std::size_t>(pick(random, 1, 6)));
    std::set<Offset> bytes;
    const bool interleaved = pick(random, 0, 1) == 0;  // with one stride
    const Bytes stride = pick(random, 2, 12);
    for (Pattern& pattern : patterns) {
      pattern = interleaved ? random_tiles(random, stride)
                            : testing::random_ascending(random, testing::kShapes[pick(random, 0, 5)], 500);
      for (const Offset offset : testing::flatten(pattern)) bytes.insert(offset);
    }
    std::vector<Offset> united;
    Offset previous_end = -1;
    UnionReader reader(patterns);
    while (const auto run = reader.next()) {
      ASSERT_GT(run->offset, previous_end) << "runs must be maximal";
      previous_end = run->end();
      for (Offset at = run->offset; at < run->end(); ++at) united.push_back(at);
    }
    ASSERT_EQ(united, std::vector<Offset>(bytes.begin(), bytes.end()));
  });
}

TEST(PatternSize, AVectorOfAHundredMillionSegmentsTakesBytes) {
  const Pattern vector = Pattern::strided(100'000'000, 16, Pattern::run(0, 8));
  EXPECT_EQ(vector.size(), 800'000'000);
  EXPECT_LT(vector.footprint(), 1024);
  EXPECT_LT(vector.encode().size(), 32u);
  EXPECT_EQ(vector.clip({160, 32}).size(), 16);
}

TEST(PatternSimplify, EqualShapesGetEqualStructures) {
  EXPECT_TRUE(Pattern::strided(4, 8, Pattern::run(0, 8)).contiguous());
  EXPECT_EQ(Pattern::indexed({0, 8, 16}, {}, 0, Pattern::run(0, 8)).runs(), 1);
  EXPECT_EQ(Pattern::strided(3, 40, Pattern::strided(4, 10, Pattern::run(0, 4))).runs(), 12);
  EXPECT_EQ(Pattern::strided(3, 40, Pattern::strided(4, 10, Pattern::run(0, 4))).footprint(),
            Pattern::strided(12, 10, Pattern::run(0, 4)).footprint());
}

}  // namespace
}  // namespace stridio
