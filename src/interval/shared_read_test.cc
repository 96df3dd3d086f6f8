// Reads that several carry out and verify together, against a byte array; and damage, which they must find.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <utility>

#include "base/crc32c.h"
#include "collective/collective.h"
#include "collective/stored_order.h"
#include "group/threads.h"
#include "interval/interval_file.h"
#include "interval/read_sums.h"
#include "interval/testing.h"
#include "storage/forwarding.h"
#include "storage/memory.h"
#include "storage/stored_read.h"

namespace stridio {
namespace {

// Committed by three ranks, whose blocks take turns, in one or two generations.
struct Written {
  std::shared_ptr<MemoryFile> file = make_memory_file();
  Oracle oracle;
  std::vector<Extent> stored;  // where the data are
};

Written write_file(Random& random, Bytes reach) {
  Written written;
  EXPECT_TRUE(IntervalFile::format(*open_memory(written.file)));
  for (std::int64_t epoch = draw(random, 1, 2); epoch > 0; --epoch) {
    const Bytes block = draw(random, 500, 30000);
    std::vector<std::vector<Extent>> extents(3);
    std::vector<Data> data(3);
    for (Offset at = 0; at < reach; at += block) {
      if (draw(random, 0, 9) == 0) continue;
      std::vector<Extent>& mine = extents[static_cast<std::size_t>(at / block % 3)];
      mine.push_back({at, std::min(block, reach - at)});
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      Bytes bytes = 0;
      for (const Extent& each : extents[rank]) bytes += each.length;
      data[rank] = random_data(random, bytes);
      written.oracle.write(extents[rank], data[rank]);
    }
    run_threads(3, {}, [&](Group& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      auto file = IntervalFile::open(group, open_memory(written.file), true);
      ASSERT_TRUE(file);
      ASSERT_TRUE(write_list(**file, extents[rank], data[rank]));
      ASSERT_TRUE((*file)->commit());
      if (rank > 0) return;
      written.stored.clear();
      for (const PartEntry& part : (*file)->root().parts)
        written.stored.insert(written.stored.end(), part.runs.begin(), part.runs.end());
    });
  }
  return written;
}

struct Reader {
  std::vector<Extent> wanted;  // ascending
};

// What the file has is wanted by one of them, or by nobody, or by two.
std::vector<Reader> random_readers(Random& random, Bytes size) {
  std::vector<Reader> readers(static_cast<std::size_t>(draw(random, 1, 4)));
  const Bytes piece = draw(random, 100, 20000);
  const std::int64_t apart = draw(random, 0, 10);
  for (Offset at = 0; at < size + 100; at += piece)
    for (std::int64_t times = draw(random, 0, 9) < apart ? 1 : draw(random, 0, 2); times > 0; --times) {
      std::vector<Extent>& wanted = readers[static_cast<std::size_t>(draw(random, 0, std::ssize(readers) - 1))].wanted;
      if (wanted.empty() || wanted.back().offset < at) wanted.push_back({at, piece});
    }
  return readers;
}

SummedRequests random_requests(Random& random) {
  const Bytes least_mapped[] = {1, 50000, SummedRequests::kNever};
  const double calls_a_page[] = {0, 1, 1e9};
  return {.longest_read = draw(random, 1, 100000),
          .least_mapped = least_mapped[draw(random, 0, 2)],
          .calls_a_page = calls_a_page[draw(random, 0, 2)],
          .read = {.depth = static_cast<int>(draw(random, 1, 4)), .unit = draw(random, 1000, 40000)}};
}

// By one to three calls.
Status read_share(SharedRead& shared, const Reader& reader, const Oracle& oracle, Random& random) {
  std::span<const Extent> left = reader.wanted;
  for (std::int64_t calls = draw(random, 1, 3); calls > 0; --calls) {
    const auto now = left.first(calls == 1 ? left.size() : static_cast<std::size_t>(draw(random, 0, std::ssize(left))));
    left = left.subspan(now.size());
    Data wanted;
    Bytes bytes = 0;
    for (const Extent& each : now) {
      const Data piece = oracle.read(each);
      wanted.insert(wanted.end(), piece.begin(), piece.end());
      bytes += each.length;
    }
    Data got(static_cast<std::size_t>(bytes), std::byte{0x55});
    const Span span{got.data(), bytes};
    ASSIGN_OR_RETURN(const Transferred moved, shared.readv(now, {&span, 1}));
    EXPECT_EQ(moved.bytes, std::ssize(wanted));
    got.resize(wanted.size());
    if (got != wanted) return fail(Code::kOther, "wrong bytes");
  }
  return {};
}

struct Outcome {
  std::vector<Status> read;  // by reader
  bool leaves_some = false;
  Status verified;
};

Outcome read_all_shares(const Written& written, const std::vector<Reader>& readers, const SummedRequests& requests,
                        Random& random) {
  Outcome outcome;
  run_threads(1, {}, [&](Group& group) {
    std::vector<std::unique_ptr<IntervalFile>> files;
    std::vector<std::unique_ptr<SharedRead>> shares;
    for (const Reader& reader : readers) {
      auto file = IntervalFile::open(group, open_memory(written.file, {.read = true}), false, {}, requests);
      ASSERT_TRUE(file);
      files.push_back(std::move(*file));
      auto shared = files.back()->share_read();
      ASSERT_TRUE(shared);
      shares.push_back(std::move(*shared));
      outcome.read.push_back(read_share(*shares.back(), reader, written.oracle, random));
      outcome.leaves_some = outcome.leaves_some || shares.back()->leaves_some();
    }
    for (const Status& each : outcome.read)
      if (!each && each.error().code != Code::kOther) return;
    const auto count = static_cast<int>(shares.size());
    for (int to = 0; outcome.leaves_some && outcome.verified && to < count; ++to) {
      std::vector<Data> told;
      for (const auto& from : shares) told.push_back(from->sums(count)[static_cast<std::size_t>(to)]);
      outcome.verified = shares[static_cast<std::size_t>(to)]->verify(told);
    }
  });
  return outcome;
}

TEST(SharedRead, IsWhatWasWrittenAndDamageIsFoundByOneOfTheReaders) {
  const std::uint64_t seed = seed_of_this_run();
  int found = 0, by_the_rest = 0;
  for (std::uint64_t round = 0; round < 60; ++round) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
    Random random(seed + round);
    Written written = write_file(random, draw(random, 1, 600000));
    const std::vector<Reader> readers = random_readers(random, std::ssize(written.oracle.bytes));
    const SummedRequests requests = random_requests(random);
    const Outcome whole = read_all_shares(written, readers, requests, random);
    for (const Status& each : whole.read) ASSERT_TRUE(each) << each.error().text();
    ASSERT_TRUE(whole.verified) << whole.verified.error().text();
    if (written.stored.empty()) continue;
    const Extent run = written.stored[static_cast<std::size_t>(draw(random, 0, std::ssize(written.stored) - 1))];
    const Offset at = draw(random, run.offset, run.end() - 1);
    flip(written.file, at);
    const Outcome damaged = read_all_shares(written, readers, requests, random);
    bool is_found = false, is_wrong = false;
    const auto look = [&](const Status& each) {
      if (each) return;
      is_wrong = is_wrong || each.error().code == Code::kOther;
      if (each.error().code == Code::kOther) return;
      EXPECT_EQ(each.error().code, Code::kIo);
      EXPECT_NE(each.error().what.find("wrong checksum"), std::string::npos) << each.error().what;
      is_found = true;
    };
    for (const Status& each : damaged.read) look(each);
    look(damaged.verified);
    EXPECT_TRUE(is_found || !is_wrong) << at;
    found += is_found;
    by_the_rest += is_found && is_wrong;
  }
  EXPECT_GT(found, 30);
  EXPECT_GT(by_the_rest, 0) << "who has read what is wrong leaves that to another";
}

// 2 MiB of blocks that take turns, read in other turns by as many ranks.
struct Turns {
  static constexpr int kRanks = 4;
  static constexpr Bytes kBlock = 3000, kPiece = 4096, kPieces = 128, kSize = kRanks * kPieces * kPiece;

