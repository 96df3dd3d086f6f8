/* A plugin that is linked against an MPI, as Python's extension modules are: writes and reads a file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int calls;
static void count_call(MPI_File* fh, int* code, ...) { (void)fh, (void)code, ++calls; }

int run_plugin(const char* path) {
  int rank = 0, value = 0, failures = 0;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_File fh;
  MPI_Status status;
  MPI_Request request;
  failures += MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &fh) != 0;
  value = 100 + rank;
  failures += MPI_File_write_at_all(fh, 4 * rank, &value, 1, MPI_INT, &status) != 0;
  value = 0;
  failures += MPI_File_iread_at(fh, 4 * rank, &value, 1, MPI_INT, &request) != 0;
  failures += MPI_Wait(&request, &status) != 0;
  failures += value != 100 + rank;
  MPI_Errhandler handler;
  MPI_File_create_errhandler(count_call, &handler);
  MPI_File_set_errhandler(fh, handler);
  MPI_Errhandler_free(&handler);
  failures += MPI_File_write_at(fh, -1, &value, 1, MPI_INT, &status) == 0 || calls != 1;
  Dl_info info;
  failures += dladdr((void*)MPI_File_open, &info) == 0 || strstr(info.dli_fname, "libstridio-") == NULL;
  failures += MPI_File_close(&fh) != 0;
  MPI_Finalize();
  if (failures != 0) printf("rank %d: %d failures\n", rank, failures);
  return failures;
}
