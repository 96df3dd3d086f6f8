/* PnetCDF that enters define mode again after data were written: the header grows, and the library moves the data, which it
 * reads as other ranks wrote them. */
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 500, COLUMNS = 40, TURNS = 4 };

static void check(int error, const char* what) {
  if (error == NC_NOERR) return;
  fprintf(stderr, "%s: %s\n", what, ncmpi_strerror(error));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, file, shape[2], record[2], variable[TURNS + 1], records, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
  CHECK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
  CHECK(ncmpi_def_dim(file, "y", ROWS, &shape[0]));
  CHECK(ncmpi_def_dim(file, "x", (MPI_Offset)COLUMNS * size, &shape[1]));
  CHECK(ncmpi_def_dim(file, "t", NC_UNLIMITED, &record[0]));
  record[1] = shape[1];
  CHECK(ncmpi_def_var(file, "first", NC_INT, 2, shape, &variable[0]));
  CHECK(ncmpi_def_var(file, "records", NC_INT, 2, record, &records));
  CHECK(ncmpi_enddef(file));
  static int data[ROWS * COLUMNS];
  const MPI_Offset start[2] = {0, COLUMNS * rank}, count[2] = {ROWS, COLUMNS};
  for (int turn = 0; turn < TURNS; ++turn) {
    const int base = turn * 10000000 + rank * 100000;
    for (int i = 0; i < ROWS * COLUMNS; ++i) data[i] = base + i;
    CHECK(ncmpi_put_vara_int_all(file, variable[turn], start, count, data));
    const MPI_Offset row[2] = {turn, COLUMNS * rank}, one[2] = {1, COLUMNS};
    CHECK(ncmpi_put_vara_int_all(file, records, row, one, data));
    CHECK(ncmpi_redef(file));
    char name[32], text[3000];
    snprintf(name, sizeof name, "added%d", turn);
    memset(text, 'x', sizeof text);
    CHECK(ncmpi_put_att_text(file, NC_GLOBAL, name, sizeof text, text));
    CHECK(ncmpi_def_var(file, name, NC_INT, 2, shape, &variable[turn + 1]));
    CHECK(ncmpi_enddef(file));
    memset(data, 0, sizeof data);
    CHECK(ncmpi_get_vara_int_all(file, variable[turn], start, count, data));
    for (int i = 0; i < ROWS * COLUMNS; ++i) wrong |= data[i] != base + i;
  }
  CHECK(ncmpi_close(file));
  if (wrong) fprintf(stderr, "rank %d read wrong values\n", rank);
  MPI_Finalize();
  return wrong;
}
