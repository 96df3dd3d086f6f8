// Reads in the order in which bytes are stored, against a byte array; with blocks that cannot be fetched, and ranks that fail.
#include "collective/stored_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "group/testing/forked_ranks.h"
#include "group/threads.h"
#include "storage/request.h"
#include "storage/stored_read.h"
#include "support/random_pattern.h"
#include "support/sanitized.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

using testing::pick;
using testing::Random;

// A file whose chunks are stored in any order, with bytes that are nobody's between them; some are stored nowhere, and are zeros.
class Elsewhere final : public Wrapped {
 public:
  Elsewhere(Random& random, Bytes size, Bytes chunk) : size_(size), chunk_(chunk) {
    std::vector<std::byte> all(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < all.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(&all[i], &word, std::min(sizeof word, all.size() - i));
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>((size + chunk - 1) / chunk));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    places_.resize(order.size());
    Offset end = pick(random, 0, 2 * StoredRead::kBlock);
    for (const std::int64_t i : order) {
      const Extent logical = at(i);
      if (pick(random, 0, 9) == 0) {
        std::fill_n(all.begin() + logical.offset, logical.length, std::byte{});
        places_[static_cast<std::size_t>(i)] = -1;
        continue;
      }
      places_[static_cast<std::size_t>(i)] = end;
      stored_.resize(static_cast<std::size_t>(end + logical.length), std::byte{0x77});
      std::copy_n(all.begin() + logical.offset, logical.length, stored_.begin() + end);
      end += logical.length + (pick(random, 0, 3) == 0 ? pick(random, 1, 1000) : 0);
    }
    EXPECT_TRUE(Wrapped::write({0, size}, all.data()));
    all_ = std::move(all);
  }

  Result<std::unique_ptr<StoredRead>> read_stored() override;
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    ++reads_alone;
    if (before_alone) before_alone();
    if (alone_fails) return fail(Code::kIo, "the storage is gone");
    return Wrapped::readv(extents, memory);
  }

  const std::vector<std::byte>& all() const { return all_; }
  int fetched(std::int64_t block) {
    const std::scoped_lock lock(mutex_);
    return fetched_[block];
  }

  int fails_one_in = 0, throws_one_in = 0;  // of the blocks
  bool alone_fails = false;
  std::function<void()> before_alone, before_fetch;
  std::atomic<int> reads_alone = 0;

 private:
  friend class ElsewhereRead;
  Extent at(std::int64_t chunk) const { return intersect({chunk * chunk_, chunk_}, {0, size_}); }

  const Bytes size_, chunk_;
  std::vector<Offset> places_;
  std::vector<std::byte> stored_, all_;
  std::mutex mutex_;
  std::map<std::int64_t, int> fetched_;
};

class ElsewhereRead final : public StoredRead {
 public:
  explicit ElsewhereRead(Elsewhere& file) : file_(file) {}

  std::int64_t blocks() const override { return (std::ssize(file_.stored_) + kBlock - 1) / kBlock; }

  Result<Transferred> find(std::span<const Extent> extents, std::span<const Span> memory,
                           std::vector<StoredPiece>& pieces) override {
    pieces.clear();
    Transferred found;
    MemoryCursor to(memory);
    for (const Extent& each : extents) {
      const Extent present = intersect(each, {0, file_.size_});
      for (Offset at = present.offset; at < present.offset + present.length;) {
        const Extent chunk = file_.at(at / file_.chunk_);
        const Offset place = file_.places_[static_cast<std::size_t>(at / file_.chunk_)];
        const Offset stored = place + (at - chunk.offset);
        const Bytes to_end = kBlock - stored % kBlock;
        const Span piece = to.take(std::min({chunk.end() - at, present.end() - at, to_end}));
        if (place < 0) {
          std::memset(piece.data, 0, static_cast<std::size_t>(piece.length));
        } else {
          pieces.push_back({stored, piece.length, piece.data});
        }
        at += piece.length;
      }
      found.bytes += present.length;
      found.eof = present.length < each.length;
      if (found.eof) break;
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const StoredPiece& a, const StoredPiece& b) { return a.stored < b.stored; });
    return found;
  }

  bool fetch(std::int64_t block, std::byte* to) override {
    {
      const std::scoped_lock lock(file_.mutex_);
      ++file_.fetched_[block];
    }
    if (file_.before_fetch) file_.before_fetch();
    if (file_.throws_one_in > 0 && block % file_.throws_one_in == 0) throw std::bad_alloc();
    const Offset begin = block * kBlock;
    std::copy_n(file_.stored_.begin() + begin, std::min(kBlock, std::ssize(file_.stored_) - begin), to);
    if (file_.fails_one_in == 0 || block % file_.fails_one_in != 0) return true;
    std::fill_n(to, kBlock, std::byte{0x66});
    return false;
  }

 private:
  Elsewhere& file_;
};

