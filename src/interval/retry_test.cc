// What failed and is tried again: nothing that was lost is committed, and nothing that could be committed is kept from it.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "interval/faulty.h"

namespace stridio {
namespace {

constexpr Bytes kHalfCell = kCell / 2, kSize = 64 * kCell;

std::shared_ptr<MemoryFile> new_file() {
  auto file = make_memory_file();
  EXPECT_TRUE(IntervalFile::format(*open_memory(file)));
  return file;
}

// Half of each cell, so that all of them are kept for the other half.
std::vector<Extent> halves() {
  std::vector<Extent> halves;
  for (Offset at = 0; at < kSize; at += kCell) halves.push_back({at, kHalfCell});
  return halves;
}

Data half_and_half() {
  Data data(kSize, std::byte{'a'});
  for (const Extent& half : halves()) std::fill_n(data.begin() + half.offset, half.length, std::byte{'b'});
  return data;
}

// A part of which much has been overwritten is moved to spare space.
TEST(Moves, ThatFailKeepNothingFromBeingCommitted) {
  class Short : public Wrapped {
   public:
    using Wrapped::Wrapped;
    Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
      for (const Extent& each : extents)
        if (each.end() > end) return fail(Error{.code = Code::kNoSpace, .what = "writing", .sys_errno = ENOSPC});
      return Wrapped::writev(extents, memory);
    }
    Offset end = kMostBytes;
  };
  enum { kCanMove, kNoSpace, kDamaged };
  for (const int way : {kCanMove, kNoSpace, kDamaged}) {
    SCOPED_TRACE(way);
    const auto file = new_file();
    run_threads(1, {}, [&](Group& group) {
      auto storage = std::make_unique<Short>(open_memory(file));
      Short& mine = *storage;
      auto opened = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      ASSERT_TRUE(fill(stored, {{0, kSize}}, 'a'));
      ASSERT_TRUE(stored.commit());
      const auto place_of_old = [&] {
        for (std::size_t i = 0; i < stored.root().parts.size(); ++i) {
          MapCursor cursor((*stored.part(i))->map);
          cursor.seek(kHalfCell);
          if (!cursor.done() && cursor.piece().logical <= kHalfCell)
            return cursor.piece().stored + kHalfCell - cursor.piece().logical;
        }
        return Offset{0};
      };
      const Offset before = place_of_old();
      if (way == kDamaged) {
        const std::byte wrong{'x'};
        ASSERT_TRUE(open_memory(file)->write({before + 5 * kCell, 1}, &wrong));
      }
      for (int again = 0; again < 3; ++again) {
        ASSERT_TRUE(fill(stored, halves(), 'b'));
        if (way == kNoSpace) mine.end = *mine.size();
        const Status committed = stored.commit();
        ASSERT_TRUE(committed) << committed.error().text();
        mine.end = kMostBytes;
      }
      EXPECT_EQ(place_of_old() == before, way != kCanMove);
      const auto read = read_all(stored);
      ASSERT_EQ(read.has_value(), way != kDamaged);
      EXPECT_TRUE(!read || *read == half_and_half());
    });
    EXPECT_EQ(check_interval_file(*open_memory(file))->damage.size(), way == kDamaged ? 1 : 0);
  }
}

// When it cannot make bytes durable, the system tells it once, and has forgotten them.
class Forgetful : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    const std::scoped_lock lock(mutex_);
    since_.insert(since_.end(), extents.begin(), extents.end());
    return Wrapped::writev(extents, memory);
  }
  Status sync() override {
    const std::scoped_lock lock(mutex_);
    const std::vector<Extent> since = std::exchange(since_, {});
    if (!forgets.exchange(false)) return Wrapped::sync();
    for (const Extent& each : since) {
      Data lost(static_cast<std::size_t>(each.length), std::byte{'?'});
      const Span span{lost.data(), each.length};
      RETURN_IF_ERROR(Wrapped::writev({&each, 1}, {&span, 1}));
    }
    return fail(Code::kIo, "not durable");
  }
  std::atomic<bool> forgets = false;

 private:
  std::mutex mutex_;
  std::vector<Extent> since_;
};

