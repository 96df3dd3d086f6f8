/* The command line of the benchmark program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "workload.h"

enum { MAX_METHODS = 16 };
enum call { LIMIT, COLLECTIVE, INDEPENDENT, PIECES, OPENING, CALLS };

struct method {
  char* name; /* as it was given, hints and all */
  enum call call;
  MPI_Info hints; /* those of all methods, and its own */
};

struct options {
  const struct workload* workload;
  long size, extra;
  uint64_t seed;
  const char* path;
  struct method methods[MAX_METHODS];
  int method_count;
  int directions[2]; /* 1: write */
  int direction_count;
  int repetitions;
  long max_pieces; /* a rank in one measurement of PIECES; 0: all */
  int verify;
  int skip_holes;     /* when verifying */
  const char* counts; /* of the storage: a write resets them, a read gives JSON; NULL: none */
  MPI_Info hints;     /* of all methods */
};

/* After MPI_Init. A wrong command line, or a request for help, ends the program. */
void parse_options(int argc, char** argv, struct options* options);
void free_options(struct options* options);

#endif
