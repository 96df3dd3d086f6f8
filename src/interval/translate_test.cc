// Translation on threads and memory, against a byte array: everything arrives, each process has what its view says, and of
// two generations only what differs is moved.
#include "interval/translate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/memory.h"
#include "storage/wrap/fault.h"
#include "support/sanitized.h"

namespace stridio {
namespace {

constexpr Bytes kSize = Bytes{9} << 20;  // three windows
constexpr std::uint64_t kRounds = testing::rounds(5, 1);

using Memory = std::shared_ptr<MemoryFile>;

Memory interval_memory() {
  Memory file = make_memory_file();
  EXPECT_TRUE(IntervalFile::format(*open_memory(file)));
  return file;
}

std::unique_ptr<IntervalFile> opened(Group& group, const Memory& file, bool writes) {
  auto opened = IntervalFile::open(group, open_memory(file), writes);
  EXPECT_TRUE(opened) << opened.error().text();
  return opened ? *std::move(opened) : nullptr;
}

std::vector<Extent> extents_of(const IntervalMap& bytes) {
  std::vector<Extent> extents;
  for (MapCursor cursor(bytes); !cursor.done(); cursor.next()) extents.push_back(cursor.piece().range());
  return extents;
}

IntervalMap bytes_at(std::vector<Extent> extents) {
  WriteLog bytes;
  for (const Extent& each : extents) bytes.add({each.offset, each.length, each.offset});
  return bytes.merged();
}

bool equal(const IntervalMap& a, const IntervalMap& b) { return without(a, b).empty() && without(b, a).empty(); }

std::vector<Extent> random_extents(Random& random, int count, Bytes longest) {
  std::vector<Extent> extents;
  for (int i = 0; i < count; ++i) extents.push_back({draw(random, 0, kSize - longest), draw(random, 1, longest)});
  return extents;
}

// Who has each byte; -1: nobody.
std::vector<int> owners_of(std::span<const IntervalMap> bytes) {
  std::vector<int> owners(static_cast<std::size_t>(kSize), -1);
  for (std::size_t process = 0; process < bytes.size(); ++process)
    for (const Extent& extent : extents_of(bytes[process]))
      std::fill_n(owners.begin() + extent.offset, extent.length, static_cast<int>(process));
  return owners;
}

void move_all(Group& group, Storage& source, const IntervalMap& content, const Owners& owners, IntervalFile& target,
              int readers) {
  const Bytes size = *source.size();
  EXPECT_TRUE(target.resize(size));
  const Status moved = move_to_owners(group, source, content, owners, target, readers, {});
  EXPECT_TRUE(moved) << moved.error().text();
  EXPECT_TRUE(target.commit());
}

TEST(Views, AreRepeatedToTheEnd) {
  const TiledView view{.displacement = 10, .tile = Pattern::strided(2, 6, Pattern::run(1, 4)), .extent = 20};
  EXPECT_TRUE(equal(bytes_of(view, 52), bytes_at({{11, 4}, {17, 4}, {31, 4}, {37, 4}, {51, 1}})));
  // Tiles that interleave.
  const TiledView laced{.displacement = 0, .tile = Pattern::strided(2, 10, Pattern::run(0, 2)), .extent = 5};
  EXPECT_TRUE(equal(bytes_of(laced, 22), bytes_at({{0, 2}, {5, 2}, {10, 2}, {15, 2}, {20, 2}})));
  const TiledView all{.displacement = 3, .tile = Pattern::run(0, 1), .extent = 1};
  EXPECT_TRUE(equal(bytes_of(all, Bytes{1} << 40), bytes_at({{3, (Bytes{1} << 40) - 3}})));
  // Tiles that have more behind the end than can be looked at: one, some that interleave, and some that overlap.
  const Pattern endless = Pattern::strided(Bytes{1} << 60, 2, Pattern::run(0, 1));
  const IntervalMap odd = bytes_at({{7, 1}, {9, 1}, {11, 1}});
  EXPECT_TRUE(equal(bytes_of({.displacement = 7, .tile = endless, .extent = Bytes{1} << 62}, 12), odd));
  EXPECT_TRUE(equal(bytes_of({.displacement = 7, .tile = endless, .extent = 4}, 12), odd));
  const Pattern doubled = Pattern::strided(Bytes{1} << 60, 2, Pattern::run(0, 3));
  EXPECT_TRUE(equal(bytes_of({.displacement = 7, .tile = doubled, .extent = 1}, 30), bytes_at({{7, 23}})));
  EXPECT_TRUE(bytes_of({.displacement = 30, .tile = Pattern::run(0, 5), .extent = 5}, 20).empty());
  EXPECT_TRUE(bytes_of({}, 20).empty());
}

TEST(Assign, TheLastViewCountsAndNothingIsLost) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < 2 * kRounds; ++round) {
    Random random(seed + round);
    std::vector<IntervalMap> views;
    for (int i = 0; i < 4; ++i) views.push_back(bytes_at(random_extents(random, 30, 300000)));
    const IntervalMap content = bytes_at(random_extents(random, 10, 2000000));
    const Owners owners = assign(views, content);
    std::vector<int> expected = owners_of(views);
    const std::vector<int> present = owners_of({&content, 1});
    Bytes unclaimed = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (present[i] < 0) expected[i] = -1;
      if (present[i] == 0 && expected[i] < 0) {
        expected[i] = 0;
        ++unclaimed;
      }
    }
    EXPECT_TRUE(owners_of(owners.bytes) == expected) << seed + round;
    EXPECT_EQ(owners.unclaimed, unclaimed);
  }
}