  Turns() {
    Random random(1);
    EXPECT_TRUE(IntervalFile::format(*open_memory(file)));
    all = random_data(random, kSize);
    run_threads(kRanks, {}, [&](Group& group) {
      auto opened = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(opened);
      std::vector<Extent> extents;
      Data mine;
      for (Offset at = group.rank() * kBlock; at < kSize; at += kRanks * kBlock) {
        extents.push_back({at, std::min(kBlock, kSize - at)});
        mine.insert(mine.end(), all.begin() + at, all.begin() + extents.back().end());
      }
      ASSERT_TRUE(write_list(**opened, extents, mine));
      ASSERT_TRUE((*opened)->commit());
      if (group.rank() > 0) return;
      const auto& parts = (*opened)->root().parts;
      stored = parts[1].runs[0];
      const Extent first = parts[0].runs[0];
      first_block = std::min(first.length, ReadSums::kBlock - first.offset % ReadSums::kBlock);
    });
  }

  // Every fourth piece each.
  static std::vector<Extent> in_turns(int rank) {
    std::vector<Extent> wanted;
    for (Bytes i = 0; i < kPieces; ++i) wanted.push_back({(i * kRanks + rank) * kPiece, kPiece});
    return wanted;
  }
  // Half of the next quarter, and half of the one behind it: nobody meets the cells of its own.
  static std::vector<Extent> elsewhere(int rank) {
    std::vector<Extent> wanted;
    for (Bytes i = 0; i < kRanks * kPieces; ++i) {
      const auto quarter = static_cast<int>(i / kPieces);
      if (quarter == (rank + 1 + static_cast<int>(i % 2)) % kRanks) wanted.push_back({i * kPiece, kPiece});
    }
    return wanted;
  }

