// What the library keeps of the host MPI for the whole process, and gives back when MPI_Finalize begins.
// All members are thread-safe.
#pragma once

#include "mpiio/host.h"

namespace stridio::mpiio {

// Between MPI_Init and the beginning of MPI_Finalize.
bool host_is_active();

// A communicator of this process alone, for attaching error handlers and asking the host about arguments (errors
// return); MPI_COMM_NULL while the host is not active.
MPI_Comm private_comm();

}  // namespace stridio::mpiio
