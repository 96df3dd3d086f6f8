/* `endless FILE FOLDER`: epoch after epoch writes the whole file anew, by two views in turn, each byte the epoch's number;
 * FOLDER/pid-RANK says whom to kill, FOLDER/progress which epochs are committed, a line each. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 500, TURNS = 40, COUNT = BLOCK * TURNS };

static int rank, size;

static int file_in(const char* folder, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) MPI_Abort(MPI_COMM_WORLD, 1);
  return file;
}

static void check(int error) {
  if (error != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  char name[32];
  snprintf(name, sizeof name, "pid-%d", rank);
  dprintf(file_in(argv[2], name), "%d", (int)getpid());
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  MPI_Datatype cyclic;
  MPI_Type_vector(TURNS, BLOCK, BLOCK * size, MPI_BYTE, &cyclic);
  MPI_Type_commit(&cyclic);
  const int progress = file_in(argv[2], "progress");
  static char bytes[COUNT];
  for (int epoch = 1;; ++epoch) {
    memset(bytes, epoch % 251, sizeof bytes);
    const int whole = epoch % 2 == 0;
    check(MPI_File_set_view(file, (MPI_Offset)rank * (whole ? COUNT : BLOCK), MPI_BYTE, whole ? MPI_BYTE : cyclic,
                            "native", MPI_INFO_NULL));
    check(epoch % 3 ? MPI_File_write_at(file, 0, bytes, COUNT, MPI_BYTE, MPI_STATUS_IGNORE)
                    : MPI_File_write_at_all(file, 0, bytes, COUNT, MPI_BYTE, MPI_STATUS_IGNORE));
    check(MPI_File_sync(file));
    if (rank == 0) dprintf(progress, "%d\n", epoch);
  }
}
