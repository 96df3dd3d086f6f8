// Crashes. A program of several ranks runs over a storage that records what it writes and syncs. Then at every point of
// the record the machine fails: what a rank's handle has synced is there, of everything else any part may be, torn.
// The file that is left must open as it was at its last commit, byte for byte, or, while a commit was under way, at that
// one; and go on from there.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "group/threads.h"
#include "interval/check.h"
#include "interval/interval_file.h"
#include "interval/testing.h"
#include "storage/memory.h"

namespace stridio {
namespace {

struct Operation {
  enum Kind { kWrite, kResize, kSync, kCommitBegins, kCommitted } kind;
  int handle = 0;
  Extent extent = {};  // kResize: its length is the new size
  Data data = {};
};

struct Record {
  std::mutex mutex;
  std::vector<Operation> operations;

  void add(Operation operation) {
    const std::scoped_lock lock(mutex);
    operations.push_back(std::move(operation));
  }
  // Whether one of these becomes the last, within a minute.
  bool comes(Operation::Kind kind) {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);;) {
      {
        const std::scoped_lock lock(mutex);
        if (operations.back().kind == kind) return true;
      }
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
  }
};

class RecordingStorage final : public Storage {
 public:
  RecordingStorage(std::unique_ptr<Storage> storage, std::shared_ptr<Record> record, int handle)
      : storage_(std::move(storage)), record_(std::move(record)), handle_(handle) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return storage_->readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    Data data;
    for (const Span& piece : memory) data.insert(data.end(), piece.data, piece.data + piece.length);
    auto from = data.begin();
    for (const Extent& extent : extents) {
      record_->add({Operation::kWrite, handle_, extent, {from, from + extent.length}});
      from += extent.length;
    }
    return storage_->writev(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    return storage_->map(range, writes, body);
  }
  Result<Bytes> size() override { return storage_->size(); }
  Status resize(Bytes size) override {
    record_->add({Operation::kResize, handle_, {0, size}});
    return storage_->resize(size);
  }
  Status reserve(Bytes size) override { return storage_->reserve(size); }
  Status sync() override {
    Status synced = storage_->sync();
    record_->add({Operation::kSync, handle_});
    return synced;
  }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override { return storage_->lock(range, mode); }
  bool has_locks() override { return storage_->has_locks(); }
  Caps caps() const override { return storage_->caps(); }
  const std::string& path() const override { return storage_->path(); }