TEST(Syncs, ThatFailLoseNothingThatIsWrittenLater) {
  for (const bool as_whole : {false, true})
    for (const SummedRequests& requests :
         {SummedRequests{},
          SummedRequests{.write = {.depth = 4, .unit = 5000, .extend_first = true}, .worth_extending = 1}}) {
      SCOPED_TRACE(std::to_string(as_whole) + ", depth " + std::to_string(requests.write.depth));
      const auto file = new_file();
      const Extent first{0, 50000}, whole{60000, 30000};
      run_threads(1, {}, [&](Group& group) {
        auto storage = std::make_unique<Forgetful>(open_memory(file));
        Forgetful& mine = *storage;
        auto opened = IntervalFile::open(group, std::move(storage), true, {}, requests);
        ASSERT_TRUE(opened);
        IntervalFile& stored = **opened;
        stored.expect_write(first.length);
        ASSERT_TRUE(fill(stored, {first}, 'a'));
        auto access = stored.begin_whole();
        const auto write_whole = [&] {
          Data data(static_cast<std::size_t>(whole.length), std::byte{'w'});
          return write_list(*access, std::vector<Extent>{whole}, data);
        };
        if (as_whole) {
          ASSERT_TRUE(write_whole());
        }
        mine.forgets = true;
        ASSERT_FALSE(stored.commit());
        ASSERT_FALSE(mine.forgets);
        if (as_whole) {
          EXPECT_FALSE(*access->count());
          access = stored.begin_whole();
          ASSERT_TRUE(write_whole());
          ASSERT_TRUE(*access->count());
        }
        ASSERT_TRUE(fill(stored, {first}, 'b'));
        const Status committed = stored.commit();
        ASSERT_TRUE(committed) << committed.error().text();
        Data wanted(50000, std::byte{'b'});
        wanted.resize(as_whole ? 60000 : 50000);
        wanted.resize(as_whole ? 90000 : 50000, std::byte{'w'});
        const auto read = read_all(stored);
        ASSERT_TRUE(read) << read.error().text();
        EXPECT_TRUE(*read == wanted);
      });
      EXPECT_TRUE(check_interval_file(*open_memory(file))->damage.empty());
    }
}

// What is stored first where storage is far lies behind the rest, and may begin within a cell.
TEST(Syncs, ThatFailLoseNothingInTheSameCell) {
  const SummedRequests far{.write = {.depth = 4, .unit = 5000, .extend_first = true}, .worth_extending = 1};
  const auto file = new_file();
  run_threads(1, {}, [&](Group& group) {
    auto storage = std::make_unique<Forgetful>(open_memory(file));
    Forgetful& mine = *storage;
    auto opened = IntervalFile::open(group, std::move(storage), true, {}, far);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    for (const Bytes cells : {10, 4}) {  // what is overwritten is a hole
      ASSERT_TRUE(fill(stored, {{0, cells * kCell}}, 'a'));
      ASSERT_TRUE(stored.commit());
    }
    constexpr Bytes kExpected = 8 * kCell + 1000;
    stored.expect_write(kExpected);
    ASSERT_TRUE(fill(stored, {{0, kCell}}, 'b'));
    mine.forgets = true;
    ASSERT_FALSE(stored.commit());
    ASSERT_TRUE(fill(stored, {{0, 2 * kExpected}}, 'c'));
    const Status committed = stored.commit();
    ASSERT_TRUE(committed) << committed.error().text();
    const auto read = read_all(stored);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_TRUE(*read == Data(2 * kExpected, std::byte{'c'}));
  });
  EXPECT_TRUE(check_interval_file(*open_memory(file))->damage.empty());
}

// What another rank had written before, a fill value say, is no excuse for what could not be written; what it writes after a commit
// has told so is.
TEST(Writes, ThatFailAreNotReplacedByOlderOnes) {
  constexpr Extent kPlace{1000, 5000};
  std::vector<Extent> pieces;
  for (Offset at = kPlace.offset; at < kPlace.end(); at += 50) pieces.push_back({at, 50});
  for (const int ranks_per_node : {0, 1})
    for (const auto& extents : {std::vector<Extent>{kPlace}, pieces})
      for (const bool shares : {false, true}) {
        SCOPED_TRACE(std::to_string(ranks_per_node) + " ranks a node, " + std::to_string(extents.size()) + " pieces" +
                     (shares ? ", shared" : ""));
        const auto file = new_file();
        run_threads(2, {.ranks_per_node = ranks_per_node}, [&](Group& group) {
          auto storage = std::make_unique<Full>(open_memory(file));
          Full& mine = *storage;
          auto opened = IntervalFile::open(group, std::move(storage), true);
          ASSERT_TRUE(opened);
          IntervalFile& stored = **opened;
          const bool fails = group.rank() == 1;
          ASSERT_TRUE(fails || fill(stored, extents, '0'));
          ASSERT_TRUE(group.barrier());
          mine.full = fails;
          ASSERT_TRUE(!fails || !fill(stored, extents, 'b'));
          mine.full = false;
          for (int turn = 0; turn < 2; ++turn) {
            const Status committed = stored.commit();
            ASSERT_FALSE(committed);
            EXPECT_EQ(committed.error().code, Code::kNoSpace);
            ASSERT_TRUE(!shares || stored.share());
          }
          ASSERT_TRUE(fails || fill(stored, extents, 'c'));
          ASSERT_TRUE(!shares || stored.share());
          const Status committed = stored.commit();
          ASSERT_TRUE(committed) << committed.error().text();
          const Data read = *read_all(stored);
          EXPECT_TRUE(std::all_of(read.begin() + kPlace.offset, read.end(),
                                  [](std::byte each) { return each == std::byte{'c'}; }));
        });
      }
}

