// Atomic mode of files: what ranks do to overlapping tiles of a real file is as if done one after the other, among the ranks
// of a handle and between handles; and what is private waits for nobody.
#include "file/atomicity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "file/file.h"
#include "group/threads.h"
#include "storage/posix.h"
#include "support/history.h"
#include "support/random_pattern.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

using testing::explain_disorder;
using testing::Operation;
using testing::pick;
using testing::Random;

// Tiles of a row of columns: tile t has columns 2t to 2t + 2, the last one also its right neighbour's.
constexpr int kRows = 120, kOwn = 2, kGhost = 1, kRanks = 6, kOperations = 40;
constexpr int kColumns = kOwn * kRanks + kGhost, kTile = kOwn + kGhost;
using Cell = std::array<std::uint64_t, 64>;
constexpr Bytes kCell = sizeof(Cell);

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

View tile_view(int rank) {
  const Pattern tile = Pattern::strided(kRows, kColumns * kCell, Pattern::run(0, kTile * kCell));
  return {0, kCell, tile.shifted(rank * kOwn * kCell), kRows * kColumns * kCell};
}

class AtomicityTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stridio-atomic-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<File> open(Group& group, int tile, const std::string& prefix = "") const {
    auto file = File::open(std::shared_ptr<Group>(&group, [](Group*) {}), prefix + folder_ + "/data",
                           {.read_write = true, .create = true}, {});
    EXPECT_TRUE(file) << file.error().text();
    EXPECT_TRUE((*file)->set_atomicity(true));
    EXPECT_TRUE((*file)->set_view(tile_view(tile), {}));
    return *std::move(file);
  }

  // Rows of the tile, or of `columns` from its first on: all, or some.
  static Operation operate(File& file, Random& random, int rank, int tile, int number, int columns = kTile) {
    Operation operation;
    operation.writes = pick(random, 0, 1) == 0;
    operation.rank = rank;
    operation.value = operation.writes ? static_cast<std::uint64_t>(rank * 1000 + number + 1) : 0;
    const auto first = pick(random, 0, 1) * pick(random, 0, kRows - 1),
               last = first == 0 ? kRows - 1 : pick(random, first, kRows - 1);
    std::vector<Cell> cells(static_cast<std::size_t>((last - first + 1) * columns));
    for (Cell& cell : cells) cell.fill(operation.value);
    Access access{.direction = operation.writes ? Direction::kWrite : Direction::kRead, .offset = first * columns};
    access.memory = {reinterpret_cast<std::byte*>(cells.data()), Pattern::run(0, std::ssize(cells) * kCell)};
    operation.begin = now();
    const auto moved = file.transfer(access);
    operation.end = now();
    EXPECT_TRUE(moved) << moved.error().text();
    bool torn = false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto row =
          static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i / static_cast<std::size_t>(columns));
      operation.cells.push_back(row * kColumns + static_cast<std::uint32_t>(tile * kOwn) +
                                i % static_cast<std::size_t>(columns));
      if (operation.writes) continue;
      operation.seen.push_back(cells[i][0]);
      for (const std::uint64_t part : cells[i]) torn = torn || part != cells[i][0];
    }
    EXPECT_FALSE(torn) << "parts of a cell are of several writes";
    return operation;
  }

  // Ranks of one handle, each with its tile.
  void expect_order(const std::string& prefix) {
    const std::uint64_t seed = logged_seed();
    for (int round = 0; round < 4; ++round) {
      history_.clear();
      run_threads(kRanks, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
        Random random(seed + static_cast<std::uint64_t>(round * kRanks + group.rank()));
        const auto file = open(group, group.rank(), prefix);
        EXPECT_TRUE(file->set_size(0));
        EXPECT_TRUE(file->set_size(kRows * kColumns * kCell));
        EXPECT_TRUE(group.barrier());
        std::vector<Operation> mine;
        for (int i = 0; i < kOperations; ++i) mine.push_back(operate(*file, random, group.rank(), group.rank(), i));
        record(std::move(mine));
        EXPECT_TRUE(file->close());
      });
      ASSERT_EQ(explain_disorder(history_), "") << "round " << round;
    }
  }

  // One rank has a view of the whole, and some of its accesses are whole rows.
  void expect_order_with_whole_rows(const std::string& prefix) {
    const std::uint64_t seed = logged_seed();
    constexpr Bytes kBytes = kRows * kColumns * kCell;
    for (int round = 0; round < 4; ++round) {
      history_.clear();
      run_threads(3, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
        Random random(seed + static_cast<std::uint64_t>(round * 3 + group.rank()));
        const auto file = open(group, group.rank(), prefix);
        const bool whole = group.rank() == 0;
        EXPECT_TRUE(
            file->set_view(whole ? View{0, kCell, Pattern::run(0, kBytes), kBytes} : tile_view(group.rank()), {}));
        EXPECT_TRUE(file->set_size(0));
        EXPECT_TRUE(file->set_size(kBytes));
        EXPECT_TRUE(group.barrier());
        std::vector<Operation> mine;
        for (int i = 0; i < kOperations; ++i)
          mine.push_back(operate(*file, random, group.rank(), group.rank(), i, whole ? kColumns : kTile));
        record(std::move(mine));
        EXPECT_TRUE(file->close());
      });
      ASSERT_EQ(explain_disorder(history_), "") << "round " << round;
    }
  }

  void record(std::vector<Operation> operations) {
    const std::lock_guard lock(mutex_);
    history_.insert(history_.end(), operations.begin(), operations.end());
  }

  static std::uint64_t logged_seed() {
    const std::uint64_t seed = testing::seed_of_run();
    std::printf("STRIDIO_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return seed;
  }

  std::string folder_;
  std::mutex mutex_;
  std::vector<Operation> history_;
};

