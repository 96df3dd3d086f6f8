// Small helpers of everything that is drawn from a seed.
#pragma once

#include "support/random_pattern.h"
#include "support/sanitized.h"

namespace stridio::testing {

// A well-mixed number of a plain one (splitmix64).
inline std::uint64_t mixed(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline bool one_in(Random& random, std::uint64_t n) { return random() % n == 0; }

// Ranks that write the same byte of a buffer that they share race for it, by MPI's leave: the
// result is one of theirs. The thread sanitizer cannot know that, and is spared those cases, so
// that it can look for races that are bugs.
inline constexpr bool kMayOverlap = !kThreadSanitized;

// STRIDIO_CASES, or what fits the kind of build.
inline std::int64_t cases_of_run(std::int64_t in_release, std::int64_t under_sanitizers) {
  if (const char* given = std::getenv("STRIDIO_CASES")) return std::strtoll(given, nullptr, 10);
  return kSanitized ? under_sanitizers : in_release;
}

}  // namespace stridio::testing
