// MPI-4's prototypes for hosts whose header stops earlier, as weak references: Stridio defines them.
#pragma once

#include <mpi.h>

extern "C" {

#if defined(OPEN_MPI)
typedef int(MPI_Datarep_conversion_function_c)(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset, void*);

#define STRIDIO_DECLARE(name, ...)                   \
  int MPI_##name(__VA_ARGS__) __attribute__((weak)); \
  int PMPI_##name(__VA_ARGS__) __attribute__((weak));
#define STRIDIO_DECLARE_FAMILY(name, buffer)                                                                    \
  STRIDIO_DECLARE(File_##name##_at_c, MPI_File, MPI_Offset, buffer, MPI_Count, MPI_Datatype, MPI_Status*)       \
  STRIDIO_DECLARE(File_##name##_at_all_c, MPI_File, MPI_Offset, buffer, MPI_Count, MPI_Datatype, MPI_Status*)   \
  STRIDIO_DECLARE(File_i##name##_at_c, MPI_File, MPI_Offset, buffer, MPI_Count, MPI_Datatype, MPI_Request*)     \
  STRIDIO_DECLARE(File_i##name##_at_all_c, MPI_File, MPI_Offset, buffer, MPI_Count, MPI_Datatype, MPI_Request*) \
  STRIDIO_DECLARE(File_##name##_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Status*)                      \
  STRIDIO_DECLARE(File_##name##_all_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Status*)                  \
  STRIDIO_DECLARE(File_##name##_shared_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Status*)               \
  STRIDIO_DECLARE(File_##name##_ordered_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Status*)              \
  STRIDIO_DECLARE(File_i##name##_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Request*)                    \
  STRIDIO_DECLARE(File_i##name##_all_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Request*)                \
  STRIDIO_DECLARE(File_i##name##_shared_c, MPI_File, buffer, MPI_Count, MPI_Datatype, MPI_Request*)             \
  STRIDIO_DECLARE(File_##name##_at_all_begin_c, MPI_File, MPI_Offset, buffer, MPI_Count, MPI_Datatype)          \
  STRIDIO_DECLARE(File_##name##_all_begin_c, MPI_File, buffer, MPI_Count, MPI_Datatype)                         \
  STRIDIO_DECLARE(File_##name##_ordered_begin_c, MPI_File, buffer, MPI_Count, MPI_Datatype)
STRIDIO_DECLARE_FAMILY(read, void*)
STRIDIO_DECLARE_FAMILY(write, const void*)
STRIDIO_DECLARE(File_get_type_extent_c, MPI_File, MPI_Datatype, MPI_Count*)
STRIDIO_DECLARE(Register_datarep_c, const char*, MPI_Datarep_conversion_function_c*, MPI_Datarep_conversion_function_c*,
                MPI_Datarep_extent_function*, void*)
#endif

// In some headers, with the same types.
int MPI_File_toint(MPI_File) __attribute__((weak));
int PMPI_File_toint(MPI_File) __attribute__((weak));
MPI_File MPI_File_fromint(int) __attribute__((weak));
MPI_File PMPI_File_fromint(int) __attribute__((weak));
int MPI_File_c2f(MPI_File) __attribute__((weak));
int PMPI_File_c2f(MPI_File) __attribute__((weak));
MPI_File MPI_File_f2c(int) __attribute__((weak));
MPI_File PMPI_File_f2c(int) __attribute__((weak));
}
