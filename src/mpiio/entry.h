// What every entry point shares: the definition of its two names, and the way from a handle to a return code.
#pragma once

#include <memory>

#include "base/guarded.h"
#include "group/overdue.h"
#include "mpiio/error.h"
#include "mpiio/handle.h"

// Defines PMPI_<name>, and MPI_<name> as a weak alias that tools may replace.
#define STRIDIO_API(type, name, parameters)                                                                 \
  extern "C" __attribute__((visibility("default"))) type PMPI_##name parameters;                            \
  extern "C" __attribute__((visibility("default"), weak, alias("PMPI_" #name))) type MPI_##name parameters; \
  type PMPI_##name parameters

namespace stridio::mpiio {

// The entry point's return code: MPI_SUCCESS, or what is left when the error handler of `fh` has returned.
template <typename Body>
int on_file(MPI_File fh, Body&& body, const char* caller = __builtin_FUNCTION()) {
  const std::shared_ptr<OpenFile> file = find(fh);
  if (!file)
    return raise(
        default_handler(), MPI_FILE_NULL, MPI_ERR_FILE,
        fh == MPI_FILE_NULL ? "the file handle is MPI_FILE_NULL" : "the file handle is not that of an open file",
        caller);
  const InCall in_call(caller, file->file->path());
  const Status status = guarded([&]() -> Status { return body(*file); });
  return status ? MPI_SUCCESS : raise(file->handler, fh, status.error(), caller);
}

// For calls without a file: errors go to the handler of MPI_FILE_NULL.
template <typename Body>
int without_file(Body&& body, const char* caller = __builtin_FUNCTION()) {
  const Status status = guarded([&]() -> Status { return body(); });
  return status ? MPI_SUCCESS : raise(default_handler(), MPI_FILE_NULL, status.error(), caller);
}

}  // namespace stridio::mpiio
