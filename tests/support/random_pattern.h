// Random patterns and the byte-array oracle that they are held against.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "pattern/pattern.h"

namespace stridio::testing {

using Random = std::mt19937_64;

// STRIDIO_SEED, or a fresh seed; printed by who takes it.
std::uint64_t seed_of_run();

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {  // both included
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Any pattern: overlaps, negative strides and any order allowed. At most about `largest` bytes.
Pattern random_pattern(Random& random, Bytes largest, int depth = 3);

enum class Shape { kRun, kStrided, kNested, kIndexed, kSequence, kMixed };
inline constexpr Shape kShapes[] = {Shape::kRun,     Shape::kStrided,  Shape::kNested,
                                    Shape::kIndexed, Shape::kSequence, Shape::kMixed};
const char* name_of(Shape shape);

// An ascending pattern of the shape within [0, span), as a file view's request is.
Pattern random_ascending(Random& random, Shape shape, Bytes span);

// A pattern of exactly `size` bytes without overlap, in any order: a user's memory.
Pattern random_memory(Random& random, Bytes size);

// Every byte's offset, in data order: the oracle. Built from the pattern's ranges.
std::vector<Offset> flatten(const Pattern& pattern);

}  // namespace stridio::testing