  // Whether it succeeded, by all ranks alike, with the right bytes.
  Status read(const std::function<std::vector<Extent>(int)>& wanted_by = in_turns) const {
    Status result;
    run_threads(kRanks, {}, [&](Group& group) {
      const SummedRequests requests{.longest_read = 1 << 18, .least_mapped = 1 << 17};
      auto opened = IntervalFile::open(group, open_memory(file, {.read = true}), false, {}, requests);
      ASSERT_TRUE(opened);
      Data mine(kPieces * kPiece);
      CollectiveRequest request;
      const std::vector<Extent> wanted = wanted_by(group.rank());
      request.file = Pattern::extents(wanted);
      request.memory = {mine.data(), Pattern::run(0, kPieces * kPiece)};
      request.rules.force = "list";
      Times times;
      const auto outcome = run_collective(group, **opened, request, times);
      const Status own = outcome ? Status() : fail(outcome.error());
      const auto all_of_them = allgather(group, static_cast<int>(own.has_value()));
      ASSERT_TRUE(all_of_them);
      for (const int each : *all_of_them) EXPECT_EQ(each, static_cast<int>(own.has_value()));
      if (group.rank() == 0) result = own;
      if (!own) return;
      EXPECT_EQ(outcome->strategy, Strategy::kIndependent);
      for (Bytes i = 0; i < kPieces; ++i)
        ASSERT_TRUE(std::equal(mine.begin() + i * kPiece, mine.begin() + (i + 1) * kPiece,
                               all.begin() + wanted[static_cast<std::size_t>(i)].offset))
            << i;
    });
    return result;
  }

