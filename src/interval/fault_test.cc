// Storage that fails: a clear error, never wrong bytes, and the last generation is still there.
#include "storage/wrap/fault.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "interval/faulty.h"
#include "interval/interval_file.h"

namespace stridio {
namespace {

// Whatever the storage has of the first bytes when making the file ends: it can be made again, and a whole one is not.
TEST(Creation, CanBeRepeated) {
  const auto whole = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(whole)));
  const Data bytes = *read_extent(*open_memory(whole), {0, *open_memory(whole)->size()});
  for (std::size_t length = 8; length <= bytes.size(); length += length < 100 ? 1 : 511) {
    const auto file = make_memory_file();
    ASSERT_TRUE(open_memory(file)->write({0, static_cast<Bytes>(length)}, bytes.data()));
    run_threads(1, {}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened) << length << ": " << opened.error().text();
      Data data(100, std::byte{'x'});
      ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, 100}}, data));
      ASSERT_TRUE((*opened)->commit());
    });
    const auto check = check_interval_file(*open_memory(file));
    EXPECT_TRUE(check && check->damage.empty() && check->notes.empty()) << length;
  }
}

// A commit is whole: where a write has failed there is none, until what it was to write has been written or is cut off.
TEST(FailedWrites, AreRepeatedBeforeACommit) {
  enum { kBySelf, kByAnother, kCutOff, kNever };
  constexpr Bytes kHalf = 50000;
  for (const int way : {kBySelf, kByAnother, kCutOff, kNever}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    Bytes stored_before = 0;
    run_threads(2, {}, [&](Group& group) {
      auto storage = std::make_unique<Full>(open_memory(file));
      Full& mine = *storage;
      auto opened = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      const bool fails = group.rank() == 1;
      const auto write_half = [&](int half, char what) {
        Data data(kHalf, static_cast<std::byte>(what));
        return write_list(stored, std::vector<Extent>{{half * kHalf, kHalf / 2}, {half * kHalf + kHalf / 2, kHalf / 2}},
                          data);
      };
      ASSERT_TRUE(write_half(group.rank(), 'a'));
      ASSERT_TRUE(stored.commit());
      if (fails) stored_before = *open_memory(file)->size();
      ASSERT_TRUE(write_half(group.rank(), 'b'));
      mine.full = fails;
      ASSERT_EQ(write_half(group.rank(), 'c').has_value(), !fails);
      mine.full = false;
      const Status committed = stored.commit();
      ASSERT_FALSE(committed);
      EXPECT_EQ(committed.error().code, Code::kNoSpace);
      EXPECT_NE(committed.error().what.find("bytes 50000 and 99999"), std::string::npos) << committed.error().what;
      const bool repeats = (way == kBySelf && fails) || (way == kByAnother && !fails);
      ASSERT_TRUE(!repeats || write_half(1, 'd'));
      ASSERT_TRUE(way != kCutOff || stored.resize(kHalf));
      ASSERT_TRUE(group.barrier());
      ASSERT_EQ(stored.commit().has_value(), way != kNever);
      if (way == kNever) stored.give_up();
    });
    run_threads(1, {}, [&](Group& group) {
      const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
      ASSERT_TRUE(reader);
      Data wanted(kHalf, way == kNever ? std::byte{'a'} : std::byte{'c'});
      if (way != kCutOff) wanted.resize(2 * kHalf, way == kNever ? std::byte{'a'} : std::byte{'d'});
      EXPECT_TRUE(*read_all(**reader) == wanted) << "way " << way;
    });
    EXPECT_TRUE(way != kNever || *open_memory(file)->size() <= up_to_cell(stored_before));
  }
}

// The new header is written, and whether it is durable nobody knows: what it names must stay.
TEST(FailedWrites, WhatMayBeCommittedIsNotGivenUp) {
  class NotDurable : public Wrapped {
   public:
    using Wrapped::Wrapped;
    Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
      slot_ = extents.front().offset == slot_of(2);
      return Wrapped::writev(extents, memory);
    }
    Status sync() override { return slot_ ? fail(Code::kIo, "not durable") : Wrapped::sync(); }

   private:
    bool slot_ = false;
  };
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  Data data(100000, std::byte{'x'});
  run_threads(1, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, std::make_unique<NotDurable>(open_memory(file)), true);
    ASSERT_TRUE(opened);
    ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, 100000}}, data));
    EXPECT_FALSE((*opened)->commit());
    (*opened)->give_up();
  });
  run_threads(1, {}, [&](Group& group) {
    const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
    ASSERT_TRUE(reader) << reader.error().text();
    EXPECT_TRUE(*read_all(**reader) == data);
  });
}

