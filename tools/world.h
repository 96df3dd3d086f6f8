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
  // Calls `body` for so many ranks: threads of this process, of which rank 0 leads, or the processes, which all do, and of
  // which there must be so many. A leader does what is done once in each process.
  Status on_ranks(int ranks, const std::function<Status(Group&, bool leads)>& body) const;

 private:
  Group& processes_;
};

// In a process of an MPI launcher without the library, an error.
Status in_world(const Environment& environment, const std::function<Status(World&)>& body);

}  // namespace stridio
