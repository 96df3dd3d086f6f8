/* How much of a nonblocking collective write or read is hidden behind a computation that makes no
 * MPI call, under MPI_THREAD_FUNNELED.
 *
 * Each rank moves every n-th piece of the file, so that the two phases must exchange. In turns: the
 * access alone, the computation alone, both together; each from a start on which all ranks agreed
 * to the last rank's end. Before the turns the computation is made as long as the access. Rank 0
 * prints one JSON object a repetition. The bytes are checked at the end.
 *
 * usage: mpiexec -n RANKS overlap FILE MIB PIECE write|read REPETITIONS [KEY=VALUE]... */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meeting.h"

enum { CALIBRATIONS = 3 };
enum part { ACCESS, COMPUTE, BOTH, PARTS };

struct run {
  MPI_File file;
  int writing, rank, count;
  unsigned char* memory;
  int64_t rounds; /* of the computation */
};

static void check(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "overlap: %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Nothing but the processor, and no way to leave anything out. */
static void compute(int64_t rounds) {
  static volatile uint64_t kept = 1;
  uint64_t state = kept;
  for (int64_t i = 0; i < rounds; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  kept = state;
}

static MPI_Request start_access(const struct run* run) {
  MPI_Request request;
  check(run->writing ? MPI_File_iwrite_at_all(run->file, 0, run->memory, run->count, MPI_BYTE, &request)
                     : MPI_File_iread_at_all(run->file, 0, run->memory, run->count, MPI_BYTE, &request),
        "starting the access");
  return request;
}

static int64_t measure(const struct run* run, enum part part) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  int64_t time = -meeting_start();
  if (part != COMPUTE) request = start_access(run);
  if (part != ACCESS) compute(run->rounds);
  check(MPI_Wait(&request, &status), "the access");
  time += now();
  meeting_maximum(&time, 1);
  if (part != COMPUTE) {
    int moved;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    if (moved != run->count) check(MPI_ERR_IO, "the bytes moved");
  }
  return time;
}

/* All ranks at once, as in the measurements. */
static void calibrate(struct run* run) {
  int64_t access = 0;
  run->rounds = 10000000;
  measure(run, ACCESS); /* the first makes what later ones find */
  for (int i = 0; i < CALIBRATIONS; ++i) access += measure(run, ACCESS) / CALIBRATIONS;
  /* Twice: a short one may escape the other programs of the machine. */
  for (int i = 0; i < 2; ++i) {
    const int64_t compute = measure(run, COMPUTE);
    run->rounds = (int64_t)((double)run->rounds * (double)access / (double)compute);
  }
}

static void fill(const struct run* run) {
  for (int i = 0; i < run->count; ++i) run->memory[i] = (unsigned char)(run->rank * 31 + i % 251 + i / 4096);
}

static void verify(struct run* run) {
  unsigned char* expected = run->memory;
  run->memory = calloc((size_t)run->count, 1);
  MPI_Barrier(MPI_COMM_WORLD); /* all have written */
  check(MPI_File_read_at_all(run->file, 0, run->memory, run->count, MPI_BYTE, MPI_STATUS_IGNORE), "reading back");
  if (memcmp(run->memory, expected, (size_t)run->count) != 0) check(MPI_ERR_IO, "wrong bytes");
  free(expected);
}

static void open_file(struct run* run, const char* path, int ranks, int piece, char** hints) {
  MPI_Datatype block, filetype;
  MPI_Info info;
  MPI_Info_create(&info);
  for (; *hints; ++hints) {
    char* value = strchr(*hints, '=');
    *value++ = '\0';
    MPI_Info_set(info, *hints, value);
  }
  check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &run->file), path);
  MPI_Type_contiguous(piece, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)piece * ranks, &filetype);
  MPI_Type_commit(&filetype);
  check(MPI_File_set_view(run->file, (MPI_Offset)run->rank * piece, MPI_BYTE, filetype, "native", info), "the view");
  MPI_Type_free(&block);
  MPI_Type_free(&filetype);
  MPI_Info_free(&info);
}

int main(int argc, char** argv) {
  struct run run = {0};
  int provided, ranks;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (argc < 6) return fprintf(stderr, "overlap: see the top of overlap.c\n"), 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  run.count = atoi(argv[2]) * (1 << 20) / ranks;
  run.memory = malloc((size_t)run.count);
  fill(&run);
  meeting_open();
  open_file(&run, argv[1], ranks, atoi(argv[3]), argv + 6);
  check(MPI_File_write_at_all(run.file, 0, run.memory, run.count, MPI_BYTE, MPI_STATUS_IGNORE), "writing");
  run.writing = strcmp(argv[4], "write") == 0;
  calibrate(&run);
  for (int repetition = 0; repetition < atoi(argv[5]); ++repetition) {
    int64_t times[PARTS];
    for (enum part part = ACCESS; part < PARTS; ++part) times[part] = measure(&run, part);
    if (run.rank != 0) continue;
    printf("{\"access\": %.6f, \"compute\": %.6f, \"both\": %.6f}\n", (double)times[ACCESS] * 1e-9,
           (double)times[COMPUTE] * 1e-9, (double)times[BOTH] * 1e-9);
    fflush(stdout);
  }
  if (provided < MPI_THREAD_FUNNELED) check(MPI_ERR_OTHER, "MPI_THREAD_FUNNELED");
  verify(&run);
  check(MPI_File_close(&run.file), "closing");
  meeting_close();
  free(run.memory);
  MPI_Finalize();
  return 0;
}