// Does something before the next lock is taken.
class Late : public Wrapped {
 public:
  Late(std::unique_ptr<Storage> inner, std::function<void()> before)
      : Wrapped(std::move(inner)), before_(std::move(before)) {}
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    if (before_) std::exchange(before_, nullptr)();
    return Wrapped::lock(range, mode);
  }

 private:
  std::function<void()> before_;
};

// Somebody commits to a file between the moment when another one made it and took the lock: what was committed stays, and the
// other, who has taken his time, learns it. What was written and not committed is nobody's.
TEST(Newborn, WhatOthersHaveCommittedMeanwhileStays) {
  const Data theirs(100000, std::byte{'x'});
  const SummedRequests far{.write = {.depth = 4, .unit = 5000, .extend_first = true}, .worth_extending = 1};
  for (const bool commits_meanwhile : {true, false}) {
    for (const int ranks_per_node : {0, 1}) {
      const auto file = make_memory_file();
      const auto commit_theirs = [&] {
        run_threads(1, {}, [&](Group& alone) {
          auto opened = IntervalFile::open(alone, open_memory(file), true);
          ASSERT_TRUE(opened);
          Data data = theirs;
          ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, std::ssize(data)}}, data));
          ASSERT_TRUE(!commits_meanwhile || (*opened)->commit());
        });
      };
      run_threads(2, {.ranks_per_node = ranks_per_node}, [&](Group& group) {
        std::unique_ptr<Storage> storage = open_memory(file);
        IntervalFile::Begun begun{};
        if (group.rank() == 0) {
          storage = std::make_unique<Late>(std::move(storage), commit_theirs);
          auto newborn = IntervalFile::begin_newborn(*storage, since_boot() - std::chrono::seconds(1));
          ASSERT_EQ(newborn.has_value(), !commits_meanwhile);
          if (newborn)
            begun = *std::move(newborn);
          else
            EXPECT_EQ(newborn.error().code, Code::kFileInUse);
        }
        if (commits_meanwhile) return;
        ASSERT_TRUE(group.barrier());
        auto opened = IntervalFile::open(group, std::move(storage), true, std::move(begun), far);
        ASSERT_TRUE(opened) << opened.error().text();
        Data mine(100000, std::byte{'y'});
        (*opened)->expect_write(100000);
        ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{group.rank() * 100000, 100000}}, mine));
        ASSERT_TRUE((*opened)->commit());
      });
      const Data wanted = commits_meanwhile ? theirs : Data(200000, std::byte{'y'});
      run_threads(1, {}, [&](Group& group) {
        const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
        ASSERT_TRUE(reader) << reader.error().text();
        EXPECT_TRUE(*read_all(**reader) == wanted);
      });
      EXPECT_TRUE(check_interval_file(*open_memory(file))->damage.empty());
    }
  }
}

// Who has not made the file, and finds nothing in it, holds the lock for a while before writing: the one that has made it comes meanwhile.
TEST(Newborn, WhoHasNotMadeItGivesTheMakerTime) {
  using Clock = std::chrono::steady_clock;
  for (const bool is_born : {true, false}) {
    const auto file = make_memory_file();
    const auto made = open_memory(file), found = open_memory(file);
    const SinceBoot began = since_boot();
    if (is_born) {
      ASSERT_TRUE(IntervalFile::format(*made));
    }
    const auto before = Clock::now();
    const auto begun = IntervalFile::begin_writing(*found);
    ASSERT_TRUE(begun) << begun.error().text();
    EXPECT_GE(Clock::now() - before, std::chrono::milliseconds(100));
    const auto newborn = IntervalFile::begin_newborn(*made, began);
    ASSERT_FALSE(newborn);
    EXPECT_EQ(newborn.error().code, Code::kFileInUse);
  }
}

