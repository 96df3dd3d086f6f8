// Random programs of several ranks, over several epochs and openings, against a byte array; and what a file promises.
#include "interval/interval_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>

#include "access/execute.h"
#include "base/copy_bytes.h"
#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/forwarding.h"
#include "storage/memory.h"
#include "storage/request.h"
#include "storage/wrap/fault.h"
#include "support/sanitized.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

constexpr Offset kReach = 200000;
constexpr std::uint64_t kRounds = testing::rounds(60, 8);
constexpr Bytes kRewritten = testing::kThreadSanitized ? 1 << 20 : 8 << 20;

// What all ranks of a run share. Ranks write bytes of their own in an epoch, block by block.
struct World {
  std::shared_ptr<MemoryFile> file = make_memory_file();
  Oracle committed;
};

// Extents within the blocks that are the rank's in this epoch.
std::vector<Extent> own_extents(Random& random, Bytes block, int rank, int ranks) {
  std::vector<Extent> extents;
  const std::int64_t kind = draw(random, 0, 2), stride = block * ranks, most = kReach / stride;
  std::int64_t at = draw(random, 0, most);
  for (std::int64_t left = draw(random, 0, 60); left > 0 && at < most; --left) {
    const Offset begin = at * stride + rank * block;
    if (kind == 0) {
      extents.push_back({begin, block});
    } else {
      const Bytes into = draw(random, 0, block - 1);
      extents.push_back({begin + into, draw(random, 0, block - into)});
    }
    at += kind == 2 ? draw(random, 1, 5) : 1;
  }
  if (draw(random, 0, 2) == 0) std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

// Which bytes nobody else writes in this epoch: of others a rank may see some.
struct Mine {
  Bytes block = 0;  // 0: all
  int rank = 0, ranks = 1;
  bool has(Offset at) const { return block == 0 || at / block % ranks == rank; }
};

void check_bytes(const Data& got, const Data& wanted, Offset first, const Mine& mine) {
  ASSERT_GE(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (got[i] != wanted[i] && mine.has(first + static_cast<Offset>(i))) FAIL() << first << " + " << i;
}

// What a rank sees is the committed bytes below the lowest size set since, and its own over them.
void check_reads(Storage& file, const Oracle& expected, Random& random, const Mine& mine) {
  const auto size = file.size();
  ASSERT_TRUE(size);
  ASSERT_GE(*size, static_cast<Bytes>(expected.bytes.size()));
  ASSERT_TRUE(mine.block > 0 || *size == static_cast<Bytes>(expected.bytes.size()));
  for (int i = 0; i < 3; ++i) {
    const Extent extent{draw(random, 0, kReach), draw(random, 0, kReach / 2)};
    const auto read = read_extent(file, extent);
    ASSERT_TRUE(read) << read.error().text();
    check_bytes(*read, expected.read(extent), extent.offset, mine);
  }
  std::vector<Extent> list;  // overlapping, in any order
  Data wanted;
  for (std::int64_t i = draw(random, 0, 50); i > 0 && !expected.bytes.empty(); --i) {
    const Offset at = draw(random, 0, static_cast<std::int64_t>(expected.bytes.size()) - 1);
    list.push_back({at, draw(random, 0, std::min<Bytes>(300, static_cast<Bytes>(expected.bytes.size()) - at))});
    const Data bytes = expected.read(list.back());
    wanted.insert(wanted.end(), bytes.begin(), bytes.end());
  }
  Data got(wanted.size());
  const Span span{got.data(), static_cast<Bytes>(got.size())};
  const auto moved = file.readv(list, {&span, 1});
  ASSERT_TRUE(moved) << moved.error().text();
  auto from = got.begin(), like = wanted.begin();
  for (const Extent& extent : list) {
    check_bytes({from, from + extent.length}, {like, like + extent.length}, extent.offset, mine);
    from += extent.length;
    like += extent.length;
  }
}

void run_rank(Group& group, World& world, std::uint64_t seed) {
  Random common(seed), random(seed * 1000 + static_cast<std::uint64_t>(group.rank()));
  SummedRequests requests;
  if (draw(common, 1, 2) == 1) {
    requests.longest_read = draw(common, 1, 60000);
    requests.longest_written = draw(common, 1, 60000);
    requests.read = {.depth = static_cast<int>(draw(common, 1, 4)), .unit = draw(common, 1000, 40000)};
    requests.write = {.depth = static_cast<int>(draw(common, 1, 4)),
                      .unit = draw(common, 1000, 40000),
                      .extend_first = draw(common, 1, 2) == 1};
    requests.worth_extending = draw(common, 0, 100000);
    if (draw(common, 1, 2) == 1) requests.least_mapped = draw(common, 1, 60000);
  }
  auto opened = IntervalFile::open(group, open_memory(world.file), true, {}, requests);
  ASSERT_TRUE(opened) << opened.error().text();
  IntervalFile& file = **opened;
  const std::int64_t epochs = draw(common, 1, 6);
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Bytes block = draw(common, 1, 3) == 1 ? draw(common, 1, 50) : draw(common, 1000, 20000);
    Oracle seen = world.committed;
    std::vector<std::pair<std::vector<Extent>, Data>> writes;
    Bytes set_size = -1;
    const std::int64_t resize_at = draw(common, 0, 12), new_size = draw(common, 0, kReach);
    for (std::int64_t i = 0; i < 5; ++i) {
      if (i == resize_at) {  // by all ranks, after and before what each writes
        ASSERT_TRUE(group.barrier());
        ASSERT_TRUE(file.resize(new_size));
        seen.bytes.resize(static_cast<std::size_t>(new_size));
        for (auto& [extents, data] : writes) {  // what of them lies behind is cut off
          Data kept;
          std::size_t from = 0;
          for (Extent& extent : extents) {
            const Bytes length = std::min(extent.length, std::max<Bytes>(0, new_size - extent.offset));
            kept.insert(kept.end(), data.begin() + static_cast<std::ptrdiff_t>(from),
                        data.begin() + static_cast<std::ptrdiff_t>(from + static_cast<std::size_t>(length)));
            from += static_cast<std::size_t>(extent.length);
            extent.length = length;
          }
          data = kept;
        }
        set_size = new_size;
        ASSERT_TRUE(group.barrier());
      }
      const auto extents = own_extents(random, block, group.rank(), group.size());
      Bytes bytes = 0;
      for (const Extent& extent : extents) bytes += extent.length;
      Data data = random_data(random, bytes);
      if (draw(random, 0, 2) == 0) file.expect_write(draw(random, 0, 100000));
      const Status written = write_list(file, extents, data);
      ASSERT_TRUE(written) << written.error().text();
      seen.write(extents, data);
      writes.emplace_back(extents, data);
      if (draw(random, 0, 3) == 0) check_reads(file, seen, random, {block, group.rank(), group.size()});
      if (::testing::Test::HasFatalFailure()) return;
    }
    const Status committed = file.commit();
    ASSERT_TRUE(committed) << committed.error().text();
    for (int rank = 0; rank < group.size(); ++rank) {  // one after the other
      ASSERT_TRUE(group.barrier());
      if (rank != group.rank()) continue;
      if (rank == 0 && set_size >= 0) world.committed.bytes.resize(static_cast<std::size_t>(set_size));
      for (const auto& [extents, data] : writes) world.committed.write(extents, data);
    }
    ASSERT_TRUE(group.barrier());
    check_reads(file, world.committed, random, {});
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(group.barrier());
  }
}

TEST(IntervalFile, AgreesWithAByteArray) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    Random random(seed + round);
    World world;
    ASSERT_TRUE(IntervalFile::format(*open_memory(world.file)));
    for (std::int64_t opening = draw(random, 1, 3); opening > 0 && !HasFailure(); --opening) {
      const auto ranks = static_cast<int>(draw(random, 1, 7));
      const ThreadGroupOptions options{.ranks_per_node = static_cast<int>(draw(random, 0, 3))};
      const std::uint64_t run_seed = random();
      run_threads(ranks, options, [&](Group& group) { run_rank(group, world, run_seed); });
    }
    run_threads(1, {}, [&](Group& group) {
      auto reader = IntervalFile::open(group, open_memory(world.file, {.read = true}), false);
      ASSERT_TRUE(reader) << reader.error().text();
      const auto all = read_all(**reader);
      ASSERT_TRUE(all) << all.error().text();
      EXPECT_TRUE(*all == world.committed.bytes);
    });
  }
}

