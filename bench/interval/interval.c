/* What an interval file costs and saves: one workload, written by its own view and read back by others, from a start on which
 * all ranks agreed to the last rank's end: open, set the view, move the data, sync (of a writer), close. All modes in turns.
 *
 * usage: mpiexec -n RANKS interval FILE WORKLOAD REPETITIONS MODE...
 *   limit                 one contiguous pwrite and fsync a rank, of the same bytes
 *   CALL:PREFIX           writes FILE; CALL is collective or independent, PREFIX goes before the name (interval:, or none);
 *                         CALL-cached asks for the write cache, which is off otherwise
 *   read:PREFIX:VIEW      reads back what CALL:PREFIX wrote; VIEW is rows (a contiguous part each) or cyclic (4 KiB in turns)
 * Rank 0 prints one JSON object each. What is read must be the same whatever the prefix. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"
#include "workload.h"

enum { CYCLE = 4096, VIEWS = 2 };

static int rank, ranks;
static struct share share;
static unsigned char* memory;
static int64_t bytes, before; /* of this rank, of the ranks below */

static void fail(const char* what, const char* why) {
  fprintf(stderr, "interval: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static void check(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fail(what, text);
}

static void write_limit(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT, 0666);
  if (file < 0) fail(path, "cannot be opened");
  for (int64_t done = 0; done < bytes;) {
    const ssize_t moved = pwrite(file, memory + done, (size_t)(bytes - done), before + done);
    if (moved < 0) fail(path, "cannot be written");
    done += moved;
  }
  if (fsync(file) != 0) fail(path, "cannot be made durable");
  close(file);
}

static void write_view(const char* name, int collective, int cached, struct access* accesses) {
  MPI_File file;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "stridio_cache", cached ? "enable" : "disable");
  check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), name);
  MPI_Info_free(&info);
  for (int i = 0; i < share.accesses; ++i) {
    const struct access* access = &accesses[i];
    if (access->sets_view)
      check(MPI_File_set_view(file, access->displacement, access->etype, access->filetype, "native", MPI_INFO_NULL),
            name);
    void* from = memory + access->memory;
    check(collective
              ? MPI_File_write_at_all(file, access->offset, from, access->count, access->memtype, MPI_STATUS_IGNORE)
              : MPI_File_write_at(file, access->offset, from, access->count, access->memtype, MPI_STATUS_IGNORE),
          name);
  }
  check(MPI_File_sync(file), name);
  check(MPI_File_close(&file), name);
}

/* Its bytes are this rank's part of the whole file. */
static void read_view(const char* name, int cyclic, unsigned char* to, int64_t length) {
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), name);
  if (cyclic) {
    MPI_Datatype piece, cycle;
    MPI_Type_contiguous(CYCLE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)CYCLE * ranks, &cycle);
    MPI_Type_commit(&cycle);
    check(MPI_File_set_view(file, (MPI_Offset)CYCLE * rank, MPI_BYTE, cycle, "native", MPI_INFO_NULL), name);
    MPI_Type_free(&piece);
    MPI_Type_free(&cycle);
  }
  check(MPI_File_read_at_all(file, cyclic ? 0 : length * rank, to, (int)length, MPI_BYTE, MPI_STATUS_IGNORE), name);
  check(MPI_File_close(&file), name);
}

static uint64_t sum_of(const unsigned char* data, int64_t length) {
  uint64_t sum = 14695981039346656037u;
  for (int64_t i = 0; i < length; ++i) sum = (sum ^ data[i]) * 1099511628211u;
  return sum;
}

/* All are asleep before the start; the file is new where it is written. */
static int64_t measure(const char* mode, const char* path) {
  static uint64_t sums[VIEWS];
  const int reading = strncmp(mode, "read:", 5) == 0;
  const char* prefix = strchr(mode, ':');
  const char* view = reading ? strrchr(mode, ':') + 1 : NULL;
  char name[4096], *real = NULL;
  prefix = prefix ? prefix + 1 : "";
  const int is_interval = strncmp(prefix, "interval", 8) == 0;
  if (asprintf(&real, "%s%s", path, is_interval ? ".interval" : ".flat") < 0) fail("memory", "out of memory");
  snprintf(name, sizeof name, "%s%s", is_interval && !reading ? "interval:" : "", real);
  struct access* accesses = calloc((size_t)share.accesses, sizeof *accesses);
  const int64_t part = share.file_bytes / ranks / CYCLE * CYCLE;
  unsigned char* back = reading ? malloc((size_t)part) : NULL;
  if (reading) memset(back, 0, (size_t)part);
  for (int i = 0; i < share.accesses && !reading; ++i) share_access(&share, i, &accesses[i]);
  if (!reading && rank == 0) unlink(real);
  int64_t time = -meeting_start();
  if (reading)
    read_view(name, strcmp(view, "cyclic") == 0, back, part);
  else if (strcmp(mode, "limit") == 0)
    write_limit(name);
  else
    write_view(name, strncmp(mode, "collective", 10) == 0, strstr(mode, "-cached:") != NULL, accesses);
  time += now();
  meeting_maximum(&time, 1);
  if (reading) {
    uint64_t* known = &sums[strcmp(view, "cyclic") == 0];
    const uint64_t sum = sum_of(back, part);
    if (*known && *known != sum) fail(mode, "other bytes than in another mode");
    *known = sum;
  }
  for (int i = 0; i < share.accesses && !reading; ++i) access_free(&accesses[i]);
  free(accesses);
  free(back);
  free(real);
  return time;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 5) return fprintf(stderr, "interval: see the top of interval.c\n"), 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct workload* workload = find_workload(argv[2]);
  if (!workload) fail(argv[2], "no such workload");
  share = (struct share){.workload = workload,
                         .size = workload->size,
                         .extra = workload->extra,
                         .seed = 1,
                         .writing = 1,
                         .ranks = ranks,
                         .rank = rank};
  share_plan(&share);
  bytes = share_bytes(&share);
  MPI_Exscan(&bytes, &before, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  memory = malloc((size_t)(share.memory_bytes > bytes ? share.memory_bytes : bytes));
  for (int64_t i = 0; i < share.memory_bytes; ++i)
    memory[i] = (unsigned char)((i * 2654435761u + (unsigned)rank * 97u) >> 8);
  meeting_open();
  /* The first file of a process costs more: not counted. */
  for (int repetition = -1; repetition < atoi(argv[3]); ++repetition)
    for (int i = 4; i < argc; ++i) {
      const int64_t time = measure(argv[i], argv[1]);
      if (rank != 0 || repetition < 0) continue;
      printf("{\"mode\": \"%s\", \"seconds\": %.9f, \"bytes\": %lld}\n", argv[i], (double)time * 1e-9,
             (long long)share.file_bytes);
      fflush(stdout);
    }
  meeting_close();
  share_free(&share);
  free(memory);
  MPI_Finalize();
  return 0;
}