// Nobody locks a flat file. Where one has begun to be written under the name, no data come beside it, or, where it was made only
// just now, nothing is committed.
TEST(Newborn, AFlatFileMadeMeanwhileIsSeen) {
  for (const bool soon : {true, false}) {
    const auto file = make_memory_file();
    Data flat(3 * kFirstStored, std::byte{'x'});
    run_threads(1, {}, [&](Group& group) {
      auto storage = std::make_unique<Late>(open_memory(file), [&] {
        ASSERT_TRUE(write_list(*open_memory(file), std::vector<Extent>{{0, std::ssize(flat)}}, flat));
      });
      auto begun = IntervalFile::begin_newborn(*storage, since_boot() - std::chrono::seconds(soon ? 0 : 1));
      ASSERT_EQ(begun.has_value(), soon);
      if (!soon) {
        EXPECT_EQ(begun.error().code, Code::kFileInUse);
        return;
      }
      auto opened = IntervalFile::open(group, std::move(storage), true, *std::move(begun));
      ASSERT_TRUE(opened);
      Data mine(100000, std::byte{'y'});
      ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, 100000}}, mine));
      for (int again = 0; again < 2; ++again) {
        const Status committed = (*opened)->commit();
        ASSERT_FALSE(committed);
        EXPECT_EQ(committed.error().code, Code::kFileInUse);
      }
      (*opened)->give_up();
    });
    const auto left = read_all(*open_memory(file));
    ASSERT_TRUE(left);
    ASSERT_EQ(left->size(), flat.size());
    EXPECT_TRUE(std::equal(flat.begin() + kHeaderBytes, soon ? flat.begin() + kFirstStored : flat.end(),
                           left->begin() + kHeaderBytes));
  }
}

// The birth and zeros are what a power loss may leave of a file before its first commit: whoever writes begins anew. What else is
// so short is damage.
TEST(Newborn, WhatAPowerLossLeavesIsBegunAnew) {
  for (const Bytes length : {kHeaderBytes + 1, Bytes{512}, kHeaderStep, kFirstStored - 1}) {
    for (const bool cut : {true, false}) {
      SCOPED_TRACE(length);
      const auto file = make_memory_file();
      ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
      const std::byte last{!cut};
      ASSERT_TRUE(open_memory(file)->write({length - 1, 1}, &last));
      run_threads(1, {}, [&](Group& group) {
        const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
        ASSERT_FALSE(reader);
        EXPECT_NE(reader.error().what.find("truncated"), std::string::npos);
        EXPECT_EQ(reader.error().what.find("begins anew") != std::string::npos, cut) << reader.error().what;
        {
          const auto idle = IntervalFile::open(group, open_memory(file), true);
          ASSERT_EQ(idle.has_value(), cut);
          if (!cut) return;
        }
        ASSERT_TRUE(IntervalFile::open(group, open_memory(file, {.read = true}), false)) << "it is one already";
        const auto writer = IntervalFile::open(group, open_memory(file), true);
        ASSERT_TRUE(writer) << writer.error().text();
        Data data(5000, std::byte{'x'});
        ASSERT_TRUE(write_list(**writer, std::vector<Extent>{{0, 5000}}, data));
        ASSERT_TRUE((*writer)->commit());
        EXPECT_EQ(*read_all(**writer), data);
      });
    }
  }
}

// Where storage is far a closed file is given back later. Who needs it gone waits for that, and who writes to it next.
TEST(Closed, IsWaitedFor) {
  class Slow : public Wrapped {
   public:
    Slow(std::unique_ptr<Storage> inner, std::atomic<bool>& gone) : Wrapped(std::move(inner)), gone_(gone) {}
    ~Slow() override { gone_ = true; }
    Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
      ASSIGN_OR_RETURN(auto held, Wrapped::lock(range, mode));
      return std::make_unique<SlowLock>(std::move(held));
    }

   private:
    struct SlowLock final : RangeLock {
      explicit SlowLock(std::unique_ptr<RangeLock> lock) : held(std::move(lock)) {}
      ~SlowLock() override { std::this_thread::sleep_for(std::chrono::milliseconds(600)); }
      const std::unique_ptr<RangeLock> held;
    };
    std::atomic<bool>& gone_;
  };
  const auto file = make_memory_file();
  const SummedRequests far{.write = {.depth = 4, .unit = 5000}};
  run_threads(1, {}, [&](Group& group) {
    for (const bool reopened : {false, true}) {
      std::atomic<bool> gone = false;
      {
        const auto opened = IntervalFile::open(group, std::make_unique<Slow>(open_memory(file), gone), true, {}, far);
        ASSERT_TRUE(opened) << opened.error().text();
      }
      EXPECT_FALSE(gone);
      if (reopened) {
        const auto again = IntervalFile::open(group, open_memory(file), true);
        EXPECT_TRUE(again) << again.error().text();
      }
      IntervalFile::await_closed();
      EXPECT_TRUE(gone);
    }
  });
}

