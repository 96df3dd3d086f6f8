/* A FLASH-style checkpoint: what the HDF5 and the PnetCDF program share.
 *
 * In memory a rank holds its blocks one after another, each with guard cells on all sides and the
 * variable index fastest: unk[block][k][j][i][variable]. In the file each variable is an array of
 * its own without guard cells: variable[block][k][j][i]. Writing is thus a transposition of small
 * pieces (8 bytes each).
 *
 * Every value is a function of its place, so that any reader with any number of ranks can verify
 * it. */
#ifndef FLASH_H
#define FLASH_H

#include <mpi.h>

enum {
  FLASH_BLOCKS_PER_RANK = 80,
  FLASH_CELLS = 8,                            /* of a block, along each axis */
  FLASH_GUARD = 4,                            /* guard cells on each side */
  FLASH_SIDE = FLASH_CELLS + 2 * FLASH_GUARD, /* of a block in memory */
  FLASH_VARIABLES = 24
};

extern const char* const flash_variable_names[FLASH_VARIABLES];

/* The blocks that this rank writes or reads, and their memory. */
struct flash {
  MPI_Comm comm;
  long total_blocks; /* in the whole file */
  long first_block;  /* of this rank */
  long blocks;       /* of this rank */
  double (*unk)[FLASH_SIDE][FLASH_SIDE][FLASH_SIDE][FLASH_VARIABLES];
};

/* A file format: three collective functions. A failure ends the program with a message. */
struct flash_format {
  long (*count_blocks)(const char* path, MPI_Comm comm);
  void (*write)(const char* path, const struct flash* mesh);
  void (*read)(const char* path, struct flash* mesh);
};

/* `PROGRAM write FILE`, `PROGRAM read FILE`: runs one, timed, and prints a line. Reading verifies
 * every value. Returns the exit status of the program. */
int flash_main(int argc, char** argv, const struct flash_format* format);

/* Ends all ranks with this message. */
void flash_fail(const char* what, const char* why);

#endif
