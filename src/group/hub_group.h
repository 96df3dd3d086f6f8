// A message-passing group of ranks that are threads of one process: what a group across nodes is
// over MPI, for tests and simulations at thousands of ranks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "group/group.h"

namespace stridio {

// What the ranks share. Must outlive every group that joined it.
class Hub {
 public:
  // `ranks_per_node` consecutive ranks make a node, 0: all are on one; whether those of one share memory.
  Hub(int ranks, int ranks_per_node, bool shared_memory);

  // The group of `rank`, to be used by one thread. Called once a rank, on any thread. A rank whose
  // group is destroyed has left: whoever waits for it then fails.
  std::unique_ptr<Group> join(int rank);
  // Marks a rank that will never join.
  void leave(int rank);

 private:
  friend class HubGroup;

  // A message: the sender's bytes, and the receiver's place for them.
  struct Letter {
    std::optional<Span> sent, expected;
  };
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    std::unordered_map<int, Letter> letters;  // by sender: what has only one side yet
    std::atomic<bool> left = false;
  };
  struct Agreement {
    std::mutex mutex;
    std::condition_variable completed;
    std::uint64_t generation = 0;  // agreements completed
    int arrived = 0;               // ranks in the next one
    std::size_t length = 0;        // of each rank's bytes in it
    Buffer bytes[2];               // by parity of the generation
    std::optional<int> left;       // the first rank that has left
    std::optional<Error> failure;  // once set, for ever
  };

  Error failure();
  Error fail_naming(int culprit, const std::string& what);
  void wake_mailboxes();

  const int ranks_per_node_;
  const bool shared_memory_;
  std::atomic<bool> failed_ = false;     // agreement_.failure is set
  std::atomic<bool> some_left_ = false;  // some mailbox's `left` is set
  std::vector<Mailbox> mailboxes_;
  Agreement agreement_;
};

}  // namespace stridio
