#include "base/crew.h"

#include <unistd.h>

#include <algorithm>

#include "base/worker.h"

namespace stridio {

// Never destroyed: nothing waits for its threads when the process ends. A forked child has none of them, and gets its own.
Crew& Crew::of_process() {
  static std::mutex mutex;
  static Crew* crew = nullptr;
  static pid_t owner = 0;
  const std::scoped_lock lock(mutex);
  if (const pid_t self = ::getpid(); self != owner) {
    crew = new Crew;
    owner = self;
  }
  return *crew;
}

Crew::~Crew() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(std::size_t helpers, const std::function<void()>& work) {
  Job job{work, helpers};
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(&job);
    std::size_t wanted = 0;
    for (const Job* each : jobs_) wanted += each->wanted;
    while (idle_ < wanted && start_one()) ++idle_;
  }
  for (std::size_t i = 0; i < helpers; ++i) wanted_.notify_one();
  work();
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  returned_.wait(lock, [&] { return job.running == 0; });
}

// False where there are no more to be had.
bool Crew::start_one() {
  threads_.emplace_back();
  try {
    threads_.back() = start_without_signals([this] { serve(); });
  } catch (const std::exception&) {
    threads_.pop_back();
    return false;
  }
  return true;
}

Crew::Job* Crew::next() {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* job) { return job->wanted > 0; });
  return found == jobs_.end() ? nullptr : *found;
}

void Crew::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = nullptr;
    wanted_.wait(lock, [&] { return stopping_ || (job = next()) != nullptr; });
    if (!job) return;
    --idle_;
    --job->wanted;
    ++job->running;
    lock.unlock();
    job->work();
    lock.lock();
    ++idle_;
    if (--job->running == 0) returned_.notify_all();
  }
}

}  // namespace stridio