  std::shared_ptr<MemoryFile> file = make_memory_file();
  Data all;
  Extent stored;          // rank 1's bytes
  Bytes first_block = 0;  // bytes of the block that has the first byte
};

TEST(SharedRead, ACollectiveReadIsOneAndFailsAlikeOnAllRanks) {
  const Turns turns;
  ASSERT_TRUE(turns.read());
  Random random(2);
  for (int i = 0; i < 20; ++i) {
    const Offset at = draw(random, turns.stored.offset, turns.stored.end() - 1);
    flip(turns.file, at);
    for (const auto& wanted_by : {Turns::in_turns, Turns::elsewhere}) {
      const Status read = turns.read(wanted_by);
      ASSERT_FALSE(read) << at;
      EXPECT_EQ(read.error().code, Code::kIo);
    }
    flip(turns.file, at);
  }
  EXPECT_TRUE(turns.read());
  EXPECT_TRUE(turns.read(Turns::elsewhere));
}

// Who reads what it has written finds whole cells, which it verifies while they are in the caches.
TEST(SharedRead, WhoWantsWholeCellsLeavesNothingToOthers) {
  const Turns turns;
  for (const Bytes block : {Turns::kBlock, Turns::kPiece}) {
    run_threads(1, {}, [&](Group& group) {
      const SummedRequests requests{.least_mapped = 1 << 17};
      auto file = IntervalFile::open(group, open_memory(turns.file, {.read = true}), false, {}, requests);
      ASSERT_TRUE(file);
      std::vector<Extent> wanted;
      for (Offset at = 0; at < Turns::kSize; at += Turns::kRanks * block)
        wanted.push_back({at, std::min(block, Turns::kSize - at)});
      auto shared = (*file)->share_read();
      ASSERT_TRUE(shared);
      Data got(static_cast<std::size_t>(std::ssize(wanted) * block));
      const Span span{got.data(), std::accumulate(wanted.begin(), wanted.end(), Bytes{0},
                                                  [](Bytes sum, const Extent& e) { return sum + e.length; })};
      ASSERT_TRUE((*shared)->readv(wanted, {&span, 1}));
      EXPECT_EQ((*shared)->leaves_some(), block != Turns::kBlock);
    });
  }
}

TEST(SharedRead, WhatItMeetsIsToldBeforehand) {
  const Turns turns;
  run_threads(1, {}, [&](Group& group) {
    auto file = IntervalFile::open(group, open_memory(turns.file, {.read = true}), false);
    ASSERT_TRUE(file);
    const auto look_up = [&](std::vector<Extent> extents) { return (*file)->look_up(extents).value(); };
    constexpr Bytes kTurn = Turns::kRanks * Turns::kBlock;
    const StoredAs block = look_up({{kTurn, 1000}, {kTurn + 1000, Turns::kBlock - 1000}});
    EXPECT_EQ(block.pieces, 1);  // the second of rank 0, within its first cell
    EXPECT_EQ(block.touched, Turns::kBlock);
    const StoredAs two = look_up({{Turns::kBlock - 10, 20}});
    EXPECT_EQ(two.pieces, 2);
    EXPECT_EQ(two.touched, 20) << "of two processes";
    const StoredAs others_between = look_up({{0, 100}, {kTurn, 100}});
    EXPECT_EQ(others_between.pieces, 2);
    EXPECT_EQ(others_between.touched, Turns::kBlock + 100);
    EXPECT_EQ(look_up({{0, 100}, {25 * kTurn, 100}}).touched, 200) << "too far away to be mapped with it";
    const StoredAs dense = look_up({{0, 8 * kTurn}});
    EXPECT_EQ(dense.touched, 8 * kTurn) << "no more than is wanted";
    std::vector<Extent> every_fourth;
    for (Offset at = 0; at < Turns::kSize; at += 4 * Turns::kPiece) every_fourth.push_back({at, Turns::kPiece});
    const StoredAs turn = look_up(every_fourth);
    EXPECT_GT(turn.pieces, 2 * Turns::kPieces);
    EXPECT_LT(turn.pieces, 3 * Turns::kPieces);
    EXPECT_NEAR(static_cast<double>(turn.touched), Turns::kSize, 0.1 * Turns::kSize) << "nearly all cells";
    EXPECT_EQ(look_up({{Turns::kSize - 5, 100}, {2 * Turns::kSize, 100}}).pieces, 1) << "there is no more";
  });
}

class CountingStorage final : public ForwardingStorage {
 public:
  CountingStorage(std::unique_ptr<Storage> storage, Bytes& read)
      : ForwardingStorage(*storage), storage_(std::move(storage)), read_(read) {}
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    for (const Extent& each : extents) read_ += each.length;
    return ForwardingStorage::readv(extents, memory);
  }

 private:
  const std::unique_ptr<Storage> storage_;
  Bytes& read_;
};

// What all have read together is not read again; blocks of which a byte was left out, or read twice, are.
TEST(SharedRead, TheSumsOfAllBytesOfABlockAreItsOwn) {
  const Turns turns;
  enum Change { kNone, kLeftOut, kTwice };
  for (const double calls_a_page : {0.0, 1e9})
    for (const Change change : {kNone, kLeftOut, kTwice}) {
      run_threads(1, {}, [&](Group& group) {
        constexpr int kReaders = 3;
        Bytes read = 0;
        std::vector<std::unique_ptr<IntervalFile>> files;
        std::vector<std::unique_ptr<SharedRead>> shares;
        for (int i = 0; i < kReaders; ++i) {
          auto storage = std::make_unique<CountingStorage>(open_memory(turns.file, {.read = true}), read);
          auto file = IntervalFile::open(group, std::move(storage), false, {},
                                         {.least_mapped = 1, .calls_a_page = calls_a_page});
          ASSERT_TRUE(file);
          files.push_back(std::move(*file));
          auto shared = files.back()->share_read();
          ASSERT_TRUE(shared);
          shares.push_back(std::move(*shared));
        }
        constexpr Bytes kPiece = 1000;
        Data piece(kPiece);
        for (Offset at = 0; at < Turns::kSize; at += kPiece) {
          Extent wanted{at, std::min(kPiece, Turns::kSize - at)};
          if (change == kLeftOut && at == 0) wanted = {1, kPiece - 1};
          const auto reader = static_cast<std::size_t>(at / kPiece % kReaders);
          ASSERT_TRUE(shares[reader]->read(wanted, piece.data()));
          if (change == kTwice && at == 0) {
            ASSERT_TRUE(shares[2]->read({0, 1}, piece.data()));
          }
        }
        const Bytes before = read;
        for (int to = 0; to < kReaders; ++to) {
          std::vector<Data> told;
          for (const auto& from : shares) {
            EXPECT_TRUE(from->leaves_some());
            told.push_back(from->sums(kReaders)[static_cast<std::size_t>(to)]);
            EXPECT_FALSE(told.back().empty()) << "each puts together some";
          }
          ASSERT_TRUE(shares[static_cast<std::size_t>(to)]->verify(told));
        }
        EXPECT_EQ(read - before, change == kNone ? 0 : turns.first_block);
      });
    }
}