TEST(Translate, EveryProcessHasItsViewAndTheBytesAreTheSame) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Random random(seed + round);
    Oracle oracle;
    const Memory source = interval_memory(), target = interval_memory(), flat = make_memory_file();
    run_threads(3, {}, [&](Group& group) {  // by three, with holes
      Random mine(seed + round * 100 + static_cast<std::uint64_t>(group.rank()));
      const auto file = opened(group, source, true);
      auto extents = random_extents(mine, 20, 100000);
      for (Extent& extent : extents) extent = intersect(extent, {kSize / 3 * group.rank(), kSize / 3});
      std::erase_if(extents, [](const Extent& extent) { return extent.empty(); });
      std::sort(extents.begin(), extents.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
      Bytes bytes = 0;
      for (const Extent& extent : extents) bytes += extent.length;
      Data data = random_data(mine, bytes);
      EXPECT_TRUE(write_list(*file, extents, data));
      EXPECT_TRUE(file->resize(kSize - 7));
      EXPECT_TRUE(file->commit());
      if (group.rank() == 0) oracle.bytes = *read_all(*file);
    });
    const int ranks = static_cast<int>(draw(random, 1, 5)), readers = static_cast<int>(draw(random, 1, 5));
    const Deep deep{.depth = static_cast<int>(draw(random, 1, 4)), .unit = draw(random, 1000, 100000)};
    std::vector<IntervalMap> views;
    for (int i = 0; i < ranks; ++i) views.push_back(bytes_at(random_extents(random, 50, 100000)));
    std::vector<IntervalMap> expected;
    run_threads(ranks, {}, [&](Group& group) {
      std::unique_ptr<IntervalFile> from;
      run_threads(1, {}, [&](Group& alone) {
        from = opened(alone, source, false);
        const IntervalMap content = *content_of(*from);
        const Owners owners = assign(views, content);
        const auto to = opened(group, target, true);
        move_all(group, *from, content, owners, *to, readers);
        const Status moved = move_to_flat(group, *from, content, *open_memory(flat), deep, nullptr, {});
        EXPECT_TRUE(moved) << moved.error().text();
        if (group.rank() == 0) expected = owners.bytes;
        from.reset();
      });
    });
    run_threads(1, {}, [&](Group& group) {
      const auto file = opened(group, target, false);
      EXPECT_TRUE(*read_all(*file) == oracle.bytes) << seed + round;
      const auto found = *content_by_process(*file);
      EXPECT_EQ(found.size(), static_cast<std::size_t>(ranks));
      EXPECT_TRUE(owners_of(found) == owners_of(expected)) << seed + round;
      Data bytes = *read_all(*open_memory(flat));
      bytes.resize(oracle.bytes.size());
      EXPECT_TRUE(bytes == oracle.bytes);
    });
    const auto check = check_interval_file(*open_memory(target));
    EXPECT_TRUE(check && check->damage.empty());
  }
}

