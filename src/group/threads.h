// Ranks as threads of one process: the group of tests and of simulations at thousands of ranks.
#pragma once

#include <functional>

#include "group/group.h"

namespace stridio {

struct ThreadGroupOptions {
  int ranks_per_node = 0;     // 0: all on one node
  bool shared_memory = true;  // of the ranks of a node; false: everything goes by messages
};

// Runs `body` once a rank, each on a thread of its own with its Group, and returns when all have returned. A
// rank whose body has returned or thrown is dead to the others: their waits for it fail with kOther. The
// first exception is thrown again here. With several nodes, shared() answers an empty segment.
void run_threads(int ranks, const ThreadGroupOptions& options, const std::function<void(Group&)>& body);

}  // namespace stridio
