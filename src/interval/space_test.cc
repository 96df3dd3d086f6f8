// Where what is written over and over lies in the stored file.
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <set>
#include <thread>

#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/memory.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

// What is written to the stored file, in order.
class Places final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    const std::scoped_lock lock(mutex_);
    written.insert(written.end(), extents.begin(), extents.end());
    return Wrapped::writev(extents, memory);
  }
  std::vector<Extent> written;

 private:
  std::mutex mutex_;
};

constexpr Bytes kLarge = 16 * kCell;

// After a few turns it goes to few places in turns, each a run of whole cells, whatever its length.
TEST(Space, WhatIsWrittenAgainLiesWhereItLayBefore) {
  for (const Bytes size : {kLarge, kLarge + 1000, 5 * kLarge - 1, 5 * kLarge + 1}) {
    SCOPED_TRACE(size);
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(1, {}, [&](Group& group) {
      auto storage = std::make_unique<Places>(open_memory(file, {.read = true, .write = true}));
      Places& places = *storage;
      auto opened = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(opened);
      Random random(1);
      std::set<Offset> begins, ends;
      Data data;
      for (int turn = 0; turn < 20; ++turn) {
        data = random_data(random, size);
        places.written.clear();
        const Extent all{0, size};
        ASSERT_TRUE(write_list(**opened, {&all, 1}, data));
        if (turn < 8) continue;
        begins.insert(places.written.front().offset);
        ends.insert(places.written.back().end());
      }
      EXPECT_LE(begins.size(), 3u);
      EXPECT_LE(ends.size(), 3u);
      for (const Offset begin : begins) EXPECT_EQ(begin % kCell, 0);
      EXPECT_LT(*open_memory(file)->size(), 5 * size / 2 + 8 * kCell);
      const auto seen = read_all(**opened);
      ASSERT_TRUE(seen);
      EXPECT_TRUE(*seen == data);
    });
  }
}

// Large and small writes over each other, of each rank within its part of the file, by two threads each; with commits.
TEST(Space, NoByteIsStoredWhereAnotherIsStillNeeded) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr Bytes kHalf = 6 * kLarge, kStep = kCell / 4;
  constexpr std::array<Bytes, 6> kQuarters{1, 65, 2, 4, 66, 15};
  SummedRequests far;
  far.write = {.depth = 2, .unit = 4 * kCell, .extend_first = true};
  far.worth_extending = 2 * kCell;
  struct Case {
    int ranks, epochs;
    SummedRequests requests;
  };
  for (const auto& [ranks, epochs, requests] : {Case{1, 4, {}}, {3, 4, {}}, {2, 80, far}}) {
    const int turns = 1600 / epochs;
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(ranks, {}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true, {}, requests);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      Oracle oracle{Data(2 * kHalf)};
      const Extent own{group.rank() * 2 * kHalf, 2 * kHalf};
      ASSERT_TRUE(write_list(stored, {&own, 1}, oracle.bytes));
      const auto write = [&](int thread, int epoch) {
        SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed));
        Random random(seed + static_cast<std::uint64_t>(1000 * group.rank() + 10 * epoch + thread));
        std::unique_ptr<IntervalFile::Whole> whole;  // of which the last bytes count later
        Extent whole_extent;
        Data whole_data;
        const auto note = [&](Extent extent, const Data& data) {
          std::copy(data.begin(), data.end(), oracle.bytes.begin() + (extent.offset - own.offset));
        };
        for (int turn = 0; turn < turns; ++turn) {
          // Mostly the same ones again, whose ends lie in the same quarters of cells.
          Bytes length = draw(random, 1, draw(random, 0, 1) > 0 ? 3 * kLarge : 3 * kCell);
          Offset at = draw(random, 0, kHalf - length);
          if (draw(random, 0, 4) > 0) {
            const auto which = static_cast<std::size_t>(draw(random, 0, std::ssize(kQuarters) - 1));
            length = kQuarters[which] * kStep;
            at = static_cast<Offset>(which) * kHalf / std::ssize(kQuarters);
          }
          const Extent extent{own.offset + thread * kHalf + at, length};
          Data data(static_cast<std::size_t>(length), static_cast<std::byte>(random()));
          if (draw(random, 0, 1) > 0) stored.expect_write(length);
          if (whole && draw(random, 0, 2) == 0) {
            EXPECT_EQ(whole->count(), true);
            note(whole_extent, whole_data);
            whole.reset();
          }
          if (!whole && draw(random, 0, 2) == 0) {
            whole = stored.begin_whole();
            whole_extent = extent;
            ASSERT_TRUE(write_list(*whole, {&extent, 1}, data));
            whole_data = std::move(data);
          } else {
            ASSERT_TRUE(write_list(stored, {&extent, 1}, data));
            note(extent, data);
          }
        }
        if (!whole) return;
        EXPECT_EQ(whole->count(), true);
        note(whole_extent, whole_data);
      };
      for (int epoch = 0; epoch < epochs; ++epoch) {
        std::thread other(write, 1, epoch);
        write(0, epoch);
        other.join();
        auto seen = read_extent(stored, own);
        ASSERT_TRUE(seen) << seen.error().text() << ", STRIDIO_SEED=" << seed;
        ASSERT_TRUE(*seen == oracle.bytes) << "epoch " << epoch << ", STRIDIO_SEED=" << seed;
        ASSERT_TRUE(stored.commit());
        seen = read_extent(stored, own);
        ASSERT_TRUE(seen) << seen.error().text() << ", STRIDIO_SEED=" << seed;
        ASSERT_TRUE(*seen == oracle.bytes) << "epoch " << epoch << ", STRIDIO_SEED=" << seed;
      }
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front() << ", STRIDIO_SEED=" << seed;
  }
}

}  // namespace
}  // namespace stridio
