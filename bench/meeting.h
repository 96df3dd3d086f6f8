/* A meeting place for the ranks of one machine, in a shared page: they wait for each other asleep,
 * leave at an agreed time, and compare clocks, all without the MPI's collectives (which may spin,
 * and take milliseconds where ranks outnumber cores). */
#ifndef MEETING_H
#define MEETING_H

#include <stdint.h>

enum { MAX_RANKS = 1024, MAX_TIMES = 8 };

/* Collective over MPI_COMM_WORLD; all ranks must be on one machine. */
void meeting_open(void);
void meeting_close(void);

/* How long a waiting rank sleeps before it drives the MPI and looks again: 0.1 ms at first. Longer where no rank
 * waits for another's messages, so that those who wait take no core. */
void meeting_nap(int64_t nanoseconds);

/* Collective. Returns in all ranks at about one time, on which they agreed; returns that time. */
int64_t meeting_start(void);

/* Collective. Gives each rank the maximum over all ranks of each time. */
void meeting_maximum(int64_t* times, int count);

/* Collective: waits for all, asleep. */
void meeting_wait(void);

/* Nanoseconds on CLOCK_MONOTONIC, which all processes of a machine share. */
int64_t now(void);

#endif
