#include "mpiio/errhandler.h"

#include <map>
#include <mutex>
#include <utility>

#include "mpiio/process.h"

namespace stridio::mpiio {
namespace {

std::mutex mutex;

std::map<MPI_Errhandler, HandlerFunction>& functions() {
  static auto& map = *new std::map<MPI_Errhandler, HandlerFunction>;
  return map;
}

ErrorHandler& default_of_process() {
  static auto& handler = *new ErrorHandler;
  return handler;
}

Result<HandlerFunction> function_of(MPI_Errhandler host) {
  using Kind = HandlerFunction::Kind;
  if (host == MPI_ERRORS_RETURN) return HandlerFunction{.kind = Kind::kReturn};
  if (host == MPI_ERRORS_ARE_FATAL) return HandlerFunction{.kind = Kind::kFatal};
  if (is_errors_abort(host)) return HandlerFunction{.kind = Kind::kAbort};
  const std::lock_guard lock(mutex);
  const auto found = functions().find(host);
  if (found != functions().end()) return found->second;
  return fail(Code::kArgument,
              "this error handler was not made by MPI_File_create_errhandler and is none of "
              "MPI_ERRORS_RETURN, MPI_ERRORS_ARE_FATAL and MPI_ERRORS_ABORT");
}

// The host's handle is one for communicators, but is never called: only its identity matters.
void never_called(MPI_Comm*, int*, ...) {}

}  // namespace

int create_handler(const HandlerFunction& function, MPI_Errhandler* host) {
  const int code = PMPI_Comm_create_errhandler(never_called, host);
  if (code == MPI_SUCCESS) record_handler(*host, function);
  return code;
}

void record_handler(MPI_Errhandler host, const HandlerFunction& function) {
  const std::lock_guard lock(mutex);
  functions()[host] = function;
}

Result<ErrorHandler> attach_handler(MPI_Errhandler host) {
  ASSIGN_OR_RETURN(HandlerFunction function, function_of(host));
  return ErrorHandler{function, new_reference(host)};
}

void detach_handler(ErrorHandler& handler) {
  if (handler.host != MPI_ERRHANDLER_NULL && host_is_active()) PMPI_Errhandler_free(&handler.host);
  handler.host = MPI_ERRHANDLER_NULL;
}

MPI_Errhandler new_reference(MPI_Errhandler host) {
  const MPI_Comm comm = private_comm();
  if (comm == MPI_COMM_NULL) return host;
  static std::mutex comm_mutex;
  const std::lock_guard lock(comm_mutex);
  MPI_Errhandler reference = host;
  PMPI_Comm_set_errhandler(comm, host);
  PMPI_Comm_get_errhandler(comm, &reference);
  PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return reference;
}

ErrorHandler default_handler() {
  const std::lock_guard lock(mutex);
  ErrorHandler handler = default_of_process();
  if (handler.host == MPI_ERRHANDLER_NULL) handler.host = MPI_ERRORS_RETURN;
  return handler;
}

void set_default_handler(ErrorHandler handler) {
  ErrorHandler old;
  {
    const std::lock_guard lock(mutex);
    old = std::exchange(default_of_process(), handler);
  }
  detach_handler(old);
}

}  // namespace stridio::mpiio
