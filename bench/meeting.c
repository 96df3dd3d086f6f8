#define _GNU_SOURCE
#include "meeting.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LEAD_NS = 10000000 };

struct page {
  atomic_int arrived; /* in all rounds together */
  atomic_int rounds;  /* complete ones */
  atomic_llong start; /* agreed by the last to arrive */
  int64_t times[MAX_RANKS][MAX_TIMES];
};

static struct page* page;
static int rank, ranks, rounds;
static int64_t nap_ns = 100000;

int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void require(int condition, const char* what) {
  if (condition) return;
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void meeting_open(void) {
  char name[] = "/dev/shm/stridio-bench-XXXXXX";
  int file = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  require(ranks <= MAX_RANKS, "too many ranks");
  if (rank == 0) {
    file = mkstemp(name);
    require(file >= 0 && ftruncate(file, sizeof *page) == 0, name);
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank != 0) file = open(name, O_RDWR | O_CLOEXEC);
  require(file >= 0, name);
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require(page != MAP_FAILED, "mmap");
  close(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(name);
}

void meeting_close(void) { munmap(page, sizeof *page); }

void meeting_nap(int64_t nanoseconds) { nap_ns = nanoseconds; }

static void sleep_until(int64_t time) {
  const struct timespec until = {time / 1000000000, time % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
  }
}

/* A waiting rank drives the MPI: another may depend on messages that it has yet to send. */
static void nap(void) {
  int flag;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  sleep_until(now() + nap_ns);
}

/* The last to arrive ends the round. No other can change `start` before all have left this one. */
void meeting_wait(void) {
  ++rounds;
  if (atomic_fetch_add(&page->arrived, 1) + 1 == ranks * rounds) {
    atomic_store(&page->start, now() + LEAD_NS);
    atomic_store(&page->rounds, rounds);
  }
  while (atomic_load(&page->rounds) < rounds) nap();
}

int64_t meeting_start(void) {
  meeting_wait();
  const int64_t start = atomic_load(&page->start);
  sleep_until(start);
  return start;
}

void meeting_maximum(int64_t* times, int count) {
  for (int i = 0; i < count; ++i) page->times[rank][i] = times[i];
  meeting_wait();
  for (int i = 0; i < count; ++i)
    for (int other = 0; other < ranks; ++other)
      if (page->times[other][i] > times[i]) times[i] = page->times[other][i];
  meeting_wait();
}
