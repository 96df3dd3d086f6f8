/* What atomic mode costs: every rank writes its tile of a picture, one independent write a
 * repetition, all at once. Tiles reach GHOST elements into their neighbours' (0: they are private).
 * Each repetition from a start on which all ranks agreed to the last rank's end; rank 0 prints one
 * JSON object each. In the end every element must be one that its tiles' last writes left.
 * modes: two files in turns, a few repetitions each, FILE.atomic in atomic mode and FILE.nonatomic. limit: as many bytes by
 * one contiguous pwrite a rank, each to its own part of the file.
 *
 * usage: mpiexec -n RANKS atomic FILE WIDTH HEIGHT GHOST modes|limit REPETITIONS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"

static void check(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "atomic: %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

enum { ATOMIC, NONATOMIC, MODES };
enum { IN_A_ROW = 5 }; /* so that a file's pages are in the caches as they are where there is one file */
static const char* const modes[MODES] = {"atomic", "nonatomic"};

struct tile {
  int size[2], start[2], count[2]; /* of the picture; of the tile: rows, columns */
  int elements;
};

static struct tile tile_of(int rank, int ranks, int width, int height, int ghost) {
  struct tile tile = {0};
  int grid[2] = {0, 0};
  const int length[2] = {height, width};
  MPI_Dims_create(ranks, 2, grid);
  const int at[2] = {rank / grid[0], rank % grid[0]}; /* wider than high */
  for (int d = 0; d < 2; ++d) {
    const int low = at[d] * length[d] - (at[d] > 0 ? ghost : 0);
    const int high = (at[d] + 1) * length[d] + (at[d] + 1 < grid[1 - d] ? ghost : 0);
    tile.size[d] = grid[1 - d] * length[d];
    tile.start[d] = low;
    tile.count[d] = high - low;
  }
  tile.elements = tile.count[0] * tile.count[1];
  return tile;
}

static MPI_File open_file(const char* path, const char* ending, MPI_Datatype filetype) {
  MPI_File file;
  char* name;
  if (asprintf(&name, "%s.%s", path, ending) < 0) check(MPI_ERR_NO_MEM, path);
  check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), name);
  check(MPI_File_set_view(file, 0, MPI_INT, filetype, "native", MPI_INFO_NULL), "the view");
  free(name);
  return file;
}

static void write_tile(MPI_File file, const struct tile* tile, const int* values) {
  check(MPI_File_write_at(file, 0, values, tile->elements, MPI_INT, MPI_STATUS_IGNORE), "writing");
}

static void tell(int rank, const char* mode, int64_t time) {
  if (rank != 0) return;
  printf("{\"mode\": \"%s\", \"seconds\": %.6f}\n", mode, (double)time * 1e-9);
  fflush(stdout);
}

/* A part that is not written whole is an error here: no signal comes, and the disk is not full. */
static void measure_limit(const char* path, const int* values, int64_t bytes, int rank, int repetitions) {
  int64_t before = 0;
  const int file = open(path, O_RDWR | O_CREAT, 0666);
  if (file < 0) check(MPI_ERR_IO, path);
  MPI_Exscan(&bytes, &before, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) before = 0;
  for (int repetition = -1; repetition < repetitions; ++repetition) { /* the first makes the file */
    int64_t time = -meeting_start();
    if (pwrite(file, values, (size_t)bytes, before) != bytes) check(MPI_ERR_IO, "writing");
    time += now();
    meeting_maximum(&time, 1);
    if (repetition >= 0) tell(rank, "limit", time);
  }
  close(file);
}

/* What every other rank has in common with this one is all one rank's. */
static void verify(MPI_File file, int ranks, const struct tile* tile, int width, int height, int ghost) {
  int* values = malloc(sizeof(int) * (size_t)tile->elements);
  MPI_Barrier(MPI_COMM_WORLD);
  check(MPI_File_read_at(file, 0, values, tile->elements, MPI_INT, MPI_STATUS_IGNORE), "reading");
  for (int other = 0; other < ranks; ++other) {
    const struct tile theirs = tile_of(other, ranks, width, height, ghost);
    for (int i = 0; i < tile->elements; ++i) {
      const int row = tile->start[0] + i / tile->count[1];
      const int column = tile->start[1] + i % tile->count[1];
      const int common = row >= theirs.start[0] && row < theirs.start[0] + theirs.count[0] &&
                         column >= theirs.start[1] && column < theirs.start[1] + theirs.count[1];
      if (values[i] == other && !common) check(MPI_ERR_IO, "a value where it was not written");
      if (values[i] < 0 || values[i] >= ranks) check(MPI_ERR_IO, "a value that nobody wrote");
    }
  }
  free(values);
}

int main(int argc, char** argv) {
  MPI_File files[MODES];
  MPI_Datatype filetype;
  int rank, ranks;
  MPI_Init(&argc, &argv);
  if (argc != 7) return fprintf(stderr, "atomic: see the top of atomic.c\n"), 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int width = atoi(argv[2]), height = atoi(argv[3]), ghost = atoi(argv[4]);
  const struct tile tile = tile_of(rank, ranks, width, height, ghost);
  int* values = malloc(sizeof(int) * (size_t)tile.elements);
  for (int i = 0; i < tile.elements; ++i) values[i] = rank;
  meeting_open();
  meeting_nap(1000000); /* independent writes need no messages */
  if (strcmp(argv[5], "limit") == 0) {
    measure_limit(argv[1], values, (int64_t)sizeof(int) * tile.elements, rank, atoi(argv[6]));
    meeting_close();
    free(values);
    MPI_Finalize();
    return 0;
  }

  MPI_Type_create_subarray(2, tile.size, tile.count, tile.start, MPI_ORDER_C, MPI_INT, &filetype);
  MPI_Type_commit(&filetype);
  for (int i = 0; i < MODES; ++i) {
    files[i] = open_file(argv[1], modes[i], filetype);
    check(MPI_File_set_atomicity(files[i], i == ATOMIC), "set_atomicity");
    write_tile(files[i], &tile, values); /* makes what all repetitions find */
  }
  MPI_Type_free(&filetype);
  for (int left = atoi(argv[6]); left > 0; left -= IN_A_ROW)
    for (int mode = 0; mode < MODES; ++mode)
      for (int i = 0; i < IN_A_ROW && i < left; ++i) {
        int64_t time = -meeting_start();
        write_tile(files[mode], &tile, values);
        time += now();
        meeting_maximum(&time, 1);
        tell(rank, modes[mode], time);
      }
  for (int i = 0; i < MODES; ++i) {
    verify(files[i], ranks, &tile, width, height, ghost);
    check(MPI_File_close(&files[i]), "closing");
  }
  meeting_close();
  free(values);
  MPI_Finalize();
  return 0;
}