TEST_P(AtomicityTest, TilesOfOneHandleHaveAnOrder) { expect_order(""); }

// Whole rows are one request.
TEST_P(AtomicityTest, TilesAndWholeRowsHaveAnOrder) { expect_order_with_whole_rows(""); }

TEST_P(AtomicityTest, TilesOfOneIntervalFileHaveAnOrder) { expect_order("interval:"); }

TEST_P(AtomicityTest, TilesAndWholeRowsOfOneIntervalFileHaveAnOrder) { expect_order_with_whole_rows("interval:"); }

// Accesses that go by several windows: nobody sees some of one.
TEST_P(AtomicityTest, LongAccessesOfAnIntervalFileAreWhole) {
  constexpr Bytes kPiece = 64, kPieces = 160000;  // of memory, with holes as long
  run_threads(3, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
    const auto file = open(group, group.rank(), "interval:");
    EXPECT_TRUE(file->set_view({0, 1, Pattern::run(0, kPiece), kPiece}, {}));
    std::vector<char> data(2 * kPiece * kPieces);
    Access access{.direction = Direction::kWrite};
    access.memory = {reinterpret_cast<std::byte*>(data.data()),
                     Pattern::strided(kPieces, 2 * kPiece, Pattern::run(0, kPiece))};
    EXPECT_TRUE(group.rank() != 0 || file->transfer(access));
    EXPECT_TRUE(group.barrier());
    for (int turn = 0; turn < 12; ++turn) {
      access.direction = group.rank() == 2 ? Direction::kRead : Direction::kWrite;
      std::fill(data.begin(), data.end(), static_cast<char>(3 * turn + group.rank()));
      EXPECT_TRUE(file->transfer(access));
      for (std::size_t at = 0; at < data.size(); at += 2 * kPiece)
        ASSERT_EQ(data[at], data[0]) << "piece " << at / (2 * kPiece) << " in turn " << turn;
    }
    EXPECT_TRUE(file->close());
  });
}

