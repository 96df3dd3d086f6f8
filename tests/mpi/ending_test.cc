// How programs end: with files open, with freed and unfreed handlers, or by an error handler that is fatal.
//   ending_test open | fatal | abort | fatal_default
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

void ignore(MPI_File*, int*, ...) {}

MPI_File open_file(const std::string& path, int amode) {
  MPI_File fh = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, path.c_str(), amode, MPI_INFO_NULL, &fh);
  return fh;
}

void fail(MPI_File fh) {
  int value = 0;
  MPI_File_write_at(fh, 0, &value, -1, MPI_INT, MPI_STATUS_IGNORE);
}

// Erroneous, and no reason to crash: MPI_Finalize with files open and handlers in use.
void leave_open(const std::string& path) {
  MPI_File fh = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE);
  open_file(path, MPI_MODE_RDWR);
  MPI_Errhandler handler;
  MPI_File_create_errhandler(ignore, &handler);
  MPI_File_set_errhandler(fh, handler);
  MPI_File_set_errhandler(MPI_FILE_NULL, handler);
  int value = 1;
  MPI_Request request;
  MPI_File_write_all_begin(fh, &value, 1, MPI_INT);
  MPI_File_iwrite_at(fh, 100, &value, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "";
  char path[64] = {};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::snprintf(path, sizeof path, "/tmp/stridio-ending-%d", static_cast<int>(getpid()));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (mode == "open") leave_open(path);
  if (mode == "fatal" || mode == "abort") {
    MPI_File fh = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    std::remove(path);
#if defined(MPI_ERRORS_ABORT)
    MPI_File_set_errhandler(fh, mode == "abort" ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL);
#else
    MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL);
#endif
    fail(fh);
    std::puts("still here");
  }
  if (mode == "fatal_default") {
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    open_file("/no/such/file", MPI_MODE_RDONLY);
    std::puts("still here");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::remove(path);
  MPI_Finalize();
  std::puts("ended well");
  return 0;
}
