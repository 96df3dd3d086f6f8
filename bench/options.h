/* The command line of the benchmark program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "workload.h"

enum { MAX_METHODS = 16 };
enum method { LIMIT, COLLECTIVE, INDEPENDENT, PIECES, METHODS };
extern const char* const method_names[METHODS];

struct options {
  const struct workload* workload;
  long size, extra;
  uint64_t seed;
  const char* path;
  enum method methods[MAX_METHODS];
  int method_count;
  int directions[2]; /* 1: write */
  int direction_count;
  int repetitions;
  long max_pieces; /* a rank in one measurement of PIECES; 0: all */
  int verify;
  const char* counts; /* of the storage: a write resets them, a read gives JSON; NULL: none */
  MPI_Info hints;
};

/* After MPI_Init. A wrong command line, or a request for help, ends the program. */
void parse_options(int argc, char** argv, struct options* options);

#endif
