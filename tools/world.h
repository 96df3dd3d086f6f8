// Who carries a command out: this process by its threads, or the processes that `stridio run -- mpiexec -n N stridio ...` has
// started. These speak through the library that is preloaded into them; the command itself knows no MPI.
#pragma once

#include <functional>

#include "environment.h"
#include "group/group.h"

namespace stridio {

class World {
 public:
  explicit World(Group& processes) : processes_(processes) {}

  // This one alone, or all that were launched.
  Group& processes() const { return processes_; }
  bool launched() const { return processes_.size() > 1; }
  // Calls `body` for so many ranks: threads of this process, or of all, on whose nodes' number it depends whether there can
  // be more ranks than processes; never fewer. The first rank of each process leads: does what is done once there.
  Status on_ranks(int ranks, const std::function<Status(Group&, bool leads)>& body) const;

 private:
  Group& processes_;
};

// In a process of an MPI launcher without the library, an error.
Status in_world(const Environment& environment, const std::function<Status(World&)>& body);

}  // namespace stridio
