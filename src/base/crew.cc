#include "base/crew.h"

#include <algorithm>

#include "base/worker.h"

namespace stridio {

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
  try {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_without_signals([this] { serve(); }));
    return true;
  } catch (const std::exception&) {
    return false;
  }
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
