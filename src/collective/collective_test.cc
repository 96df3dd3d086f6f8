#include "collective/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "group/threads.h"
#include "storage/memory.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

// Counts the calls that make the file longer.
class CountsLengthening final : public Wrapped {
 public:
  CountsLengthening(const std::shared_ptr<MemoryFile>& file, std::atomic<int>& count)
      : Wrapped(open_memory(file, {.read = true, .write = true})), count_(count) {}

  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    for (const Extent& extent : extents)
      if (extent.end() > size().value_or(0)) ++count_;
    return Wrapped::writev(extents, memory);
  }
  Caps caps() const override { return {}; }

 private:
  std::atomic<int>& count_;
};

// Storage that is waited for, where writes overlap within the file only.
Profile far_away() {
  Profile profile;
  profile.write = {.request_seconds = 1e-3, .byte_seconds = 1e-9, .depth = 8, .overlap = 8, .extends_alone = true};
  profile.read = profile.write;
  return profile;
}

TEST(Collective, AWriteToFarStorageLengthensTheFileOnce) {
  constexpr int kRanks = 4;
  constexpr Bytes kPiece = 4096, kBlock = kRanks * kPiece;
  for (const Bytes pieces : {Bytes{4}, Bytes{512}}) {
    const Bytes size = kBlock * pieces;
    const auto file = make_memory_file();
    std::atomic<int> lengthened = 0;
    run_threads(kRanks, {}, [&](Group& group) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(pieces * kPiece), static_cast<std::byte>(group.rank() + 1));
      CountsLengthening storage(file, lengthened);
      CollectiveRequest request;
      request.direction = Direction::kWrite;
      request.file = Pattern::strided(pieces, kBlock, Pattern::run(group.rank() * kPiece, kPiece));
      request.memory = {bytes.data(), Pattern::run(0, std::ssize(bytes))};
      request.profile = far_away();
      request.rules.force = "two_phase";
      Times times;
      const auto outcome = run_collective(group, storage, request, times);
      ASSERT_TRUE(outcome);
      EXPECT_EQ(outcome->moved.bytes, pieces * kPiece);
    });
    EXPECT_EQ(lengthened, 1) << pieces;
    const auto stored = open_memory(file, {.read = true, .write = true});
    ASSERT_EQ(stored->size().value(), size);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    ASSERT_TRUE(stored->read({0, size}, bytes.data()));
    for (Offset at = 0; at < size; ++at)
      ASSERT_EQ(static_cast<int>(bytes[static_cast<std::size_t>(at)]), at / kPiece % kRanks + 1) << at;
  }
}

}  // namespace
}  // namespace stridio
