// File error handlers. No public call of MPI leads from an MPI_Errhandler to its function, so creation is
// intercepted: the host makes the handle, as one of a communicator that is never called, and the function
// is kept here. The host counts the references: ours is taken by attaching the handle to a private
// communicator and getting it back.
#pragma once

#include "base/result.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

using FileFunction = MPI_File_errhandler_function*;
using FileFunctionX = void (*)(MPI_File, int, void*);  // MPICH's MPIX_File_create_errhandler_x

// What a handle of the program stands for.
struct HandlerFunction {
  enum class Kind { kReturn, kFatal, kAbort, kUser, kUserX };
  Kind kind = Kind::kReturn;
  FileFunction user = nullptr;
  FileFunctionX user_x = nullptr;
  void* extra_state = nullptr;
};

// The error handler of a file: a function and a reference of our own to the host's handle.
// Copies share nothing: copy the function, hand references on by new_reference().
struct ErrorHandler {
  HandlerFunction function;
  MPI_Errhandler host = MPI_ERRHANDLER_NULL;
};

// Makes a handle that stands for `function`; returns the host's error code.
int create_handler(const HandlerFunction& function, MPI_Errhandler* host);
// Records that `host` stands for `function`.
void record_handler(MPI_Errhandler host, const HandlerFunction& function);
// A handler with a reference of its own; kArgument for a handle that is no file error handler.
Result<ErrorHandler> attach_handler(MPI_Errhandler host);
void detach_handler(ErrorHandler& handler);
// One more reference to the same handle, for the program to free.
MPI_Errhandler new_reference(MPI_Errhandler host);

// That of MPI_FILE_NULL: inherited by files at their opening, and called where there is no file.
// Initially MPI_ERRORS_RETURN.
ErrorHandler default_handler();
void set_default_handler(ErrorHandler handler);

}  // namespace stridio::mpiio