TEST(FailedWrites, NothingLiesBeyondWhatTheFormatHas) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    Data data(20, std::byte{'x'});
    const Status written = write_list(**opened, std::vector<Extent>{{kMostBytes - 10, 20}}, data);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Code::kNoSpace);
    EXPECT_FALSE((*opened)->resize(kMostBytes + 1));
    EXPECT_FALSE((*opened)->reserve(kMostBytes + 1));
    EXPECT_TRUE(write_list(**opened, std::vector<Extent>{{kMostBytes - 20, 20}}, data));
    const Status committed = (*opened)->commit();
    EXPECT_TRUE(committed) << committed.error().text();
  });
  EXPECT_TRUE(check_interval_file(*open_memory(file))->damage.empty());
}

// The storage of rank 0 fails at each of its operations in turn, for once or from then on.
TEST_F(Faulty, AFailedCommitLeavesTheGenerationBefore) {
  int failed = 0;
  for (const int error : {ENOSPC, EIO})
    for (const Bytes prefix : {0, 20, 36000})  // the last is a first copy of a header
      for (std::int64_t turn = 0; turn < 40; ++turn) {
        const std::int64_t every = turn % 2, first = turn / 2;
        SCOPED_TRACE("operation " + std::to_string(first) + ", every " + std::to_string(every));
        ASSERT_TRUE(storage()->resize(0));
        ASSERT_TRUE(storage()->write({0, static_cast<Bytes>(bytes_.size())}, bytes_.data()));
        const FaultPlan plan{.kinds = kFaultWrite | kFaultSync | kFaultResize,
                             .first = first,
                             .every = every,
                             .sys_errno = error,
                             .prefix = prefix};
        std::array<Status, 3> statuses;
        run_threads(3, {}, [&](Group& group) {
          statuses[static_cast<std::size_t>(group.rank())] = write_turns(group, 2, kTurns + 20, plan);
        });
        EXPECT_EQ(statuses[0].has_value(), statuses[1].has_value());
        EXPECT_EQ(statuses[0].has_value(), statuses[2].has_value());
        failed += !statuses[0];
        const auto read = read_back(*read_extent(*storage(), {0, *storage()->size()}));
        ASSERT_TRUE(read) << read.error().text();
        const Data after = pattern(2, kTurns + 20);
        ASSERT_TRUE(*read == after || (!statuses[0] && *read == expected_));
        if (HasFailure()) return;
      }
  EXPECT_GT(failed, 50);
}

// The system tells once that bytes could not be made durable, and may have dropped them: they are committed when they have been
// written again.
TEST(FailedSyncs, AreNotForgotten) {
  for (const int depth : {1, 4}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(2, {}, [&](Group& group) {
      const FaultPlan plan{.kinds = kFaultSync, .first = group.rank() == 1 ? 0 : -1, .sys_errno = EIO};
      const SummedRequests requests{.write = {.depth = depth}};
      auto file_of_rank = IntervalFile::open(group, wrap_fault(open_memory(file), plan), true, {}, requests);
      ASSERT_TRUE(file_of_rank);
      IntervalFile& opened = **file_of_rank;
      Data data(50000, std::byte{'x'});
      const std::vector<Extent> extents{{group.rank() * 50000, 50000}};
      ASSERT_TRUE(write_list(opened, extents, data));
      ASSERT_FALSE(opened.commit());
      const Status again = opened.commit();
      ASSERT_FALSE(again);
      EXPECT_NE(again.error().what.find("it can be repeated"), std::string::npos) << again.error().what;
      ASSERT_TRUE(group.rank() == 0 || write_list(opened, extents, data));
      const Status at_last = opened.commit();
      ASSERT_TRUE(at_last) << at_last.error().text();
      EXPECT_EQ(*read_all(opened), Data(100000, std::byte{'x'}));
    });
  }
}

