/* A profiling tool of Darshan's kind: counts the program's calls and forwards them to their PMPI_ names. It wraps a few functions
 * that are not MPI-IO's, too, to see that none is called but by the program. */
#include <mpi.h>
#include <string.h>

#define COUNTED(F)                                                                                                     \
  F(File_open, (MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* fh),                              \
    (comm, name, amode, info, fh))                                                                                     \
  F(File_set_view,                                                                                                     \
    (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep, MPI_Info info),     \
    (fh, disp, etype, filetype, datarep, info))                                                                        \
  F(File_write_at_all,                                                                                                 \
    (MPI_File fh, MPI_Offset offset, const void* buffer, int count, MPI_Datatype type, MPI_Status* status),            \
    (fh, offset, buffer, count, type, status))                                                                         \
  F(File_write_at,                                                                                                     \
    (MPI_File fh, MPI_Offset offset, const void* buffer, int count, MPI_Datatype type, MPI_Status* status),            \
    (fh, offset, buffer, count, type, status))                                                                         \
  F(File_iwrite_at,                                                                                                    \
    (MPI_File fh, MPI_Offset offset, const void* buffer, int count, MPI_Datatype type, MPI_Request* request),          \
    (fh, offset, buffer, count, type, request))                                                                        \
  F(File_read_at_all,                                                                                                  \
    (MPI_File fh, MPI_Offset offset, void* buffer, int count, MPI_Datatype type, MPI_Status* status),                  \
    (fh, offset, buffer, count, type, status))                                                                         \
  F(File_sync, (MPI_File fh), (fh))                                                                                    \
  F(File_close, (MPI_File * fh), (fh))                                                                                 \
  F(Wait, (MPI_Request * request, MPI_Status * status), (request, status))                                             \
  F(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))                             \
  F(Grequest_start,                                                                                                    \
    (MPI_Grequest_query_function * query, MPI_Grequest_free_function * release, MPI_Grequest_cancel_function * cancel, \
     void* state, MPI_Request* request),                                                                               \
    (query, release, cancel, state, request))                                                                          \
  F(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made), (comm, color, key, made))                         \
  F(Barrier, (MPI_Comm comm), (comm))                                                                                  \
  F(Allgather,                                                                                                         \
    (const void* from, int sends, MPI_Datatype sent, void* to, int receives, MPI_Datatype received, MPI_Comm comm),    \
    (from, sends, sent, to, receives, received, comm))                                                                 \
  F(Type_get_envelope, (MPI_Datatype type, int* integers, int* addresses, int* types, int* combiner),                  \
    (type, integers, addresses, types, combiner))

#define WRAP(name, parameters, arguments) \
  static long count_##name;               \
  int MPI_##name parameters {             \
    ++count_##name;                       \
    return PMPI_##name arguments;         \
  }
COUNTED(WRAP)

long mpi_calls_seen(const char* function) {
#define ASK(name, parameters, arguments) \
  if (strcmp(function, #name) == 0) return count_##name;
  COUNTED(ASK)
  return -1;
}
