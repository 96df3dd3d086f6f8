// Random programs of several ranks with writes kept in memory, flat and in interval files: each rank sees its own writes at
// once, all see all after a sync, and the file is in the end what was written.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "file/file_impl.h"
#include "group/threads.h"
#include "interval/testing.h"
#include "support/sanitized.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

constexpr AccessMode kCreate{.read_write = true, .create = true};
constexpr Offset kReach = 40000;

// Of the test case, all ranks the same.
struct Program {
  std::uint64_t seed;
  std::string path;
  HintList hints;
  Data synced;  // by rank 0, between barriers
  std::vector<Data> seen;
};

// A rank's own view of an epoch: block `rank` of every `ranks`.
struct Epoch {
  Bytes block;
  int rank, ranks;

  View view() const { return {rank * block, 1, Pattern::run(0, block), block * ranks}; }
  Offset place(Offset position) const { return (position / block * ranks + rank) * block + position % block; }
};

Access access_of(Direction direction, bool collective, Offset offset, Data& data) {
  return {.direction = direction,
          .pointer = Pointer::kExplicit,
          .collective = collective,
          .offset = offset,
          .memory = {data.data(), Pattern::run(0, static_cast<Bytes>(data.size()))}};
}

void write(File& file, const Epoch& epoch, bool collective, Random& random, Data& seen) {
  Data data = random_data(random, draw(random, 0, 5) == 0 ? 0 : draw(random, 1, 3000));
  const Offset position = draw(random, 0, kReach / epoch.ranks);
  const auto moved = file.transfer(access_of(Direction::kWrite, collective, position, data));
  ASSERT_TRUE(moved) << moved.error().text();
  ASSERT_EQ(*moved, static_cast<Bytes>(data.size()));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto at = static_cast<std::size_t>(epoch.place(position + static_cast<Offset>(i)));
    if (at >= seen.size()) seen.resize(at + 1);
    seen[at] = data[i];
  }
}

// Own bytes only: what others have written since the last sync may be seen or not.
void read(File& file, const Epoch& epoch, bool collective, Random& random, const Data& seen) {
  Data data(static_cast<std::size_t>(draw(random, 0, 3000)), std::byte{0x77});
  const Offset position = draw(random, 0, kReach / epoch.ranks);
  const auto moved = file.transfer(access_of(Direction::kRead, collective, position, data));
  ASSERT_TRUE(moved) << moved.error().text();
  for (Bytes i = 0; i < *moved; ++i) {
    const auto at = static_cast<std::size_t>(epoch.place(position + i));
    ASSERT_EQ(data[static_cast<std::size_t>(i)], at < seen.size() ? seen[at] : std::byte{0}) << at;
  }
}

void run_rank(std::shared_ptr<Group> group, Program& program) {
  const int rank = group->rank(), ranks = group->size();
  Random common(program.seed), own(program.seed * 31 + static_cast<std::uint64_t>(rank));
  auto opened = File::open(group, program.path, kCreate, program.hints);
  ASSERT_TRUE(opened) << opened.error().text();
  File& file = **opened;
  Data seen;
  for (std::int64_t epochs = draw(common, 1, 4); epochs > 0; --epochs) {
    const Epoch epoch{draw(common, 1, 400), rank, ranks};
    ASSERT_TRUE(file.set_view(epoch.view(), {}));
    for (std::int64_t steps = draw(common, 1, 12); steps > 0; --steps) {
      const bool collective = draw(common, 0, 1) == 1, writes = draw(common, 0, 3) > 0;
      for (std::int64_t calls = collective ? 1 : draw(own, 0, 4); calls > 0; --calls)
        writes ? write(file, epoch, collective, own, seen) : read(file, epoch, collective, own, seen);
      ASSERT_GE(*file.size(), 0);
    }
    ASSERT_TRUE(file.sync());
    program.seen[static_cast<std::size_t>(rank)] = seen;
    ASSERT_TRUE(group->barrier());
    if (rank == 0)
      for (int other = 0; other < ranks; ++other) {
        const Data& theirs = program.seen[static_cast<std::size_t>(other)];
        if (theirs.size() > program.synced.size()) program.synced.resize(theirs.size());
        for (std::size_t at = 0; at < theirs.size(); ++at)
          if (static_cast<Offset>(at) / epoch.block % ranks == other) program.synced[at] = theirs[at];
      }
    ASSERT_TRUE(group->barrier());
    seen = program.synced;
    ASSERT_TRUE(file.set_view({}, {}));
    ASSERT_EQ(*file.size(), static_cast<Bytes>(seen.size()));
    read(file, {kReach * 10, 0, 1}, false, own, seen);
    if (draw(common, 0, 3) == 0) {
      const Bytes size = draw(common, 0, kReach);
      ASSERT_TRUE(file.set_size(size));
      seen.resize(static_cast<std::size_t>(size));
      if (rank == 0) program.synced.resize(seen.size());
    }
    ASSERT_TRUE(group->barrier());
  }
  ASSERT_TRUE(file.close());
}

