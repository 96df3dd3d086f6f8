#include "world.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "collective/agreement.h"
#include "group/shared_group.h"
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

using Body = std::function<Status(Group&, bool leads)>;

Status on_threads(int ranks, const Body& body) {
  std::mutex mutex;
  Status first;
  run_threads(ranks, {}, [&](Group& group) {
    Status mine = guarded([&] { return body(group, group.rank() == 0); });
    const std::scoped_lock lock(mutex);
    if (first) first = std::move(mine);
  });
  return first;
}

// Where ranks that are threads of several processes meet, until they share memory. Each process's first rank, on the thread
// that MPI knows, speaks for the others of the process.
class Meeting {
 public:
  Meeting(Group& processes, int ranks) : processes_(processes), ranks_(ranks) {}

  int first() const { return first_of(processes_.rank()); }
  int end() const { return first_of(processes_.rank() + 1); }

  Bootstrap of(int rank) {
    return {rank, ranks_, [this, rank](std::span<const std::byte> mine, std::span<std::byte> all) {
              return allgather(rank, mine, all);
            }};
  }

 private:
  int first_of(int process) const { return static_cast<int>(std::int64_t{ranks_} * process / processes_.size()); }

  Status allgather(int rank, std::span<const std::byte> mine, std::span<std::byte> all) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (arrived_++ == 0) here_.resize(mine.size() * static_cast<std::size_t>(end() - first()));
    std::copy(mine.begin(), mine.end(), here_.begin() + static_cast<std::ptrdiff_t>(mine.size()) * (rank - first()));
    changed_.notify_all();
    if (rank == first()) {
      changed_.wait(lock, [&] { return arrived_ == end() - first(); });
      all_ = allgatherv(processes_, here_);
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
    if (!all_) return fail(all_.error());
    auto to = all.begin();
    for (const Buffer& each : *all_) to = std::copy(each.begin(), each.end(), to);
    return {};
  }

  Group& processes_;
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, round_ = 0;
  Buffer here_;
  Result<std::vector<Buffer>> all_;
};

Status on_shared_memory(Group& processes, int ranks, const Body& body) {
  Meeting meeting(processes, ranks);
  const int first = meeting.first();
  std::vector<Status> ended(static_cast<std::size_t>(meeting.end() - first));
  const auto run = [&](int rank) {
    ended[static_cast<std::size_t>(rank - first)] = guarded([&]() -> Status {
      ASSIGN_OR_RETURN(const auto group, make_shared_group(meeting.of(rank), {}));
      return body(*group, rank == first);
    });
  };
  std::promise<bool> all_started;
  const std::shared_future<bool> go = all_started.get_future().share();
  std::vector<std::thread> threads;
  const Status started = guarded([&]() -> Status {
    for (int rank = first + 1; rank < meeting.end(); ++rank)
      threads.emplace_back([&, rank] {
        if (go.get()) run(rank);
      });
    return {};
  });
  const Status all = agree(processes, started);
  all_started.set_value(all.has_value());
  if (all) run(first);
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(all);
  for (const Status& each : ended) RETURN_IF_ERROR(each);
  return {};
}

}  // namespace

Status World::on_ranks(int ranks, const std::function<Status(Group&, bool leads)>& body) const {
  const int processes = processes_.size();
  if (!launched()) return on_threads(ranks, body);
  if (ranks == processes) return body(processes_, true);
  if (ranks > processes && processes_.node_count() == 1) return on_shared_memory(processes_, ranks, body);
  return fail(Code::kArgument,
              fmt::format("{} processes were started, but the target has {}: start {}{}", processes, ranks,
                          ranks < processes ? "at most " : "as many, or take one node: ", ranks));
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
