/* Parallel HDF5 with much metadata: groups with an attribute and a chunked data set each, and a cache that holds little of
 * them (SMALL_CACHE=1), so that metadata are written, forgotten, read and written again by other ranks, without a flush.
 * ATOMIC=1: in atomic mode.
 *
 *   write FILE GROUPS    creates, looks at all again and changes their attributes
 *   update FILE GROUPS   opens for update, changes the attributes, adds as many groups
 *   abandon FILE GROUPS  as write, flushes, adds more, and ends without a close
 *   read FILE GROUPS     verifies what write or abandon left
 *   reread FILE GROUPS   verifies what update left */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARE = 100 }; /* numbers that a rank writes into a data set */

static int rank, size;
static hid_t transfer;

static hid_t checked(hid_t id, const char* what) {
  if (id >= 0) return id;
  fprintf(stderr, "rank %d: failed: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}
#define CHECK(call) checked(call, #call)

static hid_t access_list(void) {
  hid_t access = CHECK(H5Pcreate(H5P_FILE_ACCESS));
  CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
  if (!getenv("SMALL_CACHE")) return access;
  H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
  CHECK(H5Pget_mdc_config(access, &cache));
  cache.set_initial_size = 1;
  cache.initial_size = cache.max_size = 64 << 10;
  cache.min_size = 32 << 10;
  cache.dirty_bytes_threshold = 16 << 10;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  CHECK(H5Pset_mdc_config(access, &cache));
  return access;
}

static hid_t ready(hid_t file) {
  if (getenv("ATOMIC")) CHECK(H5Fset_mpi_atomicity(file, 1));
  return file;
}

static hid_t open_group(hid_t file, int number) {
  char name[32];
  snprintf(name, sizeof name, "group%d", number);
  return CHECK(H5Gopen2(file, name, H5P_DEFAULT));
}

static void make_group(hid_t file, int number) {
  const hsize_t whole = (hsize_t)size * SHARE, most = H5S_UNLIMITED, chunk = 37, start = (hsize_t)rank * SHARE,
                count = SHARE;
  char name[32];
  snprintf(name, sizeof name, "group%d", number);
  hid_t group = CHECK(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  hid_t one = CHECK(H5Screate(H5S_SCALAR));
  hid_t attribute = CHECK(H5Acreate2(group, "number", H5T_NATIVE_INT, one, H5P_DEFAULT, H5P_DEFAULT));
  CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &number));
  hid_t creation = CHECK(H5Pcreate(H5P_DATASET_CREATE));
  CHECK(H5Pset_chunk(creation, 1, &chunk));
  hid_t space = CHECK(H5Screate_simple(1, &whole, &most)), memory = CHECK(H5Screate_simple(1, &count, NULL));
  CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
  hid_t data = CHECK(H5Dcreate2(group, "data", H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  int values[SHARE];
  for (int i = 0; i < SHARE; ++i) values[i] = number * 1000 + rank * SHARE + i;
  CHECK(H5Dwrite(data, H5T_NATIVE_INT, memory, space, transfer, values));
  H5Dclose(data), H5Sclose(memory), H5Sclose(space), H5Pclose(creation), H5Aclose(attribute), H5Sclose(one),
      H5Gclose(group);
}

/* The attribute was `old`; 1 if not. */
static int change_number(hid_t file, int group_number, int old, int new) {
  hid_t group = open_group(file, group_number), attribute = CHECK(H5Aopen(group, "number", H5P_DEFAULT));
  int found = old + 1;
  CHECK(H5Aread(attribute, H5T_NATIVE_INT, &found));
  if (new != old) CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &new));
  H5Aclose(attribute), H5Gclose(group);
  return found != old;
}

/* Any number of ranks reads a share; 1 if it is wrong. */
static int check_data(hid_t file, int number) {
  hid_t group = open_group(file, number), data = CHECK(H5Dopen2(group, "data", H5P_DEFAULT));
  hid_t space = CHECK(H5Dget_space(data));
  hsize_t whole;
  CHECK(H5Sget_simple_extent_dims(space, &whole, NULL));
  const hsize_t start = whole * rank / size, count = whole * (rank + 1) / size - start;
  hid_t memory = CHECK(H5Screate_simple(1, &count, NULL));
  CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL));
  int* values = calloc(count + 1, sizeof *values);
  CHECK(H5Dread(data, H5T_NATIVE_INT, memory, space, transfer, values));
  int wrong = 0;
  for (hsize_t i = 0; i < count; ++i) wrong |= values[i] != number * 1000 + (int)(start + i);
  free(values);
  H5Sclose(memory), H5Sclose(space), H5Dclose(data), H5Gclose(group);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const char *mode = argv[1], *path = argv[2];
  const int groups = atoi(argv[3]);
  transfer = CHECK(H5Pcreate(H5P_DATASET_XFER));
  CHECK(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE));
  hid_t access = access_list(), file;
  int wrong = 0;
  if (!strcmp(mode, "write") || !strcmp(mode, "abandon")) {
    file = ready(CHECK(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)));
    for (int i = 0; i < groups; ++i) make_group(file, i);
    for (int i = 0; i < groups; ++i) wrong += change_number(file, i, i, -i);
    if (!strcmp(mode, "abandon")) {
      CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL));
      make_group(file, groups);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  } else if (!strcmp(mode, "update")) {
    file = ready(CHECK(H5Fopen(path, H5F_ACC_RDWR, access)));
    for (int i = 0; i < groups; ++i) wrong += change_number(file, i, -i, i + 7);
    for (int i = groups; i < 2 * groups; ++i) make_group(file, i);
  } else {
    file = CHECK(H5Fopen(path, H5F_ACC_RDONLY, access));
    const int again = !strcmp(mode, "reread");
    for (int i = 0; i < groups * (1 + again); ++i) {
      const int number = !again ? -i : i < groups ? i + 7 : i;
      wrong += change_number(file, i, number, number) + check_data(file, i);
    }
  }
  CHECK(H5Fclose(file));
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (wrong && rank == 0) fprintf(stderr, "%s: %d wrong\n", mode, wrong);
  MPI_Finalize();
  return wrong != 0;
}
