/* Measures or verifies MPI-IO on a named workload. An ordinary MPI program: it runs on whatever
 * MPI-IO its MPI has, or is given by a preload.
 *
 * A time runs from a start on which all ranks agreed (asleep until then) to the last rank's end:
 * open, set the view, move the data, close. The limit is timed in the same way: each rank moves as
 * many bytes by one pwrite or pread, contiguous in memory and in the file. Files are written anew;
 * files that are read were just written (the page cache is warm). Making datatypes is not timed.
 *
 * Rank 0 prints one JSON object a line: "begin" before each measurement, so that whoever waits
 * knows which one takes too long; "cell" after it; "mismatch" for each wrong result. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"
#include "options.h"
#include "oracle.h"

/* Each time but TOTAL is the longest of all ranks in that phase; LATE is how long after the agreed
 * start the last rank awoke. */
enum phase { OPEN, VIEW, ACCESS, CLOSE, TOTAL, LATE, PHASES };
static const char* const phase_names[PHASES] = {"open", "view", "access", "close", "total", "late"};

struct run {
  const struct options* options;
  struct share share;
  unsigned char* memory;                  /* what the rank writes, or reads into */
  unsigned char* expected;                /* its content before a write and after a read; NULL if not verifying */
  unsigned char* packed;                  /* of the limit */
  unsigned char* image;                   /* the oracle's file; NULL until it is needed */
  int64_t bytes, all_bytes, bytes_before; /* of this rank, of all, of the ranks below this one */
  char* path;
  char* limit_path;
  int file_is_right;  /* what path holds (known to rank 0), */
  int file_is_read;   /* and whether it has been read since it was written */
  int limit_is_right; /* what limit_path holds */
};

/* One measurement. */
struct cell {
  int64_t times[PHASES];
  int64_t last;  /* the end of the latest phase */
  int64_t bytes; /* that this rank moved */
};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "bench: %s: %s\n", what, why);
  usleep(100000); /* a launcher that is told to end all may lose what it has not yet forwarded */
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static void check_mpi(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fail(what, text);
}

static void check_system(int64_t result, const char* what) {
  if (result < 0) fail(what, strerror(errno));
}

static void* allocate(int64_t bytes) {
  void* memory = malloc((size_t)(bytes ? bytes : 1));
  if (!memory) fail("memory", "out of memory");
  return memory;
}

static void end_phase(struct cell* cell, enum phase phase) {
  const int64_t time = now();
  cell->times[phase] += time - cell->last;
  cell->last = time;
}

/* --------------------------------------------------------------------------------- the limit ---
 */

static void write_whole(int file, const unsigned char* data, int64_t bytes, int64_t offset) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t moved = pwrite(file, data + done, (size_t)(bytes - done), (off_t)(offset + done));
    check_system(moved, "writing without MPI");
    done += moved;
  }
}

static void read_whole(int file, unsigned char* data, int64_t bytes, int64_t offset) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t moved = pread(file, data + done, (size_t)(bytes - done), (off_t)(offset + done));
    check_system(moved, "reading without MPI");
    if (moved == 0) fail("reading without MPI", "the file ends early");
    done += moved;
  }
}

static void use_limit(struct run* run, struct cell* cell, int writing) {
  const int file = open(run->limit_path, writing ? O_RDWR | O_CREAT : O_RDONLY, 0644);
  check_system(file, run->limit_path);
  end_phase(cell, OPEN);
  if (writing)
    write_whole(file, run->packed, run->bytes, run->bytes_before);
  else
    read_whole(file, run->packed, run->bytes, run->bytes_before);
  cell->bytes = run->bytes;
  end_phase(cell, ACCESS);
  close(file);
  end_phase(cell, CLOSE);
}

/* ------------------------------------------------------------------------------------ MPI-IO ---
 */

static MPI_File open_file(const char* path, int writing, MPI_Info hints) {
  MPI_File file;
  const int mode = writing ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY;
  check_mpi(MPI_File_open(MPI_COMM_WORLD, path, mode, hints, &file), "MPI_File_open");
  return file;
}

static void call_mpi(MPI_File file, int writing, int collective, MPI_Offset offset, void* memory, int count,
                     MPI_Datatype type, struct cell* cell) {
  MPI_Status status;
  int moved;
  int code;
  if (writing && collective)
    code = MPI_File_write_at_all(file, offset, memory, count, type, &status);
  else if (writing)
    code = MPI_File_write_at(file, offset, memory, count, type, &status);
  else if (collective)
    code = MPI_File_read_at_all(file, offset, memory, count, type, &status);
  else
    code = MPI_File_read_at(file, offset, memory, count, type, &status);
  check_mpi(code, "the data access");
  MPI_Get_count(&status, MPI_BYTE, &moved);
  cell->bytes += moved;
}

