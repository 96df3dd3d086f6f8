// The group of ranks that share one machine's memory: agreements by flags, messages by slots, both
// in a segment of its own. Microseconds where message passing between sleeping processes costs
// milliseconds.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "group/group.h"
#include "group/segment.h"

namespace stridio {

struct SharedGroupOptions {
  // Called by the waiting thread, inside the waiting call, each time that it has slept a
  // millisecond in vain.
  std::function<void()> progress = {};
  // The ranks are threads of this process: one mapping serves all.
  bool one_address_space = false;
  // For people: the ranks' numbers in a larger group, and its size. Empty: their own.
  std::vector<int> known_as = {};
  int known_size = 0;
  // How often a waiting rank looks whether the other processes live.
  std::chrono::milliseconds watch_period{1000};
};

// Collective over the bootstrap, which is not needed afterwards. All on one node. Costs two
// agreements of the bootstrap. Fails on all ranks with kNoMemory where any rank cannot have the
// memory (a caller then takes another kind of group); with another code where the bootstrap does.
//
// A rank whose group is destroyed has left: whoever waits for it fails at once. A process that died
// is noticed by whoever waits for it within the watch period, where pid namespaces allow. A failure
// in an agreement fails it on all ranks; one in an exchange fails the ranks that still wait in it,
// and every later call on all ranks.
Result<std::unique_ptr<Group>> make_shared_group(const Bootstrap& bootstrap, SharedGroupOptions options);

}  // namespace stridio
