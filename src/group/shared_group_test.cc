// SharedGroup between processes, as under MPI: each has its own mapping, and some die.
#include "group/shared_group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "group/levels.h"
#include "group/process_id.h"
#include "group/testing/forked_ranks.h"

namespace stridio {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kMostRanks = 16;

struct Started {
  std::atomic<bool> by_rank[kMostRanks];
};

class SharedGroupProcesses : public ForkedRanks<Started> {
 protected:
  // Kills the rank at some moment of what it does once it has started.
  void kill_started(int rank) {
    await(shared_.by_rank[rank]);
    std::this_thread::sleep_for(50ms);
    kill_rank(rank);
  }
};

std::size_t names_in_shm() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("stridio-");
  return count;
}

// Repeats `call` until it fails; the failure must come soon after the victim died and name it.
void expect_failure_naming(int victim, const std::function<Status()>& call) {
  const auto end = steady_clock::now() + 20s;
  auto last_success = steady_clock::now();
  Status status;
  while (status && steady_clock::now() < end) {
    last_success = steady_clock::now();
    status = call();
  }
  ASSERT_FALSE(status);
  EXPECT_LT(steady_clock::now() - last_success, 5s);
  EXPECT_EQ(status.error().code, Code::kOther);
  EXPECT_EQ(status.error().rank, victim) << status.error().text();
  EXPECT_FALSE(call()) << "a failed group stays failed";
}

TEST_F(SharedGroupProcesses, AgreeExchangeAndShareMemory) {
  start(4, [](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group) << group.error().text();
    for (int round = 0; round < 200; ++round) {
      const auto all = allgather(**group, bootstrap.rank + round);
      ASSERT_TRUE(all);
      for (int r = 0; r < 4; ++r) ASSERT_EQ((*all)[static_cast<std::size_t>(r)], r + round);
    }
    std::vector<Buffer> sends(4);
    for (int r = 0; r < 4; ++r)
      sends[static_cast<std::size_t>(r)].assign(1'000'000, static_cast<std::byte>(10 * bootstrap.rank + r));
    const auto received = alltoallv(**group, sends);
    ASSERT_TRUE(received) << received.error().text();
    for (int r = 0; r < 4; ++r)
      ASSERT_EQ((*received)[static_cast<std::size_t>(r)],
                Buffer(1'000'000, static_cast<std::byte>(10 * r + bootstrap.rank)));
    const auto memory = (*group)->shared(10'000);
    ASSERT_TRUE(memory);
    memory->data[bootstrap.rank] = std::byte{42};
    ASSERT_TRUE((*group)->barrier());
    for (int r = 0; r < 4; ++r) ASSERT_EQ(memory->data[r], std::byte{42});
  });
  finish();
}

// As if rank 0 had sent rank 1 almost so many chunks more: moves the two counts of the channel, which are found in the segment
// by what they have come to.
void count_on(Group& group, std::uint32_t chunks, std::uint32_t more) {
  constexpr std::size_t kSearched = 65536;
  auto* const words = reinterpret_cast<std::uint32_t*>(group.persistent().data);
  std::size_t found = 0, at = 0;
  for (std::size_t i = 0; i + 1 < kSearched / sizeof *words; ++i)
    if (words[i] == chunks && words[i + 1] == chunks) found += 1, at = i;
  ASSERT_EQ(found, 1u);
  words[at] = words[at + 1] = chunks + more;
}

TEST_F(SharedGroupProcesses, SlotsAreFreeHoweverLongAgoTheyWereEmptied) {
  start(2, [this](const Bootstrap& bootstrap) {
    constexpr std::uint32_t kSlots = 4, kMessages = 5000;
    auto made = make_shared_group(bootstrap, {});
    ASSERT_TRUE(made);
    Group& group = **made;
    Buffer chunk(64 << 10), all(kSlots * chunk.size());
    const auto send = [&](Buffer& bytes) {
      const Message message{1 - group.rank(), {bytes.data(), std::ssize(bytes)}};
      const unsigned sends = group.rank() == 0;
      ASSERT_TRUE(group.exchange({&message, sends}, {&message, 1 - sends}));
    };
    const auto send_before_receiver_comes = [&](std::atomic<bool>& sent) {
      if (group.rank() == 1) {
        await(sent);
        send(all);
      } else {
        send(all);
        sent = true;
      }
    };
    send_before_receiver_comes(shared_.by_rank[0]);  // by all slots
    for (std::uint32_t i = kSlots; i < kMessages; ++i) {
      ASSERT_TRUE(group.barrier());
      send(chunk);  // by one of them
    }
    ASSERT_TRUE(group.barrier());
    if (group.rank() == 0) count_on(group, kMessages, 0x7FFFFFFF);
    ASSERT_TRUE(group.barrier());
    send_before_receiver_comes(shared_.by_rank[1]);
  });
  finish();
}

