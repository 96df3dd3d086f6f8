// Where what is written over and over lies in the stored file.
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/memory.h"
#include "support/sanitized.h"
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

// Writes over and over a part of the file that only it writes to, and knows what has to be there.
class Writer {
 public:
  Writer(IntervalFile& file, Extent part) : file_(file), part_(part), bytes_(static_cast<std::size_t>(part.length)) {}

  void write(std::uint64_t seed, int turns) {
    Random random(seed);
    for (int turn = 0; turn < turns; ++turn) {
      const Extent extent = draw_extent(random);
      Data data(static_cast<std::size_t>(extent.length), static_cast<std::byte>(random()));
      if (draw(random, 0, 1) > 0) file_.expect_write(extent.length);
      if (whole_ && draw(random, 0, 2) == 0) count();
      if (!whole_ && draw(random, 0, 2) == 0) {
        whole_ = file_.begin_whole();
        ASSERT_TRUE(write_list(*whole_, {&extent, 1}, data));
        later_ = {extent, std::move(data)};
      } else {
        ASSERT_TRUE(write_list(file_, {&extent, 1}, data));
        note(extent, data);
      }
    }
    if (whole_) count();
  }
  void expect_seen() const {
    const auto seen = read_extent(file_, part_);
    ASSERT_TRUE(seen) << seen.error().text();
    EXPECT_TRUE(*seen == bytes_);
  }

 private:
  // Mostly the same ones again, whose ends lie in the same quarters of cells.
  Extent draw_extent(Random& random) const {
    constexpr std::array<Bytes, 6> kQuarters{1, 65, 2, 4, 66, 15};
    Bytes length = draw(random, 1, draw(random, 0, 1) > 0 ? 3 * kLarge : 3 * kCell);
    Offset at = draw(random, 0, part_.length - length);
    if (draw(random, 0, 4) > 0) {
      const auto which = static_cast<std::size_t>(draw(random, 0, std::ssize(kQuarters) - 1));
      length = kQuarters[which] * kCell / 4;
      at = static_cast<Offset>(which) * part_.length / std::ssize(kQuarters);
    }
    return {part_.offset + at, length};
  }
  void count() {
    EXPECT_EQ(whole_->count(), true);
    note(later_.first, later_.second);
    whole_.reset();
  }
  void note(Extent extent, const Data& data) {
    std::copy(data.begin(), data.end(), bytes_.begin() + (extent.offset - part_.offset));
  }

  IntervalFile& file_;
  const Extent part_;
  Data bytes_;
  std::unique_ptr<IntervalFile::Whole> whole_;  // whose bytes count later
  std::pair<Extent, Data> later_;
};

// Large and small writes over each other, by two threads of each rank; with commits.
TEST(Space, NoByteIsStoredWhereAnotherIsStillNeeded) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr Bytes kPart = 6 * kLarge;
  SummedRequests far;
  far.write = {.depth = 2, .unit = 4 * kCell, .extend_first = true};
  far.worth_extending = 2 * kCell;
  struct Case {
    int ranks, epochs;
    SummedRequests requests;
  };
  for (const auto& [ranks, epochs, requests] :
       {Case{1, 4, {}}, {3, 4, {}}, {2, static_cast<int>(testing::rounds(80, 20)), far}}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(ranks, {}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true, {}, requests);
      ASSERT_TRUE(opened);
      ASSERT_TRUE((*opened)->resize(2 * kPart * group.size()));
      Writer first(**opened, {2 * group.rank() * kPart, kPart});
      Writer second(**opened, {(2 * group.rank() + 1) * kPart, kPart});
      const int writes = static_cast<int>(testing::rounds(1600, 400)) / epochs;
      for (int epoch = 0; epoch < epochs; ++epoch) {
        const std::uint64_t of_epoch = seed + static_cast<std::uint64_t>(1000 * group.rank() + 10 * epoch);
        std::thread other([&] { second.write(of_epoch + 1, writes); });
        first.write(of_epoch, writes);
        other.join();
        for (const bool committed : {false, true}) {
          SCOPED_TRACE("epoch " + std::to_string(epoch));
          ASSERT_TRUE(!committed || (*opened)->commit());
          first.expect_seen();
          second.expect_seen();
        }
      }
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front();
  }
}

}  // namespace
}  // namespace stridio
