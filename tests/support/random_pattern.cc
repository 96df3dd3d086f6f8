#include "support/random_pattern.h"

#include <cstdio>
#include <numeric>

namespace stridio::testing {

std::uint64_t seed_of_run() {
  if (const char* given = std::getenv("STRIDIO_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

const char* name_of(Shape shape) {
  switch (shape) {
    case Shape::kRun: return "run";
    case Shape::kStrided: return "strided";
    case Shape::kNested: return "nested";
    case Shape::kIndexed: return "indexed";
    case Shape::kSequence: return "sequence";
    case Shape::kMixed: return "mixed";
  }
  return "?";
}

Pattern random_pattern(Random& random, Bytes largest, int depth) {
  const std::int64_t kind = depth == 0 || largest < 2 ? 0 : pick(random, 0, 3);
  if (kind == 0) return Pattern::run(pick(random, -20, 20), pick(random, 0, std::min<Bytes>(largest, 12)));
  const std::int64_t count = pick(random, 0, std::min<Bytes>(5, largest));
  const Bytes part = std::max<Bytes>(1, largest / std::max<std::int64_t>(count, 1));
  if (kind == 3) {
    std::vector<Pattern> parts;
    for (std::int64_t i = 0; i < count; ++i)
      parts.push_back(random_pattern(random, part, depth - 1).shifted(pick(random, -50, 50)));
    return Pattern::sequence(std::move(parts));
  }
  const Pattern child = random_pattern(random, kind == 1 ? part : part / 3 + 1, depth - 1);
  const auto dense = [&] { return child.size() + pick(random, -1, 1) * pick(random, 0, 1); };
  const Bytes stride = pick(random, 0, 2) == 0 ? dense() : pick(random, -40, 60);
  if (kind == 1) return Pattern::strided(count, stride, child);
  std::vector<Offset> displacements;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < count; ++i) {
    displacements.push_back(pick(random, -60, 60));
    counts.push_back(pick(random, 0, 3));
  }
  if (pick(random, 0, 1) == 0) counts.clear();
  return Pattern::indexed(std::move(displacements), std::move(counts), stride, child);
}

namespace {

// Sorted cut points of [0, span): an even number of them, so that pairs are ranges.
std::vector<Extent> random_extents(Random& random, Bytes span, std::int64_t most) {
  std::vector<Offset> cuts(static_cast<std::size_t>(2 * pick(random, 1, most)));
  for (Offset& cut : cuts) cut = pick(random, 0, span);
  std::sort(cuts.begin(), cuts.end());
  std::vector<Extent> extents;
  for (std::size_t i = 0; i + 1 < cuts.size(); i += 2)
    if (cuts[i] < cuts[i + 1]) extents.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  return extents;
}

Pattern random_strided(Random& random, Bytes span) {
  const Bytes length = pick(random, 1, std::max<Bytes>(1, std::min<Bytes>(64, span / 4)));
  const Bytes stride = length + pick(random, 0, 3) * pick(random, 0, length + 16);
  const Bytes start = pick(random, 0, std::max<Bytes>(0, span / 4));
  const std::int64_t most = (span - start - length) / stride + 1;
  if (most <= 0) return {};
  return Pattern::strided(pick(random, 1, most), stride, Pattern::run(0, length)).shifted(start);
}

}  // namespace

Pattern random_ascending(Random& random, Shape shape, Bytes span) {
  if (span < 8) return Pattern::run(0, span);
  switch (shape) {
    case Shape::kRun: {
      const Offset begin = pick(random, 0, span - 1);
      return Pattern::run(begin, pick(random, 0, span - begin));
    }
    case Shape::kStrided: return random_strided(random, span);
    case Shape::kNested: {
      const std::int64_t tiles = pick(random, 1, 6);
      const Bytes tile = span / tiles;
      return Pattern::strided(tiles, tile, random_ascending(random, Shape(pick(random, 0, 3)), tile));
    }
    case Shape::kIndexed: return Pattern::extents(random_extents(random, span, 40));
    case Shape::kSequence: {
      const std::int64_t parts = pick(random, 1, 5);
      const Bytes part = span / parts;
      std::vector<Pattern> list;
      for (std::int64_t i = 0; i < parts; ++i)
        list.push_back(random_ascending(random, Shape(pick(random, 0, 3)), part).shifted(i * part));
      return Pattern::sequence(std::move(list));
    }
    case Shape::kMixed: {
      const std::int64_t tiles = pick(random, 1, 3);
      const Bytes tile = span / tiles;
      const Pattern child = random_ascending(random, Shape::kSequence, tile);
      return Pattern::strided(tiles, tile, child);
    }
  }
  return {};
}

Pattern random_memory(Random& random, Bytes size) {
  if (size == 0) return {};
  const std::int64_t kind = pick(random, 0, 3);
  if (kind == 0) return Pattern::run(pick(random, 0, 16), size);
  if (kind == 1) {  // the largest element length that divides the size, strided
    for (const Bytes length : {24, 16, 12, 8, 5, 4, 3, 2, 1})
      if (size % length == 0)
        return Pattern::strided(size / length, length + pick(random, 0, 9), Pattern::run(0, length));
  }
  std::vector<Extent> pieces;  // pieces in file order, placed in any order in memory
  Offset at = 0;
  for (Bytes left = size; left > 0;) {
    const Bytes length = pick(random, 1, std::min<Bytes>(left, 1 + size / 7));
    pieces.push_back({at, length});
    at += length + (kind == 2 ? pick(random, 0, 5) : 0);
    left -= length;
  }
  if (kind == 3) std::shuffle(pieces.begin(), pieces.end(), random);
  return Pattern::extents(pieces);
}

std::vector<Offset> flatten(const Pattern& pattern) {
  std::vector<Offset> offsets;
  for (Cursor cursor(pattern); !cursor.done();) {
    const Extent range = cursor.next_range();
    for (Offset at = range.offset; at < range.end(); ++at) offsets.push_back(at);
  }
  return offsets;
}

}  // namespace stridio::testing
