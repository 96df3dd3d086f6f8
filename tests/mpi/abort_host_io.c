/* Preloaded between Stridio and an MPI: every function of MPI-IO aborts. A program that runs has reached
 * none of the host's. The list is held against the libraries' own by exports_test.py. */
#include <stdio.h>
#include <stdlib.h>

static void stop(const char* name) {
  fprintf(stderr, "abort_host_io: %s reached the host MPI\n", name);
  abort();
}

#define STOP_1(name) \
  void name(void) { stop(#name); }
#define STOP(name)       \
  STOP_1(MPI_##name)     \
  STOP_1(PMPI_##name)    \
  STOP_1(MPI_##name##_c) \
  STOP_1(PMPI_##name##_c)
#define FAMILY(name)          \
  STOP(File_##name)           \
  STOP(File_##name##_all)     \
  STOP(File_##name##_at)      \
  STOP(File_##name##_at_all)  \
  STOP(File_##name##_shared)  \
  STOP(File_i##name)          \
  STOP(File_i##name##_all)    \
  STOP(File_i##name##_at)     \
  STOP(File_i##name##_at_all) \
  STOP(File_i##name##_shared) \
  STOP(File_##name##_ordered) \
  SPLIT(File_##name##_all)    \
  SPLIT(File_##name##_at_all) \
  SPLIT(File_##name##_ordered)
#define SPLIT(name)        \
  STOP(name##_begin)       \
  STOP_1(MPI_##name##_end) \
  STOP_1(PMPI_##name##_end)
#define PLAIN(name)  \
  STOP_1(MPI_##name) \
  STOP_1(PMPI_##name)

FAMILY(read)
FAMILY(write)
STOP(Register_datarep)
STOP(File_get_type_extent)
PLAIN(File_c2f)
PLAIN(File_call_errhandler)
PLAIN(File_close)
PLAIN(File_create_errhandler)
PLAIN(File_delete)
PLAIN(File_f2c)
PLAIN(File_fromint)
PLAIN(File_get_amode)
PLAIN(File_get_atomicity)
PLAIN(File_get_byte_offset)
PLAIN(File_get_errhandler)
PLAIN(File_get_group)
PLAIN(File_get_info)
PLAIN(File_get_position)
PLAIN(File_get_position_shared)
PLAIN(File_get_size)
PLAIN(File_get_view)
PLAIN(File_open)
PLAIN(File_preallocate)
PLAIN(File_seek)
PLAIN(File_seek_shared)
PLAIN(File_set_atomicity)
PLAIN(File_set_errhandler)
PLAIN(File_set_info)
PLAIN(File_set_size)
PLAIN(File_set_view)
PLAIN(File_sync)
PLAIN(File_toint)
STOP_1(MPIX_File_create_errhandler_x)
STOP_1(PMPIX_File_create_errhandler_x)
