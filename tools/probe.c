// The probe that `stridio doctor` runs: a few ranks write a file together, read each other's part,
// and say through which library. Built per ABI family without any MPI library: its MPI symbols are
// weak, so that the loader takes them from what is preloaded, as a real program's would be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#pragma weak MPI_Init
#pragma weak MPI_Finalize
#pragma weak MPI_Abort
#pragma weak MPI_Barrier
#pragma weak MPI_Comm_rank
#pragma weak MPI_Comm_size
#pragma weak MPI_Error_string
#pragma weak MPI_File_open
#pragma weak MPI_File_close
#pragma weak MPI_File_sync
#pragma weak MPI_File_read_at_all
#pragma weak MPI_File_write_at_all
#ifdef OPEN_MPI
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_info_null
#pragma weak ompi_mpi_int
#endif

enum { kInts = 1000 };

static void check(int code, const char* call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  printf("stridio-probe: %s: %s\n", call, text);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value(int rank, int i) { return rank * kInts + i; }

static void write_own(MPI_File file, int rank) {
  int data[kInts];
  for (int i = 0; i < kInts; ++i) data[i] = value(rank, i);
  check(MPI_File_write_at_all(file, (MPI_Offset)sizeof data * rank, data, kInts, MPI_INT, MPI_STATUS_IGNORE),
        "MPI_File_write_at_all");
}

static int read_of(MPI_File file, int rank) {
  int data[kInts] = {0};
  int wrong = 0;
  check(MPI_File_read_at_all(file, (MPI_Offset)sizeof data * rank, data, kInts, MPI_INT, MPI_STATUS_IGNORE),
        "MPI_File_read_at_all");
  for (int i = 0; i < kInts; ++i) wrong += data[i] != value(rank, i);
  return wrong;
}

static int write_and_read(const char* path, int rank, int ranks) {
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "MPI_File_open");
  write_own(file, rank);
  check(MPI_File_sync(file), "MPI_File_sync");
  MPI_Barrier(MPI_COMM_WORLD);
  check(MPI_File_sync(file), "MPI_File_sync");
  const int wrong = read_of(file, (rank + 1) % ranks);
  check(MPI_File_close(&file), "MPI_File_close");
  return wrong;
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  Dl_info owner = {0};
  if (argc != 2 || !MPI_Init || !MPI_File_open) {
    puts(argc != 2 ? "usage: stridio-probe FILE" : "stridio-probe: no MPI is preloaded");
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int wrong = write_and_read(argv[1], rank, ranks);
  dladdr((void*)MPI_File_open, &owner);
  if (wrong)
    printf("stridio-probe: rank %d read back %d wrong values\n", rank, wrong);
  else if (rank == 0)
    printf("stridio-probe ok: %d ranks through %s\n", ranks, owner.dli_fname);
  fflush(stdout);
  MPI_Finalize();
  return wrong != 0;
}