TEST_F(SharedGroupProcesses, NoNameRemains) {
  const std::size_t before = names_in_shm();
  start(3, [before](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group && (*group)->shared(1000) && (*group)->barrier());
    // Other tests of this machine may have a name there for a moment.
    const auto end = steady_clock::now() + 5s;
    while (names_in_shm() > before && steady_clock::now() < end) std::this_thread::sleep_for(10ms);
    EXPECT_LE(names_in_shm(), before);
    ASSERT_TRUE((*group)->barrier());
  });
  finish();
}

TEST_F(SharedGroupProcesses, MemoryThatCannotBeHadIsRefusedOnAllRanks) {
  start(3, [](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    const auto refused = (*group)->shared(Bytes{1} << 60);
    ASSERT_TRUE(refused) << refused.error().text();
    EXPECT_EQ(refused->data, nullptr);
    const auto granted = (*group)->shared(1000);
    ASSERT_TRUE(granted);
    EXPECT_NE(granted->data, nullptr);
    EXPECT_TRUE((*group)->barrier());
  });
  finish();
}

// Two ranks a node, where all could share memory.
class TwoANode final : public Group {
 public:
  explicit TwoANode(Group& all) : all_(all) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  int node_of(int rank) const override { return rank / 2; }
  int node_count() const override { return size() / 2; }
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    return all_.allgather(mine, all);
  }
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override {
    return all_.start(sends, receives);
  }
  Status finish(Ticket ticket) override { return all_.finish(ticket); }
  Status barrier() override { return all_.barrier(); }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

 private:
  Result<std::unique_ptr<Levels>> make_levels(bool) override { return Levels::make(*this, SharedGroupOptions{}); }

  Group& all_;
};

TEST_F(SharedGroupProcesses, WhatOneNodeIsRefusedLeavesEachNodeTheMemoryThatItHas) {
  start(4, [](const Bootstrap& bootstrap) {
    constexpr Bytes kLittle = 10'000, kMuch = 8'000'000;
    auto all = make_shared_group(bootstrap, {});
    ASSERT_TRUE(all);
    TwoANode group(**all);
    const auto levels = group.levels();
    ASSERT_TRUE(levels) << levels.error().text();
    ASSERT_EQ((*levels)->count(), 2);
    const auto use = [&](const Result<SharedMemory>& memory) {
      ASSERT_TRUE(memory);
      ASSERT_GE(memory->length, kLittle);
      memory->data[kLittle - 1 - bootstrap.rank] = static_cast<std::byte>(42 + bootstrap.rank);
      ASSERT_TRUE((*levels)->node().barrier());
      const int other = bootstrap.rank ^ 1;
      EXPECT_EQ(memory->data[kLittle - 1 - other], static_cast<std::byte>(42 + other));
    };
    use((*levels)->shared(kLittle));
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{kMuch / 2, kMuch / 2};
    if (bootstrap.rank >= 2) {
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    }
    const auto refused = (*levels)->shared(kMuch);
    ASSERT_TRUE(refused) << refused.error().text();
    EXPECT_EQ(refused->length, 0);
    use((*levels)->shared(kLittle));
    use((*levels)->shared(kLittle + 1));
    ASSERT_TRUE(group.barrier());
  });
  finish();
}

