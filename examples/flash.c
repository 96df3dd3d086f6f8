#define _POSIX_C_SOURCE 200809L
#include "flash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double kGuardValue = -1.0;

const char* const flash_variable_names[FLASH_VARIABLES] = {
    "dens", "velx", "vely", "velz", "pres", "ener", "temp", "gamc", "game", "enuc", "gpot", "eint",
    "magx", "magy", "magz", "magp", "divb", "h1",   "he4",  "c12",  "o16",  "ne20", "si28", "ni56"};

/* The value of a variable in a cell, cells counted through all blocks in the order of the file.
 * Each is different. */
static double value(long cell, int variable) { return (double)cell + variable / 32.0; }

static int is_guard(int x) { return x < FLASH_GUARD || x >= FLASH_GUARD + FLASH_CELLS; }

static double expected(const struct flash* mesh, long block, int k, int j, int i, int variable) {
  if (is_guard(k) || is_guard(j) || is_guard(i)) return kGuardValue;
  long cell = mesh->first_block + block;
  cell = cell * FLASH_CELLS + (k - FLASH_GUARD);
  cell = cell * FLASH_CELLS + (j - FLASH_GUARD);
  cell = cell * FLASH_CELLS + (i - FLASH_GUARD);
  return value(cell, variable);
}

/* Calls `visit` for each value in memory, guard cells included; returns how often it said yes. */
static long for_each_value(struct flash* mesh, int (*visit)(double* found, double expected)) {
  long count = 0;
  for (long block = 0; block < mesh->blocks; ++block)
    for (int k = 0; k < FLASH_SIDE; ++k)
      for (int j = 0; j < FLASH_SIDE; ++j)
        for (int i = 0; i < FLASH_SIDE; ++i)
          for (int variable = 0; variable < FLASH_VARIABLES; ++variable)
            count += visit(&mesh->unk[block][k][j][i][variable], expected(mesh, block, k, j, i, variable));
  return count;
}

static int fill(double* found, double expected) {
  *found = expected;
  return 0;
}

static int clear(double* found, double expected) {
  (void)expected;
  *found = kGuardValue;
  return 0;
}

static int differs(double* found, double expected) { return *found != expected; }

/* This rank's share of the blocks, with its memory. */
static struct flash divide(long total_blocks, MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  struct flash mesh = {.comm = comm, .total_blocks = total_blocks, .first_block = total_blocks * rank / size};
  mesh.blocks = total_blocks * (rank + 1) / size - mesh.first_block;
  mesh.unk = malloc((mesh.blocks ? mesh.blocks : 1) * sizeof *mesh.unk);
  if (!mesh.unk) flash_fail("memory for the blocks", "out of memory");
  return mesh;
}

/* One clock for all ranks of a node; MPI_Wtime need not have the same zero in all of them. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

/* From the first rank's start to the last rank's end. */
static double span(double start, double end, MPI_Comm comm) {
  double extremes[2] = {-start, end};
  MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_DOUBLE, MPI_MAX, comm);
  return extremes[1] + extremes[0];
}

void flash_fail(const char* what, const char* why) {
  fprintf(stderr, "flash: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

int flash_main(int argc, char** argv, const struct flash_format* format) {
  MPI_Init(&argc, &argv);
  MPI_Comm comm = MPI_COMM_WORLD;
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);

  const int writing = argc == 3 && strcmp(argv[1], "write") == 0;
  const int reading = argc == 3 && strcmp(argv[1], "read") == 0;
  if (!writing && !reading) {
    if (rank == 0) fprintf(stderr, "usage: %s write|read FILE\n", argv[0]);
    MPI_Finalize();
    return 2;
  }
  const char* path = argv[2];
  struct flash mesh = divide(writing ? (long)FLASH_BLOCKS_PER_RANK * size : format->count_blocks(path, comm), comm);
  for_each_value(&mesh, writing ? fill : clear);

  MPI_Barrier(comm);
  const double start = now();
  if (writing)
    format->write(path, &mesh);
  else
    format->read(path, &mesh);
  const double seconds = span(start, now(), comm);

  long wrong = for_each_value(&mesh, differs);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, comm);
  const long cells = mesh.total_blocks * FLASH_CELLS * FLASH_CELLS * FLASH_CELLS;
  const long bytes = cells * FLASH_VARIABLES * (long)sizeof(double);
  if (rank == 0) {
    printf("%s: %ld bytes in %.6f s by %d ranks\n", argv[1], bytes, seconds, size);
    if (wrong) fprintf(stderr, "flash: %s: %ld values in memory are wrong\n", path, wrong);
  }
  free(mesh.unk);
  MPI_Finalize();
  return wrong ? 1 : 0;
}
