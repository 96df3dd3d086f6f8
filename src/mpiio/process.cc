#include "mpiio/process.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/guarded.h"
#include "base/log.h"
#include "base/text.h"
#include "group/overdue.h"
#include "mpiio/datatype.h"
#include "mpiio/errhandler.h"
#include "mpiio/handle.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

std::mutex mutex;
std::atomic<bool> finalizing = false;
MPI_Comm comm_of_process;
bool prepared = false;
bool watched = false;                  // MPI_Finalize
std::atomic<bool> of_session = false;  // comm_of_process is of a file's communicator
int files = 0;

// What programs leave open is closed with all ranks, as they should have done, since a file may have data in memory.
void close_left_open() {
  constexpr std::size_t kNamed = 5;
  std::string names;
  std::size_t led = 0;  // those of which this rank is the first, and speaks
  for (const auto& open : open_files()) {
    int rank = 0;
    PMPI_Group_rank(open->group, &rank);
    if (rank == 0 && ++led <= kNamed) names += (led == 1 ? ": " : ", ") + shortened(open->file->path(), 200);
    const InCall in_call("MPI_Finalize", open->file->path());
    const Status closed = guarded([&]() -> Status {
      settle(*open);
      return open->file->close();
    });
    if (!closed && rank == 0) warn("MPI_Finalize: " + closed.error().text());
    leave(open->handle());
    PMPI_Group_free(&open->group);
    detach_handler(open->handler);
  }
  if (led > 0)
    warn("MPI_Finalize was called with " + counted(static_cast<std::int64_t>(led), "file") +
         " open, which the program should have closed; now closed" + names + (led > kNamed ? ", ..." : ""));
}

// MPI_Finalize deletes MPI_COMM_SELF's attributes before it does anything else, the last one first.
int on_finalize(MPI_Comm, int, void*, void*) {
  finish_orphans();
  close_left_open();
  set_default_handler({});
  finalizing = true;
  const std::lock_guard lock(mutex);
  if (prepared) PMPI_Comm_free(&comm_of_process);
  prepared = false;
  return MPI_SUCCESS;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

void watch_finalize() {
  if (std::exchange(watched, true)) return;
  int keyval = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(copy_nothing, on_finalize, &keyval, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr);
  PMPI_Comm_free_keyval(&keyval);  // it lives on until the attribute is deleted
}

void prepare() {
  watch_finalize();
  PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &comm_of_process);
  PMPI_Comm_set_errhandler(comm_of_process, MPI_ERRORS_RETURN);
  prepared = true;
}

void prepare_by(MPI_Comm comm) {
  int rank = 0;
  MPI_Group all, mine;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_group(comm, &all);
  PMPI_Group_incl(all, 1, &rank, &mine);
  PMPI_Comm_create_group(comm, mine, 0, &comm_of_process);  // no other rank takes part
  PMPI_Comm_set_errhandler(comm_of_process, MPI_ERRORS_RETURN);
  PMPI_Group_free(&mine);
  PMPI_Group_free(&all);
  prepared = of_session = true;
}

}  // namespace

HostUse::HostUse(MPI_Comm comm) {
  const bool active = host_is_active();
  const std::lock_guard lock(mutex);
  ++files;
  if (!active && !prepared) prepare_by(comm);
}

HostUse::~HostUse() {
  const std::lock_guard lock(mutex);
  if (--files > 0 || !of_session) return;
  forget_types();
  PMPI_Comm_free(&comm_of_process);
  prepared = of_session = false;
}

bool host_is_active() {
  if (finalizing) return false;
  if (of_session) return true;
  int initialized = 0;
  int finalized = 0;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

void before_attribute_of_self() {
  if (!host_is_active()) return;
  const std::lock_guard lock(mutex);
  watch_finalize();
}

MPI_Comm private_comm() {
  if (!host_is_active()) return MPI_COMM_NULL;
  const std::lock_guard lock(mutex);
  if (!prepared) prepare();
  return comm_of_process;
}

}  // namespace stridio::mpiio

// Libraries that close their files when an attribute of theirs is deleted, as HDF5 does, must find them open: ours is set
// before any. Only the MPI name is taken: the host's own is what it calls, and what prepare() does.
extern "C" __attribute__((visibility("default"), weak)) int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void* value) {
  if (comm == MPI_COMM_SELF) stridio::mpiio::before_attribute_of_self();
  return PMPI_Comm_set_attr(comm, keyval, value);
}
