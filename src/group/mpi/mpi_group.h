// Groups for the ranks of an MPI communicator. Calls nothing of the host but PMPI_* functions of
// MPI-3.1, so that tools that wrap MPI see only the program's calls; compiled once for each ABI
// family.
#pragma once

#include <mpi.h>

#include <memory>

#include "group/group.h"

namespace stridio {

// Collective over `comm`, in the order of its other collectives; kNotSame where the ranks name different
// `node_ranks`. A group of its ranks for one open file, not used by any other until it is released
// by dropping the pointer, on each rank by itself, at the latest before the process ends. It
// outlives the communicator if need be. Drop it on a thread that may call MPI.
//
// One segment of shared memory where all ranks are on one node, else messages. `node_ranks` > 0
// decides instead of what the machine says: so many consecutive ranks make a node (to take the
// message path on one machine); it costs an agreement more.
//
// Groups are pooled per communicator until it is freed, or MPI_Finalize begins: the first call
// costs two (on several nodes three) collectives of the host, later ones none on one node. A pooled
// group keeps its segments; its persistent() bytes are zeroed each time.
//
// Fails with kArgument for an intercommunicator or MPI_COMM_NULL, otherwise on all ranks alike.
// Thread-safe for different communicators.
Result<std::shared_ptr<Group>> acquire_group(MPI_Comm comm, int node_ranks);

}  // namespace stridio
