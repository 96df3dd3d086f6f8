// Files that are not as they should be: a clear error, never wrong bytes, and `stridio check` says what is lost.
#include <gtest/gtest.h>

#include <chrono>

#include "interval/faulty.h"
#include "support/sanitized.h"

namespace stridio {
namespace {

TEST_F(Faulty, FlippedBitsAreFoundOrHarmless) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  int found = 0;
  for (std::size_t i = 0; i < 1500; ++i) {
    Data bytes = bytes_;
    // Half of them in the first bytes, and where metadata are.
    const auto at =
        static_cast<std::size_t>(draw(random, 0, i % 4 == 0 ? 70 : static_cast<std::int64_t>(bytes.size()) - 1));
    bytes[at] ^= static_cast<std::byte>(1 << draw(random, 0, 7));
    const auto read = read_back(bytes);
    if (read) {
      EXPECT_TRUE(*read == expected_) << at << ", STRIDIO_SEED=" << seed;
    } else {
      ++found;
      EXPECT_FALSE(read.error().what.empty());
      EXPECT_FALSE(checked(bytes).damage.empty()) << at << ", STRIDIO_SEED=" << seed;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 250);
}

// By a few small requests, whatever the file is.
TEST_F(Faulty, HeadsThatAreReadInPartsTellTheSame) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE("round " + std::to_string(i) + ", STRIDIO_SEED=" + std::to_string(seed));
    Data bytes = i % 8 == 0 ? birth_header() : bytes_;
    if (i % 8 == 1) bytes.assign(bytes.size(), std::byte{'x'});
    if (draw(random, 0, 2) == 0)
      bytes.resize(static_cast<std::size_t>(draw(random, 0, std::min(kFirstStored + 100, std::ssize(bytes)))));
    if (i % 8 == 0) bytes.resize(static_cast<std::size_t>(draw(random, 0, 2 * kFirstStored)));
    for (std::int64_t damage = draw(random, 0, 4); damage > 0 && !bytes.empty(); --damage) {
      const Offset at = draw(random, 0, kHeaders - 1) * kHeaderStep + draw(random, 0, kHeaderBytes + 20);
      bytes[static_cast<std::size_t>(std::min(at, std::ssize(bytes) - 1))] ^=
          static_cast<std::byte>(1 << draw(random, 0, 7));
    }
    const auto copy = make_memory_file();
    ASSERT_TRUE(open_memory(copy)->write({0, std::ssize(bytes)}, bytes.data()));
    const auto whole = Head::read(*open_memory(copy));
    auto parts = Head::read(*open_memory(copy), true);
    ASSERT_TRUE(whole && parts);
    EXPECT_EQ(parts->content(), whole->content());
    if (whole->content() != Head::Content::kIntervals) continue;
    EXPECT_EQ(parts->is_unfinished(), whole->is_unfinished());
    for (int again = 0; again < 2; ++again) {
      const auto expected = whole->newest(), got = parts->newest();
      ASSERT_EQ(got.has_value(), expected.has_value()) << (got ? expected : got).error().text();
      if (!got) {
        EXPECT_EQ(got.error().text(), expected.error().text());
        break;
      }
      EXPECT_EQ(got->generation, expected->generation);
      EXPECT_EQ(got->tail, expected->tail);
      parts = (*std::move(parts)).read_again(*open_memory(copy));
      ASSERT_TRUE(parts);
    }
  }
}

TEST_F(Faulty, AGenerationThatComesIsSeenByWhoLooksAgain) {
  for (int epoch = 2; epoch < 6; ++epoch) {
    auto head = Head::read(*storage(), true);
    ASSERT_TRUE(head);
    const std::uint64_t before = head->newest()->generation;
    run_threads(3, {}, [&](Group& group) { ASSERT_TRUE(write_turns(group, epoch, kTurns)); });
    head = (*std::move(head)).read_again(*storage());
    ASSERT_TRUE(head);
    EXPECT_EQ(head->newest()->generation, before + 1);
  }
  // The first one that a new file has.
  const auto file = make_memory_file();
  ASSERT_TRUE(IntervalFile::format(*open_memory(file)));
  ASSERT_TRUE(open_memory(file)->resize(2 * kFirstStored));
  auto head = Head::read(*open_memory(file), true);
  ASSERT_TRUE(head);
  const Data slot = encode_slot(Header{.generation = kBirth + 1, .root = {kFirstStored, 10}, .root_sum = 1});
  ASSERT_TRUE(open_memory(file)->write({slot_of(kBirth + 1), std::ssize(slot)}, slot.data()));
  head = (*std::move(head)).read_again(*open_memory(file));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->newest()->generation, kBirth + 1);
}