// Of bytes that several ranks write in one epoch, all are one rank's; the later epoch wins whatever its rank.
TEST(IntervalFile, TheLaterEpochWins) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(4, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    Data mine(10000, static_cast<std::byte>('a' + group.rank()));
    const std::vector<Extent> all{{0, 10000}};
    ASSERT_TRUE(write_list(**opened, all, mine));
    ASSERT_TRUE((*opened)->commit());
    const auto read = read_all(**opened);
    ASSERT_TRUE(read);
    EXPECT_TRUE(*read == Data(10000, read->front()));
    ASSERT_TRUE(group.barrier());
    for (int last = 0; last < group.size(); ++last) {
      Data epoch(5000, static_cast<std::byte>('A' + last));
      const std::vector<Extent> part{{2500, 5000}};
      const bool writes = group.rank() == last;
      ASSERT_TRUE(!writes || write_list(**opened, part, epoch));
      ASSERT_TRUE((*opened)->commit());
      const auto seen = read_extent(**opened, {2500, 5000});
      ASSERT_TRUE(seen);
      EXPECT_TRUE(*seen == epoch) << last;
      ASSERT_TRUE(group.barrier());
    }
  });
}

Result<Transferred> write_run(Storage& file, Extent extent, std::byte value) {
  Data data(static_cast<std::size_t>(extent.length), value);
  return file.write(extent, data.data());
}

