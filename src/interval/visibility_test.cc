// What ranks of one open see of each other before a commit: small writes, atomic mode, collective reads; and in which order.
#include <gtest/gtest.h>

#include <utility>

#include "group/segment.h"
#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/memory.h"
#include "storage/request.h"
#include "support/sanitized.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

constexpr int kTurns = testing::rounds(600, 100);

// Ranks that order their writes by messages alone, as HDF5 does with its metadata: the later counts, and all see it at
// once, whether it is one piece or many; so does the commit.
TEST(Visibility, OrderedWritesAreSeenInOrder) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr Bytes kSize = 60000;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  Oracle oracle{Data(kSize)};
  run_threads(3, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    Random common(seed);
    ASSERT_TRUE(stored.resize(kSize));
    std::int64_t many_by = 0;
    for (int turn = 0; turn < 400; ++turn) {
      SCOPED_TRACE("turn " + std::to_string(turn) + ", STRIDIO_SEED=" + std::to_string(seed));
      const std::int64_t kind = draw(common, 0, 20);
      // Of many pieces that several ranks write in one epoch, the higher rank's count.
      const std::int64_t writer = kind < 12 ? draw(common, 0, 2) : many_by;
      std::vector<Extent> extents;
      if (kind < 12) {  // few pieces
        for (std::int64_t left = draw(common, 1, 3); left > 0; --left)
          extents.push_back({draw(common, 0, kSize - 500), draw(common, 0, 500)});
      } else if (kind < 18) {  // many
        const Bytes stride = draw(common, 20, 500), length = draw(common, 1, stride);
        for (Offset at = draw(common, 0, 100); at + length <= kSize && extents.size() < 1000; at += stride)
          extents.push_back({at, length});
      }
      Bytes bytes = 0;
      for (const Extent& extent : extents) bytes += extent.length;
      Data data = random_data(common, bytes);
      ASSERT_TRUE(group.barrier());
      if (kind == 18) {
        const Bytes size = draw(common, 0, kSize);
        ASSERT_TRUE(stored.resize(size));
        ASSERT_TRUE(group.barrier());
        ASSERT_TRUE(stored.resize(kSize));
        if (group.rank() == 0) std::fill(oracle.bytes.begin() + size, oracle.bytes.end(), std::byte{0});
      } else if (kind > 18) {
        ASSERT_TRUE(stored.commit());
        many_by = draw(common, 0, 2);
      } else if (group.rank() == writer) {
        ASSERT_TRUE(write_list(stored, extents, data));
        oracle.write(extents, data);
      }
      ASSERT_TRUE(group.barrier());
      const bool shared = draw(common, 0, 3) == 0;
      ASSERT_TRUE(!shared || stored.share());
      // Without that, of many pieces others see what overwrites what they saw.
      const auto seen = read_all(stored);
      ASSERT_TRUE(seen) << seen.error().text();
      if (kind >= 12 && kind < 18 && group.rank() != writer && !shared) extents.clear();
      if (kind > 18 || shared) extents = {{0, kSize}};
      for (const Extent& extent : extents)
        ASSERT_TRUE(std::equal(seen->begin() + extent.offset, seen->begin() + extent.end(),
                               oracle.bytes.begin() + extent.offset));
    }
  });
}