// What is moved behind a commit is there twice: whichever operation fails, of the rank that commits or of the one that moves, the
// file is empty or what was committed.
TEST(FailedMoves, LeaveWhatWasCommitted) {
  std::array<int, 2> generations{};  // so often was one more committed, and two
  for (const int rank : {0, 3})
    for (std::int64_t first = 0; first < 16 && !HasFailure(); ++first) {
      SCOPED_TRACE("rank " + std::to_string(rank) + ", operation " + std::to_string(first));
      const auto file = make_memory_file();
      ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
      Random random(1);
      const Data bytes = random_data(random, Bytes{3} << 19);
      run_threads(4, {}, [&](Group& group) {
        const FaultPlan plan{.first = group.rank() == rank ? first : FaultPlan::kNever, .sys_errno = ENOSPC};
        const auto opened = IntervalFile::open(group, wrap_fault(open_memory(file), plan), true);
        if (!opened) return;
        IntervalFile& mine = **opened;
        for (int turn = 0; turn < group.size(); ++turn) {
          Data data = turn + 1 == group.size() ? bytes : Data(bytes.size());
          const std::vector<Extent> all{{0, std::ssize(data)}};
          const bool written = turn != group.rank() || write_list(mine, all, data) || write_list(mine, all, data);
          ASSERT_TRUE(written && group.barrier());
        }
        const auto before = mine.root().generation;
        if (!mine.commit()) {
          // Where nobody knows which of two of the same bytes counts, the next one says so, too; what was not committed is tried again.
          const bool moves = mine.root().generation > before, again = mine.commit().has_value();
          EXPECT_TRUE(moves ? !again : again || rank > 0);
          return;
        }
        if (group.rank() == 0) ++generations.at(mine.root().generation - before - 1);
        EXPECT_TRUE(group.rank() == rank || *read_all(mine) == bytes);
      });
      run_threads(1, {}, [&](Group& group) {
        const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
        ASSERT_TRUE(reader) << reader.error().text();
        EXPECT_TRUE((*reader)->root().size == 0 || *read_all(**reader) == bytes);
      });
    }
  EXPECT_GT(generations[0], 2);
  EXPECT_GT(generations[1], 2);
}

// Who committed may have been killed before it was durable.
TEST(FailedSyncs, WhatWasCommittedIsDurableBeforeItIsBuiltUpon) {
  class Order : public Wrapped {
   public:
    using Wrapped::Wrapped;
    Status sync() override {
      EXPECT_TRUE(synced || !changed_);
      synced = true;
      return Wrapped::sync();
    }
    Status resize(Bytes size) override {
      changed_ = true;
      return Wrapped::resize(size);
    }
    bool synced = false;

   private:
    bool changed_ = false;
  };
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    for (const bool newborn : {true, false}) {
      auto storage = std::make_unique<Order>(open_memory(file));
      Order& order = *storage;
      auto opened = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(opened);
      EXPECT_EQ(order.synced, !newborn);
      Data data(50000, std::byte{'x'});
      ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, 50000}}, data));
      ASSERT_TRUE((*opened)->commit());
      ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{0, 50000}}, data));
      opened->reset();  // leaves bytes behind the end
    }
  });
}

// What was written is still there for the next try.
TEST_F(Faulty, ACommitThatFoundNoSpaceCanBeTriedAgain) {
  run_threads(1, {}, [&](Group& group) {
    const FaultPlan plan{.kinds = kFaultWrite, .first = 1, .sys_errno = ENOSPC};
    auto file = IntervalFile::open(group, wrap_fault(storage(), plan), true);
    ASSERT_TRUE(file);
    Oracle oracle{expected_};
    Random random(1);
    Data data = random_data(random, 50000);
    const std::vector<Extent> extents{{100, 50000}};
    ASSERT_TRUE(write_list(**file, extents, data));
    oracle.write(extents, data);
    const Status first = (*file)->commit();
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, Code::kNoSpace);
    ASSERT_TRUE((*file)->commit());
    EXPECT_TRUE(*read_all(**file) == oracle.bytes);
  });
}

}  // namespace
}  // namespace stridio
