#include "collective/collective.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "group/threads.h"
#include "storage/memory.h"
#include "storage/request.h"
#include "storage/stored_read.h"
#include "support/waits_for_company.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

TEST(Collective, TwoWindowsOfAWriteThatIsWaitedForAreUnderWay) {
  constexpr int kRanks = 3;
  constexpr Bytes kPiece = 1024, kPieces = 64, kSize = kRanks * kPieces * kPiece;
  WaitsForCompany storage(std::chrono::seconds(20));
  run_threads(kRanks, {}, [&](Group& group) {
    const Bytes piece = group.rank() * kPiece;
    std::vector<std::byte> bytes(kPieces * kPiece, static_cast<std::byte>(group.rank() + 1));
    CollectiveRequest request;
    request.direction = Direction::kWrite;
    request.file = Pattern::strided(kPieces, kRanks * kPiece, Pattern::run(piece, kPiece));
    request.memory = {bytes.data(), Pattern::run(0, kPieces * kPiece)};
    request.profile.write.request_seconds = 1e-3;
    request.rules.force = "two_phase";
    request.rules.aggregators = 1;
    request.rules.window = 16 * kPiece;
    request.rules.shorter_windows = false;
    Times times;
    const auto outcome = run_collective(group, storage, request, times);
    ASSERT_TRUE(outcome) << outcome.error().text();
    EXPECT_EQ(outcome->moved.bytes, kPieces * kPiece);
  });
  EXPECT_EQ(storage.most(), 2);
  std::vector<std::byte> stored(kSize);
  ASSERT_TRUE(storage.read({0, kSize}, stored.data()));
  for (Offset at = 0; at < kSize; ++at)
    ASSERT_EQ(static_cast<int>(stored[static_cast<std::size_t>(at)]), at / kPiece % kRanks + 1) << at;
}

// Of a window of many runs, the one that makes the file longest goes first, where the others would wait for each other.
class Ordered final : public Wrapped {
 public:
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    {
      const std::scoped_lock lock(mutex_);
      for (const Extent& extent : extents) order_.push_back(extent.offset);
    }
    return Wrapped::writev(extents, memory);
  }
  const std::vector<Offset>& order() const { return order_; }

 private:
  std::mutex mutex_;
  std::vector<Offset> order_;
};

TEST(Collective, SparseWindowsLengthenTheFileFirst) {
  constexpr Bytes kPiece = 1024, kApart = 16384, kPieces = 8;
  for (const bool extends_alone : {true, false}) {
    Ordered storage;
    run_threads(2, {}, [&](Group& group) {
      std::vector<std::byte> bytes(kPieces * kPiece);
      CollectiveRequest request;
      request.direction = Direction::kWrite;
      request.file = Pattern::strided(kPieces, kApart, Pattern::run(group.rank() * kApart / 2, kPiece));
      request.memory = {bytes.data(), Pattern::run(0, kPieces * kPiece)};
      request.profile.write.request_seconds = 1e-3;
      request.profile.write.depth = 4;
      request.profile.write.extends_alone = extends_alone;
      request.rules.force = "two_phase";
      request.rules.aggregators = 1;
      request.rules.shorter_windows = false;
      Times times;
      ASSERT_TRUE(run_collective(group, storage, request, times));
    });
    ASSERT_EQ(std::ssize(storage.order()), 2 * kPieces);
    const bool highest_first = storage.order().front() == (kPieces - 1) * kApart + kApart / 2;
    EXPECT_EQ(highest_first, extends_alone);
  }
}

// Where each 64 bytes of what is asked for lie by themselves among others' that are mapped with them.
class InPieces final : public Wrapped {
 public:
  explicit InPieces(bool tells) : tells_(tells) {}
  Caps caps() const override {
    Caps caps = Wrapped::caps();
    caps.shares_reads = tells_;
    return caps;
  }
  // Where they are asked for.
  Result<std::unique_ptr<StoredRead>> read_stored() override {
    class Here final : public StoredRead {
     public:
      explicit Here(Storage& storage) : storage_(storage) {}
      std::int64_t blocks() const override { return storage_.size().value() / kBlock; }
      Result<Transferred> find(std::span<const Extent> extents, std::span<const Span> memory,
                               std::vector<StoredPiece>& pieces) override {
        pieces.clear();
        MemoryCursor to(memory);
        for (const Extent& each : extents) pieces.push_back({each.offset, each.length, to.take(each.length).data});
        Transferred found;
        for (const Extent& each : extents) found.bytes += each.length;
        return found;
      }
      bool fetch(std::int64_t block, std::byte* to) override {
        return storage_.read({block * kBlock, kBlock}, to).has_value();
      }

     private:
      Storage& storage_;
    };
    return std::make_unique<Here>(*this);
  }
  Result<StoredAs> look_up(std::span<const Extent> extents) override {
    Bytes bytes = 0;
    for (const Extent& extent : extents) bytes += extent.length;
    const bool together = extents.size() == 4;
    return StoredAs{.pieces = together ? bytes / 4096 : bytes / 64, .touched = together ? bytes : 4 * bytes};
  }