// In atomic mode, tiles that reach into each other are written again and again: all see the latest, and its bytes alone keep their
// places. In two of three epochs some tiles are moved, so that others write what was theirs.
TEST(Visibility, TilesWrittenAgainAndAgainAreSeenAndStaySmall) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr int kRanks = 3;
  constexpr Bytes kRow = 6000, kRows = 200, kTile = kRow / kRanks, kGhost = 150;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  Oracle oracle{Data(kRow * kRows)};
  run_threads(kRanks, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.show_at_once([](Extent) { return true; }));
    ASSERT_TRUE(stored.resize(kRow * kRows));
    Random common(seed);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int turn = 0; turn < testing::rounds(60, 15); ++turn) {
        SCOPED_TRACE("epoch " + std::to_string(epoch) + ", turn " + std::to_string(turn) +
                     ", STRIDIO_SEED=" + std::to_string(seed));
        const int writer = static_cast<int>(draw(common, 0, kRanks - 1));
        const std::int64_t moved = epoch > 0 && draw(common, 0, 3) == 0 ? draw(common, 1, kRanks - 1) : 0;
        const Offset left = std::max<Offset>(0, (writer + moved) % kRanks * kTile - kGhost);
        const Offset right = std::min(kRow, ((writer + moved) % kRanks + 1) * kTile + kGhost);
        std::vector<Extent> tile;
        for (Offset row = 0; row < kRows; ++row) tile.push_back({row * kRow + left, right - left});
        Data data = random_data(common, kRows * (right - left));
        const bool looks = draw(common, 0, 9) == 0;
        ASSERT_TRUE(group.barrier());
        if (group.rank() == writer) {
          ASSERT_TRUE(write_list(stored, tile, data));
          oracle.write(tile, data);
        }
        ASSERT_TRUE(group.barrier());
        if (!looks) continue;
        const auto seen = read_all(stored);
        ASSERT_TRUE(seen) << seen.error().text();
        ASSERT_TRUE(*seen == oracle.bytes);
      }
      ASSERT_TRUE(group.barrier());
      if (group.rank() == 0 && epoch == 0) {
        EXPECT_LT(*open_memory(file)->size(), 5 * std::ssize(oracle.bytes) / 2 + (1 << 20));
      }
      ASSERT_TRUE(stored.commit());
      const auto seen = read_all(stored);
      ASSERT_TRUE(seen) << seen.error().text();
      ASSERT_TRUE(*seen == oracle.bytes);
    }
  });
  const auto check = check_interval_file(*open_memory(file));
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->damage.empty()) << check->damage.front();
}

// What `first` and then the other of two ranks writes, ordered by messages alone; before the commit they look at it, or nobody does.
void expect_in_order(int first, bool look, const std::function<std::vector<Extent>(bool)>& extents_of) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    Random common(11);
    Oracle oracle;
    for (const bool again : {false, true}) {
      const std::vector<Extent> extents = extents_of(again);
      Data data = random_data(common, size_of(extents));
      ASSERT_TRUE(group.rank() != (again ? 1 - first : first) || write_list(**opened, extents, data));
      oracle.write(extents, data);
      ASSERT_TRUE(group.barrier());
      EXPECT_TRUE(!look || read_all(**opened).value_or(Data{}) == oracle.bytes);
      ASSERT_TRUE(group.barrier());
    }
    ASSERT_TRUE((*opened)->commit());
    EXPECT_TRUE(read_all(**opened).value_or(Data{}) == oracle.bytes);
  });
}

// As a program does that fills what it makes, each rank some of it, and then writes over it by other ranks.
TEST(Visibility, LongWritesOfFewPiecesAreInOrder) {
  constexpr Bytes kPiece = Bytes{256} << 10;
  std::vector<Extent> extents;
  for (int i = 0; i < 6; ++i) extents.push_back({2 * i * kPiece, kPiece});
  for (const int filler : {0, 1})
    for (const bool look : {true, false}) expect_in_order(filler, look, [&](bool) { return extents; });
}

// Of the first, others are told only what somebody writes over.
TEST(Visibility, AFewBytesAreWrittenOverVeryManyPieces) {
  std::vector<Extent> many;
  for (Offset i = 0, at = 0; i < 70000; ++i, at += 3 + i % 3) many.push_back({at, 1 + i % 2});
  for (const int filler : {0, 1})
    expect_in_order(filler, false, [&](bool again) { return again ? std::vector<Extent>{{5000, 2000}} : many; });
}