TEST(Follow, OnlyWhatChangedIsMovedAndEveryGenerationIsWhole) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Random random(seed + round);
    const Memory source = interval_memory(), target = interval_memory();
    run_threads(1, {}, [&](Group& group) {
      Oracle oracle;
      const auto writer = opened(group, source, true), to = opened(group, target, true);
      std::unique_ptr<IntervalFile> before;
      std::unique_ptr<Storage> flat;
      for (int generation = 0; generation < 12; ++generation) {
        auto extents = random_extents(random, static_cast<int>(draw(random, 1, 6)), generation == 0 ? 3000000 : 3000);
        std::sort(extents.begin(), extents.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
        WriteLog written;
        for (const Extent& extent : extents) {
          Data data = random_data(random, extent.length);
          EXPECT_TRUE(write_list(*writer, {&extent, 1}, data));
          oracle.write({&extent, 1}, data);
          written.add({extent.offset, extent.length, extent.offset});
        }
        Offset cut = static_cast<Bytes>(oracle.bytes.size());
        if (draw(random, 0, 3) == 0) {  // cut off, and maybe grown again
          cut = draw(random, 0, cut);
          const Bytes grown = draw(random, 0, 1) == 0 ? cut : cut + 5000;
          EXPECT_TRUE(writer->resize(cut));
          EXPECT_TRUE(writer->resize(grown));
          oracle.bytes.resize(static_cast<std::size_t>(cut));
          oracle.bytes.resize(static_cast<std::size_t>(grown));
        }
        EXPECT_TRUE(writer->commit());
        auto now = opened(group, source, false);
        const IntervalMap content = before ? *changed_between(*before, *now) : *content_of(*now);
        if (before) {
          // What moves because it is stored anew is little beside the file.
          const IntervalMap needed = below(written.merged(), now->root().size);
          EXPECT_TRUE(without(below(needed, cut), content).empty());
          if (cut == now->root().size && now->root().parts.size() > 1) {
            EXPECT_LT(content.size(), needed.size() + kSize / 2) << seed + round;
          }
        }
        const std::vector<IntervalMap> views{all_bytes(kSize)};
        move_all(group, *now, content, assign(views, content), *to, 1);
        auto next = open_memory(make_memory_file());
        EXPECT_TRUE(next->resize(now->root().size));
        const std::optional<Earlier> earlier = flat ? std::optional<Earlier>({*flat, content}) : std::nullopt;
        EXPECT_TRUE(move_to_flat(group, *now, *content_of(*now), *next, {}, earlier ? &*earlier : nullptr, {}));
        flat = std::move(next);
        EXPECT_TRUE(*read_all(*flat) == oracle.bytes) << seed + round << " " << generation;
        before = std::move(now);
        EXPECT_TRUE(*read_all(*opened(group, target, false)) == oracle.bytes) << seed + round << " " << generation;
      }
    });
  }
}

// Bytes that neither generation moved are not read again.
TEST(Follow, WhatIsStoredAtTheSamePlaceIsEqual) {
  const Memory source = interval_memory();
  run_threads(1, {}, [&](Group& group) {
    const auto writer = opened(group, source, true);
    Data data(1000000, std::byte{1});
    const Extent all{0, 1000000}, some{300000, 1000};
    EXPECT_TRUE(write_list(*writer, {&all, 1}, data));
    EXPECT_TRUE(writer->commit());
    const auto before = opened(group, source, false);
    Data changed(1000, std::byte{2});
    EXPECT_TRUE(write_list(*writer, {&some, 1}, changed));
    EXPECT_TRUE(writer->commit());
    const auto now = opened(group, source, false);
    EXPECT_TRUE(equal(*changed_between(*before, *now), bytes_at({some})));
    EXPECT_TRUE(changed_between(*now, *now)->empty());
  });
}