// Zeros read twice look like others that nobody has read.
TEST(SharedRead, BytesReadTwiceDoNotStandForOthers) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    constexpr int kCells = 8;
    auto writer = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(writer);
    Data zeros(kCells * kCell);
    ASSERT_TRUE(write_list(**writer, std::vector<Extent>{{0, kCells * kCell}}, zeros));
    ASSERT_TRUE((*writer)->commit());
    const Offset stored = (*writer)->root().parts[0].runs[0].offset;
    const auto read_halves_twice = [&]() -> Status {
      std::vector<Data> told;
      auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
      std::unique_ptr<SharedRead> last;
      for (int i = 0; i < 2; ++i) {
        last.reset();
        last = *(*reader)->share_read();
        Data half(kCell / 2);
        for (Offset at = 0; at < kCells * kCell; at += kCell) RETURN_IF_ERROR(last->read({at, kCell / 2}, half.data()));
        told.push_back(last->sums(1)[0]);
      }
      return last->verify(told);
    };
    EXPECT_TRUE(read_halves_twice());
    for (const Offset at : {Offset{0}, kCell / 2 - 1, 3 * kCell + 100}) {
      flip(file, stored + at);
      EXPECT_FALSE(read_halves_twice()) << at;
      flip(file, stored + at);
    }
  });
}

class FlippingStorage final : public ForwardingStorage {
 public:
  FlippingStorage(std::unique_ptr<Storage> storage, const bool& flips)
      : ForwardingStorage(*storage), storage_(std::move(storage)), flips_(flips) {}
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    auto moved = ForwardingStorage::readv(extents, memory);
    if (flips_) memory[0].data[0] ^= std::byte{1};
    return moved;
  }

 private:
  const std::unique_ptr<Storage> storage_;
  const bool& flips_;
};

// The storage has it right: whoever reads the cell again finds nothing.
TEST(SharedRead, WhatWentWrongOnItsWayIsFound) {
  const Turns turns;
  for (const bool flips : {false, true}) {
    run_threads(1, {}, [&](Group& group) {
      bool now = false;
      auto storage = std::make_unique<FlippingStorage>(open_memory(turns.file, {.read = true}), now);
      auto file = IntervalFile::open(group, std::move(storage), false, {}, {.calls_a_page = 1e9});
      ASSERT_TRUE(file);
      std::vector<Data> told;
      std::unique_ptr<SharedRead> last;
      for (int i = 0; i < 2; ++i) {
        last.reset();
        last = *(*file)->share_read();
        Data piece(2000);
        for (Offset at = i * 2000; at < 20 * kCell; at += 4000) {
          now = flips && at == 4000;
          ASSERT_TRUE(last->read({at, 2000}, piece.data()));
        }
        now = false;
        told.push_back(last->sums(1)[0]);
      }
      const Status verified = last->verify(told);
      EXPECT_EQ(verified.has_value(), !flips);
      EXPECT_TRUE(verified || verified.error().code == Code::kIo);
    });
  }
}