// In atomic mode, ranks that write the same places in turn, on one node and on several: who writes finds that what it wrote before is
// nobody's.
TEST(Visibility, WhatOthersHaveWrittenOverIsFreeAgain) {
  constexpr Bytes kPiece = 3000, kPieces = 300;
  for (const bool one_node : {true, false}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(2, {.ranks_per_node = one_node ? 0 : 1}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      ASSERT_TRUE((*opened)->show_at_once([](Extent) { return true; }));
      std::vector<Extent> extents;
      for (Offset i = 0; i < kPieces; ++i) extents.push_back({2 * i * kPiece, kPiece});
      Random common(7);
      Data data;
      for (int turn = 0; turn < 12; ++turn) {
        data = random_data(common, kPieces * kPiece);
        ASSERT_TRUE(group.barrier());
        if (turn % 2 == group.rank()) {
          ASSERT_TRUE(write_list(**opened, extents, data));
        }
      }
      ASSERT_TRUE(group.barrier());
      EXPECT_LT(*open_memory(file)->size(), 3 * kPieces * kPiece);
      for (const bool committed : {false, true}) {
        ASSERT_TRUE(!committed || (*opened)->commit());
        const auto seen = read_all(**opened);
        ASSERT_TRUE(seen);
        for (std::size_t i = 0; i < extents.size(); ++i)
          ASSERT_TRUE(std::equal(data.begin() + static_cast<Offset>(i) * kPiece,
                                 data.begin() + static_cast<Offset>(i + 1) * kPiece, seen->begin() + extents[i].offset))
              << i;
        ASSERT_TRUE(group.barrier());
      }
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front();
  }
}

// Does its `left`-th operation, and says that it failed.
class FailsAfterwards final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return fails(Wrapped::readv(extents, memory));
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return fails(Wrapped::writev(extents, memory));
  }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    return fails(Wrapped::lock(range, mode));
  }

  int left = -1;

 private:
  template <typename T>
  Result<T> fails(Result<T> done) {
    if (left < 0 || left-- > 0) return done;
    return fail_errno(EIO, "a test", path());
  }
};

// In atomic mode across nodes, where nobody knows whether others have been told of a write: it is there or it is not, and its place
// is not used for what is written afterwards.
TEST(Visibility, WhatOthersMayHaveBeenToldOfStays) {
  constexpr Bytes kPiece = 3000, kPieces = 300;
  std::vector<Extent> tile, other;
  for (Offset i = 0; i < kPieces; ++i) {
    tile.push_back({2 * i * kPiece, kPiece});
    other.push_back({(2 * i + 1) * kPiece, kPiece});
  }
  Random random(seed_of_this_run());
  const auto tile_data = [&] { return random_data(random, kPieces * kPiece); };
  int untold = 0, told = 0;
  for (int operation = 0; operation < 16 && !HasFailure(); ++operation) {
    SCOPED_TRACE("operation " + std::to_string(operation));
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    Data before = tile_data(), failed = tile_data(), last = tile_data();
    run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
      auto storage = std::make_unique<FailsAfterwards>(open_memory(file));
      FailsAfterwards& stored = *storage;
      auto opened = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(opened);
      ASSERT_TRUE((*opened)->show_at_once([](Extent) { return true; }));
      if (group.rank() == 0) {
        ASSERT_TRUE(write_list(**opened, tile, before));
        stored.left = operation;
        const Status written = write_list(**opened, tile, failed);
        stored.left = -1;
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(write_list(**opened, other, last));
        if (written) before = failed;
      }
      ASSERT_TRUE(group.barrier());
      Data seen(failed.size());
      const Span span{seen.data(), std::ssize(seen)};
      ASSERT_TRUE((*opened)->readv(tile, {&span, 1}));
      EXPECT_TRUE(seen == failed || seen == before);
      if (group.rank() == 1 && before != failed) ++(seen == failed ? told : untold);
      ASSERT_TRUE(group.barrier());
      ASSERT_TRUE(group.rank() == 1 || write_list(**opened, tile, last));
      ASSERT_TRUE((*opened)->commit());
      ASSERT_TRUE((*opened)->readv(tile, {&span, 1}));
      EXPECT_TRUE(seen == last);
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front();
  }
  EXPECT_TRUE(HasFailure() || (told > 0 && untold > 0)) << told << " and " << untold;
}