// Calls `before` when it is first locked.
class InterruptedStorage final : public ForwardingStorage {
 public:
  InterruptedStorage(std::unique_ptr<Storage> storage, std::function<void()> before)
      : ForwardingStorage(*storage), storage_(std::move(storage)), before_(std::move(before)) {}
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    if (before_) std::exchange(before_, nullptr)();
    return ForwardingStorage::lock(range, mode);
  }

 private:
  const std::unique_ptr<Storage> storage_;
  std::function<void()> before_;
};

// The generation that a reader has found may be an older one before it is pinned.
TEST(IntervalFile, WhoOpensWhileOthersCommitHasTheNewest) {
  for (const int depth : {1, 4}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(1, {}, [&](Group& group) {
      auto writer = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(writer);
      const auto commit = [&](char value) {
        ASSERT_TRUE(write_run(**writer, {0, 1000}, static_cast<std::byte>(value)));
        ASSERT_TRUE((*writer)->commit());
      };
      commit('a');
      auto storage = std::make_unique<InterruptedStorage>(open_memory(file, {.read = true}), [&] { commit('b'); });
      auto reader = IntervalFile::open(group, std::move(storage), false, {}, {.write = {.depth = depth}});
      ASSERT_TRUE(reader);
      EXPECT_EQ((*reader)->root().generation, (*writer)->root().generation);
      const auto seen = read_extent(**reader, {0, 1000});
      ASSERT_TRUE(seen);
      EXPECT_TRUE(*seen == Data(1000, std::byte{'b'}));
    });
  }
}

// One read of more pieces than are looked up at once: committed ones of two ranks, holes, and over them what is not committed.
TEST(IntervalFile, PiecesOfAByteAreReadAFewAtATime) {
  constexpr Bytes kSize = 1200000, kBare = 2000;  // the last bytes are nobody's
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  const auto in_turns = [](Offset first, Bytes stride) {
    std::vector<Extent> extents;
    for (Offset at = first; at < kSize - kBare; at += stride) extents.push_back({at, 1});
    return extents;
  };
  const auto value_at = [](Offset at) { return static_cast<std::byte>(at % 251 + 1); };
  Data expected(kSize);
  for (const Extent& each : in_turns(0, 3)) expected[static_cast<std::size_t>(each.offset)] = value_at(each.offset);
  for (const Extent& each : in_turns(1, 3)) expected[static_cast<std::size_t>(each.offset)] = value_at(each.offset);
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    const auto write_own = [&](const std::vector<Extent>& own, const auto& value) {
      Data data;
      for (const Extent& each : own) data.push_back(value(each.offset));
      return write_list(**opened, own, data);
    };
    ASSERT_TRUE(write_own(in_turns(group.rank(), 3), value_at));
    ASSERT_TRUE((*opened)->resize(kSize));
    ASSERT_TRUE((*opened)->commit());
    const auto committed = read_extent(**opened, {0, kSize});
    ASSERT_TRUE(committed);
    EXPECT_TRUE(*committed == expected);
    const std::vector<Extent> over = in_turns(group.rank(), 5);
    ASSERT_TRUE(write_own(over, [](Offset) { return std::byte{0}; }));
    Data mine = expected;
    for (const Extent& each : over) mine[static_cast<std::size_t>(each.offset)] = std::byte{0};
    const auto seen = read_extent(**opened, {0, kSize});
    ASSERT_TRUE(seen);
    EXPECT_TRUE(*seen == mine);
    ASSERT_TRUE(group.barrier());
  });
}

// Cells that lie apart are one mapping, unless they are few in it.
TEST(IntervalFile, AMappingHasGaps) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  constexpr std::int64_t kCells = 200;
  Data data = random_data(random, kCells * kCell);
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    auto writer = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(writer);
    const std::vector<Extent> all{{0, kCells * kCell}};
    ASSERT_TRUE(write_list(**writer, all, data));
    ASSERT_TRUE((*writer)->commit());
    auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false, {}, {.least_mapped = 1});
    ASSERT_TRUE(reader);
    const auto requests_for = [&](std::int64_t apart) {
      std::vector<Extent> wanted;
      Data expected;
      for (std::int64_t cell = 0; cell < kCells; cell += apart) {
        wanted.push_back({cell * kCell, kCell});
        expected.insert(expected.end(), data.begin() + cell * kCell, data.begin() + (cell + 1) * kCell);
      }
      Data seen(expected.size());
      const Span span{seen.data(), std::ssize(seen)};
      const auto moved = (*reader)->readv(wanted, {&span, 1});
      EXPECT_TRUE(moved && seen == expected);
      return moved ? moved->requests : -1;
    };
    EXPECT_EQ(requests_for(1), 1);
    EXPECT_EQ(requests_for(16), 1);
    EXPECT_GT(requests_for(50), 1);
  });
}

