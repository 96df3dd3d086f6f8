// A thread that runs tasks one after the other, for work that must go on while the program computes. It makes no MPI
// call: what it runs uses storage and shared memory only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace stridio {

// A thread that takes none of the program's signals, but those that it causes itself: they are the business of the program's own
// threads.
std::thread start_without_signals(std::function<void()> body);

// Thread-safe. The thread starts with the first task; the destructor runs what is left and joins it.
class Worker {
 public:
  Worker() = default;
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> task);
  // Where there is no thread or memory for that, the task runs here, after those before it.
  void post_or_run(const std::function<void()>& task);
  // Until every posted task has ended.
  void wait();
  // Whether every posted task has ended, after waiting for that at most `longest`.
  bool idle_within(std::chrono::microseconds longest);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

// Whether the calling thread is a Worker's: then the host MPI must not be called.
bool on_worker_thread();

}  // namespace stridio