 private:
  const std::unique_ptr<Storage> storage_;
  const std::shared_ptr<Record> record_;
  const int handle_;
};

// What the machine has done, and what the file must be at each commit.
struct Story {
  std::shared_ptr<Record> record = std::make_shared<Record>();
  std::vector<Data> commits{Data()};
};

void commit(Story& story, Group& group, IntervalFile& opened, const Data& bytes) {
  ASSERT_TRUE(group.barrier());
  if (group.rank() == 0) {
    story.commits.push_back(bytes);
    story.record->add({Operation::kCommitBegins});
  }
  ASSERT_TRUE(group.barrier());
  ASSERT_TRUE(opened.commit());
  ASSERT_TRUE(group.barrier());
  if (group.rank() == 0) story.record->add({Operation::kCommitted});
  ASSERT_TRUE(group.barrier());
}

void make_file(Story& story, const std::shared_ptr<MemoryFile>& file) {
  RecordingStorage maker(open_memory(file), story.record, 0);
  ASSERT_TRUE(IntervalFile::format(maker));
  ASSERT_TRUE(maker.sync());
  story.record->add({Operation::kCommitted});
}

void tell_story(Story& story, std::uint64_t seed) {
  const auto file = make_memory_file();
  make_file(story, file);
  int next_handle = 1;
  Random random(seed);
  Oracle oracle;
  for (int opening = 0; opening < 3; ++opening) {
    const auto ranks = static_cast<int>(draw(random, 1, 4));
    const std::uint64_t run_seed = random();
    SummedRequests requests;
    if (draw(random, 0, 1) == 0) requests.write.depth = 4;  // far: durable while it is agreed on what to commit
    run_threads(ranks, {}, [&](Group& group) {
      const int handle = next_handle + group.rank();
      auto opened = IntervalFile::open(
          group, std::make_unique<RecordingStorage>(open_memory(file), story.record, handle), true, {}, requests);
      ASSERT_TRUE(opened) << opened.error().text();
      Random common(run_seed);  // all ranks draw all ranks' writes
      for (int epoch = 0; epoch < 4; ++epoch) {
        Oracle all = oracle;
        // Of single bytes there are more than the tail of a header has place for.
        const Bytes block = draw(common, 0, 2) == 0 ? 4 : draw(common, 1, 3000), reach = draw(common, 1, 60000);
        const bool no_data = opening == 0 && epoch == 0 && seed % 2 == 0;  // in the first commit of all
        if (no_data || draw(common, 0, 4) == 0) {
          const Bytes size = draw(common, 0, reach);
          ASSERT_TRUE((*opened)->resize(size));
          all.bytes.resize(static_cast<std::size_t>(size));
        }
        for (int rank = 0; rank < ranks && !no_data; ++rank) {
          std::vector<Extent> extents;
          Bytes bytes = 0;
          for (Offset at = rank * block; at < reach; at += block * ranks)
            if (draw(common, 0, 2) != 0) extents.push_back({at, draw(common, 1, block)});
          for (const Extent& extent : extents) bytes += extent.length;
          Data data = random_data(common, bytes);
          all.write(extents, data);
          ASSERT_TRUE(rank != group.rank() || write_list(**opened, extents, data));
        }
        commit(story, group, **opened, all.bytes);
        if (group.rank() == 0) oracle = all;
        ASSERT_TRUE(group.barrier());
      }
    });
    next_handle += ranks;
  }
}

// Each rank writes everything, one after the other: the last one's bytes lie so far behind that they are moved.
void tell_story_in_turn(Story& story, std::uint64_t seed) {
  const auto file = make_memory_file();
  make_file(story, file);
  run_threads(4, {}, [&](Group& group) {
    auto opened = IntervalFile::open(
        group, std::make_unique<RecordingStorage>(open_memory(file), story.record, 1 + group.rank()), true);
    ASSERT_TRUE(opened) << opened.error().text();
    Random common(seed);
    const std::vector<Extent> all{{0, Bytes{3} << 19}};
    Data data;
    for (int rank = 0; rank < group.size(); ++rank) {
      data = random_data(common, all.front().length);
      ASSERT_TRUE(rank != group.rank() || write_list(**opened, all, data));
      ASSERT_TRUE(group.barrier());
    }
    const std::uint64_t before = (*opened)->root().generation;
    commit(story, group, **opened, data);
    EXPECT_EQ((*opened)->root().generation, before + 2) << "what was written is a generation, and moved the next";
  });
}

// Where storage is far, what a rank has written becomes durable while it waits for the others to commit; meanwhile another thread of
// it writes on.
void tell_story_of_two_threads(Story& story, std::uint64_t seed) {
  const auto file = make_memory_file();
  make_file(story, file);
  SummedRequests requests;
  requests.write.depth = 4;
  std::atomic<bool> written = false;
  run_threads(2, {}, [&](Group& group) {
    auto opened =
        IntervalFile::open(group, std::make_unique<RecordingStorage>(open_memory(file), story.record, 1 + group.rank()),
                           true, {}, requests);
    ASSERT_TRUE(opened) << opened.error().text();
    Random common(seed);
    Data all(20000);
    for (int epoch = 0; epoch < 30; ++epoch) {
      Data early = random_data(common, 10000), late = random_data(common, 10000);
      std::copy(early.begin(), early.end(), all.begin());
      std::copy(late.begin(), late.end(), all.begin() + 10000);
      written = false;
      ASSERT_TRUE(group.barrier());
      if (group.rank() == 0) {
        EXPECT_TRUE(write_list(**opened, std::vector<Extent>{{0, 10000}}, early));
        story.commits.push_back(all);
        story.record->add({Operation::kCommitBegins});
        std::thread beside([&] {
          EXPECT_TRUE(story.record->comes(Operation::kSync));
          EXPECT_TRUE(write_list(**opened, std::vector<Extent>{{10000, 10000}}, late));
          written = true;
        });
        EXPECT_TRUE((*opened)->commit());
        beside.join();
        story.record->add({Operation::kCommitted});
      } else {
        while (!written) std::this_thread::yield();
        ASSERT_TRUE((*opened)->commit());
      }
    }
  });
}

void apply(Storage& storage, const Operation& operation, Bytes most) {
  if (operation.kind == Operation::kResize) {
    ASSERT_TRUE(storage.resize(operation.extent.length));
  } else {
    const Extent part{operation.extent.offset, std::min(most, operation.extent.length)};
    ASSERT_TRUE(storage.write(part, operation.data.data()));
  }
}

// The file after a crash before operation `point`: with everything that came before (`kind` 0), with nothing that was
// not synced (1), or with some of it, writes torn (2), cuts whole or not at all. That is also what reordering leaves: no system lets an earlier write undo
// a later one of the same bytes.
std::shared_ptr<MemoryFile> crashed(const std::vector<Operation>& operations, std::size_t point, int kind,
                                    Random& random) {
  const auto file = make_memory_file();
  const auto storage = open_memory(file);
  for (std::size_t i = 0; i < point; ++i) {
    const Operation& operation = operations[i];
    if (operation.kind != Operation::kWrite && operation.kind != Operation::kResize) continue;
    bool synced = false;
    for (std::size_t later = i + 1; later < point && !synced; ++later)
      synced = operations[later].kind == Operation::kSync && operations[later].handle == operation.handle;
    const std::int64_t fate = synced || kind == 0 ? 2 : kind == 1 ? 0 : draw(random, 0, 2);
    if (fate == 0) continue;
    apply(*storage, operation, fate == 2 ? operation.extent.length : draw(random, 0, operation.extent.length));
  }
  return file;
}

Result<Data> contents(Group& group, const std::shared_ptr<MemoryFile>& file) {
  ASSIGN_OR_RETURN(const auto opened, IntervalFile::open(group, open_memory(file, {.read = true}), false));
  return read_all(*opened);
}

void write_on(Group& group, const std::shared_ptr<MemoryFile>& file, Data bytes, Random& random) {
  auto opened = IntervalFile::open(group, open_memory(file), true);
  ASSERT_TRUE(opened) << opened.error().text();
  Oracle oracle{std::move(bytes)};
  const std::vector<Extent> extents{{draw(random, 0, 50000), draw(random, 1, 30000)}};
  Data data = random_data(random, extents.front().length);
  ASSERT_TRUE(write_list(**opened, extents, data));
  oracle.write(extents, data);
  ASSERT_TRUE((*opened)->commit());
  opened->reset();
  const auto read = contents(group, file);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(*read == oracle.bytes) << "after going on";
}

// At every point of the story, in five ways. Returns how often.
int crash_everywhere(const Story& story, std::uint64_t seed) {
  const auto& operations = story.record->operations;
  int crashes = 0;
  Random random(seed);
  std::size_t committed = 0, begun = 0;  // of story.commits
  run_threads(1, {}, [&](Group& group) {
    for (std::size_t point = 0; point <= operations.size() && !::testing::Test::HasFailure(); ++point) {
      if (point > 0 && operations[point - 1].kind == Operation::kCommitted)
        committed = std::max<std::size_t>(committed + 1, 1);
      if (point > 0 && operations[point - 1].kind == Operation::kCommitBegins) begun = committed + 1;
      if (committed == 0) continue;  // not yet a file
      begun = std::max(begun, committed);
      for (int kind = 0; kind < 5; ++kind) {
        SCOPED_TRACE("crash at " + std::to_string(point) + ", kind " + std::to_string(kind));
        const auto file = crashed(operations, point, std::min(kind, 2), random);
        ++crashes;
        const auto left = contents(group, file);
        ASSERT_TRUE(left) << left.error().text();
        ASSERT_TRUE(*left == story.commits[committed - 1] || *left == story.commits[begun - 1]);
        const auto check = check_interval_file(*open_memory(file));
        ASSERT_TRUE(check && check->damage.empty());
        if (kind == 2) write_on(group, file, *left, random);
      }
    }
  });
  return crashes;
}

void crash_in(void (*tell)(Story&, std::uint64_t)) {
  const std::uint64_t seed = seed_of_this_run();
  SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed));
  Story story;
  tell(story, seed);
  ASSERT_FALSE(::testing::Test::HasFailure());
  const int crashes = crash_everywhere(story, seed);
  EXPECT_TRUE(::testing::Test::HasFailure() || crashes > 900) << crashes;
  std::cout << crashes << " crashes\n";
}

TEST(Crash, LeavesTheLastCommitWhole) {
  const std::uint64_t seed = seed_of_this_run();
  int crashes = 0;
  std::int64_t with_tail = 0, without = 0;  // headers
  for (std::uint64_t round = 0; round < 3 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    Story story;
    tell_story(story, seed + round);
    ASSERT_FALSE(HasFailure());
    for (const Operation& each : story.record->operations) {
      if (each.kind != Operation::kWrite || each.extent.offset % kHeaderStep != 0 || each.extent.offset == 0) continue;
      if (each.extent.offset < kFirstStored) ++(each.extent.length > kHeaderStep + kHeaderBytes ? with_tail : without);
    }
    crashes += crash_everywhere(story, seed + round);
  }
  EXPECT_TRUE(HasFailure() || crashes > 900) << crashes;
  EXPECT_TRUE(with_tail > 0 && without > 0) << with_tail << " and " << without;
  std::cout << crashes << " crashes\n";
}

TEST(Crash, LeavesWholeWhatIsWrittenWhileACommitWaits) { crash_in(tell_story_of_two_threads); }

TEST(Crash, LeavesTheLastCommitWholeWhereItIsMoved) { crash_in(tell_story_in_turn); }

}  // namespace
}  // namespace stridio
