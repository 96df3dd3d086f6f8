// One pthread a rank, with a small stack, so that thousands fit.
#include "group/threads.h"

#include <pthread.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>

#include "group/hub_group.h"
#include "group/shared_group.h"

namespace stridio {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;

class Run {
 public:
  Run(int ranks, const ThreadGroupOptions& options, const std::function<void(Group&)>& body)
      : options_(options), body_(body), hub_(ranks, options.ranks_per_node, options.shared_memory) {
    for (int rank = 0; rank < ranks; ++rank) starts_.push_back({this, rank});
  }

  void start_and_join();

 private:
  struct Start {
    Run* run;
    int rank;
  };
  static void* thread_main(void* start);
  void run_rank(int rank);
  void keep(std::exception_ptr thrown);

  const ThreadGroupOptions options_;
  const std::function<void(Group&)>& body_;
  Hub hub_;
  std::vector<Start> starts_;
  std::mutex mutex_;
  std::exception_ptr first_thrown_;
};

void* Run::thread_main(void* start) {
  auto* const self = static_cast<Start*>(start);
  try {
    self->run->run_rank(self->rank);
  } catch (...) {
    self->run->keep(std::current_exception());
  }
  return nullptr;
}

void Run::run_rank(int rank) {
  const auto messages = hub_.join(rank);
  if (options_.shared_memory && messages->node_count() == 1) {
    auto shared = make_shared_group(bootstrap_over(*messages), {.one_address_space = true});
    if (shared) return body_(**shared);
  }
  body_(*messages);
}

void Run::keep(std::exception_ptr thrown) {
  std::lock_guard lock(mutex_);
  if (!first_thrown_) first_thrown_ = std::move(thrown);
}

void Run::start_and_join() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  std::vector<pthread_t> threads;
  for (Start& start : starts_) {
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, &thread_main, &start);
    if (error == 0) {
      threads.push_back(thread);
    } else {
      hub_.leave(start.rank);
      keep(std::make_exception_ptr(std::system_error(error, std::generic_category(), "cannot start a rank's thread")));
    }
  }
  pthread_attr_destroy(&attributes);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (first_thrown_) std::rethrow_exception(first_thrown_);
}

}  // namespace

void run_threads(int ranks, const ThreadGroupOptions& options, const std::function<void(Group&)>& body) {
  Run(ranks, options, body).start_and_join();
}

}  // namespace stridio