// To look for space that is free again is not what a write fails of.
TEST(Writes, DoNotFailForWantOfNews) {
  class Blind : public Wrapped {
   public:
    using Wrapped::Wrapped;
    Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
      return blind && extents.front().offset != kTaken.offset ? fail(Code::kIo, "not readable")
                                                              : Wrapped::readv(extents, memory);
    }
    bool blind = false;
  };
  const auto file = new_file();
  run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
    auto storage = std::make_unique<Blind>(open_memory(file));
    Blind& mine = *storage;
    auto opened = IntervalFile::open(group, std::move(storage), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.show_at_once([](Extent range) { return range.end() <= 10; }));
    ASSERT_TRUE(stored.resize(2 * kSize));
    ASSERT_TRUE(group.barrier());
    const Extent own{group.rank() * kSize, kSize};
    ASSERT_TRUE(own.offset == 0 || fill(stored, {own}, 'a'));
    mine.blind = own.offset > 0;
    for (int turn = 0; turn < 3 && mine.blind; ++turn) {
      const Status written = fill(stored, {own}, 'b');
      ASSERT_TRUE(written) << written.error().text();
    }
    mine.blind = false;
    ASSERT_TRUE(stored.commit());
    EXPECT_EQ(read_all(stored)->back(), std::byte{'b'});
  });
}

// Nobody knows whether the header is durable that a failed commit has written: somebody may read what it names, and keeps it.
TEST(Commits, ThatAreRepeatedHeedWhoReadsTheFirstTry) {
  class NotDurable : public Wrapped {
   public:
    using Wrapped::Wrapped;
    Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
      slot_ = extents.front().offset == slot_of(3);
      return Wrapped::writev(extents, memory);
    }
    Status sync() override {
      return slot_ && std::exchange(fails, false) ? fail(Code::kIo, "not durable") : Wrapped::sync();
    }
    bool fails = false;

   private:
    bool slot_ = false;
  };
  const auto file = new_file();
  run_threads(1, {}, [&](Group& group) {
    auto storage = std::make_unique<NotDurable>(open_memory(file));
    NotDurable& mine = *storage;
    auto opened = IntervalFile::open(group, std::move(storage), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(fill(stored, {{0, kSize}}, 'a'));
    ASSERT_TRUE(stored.commit());
    ASSERT_TRUE(fill(stored, halves(), 'b'));  // so that a part is moved, at each try to another place
    mine.fails = true;
    ASSERT_FALSE(stored.commit());
    const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
    ASSERT_TRUE(reader) << reader.error().text();
    ASSERT_EQ((*reader)->root().generation, 3u);
    const Status committed = stored.commit();
    ASSERT_TRUE(committed) << committed.error().text();
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_TRUE(fill(stored, {{0, 3 * kSize}}, 'c'));  // more than one old place
      ASSERT_TRUE(stored.commit());
      const auto read = read_all(**reader);
      ASSERT_TRUE(read) << read.error().text();
      EXPECT_TRUE(*read == half_and_half());
    }
  });
}

// A program commits again and again while its file is checked: what is checked is one generation, which stays.
TEST(Check, OfAFileThatIsWrittenFindsNoDamage) {
  class Meddled : public Wrapped {
   public:
    Meddled(std::unique_ptr<Storage> inner, std::function<void()> before_lock, std::function<void()> before_data,
            bool locks)
        : Wrapped(std::move(inner)),
          before_lock_(std::move(before_lock)),
          before_data_(std::move(before_data)),
          locks_(locks) {}
    Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
      if (before_lock_) std::exchange(before_lock_, nullptr)();
      return locks_ ? Wrapped::lock(range, mode) : fail(Code::kUnsupportedOperation, "no locks");
    }
    Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
      if (before_data_ && extents.front().offset >= kFirstStored) {
        before_data_();
        if (!locks_) before_data_ = nullptr;  // else it would never come to an end
      }
      return Wrapped::readv(extents, memory);
    }

   private:
    std::function<void()> before_lock_, before_data_;
    const bool locks_;
  };
  for (const bool locks : {true, false}) {
    SCOPED_TRACE(locks);
    const auto file = new_file();
    run_threads(1, {}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      char next = 'a';
      const auto commit_some = [&] {
        for (int turn = 0; turn < 3; ++turn) {
          ASSERT_TRUE(fill(**opened, {{0, kSize}}, next++));
          ASSERT_TRUE((*opened)->commit());
        }
      };
      commit_some();
      Meddled storage(open_memory(file, {.read = true}), commit_some, commit_some, locks);
      const auto check = check_interval_file(storage);
      EXPECT_GE(next, 'a' + 9);
      ASSERT_TRUE(check) << check.error().text();
      EXPECT_TRUE(check->damage.empty()) << check->damage.front();
    });
  }
}

}  // namespace
}  // namespace stridio
