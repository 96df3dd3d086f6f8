// Whether Stridio serves this process: 1 if the C functions and the Fortran names that it must define are its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

int served_by_stridio(void) {
  static const char* const kNames[] = {"MPI_File_open", "PMPI_File_open", "mpi_file_create_errhandler_",
                                       "mpi_file_create_errhandler_f08_", "mpi_register_datarep_"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    Dl_info info;
    if (dladdr(dlsym(RTLD_DEFAULT, kNames[i]), &info) == 0 || strstr(info.dli_fname, "libstridio-") == NULL) return 0;
  }
  return 1;
}
