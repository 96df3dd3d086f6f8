// What is kept is seen over what is stored, handed on in order, and lost by nobody's failure.
#include "interval/cache.h"

#include <gtest/gtest.h>

#include "interval/testing.h"
#include "storage/memory.h"

namespace stridio {
namespace {

constexpr Offset kReach = 50000;

// Blocks of a random size at random places, in any order.
std::vector<Extent> random_extents(Random& random) {
  std::vector<Extent> extents;
  const Bytes block = draw(random, 1, 300);
  Offset at = draw(random, 0, kReach / 4);
  for (std::int64_t left = draw(random, 1, 40); left > 0 && at < kReach; --left) {
    extents.push_back({at, draw(random, 0, 2) == 0 ? draw(random, 1, block) : block});
    at += block + draw(random, 0, 1) * draw(random, 0, 2 * block);
  }
  if (draw(random, 0, 3) == 0) std::shuffle(extents.begin(), extents.end(), random);
  return extents;
}

void hand_on(WriteCache& cache, Storage& storage) {
  const WriteCache::Batch batch = cache.oldest();
  ASSERT_TRUE(batch.file.ascending());
  std::vector<std::byte> packed(static_cast<std::size_t>(batch.file.size()));
  pack(packed.data(), batch.memory.base, batch.memory.pattern);
  std::vector<Extent> extents;
  for (Cursor cursor(batch.file); !cursor.done();) extents.push_back(cursor.next_range());
  const Span span{packed.data(), static_cast<Bytes>(packed.size())};
  ASSERT_TRUE(storage.writev(extents, {&span, 1}));
  cache.drop();
}

TEST(WriteCache, IsSeenOverTheStorage) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Random random(seed + round);
    const auto storage = open_memory(make_memory_file());
    Oracle oracle;
    Data first = random_data(random, draw(random, 0, kReach));
    ASSERT_TRUE(storage->write({0, static_cast<Bytes>(first.size())}, first.data()));
    oracle.bytes = first;
    WriteCache cache(*storage, draw(random, 1, 1 << draw(random, 4, 20)));
    for (int step = 0; step < 40; ++step) {
      const std::vector<Extent> extents = random_extents(random);
      Bytes bytes = 0;
      for (const Extent& extent : extents) bytes += extent.length;
      switch (draw(random, 0, 3)) {
        case 0:
        case 1: {
          Data data = random_data(random, bytes);
          ASSERT_TRUE(cache.put(Pattern::extents(extents), {data.data(), Pattern::run(0, bytes)}));
          oracle.write(extents, data);
          ASSERT_FALSE(cache.empty());
          break;
        }
        case 2: {
          Bytes present = 0;  // a list ends at the first extent that meets the end
          bool eof = false;
          Data wanted;
          for (const Extent& extent : extents) {
            const Data part = eof ? Data{} : oracle.read(extent);
            wanted.insert(wanted.end(), part.begin(), part.end());
            present += static_cast<Bytes>(part.size());
            eof = eof || static_cast<Bytes>(part.size()) < extent.length;
          }
          Data got(static_cast<std::size_t>(bytes), std::byte{0x55});
          const Bytes half = bytes / 2;
          const Span spans[] = {{got.data(), half}, {got.data() + half, bytes - half}};
          const auto moved = cache.readv(extents, spans);
          ASSERT_TRUE(moved) << moved.error().text();
          ASSERT_EQ(moved->bytes, present);
          ASSERT_EQ(moved->eof, eof);
          got.resize(wanted.size());
          ASSERT_EQ(got, wanted);
          break;
        }
        case 3:
          if (!cache.empty() && draw(random, 0, 2) == 0) hand_on(cache, *storage);
          break;
      }
      ASSERT_EQ(cache.size(), static_cast<Bytes>(oracle.bytes.size()));
    }
    while (!cache.empty()) hand_on(cache, *storage);
    ASSERT_EQ(read_all(*storage), oracle.bytes);
  }
}

TEST(WriteCache, WhatIsPutWhileABatchIsHandedOnComesBehindIt) {
  const auto storage = open_memory(make_memory_file());
  WriteCache cache(*storage, 1000);
  Data old(10, std::byte{1}), young(10, std::byte{2});
  ASSERT_TRUE(cache.put(Pattern::run(0, 10), {old.data(), Pattern::run(0, 10)}));
  const auto first = cache.oldest();
  ASSERT_TRUE(cache.put(Pattern::run(5, 10), {young.data(), Pattern::run(0, 10)}));
  EXPECT_EQ(first.file.size(), 10);
  EXPECT_EQ(cache.batches(), 2);
  Data both(15, std::byte{2});
  std::fill_n(both.begin(), 5, std::byte{1});
  EXPECT_EQ(read_all(cache), both);
  cache.drop();  // as if it had been written elsewhere
  EXPECT_EQ(cache.oldest().file.bounds(), (Extent{5, 10}));
  cache.drop();
  EXPECT_TRUE(cache.empty());
}

TEST(WriteCache, RegularWritesAreARegularBatch) {
  const auto storage = open_memory(make_memory_file());
  WriteCache cache(*storage, 1 << 20);
  Data data(8, std::byte{1});
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(cache.put(Pattern::run(i * 32, 8), {data.data(), Pattern::run(0, 8)}));
  EXPECT_TRUE(cache.fits((1 << 20) - 80000 - 1000));
  EXPECT_FALSE(cache.fits((1 << 20) - 80000 + 1));
  const auto batch = cache.oldest();
  EXPECT_LT(batch.file.footprint() + batch.memory.pattern.footprint(), 2000);
  EXPECT_TRUE(batch.memory.pattern.contiguous());
}

}  // namespace
}  // namespace stridio
