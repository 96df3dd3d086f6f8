// Ranks that are forked processes, as under MPI: each has its own mappings, and some die.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "group/shared_group.h"

namespace stridio {

// `Shared`: what all ranks and the test see at one place; zeroed.
template <typename Shared>
class ForkedRanks : public ::testing::Test {
 protected:
  ForkedRanks()
      : common_(static_cast<Common*>(
            mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        shared_(common_->shared) {}
  ~ForkedRanks() override { munmap(common_, sizeof(Common)); }

  // Forks `ranks` processes that run `body`; a failed expectation in one becomes its exit status.
  void start(int ranks, const std::function<void(const Bootstrap&)>& body) {
    std::fill_n(reinterpret_cast<std::byte*>(common_), sizeof *common_, std::byte{0});
    pids_.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        alarm(kPatience.count());
        body(bootstrap(rank, ranks));
        _exit(HasFailure() ? 1 : 0);
      }
      pids_.push_back(pid);
    }
  }

  // Until a rank says in `shared_` that it is so far; a test that waits in vain fails.
  void await(const std::atomic<bool>& so_far) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!so_far) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void kill_rank(int rank) { kill(pids_[static_cast<std::size_t>(rank)], SIGKILL); }

  // Every rank but `killed` ends well.
  void finish(int killed = -1) {
    for (int rank = 0; rank < std::ssize(pids_); ++rank) {
      int status = 0;
      ASSERT_EQ(waitpid(pids_[static_cast<std::size_t>(rank)], &status, 0), pids_[static_cast<std::size_t>(rank)]);
      if (rank == killed)
        EXPECT_TRUE(WIFSIGNALED(status));
      else
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": " << status;
    }
  }

 private:
  static constexpr int kAgreements = 64, kMostRanks = 16;
  static constexpr std::chrono::seconds kPatience{60};  // what a rank that hangs lives

  struct Common {
    std::atomic<int> arrived[kAgreements];
    std::byte bytes[kAgreements][kMostRanks][512];
    Shared shared;
  };

  Bootstrap bootstrap(int rank, int size) {
    return {rank, size, [this, rank, size, call = 0](auto mine, auto all) mutable -> Status {
              std::copy(mine.begin(), mine.end(), common_->bytes[call][rank]);
              ++common_->arrived[call];
              while (common_->arrived[call] < size) std::this_thread::sleep_for(std::chrono::microseconds(100));
              for (int r = 0; r < size; ++r)
                std::copy_n(common_->bytes[call][r], mine.size(), all.begin() + r * std::ssize(mine));
              ++call;
              return {};
            }};
  }

  Common* const common_;
  std::vector<pid_t> pids_;

 protected:
  Shared& shared_;
};

}  // namespace stridio
