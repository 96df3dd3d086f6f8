#include "world.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "base/guarded.h"
#include "group/threads.h"

namespace stridio {
namespace {

// As in src/mpiio/world.cc, and MPI's own.
using OnWorld = int(const char* version, void (*body)(Group&, void*), void* context);
using Initialize = int(int*, char***);
using Finalize = int();

template <typename Function>
Function* preloaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

struct Call {
  const std::function<Status(World&)>& body;
  Status status;
};

void call(Group& group, void* context) {
  auto& [body, status] = *static_cast<Call*>(context);
  World world(group);
  status = guarded([&] { return body(world); });
}

}  // namespace

Status World::on_ranks(int ranks, const std::function<Status(Group&, bool leads)>& body) const {
  if (launched()) {
    if (ranks == processes_.size()) return body(processes_, true);
    return fail(Code::kArgument,
                fmt::format("the target has {} processes, but {} were started: start {}, or one, which takes threads",
                            ranks, processes_.size(), ranks));
  }
  std::mutex mutex;
  Status first;
  run_threads(ranks, {}, [&](Group& group) {
    Status mine = guarded([&] { return body(group, group.rank() == 0); });
    const std::scoped_lock lock(mutex);
    if (first) first = std::move(mine);
  });
  return first;
}

Status in_world(const Environment& environment, const std::function<Status(World&)>& body) {
  Call request{body, {}};
  auto* const on_world = preloaded<OnWorld>("PMPIX_Stridio_on_world");
  if (!on_world) {
    if (environment.launched > 1)
      return fail(Code::kUnsupportedOperation,
                  fmt::format("{} processes were started, and cannot reach each other: stridio run -- mpiexec -n {} "
                              "stridio ...",
                              environment.launched, environment.launched));
    run_threads(1, {}, [&](Group& group) { call(group, &request); });
    return request.status;
  }
  auto* const initialize = preloaded<Initialize>("MPI_Init");
  auto* const finalize = preloaded<Finalize>("MPI_Finalize");
  if (!initialize || !finalize || initialize(nullptr, nullptr) != 0)
    return fail(Code::kOther, "the MPI of the preloaded library cannot be started");
  const int failed = on_world(STRIDIO_VERSION, call, &request);
  finalize();
  if (failed == 0) return request.status;
  return fail(Code::kOther, "the preloaded library is of another version, or has no group of processes");
}

}  // namespace stridio
