#pragma once

#include <mpi.h>

#include "base/worker.h"

namespace stridio {

// Drives the host while a thread waits within one of the program's MPI calls: a peer may be blocked
// in a transfer that needs this process. By testing a generalized request that never completes:
// that drives everything, and needs no communicator. (MPICH's MPI_Iprobe drives nothing on a
// communicator of one process, as MPI_COMM_SELF is, and the program's own communicator may be
// gone.) One for each thread that waits, as no two may test one request.
class HostDriver {
 public:
  HostDriver() {
    const int rc = PMPI_Grequest_start(answer, ignore, ignore_cancel, nullptr, &never_);
    if (rc != MPI_SUCCESS) never_ = MPI_REQUEST_NULL;
  }
  ~HostDriver() {
    int finalized = 0;
    PMPI_Finalized(&finalized);
    if (finalized || never_ == MPI_REQUEST_NULL) return;
    PMPI_Grequest_complete(never_);
    PMPI_Wait(&never_, MPI_STATUS_IGNORE);
  }
  HostDriver(const HostDriver&) = delete;
  HostDriver& operator=(const HostDriver&) = delete;

  // From a worker the host is not ours to call: the program drives it when it waits for its
  // request.
  void drive() {
    if (on_worker_thread()) return;
    int done = 0;
    if (never_ != MPI_REQUEST_NULL) PMPI_Test(&never_, &done, MPI_STATUS_IGNORE);
  }

 private:
  static int answer(void*, MPI_Status*) { return MPI_SUCCESS; }
  static int ignore(void*) { return MPI_SUCCESS; }
  static int ignore_cancel(void*, int) { return MPI_SUCCESS; }

  MPI_Request never_ = MPI_REQUEST_NULL;
};

}  // namespace stridio