Result<std::unique_ptr<StoredRead>> Elsewhere::read_stored() { return std::make_unique<ElsewhereRead>(*this); }

struct Wanted {
  Pattern file, memory;
};

Result<Transferred> read(Group& group, Storage& storage, const Wanted& wanted, Extent range, Bytes window,
                         std::byte* to, int blocks = CollectivePlan{}.stored_blocks) {
  CollectivePlan plan;
  plan.in_stored_order = range;
  plan.stored_window = window;
  plan.stored_blocks = blocks;
  const auto shared = group.shared(shared_for_stored_order(plan, group.size()));
  EXPECT_TRUE(shared && shared->length > 0);
  Times times;
  return in_stored_order(group, *shared, storage, plan, wanted.file, {to, wanted.memory}, times);
}

Extent range_of(std::span<const Wanted> wanted) {
  std::vector<Extent> bounds;
  for (const Wanted& each : wanted) bounds.push_back({each.file.lower(), each.file.upper() - each.file.lower()});
  return bounds_of(bounds);
}

// Reads by one group, as often as is said, and looks whether it is what is there.
void expect_reads(Elsewhere& storage, std::span<const Wanted> wanted, Bytes window, int times,
                  int blocks = CollectivePlan{}.stored_blocks) {
  const Extent range = range_of(wanted);
  run_threads(static_cast<int>(wanted.size()), {}, [&](Group& group) {
    const Wanted& mine = wanted[static_cast<std::size_t>(group.rank())];
    const std::vector<Offset> from = testing::flatten(mine.file), to = testing::flatten(mine.memory);
    const Offset lowest = to.empty() ? 0 : *std::min_element(to.begin(), to.end());
    const Offset highest = to.empty() ? 0 : *std::max_element(to.begin(), to.end()) + 1;
    std::vector<std::byte> expected(static_cast<std::size_t>(highest - lowest), std::byte{0x55}), got;
    Bytes present = 0;
    for (std::size_t i = 0; i < from.size() && from[i] < std::ssize(storage.all()); ++i, ++present)
      expected[static_cast<std::size_t>(to[i] - lowest)] = storage.all()[static_cast<std::size_t>(from[i])];
    for (int i = 0; i < times; ++i) {
      got.assign(expected.size(), std::byte{0x55});
      const auto moved = read(group, storage, mine, range, window, got.data() - lowest, blocks);
      ASSERT_TRUE(moved) << moved.error().text();
      EXPECT_EQ(moved->bytes, present);
      EXPECT_EQ(moved->eof, present < mine.file.size());
      ASSERT_EQ(got, expected);
    }
  });
}

