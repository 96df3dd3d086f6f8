// How the `stridio` command, which knows no MPI, gets a group of all its processes.
#include <cstring>

#include "group/mpi/mpi_group.h"
#include "mpiio/host.h"

// Calls body(group, context). After MPI_Init; collective. 0 where it was called.
extern "C" __attribute__((visibility("default"))) int PMPIX_Stridio_on_world(const char* version,
                                                                             void (*body)(stridio::Group&, void*),
                                                                             void* context) {
  if (std::strcmp(version, STRIDIO_VERSION) != 0) return 1;
  const auto group = stridio::acquire_group(MPI_COMM_WORLD, 0);
  if (!group) return 1;
  body(**group, context);
  return 0;
}
