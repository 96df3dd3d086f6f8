// The holes within a request, by their size: how many requests are left, and how many bytes of holes are moved, where holes
// up to some size are taken along.
#pragma once

#include <array>
#include <span>

#include "pattern/pattern.h"

namespace stridio {

// Of an ascending pattern. Exact for what a few hundred nests of loops describe, else from samples all over the pattern:
// never from averages, which say nothing of a request that is dense here and sparse there.
struct Gaps {
  static constexpr int kClasses = 48;  // class c: holes of [2^c, 2^(c + 1)) bytes
  struct Class {
    double count = 0;
    double bytes = 0;   // of the holes
    double before = 0;  // bytes of the request directly before them
  };
  std::array<Class, kClasses> classes{};

  void add(double gap, double count, double before);
  double count() const;
  // Holes of the first `classes_taken` classes, which are all that are at most largest_of(classes_taken) bytes long.
  Class below(int classes_taken) const;
  Class shorter_than(Bytes limit) const;  // a power of two
  static Bytes largest_of(int classes_taken) { return (Bytes{1} << classes_taken) - 1; }
};

Gaps gaps_of(const Pattern& pattern);
// Of the union of ascending patterns.
Gaps union_gaps_of(std::span<const Pattern> patterns);

}  // namespace stridio
