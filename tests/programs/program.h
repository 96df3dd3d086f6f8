// A program: random steps over one file, each with a seed of its own. What a step does exactly depends on its seed and on
// what the steps before it left, by the oracle; so any of them can be dropped, and the rest is still a legal program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "programs/call.h"

namespace stridio::testing {

struct Step {
  int number;        // in the program as it was drawn
  std::size_t kind;  // an index of the table of kinds
  std::uint64_t seed;
};

struct Program {
  std::uint64_t seed = 0;
  int ranks = 2;
  bool fresh_communicator = false;  // split off for this program, in another order of ranks
  bool intervals = false;           // of interval files
  std::vector<Step> steps;
};

// `wanted`: a kind that must be among the steps; kinds().size() for none.
Program random_program(std::uint64_t seed, int most_ranks, std::size_t wanted);

}  // namespace stridio::testing
