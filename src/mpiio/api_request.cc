// The calls that complete requests, intercepted: ours are completed when they are done, then the host's own function does
// the rest, for all requests alike. Errors of an access surface here: a generalized request cannot carry one past
// the host's default handler, which would end the program; so the file's handler is called, and the code returned
// (MPI-4.1 section 14.4.1), or put into the statuses with MPI_ERR_IN_STATUS.
#include <dlfcn.h>

#include "mpiio/entry.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

// The host's own definition of an intercepted function; null where it has none.
template <typename Function>
Function* host(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

#define HOST(name) static auto* const theirs = host<decltype(PMPI_##name)>("PMPI_" #name)
// Of MPI-4.1, which the headers do not all declare and the libraries do not all have.
#define HOST_4_1(name, ...)                                          \
  static auto* const theirs = host<int(__VA_ARGS__)>("PMPI_" #name); \
  if (theirs == nullptr) return MPI_ERR_UNSUPPORTED_OPERATION

using Operations = std::vector<std::shared_ptr<Operation>>;

// What completing `operation` returns to the program.
int outcome(const Operation& operation) {
  if (operation.result) return MPI_SUCCESS;
  return raise(operation.file->handler, operation.handle, operation.result.error(), operation.caller);
}

void complete_done(const Operations& operations) {
  for (const auto& operation : operations)
    if (operation) complete_if_done(*operation);
}

// The outcomes of those completed, `statuses[i]` being that of completed[i].
int outcomes(const Operations& completed, MPI_Status* statuses, int host_code) {
  bool failed = false;
  for (const auto& operation : completed) failed = failed || (operation && !operation->result);
  if (!failed) return host_code;
  for (std::size_t i = 0; i < completed.size(); ++i) {
    const int code = completed[i] ? outcome(*completed[i]) : MPI_SUCCESS;
    if (statuses == MPI_STATUSES_IGNORE) continue;
    if (completed[i] || host_code != MPI_ERR_IN_STATUS) statuses[i].MPI_ERROR = code;
  }
  return MPI_ERR_IN_STATUS;
}

Operations at(const Operations& operations, const int* indices, int count) {
  Operations picked;
  for (int i = 0; i < count; ++i) picked.push_back(operations[static_cast<std::size_t>(indices[i])]);
  return picked;
}

}  // namespace
}  // namespace stridio::mpiio

using namespace stridio::mpiio;

STRIDIO_API(int, Wait, (MPI_Request * request, MPI_Status* status)) {
  HOST(Wait);
  const auto operation = any_pending() ? pending(*request) : nullptr;
  if (!operation) return theirs(request, status);
  await(*operation);
  const int code = theirs(request, status);
  return code == MPI_SUCCESS ? outcome(*operation) : code;
}

STRIDIO_API(int, Test, (MPI_Request * request, int* flag, MPI_Status* status)) {
  HOST(Test);
  const auto operation = any_pending() ? pending(*request) : nullptr;
  if (!operation) return theirs(request, flag, status);
  complete_if_done(*operation);
  const int code = theirs(request, flag, status);
  return code == MPI_SUCCESS && *flag ? outcome(*operation) : code;
}

STRIDIO_API(int, Waitall, (int count, MPI_Request requests[], MPI_Status statuses[])) {
  HOST(Waitall);
  const Operations operations = any_pending() ? pending(requests, count) : Operations();
  for (const auto& operation : operations)
    if (operation) await(*operation);
  const int code = theirs(count, requests, statuses);
  return outcomes(operations, statuses, code);
}

STRIDIO_API(int, Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  HOST(Testall);
  const Operations operations = any_pending() ? pending(requests, count) : Operations();
  complete_done(operations);
  const int code = theirs(count, requests, flag, statuses);
  return *flag ? outcomes(operations, statuses, code) : code;
}

STRIDIO_API(int, Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  HOST(Testany);
  const Operations operations = any_pending() ? pending(requests, count) : Operations();
  complete_done(operations);
  const int code = theirs(count, requests, index, flag, status);
  if (operations.empty() || code != MPI_SUCCESS || !*flag || *index == MPI_UNDEFINED) return code;
  const auto& operation = operations[static_cast<std::size_t>(*index)];
  return operation ? outcome(*operation) : code;
}

STRIDIO_API(int, Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status)) {
  HOST(Waitany);
  if (!any_pending() || pending(requests, count).empty()) return theirs(count, requests, index, status);
  for (;; nap()) {
    int flag = 0;
    const int code = PMPI_Testany(count, requests, index, &flag, status);
    if (flag || code != MPI_SUCCESS) return code;
  }
}

STRIDIO_API(int, Testsome, (int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  HOST(Testsome);
  const Operations operations = any_pending() ? pending(requests, incount) : Operations();
  complete_done(operations);
  const int code = theirs(incount, requests, outcount, indices, statuses);
  if (operations.empty() || *outcount == MPI_UNDEFINED || *outcount == 0) return code;
  return outcomes(at(operations, indices, *outcount), statuses, code);
}

STRIDIO_API(int, Waitsome, (int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  HOST(Waitsome);
  if (!any_pending() || pending(requests, incount).empty())
    return theirs(incount, requests, outcount, indices, statuses);
  for (;; nap()) {
    const int code = PMPI_Testsome(incount, requests, outcount, indices, statuses);
    if (code != MPI_SUCCESS || *outcount != 0) return code;
  }
}

STRIDIO_API(int, Request_get_status, (MPI_Request request, int* flag, MPI_Status* status)) {
  HOST(Request_get_status);
  if (const auto operation = any_pending() ? pending(request) : nullptr) complete_if_done(*operation);
  return theirs(request, flag, status);
}

STRIDIO_API(int, Request_get_status_all, (int count, const MPI_Request requests[], int* flag, MPI_Status statuses[])) {
  HOST_4_1(Request_get_status_all, int, const MPI_Request*, int*, MPI_Status*);
  if (any_pending()) complete_done(pending(requests, count));
  return theirs(count, requests, flag, statuses);
}

STRIDIO_API(int, Request_get_status_any,
            (int count, const MPI_Request requests[], int* index, int* flag, MPI_Status* status)) {
  HOST_4_1(Request_get_status_any, int, const MPI_Request*, int*, int*, MPI_Status*);
  if (any_pending()) complete_done(pending(requests, count));
  return theirs(count, requests, index, flag, status);
}

STRIDIO_API(int, Request_get_status_some,
            (int incount, const MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[])) {
  HOST_4_1(Request_get_status_some, int, const MPI_Request*, int*, int*, MPI_Status*);
  if (any_pending()) complete_done(pending(requests, incount));
  return theirs(incount, requests, outcount, indices, statuses);
}

STRIDIO_API(int, Request_free, (MPI_Request * request)) {
  HOST(Request_free);
  if (const auto operation = any_pending() ? pending(*request) : nullptr) {
    abandon(*operation);
    complete_if_done(*operation);
  }
  return theirs(request);
}
