// Lock managers: what threads and processes do under their locks is as if done one after the other; nobody starves, and the
// dead hold nothing.
#include "interval/lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "group/segment.h"
#include "group/shared_group.h"
#include "group/testing/forked_ranks.h"
#include "group/threads.h"
#include "storage/memory.h"
#include "support/history.h"
#include "support/random_pattern.h"

namespace stridio {
namespace {

using namespace std::chrono_literals;
using testing::explain_disorder;
using testing::Operation;
using testing::pick;
using testing::Random;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// ---- The checker itself

TEST(History, AnOrderIsFound) {
  EXPECT_EQ(explain_disorder({{true, 0, 10, 0, 1, {0, 1}, {}},
                              {true, 5, 20, 1, 2, {1, 2}, {}},
                              {false, 6, 30, 2, 0, {0, 1, 2}, {1, 2, 2}},
                              {false, 0, 40, 3, 0, {0, 1}, {0, 0}}}),
            "");
}

TEST(History, HalfAWriteIsNoted) {
  EXPECT_NE(explain_disorder({{true, 0, 10, 0, 1, {0, 1}, {}}, {false, 0, 20, 1, 0, {0, 1}, {1, 0}}}), "");
  EXPECT_NE(
      explain_disorder(
          {{true, 0, 10, 0, 1, {0, 1}, {}}, {true, 0, 10, 1, 2, {0, 1}, {}}, {false, 20, 30, 2, 0, {0, 1}, {1, 2}}}),
      "");
  // Two readers that disagree about who came first.
  EXPECT_NE(explain_disorder({{true, 0, 90, 0, 1, {0}, {}},
                              {true, 0, 90, 1, 2, {1}, {}},
                              {false, 0, 90, 2, 0, {0, 1}, {1, 0}},
                              {false, 0, 90, 3, 0, {0, 1}, {0, 2}}}),
            "");
  EXPECT_NE(explain_disorder({{true, 0, 10, 0, 1, {0}, {}}, {false, 20, 30, 1, 0, {0}, {0}}}), "") << "time counts";
}

// ---- Tiles in a row: rank r has cells 4r to 4r + 5, the last two also its right neighbour's; all have the last cell

constexpr int kRanks = 8, kOperations = 60;
constexpr std::uint32_t kCells = 4 * kRanks + 3;
using Cells = std::array<std::atomic<std::uint64_t>, kCells>;

struct Tile {
  std::uint32_t first, last;  // cells
  bool and_common;
};

std::vector<IntervalLock> locks_of(const Tile& tile) {
  std::vector<IntervalLock> locks;
  for (int left = 0; left + 1 < kRanks; ++left) {
    const std::uint32_t cell = 4 * static_cast<std::uint32_t>(left) + 4;
    if (tile.last >= cell && tile.first <= cell + 1) locks.push_back({left, 5});
  }
  if (tile.and_common) locks.push_back({kRanks - 1, 9});
  return locks;
}

Operation operate(LockManager& manager, Cells& cells, Random& random, int rank, int number) {
  Operation operation;
  operation.writes = pick(random, 0, 1) == 0;
  operation.rank = rank;
  operation.value = operation.writes ? static_cast<std::uint64_t>(rank * 1000 + number + 1) : 0;
  Tile tile{4 * static_cast<std::uint32_t>(rank), 4 * static_cast<std::uint32_t>(rank) + 5, pick(random, 0, 2) == 0};
  if (pick(random, 0, 2) == 0) tile.first += static_cast<std::uint32_t>(pick(random, 0, 4));
  for (std::uint32_t cell = tile.first; cell <= tile.last; ++cell) operation.cells.push_back(cell);
  if (tile.and_common) operation.cells.push_back(kCells - 1);
  const Offset end = tile.and_common ? kCells : tile.last + 1;
  operation.begin = now();
  {
    const auto held = manager.lock(locks_of(tile), {tile.first, end - tile.first},
                                   operation.writes ? LockMode::kExclusive : LockMode::kShared);
    EXPECT_TRUE(held) << held.error().text();
    for (const std::uint32_t cell : operation.cells) {
      if (pick(random, 0, 3) == 0) std::this_thread::yield();
      if (operation.writes) {
        cells[cell].store(operation.value, std::memory_order_relaxed);
      } else {
        operation.seen.push_back(cells[cell].load(std::memory_order_relaxed));
      }
    }
  }
  operation.end = now();
  return operation;
}

std::uint64_t logged_seed() {
  const std::uint64_t seed = testing::seed_of_run();
  std::printf("STRIDIO_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

class LockThreads : public ::testing::TestWithParam<bool> {
 protected:
  // A manager for each rank: in memory, or by the storage.
  void on_ranks(int ranks, const std::function<void(int, LockManager&)>& body) const {
    const auto file = make_memory_file();
    run_threads(ranks, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
      const auto storage = open_memory(file);
      auto manager = make_lock_manager(group, *storage);
      ASSERT_TRUE(manager) << manager.error().text();
      ASSERT_TRUE(group.barrier());
      body(group.rank(), **manager);
      ASSERT_TRUE(group.barrier());
    });
  }
};

TEST_P(LockThreads, OverlappingTilesHaveAnOrder) {
  const std::uint64_t seed = logged_seed();
  for (int round = 0; round < 3; ++round) {
    Cells cells{};
    std::mutex mutex;
    std::vector<Operation> history;
    on_ranks(kRanks, [&](int rank, LockManager& manager) {
      Random random(seed + static_cast<std::uint64_t>(round * kRanks + rank));
      for (int i = 0; i < kOperations; ++i) {
        Operation operation = operate(manager, cells, random, rank, i);
        const std::lock_guard lock(mutex);
        history.push_back(std::move(operation));
      }
    });
    ASSERT_EQ(explain_disorder(history), "") << "round " << round;
  }
}

// Locks at several managers in all combinations: nobody waits in a circle.
TEST_P(LockThreads, ManyLocksAtManyManagers) {
  const std::uint64_t seed = logged_seed();
  std::array<std::atomic<int>, 40> writers{}, readers{};
  std::atomic<int> clashes{0};
  on_ranks(6, [&](int rank, LockManager& manager) {
    Random random(seed + static_cast<std::uint64_t>(rank));
    for (int i = 0; i < 400; ++i) {
      std::vector<IntervalLock> wanted;
      for (int lock = 0; lock < 40; ++lock)
        if (pick(random, 0, 6) == 0 || (i % 50 == 0 && lock > 3))
          wanted.push_back({lock / 8, static_cast<std::uint32_t>(lock % 8)});
      const bool writes = pick(random, 0, 1) == 0;
      const auto held = manager.lock(wanted, {0, 10}, writes ? LockMode::kExclusive : LockMode::kShared);
      ASSERT_TRUE(held);
      for (const IntervalLock& each : wanted) {
        const auto lock = static_cast<std::size_t>(each.manager * 8) + each.number;
        if (writes) {
          clashes += writers[lock]++ > 0 || readers[lock] > 0;
        } else {
          ++readers[lock];
          clashes += writers[lock] > 0;
        }
      }
      if (pick(random, 0, 9) == 0) std::this_thread::yield();
      for (const IntervalLock& each : wanted)
        --(writes ? writers : readers)[static_cast<std::size_t>(each.manager * 8) + each.number];
    }
  });
  EXPECT_EQ(clashes, 0);
}

// What the last holder keeps is given up without it, whatever it does.
TEST_P(LockThreads, ACachedLockNeedsNoHelpToBeRevoked) {
  std::atomic<bool> released = false, taken = false;
  on_ranks(2, [&](int rank, LockManager& manager) {
    const IntervalLock lock{0, 3};
    if (rank == 0) {
      for (int i = 0; i < 5; ++i) ASSERT_TRUE(manager.lock({&lock, 1}, {0, 10}, LockMode::kExclusive));
      released = true;
      const auto patience = std::chrono::steady_clock::now() + 10s;
      while (!taken && std::chrono::steady_clock::now() < patience) std::this_thread::sleep_for(1ms);
      ASSERT_TRUE(taken);
      ASSERT_TRUE(manager.lock({&lock, 1}, {0, 10}, LockMode::kExclusive)) << "and is had again";
    } else {
      while (!released) std::this_thread::sleep_for(1ms);
      ASSERT_TRUE(manager.lock({&lock, 1}, {5, 10}, LockMode::kExclusive));
      taken = true;
    }
  });
}

TEST_P(LockThreads, RangesThatDoNotMeetAreHeldTogether) {
  std::atomic<int> inside = 0;
  on_ranks(3, [&](int rank, LockManager& manager) {
    const IntervalLock lock{0, 0};
    const auto held = manager.lock({&lock, 1}, {rank * 10, 10}, LockMode::kExclusive);
    ASSERT_TRUE(held);
    ++inside;
    const auto patience = std::chrono::steady_clock::now() + 10s;
    while (inside < 3 && std::chrono::steady_clock::now() < patience) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(inside, 3);
  });
}

INSTANTIATE_TEST_SUITE_P(Where, LockThreads, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Memory" : "Storage"; });

// Those of a kind that excludes only others hold one lock at the same time, and readers wait for all of them.
TEST(LockTables, AKindIsHeldTogether) {
  static std::atomic<int> inside, read;
  inside = read = 0;
  run_threads(3, {}, [](Group& group) {
    const auto storage = open_memory(make_memory_file());
    auto manager = make_lock_manager(group, *storage);
    ASSERT_TRUE(manager);
    ASSERT_TRUE(group.barrier());
    const IntervalLock lock{0, 0};
    for (int turn = 1; turn <= 3; ++turn) {  // cached ones too
      if (group.rank() < 2) {
        const auto held = (*manager)->lock({&lock, 1}, {0, 10}, LockMode::kTogether);
        ASSERT_TRUE(held);
        ++inside;
        const auto patience = std::chrono::steady_clock::now() + 10s;
        while (inside < 2 * turn && std::chrono::steady_clock::now() < patience) std::this_thread::sleep_for(1ms);
        EXPECT_EQ(inside, 2 * turn);
        std::this_thread::sleep_for(5ms);
        EXPECT_EQ(read, turn - 1);
      } else {
        while (inside < 2 * turn) std::this_thread::sleep_for(1ms);
        ASSERT_TRUE((*manager)->lock({&lock, 1}, {5, 10}, LockMode::kShared));
        ++read;
      }
      ASSERT_TRUE(group.barrier());
    }
  });
}

// Readers that follow each other without a gap do not keep a writer out, for the managers keep the order of requests.
TEST(LockTables, AWriterIsServedInItsTurn) {
  run_threads(3, {}, [](Group& group) {
    static std::atomic<bool> done;
    if (group.rank() == 0) done = false;
    const auto storage = open_memory(make_memory_file());
    auto manager = make_lock_manager(group, *storage);
    ASSERT_TRUE(manager);
    ASSERT_TRUE(group.barrier());
    const IntervalLock lock{0, 0};
    if (group.rank() == 2) {
      std::this_thread::sleep_for(20ms);
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_TRUE((*manager)->lock({&lock, 1}, {0, 1}, LockMode::kExclusive));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
      done = true;
    } else {
      std::unique_ptr<RangeLock> held;  // the next is held before the last is let go
      const auto patience = std::chrono::steady_clock::now() + 20s;
      for (Offset i = group.rank(); !done && std::chrono::steady_clock::now() < patience; i += 2) {
        held.reset();
        auto next = (*manager)->lock({&lock, 1}, {0, 1 + i}, LockMode::kShared);
        ASSERT_TRUE(next);
        held = *std::move(next);
        std::this_thread::sleep_for(group.rank() == 0 ? 3ms : 5ms);
      }
      EXPECT_TRUE(done);
    }
    ASSERT_TRUE(group.barrier());
  });
}

// ---- Processes

struct Shared {
  Cells cells;
  std::atomic<int> ready;
  struct Record {
    bool writes;
    std::int64_t begin, end;
    std::uint64_t value;
    std::uint32_t count;
    std::uint32_t cells[8];
    std::uint64_t seen[8];
  } records[kRanks][kOperations];
};

class LockProcesses : public ForkedRanks<Shared> {
 protected:
  void start(int ranks, const std::function<void(int, LockManager&)>& body) {
    ForkedRanks::start(ranks, [&](const Bootstrap& bootstrap) {
      auto group = make_shared_group(bootstrap, {});
      if (!group) _exit(2);
      const auto storage = open_memory(make_memory_file());
      auto manager = make_lock_manager(**group, *storage);
      if (!manager || !(*group)->barrier()) _exit(3);
      body(bootstrap.rank, **manager);
      _exit(HasFailure() ? 1 : 0);  // as a rank ends that is killed: with all that it holds
    });
  }
};

TEST_F(LockProcesses, OverlappingTilesHaveAnOrder) {
  const std::uint64_t seed = logged_seed();
  start(kRanks, [&](int rank, LockManager& manager) {
    Random random(seed + static_cast<std::uint64_t>(rank));
    for (int i = 0; i < kOperations; ++i) {
      const Operation done = operate(manager, shared_.cells, random, rank, i);
      Shared::Record& record = shared_.records[rank][i];
      record = {done.writes, done.begin, done.end, done.value, static_cast<std::uint32_t>(done.cells.size()), {}, {}};
      std::copy(done.cells.begin(), done.cells.end(), record.cells);
      std::copy(done.seen.begin(), done.seen.end(), record.seen);
    }
  });
  finish();
  std::vector<Operation> history;
  for (int rank = 0; rank < kRanks; ++rank)
    for (const Shared::Record& record : shared_.records[rank])
      history.push_back({record.writes,
                         record.begin,
                         record.end,
                         rank,
                         record.value,
                         {record.cells, record.cells + record.count},
                         {record.seen, record.seen + record.count}});
  EXPECT_EQ(explain_disorder(history), "");
}

TEST_F(LockProcesses, TheDeadHoldNothing) {
  start(3, [&](int rank, LockManager& manager) {
    const IntervalLock lock{1, 0};
    if (rank == 0) {
      const auto held = manager.lock({&lock, 1}, {0, 10}, LockMode::kExclusive);
      ++shared_.ready;
      for (;;) pause();
    }
    while (shared_.ready == 0) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(manager.lock({&lock, 1}, {5, 10}, LockMode::kExclusive));
  });
  while (shared_.ready == 0) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(100ms);  // the others wait
  kill_rank(0);
  finish(0);
}

// Wherever it is when it is killed.
TEST_F(LockProcesses, TheKilledDisturbNobody) {
  const std::uint64_t seed = logged_seed();
  for (int round = 0; round < 10; ++round) {
    start(3, [&](int rank, LockManager& manager) {
      Random random(seed + static_cast<std::uint64_t>(rank + 3 * round));
      ++shared_.ready;
      for (int i = 0; rank == 0 || i < 20'000; ++i) {
        const IntervalLock lock{static_cast<int>(pick(random, 0, 2)), 0};
        EXPECT_TRUE(manager.lock({&lock, 1}, {pick(random, 0, 3), 10}, LockMode::kExclusive));
      }
    });
    while (shared_.ready < 3) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
    kill_rank(0);
    finish(0);
  }
}

}  // namespace
}  // namespace stridio
