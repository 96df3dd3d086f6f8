// Nodes that cache a file each for itself, as those of NFS do: what all see after a sync.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <numeric>

#include "file/file_impl.h"
#include "group/threads.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

// A node's storage: what it has once seen stays as it was, and what is written stays here, until it is told otherwise. What
// goes from here are the pages that were written to, as they are here, unless a range is locked on the node.
class Caching final : public Wrapped {
 public:
  using Wrapped::Wrapped;

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(fill());
    return kept_->readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(fill());
    ASSIGN_OR_RETURN(const Transferred moved, kept_->writev(extents, memory));
    ASSIGN_OR_RETURN(const Bytes size, kept_->size());
    for (const Extent& each : extents) dirty_.push_back(locks_ > 0 ? each : intersect(pages_of(each), {0, size}));
    return moved;
  }
  Result<Transferred> map(Extent, bool, const MapBody&) override {
    return fail(Code::kUnsupportedOperation, "mapping");
  }
  Result<Bytes> size() override {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(fill());
    return kept_->size();
  }
  Status resize(Bytes size) override {
    RETURN_IF_ERROR(refresh());
    return Wrapped::resize(size);
  }
  Status reserve(Bytes) override { return {}; }
  Status sync() override {
    const std::scoped_lock lock(mutex_);
    return write_back();
  }
  Status refresh() override {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(write_back());
    kept_ = nullptr;
    return {};
  }
  void keep_apart() override { ++locks_; }
  Status close() override {
    const std::scoped_lock lock(mutex_);
    return write_back();
  }
  // What is written under a lock, who has it next sees.
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    ASSIGN_OR_RETURN(auto held, Wrapped::lock(range, mode));
    RETURN_IF_ERROR(refresh());
    return std::make_unique<Held>(*this, std::move(held));
  }
  Caps caps() const override { return {.caches = true}; }

 private:
  class Held final : public RangeLock {
   public:
    Held(Caching& storage, std::unique_ptr<RangeLock> lock) : storage_(storage), lock_(std::move(lock)) {
      ++storage_.locks_;
    }
    ~Held() override {
      EXPECT_TRUE(storage_.sync());
      --storage_.locks_;
    }

   private:
    Caching& storage_;
    const std::unique_ptr<RangeLock> lock_;
  };

  static Extent pages_of(Extent range) {
    constexpr Bytes kPage = 4096;
    const Offset first = range.offset / kPage * kPage;
    return {first, (range.end() + kPage - 1) / kPage * kPage - first};
  }
  Status fill() {
    if (kept_) return {};
    kept_ = open_memory(make_memory_file());
    ASSIGN_OR_RETURN(const Bytes size, Wrapped::size());
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    const Extent whole{0, size};
    const Span span{bytes.data(), size};
    RETURN_IF_ERROR(Wrapped::readv({&whole, 1}, {&span, 1}));
    RETURN_IF_ERROR(kept_->write(whole, bytes.data()));
    return {};
  }
  Status write_back() {
    for (const Extent& each : std::exchange(dirty_, {})) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(each.length));
      const Span span{bytes.data(), each.length};
      RETURN_IF_ERROR(kept_->read(each, bytes.data()));
      RETURN_IF_ERROR(Wrapped::writev({&each, 1}, {&span, 1}));
    }
    return {};
  }

  std::mutex mutex_;
  std::unique_ptr<Storage> kept_;  // null: nothing
  std::vector<Extent> dirty_;
  std::atomic<int> locks_ = 0;
};

