// What belongs to the process, not to one file: error handlers, data representations, integer handles.
#include <cstdint>

#include "mpiio/datarep.h"
#include "mpiio/entry.h"

namespace stridio::mpiio {
namespace {

// The integer of MPI_FILE_NULL: a predefined constant of the standard ABI, 0 elsewhere.
#if defined(MPI_ABI)
const int kNullInteger = static_cast<int>(reinterpret_cast<std::intptr_t>(MPI_FILE_NULL));
#else
constexpr int kNullInteger = 0;
#endif

Result<ErrorHandler> handler_of(MPI_File fh) {
  if (fh == MPI_FILE_NULL) return default_handler();
  const auto open = find(fh);
  if (!open) return fail(Code::kBadHandle, "the file handle is not that of an open file");
  return open->handler;
}

Status set_handler(MPI_File fh, MPI_Errhandler host) {
  const auto open = find(fh);
  if (fh != MPI_FILE_NULL && !open) return fail(Code::kBadHandle, "the file handle is not that of an open file");
  ASSIGN_OR_RETURN(ErrorHandler handler, attach_handler(host));
  if (open) {
    detach_handler(open->handler);
    open->handler = handler;
  } else {
    set_default_handler(handler);
  }
  return {};
}

}  // namespace
}  // namespace stridio::mpiio

using namespace stridio;
using namespace stridio::mpiio;

STRIDIO_API(int, File_create_errhandler, (MPI_File_errhandler_function * function, MPI_Errhandler* errhandler)) {
  return create_handler({.kind = HandlerFunction::Kind::kUser, .user = function}, errhandler);
}

STRIDIO_API(int, File_set_errhandler, (MPI_File fh, MPI_Errhandler errhandler)) {
  return without_file([&] { return set_handler(fh, errhandler); });
}

STRIDIO_API(int, File_get_errhandler, (MPI_File fh, MPI_Errhandler* errhandler)) {
  return without_file([&]() -> Status {
    ASSIGN_OR_RETURN(const ErrorHandler handler, handler_of(fh));
    *errhandler = new_reference(handler.host);
    return {};
  });
}

STRIDIO_API(int, File_call_errhandler, (MPI_File fh, int errorcode)) {
  return without_file([&]() -> Status {
    ASSIGN_OR_RETURN(const ErrorHandler handler, handler_of(fh));
    call_handler(handler, fh, errorcode);
    return {};
  });
}

STRIDIO_API(int, Register_datarep,
            (const char* datarep, MPI_Datarep_conversion_function* read, MPI_Datarep_conversion_function* write,
             MPI_Datarep_extent_function* extent, void* extra_state)) {
  return without_file([&] {
    return register_datarep(datarep, {.read = read, .write = write, .extent = extent, .extra_state = extra_state});
  });
}

STRIDIO_API(int, Register_datarep_c,
            (const char* datarep, MPI_Datarep_conversion_function_c* read, MPI_Datarep_conversion_function_c* write,
             MPI_Datarep_extent_function* extent, void* extra_state)) {
  return without_file([&] {
    return register_datarep(datarep, {.read_c = read, .write_c = write, .extent = extent, .extra_state = extra_state});
  });
}

// MPI_Fint is int in every MPI that is supported.
STRIDIO_API(int, File_c2f, (MPI_File fh)) { return to_integer(fh, kNullInteger); }
STRIDIO_API(MPI_File, File_f2c, (int fh)) { return from_integer(fh, kNullInteger); }
STRIDIO_API(int, File_toint, (MPI_File fh)) { return to_integer(fh, kNullInteger); }
STRIDIO_API(MPI_File, File_fromint, (int fh)) { return from_integer(fh, kNullInteger); }

#if !defined(OPEN_MPI) && !defined(MPI_ABI)
// MPICH before 4.1, and what is derived from it, cannot tell the texts of our error codes.
STRIDIO_API(int, Error_string, (int errorcode, char* string, int* resultlen)) {
  return error_string(errorcode, string, resultlen);
}
#endif

#if !defined(OPEN_MPI)
// MPICH's extension, by which its Fortran interface makes error handlers; older headers do not declare it, so the
// names are given as symbols. The host calls `destructor` when the handle's last reference goes.
using CommFunctionX = void (*)(MPI_Comm, int, void*);
using Destructor = void (*)(void*);
extern "C" int host_create_errhandler_x(CommFunctionX, Destructor, void*,
                                        MPI_Errhandler*) __asm__("PMPIX_Comm_create_errhandler_x")
    __attribute__((weak));
extern "C" __attribute__((visibility("default"))) int create_errhandler_x(
    FileFunctionX, Destructor, void*, MPI_Errhandler*) __asm__("PMPIX_File_create_errhandler_x");
extern "C" __attribute__((visibility("default"), weak, alias("PMPIX_File_create_errhandler_x"))) int
create_errhandler_x_alias(FileFunctionX, Destructor, void*, MPI_Errhandler*) __asm__("MPIX_File_create_errhandler_x");

static void never_called_x(MPI_Comm, int, void*) {}

int create_errhandler_x(FileFunctionX function, Destructor destructor, void* extra_state, MPI_Errhandler* errhandler) {
  if (host_create_errhandler_x == nullptr) return MPI_ERR_UNSUPPORTED_OPERATION;
  const int code = host_create_errhandler_x(never_called_x, destructor, extra_state, errhandler);
  if (code == MPI_SUCCESS)
    record_handler(*errhandler,
                   {.kind = HandlerFunction::Kind::kUserX, .user_x = function, .extra_state = extra_state});
  return code;
}
#endif