// Reads past the caches, of pieces of two ranks of any length: of all by each rank, from mappings and by requests, and in turns
// together.
TEST(IntervalFile, MuchIsReadAtOnce) {
  constexpr Bytes kSize = Bytes{17} << 20, kLongest = 9000, kTurn = 4096;
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  std::vector<Extent> written[2], turns[2];
  for (Offset at = 0; at < kSize;)
    for (std::vector<Extent>& own : written) {
      own.push_back({at, std::min(kSize - at, draw(random, 1, kLongest))});
      at = own.back().end();
    }
  for (Offset at = 0; at < kSize; at += kTurn) turns[at / kTurn % 2].push_back({at, kTurn});
  ASSERT_GE(static_cast<std::size_t>(size_of(turns[1])), Streaming::kLeast);
  Data data[2] = {random_data(random, size_of(written[0])), random_data(random, size_of(written[1]))};
  Oracle expected;
  for (int rank = 0; rank < 2; ++rank) expected.write(written[rank], data[rank]);
  for (const Bytes least_mapped : {Bytes{1}, SummedRequests::kNever}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(2, {}, [&](Group& group) {
      auto writer = IntervalFile::open(group, open_memory(file), true);
      ASSERT_TRUE(writer);
      ASSERT_TRUE(write_list(**writer, written[group.rank()], data[group.rank()]));
      ASSERT_TRUE((*writer)->commit());
      auto reader =
          IntervalFile::open(group, open_memory(file, {.read = true}), false, {}, {.least_mapped = least_mapped});
      ASSERT_TRUE(reader);
      const auto seen = read_extent(**reader, {0, kSize});
      ASSERT_TRUE(seen);
      EXPECT_TRUE(*seen == expected.bytes);
      Data mine(static_cast<std::size_t>(kSize / 2));
      const Span span{mine.data(), std::ssize(mine)};
      auto shared = (*reader)->share_read();
      ASSERT_TRUE(shared);
      ASSERT_TRUE((*shared)->readv(turns[group.rank()], {&span, 1}));
      EXPECT_TRUE(mine == expected.read_list(turns[group.rank()]));
      EXPECT_TRUE((*shared)->leaves_some() || least_mapped > 1) << "who maps sums what it wants";
      ASSERT_TRUE(group.barrier());
    });
  }
}

// Columns of one file, by windows that have a part of each.
struct Columns {
  Bytes part;
  std::int64_t windows, columns;

  Bytes length() const { return part * windows; }
  Bytes window() const { return part * columns; }

  Oracle write(Random& random, Storage& storage) const {
    Oracle oracle;
    for (std::int64_t window = 0; window < windows; ++window) {
      std::vector<Extent> parts;
      for (std::int64_t column = 0; column < columns; ++column)
        parts.push_back({column * length() + window * part, part});
      Data data = random_data(random, this->window());
      EXPECT_TRUE(write_list(storage, parts, data));
      oracle.write(parts, data);
    }
    return oracle;
  }
};

// How it is read: mappings, and bytes that calls put where they belong.
struct Ways {
  int maps = 0;
  std::span<const std::byte> user = {};
  Bytes in_place = 0;
};

class Watched final : public Wrapped {
 public:
  Watched(std::unique_ptr<Storage> inner, Ways& ways) : Wrapped(std::move(inner)), ways_(ways) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    for (const Span& span : memory)
      if (span.data >= ways_.user.data() && span.data < ways_.user.data() + ways_.user.size())
        ways_.in_place += span.length;
    return Wrapped::readv(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    ++ways_.maps;
    return Wrapped::map(range, writes, body);
  }

 private:
  Ways& ways_;
};

