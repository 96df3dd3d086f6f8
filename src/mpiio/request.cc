#include "mpiio/request.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "group/mpi/host_driver.h"
#include "mpiio/convert.h"
#include "mpiio/error.h"

namespace stridio::mpiio {
namespace {

using namespace std::chrono_literals;

// The operations whose requests the host has not freed, by request. MPI gives a library no other place: a request
// carries no attribute.
struct Registry {
  std::mutex mutex;
  std::condition_variable done;
  std::map<MPI_Request, std::shared_ptr<Operation>> operations;
  std::atomic<int> count = 0;
};

Registry& registry() {
  static auto& instance = *new Registry;
  return instance;
}

// The host's callbacks of a generalized request; `state` is a shared_ptr's copy.
int query(void* state, MPI_Status* status) {
  const auto& operation = **static_cast<std::shared_ptr<Operation>*>(state);
  set_status(status, operation.result.value_or(0));
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int release(void* state) {
  auto* held = static_cast<std::shared_ptr<Operation>*>(state);
  {
    const std::scoped_lock lock(registry().mutex);
    registry().operations.erase((*held)->request);
    registry().count = static_cast<int>(registry().operations.size());
  }
  delete held;
  return MPI_SUCCESS;
}

// The bytes are on their way.
int ignore_cancel(void*, int) { return MPI_SUCCESS; }

void finish(const std::shared_ptr<Operation>& operation, Result<Bytes> result) {
  {
    const std::scoped_lock lock(registry().mutex);
    operation->result = std::move(result);
    operation->done = true;
  }
  registry().done.notify_all();
}

std::shared_ptr<Operation> enroll(const std::shared_ptr<OpenFile>& open, MPI_File fh, MPI_Request* request,
                                  const char* caller) {
  auto operation = std::make_shared<Operation>();
  operation->file = open;
  operation->handle = fh;
  operation->caller = caller;
  PMPI_Grequest_start(query, release, ignore_cancel, new std::shared_ptr<Operation>(operation), &operation->request);
  *request = operation->request;
  const std::scoped_lock lock(registry().mutex);
  registry().operations[operation->request] = operation;
  registry().count = static_cast<int>(registry().operations.size());
  return operation;
}

}  // namespace

Status start(const std::shared_ptr<OpenFile>& open, MPI_File fh, Form form, MPI_Offset offset, const UserBuffer& buffer,
             MPI_Request* request, const char* caller) {
  *request = MPI_REQUEST_NULL;
  sweep_orphans();
  form.collective = form.collective && open->file->collectives_run_anywhere();
  ASSIGN_OR_RETURN(Prepared prepared, prepare(*open, form, offset, buffer));
  ASSIGN_OR_RETURN(Access access, open->file->bind(prepared.access));
  const std::shared_ptr<Operation> operation = enroll(open, fh, request, caller);
  operation->conversion = std::move(prepared.conversion);
  Worker& worker = form.collective ? open->collective_worker : open->independent_worker;
  const Status posted = guarded([&]() -> Status {
    worker.post_or_run([operation, access = std::move(access)] {
      const InCall in_call(operation->caller, operation->file->file->path());
      finish(operation, guarded([&] { return operation->file->file->transfer(access); }));
    });
    return {};
  });
  if (!posted) finish(operation, fail(posted.error()));
  return {};
}

void settle(OpenFile& open) {
  std::optional<HostDriver> host;
  while (!open.collective_worker.idle_within(1ms) || !open.independent_worker.idle_within(1ms)) {
    if (!host) host.emplace();
    host->drive();
  }
  sweep_orphans();
}

bool has_pending(const OpenFile& open) {
  const std::scoped_lock lock(registry().mutex);
  for (const auto& [request, operation] : registry().operations)
    if (operation->file.get() == &open && !operation->orphan) return true;
  return false;
}

bool any_pending() { return registry().count.load(std::memory_order_relaxed) > 0; }

std::shared_ptr<Operation> pending(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return nullptr;
  const std::scoped_lock lock(registry().mutex);
  const auto found = registry().operations.find(request);
  return found == registry().operations.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Operation>> pending(const MPI_Request* requests, int count) {
  std::vector<std::shared_ptr<Operation>> operations(count > 0 ? static_cast<std::size_t>(count) : 0);
  bool any = false;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    operations[i] = pending(requests[i]);
    any = any || operations[i];
  }
  if (!any) operations.clear();
  return operations;
}

bool complete_if_done(Operation& operation) {
  {
    const std::scoped_lock lock(registry().mutex);
    if (!operation.done) return false;
    if (operation.completed) return true;
    operation.completed = true;
  }
  if (operation.result) operation.result = finish(operation.conversion.get(), *operation.result);
  operation.conversion.reset();  // here, as it makes MPI calls, and the worker may be the last to hold the operation
  PMPI_Grequest_complete(operation.request);
  return true;
}

void nap() {
  std::unique_lock lock(registry().mutex);
  registry().done.wait_for(lock, 200us);
}

void await(Operation& operation) {
  std::optional<HostDriver> host;
  while (!complete_if_done(operation)) {
    {
      std::unique_lock lock(registry().mutex);
      registry().done.wait_for(lock, 1ms, [&] { return operation.done.load(); });
    }
    if (operation.done) continue;
    if (!host) host.emplace();
    host->drive();
  }
}

void abandon(Operation& operation) {
  const std::scoped_lock lock(registry().mutex);
  operation.orphan = true;
}

void finish_orphans() {
  std::vector<std::shared_ptr<Operation>> freed;
  {
    const std::scoped_lock lock(registry().mutex);
    for (const auto& [request, operation] : registry().operations)
      if (operation->orphan) freed.push_back(operation);
  }
  for (const auto& operation : freed) await(*operation);
}

void sweep_orphans() {
  std::vector<std::shared_ptr<Operation>> freed;
  {
    const std::scoped_lock lock(registry().mutex);
    for (const auto& [request, operation] : registry().operations)
      if (operation->orphan && operation->done) freed.push_back(operation);
  }
  for (const auto& operation : freed) complete_if_done(*operation);
}

}  // namespace stridio::mpiio
