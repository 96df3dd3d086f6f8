/* The expected bytes: each byte of a file is a function of its offset and the seed. */
#ifndef ORACLE_H
#define ORACLE_H

#include "workload.h"

/* The buffer that the share's rank writes, and reads back: guard bytes wherever no piece lies. */
void oracle_memory(const struct share* share, unsigned char* memory);

/* The file that all ranks write together; `share` is any one rank's. To be freed. */
unsigned char* oracle_file(const struct share* share);

/* Of a file of that length what the pieces cover, and zeros between. To be freed. */
unsigned char* oracle_covered(const struct share* share, const unsigned char* file);

/* Where two images differ first, or -1. */
int64_t first_difference(const unsigned char* a, const unsigned char* b, int64_t bytes);

#endif