// In atomic mode, while others write their tiles again and again, in space that they have used before.
TEST(Visibility, ATileIsReadWhileOthersAreWrittenAgain) {
  constexpr int kRanks = 3, kTimes = 60;
  constexpr Bytes kRow = 3 * 2500, kRows = 100;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(kRanks, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    ASSERT_TRUE((*opened)->show_at_once([](Extent) { return true; }));
    std::vector<Extent> tile;
    for (Offset row = 0; row < kRows; ++row) tile.push_back({row * kRow + group.rank() * kRow / kRanks, kRow / kRanks});
    Random random(static_cast<std::uint64_t>(group.rank()));
    for (int turn = 0; turn < kTimes; ++turn) {
      Data data = random_data(random, kRows * kRow / kRanks), seen(data.size());
      ASSERT_TRUE(write_list(**opened, tile, data));
      const Span span{seen.data(), std::ssize(seen)};
      ASSERT_TRUE((*opened)->readv(tile, {&span, 1}));
      ASSERT_TRUE(seen == data) << turn;
    }
  });
}

// In atomic mode, where what all must see finds no room any more: the write is refused, and the commit has all the others.
TEST(Visibility, AtomicModeRefusesWhatItCannotShow) {
  constexpr Offset kFull = 1 << 16, kStep = 3;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.show_at_once([](Extent) { return false; }));
    ASSERT_TRUE(group.barrier());
    if (group.rank() == 0) {
      Data byte(1, std::byte{'x'}), many(70, std::byte{'y'});
      for (Offset i = 0; i < kFull; ++i) ASSERT_TRUE(write_list(stored, std::vector<Extent>{{i * kStep, 1}}, byte));
      std::vector<Extent> behind, within;
      for (Offset i = 0; i < std::ssize(many); ++i) {
        behind.push_back({kFull * kStep + i * i, 1});
        within.push_back({i * kStep + 1, 1});
      }
      for (const auto& extents : {std::vector<Extent>{behind.front()}, behind}) {
        Data data(extents.size(), std::byte{'z'});
        const Status refused = write_list(stored, extents, data);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::kNoMemory);
      }
      EXPECT_TRUE(write_list(stored, within, many)) << "a hole of its own, which nobody has seen";
    }
    ASSERT_TRUE(group.barrier());
    ASSERT_TRUE(stored.commit());
    const auto seen = read_all(stored);
    ASSERT_TRUE(seen);
    ASSERT_EQ(std::ssize(*seen), (kFull - 1) * kStep + 1);
    for (Offset i = 0; i < std::ssize(*seen); ++i) {
      const char wanted = i % kStep == 0 ? 'x' : i % kStep == 1 && i < 70 * kStep ? 'y' : '\0';
      ASSERT_EQ(static_cast<char>((*seen)[static_cast<std::size_t>(i)]), wanted) << i;
    }
  });
  const auto check = check_interval_file(*open_memory(file));
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->damage.empty()) << check->damage.front();
}

