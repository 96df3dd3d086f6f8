// Errors on their way out: Error -> an MPI error code that carries its text -> the file's error handler.
#pragma once

#include <string>

#include "base/result.h"
#include "mpiio/errhandler.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

// The standard's error class for a Code.
int class_of(Code code);

// An error code of `error_class` whose MPI_Error_string is `text`. Codes are reused in a ring of kRing a class,
// so a text lives until as many further errors of its class. The class itself where the host has no codes left.
int make_code(int error_class, const std::string& text);
inline constexpr int kRing = 8;

// MPI_Error_string, for the host's codes and for ours.
int error_string(int code, char* text, int* length);

// What an entry point returns for `error`: makes the code, logs it if STRIDIO_LOG is set, and calls `handler` with
// `fh`. `caller` is the entry point's name. Does not return where the handler is fatal.
int raise(const ErrorHandler& handler, MPI_File fh, const Error& error, const char* caller);
int raise(const ErrorHandler& handler, MPI_File fh, int error_class, const std::string& what, const char* caller);

// MPI_File_call_errhandler. Does not return where the handler is fatal.
void call_handler(const ErrorHandler& handler, MPI_File fh, int code);

}  // namespace stridio::mpiio
