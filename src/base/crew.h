// Threads that wait for something together, and are kept for the next time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace stridio {

// Thread-safe; several may run something at once. Threads start as they are needed, take none of the program's signals, and end
// with the Crew, in which nothing may run by then. To start and end them for each file takes longer than many a file's requests:
// of_process<Crew>() lasts as long as the process.
class Crew {
 public:
  Crew() = default;
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls `work`, which throws nothing, here and at the same time on up to `helpers` other threads, fewer where there are no
  // more to be had or this call returns before they come. Returns when it has returned everywhere.
  void run(std::size_t helpers, const std::function<void()>& work);

 private:
  struct Job {
    const std::function<void()>& work;
    std::size_t wanted;  // helpers, still
    std::size_t running = 0;
  };

  bool start_one();
  void serve();
  Job* next();

  std::mutex mutex_;
  std::condition_variable wanted_, returned_;
  std::vector<Job*> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace stridio