// In atomic mode all see at once what is written where ranks share bytes, and each its own, on one node and across nodes; and all
// of it once their views change, or after a commit.
TEST(Visibility, AtomicModeShowsWritesInOrder) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr int kRanks = 4;
  constexpr Bytes kZone = 20000, kSize = (kRanks + 1) * kZone;  // the first is everybody's
  int round = 0;
  for (const ThreadGroupOptions& options :
       {ThreadGroupOptions{}, ThreadGroupOptions{.shared_memory = false}, ThreadGroupOptions{.ranks_per_node = 2}}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    Oracle oracle;
    run_threads(kRanks, options, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      Random common(seed + static_cast<std::uint64_t>(round));
      int shift = 0;  // of who has which zone
      const auto zone_of = [&](int rank) { return Extent{kZone * (1 + (rank + shift) % kRanks), kZone}; };
      const auto is_shared = [=](Extent range) { return range.offset < kZone; };
      ASSERT_TRUE(stored.show_at_once(is_shared));
      for (int turn = 0; turn < kTurns; ++turn) {
        SCOPED_TRACE("turn " + std::to_string(turn) + ", STRIDIO_SEED=" + std::to_string(seed));
        const std::int64_t kind = draw(common, 0, 40);
        const int writer = static_cast<int>(draw(common, 0, kRanks - 1));
        const Extent zone = kind < 12 ? Extent{0, kZone} : zone_of(writer);
        std::vector<Extent> extents;
        if (kind < 33) {
          const std::int64_t most = kind % 2 == 0 ? 3 : 500;
          Offset at = zone.offset + draw(common, 0, kZone / 2);
          while (std::ssize(extents) < most && at + 40 < zone.end()) {
            extents.push_back({at, draw(common, 1, 40)});
            at = extents.back().end() + draw(common, 0, 40) * draw(common, 0, 1);
          }
          if (kind < 4) extents.push_back({zone_of(writer).offset + draw(common, 0, kZone / 2), 100});
        }
        Bytes bytes = 0;
        for (const Extent& extent : extents) bytes += extent.length;
        Data data = random_data(common, bytes);
        const Bytes size = draw(common, 0, kSize);
        ASSERT_TRUE(group.barrier());
        bool all_seen = false;
        if (kind == 36) {
          ASSERT_TRUE(stored.resize(size));
          if (group.rank() == 0) oracle.bytes.resize(static_cast<std::size_t>(size));
        } else if (kind == 37) {
          ASSERT_TRUE(stored.commit());
          all_seen = true;
        } else if (kind == 38) {  // views change
          ASSERT_TRUE(stored.share());
          ++shift;
          all_seen = true;
        } else if (kind == 39) {  // without a commit, or with one
          ASSERT_TRUE(stored.show_at_once({}));
          if (group.rank() == writer) {  // what may have been another's before views changed
            extents = {{zone_of(writer).offset + size % kZone / 2, kZone / 2}};
            data = random_data(common, kZone / 2);
            ASSERT_TRUE(write_list(stored, extents, data));
            oracle.write(extents, data);
          } else {
            random_data(common, kZone / 2);
          }
          ASSERT_TRUE(writer != 0 || stored.commit());
          ASSERT_TRUE(stored.show_at_once(is_shared));
          ASSERT_TRUE(stored.share());
        } else if (group.rank() == writer && !extents.empty()) {
          ASSERT_TRUE(write_list(stored, extents, data));
          oracle.write(extents, data);
          if (kind < 4) {  // over what all were told
            extents = {{extents.back().offset + 50, 70}};
            data.resize(70);
            ASSERT_TRUE(write_list(stored, extents, data));
            oracle.write(extents, data);
          }
        }
        ASSERT_TRUE(group.barrier());
        for (const Extent& part : {zone_of(group.rank()), Extent{0, kZone}, Extent{0, kSize}}) {
          if (part.length == kSize && !all_seen) continue;
          const auto seen = read_extent(stored, part);
          ASSERT_TRUE(seen) << seen.error().text();
          ASSERT_TRUE(*seen == oracle.read(part)) << "rank " << group.rank() << ", from " << part.offset;
        }
        ASSERT_EQ(*stored.size(), std::ssize(oracle.bytes));
      }
      ASSERT_TRUE(stored.commit());
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front();
    ++round;
  }
}

// Across nodes, where the log is full: as on one.
TEST(Visibility, AtomicModeAcrossNodesRefusesWhatItCannotShow) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  Oracle oracle;
  run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.show_at_once([](Extent) { return true; }));
    if (group.rank() == 0) {
      Random random(1);
      std::vector<Extent> many;
      for (Offset i = 0; i < 100000; ++i)
        many.push_back({many.empty() ? 0 : many.back().end() + draw(random, 1, 9), 1});
      Data data = random_data(random, std::ssize(many));
      int written = 0;
      Status last;
      for (; written < 100 && (last = write_list(stored, many, data)); ++written) {
        oracle.write(many, data);
        data = random_data(random, std::ssize(many));
      }
      EXPECT_GT(written, 5);
      ASSERT_FALSE(last);
      EXPECT_EQ(last.error().code, Code::kNoMemory);
    }
    ASSERT_TRUE(group.barrier());
    const auto seen = read_all(stored);
    ASSERT_TRUE(seen && *seen == oracle.bytes) << "rank " << group.rank();
    ASSERT_TRUE(stored.commit());
    Data byte(1, std::byte{'x'});
    ASSERT_TRUE(group.rank() == 0 || write_list(stored, std::vector<Extent>{{0, 1}}, byte)) << "there is room again";
    ASSERT_TRUE(group.barrier());
    EXPECT_EQ(*read_extent(stored, {0, 1}), byte);
  });
}