// Each handle is of a group of one: nothing is shared among its ranks, and all with the others'. The first is alone until the
// others come.
TEST_P(AtomicityTest, TilesOfSeveralHandlesHaveAnOrder) {
  const std::uint64_t seed = logged_seed();
  std::ofstream(folder_ + "/data") << std::string(kRows * kColumns * kCell, '\0');
  std::atomic<bool> opened = false;
  std::vector<std::thread> programs;
  for (int rank = 0; rank < 4; ++rank)
    programs.emplace_back([&, rank] {
      run_threads(1, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
        Random random(seed + static_cast<std::uint64_t>(rank));
        while (rank > 0 && !opened) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto file = open(group, rank % 2);
        opened = true;
        std::vector<Operation> mine;
        for (int i = 0; i < (rank == 0 ? 3 : 1) * kOperations; ++i)
          mine.push_back(operate(*file, random, rank, rank % 2, i));
        record(std::move(mine));
        EXPECT_TRUE(file->close());
      });
    });
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(explain_disorder(history_), "");
}

// Two ranks interleave: what is private is held by both at once, though the ranges meet; what is shared is not.
TEST_P(AtomicityTest, OnlySharedIntervalsAreLocked) {
  for (const bool overlap : {false, true}) {
    std::atomic<int> inside = 0, most = 0;
    run_threads(2, {.ranks_per_node = 0, .shared_memory = GetParam()}, [&](Group& group) {
      auto storage = open_posix(folder_ + "/data", {.read = true, .write = true, .create = true});
      ASSERT_TRUE(storage) << storage.error().text();
      auto atomicity = Atomicity::start(group, **storage, true, false);
      ASSERT_TRUE(atomicity) << atomicity.error().text();
      (*atomicity)->cut(group, {group.rank() * 8, 1, Pattern::run(0, overlap ? 9 : 8), 16});
      EXPECT_EQ((*atomicity)->sets().shared().empty(), !overlap);
      ASSERT_TRUE(group.barrier());
      {
        const auto held = (*atomicity)->hold({8 * group.rank(), 1000}, LockMode::kExclusive, false);
        ASSERT_TRUE(held) << held.error().text();
        most = std::max<int>(most, ++inside);
        std::this_thread::sleep_for(std::chrono::milliseconds(overlap ? 100 : 1000));
        most = std::max<int>(most, inside);
        --inside;
      }
    });
    EXPECT_EQ(most, overlap ? 1 : 2);
  }
}

// What it has locked takes its time to be given back: till `let_go`, or for five seconds.
class SlowToRelease final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    ASSIGN_OR_RETURN(auto lock, Wrapped::lock(range, mode));
    return std::make_unique<Lock>(*this, std::move(lock));
  }
  std::atomic<bool> let_go = true;
  std::atomic<int> held = 0, given_up = 0;

 private:
  class Lock final : public RangeLock {
   public:
    Lock(SlowToRelease& storage, std::unique_ptr<RangeLock> lock) : storage_(storage), lock_(std::move(lock)) {
      ++storage_.held;
    }
    ~Lock() override {
      for (int i = 0; i < 5000 && !storage_.let_go; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!storage_.let_go) ++storage_.given_up;
      --storage_.held;
    }

   private:
    SlowToRelease& storage_;
    const std::unique_ptr<RangeLock> lock_;
  };
};

TEST(Atomicity, NobodyWaitsForTheReleaseOfAFarLockOfHisOwn) {
  run_threads(1, {}, [&](Group& group) {
    SlowToRelease storage;
    auto atomicity = Atomicity::start(group, storage, true, true);
    ASSERT_TRUE(atomicity) << atomicity.error().text();
    (*atomicity)->cut(group, {0, 1, Pattern::run(0, 8), 8});
    const int before = storage.held;
    storage.let_go = false;
    ASSERT_TRUE((*atomicity)->hold({0, 8}, LockMode::kExclusive, false));  // and no longer
    EXPECT_EQ(storage.held, before + 1);
    storage.let_go = true;
    atomicity->reset();
    EXPECT_EQ(storage.held, 0);
    EXPECT_EQ(storage.given_up, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Memory, AtomicityTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Shared" : "Messages"; });

}  // namespace
}  // namespace stridio