TEST_F(Faulty, TruncatedFilesAreRefused) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    Data bytes = bytes_;
    bytes.resize(static_cast<std::size_t>(
        draw(random, kHeaderStep + kHeaderBytes, static_cast<std::int64_t>(bytes.size()) - 1)));
    const auto read = read_back(bytes);
    if (read) {
      EXPECT_TRUE(*read == expected_) << bytes.size();
      continue;
    }
    EXPECT_EQ(read.error().code, Code::kIo);
    EXPECT_NE(read.error().what.find("truncated"), std::string::npos) << read.error().what;
    EXPECT_FALSE(checked(bytes).damage.empty());
  }
}

// Which bytes of the user's file are lost, against all pieces one by one.
TEST_F(Faulty, WhatIsLostIsNamed) {
  const std::uint64_t seed = seed_of_this_run();
  Random random(seed);
  auto generation = *Generation::newest(*storage());
  for (int i = 0; i < 100; ++i) {
    const bool cut = i % 2 == 1;
    const Offset at = draw(random, kFirstStored, std::ssize(bytes_) - 1);
    Data bytes = bytes_;
    if (cut)
      bytes.resize(static_cast<std::size_t>(at));
    else
      bytes[static_cast<std::size_t>(at)] ^= std::byte{1};
    std::vector<std::string> expected;
    for (std::size_t k = 0; k < generation->root().parts.size(); ++k) {
      const PartEntry& entry = generation->root().parts[k];
      const Extent metadata = entry.metadata;
      if (!in_tail(metadata) && (cut ? metadata.end() > at : !intersect(metadata, {at, 1}).empty())) {
        expected.push_back(
            fmt::format("its {} bytes between {} and {}", entry.bytes, entry.bounds.offset, entry.bounds.end()));
        continue;
      }
      Bytes lost = 0;
      std::vector<Extent> ranges;
      for (MapCursor cursor((*generation->part(k, *storage()))->map); !cursor.done(); cursor.next())
        for (const Extent& run : entry.runs) {
          // From the first cell on of which some is missing; or the cell that is changed.
          Extent place = intersect(run, {at, cut ? run.end() : 1});
          if (place.empty()) continue;
          const Extent cell = cell_at(run, place.offset);
          place = cut ? Extent{cell.offset, run.end() - cell.offset} : cell;
          const Piece piece = cursor.piece();
          const Extent stored = intersect(piece.stored_range(), place);
          if (stored.empty()) continue;
          lost += stored.length;
          ranges.push_back({piece.logical + stored.offset - piece.stored, stored.length});
        }
      if (lost > 0)
        expected.push_back(
            fmt::format("they are {} byte{} of the file: {} .. ", lost, lost == 1 ? "" : "s", ranges.front().offset));
      if (ranges.size() > 3) expected.push_back(fmt::format(" and others up to {}", ranges.back().end()));
    }
    const Check check = checked(bytes);
    for (const std::string& each : expected)
      EXPECT_TRUE(std::any_of(check.damage.begin(), check.damage.end(),
                              [&](const std::string& line) { return line.find(each) != std::string::npos; }))
          << each << ", not in " << check.damage.back() << ", " << cut << " at " << at << ", STRIDIO_SEED=" << seed;
    EXPECT_EQ(check.damage.empty(), expected.empty()) << cut << " at " << at << ", STRIDIO_SEED=" << seed;
    for (const std::string& line : check.damage) EXPECT_LT(line.size(), 400u);
  }
}

// What is left of a file of which less than the first slot was copied is no newborn one.
TEST_F(Faulty, LittleOfAFileIsNotANewOne) {
  const auto cut_to = [&](Bytes length) { return Data(bytes_.begin(), bytes_.begin() + length); };
  for (const Bytes length : {kHeaderBytes + 1, kHeaderStep, kHeaderStep + kHeaderBytes, kHeaderStep + 200}) {
    const auto read = read_back(cut_to(length));
    ASSERT_FALSE(read) << length;
    EXPECT_NE(read.error().what.find("truncated"), std::string::npos) << read.error().what;
    EXPECT_FALSE(checked(cut_to(length)).damage.empty());
  }
  EXPECT_EQ(read_back(cut_to(kHeaderBytes)), Data()) << "this is how a file is born";
  EXPECT_TRUE(checked(cut_to(kHeaderBytes)).damage.empty());
}