// What is written after a share() is newer than all before, whoever wrote it; until the next one, others see the one or the other.
TEST(Visibility, SharingSettlesAnOrder) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr int kRanks = 3, kSharings = 60;
  constexpr Bytes kZone = 60000;
  int round = 0;
  for (const ThreadGroupOptions& options :
       {ThreadGroupOptions{}, ThreadGroupOptions{.shared_memory = false}, ThreadGroupOptions{.ranks_per_node = 2}}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    Oracle oracle{Data(kRanks * kZone)};
    run_threads(kRanks, options, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      Random common(seed + static_cast<std::uint64_t>(round)), own(common() + static_cast<std::uint64_t>(group.rank()));
      ASSERT_TRUE(stored.resize(kRanks * kZone));
      for (int turn = 0; turn < kSharings; ++turn) {
        SCOPED_TRACE("turn " + std::to_string(turn) + ", STRIDIO_SEED=" + std::to_string(seed));
        const auto zone_of = [&](int rank) { return Extent{(rank + turn) % kRanks * kZone, kZone}; };
        const Extent zone = zone_of(group.rank()), another = zone_of((group.rank() + 1) % kRanks);
        const Data before = oracle.read(another);
        ASSERT_TRUE(group.barrier());
        for (auto writes = draw(own, 0, 3); writes > 0; --writes) {
          std::vector<Extent> extents;
          const bool many = draw(own, 0, 1) == 1;
          for (Offset at = zone.offset + draw(own, 0, 30000); at + 300 < zone.end(); at = extents.back().end() + 1) {
            extents.push_back({at, many ? draw(own, 1, 300) : zone.end() - at});
            if (!many) break;
          }
          Bytes bytes = 0;
          for (const Extent& each : extents) bytes += each.length;
          Data data = random_data(own, bytes);
          ASSERT_TRUE(write_list(stored, extents, data));
          oracle.write(extents, data);
        }
        ASSERT_TRUE(group.barrier());
        EXPECT_TRUE(*read_extent(stored, zone) == oracle.read(zone)) << "one's own";
        const Data seen = *read_extent(stored, another), after = oracle.read(another);
        for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_TRUE(seen[i] == before[i] || seen[i] == after[i]) << i;
        ASSERT_TRUE(group.barrier());
        ASSERT_TRUE(draw(common, 0, 9) == 0 ? stored.commit() : stored.share());
        ASSERT_TRUE(*read_all(stored) == oracle.bytes);
        ASSERT_TRUE(group.barrier());
      }
      ASSERT_TRUE(stored.commit());
    });
    run_threads(1, {}, [&](Group& group) {
      const auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
      ASSERT_TRUE(reader);
      EXPECT_TRUE(*read_all(**reader) == oracle.bytes);
    });
    const auto check = check_interval_file(*open_memory(file));
    ASSERT_TRUE(check);
    EXPECT_TRUE(check->damage.empty()) << check->damage.front();
    ++round;
  }
}

// Says once that the head of what ranks tell was not written, where it was.
class Unsure final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    ASSIGN_OR_RETURN(const Transferred done, Wrapped::writev(extents, memory));
    if (extents.front() == kLogHead && std::exchange(fails, false)) return fail(Code::kIo, "no answer");
    return done;
  }
  bool fails = false;
};

// Whose telling the storage says to have failed, where it has not: later writes still count, and till it is repeated nothing is
// committed.
TEST(Visibility, WhatFailsToBeToldMayHaveBeenTold) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
    auto storage = std::make_unique<Unsure>(open_memory(file));
    Unsure& unsure = *storage;
    auto opened = IntervalFile::open(group, std::move(storage), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(group.rank() != 0 || fill(stored, {{0, 2000}}, 'a'));
    ASSERT_TRUE(stored.commit());
    ASSERT_TRUE(stored.show_at_once([](Extent range) { return range.offset < 1000; }));
    if (group.rank() == 0) {
      ASSERT_TRUE(fill(stored, {{100, 10}}, 'b'));
      EXPECT_EQ(*read_extent(stored, {100, 1}), Data(1, std::byte{'b'}));  // looks around
      unsure.fails = true;
      ASSERT_FALSE(fill(stored, {{500, 1000}}, 'c'));
      ASSERT_TRUE(fill(stored, {{1200, 100}}, 'd'));
      EXPECT_EQ(*read_extent(stored, {0, 1}), Data(1, std::byte{'a'}));  // looks around
      EXPECT_EQ(*read_extent(stored, {1200, 100}), Data(100, std::byte{'d'}));
    }
    ASSERT_FALSE(stored.commit());
    if (group.rank() == 0) {
      ASSERT_TRUE(fill(stored, {{500, 700}}, 'e'));
      ASSERT_TRUE(fill(stored, {{1300, 200}}, 'e'));
    }
    ASSERT_TRUE(stored.commit());
    EXPECT_EQ(*read_extent(stored, {1200, 100}), Data(100, std::byte{'d'}));
    EXPECT_EQ(*read_extent(stored, {500, 700}), Data(700, std::byte{'e'}));
  });
}

