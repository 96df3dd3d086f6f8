// Nonblocking accesses. An operation runs on a thread of its file that makes no MPI call; the program holds a generalized
// request. Below MPI_THREAD_MULTIPLE nobody else may complete that while the program sits in MPI_Wait, so the calls that wait
// for, test and free requests are intercepted (api_request.cc): they complete our requests that are done, on the
// calling thread, and leave the rest to the host. While no operation is pending they cost one load.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "mpiio/entry.h"
#include "mpiio/handle.h"
#include "mpiio/transfer.h"

namespace stridio::mpiio {

struct Operation {
  std::shared_ptr<OpenFile> file;
  MPI_File handle = MPI_FILE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  const char* caller = "";
  std::unique_ptr<Conversion> conversion;  // ends when the operation is completed
  Result<Bytes> result = Bytes{0};         // valid once done
  std::atomic<bool> done = false;
  bool completed = false;  // told the host; under the registry's mutex
  bool orphan = false;     // the program freed the request; likewise
};

// Starts the access and returns at once. Bad arguments of an independent access fail here; those of a collective one, and
// everything that storage says, at completion. Collective ones run in the order of their calls; where the group's ranks do
// not all share memory they run as independent accesses, which MPI allows.
Status start(const std::shared_ptr<OpenFile>& open, MPI_File fh, Form form, MPI_Offset offset, const UserBuffer& buffer,
             MPI_Request* request, const char* caller);

// Waits until every operation of the file is done, driving the host's progress: collective calls on the file come
// after the nonblocking ones that were started before.
void settle(OpenFile& open);

// Whether the file has operations that the program has not completed.
bool has_pending(const OpenFile& open);

// Waits for the operations whose requests the program has freed; before the host ends.
void finish_orphans();

// An entry point whose call is collective: on_file, after what was started before.
template <typename Body>
int on_file_together(MPI_File fh, Body&& body, const char* caller = __builtin_FUNCTION()) {
  return on_file(
      fh,
      [&](OpenFile& open) {
        settle(open);
        return body(open);
      },
      caller);
}

// ---- For the interception.

// Whether any operation is pending in the process: one load.
bool any_pending();
// The pending operation of a request; null for a request that is not ours.
std::shared_ptr<Operation> pending(MPI_Request request);
std::vector<std::shared_ptr<Operation>> pending(const MPI_Request* requests, int count);
// If it is done, tells the host so (once): the host's own calls then see a complete request.
bool complete_if_done(Operation& operation);
// Completes it when it is done; waits for that, driving the host's progress.
void await(Operation& operation);
// Between the tests of a polling wait, which drive the host: sleeps until an operation is done or a little time has passed.
void nap();
// Completes what the program has freed.
void sweep_orphans();
void abandon(Operation& operation);  // the program freed its request

}  // namespace stridio::mpiio