// Of a block one has verified two cells, and two others have halves of the rest: that is all. Where one of these has a byte of a cell
// that is verified too, the rest is unknown.
TEST(SharedRead, ABlockMayBeVerifiedInPartsByMany) {
  Random random(5);
  for (const Bytes before : {Bytes{0}, Bytes{100}, kCell + 1}) {  // where the run begins in its block
    const Extent run{3 * ReadSums::kBlock + before, 2 * ReadSums::kBlock};
    const Data data = random_data(random, run.length);
    std::vector<std::uint32_t> sums;
    const auto bytes_at = [&](Extent stored) {
      return std::span(data).subspan(static_cast<std::size_t>(stored.offset - run.offset),
                                     static_cast<std::size_t>(stored.length));
    };
    std::vector<Extent> cells;
    for (Offset at = run.offset; at < run.end(); at = cells.back().end()) {
      cells.push_back(cell_at(run, at));
      sums.push_back(crc32c(bytes_at(cells.back())));
    }
    enum Change { kNone, kWrongByte, kVerifiedToo };
    for (const Change change : {kNone, kWrongByte, kVerifiedToo}) {
      ReadSums whole;
      std::array<ReadSums, 2> halves;
      std::uint32_t wrong = change == kWrongByte;
      for (const Extent& cell : cells) {
        if (cell.offset / kCell % ReadSums::kCells < 2) {
          whole.meet_block(run, sums, cell.offset);
          whole.add_verified(cell);
          if (change != kVerifiedToo) continue;
        }
        const Bytes middle = cell.length / 3;
        for (const Extent part : {Extent{cell.offset, middle}, Extent{cell.offset + middle, cell.length - middle}}) {
          ReadSums& own = halves[part.offset > cell.offset];
          const Extent block = own.meet_block(run, sums, cell.offset);
          const std::uint32_t sum = crc32c_of_part(bytes_at(part), block.end() - part.end());
          own.add(part, sum ^ std::exchange(wrong, 0));
        }
      }
      std::vector<Data> told;
      for (const ReadSums* each : {&whole, &halves[0], &halves[1]}) told.push_back(each->by_rank(1)[0]);
      const ReadSums::Found found = ReadSums::put_together(told);
      SCOPED_TRACE(std::to_string(before) + " " + std::to_string(change));
      EXPECT_EQ(found.wrong.size(), change == kWrongByte ? 1U : 0U);
      EXPECT_EQ(found.unknown.empty(), change != kVerifiedToo);
      for (const ReadSums::Cell& each : found.unknown) {
        EXPECT_GE(each.stored.offset / kCell % ReadSums::kCells, 2);
        EXPECT_EQ(each.sum, crc32c(bytes_at(each.stored)));
      }
    }
  }
}

// One has found it whole, and another, who has a part of it, says so too.
TEST(SharedRead, WhatOneHasVerifiedIsNotReadAgain) {
  const Turns turns;
  run_threads(1, {}, [&](Group& group) {
    Bytes read = 0;
    std::vector<std::unique_ptr<IntervalFile>> files;
    std::vector<Data> told;
    std::unique_ptr<SharedRead> last;
    for (const Bytes length : {Turns::kSize, Bytes{10}}) {
      auto storage = std::make_unique<CountingStorage>(open_memory(turns.file, {.read = true}), read);
      auto file = IntervalFile::open(group, std::move(storage), false, {}, {.least_mapped = 1});
      ASSERT_TRUE(file);
      files.push_back(std::move(*file));
      auto shared = files.back()->share_read();
      ASSERT_TRUE(shared);
      Data data(static_cast<std::size_t>(length));
      ASSERT_TRUE((*shared)->read({0, length}, data.data()));
      told.push_back((*shared)->sums(1)[0]);
      EXPECT_EQ((*shared)->leaves_some(), length == 10);
      last = std::move(*shared);
    }
    const Bytes before = read;
    ASSERT_TRUE(last->verify(told));
    EXPECT_EQ(read, before);
    ASSERT_TRUE(last->verify({told.data() + 1, 1}));
    EXPECT_EQ(read - before, kCell);
    flip(turns.file, files[0]->root().parts[0].runs[0].offset + 5000);
    EXPECT_FALSE(last->verify({told.data() + 1, 1}));
  });
}

// ---- In the order in which it is stored

