#include "base/worker.h"

#include <pthread.h>
#include <signal.h>

namespace stridio {
namespace {

thread_local bool is_worker = false;

}  // namespace

std::thread start_without_signals(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  // What the thread itself does wrong, or what becomes of a mapped file: where these are blocked the process ends.
  for (const int own : {SIGBUS, SIGFPE, SIGILL, SIGSEGV}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restored {
    const sigset_t& mask;
    ~Restored() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restored{before};
  return std::thread(std::move(body));
}

bool on_worker_thread() { return is_worker; }

Worker::~Worker() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::post(std::function<void()> task) {
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = start_without_signals([this] { run(); });  // first: a task without it never ends
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void Worker::post_or_run(const std::function<void()>& task) {
  try {
    return post(task);
  } catch (const std::exception&) {
    wait();
  }
  task();
}

void Worker::wait() {
  while (!idle_within(std::chrono::seconds(1))) {
  }
}

bool Worker::idle_within(std::chrono::microseconds longest) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, longest, [&] { return tasks_.empty() && !busy_; });
}

void Worker::run() {
  is_worker = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    task = nullptr;  // what it held is let go before anybody learns that it has ended
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace stridio
