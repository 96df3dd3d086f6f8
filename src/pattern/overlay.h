// Several patterns laid over each other: which bytes are covered by which of them. This is the set algebra of patterns:
// what two have in common, what one has alone.
#pragma once

#include "pattern/pattern.h"

namespace stridio {

// All bytes that the same patterns cover: their elementary intervals, ascending.
struct Overlap {
  std::vector<int> owners;  // the patterns, by index, ascending; never empty
  Pattern bytes;
  // False: beyond the budget. The bytes are a superset: runs in which bytes of some of the owners may be.
  bool exact = true;
};

// Of ascending patterns; the results are disjoint, each set of owners occurs at most once exactly and once not. What
// repeats is worked out once and repeats in the results, so that time and memory follow the patterns' structure, not
// their runs; where their structures do not fit each other, they follow the runs there, and at about `budget` bytes of
// results the rest becomes inexact.
std::vector<Overlap> overlay(std::span<const Pattern> patterns, Bytes budget = std::numeric_limits<Bytes>::max());

// Of ascending patterns; ascending.
Pattern intersect(const Pattern& a, const Pattern& b);
Pattern subtract(const Pattern& from, const Pattern& what);

}  // namespace stridio