TEST(StoredOrder, RandomPatternsAreRead) {
  const std::uint64_t seed = testing::seed_of_run();
  for (std::uint64_t round = 0; round < testing::rounds(24, 6); ++round) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
    Random random(seed + round);
    const Bytes size = pick(random, 1, 4 << 20);
    Elsewhere storage(random, size, pick(random, 1000, 100000));
    if (pick(random, 0, 1) == 0) storage.fails_one_in = static_cast<int>(pick(random, 1, 9));
    if (pick(random, 0, 1) == 0) storage.throws_one_in = static_cast<int>(pick(random, 1, 9));
    std::vector<Wanted> wanted;
    for (std::int64_t ranks = pick(random, 1, 7); ranks > 0; --ranks) {
      const auto shape = testing::kShapes[static_cast<std::size_t>(pick(random, 0, 5))];
      const Pattern file = pick(random, 0, 9) == 0 ? Pattern() : testing::random_ascending(random, shape, size + 1000);
      wanted.push_back({file, testing::random_memory(random, file.size())});
    }
    expect_reads(storage, wanted, pick(random, 1 << 16, 4 << 20), 2, static_cast<int>(pick(random, 1, 32)));
  }
}

// 12 MiB in turns by `ranks`: more blocks than there are slots.
std::vector<Wanted> in_turns(int ranks, Bytes size, Bytes piece) {
  std::vector<Wanted> wanted;
  for (int rank = 0; rank < ranks; ++rank) {
    const Pattern file = Pattern::strided(size / piece / ranks, ranks * piece, Pattern::run(rank * piece, piece));
    wanted.push_back({file, Pattern::run(0, file.size())});
  }
  return wanted;
}

TEST(StoredOrder, EachBlockIsFetchedOnce) {
  constexpr Bytes kSize = Bytes{12} << 20;
  for (const int ranks : {1, 2, 4, 7}) {
    Random random(3);
    Elsewhere storage(random, kSize, 3000);
    expect_reads(storage, in_turns(ranks, kSize, 4096), kSize, 1);
    for (std::int64_t block = 0; block < (*storage.read_stored())->blocks(); ++block)
      EXPECT_LE(storage.fetched(block), 1) << "one may have nothing but bytes that are nobody's";
    EXPECT_EQ(storage.reads_alone, 0);
  }
}

// Whoever waits for a slot is woken, also where there are fewer than ranks.
TEST(StoredOrder, AnyNumberOfSlotsWillDo) {
  constexpr Bytes kSize = Bytes{12} << 20;
  Random random(10);
  Elsewhere storage(random, kSize, 3000);
  for (const int blocks : {1, 2, 3, 4, 5, 9}) expect_reads(storage, in_turns(7, kSize / 7 * 7, 4096), kSize, 5, blocks);
}

// Meanwhile the others go on, to the end.
TEST(StoredOrder, WhoHasTooManyPiecesReadsAlone) {
  constexpr Bytes kSize = Bytes{8} << 20;
  Random random(4);
  Elsewhere storage(random, kSize, 3000);
  const std::int64_t last = (*storage.read_stored())->blocks() - 1;
  storage.before_alone = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (storage.fetched(last) == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GT(storage.fetched(last), 0);
  };
  std::vector<Wanted> wanted = in_turns(2, kSize, 4096);
  wanted[1] = {Pattern::strided(kSize / 8, 8, Pattern::run(3, 2)), Pattern::run(0, kSize / 4)};
  expect_reads(storage, wanted, kSize, 1);
  EXPECT_EQ(storage.reads_alone, kSize / 8 / (1 << 17)) << "in parts";
  storage.reads_alone = 0;
  wanted = in_turns(2, kSize, 4096);
  wanted[1] = {Pattern::run(0, kSize / 4), Pattern::strided(kSize / 8, 3, Pattern::run(0, 2))};
  expect_reads(storage, wanted, kSize, 1);
  EXPECT_EQ(storage.reads_alone, kSize / 8 / (1 << 17)) << "of memory, too";
}

// So does who would have blocks fetched for little.
TEST(StoredOrder, WhoWantsLittleOfManyBlocksReadsAlone) {
  constexpr Bytes kSize = Bytes{12} << 20;
  Random random(7);
  Elsewhere storage(random, kSize, 3000);
  std::vector<Wanted> wanted = in_turns(3, kSize / 3 * 3, 4096);
  wanted[1] = {Pattern::strided(kSize / 100000, 100000, Pattern::run(5, 10)), Pattern::run(0, kSize / 100000 * 10)};
  expect_reads(storage, wanted, kSize, 1);
  EXPECT_EQ(storage.reads_alone, 1);
}