// Nor is its place used for what is written elsewhere.
TEST(Visibility, WhatMayHaveBeenToldKeepsItsPlace) {
  constexpr Extent kTold{500, 200000}, kElsewhere{1 << 20, 300000};
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
    auto storage = std::make_unique<Unsure>(open_memory(file));
    Unsure& unsure = *storage;
    auto opened = IntervalFile::open(group, std::move(storage), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.show_at_once([](Extent range) { return range.offset < 1000; }));
    if (group.rank() == 0) {
      unsure.fails = true;
      ASSERT_FALSE(fill(stored, {kTold}, 't'));
      for (int i = 0; i < 8; ++i) ASSERT_TRUE(fill(stored, {kElsewhere}, 'e'));
    }
    ASSERT_TRUE(group.barrier());
    EXPECT_TRUE(*read_extent(stored, kTold) == Data(static_cast<std::size_t>(kTold.length), std::byte{'t'}));
    ASSERT_TRUE(group.barrier());
  });
}

// Whoever else writes where the ranks tell each other what they wrote is found out.
TEST(Visibility, AnInterferedLogIsRefused) {
  for (const Offset at : {kFirstStored - 2048 + 8, kFirstStored - 2048 + 20}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(2, {.ranks_per_node = 1}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      IntervalFile& stored = **opened;
      ASSERT_TRUE(stored.show_at_once([](Extent) { return true; }));
      Data data(100, std::byte{'x'});
      if (group.rank() == 0) {
        ASSERT_TRUE(write_list(stored, std::vector<Extent>{{0, 100}}, data));
        ASSERT_TRUE(open_memory(file)->write({at, 1}, data.data()));
      }
      ASSERT_TRUE(group.barrier());
      const auto read = read_extent(stored, {0, 100});
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, Code::kIo);
      ASSERT_FALSE(write_list(stored, std::vector<Extent>{{0, 100}}, data));
      EXPECT_FALSE(stored.commit());
    });
  }
}

TEST(Visibility, AFileHasNothingOfTheOneBefore) {
  const auto one = make_memory_file(), next = make_memory_file();
  run_threads(2, {}, [&](Group& group) {
    for (const auto& file : {one, next}) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      EXPECT_EQ(*(*opened)->size(), 0);
      ASSERT_TRUE(group.barrier());
      Data data(100, std::byte{'x'});
      ASSERT_TRUE(write_list(**opened, std::vector<Extent>{{group.rank() * 100, 100}}, data));
      ASSERT_TRUE(group.barrier());
      EXPECT_EQ(*(*opened)->size(), 200);
      ASSERT_TRUE(group.barrier());
    }
  });
}