struct Folder {
  Folder() { EXPECT_NE(mkdtemp(name), nullptr); }
  ~Folder() { std::filesystem::remove_all(name); }
  std::string file() const { return std::string(name) + "/data"; }
  char name[32] = "/tmp/stridio-cached-XXXXXX";
};

Data content_of(const std::string& path) {
  Data data(1 << 20);
  run_threads(1, {}, [&](Group& group) {
    auto file = File::open(std::shared_ptr<Group>(&group, [](Group*) {}), path, {.read_only = true}, {});
    ASSERT_TRUE(file) << file.error().text();
    const auto moved = (*file)->transfer(access_of(Direction::kRead, false, 0, data));
    ASSERT_TRUE(moved) << moved.error().text();
    data.resize(static_cast<std::size_t>(*moved));
    ASSERT_TRUE((*file)->close());
  });
  return data;
}

// Nothing may get longer than so many bytes.
class SizeLimit {
 public:
  SizeLimit() { getrlimit(RLIMIT_FSIZE, &before_); }
  ~SizeLimit() { lift(); }
  void set(rlim_t bytes) {
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  void lift() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

// Counts what has come, slowly.
class SlowStorage : public Wrapped {
 public:
  explicit SlowStorage(std::atomic<Bytes>& come) : come_(come) {}
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSIGN_OR_RETURN(const Transferred moved, Wrapped::writev(extents, memory));
    come_ += moved.bytes;
    return moved;
  }

 private:
  std::atomic<Bytes>& come_;
};

TEST(Cached, ThreadsKeepToTheBudget) {
  constexpr Bytes kBudget = 100000, kCall = 10000;
  constexpr int kThreads = 3, kCalls = 100;
  const Folder folder;
  std::atomic<Bytes> come = 0, put = 0, most = 0;
  run_threads(1, {}, [&](Group& group) {
    std::vector<std::string> warnings;
    FileImpl file(
        {.group = std::shared_ptr<Group>(&group, [](Group*) {}),
         .storage = std::make_unique<SlowStorage>(come),
         .report = std::make_unique<Report>(),
         .mode = kCreate,
         .hints = apply_hints({}, {{"stridio_cache", "enable"}, {"stridio_cache_bytes", std::to_string(kBudget)}},
                              "test", warnings),
         .path = folder.file(),
         .report_directory = {},
         .explain = false});
    ASSERT_TRUE(file.begin());
    const auto write = [&](int thread) {
      Data data(kCall);
      for (int call = 0; call < kCalls; ++call) {
        ASSERT_TRUE(file.transfer(access_of(Direction::kWrite, false, (thread * kCalls + call) * kCall, data)));
        const Bytes kept = (put += kCall) - come;
        for (Bytes seen = most; seen < kept && !most.compare_exchange_weak(seen, kept);) continue;
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(write, thread);
    for (std::thread& each : threads) each.join();
    ASSERT_TRUE(file.close());
  });
  EXPECT_EQ(come, kThreads * kCalls * kCall);
  EXPECT_LE(most, 2 * kBudget + kThreads * kCall) << "a batch on its way, and what fits meanwhile";
}

// Takes no data until it is told to.
class ShutStorage : public Wrapped {
 public:
  ShutStorage(std::unique_ptr<Storage> inner, std::atomic<bool>& opened, std::atomic<Bytes>& come)
      : Wrapped(std::move(inner)), opened_(opened), come_(come) {}
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (!opened_) return fail(Code::kNoSpace, "shut");
    ASSIGN_OR_RETURN(const Transferred moved, Wrapped::writev(extents, memory));
    come_ += moved.bytes;
    return moved;
  }

 private:
  std::atomic<bool>& opened_;
  std::atomic<Bytes>& come_;
};

constexpr Bytes kShort = Bytes{64} << 10;

// An interval file on storage that answers after so many seconds, as its profile says.
struct OneInterval {
  explicit OneInterval(Group& group, double request_seconds) {
    Profile profile;
    profile.write.request_seconds = request_seconds;
    std::vector<std::string> warnings;
    auto interval = IntervalFile::open(
        group, std::make_unique<ShutStorage>(open_memory(inner, {.read = true, .write = true}), opened, come), true, {},
        summed_requests(profile));
    EXPECT_TRUE(interval) << interval.error().text();
    IntervalFile* const place = interval->get();
    opened = false;
    come = 0;
    file =
        std::make_unique<FileImpl>(FileParts{.group = std::shared_ptr<Group>(&group, [](Group*) {}),
                                             .storage = std::move(*interval),
                                             .interval = place,
                                             .report = std::make_unique<Report>(),
                                             .mode = kCreate,
                                             .hints = apply_hints({}, {{"stridio_cache", "enable"}}, "test", warnings),
                                             .path = {},
                                             .report_directory = {},
                                             .profile = profile});
    EXPECT_TRUE(file->begin());
  }
  Status write(Bytes length) {
    Data data(static_cast<std::size_t>(length), static_cast<std::byte>(written.size() / 1000));
    RETURN_IF_ERROR(file->transfer(access_of(Direction::kWrite, false, std::ssize(written), data)));
    written.insert(written.end(), data.begin(), data.end());
    return {};
  }
  Data content() {
    Data data(written.size());
    EXPECT_TRUE(file->transfer(access_of(Direction::kRead, false, 0, data)));
    return data;
  }

  std::shared_ptr<MemoryFile> inner = make_memory_file();
  std::atomic<bool> opened = true;
  std::atomic<Bytes> come = 0;
  std::unique_ptr<FileImpl> file;
  Data written;
};

TEST(CachedInterval, LongWritesAreNotKeptAndComeBehindWhatIs) {
  run_threads(1, {}, [&](Group& group) {
    OneInterval one(group, 1e-6);
    ASSERT_TRUE(one.write(kShort));
    EXPECT_FALSE(one.write(4 * kShort)) << "what is kept is to go first";
    EXPECT_EQ(one.content(), one.written) << "still kept";
    one.opened = true;
    ASSERT_TRUE(one.write(4 * kShort));
    EXPECT_GE(one.come, 5 * kShort);
    EXPECT_EQ(one.content(), one.written);
    ASSERT_TRUE(one.file->close());
  });
}

TEST(CachedInterval, NearStorageGetsWhatMakesALongWrite) {
  run_threads(1, {}, [&](Group& group) {
    OneInterval one(group, 1e-6);
    const auto kept = Profile{}.staging / kShort;
    for (Bytes i = 0; i < kept - 1; ++i) ASSERT_TRUE(one.write(kShort));
    EXPECT_EQ(one.come, 0);
    one.opened = true;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(one.write(kShort));
    EXPECT_GE(one.come, (kept - 1) * kShort);
    EXPECT_EQ(one.content(), one.written);
    ASSERT_TRUE(one.file->close());
  });
}

TEST(CachedInterval, FarStorageGetsItInTheBackground) {
  run_threads(1, {}, [&](Group& group) {
    OneInterval one(group, 1e-3);
    const Bytes longest = Profile{}.longest_staging;
    while (std::ssize(one.written) < 3 * longest)
      ASSERT_TRUE(one.write(kShort)) << "nobody is told of what can be tried again";
    EXPECT_EQ(one.content(), one.written);
    one.opened = true;
    ASSERT_TRUE(one.write(kShort));
    for (int waited = 0; one.come < 3 * longest && waited < 10000; ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GE(one.come, 3 * longest);
    ASSERT_TRUE(one.write(kShort));
    EXPECT_EQ(one.content(), one.written);
    ASSERT_TRUE(one.file->close());
  });
}

class CachedLayouts : public ::testing::TestWithParam<const char*> {};

TEST_P(CachedLayouts, AFailedSyncLosesNothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  const Folder folder;
  SizeLimit limit;
  run_threads(3, {}, [&](Group& group) {
    auto file = File::open(std::shared_ptr<Group>(&group, [](Group*) {}), folder.file(), kCreate,
                           {{"stridio_cache", "enable"}, {"stridio_layout", GetParam()}});
    ASSERT_TRUE(file) << file.error().text();
    Data data(30000, static_cast<std::byte>(group.rank() + 1));
    ASSERT_TRUE((*file)->transfer(access_of(Direction::kWrite, true, group.rank() * 30000, data)));
    ASSERT_TRUE(group.barrier());
    if (group.rank() == 0) limit.set(20000);
    ASSERT_TRUE(group.barrier());
    const Status refused = (*file)->sync();
    ASSERT_FALSE(refused);
    Data back(data.size());
    EXPECT_TRUE((*file)->transfer(access_of(Direction::kRead, false, group.rank() * 30000, back)));
    EXPECT_EQ(back, data) << "still seen";
    ASSERT_TRUE(group.barrier());
    if (group.rank() == 0) limit.lift();
    ASSERT_TRUE(group.barrier());
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->close());
  });
  Data all;
  for (int rank = 0; rank < 3; ++rank) all.insert(all.end(), 30000, static_cast<std::byte>(rank + 1));
  EXPECT_EQ(content_of(folder.file()), all);
}

// Full caches of threads that write on their own, beside what all ranks do together.
TEST_P(CachedLayouts, ThreadsWriteWhileRanksSynchronize) {
  const Folder folder;
  constexpr int kThreads = 3, kPieces = 300;
  constexpr Bytes kPiece = 40;
  run_threads(2, {}, [&](Group& group) {
    auto file =
        File::open(std::shared_ptr<Group>(&group, [](Group*) {}), folder.file(), kCreate,
                   {{"stridio_cache", "enable"}, {"stridio_cache_bytes", "4096"}, {"stridio_layout", GetParam()}});
    ASSERT_TRUE(file) << file.error().text();
    const auto work = [&](int thread) {
      for (int i = 0; i < kPieces; ++i) {
        const Offset piece = (i * kThreads + thread) * group.size() + group.rank();
        Data data(kPiece, static_cast<std::byte>(piece));
        EXPECT_TRUE((*file)->transfer(access_of(Direction::kWrite, false, piece * kPiece, data)));
        Data back(kPiece);
        EXPECT_TRUE((*file)->transfer(access_of(Direction::kRead, false, piece * kPiece, back)));
        EXPECT_EQ(back, data);
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE((*file)->sync());
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE((*file)->close());
  });
  const Data content = content_of(folder.file());
  ASSERT_EQ(std::ssize(content), 2 * kThreads * kPieces * kPiece);
  for (std::size_t at = 0; at < content.size(); ++at) ASSERT_EQ(content[at], static_cast<std::byte>(at / kPiece)) << at;
}

INSTANTIATE_TEST_SUITE_P(Layouts, CachedLayouts, ::testing::Values("flat", "interval"));

TEST(CachedFile, RandomProgramsMeetTheOracle) {
  const std::uint64_t seed = seed_of_this_run();
  const Folder folder;
  for (std::int64_t round = 0; round < testing::rounds(200, 40) && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Random random(seed + static_cast<std::uint64_t>(round));
    Program program{.seed = random(), .path = folder.file(), .hints = {}, .synced = {}, .seen = {}};
    const int ranks = static_cast<int>(draw(random, 1, 4));
    program.seen.resize(static_cast<std::size_t>(ranks));
    constexpr const char* kSwitches[] = {"enable", "enable", "automatic", "disable"};
    program.hints = {{"stridio_cache", kSwitches[draw(random, 0, 3)]},
                     {"stridio_cache_bytes", std::to_string(4096 << draw(random, 0, 6))},
                     {"stridio_layout", draw(random, 0, 1) == 0 ? "flat" : "interval"}};
    run_threads(ranks, {.ranks_per_node = 0, .shared_memory = draw(random, 0, 1) == 1},
                [&](Group& group) { run_rank(std::shared_ptr<Group>(&group, [](Group*) {}), program); });
    ASSERT_TRUE(content_of(program.path) == program.synced);
    std::filesystem::remove(program.path);
  }
}

}  // namespace
}  // namespace stridio