TEST_F(SharedGroupProcesses, ASegmentGetsItsSpaceAsItGrows) {
  start(3, [](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    // More than there is; not so much that a sanitizer has no addresses for it.
    const Bytes length = 2 * static_cast<Bytes>(std::filesystem::space("/dev/shm").capacity);
    const auto segment = (*group)->segment(length, 100);
    ASSERT_TRUE(segment) << segment.error().text();
    ASSERT_TRUE(*segment);
    ASSERT_EQ((*segment)->length(), length);
    EXPECT_FALSE((*segment)->reserve(length));
    EXPECT_FALSE((*segment)->reserve(2 * length));
    std::byte* const bytes = (*segment)->data();
    bytes[bootstrap.rank] = std::byte{1};
    if (bootstrap.rank == 1) {
      ASSERT_TRUE((*segment)->reserve(1'000'000));
      bytes[999'999] = std::byte{2};
    }
    ASSERT_TRUE((*group)->barrier());
    for (int r = 0; r < 3; ++r) EXPECT_EQ(bytes[r], std::byte{1});
    EXPECT_EQ(bytes[999'999], std::byte{2});
  });
  finish();
}

TEST_F(SharedGroupProcesses, ProgressIsDrivenWhileWaiting) {
  start(2, [](const Bootstrap& bootstrap) {
    int driven = 0;
    auto group = make_shared_group(bootstrap, {.progress = [&driven] { ++driven; }});
    ASSERT_TRUE(group);
    if (bootstrap.rank == 1) std::this_thread::sleep_for(100ms);
    ASSERT_TRUE((*group)->barrier());
    EXPECT_GT(driven, bootstrap.rank == 0 ? 5 : -1);
  });
  finish();
}

TEST_F(SharedGroupProcesses, AKilledRankFailsTheOthersInBarrier) {
  start(4, [this](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    shared_.by_rank[bootstrap.rank] = true;
    expect_failure_naming(2, [&] { return (*group)->barrier(); });
  });
  kill_started(2);
  finish(2);
}

TEST_F(SharedGroupProcesses, AKilledRankFailsTheOthersInExchange) {
  start(3, [this](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    shared_.by_rank[bootstrap.rank] = true;
    const std::vector<Buffer> sends(3, Buffer(3'000'000));
    expect_failure_naming(1, [&]() -> Status {
      RETURN_IF_ERROR(alltoallv(**group, sends));
      return {};
    });
  });
  kill_started(1);
  finish(1);
}

// The victim has taken part in the agreement that the others still wait in; they must not wait for
// ever.
TEST_F(SharedGroupProcesses, ARankKilledWhileItWaitsFailsTheOthers) {
  start(3, [this](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    shared_.by_rank[bootstrap.rank] = true;
    if (bootstrap.rank == 0) std::this_thread::sleep_for(2s);
    expect_failure_naming(2, [&] { return (*group)->barrier(); });
  });
  kill_started(2);
  finish(2);
}

TEST_F(SharedGroupProcesses, WhoAwaitsABellHearsItAndOfTheDead) {
  start(3, [this](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    const auto memory = (*group)->shared(sizeof(Bell));
    ASSERT_TRUE(memory && memory->length > 0);
    Bell& bell = *reinterpret_cast<Bell*>(memory->data);
    const auto nobody = [] { return std::vector<int>(); };
    constexpr std::uint32_t kRings = 2000;
    for (std::uint32_t turn = 0; turn < kRings; ++turn) {  // rank after rank
      if (turn % 3 == static_cast<std::uint32_t>(bootstrap.rank)) {
        bell.ring();
      } else {
        ASSERT_TRUE((*group)->await(bell, turn, nobody));
      }
      while (bell.rings.load() <= turn) ASSERT_TRUE((*group)->await(bell, turn, nobody));
    }
    ASSERT_TRUE((*group)->barrier());
    EXPECT_EQ(bell.rings.load(), kRings);
    shared_.by_rank[bootstrap.rank] = true;
    expect_failure_naming(2, [&] { return (*group)->await(bell, kRings, nobody); });
  });
  kill_started(2);
  finish(2);
}

TEST(ProcessId, TellsTheLivingFromTheDead) {
  const ProcessId self = this_process();
  EXPECT_TRUE(can_watch(self));
  EXPECT_FALSE(has_died(self));
  ProcessId earlier = self;
  --earlier.start_time;
  EXPECT_TRUE(has_died(earlier)) << "another process has got its number since";
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ProcessId other = self;
  other.pid = child;
  EXPECT_FALSE(can_watch(other)) << "the start time is not its own";
  kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_died(other)) << "a zombie";
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(has_died(other));
}

}  // namespace
}  // namespace stridio