// Of some columns so much is read that it is streamed: near, short runs of cells come by calls to a buffer, longer ones, and those of
// which two thirds are wanted, are mapped; from far they go where they belong. Everywhere a wrong byte is found.
TEST(IntervalFile, ShortRunsOfCellsAreReadByCallsWhereBytesAreStreamed) {
  constexpr Columns kColumns{.part = 2 * kCell, .windows = 64, .columns = 8};
  const std::vector<Extent> few{{0, 3 * kColumns.length()}}, more{{0, 4 * kColumns.length()}};
  std::vector<Extent> thirds;
  for (Offset at = 0; at < few.front().length; at += kCell) thirds.push_back({at, kCell / 3 * 2 + 512});
  const bool streams = Streaming(Streaming::kLeast).stores() != Stores::kCached;
  const SummedRequests near{.longest_read = 1 << 18, .least_mapped = 1, .least_mapped_run = 4 * kColumns.part};
  for (const SummedRequests& requests : {near, SummedRequests{.waits = true}}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(1, {}, [&](Group& group) {
      Ways ways;
      auto opened = IntervalFile::open(group, std::make_unique<Watched>(open_memory(file), ways), true, {}, requests);
      ASSERT_TRUE(opened);
      Random random(seed_of_this_run());
      const Oracle oracle = kColumns.write(random, **opened);
      const auto early = read_extent(**opened, few.front());
      ASSERT_TRUE(early);
      EXPECT_TRUE(*early == oracle.read(few.front())) << "what is not summed yet";
      ASSERT_TRUE((*opened)->commit());
      for (const auto& wanted : {few, more, thirds}) {
        Data seen(static_cast<std::size_t>(size_of(wanted)));
        ASSERT_GE(seen.size(), Streaming::kLeast);
        ways = {.user = seen};
        const Span span{seen.data(), std::ssize(seen)};
        ASSERT_TRUE((*opened)->readv(wanted, {&span, 1}));
        EXPECT_TRUE(seen == oracle.read_list(wanted));
        EXPECT_EQ(ways.maps == 0, requests.waits || (streams && wanted == few));
        EXPECT_EQ(ways.in_place, requests.waits ? span.length : 0);
      }
      flip(file, (*opened)->root().parts.front().runs.front().offset + kColumns.window() + 1000);
      for (const auto& wanted : {few, more}) {
        const auto damaged = read_extent(**opened, wanted.front());
        ASSERT_FALSE(damaged);
        EXPECT_NE(damaged.error().text().find("is damaged"), std::string::npos) << damaged.error().text();
      }
    });
  }
}

// Ranks that write in turns, and one that has more to come: its bytes are one run, and where writes overlap within the file only
// it is lengthened for them.
TEST(IntervalFile, WhatIsExpectedIsStoredTogether) {
  constexpr Bytes kPiece = 100000, kUnit = 5000;
  for (const bool extend_first : {false, true}) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    run_threads(2, {}, [&](Group& group) {
      const SummedRequests requests{.write = {.depth = 4, .unit = kUnit, .extend_first = extend_first},
                                    .worth_extending = 3 * kPiece};
      auto opened = IntervalFile::open(group, open_memory(file), true, {}, requests);
      ASSERT_TRUE(opened);
      if (group.rank() == 0) (*opened)->expect_write(3 * kPiece);
      for (Offset at = 0; at < 3 * kPiece; at += kPiece) {
        ASSERT_TRUE(group.barrier());
        if (group.rank() == 0) {
          const auto moved = write_run(**opened, {at, kPiece}, std::byte{7});
          ASSERT_TRUE(moved);
          EXPECT_GE(moved->requests, kPiece / kUnit);
          EXPECT_TRUE(at > 0 || (*open_memory(file)->size() > 3 * kPiece) == extend_first);
        }
        ASSERT_TRUE(group.barrier());
        if (group.rank() == 1) {
          const auto moved = write_run(**opened, {10 * kPiece + at, kPiece}, std::byte{9});
          ASSERT_TRUE(moved);
          if (extend_first)
            EXPECT_LE(moved->requests, 2) << "cut, though requests wait for each other";
          else
            EXPECT_GE(moved->requests, kPiece / kUnit);
        }
      }
      ASSERT_TRUE((*opened)->commit());
      for (const PartEntry& part : (*opened)->root().parts)
        EXPECT_TRUE(part.process > 0 || part.runs.size() == 1) << part.runs.size();
      const auto seen = read_extent(**opened, {0, 3 * kPiece});
      ASSERT_TRUE(seen);
      EXPECT_TRUE(*seen == Data(3 * kPiece, std::byte{7}));
    });
  }
}

// How many reads are under way at one time.
class Counted : public Wrapped {
 public:
  Counted(std::unique_ptr<Storage> inner, std::atomic<int>& most) : Wrapped(std::move(inner)), most_(most) {}
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    const int now = ++reading_;
    for (int seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto moved = Wrapped::readv(extents, memory);
    --reading_;
    return moved;
  }

 private:
  std::atomic<int>& most_;
  std::atomic<int> reading_ = 0;
};

