// What the bytes of a case are: a function of who wrote them and of where in the file they stand,
// so that a byte out of place, or of the wrong writer, is seen.
#pragma once

#include <cstddef>

#include "base/extent.h"

namespace stridio::testing {

inline constexpr int kMostRanks = 9;
inline constexpr Offset kMostOffsets = Offset{1} << 17;  // every case stays below

// Writers other than the ranks 0 .. kMostRanks - 1.
inline constexpr int kBefore = kMostRanks;     // what the file held before the case
inline constexpr int kNoise = kMostRanks + 1;  // what the memory held before the case
inline constexpr int kWriters = kMostRanks + 2;

// The byte of `writer` at offset i is contents_of(writer)[i], 0 <= i < kMostOffsets.
const std::byte* contents_of(int writer);

}  // namespace stridio::testing
