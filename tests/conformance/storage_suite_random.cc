// Random operations, compared after each with a vector of bytes that had the same done to it.
#include <cstdlib>
#include <iostream>

#include "conformance/storage_suite.h"
#include "conformance/storage_suite_io.h"

namespace stridio {

namespace {

constexpr int kRounds = 400;
constexpr Offset kLargest = 20000;

std::uint64_t seed_of_this_run() {
  const char* given = std::getenv("STRIDIO_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::cout << "STRIDIO_SEED=" << seed << "\n";
  return seed;
}

// Extents in random order; disjoint where `disjoint`.
std::vector<Extent> random_extents(Random& random, bool disjoint) {
  std::vector<Extent> extents(draw(random, 0, 20));
  Offset next = draw(random, 0, kLargest / 2);
  for (Extent& extent : extents) {
    if (!disjoint) next = draw(random, 0, kLargest / 2);
    const Offset gap = draw(random, 0, 2) == 0 ? 0 : draw(random, 0, 100);
    extent = {next + gap, draw(random, 0, 3) == 0 ? 0 : draw(random, 1, 300)};
    next = extent.end();
  }
  if (draw(random, 0, 1) == 0) std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

// Memory for `length` bytes in pieces of random length and order, in a buffer with room between
// them.
struct ScatteredMemory {
  Data buffer;
  std::vector<Span> pieces;
};

ScatteredMemory scatter(Random& random, Bytes length) {
  std::vector<Extent> places;
  Offset end = 0;
  for (Bytes left = length; left > 0;) {
    const Bytes piece = std::min(left, draw(random, 0, 200));
    end += draw(random, 0, 1) == 0 ? 0 : draw(random, 1, 30);
    places.push_back({end, piece});
    end += piece;
    left -= piece;
  }
  std::shuffle(places.begin(), places.end(), random);
  ScatteredMemory memory{Data(end + 30, kUntouched), {}};
  for (const Extent& place : places) memory.pieces.push_back({memory.buffer.data() + place.offset, place.length});
  return memory;
}

class Oracle {
 public:
  Oracle(Random& random, Storage& storage) : random_(random), storage_(storage) {}

  void step() {
    switch (draw(random_, 0, 9)) {
      case 0: return resize();
      case 1: return reserve();
      case 2: return compare();
      case 3:
      case 4:
      case 5: return read();
      default: return write();
    }
  }

  void compare() {
    EXPECT_EQ(storage_.size(), static_cast<Bytes>(bytes_.size()));
    EXPECT_TRUE(whole(storage_) == bytes_);
  }

 private:
  void write() {
    const std::vector<Extent> extents = random_extents(random_, true);
    ScatteredMemory memory = scatter(random_, total_of(extents));
    const Data data = random_data(random_, total_of(extents));
    std::size_t at = 0;
    for (const Span& piece : memory.pieces) {
      std::copy_n(data.begin() + at, piece.length, piece.data);
      at += piece.length;
    }
    at = 0;
    for (const Extent& extent : extents) {
      if (extent.empty()) continue;
      if (extent.end() > static_cast<Offset>(bytes_.size())) bytes_.resize(extent.end());
      std::copy_n(data.begin() + at, extent.length, bytes_.begin() + extent.offset);
      at += extent.length;
    }
    write_all(storage_, extents, memory.pieces);
  }

  // The bytes that a read of these extents yields: those before the first one missing.
  Data expected(const std::vector<Extent>& extents) const {
    Data data;
    for (const Extent& extent : extents) {
      const Extent present = intersect(extent, {0, static_cast<Bytes>(bytes_.size())});
      if (!present.empty()) data.insert(data.end(), bytes_.begin() + present.offset, bytes_.begin() + present.end());
      if (present.length < extent.length) break;
    }
    return data;
  }

  void read() {
    const std::vector<Extent> extents = random_extents(random_, false);
    ScatteredMemory memory = scatter(random_, total_of(extents));
    ScatteredMemory wanted = memory;
    const Data data = expected(extents);
    std::size_t at = 0;
    for (const Span& piece : memory.pieces) {
      const std::size_t length = std::min<std::size_t>(piece.length, data.size() - at);
      std::copy_n(data.begin() + at, length, wanted.buffer.begin() + (piece.data - memory.buffer.data()));
      at += length;
    }
    const auto moved = storage_.readv(extents, memory.pieces);
    ASSERT_TRUE(succeeded(moved));
    EXPECT_EQ(moved->bytes, static_cast<Bytes>(data.size()));
    EXPECT_EQ(moved->eof, moved->bytes < total_of(extents));
    EXPECT_TRUE(memory.buffer == wanted.buffer);
  }

  void resize() {
    const Bytes size = draw(random_, 0, kLargest);
    bytes_.resize(size);
    EXPECT_TRUE(succeeded(storage_.resize(size)));
  }

  void reserve() {
    const Bytes size = draw(random_, 0, kLargest);
    bytes_.resize(std::max<std::size_t>(bytes_.size(), size));
    EXPECT_TRUE(succeeded(storage_.reserve(size)));
  }

  Random& random_;
  Storage& storage_;
  Data bytes_;
};

}  // namespace

TEST_P(StorageSuite, AgreesWithAByteArray) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  Oracle oracle(random, *storage_);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", STRIDIO_SEED=" + std::to_string(seed));
    oracle.step();
  }
  oracle.compare();
}

}  // namespace stridio