// Written by windows of all columns, read by columns: of far storage what lies together in a window is one request.
TEST(IntervalFile, FarReadsGatherWhatLiesTogether) {
  constexpr Columns kColumns{.part = 5000, .windows = 8, .columns = 12};
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    std::atomic<int> most = 0;
    auto opened =
        IntervalFile::open(group, std::make_unique<Counted>(open_memory(file), most), true, {}, {.read = {.depth = 4}});
    ASSERT_TRUE(opened);
    Random random(1);
    const Oracle oracle = kColumns.write(random, **opened);
    ASSERT_TRUE((*opened)->commit());
    const Extent half{0, kColumns.columns / 2 * kColumns.length()};
    Data data(static_cast<std::size_t>(half.length));
    const auto moved = (*opened)->read(half, data.data());
    ASSERT_TRUE(moved);
    EXPECT_LE(moved->requests, kColumns.windows);
    EXPECT_GT(most, 1);
    EXPECT_LE(most, 4);
    EXPECT_TRUE(data == oracle.read(half));

    const Offset wrong =
        (*opened)->root().parts.front().runs.front().offset + kColumns.window();  // of the second window
    flip(file, wrong);
    const auto damaged = (*opened)->read(half, data.data());
    ASSERT_FALSE(damaged);
    EXPECT_NE(damaged.error().text().find("is damaged"), std::string::npos) << damaged.error().text();
    ASSERT_TRUE(open_memory(file)->resize(wrong));
    const auto cut = (*opened)->read(half, data.data());
    ASSERT_FALSE(cut);
    EXPECT_NE(cut.error().text().find("is truncated"), std::string::npos) << cut.error().text();
  });
}

// An access that goes by windows says how long it is.
TEST(IntervalFile, AccessesSayHowMuchIsToCome) {
  constexpr Bytes kSize = 300000;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    const SummedRequests requests{.write = {.depth = 4, .unit = 5000, .extend_first = true}, .worth_extending = kSize};
    auto opened = IntervalFile::open(group, open_memory(file), true, {}, requests);
    ASSERT_TRUE(opened);
    Data data(kSize, std::byte{7});
    Times times;
    const AccessPlan plan{.method = Method::kList, .staged = true, .window = 40000};
    const Memory memory{data.data(), Pattern::run(0, kSize)};
    const auto moved = execute(plan, **opened, Direction::kWrite, Pattern::run(0, kSize), memory, times);
    ASSERT_TRUE(moved);
    EXPECT_GE(moved->requests, kSize / 5000) << "the file was lengthened for no window alone";
  });
}

TEST(IntervalFile, OneProgramWritesAtATime) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {}, [&](Group& group) {
    auto first = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(first);
    const auto second = IntervalFile::open(group, open_memory(file), true);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kFileInUse);
    EXPECT_TRUE(IntervalFile::open(group, open_memory(file), false));
    ASSERT_TRUE(group.barrier());
    first->reset();
    ASSERT_TRUE(group.barrier());
    EXPECT_TRUE(IntervalFile::open(group, open_memory(file), true));
  });
}

// Two programs make one file at the same moment: the second is refused before it writes anything. A file that is none stays
// as it is, and nobody is locked out of it.
TEST(IntervalFile, TheSecondOfTwoCreatorsIsRefused) {
  const auto file = make_memory_file();
  const auto one = open_memory(file), other = open_memory(file);
  const auto begun = IntervalFile::begin_writing(*one);
  ASSERT_TRUE(begun);
  ASSERT_TRUE(begun->writing);
  const Data formatted = *read_all(*other);
  const auto second = IntervalFile::begin_writing(*other);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kFileInUse);
  EXPECT_TRUE(*read_all(*other) == formatted);

  const auto flat = make_memory_file();
  const auto first = open_memory(flat), next = open_memory(flat);
  Data bytes(100, std::byte{'f'});
  ASSERT_TRUE(first->write({0, std::ssize(bytes)}, bytes.data()));
  for (Storage* each : {first.get(), next.get()}) {
    const auto looked = IntervalFile::begin_writing(*each);
    ASSERT_TRUE(looked);
    EXPECT_EQ(looked->head.content(), Head::Content::kOther);
    EXPECT_FALSE(looked->writing);
  }
  EXPECT_TRUE(*read_all(*first) == bytes);
}

// ---- Threads

// What nobody changes is read while other bytes are written and committed, which moves it and gives its place to others.
TEST(IntervalFile, ThreadsReadWhileRanksCommit) {
  constexpr Bytes kKept = 100000, kAgain = 300000, kOwn = kKept + kAgain;
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    IntervalFile& stored = **opened;
    const Offset first = group.rank() * kOwn;
    Data all(kOwn, std::byte{'k'});
    ASSERT_TRUE(write_list(stored, std::vector<Extent>{{first, kOwn}}, all));
    ASSERT_TRUE(stored.commit());
    std::atomic<bool> done = false;
    const auto read = [&] {
      const Data kept(kKept, std::byte{'k'});
      while (!done) {
        const auto got = read_extent(stored, {first, kKept});
        ASSERT_TRUE(got) << got.error().text();
        ASSERT_TRUE(*got == kept);
        ASSERT_EQ(*stored.size(), 2 * kOwn);
      }
    };
    std::thread one(read), other(read);
    for (int epoch = 0; epoch < 40; ++epoch) {
      Data data(kAgain / 3, static_cast<std::byte>(epoch));
      for (Offset part = 0; part < 3; ++part)
        EXPECT_TRUE(write_list(stored, std::vector<Extent>{{first + kKept + part * kAgain / 3, kAgain / 3}}, data));
      EXPECT_TRUE(stored.commit());
    }
    done = true;
    one.join();
    other.join();
    ASSERT_TRUE(group.barrier());
  });
}

