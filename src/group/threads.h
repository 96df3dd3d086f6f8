// Ranks as threads of one process: the group of tests and of simulations at thousands of ranks.
#pragma once

#include <functional>

#include "group/group.h"

namespace stridio {

struct ThreadGroupOptions {
  int ranks_per_node = 0;      // 0: all on one node
  bool shared_memory = true;   // false: shared() answers an empty segment, so the message path is taken
};

// Runs `body` once a rank, each on a thread of its own with its Group, and returns when all have returned.
void run_threads(int ranks, const ThreadGroupOptions& options,
                 const std::function<void(Group&)>& body);

}  // namespace stridio