 private:
  const bool tells_;
};

TEST(Collective, HowWhatIsReadIsStoredDecidesWhetherRanksMeet) {
  constexpr int kRanks = 4;
  constexpr Bytes kPiece = 4096, kPieces = 1024, kSize = kRanks * kPieces * kPiece;
  for (const bool tells : {true, false}) {
    InPieces storage(tells);
    std::vector<std::byte> all(kSize);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i / 1000 % 251);
    ASSERT_TRUE(storage.write({0, kSize}, all.data()));
    run_threads(kRanks, {}, [&](Group& group) {
      std::vector<std::byte> bytes(kPieces * kPiece);
      CollectiveRequest request;
      request.file = Pattern::strided(kPieces, kRanks * kPiece, Pattern::run(group.rank() * kPiece, kPiece));
      request.memory = {bytes.data(), Pattern::run(0, kPieces * kPiece)};
      request.profile.read.request_seconds = 1e-7;
      request.profile.run_page_seconds = 1e-6;
      Times times;
      const auto outcome = run_collective(group, storage, request, times);
      ASSERT_TRUE(outcome) << outcome.error().text();
      EXPECT_EQ(outcome->strategy, tells ? Strategy::kTwoPhase : Strategy::kIndependent);
      EXPECT_EQ(outcome->moved.bytes, kPieces * kPiece);
      EXPECT_FALSE(outcome->in_windows);
      for (Offset at = 0; at < kPieces * kPiece; ++at) {
        const Offset in_file = at / kPiece * kRanks * kPiece + group.rank() * kPiece + at % kPiece;
        ASSERT_EQ(bytes[static_cast<std::size_t>(at)], all[static_cast<std::size_t>(in_file)]) << at;
      }
    });
  }
}

// As an NFS server's own disk and its clients' mounts of it.
class Aligned final : public Wrapped {
 public:
  Aligned(std::shared_ptr<MemoryFile> file, Bytes alignment)
      : Wrapped(open_memory(std::move(file))), alignment_(alignment) {}
  Caps caps() const override {
    Caps caps = Wrapped::caps();
    caps.alignment = alignment_;
    return caps;
  }

 private:
  const Bytes alignment_;
};

TEST(Collective, RanksWhoseStoragesSayOtherAlignmentsCutTheFileAlike) {
  constexpr int kRanks = 4;
  constexpr Bytes kPiece = 1000, kPieces = 1200, kSize = kRanks * kPieces * kPiece;
  std::vector<std::byte> all(kSize);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(1 + i / 7 % 251);
  for (const int ranks_per_node : {0, 1, 2}) {
    const auto file = make_memory_file();
    run_threads(kRanks, {.ranks_per_node = ranks_per_node}, [&](Group& group) {
      Aligned storage(file, Bytes{4096} << 4 * (group.rank() % 3));
      std::vector<std::byte> bytes(kPieces * kPiece);
      CollectiveRequest request;
      request.file = Pattern::strided(kPieces, kRanks * kPiece, Pattern::run(group.rank() * kPiece, kPiece));
      request.memory = {bytes.data(), Pattern::run(0, kPieces * kPiece)};
      request.rules.force = "two_phase";
      request.rules.aggregators = kRanks;
      const auto in_file = [&](Offset at) {
        return static_cast<std::size_t>((at / kPiece * kRanks + group.rank()) * kPiece + at % kPiece);
      };
      for (Offset at = 0; at < kPieces * kPiece; ++at) bytes[static_cast<std::size_t>(at)] = all[in_file(at)];
      for (const Direction direction : {Direction::kWrite, Direction::kRead}) {
        request.direction = direction;
        Times times;
        const auto outcome = run_collective(group, storage, request, times);
        ASSERT_TRUE(outcome) << outcome.error().text();
        EXPECT_EQ(outcome->strategy, Strategy::kTwoPhase);
        EXPECT_EQ(outcome->moved.bytes, kPieces * kPiece);
        if (direction == Direction::kWrite) std::fill(bytes.begin(), bytes.end(), std::byte{0});
        ASSERT_TRUE(group.barrier());
      }
      for (Offset at = 0; at < kPieces * kPiece; ++at)
        ASSERT_EQ(bytes[static_cast<std::size_t>(at)], all[in_file(at)]) << at;
    });
    std::vector<std::byte> stored(kSize);
    ASSERT_TRUE(open_memory(file)->read({0, kSize}, stored.data()));
    EXPECT_TRUE(stored == all) << ranks_per_node << " ranks a node";
  }
}

}  // namespace
}  // namespace stridio