class Refresh : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  // Each rank on a node of its own.
  void on_ranks(const std::function<void(FileImpl&, Group&)>& body) {
    const auto [ranks, intervals] = GetParam();
    run_threads(ranks, {.ranks_per_node = 1}, [&](Group& group) {
      std::unique_ptr<Storage> storage = std::make_unique<Caching>(open_memory(inner_));
      IntervalFile* interval = nullptr;
      if (intervals) {
        auto opened = IntervalFile::open(group, std::move(storage), true);
        ASSERT_TRUE(opened) << opened.error().text();
        interval = opened->get();
        storage = *std::move(opened);
      }
      FileImpl file(FileParts{.group = std::shared_ptr<Group>(&group, [](Group*) {}),
                              .storage = std::move(storage),
                              .interval = interval,
                              .report = std::make_unique<Report>(),
                              .mode = {.read_write = true, .create = true},
                              .hints = {},
                              .path = {},
                              .report_directory = {},
                              .caches = true});
      ASSERT_TRUE(file.begin());
      body(file, group);
      const Status closed = file.close();
      EXPECT_TRUE(closed) << closed.error().text();
    });
  }
  const std::shared_ptr<MemoryFile> inner_ = make_memory_file();
  static Access access_of(Direction direction, bool together, Offset at, std::vector<int>& numbers) {
    Access access{.direction = direction, .collective = together, .offset = at * Bytes{sizeof(int)}};
    const Bytes length = std::ssize(numbers) * Bytes{sizeof(int)};
    access.memory = {reinterpret_cast<std::byte*>(numbers.data()), Pattern::run(0, length)};
    return access;
  }
  static void write(FileImpl& file, int rank, int number) {
    std::vector<int> mine{number};
    const auto written = file.transfer(access_of(Direction::kWrite, false, rank, mine));
    ASSERT_TRUE(written) << written.error().text();
  }
  static std::vector<int> read(FileImpl& file, int count, bool together = false) {
    std::vector<int> all(static_cast<std::size_t>(count), -1);
    const auto got = file.transfer(access_of(Direction::kRead, together, 0, all));
    EXPECT_TRUE(got) << got.error().text();
    return all;
  }
  static std::vector<int> numbers(int first, int count) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), first);
    return all;
  }
};

TEST_P(Refresh, WhatWasSyncedIsSeenByAll) {
  on_ranks([](FileImpl& file, Group& group) {
    for (int turn = 0; turn < 3; ++turn) {
      write(file, group.rank(), 100 * turn + group.rank());
      const Status synced = file.sync();
      ASSERT_TRUE(synced) << synced.error().text();
      EXPECT_EQ(read(file, group.size()), numbers(100 * turn, group.size())) << "turn " << turn;
      ASSERT_TRUE(group.barrier());
    }
  });
}

TEST_P(Refresh, ASizeIsSeenByAll) {
  on_ranks([](FileImpl& file, Group& group) {
    write(file, group.rank(), group.rank());
    ASSERT_TRUE(file.size());
    ASSERT_TRUE(file.set_size(1000));
    EXPECT_EQ(*file.size(), 1000);
  });
}

// Each node knows of its own ones only.
TEST_P(Refresh, WhatNodesWriteSideBySideStays) {
  on_ranks([](FileImpl& file, Group& group) { write(file, group.rank(), group.rank()); });
  on_ranks([](FileImpl& file, Group& group) {
    EXPECT_EQ(read(file, group.size()), numbers(0, group.size())) << "of a new file";
    ASSERT_TRUE(group.barrier());
    for (int turn = 1; turn < 4; ++turn) write(file, group.rank(), 100 * turn + group.rank());
  });
  on_ranks([](FileImpl& file, Group& group) { EXPECT_EQ(read(file, group.size()), numbers(300, group.size())); });
}

// Which MPI does not promise, and interval files do.
TEST_P(Refresh, ACollectiveReadOfAnIntervalFileSeesWhatWasWrittenBefore) {
  if (!std::get<1>(GetParam())) GTEST_SKIP() << "a flat file needs a sync";
  on_ranks([](FileImpl& file, Group& group) {
    for (int turn = 0; turn < 3; ++turn) {
      write(file, group.rank(), 100 * turn + group.rank());
      EXPECT_EQ(read(file, group.size(), true), numbers(100 * turn, group.size())) << "turn " << turn;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Nodes, Refresh, ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Bool()));

}  // namespace
}  // namespace stridio