// A commit tears one slot at most: where none of both is whole the file is damaged, not empty.
TEST_F(Faulty, BothSlotsLostIsDamage) {
  Data bytes = bytes_;
  for (int i = 1; i < kHeaders; ++i) bytes[static_cast<std::size_t>(i * kHeaderStep) + 20] ^= std::byte{1};
  const auto read = read_back(bytes);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().what.find("wrong checksum"), std::string::npos) << read.error().what;
  EXPECT_FALSE(checked(bytes).damage.empty());
}

TEST_F(Faulty, TheBirthIsNotNeeded) {
  Data bytes = bytes_;
  std::fill_n(bytes.begin(), kHeaderBytes, std::byte{0});
  EXPECT_TRUE(read_back(bytes) == expected_);
  EXPECT_TRUE(checked(bytes).damage.empty());
  EXPECT_EQ(checked(bytes).notes.size(), 1U);
}

TEST_F(Faulty, OneCopyOfTheNewestHeaderIsEnough) {
  const auto newest = static_cast<std::size_t>(slot_of(3));
  Data bytes = bytes_;
  bytes[newest + 20] ^= std::byte{1};
  EXPECT_TRUE(read_back(bytes) == expected_);
  EXPECT_TRUE(checked(bytes).damage.empty());
  EXPECT_EQ(checked(bytes).notes.size(), 1U);
  bytes[newest + static_cast<std::size_t>(kHeaderStep) + 20] ^= std::byte{1};  // as a crash in the commit may leave it
  EXPECT_TRUE(read_back(bytes) == pattern(0, kTurns));
  ASSERT_EQ(checked(bytes).notes.size(), 3U);
  EXPECT_NE(checked(bytes).notes.back().find("no copy of header slot 1"), std::string::npos);
}

TEST_F(Faulty, UnknownVersionsAreNamed) {
  Data bytes = bytes_;
  bytes[8] = std::byte{7};
  EXPECT_TRUE(read_back(bytes) == expected_) << "one copy is damaged";
  const std::uint32_t sum = crc32c(std::span(bytes).first(kHeaderBytes - 4));
  for (int i = 0; i < 4; ++i) bytes[static_cast<std::size_t>(kHeaderBytes - 4 + i)] = std::byte(sum >> 8 * i);
  const auto read = read_back(bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnsupportedOperation);
  EXPECT_NE(read.error().what.find("version 7"), std::string::npos);
  const auto copy = make_memory_file();
  EXPECT_TRUE(open_memory(copy)->write({0, std::ssize(bytes)}, bytes.data()));
  const auto check = check_interval_file(*open_memory(copy));
  ASSERT_FALSE(check) << "what is not known is not damaged";
  EXPECT_NE(check.error().what.find("version 7"), std::string::npos);
}

TEST_F(Faulty, HostileRootsAreRefused) {
  const auto refused = [&](const std::function<void(Root&)>& change) {
    const auto read = read_back(with_root(change));
    return !read && read.error().code == Code::kIo;
  };
  ASSERT_TRUE(read_back(with_root([](Root&) {})));
  constexpr Offset kFar = Offset{1} << 61;
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs = root.parts[1].runs; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].metadata = root.parts[1].metadata; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].metadata.length = kFar; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].metadata.offset = kFar; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].metadata = {kFar, kFar + 1}; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs = {{kFar, 100000}}; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs.clear(); }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs.front().length = 0; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs.front().length = -1; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs.front().length -= 100; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].runs.insert(root.parts[0].runs.begin(), {0, 10}); }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].bytes += 1; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].bounds.length += 1; }));
  EXPECT_TRUE(refused([](Root& root) { root.parts[0].bounds = {kFar, kFar}; }));
  EXPECT_TRUE(refused([](Root& root) { root.size -= 1; }));
  EXPECT_TRUE(refused([](Root& root) { root.size = -1; }));
  EXPECT_TRUE(refused([](Root& root) { --root.generation; }));
  EXPECT_TRUE(refused([](Root& root) { root.generation = kLastGeneration; }));
}