static void use_view(struct run* run, struct access* accesses, const struct method* method, struct cell* cell) {
  MPI_File file = open_file(run->path, run->share.writing, method->hints);
  end_phase(cell, OPEN);
  for (int i = 0; i < run->share.accesses; ++i) {
    const struct access* access = &accesses[i];
    if (access->sets_view)
      check_mpi(MPI_File_set_view(file, access->displacement, access->etype, access->filetype, "native", method->hints),
                "MPI_File_set_view");
    end_phase(cell, VIEW);
    call_mpi(file, run->share.writing, method->call == COLLECTIVE, access->offset, run->memory + access->memory,
             access->count, access->memtype, cell);
    end_phase(cell, ACCESS);
  }
  check_mpi(MPI_File_close(&file), "MPI_File_close");
  end_phase(cell, CLOSE);
}

struct piece_calls {
  struct run* run;
  struct cell* cell;
  MPI_File file;
  long left;
};

static void call_for_piece(void* context, int64_t memory, int64_t file, int64_t length) {
  struct piece_calls* calls = context;
  if (calls->left-- <= 0) return;
  call_mpi(calls->file, calls->run->share.writing, 0, file, calls->run->memory + memory, (int)length, MPI_BYTE,
           calls->cell);
}

static void use_pieces(struct run* run, const struct method* method, struct cell* cell) {
  const int bounded = run->options->max_pieces > 0 && !run->options->verify;
  struct piece_calls calls = {.run = run, .cell = cell};
  calls.left = bounded ? run->options->max_pieces : INT64_MAX;
  calls.file = open_file(run->path, run->share.writing, method->hints);
  end_phase(cell, OPEN);
  share_pieces(&run->share, call_for_piece, &calls);
  end_phase(cell, ACCESS);
  check_mpi(MPI_File_close(&calls.file), "MPI_File_close");
  end_phase(cell, CLOSE);
}

/* What an access costs besides its data. */
static void use_open(struct run* run, const struct method* method, struct cell* cell) {
  MPI_File file = open_file(run->path, run->share.writing, method->hints);
  end_phase(cell, OPEN);
  check_mpi(MPI_File_close(&file), "MPI_File_close");
  end_phase(cell, CLOSE);
}

/* ------------------------------------------------------------------------- one measurement --- */

/* What the storage counts from here on belongs to one measurement: all files are prepared. */
static void reset_counts(const struct run* run) {
  if (!run->options->counts) return;
  meeting_wait();
  if (run->share.rank != 0) return;
  const int file = open(run->options->counts, O_WRONLY);
  check_system(file, run->options->counts);
  check_system(write(file, "0", 1), run->options->counts);
  close(file);
}

static void start_cell(const struct run* run, struct cell* cell) {
  reset_counts(run);
  cell->last = meeting_start();
  cell->times[LATE] = now() - cell->last;
  cell->times[TOTAL] = -cell->last;
}

