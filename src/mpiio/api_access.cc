// The read and write families: {read, write} x {explicit offset, individual, shared pointer} x {independent,
// collective} x {blocking, nonblocking, split} x {int, MPI_Count}.
#include "mpiio/convert.h"
#include "mpiio/entry.h"
#include "mpiio/request.h"
#include "mpiio/transfer.h"

namespace stridio::mpiio {
namespace {

// Write calls promise not to change the buffer.
UserBuffer user_buffer(const void* address, MPI_Count count, MPI_Datatype datatype) {
  return {const_cast<void*>(address), count, datatype};
}

Status complete(OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer, MPI_Status* status) {
  ASSIGN_OR_RETURN(const Bytes bytes, transfer(open, form, offset, buffer));
  set_status(status, bytes);
  return {};
}

}  // namespace
}  // namespace stridio::mpiio

using namespace stridio;
using namespace stridio::mpiio;

// Each family is defined for both types of count. `place` is AT or HERE: with an offset argument or without.
#define PARAMETERS_AT MPI_File fh, MPI_Offset offset
#define PARAMETERS_HERE MPI_File fh
#define OFFSET_AT offset
#define OFFSET_HERE 0
#define FORM(direction, pointer, collective) Form(Direction::k##direction, Pointer::k##pointer, collective)

#define BLOCKING_1(name, count_type, place, buffer_type, form)                                                  \
  STRIDIO_API(                                                                                                  \
      int, name,                                                                                                \
      (PARAMETERS_##place, buffer_type buffer, count_type count, MPI_Datatype datatype, MPI_Status * status)) { \
    return on_file(fh, [&](OpenFile& open) {                                                                    \
      return complete(open, form, OFFSET_##place, user_buffer(buffer, count, datatype), status);                \
    });                                                                                                         \
  }
#define NONBLOCKING_1(name, count_type, place, buffer_type, form)                                                    \
  STRIDIO_API(                                                                                                       \
      int, name,                                                                                                     \
      (PARAMETERS_##place, buffer_type buffer, count_type count, MPI_Datatype datatype, MPI_Request * request)) {    \
    return on_file(fh, [&](OpenFile&) {                                                                              \
      return start(find(fh), fh, form, OFFSET_##place, user_buffer(buffer, count, datatype), request, "MPI_" #name); \
    });                                                                                                              \
  }
#define BEGIN_1(name, count_type, place, buffer_type, split, form)                                            \
  STRIDIO_API(int, name, (PARAMETERS_##place, buffer_type buffer, count_type count, MPI_Datatype datatype)) { \
    return on_file(fh, [&](OpenFile& open) {                                                                  \
      return begin(open, split, form, OFFSET_##place, user_buffer(buffer, count, datatype));                  \
    });                                                                                                       \
  }

#define BLOCKING(name, place, buffer_type, form)         \
  BLOCKING_1(File_##name, int, place, buffer_type, form) \
  BLOCKING_1(File_##name##_c, MPI_Count, place, buffer_type, form)
#define NONBLOCKING(name, place, buffer_type, form)         \
  NONBLOCKING_1(File_##name, int, place, buffer_type, form) \
  NONBLOCKING_1(File_##name##_c, MPI_Count, place, buffer_type, form)
#define SPLIT(name, place, buffer_type, split, form)                                     \
  BEGIN_1(File_##name##_begin, int, place, buffer_type, split, form)                     \
  BEGIN_1(File_##name##_begin_c, MPI_Count, place, buffer_type, split, form)             \
  STRIDIO_API(int, File_##name##_end, (MPI_File fh, buffer_type, MPI_Status * status)) { \
    return on_file(fh, [&](OpenFile& open) { return end(open, split, status); });        \
  }

#define EACH_FAMILY(name, Name, buffer_type)                                            \
  BLOCKING(name##_at, AT, buffer_type, FORM(Name, Explicit, false))                     \
  BLOCKING(name##_at_all, AT, buffer_type, FORM(Name, Explicit, true))                  \
  BLOCKING(name, HERE, buffer_type, FORM(Name, Individual, false))                      \
  BLOCKING(name##_all, HERE, buffer_type, FORM(Name, Individual, true))                 \
  BLOCKING(name##_shared, HERE, buffer_type, FORM(Name, Shared, false))                 \
  BLOCKING(name##_ordered, HERE, buffer_type, FORM(Name, Shared, true))                 \
  NONBLOCKING(i##name##_at, AT, buffer_type, FORM(Name, Explicit, false))               \
  NONBLOCKING(i##name##_at_all, AT, buffer_type, FORM(Name, Explicit, true))            \
  NONBLOCKING(i##name, HERE, buffer_type, FORM(Name, Individual, false))                \
  NONBLOCKING(i##name##_all, HERE, buffer_type, FORM(Name, Individual, true))           \
  NONBLOCKING(i##name##_shared, HERE, buffer_type, FORM(Name, Shared, false))           \
  SPLIT(name##_at_all, AT, buffer_type, Split::k##Name##At, FORM(Name, Explicit, true)) \
  SPLIT(name##_all, HERE, buffer_type, Split::k##Name, FORM(Name, Individual, true))    \
  SPLIT(name##_ordered, HERE, buffer_type, Split::k##Name##Ordered, FORM(Name, Shared, true))

EACH_FAMILY(read, Read, void*)
EACH_FAMILY(write, Write, const void*)