// What each of the readers has found and taken, block by block; whether all blocks that it needs are right.
bool read_blocks_of(Storage& storage, const Reader& reader, const Oracle& oracle) {
  const auto stored = storage.read_stored();
  EXPECT_TRUE(stored) << stored.error().text();
  Data wanted, block(static_cast<std::size_t>(StoredRead::kBlock));
  Bytes bytes = 0;
  for (const Extent& each : reader.wanted) {
    const Data piece = oracle.read(each);
    wanted.insert(wanted.end(), piece.begin(), piece.end());
    bytes += each.length;
  }
  Data got(static_cast<std::size_t>(bytes), std::byte{0x55});
  const Span span{got.data(), bytes};
  std::vector<StoredPiece> pieces;
  const auto found = (*stored)->find(reader.wanted, {&span, 1}, pieces);
  EXPECT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->bytes, std::ssize(wanted));
  EXPECT_EQ(found->eof, std::ssize(wanted) < bytes);
  bool right = true;
  Offset behind = 0;
  std::int64_t there = -1;
  for (const StoredPiece& piece : pieces) {
    const std::int64_t number = piece.stored / StoredRead::kBlock;
    EXPECT_LE(behind, piece.stored);
    EXPECT_EQ((piece.end() - 1) / StoredRead::kBlock, number);
    EXPECT_LT(number, (*stored)->blocks());
    behind = piece.stored;
    if (there != number) right = (*stored)->fetch(number, block.data()) && right;
    there = number;
    std::copy_n(block.begin() + piece.stored % StoredRead::kBlock, piece.length, piece.data);
  }
  got.resize(wanted.size());
  if (right) {
    EXPECT_TRUE(got == wanted);
  }
  return right;
}

TEST(StoredRead, BlocksHaveWhatWasWrittenAndDamageIsFound) {
  const std::uint64_t seed = seed_of_this_run();
  int found = 0;
  for (std::uint64_t round = 0; round < 40; ++round) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
    Random random(seed + round);
    Written written = write_file(random, draw(random, 1, 1200000));
    const std::vector<Reader> readers = random_readers(random, std::ssize(written.oracle.bytes));
    run_threads(1, {}, [&](Group& group) {
      auto file = IntervalFile::open(group, open_memory(written.file, {.read = true}), false);
      ASSERT_TRUE(file);
      for (const Reader& reader : readers) EXPECT_TRUE(read_blocks_of(**file, reader, written.oracle));
      if (written.stored.empty()) return;
      const Extent run = written.stored[static_cast<std::size_t>(draw(random, 0, std::ssize(written.stored) - 1))];
      flip(written.file, draw(random, run.offset, run.end() - 1));
      for (const Reader& reader : readers) found += !read_blocks_of(**file, reader, written.oracle);
    });
  }
  EXPECT_GT(found, 20);
}

// Any readers, of any windows, over holes and beyond the end.
TEST(StoredRead, RandomReadersReadTogether) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < 30; ++round) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
    Random random(seed + round);
    const Written written = write_file(random, draw(random, 1, 1200000));
    const std::vector<Reader> readers = random_readers(random, std::ssize(written.oracle.bytes));
    CollectivePlan plan;
    plan.in_stored_order = {0, std::ssize(written.oracle.bytes) + 30000};
    plan.stored_window = draw(random, 200000, 1500000);
    plan.stored_blocks = static_cast<int>(draw(random, 1, 40));
    run_threads(static_cast<int>(readers.size()), {}, [&](Group& group) {
      const std::vector<Extent>& wanted = readers[static_cast<std::size_t>(group.rank())].wanted;
      auto file = IntervalFile::open(group, open_memory(written.file, {.read = true}), false);
      ASSERT_TRUE(file);
      Data expected;
      for (const Extent& each : wanted) {
        const Data piece = written.oracle.read(each);
        expected.insert(expected.end(), piece.begin(), piece.end());
      }
      const Pattern pattern = wanted.empty() ? Pattern() : Pattern::extents(wanted);
      Data got(static_cast<std::size_t>(pattern.size()), std::byte{0x55});
      const auto shared = group.shared(shared_for_stored_order(plan, group.size()));
      ASSERT_TRUE(shared && shared->length > 0);
      Times times;
      const auto moved =
          in_stored_order(group, *shared, **file, plan, pattern, {got.data(), Pattern::run(0, pattern.size())}, times);
      ASSERT_TRUE(moved) << moved.error().text();
      EXPECT_EQ(moved->bytes, std::ssize(expected));
      EXPECT_EQ(moved->eof, std::ssize(expected) < pattern.size());
      got.resize(expected.size());
      EXPECT_TRUE(got == expected);
    });
  }
}

