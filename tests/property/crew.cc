#include "property/crew.h"

#include <condition_variable>
#include <mutex>

#include "group/threads.h"

namespace stridio::testing {
namespace {

// Not the group's own: a rank that skips an agreement must not be saved, or confused, by the test's
// waits.
class Gate {
 public:
  explicit Gate(int ranks) : ranks_(ranks) {}

  void pass() {
    std::unique_lock lock(mutex_);
    const std::int64_t turn = turn_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++turn_;
      lock.unlock();
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return turn_ != turn; });
    }
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int arrived_ = 0;
  std::int64_t turn_ = 0;
};

}  // namespace

void work_through(const CrewOptions& options, Series& series) {
  Gate gate(options.ranks);
  bool more = true;
  run_threads(options.ranks, {.ranks_per_node = options.ranks_per_node, .shared_memory = options.shared_memory},
              [&](Group& group) {
                for (;;) {
                  if (group.rank() == 0) more = series.prepare();
                  gate.pass();
                  if (!more) return;
                  series.act(group);
                  gate.pass();
                }
              });
}

}  // namespace stridio::testing
