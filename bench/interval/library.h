/* The FLASH checkpoint of examples/ through a library, again and again, in the way of interval.c: what the example's writer
 * does, from a start on which all ranks agreed to the last one's end.
 *
 * usage: mpiexec -n RANKS PROGRAM write NAME, with REPETITIONS in the environment */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"

static void (*const write_once)(const char* path, const struct flash* mesh) = write_checkpoint;

static void write_often(const char* name, const struct flash* mesh) {
  const char* const path = strncmp(name, "interval:", 9) == 0 ? name + 9 : name;
  int rank;
  MPI_Comm_rank(mesh->comm, &rank);
  meeting_open();
  for (int repetition = -1; repetition < atoi(getenv("REPETITIONS")); ++repetition) {
    if (rank == 0) unlink(path);
    int64_t time = -meeting_start();
    write_once(name, mesh);
    time += now();
    meeting_maximum(&time, 1);
    if (rank == 0 && repetition >= 0) printf("{\"mode\": \"library\", \"seconds\": %.9f}\n", (double)time * 1e-9);
  }
  meeting_close();
}

int main(int argc, char** argv) {
  const struct flash_format format = {count_blocks, write_often, read_checkpoint};
  return flash_main(argc, argv, &format);
}
