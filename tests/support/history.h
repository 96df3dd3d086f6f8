// For tests of atomic mode: whether some order of accesses, one after the other, explains what each of them saw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stridio::testing {

// One access. All cells that it touches (bytes, or pieces that are only ever touched as a whole) are named.
struct Operation {
  bool writes = false;
  std::int64_t begin = 0, end = 0;  // on a clock that all share; an order may not turn two that do not overlap in time
  int rank = 0;
  std::uint64_t value = 0;  // of a write: unlike any other's, not 0
  std::vector<std::uint32_t> cells;
  std::vector<std::uint64_t> seen;  // of a read: by cell, which write's value; 0 is what was there before
};

// Nothing where an order exists; else what cannot be.
std::string explain_disorder(const std::vector<Operation>& history);

}  // namespace stridio::testing