// A rank that commits late since it waits for what another's second thread writes.
TEST(IntervalFile, AccessesGoOnUntilAllRanksCommit) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  std::atomic<bool> written = false;
  run_threads(2, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    std::thread second;
    if (group.rank() == 0) {
      second = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        Data data(100, std::byte{'x'});
        EXPECT_TRUE(write_list(**opened, std::vector<Extent>{{0, 100}}, data));
        written = true;
      });
    } else {
      for (int i = 0; i < 1000 && !written; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(written);
    }
    EXPECT_TRUE((*opened)->commit());
    if (second.joinable()) second.join();
    ASSERT_TRUE(group.barrier());
  });
}

// ---- Space

Bytes stored_bytes(const std::shared_ptr<MemoryFile>& file) { return *open_memory(file)->size(); }

// Epochs that write again what is there, in many ways: after each, the file is at most 2.5 times what is live.
TEST(IntervalFile, StaysSmallHoweverOftenItIsRewritten) {
  const std::uint64_t seed = seed_of_this_run();
  constexpr Bytes kSize = kRewritten, kSlack = 3 * (384 << 10);  // of three processes
  for (int way = 0; way < 7 && !HasFailure(); ++way) {
    const auto file = make_memory_file();
    ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
    std::vector<Data> expected(1);
    double most = 0;
    Bytes before = 0;
    for (int opening = 0; opening < 3; ++opening) {
      const int ranks = way == 3 ? 1 + opening : 3;
      run_threads(ranks, {}, [&](Group& group) {
        auto opened = IntervalFile::open(group, open_memory(file), true);
        ASSERT_TRUE(opened);
        Random common(seed + static_cast<std::uint64_t>(100 * way + opening));
        for (int epoch = 0; epoch < 8; ++epoch) {
          SCOPED_TRACE("way " + std::to_string(way) + ", opening " + std::to_string(opening) + ", epoch " +
                       std::to_string(epoch) + ", STRIDIO_SEED=" + std::to_string(seed));
          Bytes block = 4096, length = kSize;
          if (way == 1 || way == 3) block = draw(common, 1000, 100000);  // another view each time
          if (way == 4) length = kSize >> (epoch % 4);                   // shrinks and grows
          const bool first = opening == 0 && epoch == 0;
          const bool scattered = way == 2 && !first;                      // a third of the blocks, by chance
          const bool in_turn = way == 6;                                  // every rank writes everything
          const int repeats = way == 5 ? 5 : in_turn ? group.size() : 1;  // the same bytes again before the commit
          Oracle oracle{expected[0]};
          if (way == 4) {
            ASSERT_TRUE((*opened)->resize(length));
            oracle.bytes.resize(static_cast<std::size_t>(length));
          }
          for (int repeat = 0; repeat < repeats; ++repeat) {
            (*opened)->expect_write(way % 2 == 0 ? 0 : length / group.size());
            for (Offset at = 0; at < length; at += block) {
              const Bytes part = std::min(block, length - at);
              // Uneven: the last rank writes as much as all others.
              const auto uneven = static_cast<int>(std::min<Bytes>(at / block % (2 * group.size()), group.size() - 1));
              const int owner = in_turn ? repeat : uneven;
              if (scattered && draw(common, 0, 2) != 0) continue;
              Data data(static_cast<std::size_t>(part), static_cast<std::byte>(common()));
              const std::vector<Extent> extents{{at, part}};
              oracle.write(extents, data);
              ASSERT_TRUE(owner != group.rank() || write_list(**opened, extents, data));
            }
            ASSERT_TRUE(!in_turn || group.barrier());
          }
          ASSERT_TRUE(group.barrier());
          ASSERT_TRUE((*opened)->commit());
          ASSERT_TRUE(group.barrier());
          if (group.rank() == 0) {
            expected[0] = oracle.bytes;
            // Until a commit is durable, the generation before has its place too.
            const Bytes live = std::max(length, std::exchange(before, length));
            most = std::max(most, static_cast<double>(stored_bytes(file) - kSlack) / static_cast<double>(live));
            EXPECT_LE(stored_bytes(file), live * 5 / 2 + kSlack);
            EXPECT_TRUE(*read_all(**opened) == oracle.bytes);
          }
          ASSERT_TRUE(group.barrier());
          if (::testing::Test::HasFailure()) return;
        }
      });
      const auto check = check_interval_file(*open_memory(file));
      ASSERT_TRUE(check);
      EXPECT_TRUE(check->damage.empty()) << check->damage.front();
    }
    std::cout << "way " << way << ": at most " << most << " times what is live\n";
  }
}

