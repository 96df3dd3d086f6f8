/* Workloads: which bytes of a file each rank moves, and where in its memory they lie.
 *
 * Each is described twice. `pieces` says by plain arithmetic which memory bytes go to which file
 * bytes, and is what results are verified against; `access` says the same in MPI datatypes, and is
 * what is measured. All sizes and places are in bytes unless said otherwise. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <mpi.h>
#include <stdint.h>

enum { MAX_DIMENSIONS = 5 };

/* A box of elements, cut from an array in the file and from one in memory. The last dimension is
 * the fastest. */
struct box {
  int dimensions;
  int64_t element; /* bytes of one */
  int64_t count[MAX_DIMENSIONS];
  int64_t file_size[MAX_DIMENSIONS], file_start[MAX_DIMENSIONS];
  int64_t memory_size[MAX_DIMENSIONS], memory_start[MAX_DIMENSIONS];
  int64_t file_base, memory_base; /* where the arrays begin */
};

/* One rank's part. */
struct share {
  const struct workload* workload;
  long size, extra; /* the workload's two parameters */
  uint64_t seed;
  int writing;
  int ranks, rank;

  /* Set by plan(). Access i moves the boxes [i * boxes / accesses, (i + 1) * boxes / accesses). */
  int64_t file_bytes;   /* of the whole file */
  int64_t memory_bytes; /* of this rank's buffer */
  int accesses;         /* calls that move data */
  int boxes;
  struct box* box;

  int64_t* places; /* of unstruc, which has no boxes: where its pieces lie, ascending */
  int64_t place_count;
};

/* One MPI-IO call. The types are committed, and made anew for each access. */
struct access {
  int sets_view; /* before this call */
  MPI_Offset displacement;
  MPI_Datatype etype, filetype;
  MPI_Offset offset; /* in etypes */
  int64_t memory;    /* where in the buffer `memtype` begins */
  MPI_Datatype memtype;
  int count;
};

typedef void piece_visitor(void* context, int64_t memory, int64_t file, int64_t length);

struct workload {
  const char* name;
  const char* size_is;  /* what the parameters mean */
  const char* extra_is; /* NULL: none */
  long size, extra;     /* their defaults */
  int square;           /* runs on square numbers of ranks only */
  void (*plan)(struct share* share);
  void (*pieces)(const struct share* share, piece_visitor* visit, void* context);
  void (*access)(const struct share* share, int index, struct access* access);
};

extern const struct workload workloads[];
extern const int workload_count;

/* NULL where there is none of this name. */
const struct workload* find_workload(const char* name);

/* Completes a share whose first fields (up to `rank`) are set. */
void share_plan(struct share* share);
void share_free(struct share* share);

/* All pieces in data order, neighbours merged. */
void share_pieces(const struct share* share, piece_visitor* visit, void* context);

/* The bytes that the share moves. */
int64_t share_bytes(const struct share* share);

void share_access(const struct share* share, int index, struct access* access);
void access_free(struct access* access);

#endif