TEST_F(Faulty, IntervalsOfTwoProcessesAreFoundByTheCheck) {
  const auto generation = Generation::newest(*storage());
  const auto first = (*generation)->part(0, *storage());
  const Root& root = (*generation)->root();
  // The second process's metadata become the first's intervals in the second's runs.
  const auto second = (*generation)->part(1, *storage());
  MapBuilder builder;
  Offset stored = root.parts[1].runs.front().offset;
  for (MapCursor cursor((*first)->map); !cursor.done(); cursor.next()) {
    builder.add({cursor.piece().logical, 10, stored});
    stored += 10;
  }
  const Part forged{builder.finish(), (*second)->sums};
  const Data metadata = encode(forged);
  Data bytes = with_root([&](Root& changed) {
    changed.parts[1].metadata = {static_cast<Offset>(bytes_.size()) + 10000, static_cast<Bytes>(metadata.size())};
    changed.parts[1].sum = crc32c(metadata);
    changed.parts[1].bounds = forged.map.bounds();
    changed.parts[1].bytes = forged.map.size();
  });
  bytes.resize(bytes_.size() + 10000);
  bytes.insert(bytes.end(), metadata.begin(), metadata.end());
  const Check check = checked(bytes);
  ASSERT_EQ(check.damage.size(), 1u);
  EXPECT_NE(check.damage.front().find("overlap"), std::string::npos);
}

// A file of parts whose sums are right, each of pieces of one byte, at the places given.
Data forged_file(const std::vector<std::vector<Offset>>& places) {
  Root root{.generation = kBirth + 1, .size = 0, .processes = static_cast<std::uint32_t>(places.size()), .parts = {}};
  Data bytes = birth_header();
  bytes.resize(static_cast<std::size_t>(kFirstStored));
  const auto append = [&](const Data& more) {
    const Extent at{std::ssize(bytes), std::ssize(more)};
    bytes.insert(bytes.end(), more.begin(), more.end());
    return at;
  };
  for (std::size_t process = 0; process < places.size(); ++process) {
    const Extent run = append(Data(places[process].size()));
    MapBuilder map;
    for (std::size_t i = 0; i < places[process].size(); ++i)
      map.add({places[process][i], 1, run.offset + static_cast<Offset>(i)});
    Part part{map.finish(), {}};
    for (Offset at = run.offset; at < run.end(); at = cell_at(run, at).end())
      part.sums.push_back(crc32c(Data(static_cast<std::size_t>(cell_at(run, at).length))));
    const Data metadata = encode(part);
    root.size = std::max(root.size, part.map.bounds().end());
    root.parts.push_back({static_cast<std::uint32_t>(process),
                          append(metadata),
                          crc32c(metadata),
                          part.map.bounds(),
                          part.map.size(),
                          {run}});
  }
  const Data encoded = encode(root);
  const Data slot = encode_slot({.generation = root.generation, .root = append(encoded), .root_sum = crc32c(encoded)});
  std::copy(slot.begin(), slot.end(), bytes.begin() + slot_of(root.generation));
  return bytes;
}

TEST_F(Faulty, AllPairsThatOverlapAreFoundByTheCheck) {
  const std::uint64_t seed = seed_of_this_run();
  for (std::uint64_t round = 0; round < 200; ++round) {
    Random random(seed + round);
    std::vector<std::vector<Offset>> places(static_cast<std::size_t>(draw(random, 1, 8)));
    const Offset end = draw(random, 40, 400);
    for (auto& each : places) {
      for (std::int64_t left = draw(random, 1, 12); left > 0; --left) each.push_back(draw(random, 0, end));
      std::sort(each.begin(), each.end());
      each.erase(std::unique(each.begin(), each.end()), each.end());
    }
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t k = i + 1; k < places.size(); ++k)
        if (std::find_first_of(places[i].begin(), places[i].end(), places[k].begin(), places[k].end()) !=
            places[i].end())
          expected.push_back("intervals of processes " + std::to_string(i) + " and " + std::to_string(k) + " overlap");
    EXPECT_EQ(checked(forged_file(places)).damage, expected) << "STRIDIO_SEED=" << seed + round;
  }
}

// Parts that lie in turns, as of many processes: each with each would take minutes.
TEST_F(Faulty, ManyPartsAreCheckedInOneSweep) {
  constexpr Offset kParts = testing::kSanitized ? 500 : 10000, kPieces = 100;
  std::vector<std::vector<Offset>> places(kParts);
  for (Offset part = 0; part < kParts; ++part)
    for (Offset piece = 0; piece < kPieces; ++piece)
      places[static_cast<std::size_t>(part)].push_back(2 * (piece * kParts + part) + piece % 2);
  const Data bytes = forged_file(places);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(checked(bytes).damage.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

}  // namespace
}  // namespace stridio