// A reader sees the generation that it has opened, for as long as it has it open, whatever is committed meanwhile.
TEST(IntervalFile, AReaderKeepsItsGeneration) {
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(1, {}, [&](Group& group) {
    auto writer = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(writer);
    std::vector<std::pair<std::unique_ptr<IntervalFile>, Data>> readers;
    Random random(1);
    const std::vector<Extent> all{{0, 500000}};
    for (int epoch = 0; epoch < 12; ++epoch) {
      Data data = random_data(random, 500000);
      ASSERT_TRUE(write_list(**writer, all, data));
      ASSERT_TRUE((*writer)->commit());
      if (epoch % 3 == 0) {
        auto reader = IntervalFile::open(group, open_memory(file, {.read = true}), false);
        ASSERT_TRUE(reader);
        readers.emplace_back(*std::move(reader), data);
      }
      if (epoch == 7) readers.erase(readers.begin());
      for (const auto& [reader, expected] : readers) {
        const auto read = read_all(*reader);
        ASSERT_TRUE(read) << "epoch " << epoch << ": " << read.error().text();
        EXPECT_TRUE(*read == expected) << "epoch " << epoch;
      }
    }
    EXPECT_GT(stored_bytes(file), 5 * 500000);
    readers.clear();
    for (int epoch = 0; epoch < 2; ++epoch) {
      Data data = random_data(random, 500000);
      const auto before = (*writer)->root().generation;
      ASSERT_TRUE(write_list(**writer, all, data));
      ASSERT_TRUE((*writer)->commit());
      EXPECT_EQ((*writer)->root().generation, before + 1) << "nobody overwrites: frames are counted by generations";
    }
    EXPECT_LT(stored_bytes(file), 5 * 500000 / 2 + 300000);
  });
}

// What a file has beside its data, over these, once each of `ranks` processes has written its extents.
double metadata_share(int ranks, const std::function<std::vector<Extent>(int rank)>& extents_of, Bytes all) {
  const auto file = make_memory_file();
  EXPECT_TRUE(IntervalFile::format(*open_memory(file)));
  run_threads(ranks, {}, [&](Group& group) {
    auto opened = IntervalFile::open(group, open_memory(file), true);
    ASSERT_TRUE(opened);
    const std::vector<Extent> extents = extents_of(group.rank());
    Data data(static_cast<std::size_t>(size_of(extents)));
    ASSERT_TRUE(write_list(**opened, extents, data));
    ASSERT_TRUE((*opened)->commit());
  });
  const auto storage = open_memory(file);
  const auto generation = Generation::newest(*storage);
  EXPECT_TRUE(generation);
  const Root& root = (*generation)->root();
  Bytes metadata = 2 * kHeaderBytes + std::ssize(encode(root));
  for (const PartEntry& part : root.parts) metadata += part.metadata.length;
  EXPECT_EQ(root.live(), all);
  EXPECT_LT(*storage->size(), all + all / 50 + kFirstStored + 2 * ranks * kCell);
  return static_cast<double>(metadata) / static_cast<double>(all);
}

constexpr double kLittle = 0.01;

// 24 variables of 80 blocks of 4 KiB a process, each variable's blocks of all processes together.
TEST(IntervalFile, MetadataOfFlashAreLittle) {
  constexpr Bytes kBlock = 4096, kBlocks = 80, kVariables = 24;
  constexpr int kRanks = 4;
  const auto extents_of = [](int rank) {
    std::vector<Extent> extents;
    for (Bytes variable = 0; variable < kVariables; ++variable)
      for (Bytes block = 0; block < kBlocks; ++block)
        extents.push_back({((variable * kBlocks + block) * kRanks + rank) * kBlock, kBlock});
    return extents;
  };
  EXPECT_LT(metadata_share(kRanks, extents_of, kRanks * kVariables * kBlocks * kBlock), kLittle / 10);
}

// A cube of points of five doubles, cut into q^3 cells for q^2 processes: each has q of them, on a diagonal.
TEST(IntervalFile, MetadataOfBtioAreLittle) {
  constexpr Bytes kPoint = 40;
  for (const auto& [q, side] : {std::pair{2, 24}, {2, 64}, {3, 36}}) {
    const Bytes cell = side / q;
    const auto extents_of = [&, q = q, side = side](int rank) {
      std::vector<Extent> extents;
      for (int z = 0; z < q; ++z) {
        const int y = (rank / q + z) % q, x = (rank % q + z) % q;
        for (Bytes plane = z * cell; plane < (z + 1) * cell; ++plane)
          for (Bytes row = y * cell; row < (y + 1) * cell; ++row)
            extents.push_back({((plane * side + row) * side + x * cell) * kPoint, cell * kPoint});
      }
      return extents;
    };
    EXPECT_LT(metadata_share(q * q, extents_of, Bytes{side} * side * side * kPoint), kLittle) << q << ", " << side;
  }
}

}  // namespace
}  // namespace stridio