// A file that is emptied while a generation of it is kept, and made anew: what is stored where that one had it is other bytes,
// or by chance the same.
TEST(Follow, AFileThatIsMadeAnewKeepsNothing) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed + round));
    Random random(seed + round);
    const Memory source = interval_memory();
    run_threads(1, {}, [&](Group& group) {
      Data data = random_data(random, 1000000);
      const auto write = [&](int generations) {
        const auto writer = opened(group, source, true);
        for (int i = 0; i < generations; ++i) {
          const Extent part{0, std::ssize(data) / (i + 1)};
          Data some(data.begin(), data.begin() + part.length);
          EXPECT_TRUE(write_list(*writer, {&part, 1}, some));
          EXPECT_TRUE(writer->commit());
        }
      };
      write(1);
      const auto before = opened(group, source, false);
      EXPECT_TRUE(content_of(*before));  // knows the maps
      const auto at = static_cast<std::size_t>(draw(random, 0, std::ssize(data) - 1));
      const auto end = at + static_cast<std::size_t>(draw(random, 1, std::ssize(data) - static_cast<Bytes>(at)));
      for (std::size_t i = at; i < end; ++i) data[i] ^= std::byte{1};
      EXPECT_TRUE(open_memory(source)->resize(0));
      write(static_cast<int>(draw(random, 1, 3)));
      const auto now = opened(group, source, false);
      const auto changed = changed_between(*before, *now);
      ASSERT_TRUE(changed) << changed.error().text();
      const IntervalMap differs = bytes_at({{static_cast<Offset>(at), static_cast<Bytes>(end - at)}});
      EXPECT_TRUE(without(differs, *changed).empty());
    });
  }
}

// A rank that cannot write fails all, at whichever of its writes.
TEST(Translate, AFullDiskIsEverybodys) {
  const Memory source = make_memory_file();
  Data data(static_cast<std::size_t>(kSize), std::byte{7});
  const Extent all{0, kSize};
  EXPECT_TRUE(write_list(*open_memory(source), {&all, 1}, data));
  for (const std::int64_t which : {0, 1, 2}) {
    const Memory target = interval_memory(), flat = make_memory_file();
    run_threads(3, {}, [&](Group& group) {
      const auto faulty = [&](const Memory& file) {
        return wrap_fault(open_memory(file), {.kinds = kFaultWrite,
                                              .first = group.rank() == 1 ? which : FaultPlan::kNever,
                                              .every = 1,
                                              .sys_errno = ENOSPC});
      };
      const IntervalMap content = all_bytes(kSize);
      std::vector<IntervalMap> views;
      for (int rank = 0; rank < 3; ++rank)
        views.push_back(bytes_of({.displacement = 1000 * rank, .tile = Pattern::run(0, 1000), .extent = 3000}, kSize));
      auto to = IntervalFile::open(group, faulty(target), true);
      ASSERT_TRUE(to) << to.error().text();
      const Status moved = move_to_owners(group, *open_memory(source), content, assign(views, content), **to, 1, {});
      ASSERT_FALSE(moved);
      EXPECT_EQ(moved.error().code, Code::kNoSpace);
      EXPECT_EQ(moved.error().rank, 1);
      const Status flattened = move_to_flat(group, *open_memory(source), content, *faulty(flat), {}, nullptr, {});
      EXPECT_EQ(flattened.has_value(), which > 0);  // of three windows it has one
    });
  }
}

// A reader that fails in the middle fails all, and the target stays as it was.
TEST(Translate, AFailureIsEverybodys) {
  const Memory source = make_memory_file(), target = interval_memory();
  Data data(static_cast<std::size_t>(kSize), std::byte{7});
  const Extent all{0, kSize};
  EXPECT_TRUE(write_list(*open_memory(source), {&all, 1}, data));
  run_threads(3, {}, [&](Group& group) {
    const IntervalMap content = all_bytes(2 * kSize);  // more than there is
    const std::vector<IntervalMap> views(3, all_bytes(kSize));
    const auto to = opened(group, target, true);
    const Status moved = move_to_owners(group, *open_memory(source), content, assign(views, content), *to, 2, {});
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, Code::kIo);
    EXPECT_NE(moved.error().what.find("shorter"), std::string::npos);
  });
  run_threads(1, {}, [&](Group& group) { EXPECT_EQ(opened(group, target, false)->root().generation, 1u); });
}

}  // namespace
}  // namespace stridio
