#include "programs/program.h"

#include "programs/runner.h"

namespace stridio::testing {

Program random_program(std::uint64_t seed, int most_ranks, std::size_t wanted) {
  Random random(seed * 0x9e3779b97f4a7c15 + 1);
  Program program;
  program.seed = seed;
  program.ranks = static_cast<int>(pick(random, 2, most_ranks));
  program.fresh_communicator = chance(random, 12);
  int weights = 0;
  for (const Kind& kind : kinds()) weights += kind.weight;
  for (auto left = pick(random, 8, 24); left > 0; --left) {
    auto drawn = pick(random, 0, weights - 1);
    std::size_t kind = 0;
    while (drawn >= kinds()[kind].weight) drawn -= kinds()[kind++].weight;
    const auto add = [&](std::size_t which) {
      program.steps.push_back({static_cast<int>(program.steps.size()) + 1, which, random()});
    };
    add(kind);
    if (wanted < kinds().size() && chance(random, 4)) add(wanted);
  }
  return program;
}

}  // namespace stridio::testing