// The next file's ranks tell each other in the same memory.
TEST(Visibility, WhatWasToldOfOneFileIsNotTakenForTheNextOnes) {
  constexpr int kMost = 30;
  run_threads(3, {}, [&](Group& group) {
    for (int round = 0; round < 4; ++round) {
      if (group.rank() == 0) wipe_memory_log(group);
      ASSERT_TRUE(group.barrier());
      const auto log = make_memory_log(group);
      ASSERT_TRUE(log && *log);
      (*log)->begin(kBirth);
      EXPECT_TRUE((*log)->news()->empty());
      const auto segment = group.lasting_segment(1, 1).value();
      const auto* const words = reinterpret_cast<const std::uint64_t*>(segment->data());
      for (int word = 0; word < 2; ++word) EXPECT_EQ(words[word], 0u) << "how many there were";
      for (int i = 0; i < kMost; ++i) {
        constexpr int kWordsOfEntry = 1 + sizeof(PieceGroup) / sizeof(std::uint64_t);
        EXPECT_EQ(words[2 + i * kWordsOfEntry], 0u) << "entry " << i << " is one of round " << round - 1;
      }
      ASSERT_TRUE(group.barrier());
      const std::vector<PieceGroup> groups(static_cast<std::size_t>(kMost / 3), {{group.rank() * 10, 1, 500}});
      ASSERT_TRUE(*(*log)->publish(groups));
      ASSERT_TRUE(group.barrier());
      // As often as asked for, until they are taken up.
      for (int again = 0; again < 2; ++again) EXPECT_EQ(std::ssize(*(*log)->news()), kMost);
      (*log)->heard();
      EXPECT_TRUE((*log)->news()->empty());
      ASSERT_TRUE(group.barrier());
      if (round % 2 == 0 && group.rank() == 0) (*log)->clear();  // as after a commit
      ASSERT_TRUE(group.barrier());
    }
  });
}

// What one access writes through it, window by window, counts from one moment on, for this rank and the others; where a commit comes
// between, it is written again; where it comes to no end, it keeps a commit from being made until it is repeated.
TEST(Visibility, AWholeAccessCountsAtOnce) {
  constexpr Bytes kSize = 100000, kLength = 777;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  const auto windows_of = [](Offset begin) {
    std::vector<std::vector<Extent>> windows(2);
    for (std::size_t i = 0; i < 40; ++i)
      windows[i / 20].push_back({begin + 2 * kLength * static_cast<Offset>(i), kLength});
    return windows;
  };
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    ASSERT_TRUE(stored.resize(kSize));
    ASSERT_TRUE(stored.show_at_once([](Extent) { return true; }));
    const auto write = [&](Storage& to, Offset begin, char value) {
      for (const auto& window : windows_of(begin)) {
        Data data(window.size() * kLength, std::byte(value));
        ASSERT_TRUE(write_list(to, window, data));
      }
    };
    const auto expect = [&](Offset begin, char value) {
      const auto all = read_all(stored);
      ASSERT_TRUE(all) << all.error().text();
      for (const auto& window : windows_of(begin))
        for (const Extent& each : window)
          for (Offset at = each.offset; at < each.end(); ++at)
            ASSERT_EQ(static_cast<char>((*all)[static_cast<std::size_t>(at)]), value) << at;
    };
    const Offset mine = group.rank() * kLength, theirs = kLength - mine;
    {
      const auto whole = stored.begin_whole();
      write(*whole, mine, 'a');
      ASSERT_TRUE(group.barrier());
      expect(mine, '\0');
      expect(theirs, '\0');
      ASSERT_TRUE(group.barrier());
      const auto counts = whole->count();
      ASSERT_TRUE(counts && *counts);
      ASSERT_TRUE(group.barrier());
      expect(mine, 'a');
      expect(theirs, 'a');
      ASSERT_TRUE(group.barrier());
    }
    ASSERT_TRUE(stored.commit());
    {
      const auto whole = stored.begin_whole();
      write(*whole, mine, 'b');
      write(stored, mine, 'c');
      ASSERT_TRUE(stored.commit());
      const auto counts = whole->count();
      ASSERT_TRUE(counts);
      EXPECT_FALSE(*counts);
      expect(mine, 'c');
    }
    ASSERT_TRUE(stored.commit()) << "what was to be written again is no failure";
    {
      const auto whole = stored.begin_whole();
      write(*whole, mine, 'd');
    }
    const Status commit = stored.commit();
    ASSERT_FALSE(commit);
    EXPECT_NE(commit.error().what.find("it can be repeated"), std::string::npos);
    write(stored, mine, 'e');
    ASSERT_TRUE(stored.commit());
    expect(mine, 'e');
    expect(theirs, 'e');
  });
  const auto check = check_interval_file(*open_memory(file));
  ASSERT_TRUE(check);
  EXPECT_TRUE(check->damage.empty()) << check->damage.front();
}

}  // namespace
}  // namespace stridio