TEST(StoredRead, FindsNoMorePiecesThanCanBeKept) {
  constexpr Bytes kEach = 100000;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(3, {}, [&](Group& group) {
    auto writer = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(writer);
    std::vector<Extent> every_third;
    for (Bytes i = 0; i < kEach; ++i) every_third.push_back({3 * i + group.rank(), 1});
    Data ones(kEach, std::byte{1});
    ASSERT_TRUE(write_list(**writer, every_third, ones));
    ASSERT_TRUE((*writer)->commit());
    auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
    ASSERT_TRUE(reader);
    const auto stored = (*reader)->read_stored();
    ASSERT_TRUE(stored);
    Data data(3 * kEach);
    std::vector<StoredPiece> pieces;
    for (const bool half : {true, false}) {
      const Extent wanted{0, half ? kEach : 3 * kEach};
      const Span span{data.data(), wanted.length};
      const auto found = (*stored)->find({&wanted, 1}, {&span, 1}, pieces);
      EXPECT_EQ(found.has_value(), half);
      EXPECT_TRUE(half || found.error().code == Code::kNoMemory);
    }
  });
}

TEST(StoredRead, IsNotToBeHadOfAFileThatIsWritten) {
  const Turns turns;
  run_threads(1, {}, [&](Group& group) {
    auto file = IntervalFile::open(group, open_memory(turns.file), true);
    ASSERT_TRUE(file);
    const auto stored = (*file)->read_stored();
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().code, Code::kUnsupportedOperation);
  });
}

// Whether it succeeded, by all ranks alike; those that did have the right bytes.
Status read_turns_in_stored_order(const Turns& turns, const std::function<std::vector<Extent>(int)>& wanted_by,
                                  bool leaves_some = false) {
  Status result;
  run_threads(Turns::kRanks, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(turns.file, {.read = true}), false);
    ASSERT_TRUE(opened);
    const std::vector<Extent> wanted = wanted_by(group.rank());
    Data mine(static_cast<std::size_t>(std::ssize(wanted) * Turns::kPiece));
    CollectivePlan plan;
    plan.in_stored_order = {0, Turns::kSize};
    plan.stored_window = Turns::kSize;
    const auto shared = group.shared(shared_for_stored_order(plan, group.size()));
    ASSERT_TRUE(shared && shared->length > 0);
    Times times;
    const auto moved = in_stored_order(group, *shared, **opened, plan, Pattern::extents(wanted),
                                       {mine.data(), Pattern::run(0, std::ssize(mine))}, times);
    const auto all_of_them = allgather(group, moved ? static_cast<int>(moved->requests) : -1);
    ASSERT_TRUE(all_of_them);
    for (const int each : *all_of_them) EXPECT_EQ(each >= 0, moved.has_value());
    if (group.rank() == 0) result = moved ? Status() : fail(moved.error());
    constexpr Bytes kBlocks = Turns::kSize / StoredRead::kBlock + 2;
    if (moved && !leaves_some) {
      EXPECT_LE(std::accumulate(all_of_them->begin(), all_of_them->end(), 0), kBlocks) << "each block once";
    }
    for (std::size_t i = 0; moved && i < wanted.size(); ++i)
      ASSERT_TRUE(std::equal(mine.begin() + static_cast<Offset>(i) * Turns::kPiece,
                             mine.begin() + static_cast<Offset>(i + 1) * Turns::kPiece,
                             turns.all.begin() + wanted[i].offset))
          << i;
  });
  return result;
}

// Damage fails a read of all ranks, if anybody wants some of a damaged cell; what nobody wants fails nobody.
TEST(StoredRead, ACollectiveReadFailsWhereAnybodyWantsWhatIsDamaged) {
  const Turns turns;
  const auto first_half = [](int rank) {
    std::vector<Extent> wanted = Turns::in_turns(rank);
    wanted.resize(wanted.size() / 2);
    return wanted;
  };
  ASSERT_TRUE(read_turns_in_stored_order(turns, Turns::in_turns));
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    // Rank 1's bytes lie in the order of the file: the last third is of the second half.
    const Offset at = draw(random, turns.stored.offset, turns.stored.end() - 1);
    flip(turns.file, at);
    for (const auto& wanted_by : {Turns::in_turns, Turns::elsewhere}) {
      const Status read = read_turns_in_stored_order(turns, wanted_by);
      ASSERT_FALSE(read) << at;
      EXPECT_EQ(read.error().code, Code::kIo);
      EXPECT_NE(read.error().what.find("wrong checksum"), std::string::npos) << read.error().what;
    }
    if (at > turns.stored.offset + turns.stored.length * 2 / 3) {
      EXPECT_TRUE(read_turns_in_stored_order(turns, first_half, true)) << at;
    }
    flip(turns.file, at);
  }
  EXPECT_TRUE(read_turns_in_stored_order(turns, Turns::elsewhere));
}

}  // namespace
}  // namespace stridio
