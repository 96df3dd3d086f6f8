#include "mpiio/process.h"

#include <atomic>
#include <mutex>

#include "mpiio/errhandler.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

std::mutex mutex;
std::atomic<bool> finalizing = false;
MPI_Comm comm_of_process;
bool prepared = false;

// MPI_Finalize deletes MPI_COMM_SELF's attributes before it does anything else.
int on_finalize(MPI_Comm, int, void*, void*) {
  finish_orphans();
  set_default_handler({});
  finalizing = true;
  const std::lock_guard lock(mutex);
  if (prepared) PMPI_Comm_free(&comm_of_process);
  prepared = false;
  return MPI_SUCCESS;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

void prepare() {
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(copy_nothing, on_finalize, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);  // it lives on until the attribute is deleted
  PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &comm_of_process);
  PMPI_Comm_set_errhandler(comm_of_process, MPI_ERRORS_RETURN);
  prepared = true;
}

}  // namespace

bool host_is_active() {
  if (finalizing) return false;
  int initialized = 0;
  int finalized = 0;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

MPI_Comm private_comm() {
  if (!host_is_active()) return MPI_COMM_NULL;
  const std::lock_guard lock(mutex);
  if (!prepared) prepare();
  return comm_of_process;
}

}  // namespace stridio::mpiio
