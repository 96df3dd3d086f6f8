// What the library keeps of the host MPI for the whole process, and gives back when MPI_Finalize begins.
// All members are thread-safe.
#pragma once

#include "mpiio/host.h"

namespace stridio::mpiio {

// Between MPI_Init and the beginning of MPI_Finalize; in a process that has only sessions, while files are open.
bool host_is_active();

// An open file's. Sessions have no MPI_COMM_SELF, so where there is nothing else the first file's communicator gives the private
// one; with the last file all goes that was made besides, as it must before the session ends.
class HostUse {
 public:
  explicit HostUse(MPI_Comm comm);
  ~HostUse();
  HostUse(const HostUse&) = delete;
  HostUse& operator=(const HostUse&) = delete;
};

// A communicator of this process alone, for attaching error handlers and asking the host about arguments (errors
// return); MPI_COMM_NULL while the host is not active.
MPI_Comm private_comm();

// The program is about to give MPI_COMM_SELF an attribute.
void before_attribute_of_self();

}  // namespace stridio::mpiio