// What ends beyond all offsets.
TEST(StoredOrder, ReadsUpToTheLastOffset) {
  constexpr Offset kLast = std::numeric_limits<Offset>::max();
  Random random(8);
  Elsewhere storage(random, Bytes{1} << 20, 3000);
  run_threads(2, {}, [&](Group& group) {
    std::vector<std::byte> got(4096);
    const Wanted mine{Pattern::run(kLast - 8192 + 4096 * group.rank(), 4096), Pattern::run(0, 4096)};
    const auto moved = read(group, storage, mine, {kLast - 8192, 8192}, 1 << 20, got.data());
    ASSERT_TRUE(moved) << moved.error().text();
    EXPECT_EQ(moved->bytes, 0);
    EXPECT_TRUE(moved->eof);
  });
}

// Of a block that cannot be fetched nobody wants anything, or somebody, who finds out why; then it fails on all ranks alike.
TEST(StoredOrder, WhatCannotBeReadFailsForWhoWantsItAndSoForAll) {
  constexpr Bytes kSize = Bytes{6} << 20;
  Random random(5);
  Elsewhere storage(random, kSize, 50000);
  storage.fails_one_in = 5;
  storage.alone_fails = true;
  const std::vector<Wanted> wanted = in_turns(3, kSize / 3 * 3, 4096);
  run_threads(3, {}, [&](Group& group) {
    std::vector<std::byte> got(static_cast<std::size_t>(kSize));
    const auto failed =
        read(group, storage, wanted[static_cast<std::size_t>(group.rank())], {0, kSize}, kSize, got.data());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kIo);
    ASSERT_TRUE(group.barrier());
  });
}

// Who cannot even begin does not keep the others waiting, though they wait for what it has begun to fetch, or for its mark.
TEST(StoredOrder, WhoFailsKeepsNobody) {
  class Fails final : public Wrapped {};  // it knows of no order
  constexpr Bytes kSize = Bytes{12} << 20;
  Random random(6);
  Elsewhere storage(random, kSize, 50000);
  Fails fails;
  const std::vector<Wanted> wanted = in_turns(4, kSize, 4096);
  run_threads(4, {}, [&](Group& group) {
    std::vector<std::byte> got(static_cast<std::size_t>(kSize));
    Storage& mine = group.rank() == 2 ? static_cast<Storage&>(fails) : storage;
    const auto failed =
        read(group, mine, wanted[static_cast<std::size_t>(group.rank())], {0, kSize}, kSize, got.data());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kUnsupportedOperation);
    ASSERT_TRUE(group.barrier());
  });
}

struct Fetching {
  std::atomic<bool> begun;
};
class StoredOrderProcesses : public ForkedRanks<Fetching> {};

// The others wait for the block, and then no more. Until it is being fetched they fetch nothing: else they could leave the rank none.
TEST_F(StoredOrderProcesses, ARankKilledWhileItFetchesFailsTheOthers) {
  constexpr Bytes kSize = Bytes{12} << 20;
  Random random(9);
  Elsewhere storage(random, kSize, 3000);
  const std::vector<Wanted> wanted = in_turns(3, kSize, 4096);
  start(3, [&](const Bootstrap& bootstrap) {
    auto group = make_shared_group(bootstrap, {});
    ASSERT_TRUE(group);
    storage.before_fetch = [&, rank = bootstrap.rank] {
      if (rank == 1) shared_.begun = true;
      while (rank == 1 || !shared_.begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    std::vector<std::byte> got(static_cast<std::size_t>(kSize));
    const auto failed =
        read(**group, storage, wanted[static_cast<std::size_t>(bootstrap.rank)], {0, kSize}, kSize, got.data());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().rank, 1) << failed.error().text();
  });
  await(shared_.begun);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill_rank(1);
  finish(1);
}

}  // namespace
}  // namespace stridio
