/* Plain MPI-IO: the ranks deal a file out among themselves piece by piece, like cards, write it
 * together and read it back.  mpicc hello_io.c -o hello_io && mpiexec -n 4 ./hello_io hello.dat */
#include <mpi.h>
#include <stdio.h>

enum { PIECES = 1000, PIECE = 4, INTS = PIECES * PIECE };

static void check(int error, const char* what) {
  if (error == MPI_SUCCESS) return;
  char why[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(error, why, &length);
  fprintf(stderr, "hello_io: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = argc > 1 ? argv[1] : "hello.dat";

  int written[INTS], found[INTS] = {0}, wrong = 0;
  for (int i = 0; i < INTS; ++i) written[i] = rank * INTS + i;

  /* Every size-th piece of the file, beginning with piece `rank`. */
  MPI_Datatype my_pieces;
  MPI_Type_vector(PIECES, PIECE, PIECE * size, MPI_INT, &my_pieces);
  MPI_Type_commit(&my_pieces);
  const MPI_Offset first = (MPI_Offset)rank * PIECE * sizeof(int);

  MPI_File file;
  const int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
  check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), path);
  check(MPI_File_set_view(file, first, MPI_INT, my_pieces, "native", MPI_INFO_NULL), "view");
  check(MPI_File_write_all(file, written, INTS, MPI_INT, MPI_STATUS_IGNORE), "write");
  check(MPI_File_seek(file, 0, MPI_SEEK_SET), "seek");
  check(MPI_File_read_all(file, found, INTS, MPI_INT, MPI_STATUS_IGNORE), "read");
  check(MPI_File_close(&file), "close");

  for (int i = 0; i < INTS; ++i) wrong += found[i] != written[i];
  printf("rank %d of %d: wrote %d pieces, read them back, %d wrong\n", rank, size, PIECES, wrong);
  MPI_Type_free(&my_pieces);
  MPI_Finalize();
  return wrong != 0;
}