/* All ranks then know the longest times and the bytes of all. */
static void end_cell(struct cell* cell) {
  cell->times[TOTAL] += now();
  meeting_maximum(cell->times, PHASES);
  MPI_Allreduce(MPI_IN_PLACE, &cell->bytes, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static struct cell measure_view(struct run* run, const struct method* method) {
  struct cell cell = {0};
  struct access* accesses = allocate(run->share.accesses * (int64_t)sizeof *accesses);
  for (int i = 0; i < run->share.accesses; ++i) share_access(&run->share, i, &accesses[i]);
  start_cell(run, &cell);
  use_view(run, accesses, method, &cell);
  end_cell(&cell);
  for (int i = 0; i < run->share.accesses; ++i) access_free(&accesses[i]);
  free(accesses);
  return cell;
}

static struct cell measure(struct run* run, const struct method* method) {
  struct cell cell = {0};
  if (method->call == COLLECTIVE || method->call == INDEPENDENT) return measure_view(run, method);
  start_cell(run, &cell);
  if (method->call == LIMIT)
    use_limit(run, &cell, run->share.writing);
  else if (method->call == OPENING)
    use_open(run, method, &cell);
  else
    use_pieces(run, method, &cell);
  end_cell(&cell);
  return cell;
}

/* The first file that a process opens costs more: opened, written a little and closed, apart. */
static struct cell measure_first(struct run* run) {
  struct cell cell = {0};
  char* path;
  long long word = run->share.rank;
  if (asprintf(&path, "%s.first", run->path) < 0) fail("memory", "out of memory");
  start_cell(run, &cell);
  MPI_File file = open_file(path, 1, run->options->hints);
  end_phase(&cell, OPEN);
  check_mpi(MPI_File_set_view(file, 0, MPI_LONG_LONG, MPI_LONG_LONG, "native", MPI_INFO_NULL), "MPI_File_set_view");
  end_phase(&cell, VIEW);
  call_mpi(file, 1, 1, run->share.rank, &word, 1, MPI_LONG_LONG, &cell);
  end_phase(&cell, ACCESS);
  check_mpi(MPI_File_close(&file), "MPI_File_close");
  end_phase(&cell, CLOSE);
  end_cell(&cell);
  if (run->share.rank == 0) unlink(path);
  free(path);
  return cell;
}

/* ------------------------------------------------------------------------------- the output --- */

static void print_begin(const struct run* run, const char* method) {
  if (run->share.rank != 0) return;
  printf("{\"event\": \"begin\", \"method\": \"%s\", \"direction\": \"%s\"}\n", method,
         run->share.writing ? "write" : "read");
  fflush(stdout);
}

static void print_counts(const struct run* run) {
  char text[1024] = "";
  if (!run->options->counts) return;
  const int file = open(run->options->counts, O_RDONLY);
  check_system(file, run->options->counts);
  check_system(read(file, text, sizeof text - 1), run->options->counts);
  close(file);
  text[strcspn(text, "\n")] = '\0';
  printf(", \"storage\": %s", text);
}

static void print_cell(const struct run* run, const char* method, const struct cell* cell) {
  if (run->share.rank != 0) return;
  printf("{\"event\": \"cell\", \"method\": \"%s\", \"direction\": \"%s\", \"bytes\": %lld", method,
         run->share.writing ? "write" : "read", (long long)cell->bytes);
  for (int i = 0; i < PHASES; ++i) printf(", \"%s\": %.9f", phase_names[i], (double)cell->times[i] * 1e-9);
  print_counts(run);
  printf("}\n");
  fflush(stdout);
}

/* Any rank may say so. */
static void print_mismatch(const struct run* run, const char* method, const char* where, int64_t at) {
  printf(
      "{\"event\": \"mismatch\", \"method\": \"%s\", \"direction\": \"%s\", \"rank\": %d, "
      "\"where\": \"%s\", \"at\": %lld}\n",
      method, run->share.writing ? "write" : "read", run->share.rank, where, (long long)at);
  fflush(stdout);
}

/* ----------------------------------------------------------------------- files and memory --- */

static const unsigned char* file_image(struct run* run) {
  if (!run->image) run->image = oracle_file(&run->share);
  return run->image;
}

static void write_expected_file(struct run* run) {
  const int file = open(run->path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  check_system(file, run->path);
  write_whole(file, file_image(run), run->share.file_bytes, 0);
  close(file);
}

static unsigned char* read_file(const char* path, int64_t* size) {
  const int file = open(path, O_RDONLY);
  check_system(file, path);
  *size = lseek(file, 0, SEEK_END);
  unsigned char* bytes = allocate(*size);
  read_whole(file, bytes, *size, 0);
  close(file);
  return bytes;
}

/* A page that is read for the first time since it was written costs more; the limit's first reading is not counted. */
static void read_through(const char* path) {
  int64_t size;
  free(read_file(path, &size));
}

static void remove_file(const char* path) {
  if (unlink(path) != 0 && errno != ENOENT) fail(path, strerror(errno));
}

/* Before each measurement: files to write are absent, files to read are right. Rank 0 alone acts on
 * the common file. Ends with a collective wait, in meeting_start() at the latest. */
static void prepare_file(struct run* run, const struct method* method) {
  const int writing = run->share.writing, limit = method->call == LIMIT;
  if (!writing && limit && !run->limit_is_right) {
    struct cell ignored = {0};
    use_limit(run, &ignored, 1);
    run->limit_is_right = 1;
  }
  if (run->share.rank != 0) return;
  if (writing) {
    remove_file(limit ? run->limit_path : run->path);
    if (!limit) run->file_is_right = run->file_is_read = 0;
  } else if (!limit) {
    if (!run->file_is_right) {
      write_expected_file(run);
      run->file_is_read = 0;
    }
    if (!run->file_is_read) read_through(run->path);
    run->file_is_right = run->file_is_read = 1;
  }
}

static void prepare_memory(struct run* run) {
  oracle_memory(&run->share, run->memory);
  if (!run->options->verify) return;
  memcpy(run->expected, run->memory, (size_t)run->share.memory_bytes);
}

static void plan_run(struct run* run, int writing) {
  const struct options* options = run->options;
  const int64_t bytes_of_limit = run->all_bytes;
  run->share.workload = options->workload;
  run->share.size = options->size;
  run->share.extra = options->extra;
  run->share.seed = options->seed;
  run->share.writing = writing;
  MPI_Comm_rank(MPI_COMM_WORLD, &run->share.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &run->share.ranks);
  share_plan(&run->share);
  run->bytes = share_bytes(&run->share);
  MPI_Allreduce(&run->bytes, &run->all_bytes, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Exscan(&run->bytes, &run->bytes_before, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (run->share.rank == 0) run->bytes_before = 0;
  if (run->all_bytes != bytes_of_limit) run->limit_is_right = 0; /* tile reads more than it writes */
  run->memory = allocate(run->share.memory_bytes);
  run->packed = allocate(run->bytes);
  run->expected = options->verify ? allocate(run->share.memory_bytes) : NULL;
  memset(run->packed, 1, (size_t)run->bytes);
  prepare_memory(run);
}

static void free_run(struct run* run) {
  free(run->memory);
  free(run->packed);
  free(run->image);
  run->image = NULL;
  free(run->expected);
  share_free(&run->share);
  run->share = (struct share){0};
}

/* ------------------------------------------------------------------------- verification --- */

/* Rank 0 compares the file with the oracle's. */
static int file_differs(struct run* run, const char* method) {
  int64_t size;
  unsigned char* found = read_file(run->path, &size);
  if (run->options->skip_holes && size == run->share.file_bytes) {
    unsigned char* covered = oracle_covered(&run->share, found);
    free(found);
    found = covered;
  }
  const unsigned char* expected = file_image(run);
  int64_t at = first_difference(found, expected, size < run->share.file_bytes ? size : run->share.file_bytes);
  if (at < 0 && size != run->share.file_bytes) at = size;
  if (at >= 0) print_mismatch(run, method, "file", at);
  free(found);
  run->file_is_right = at < 0;
  return at >= 0;
}

static int verify(struct run* run, const struct method* method) {
  const char* name = method->name;
  int64_t wrong = 0;
  if (!run->share.writing) memset(run->memory, 0xA5, (size_t)run->share.memory_bytes);
  struct cell cell = measure(run, method);
  const int64_t at = first_difference(run->memory, run->expected, run->share.memory_bytes);
  if (at >= 0) print_mismatch(run, name, "memory", at);
  if (cell.bytes != run->all_bytes && run->share.rank == 0) print_mismatch(run, name, "count", cell.bytes);
  if (run->share.writing && run->share.rank == 0) wrong = file_differs(run, name);
  wrong |= at >= 0 || cell.bytes != run->all_bytes;
  memcpy(run->memory, run->expected, (size_t)run->share.memory_bytes);
  meeting_maximum(&wrong, 1);
  print_cell(run, name, &cell);
  return wrong != 0;
}

/* ------------------------------------------------------------------------------------- main --- */

/* Returns whether the result is wrong. */
static int run_method(struct run* run, const struct method* method) {
  const int moves_data = method->call != LIMIT && method->call != OPENING;
  int wrong = 0;
  print_begin(run, method->name);
  prepare_file(run, method);
  if (run->options->verify) {
    wrong = moves_data && verify(run, method);
  } else {
    const struct cell cell = measure(run, method);
    print_cell(run, method->name, &cell);
  }
  if (run->share.writing && method->call == LIMIT) run->limit_is_right = 1;
  if (run->share.writing && moves_data && method->call != PIECES && !run->options->verify) run->file_is_right = 1;
  return wrong;
}

static int run_all(struct run* run) {
  const struct options* options = run->options;
  int wrong = 0;
  for (int d = 0; d < options->direction_count; ++d) {
    plan_run(run, options->directions[d]);
    if (d == 0 && !options->verify) {
      print_begin(run, "first");
      const struct cell cell = measure_first(run);
      print_cell(run, "first", &cell);
    }
    for (int r = 0; r < options->repetitions; ++r)
      for (int m = 0; m < options->method_count; ++m) wrong |= run_method(run, &options->methods[m]);
    free_run(run);
  }
  return wrong;
}

static void remove_files(struct run* run) {
  int rank;
  meeting_wait();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) remove_file(run->path);
  if (rank == 0) remove_file(run->limit_path);
}

int main(int argc, char** argv) {
  struct options options;
  struct run run = {.options = &options};
  MPI_Init(&argc, &argv);
  parse_options(argc, argv, &options);
  run.path = strdup(options.path);
  if (asprintf(&run.limit_path, "%s.limit", options.path) < 0) fail("memory", "out of memory");
  meeting_open();
  const int wrong = run_all(&run);
  remove_files(&run);
  meeting_close();
  free_options(&options);
  free(run.path);
  free(run.limit_path);
  MPI_Finalize();
  return wrong;
}
