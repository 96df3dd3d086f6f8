#include "conformance/storage_suite.h"

#include <algorithm>
#include <cstdlib>

#include "conformance/storage_suite_io.h"

namespace stridio {

void PrintTo(const StorageCase& one, std::ostream* out) { *out << one.name; }

std::string storage_case_name(const ::testing::TestParamInfo<StorageCase>& info) { return info.param.name; }

void StorageSuite::SetUp() {
  opener_ = GetParam().fresh();
  storage_ = open();
}

std::unique_ptr<Storage> StorageSuite::open(const OpenMode& mode) {
  auto opened = opener_(mode);
  if (!opened) {
    ADD_FAILURE() << opened.error().text();
    std::abort();
  }
  return std::move(*opened);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StorageSuite);

// ---- Contents

TEST_P(StorageSuite, StartsEmpty) {
  EXPECT_EQ(storage_->size(), Bytes{0});
  EXPECT_TRUE(read_at(*storage_, 0, 10).empty());
  EXPECT_FALSE(storage_->path().empty());
}

TEST_P(StorageSuite, CapabilitiesAreNumbersOneCanDivideBy) {
  const Caps caps = storage_->caps();
  EXPECT_GE(caps.alignment, 1);
  EXPECT_GE(caps.preferred, 1);
  EXPECT_GE(caps.largest_list, 1);
}

TEST_P(StorageSuite, ReadsBackWhatWasWritten) {
  Random random(1);
  const Data data = random_data(random, 3 << 20);
  write_at(*storage_, 0, data);
  EXPECT_EQ(storage_->size(), static_cast<Bytes>(data.size()));
  EXPECT_TRUE(whole(*storage_) == data);
  EXPECT_EQ(read_at(*storage_, 100, 50), Data(data.begin() + 100, data.begin() + 150));
}

TEST_P(StorageSuite, OverwritesOnlyWhatIsAsked) {
  write_at(*storage_, 0, numbered(100));
  write_at(*storage_, 40, Data(10, std::byte{0}));
  EXPECT_EQ(whole(*storage_), joined({numbered(40), Data(10), numbered(50, 51)}));
}

TEST_P(StorageSuite, ListsMayBeInAnyOrder) {
  Data data = numbered(9);
  write_all(*storage_, {{20, 3}, {0, 2}, {10, 4}}, {span_of(data)});
  EXPECT_EQ(storage_->size(), Bytes{23});
  EXPECT_EQ(read_list(*storage_, {{10, 4}, {20, 3}, {0, 2}}), joined({numbered(4, 6), numbered(3, 1), numbered(2, 4)}));
}

TEST_P(StorageSuite, AdjacentExtentsOfAnyOrderKeepTheirOrder) {
  Data data = numbered(6);
  write_all(*storage_, {{2, 2}, {4, 2}, {0, 2}}, {span_of(data)});
  EXPECT_EQ(whole(*storage_), joined({numbered(2, 5), numbered(4, 1)}));
  EXPECT_EQ(read_list(*storage_, {{4, 2}, {2, 2}, {0, 2}}), joined({numbered(2, 3), numbered(2, 1), numbered(2, 5)}));
}

TEST_P(StorageSuite, MemoryMayBeCutElsewhereThanExtents) {
  Data out = numbered(30);
  write_all(*storage_, {{5, 10}, {50, 20}},
            {{out.data(), 3}, {out.data() + 3, 9}, {out.data() + 12, 1}, {out.data() + 13, 17}});
  EXPECT_EQ(read_list(*storage_, {{5, 10}, {50, 20}}), out);

  Data in(40, kUntouched);
  const std::vector<Extent> extents = {{50, 15}, {5, 10}};
  const std::vector<Span> memory = {{in.data() + 30, 10}, {in.data(), 2}, {in.data() + 10, 13}};
  const auto moved = storage_->readv(extents, memory);
  ASSERT_TRUE(succeeded(moved));
  EXPECT_EQ(moved->bytes, 25);
  EXPECT_EQ(in, joined({numbered(2, 21), Data(8, kUntouched), numbered(3, 23), numbered(10, 1), Data(7, kUntouched),
                        numbered(10, 11)}));
}

TEST_P(StorageSuite, NothingIsMovedByZeroLengths) {
  Data data = numbered(4);
  write_all(*storage_, {}, {});
  write_all(*storage_, {{1000, 0}}, {{nullptr, 0}});
  EXPECT_EQ(storage_->size(), Bytes{0});
  write_all(*storage_, {{1 << 20, 0}, {2, 2}, {7, 0}, {4, 0}, {4, 2}, {0, 0}},
            {{nullptr, 0}, {data.data(), 1}, {data.data(), 0}, {data.data() + 1, 3}, {nullptr, 0}});
  EXPECT_EQ(whole(*storage_), joined({Data(2), data}));
  EXPECT_EQ(read_list(*storage_, {{100, 0}, {3, 2}, {1 << 20, 0}}), numbered(2, 2));
}

TEST_P(StorageSuite, ReadsStopAtTheEnd) {
  write_at(*storage_, 0, numbered(100));
  EXPECT_EQ(read_at(*storage_, 90, 10), numbered(10, 91));
  EXPECT_EQ(read_at(*storage_, 90, 20), numbered(10, 91));
  EXPECT_TRUE(read_at(*storage_, 100, 1).empty());
  EXPECT_TRUE(read_at(*storage_, 5000, 10).empty());
  EXPECT_EQ(read_list(*storage_, {{0, 5}, {95, 10}, {200, 10}}), joined({numbered(5), numbered(5, 96)}));
}

TEST_P(StorageSuite, ReadsStopAtTheFirstExtentThatMeetsTheEnd) {
  write_at(*storage_, 0, numbered(100));
  EXPECT_EQ(read_list(*storage_, {{95, 10}, {0, 5}}), numbered(5, 96));
  EXPECT_TRUE(read_list(*storage_, {{200, 10}, {0, 5}}).empty());
}

TEST_P(StorageSuite, HolesAreZeros) {
  write_at(*storage_, 0, numbered(10));
  write_at(*storage_, 70000, numbered(10));
  EXPECT_EQ(storage_->size(), Bytes{70010});
  EXPECT_EQ(read_at(*storage_, 10, 69990), Data(69990));
}

TEST_P(StorageSuite, ReadsMayOverlap) {
  write_at(*storage_, 0, numbered(50));
  EXPECT_EQ(read_list(*storage_, {{0, 20}, {10, 20}, {10, 20}, {0, 1}}),
            joined({numbered(20), numbered(20, 11), numbered(20, 11), numbered(1)}));
}

TEST_P(StorageSuite, ListsMayBeBig) {
  constexpr int kCount = 100000;
  constexpr Bytes kLength = 7, kStride = 16;
  write_at(*storage_, 0, Data(kCount * kStride, kUntouched));
  std::vector<int> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  Random random(2);
  std::shuffle(order.begin(), order.end(), random);
  Data out = random_data(random, kCount * kLength);
  std::vector<Extent> extents;
  Data expected(kCount * kStride, kUntouched);
  for (int i = 0; i < kCount; ++i) {
    extents.push_back({order[i] * kStride, kLength});
    std::copy_n(out.begin() + i * kLength, kLength, expected.begin() + order[i] * kStride);
  }
  write_all(*storage_, extents, {span_of(out)});
  EXPECT_TRUE(whole(*storage_) == expected);
  EXPECT_TRUE(read_list(*storage_, extents) == out);
}

TEST_P(StorageSuite, MemoryMayBeInManyPieces) {
  constexpr Bytes kCount = 5000, kLength = 3, kStride = 5;
  Random random(3);
  Data out = random_data(random, kCount * kStride);
  Data in(out.size(), kUntouched), packed;
  std::vector<Span> from, to;
  for (Bytes i = 0; i < kCount; ++i) {
    from.push_back({out.data() + i * kStride, kLength});
    to.push_back({in.data() + i * kStride, kLength});
    packed.insert(packed.end(), from.back().data, from.back().data + kLength);
  }
  write_all(*storage_, {{11, kCount * kLength}}, from);
  EXPECT_TRUE(read_at(*storage_, 11, kCount * kLength) == packed);
  const Extent extent{11, kCount * kLength};
  ASSERT_TRUE(succeeded(storage_->readv({&extent, 1}, to)));
  for (Bytes i = 0; i < kCount * kStride; ++i) ASSERT_EQ(in[i], i % kStride < kLength ? out[i] : kUntouched) << i;
}

TEST_P(StorageSuite, OffsetsBeyond32Bits) {
  if (!GetParam().sparse) GTEST_SKIP() << "would cost 5 GiB";
  constexpr Offset kFar = Offset{5} << 30;
  write_at(*storage_, 0, numbered(10));
  write_at(*storage_, kFar, numbered(10, 100));
  EXPECT_EQ(storage_->size(), kFar + 10);
  EXPECT_EQ(read_list(*storage_, {{kFar, 10}, {0, 10}}), joined({numbered(10, 100), numbered(10)}));
  ASSERT_TRUE(succeeded(storage_->resize(kFar + 5)));
  EXPECT_EQ(read_at(*storage_, kFar - 2, 10), joined({Data(2), numbered(5, 100)}));
}

TEST_P(StorageSuite, RequestsAreCounted) {
  Data data = numbered(20);
  const std::vector<Extent> apart = {{0, 10}, {30, 10}};
  const Span span = span_of(data);
  const auto moved = storage_->writev(apart, {&span, 1});
  ASSERT_TRUE(succeeded(moved));
  EXPECT_GE(moved->requests, storage_->caps().native_list || storage_->caps().appends ? 1 : 2);
  const auto nothing = storage_->writev({}, {});
  ASSERT_TRUE(succeeded(nothing));
  EXPECT_EQ(nothing->requests, 0);
}

// ---- Mapping

// Where mapping works it is a way to the same bytes; where it does not, it says so and does nothing.
TEST_P(StorageSuite, MapsWhatReadsAndWritesSee) {
  write_at(*storage_, 0, numbered(100));
  const auto changed = storage_->map({50, 70000}, true, [](std::byte* data, Bytes present) {
    EXPECT_EQ(present, 70000);
    EXPECT_EQ(data[0], std::byte{51});
    EXPECT_EQ(data[69999], std::byte{0});
    data[1] = data[69998] = std::byte{7};
    return Bytes{2};
  });
  if (!changed) {
    EXPECT_FALSE(storage_->caps().maps);
    EXPECT_EQ(changed.error().code, Code::kUnsupportedOperation);
    EXPECT_EQ(whole(*storage_), numbered(100));
    return;
  }
  EXPECT_TRUE(storage_->caps().maps);
  EXPECT_EQ(changed->bytes, 2);
  EXPECT_FALSE(changed->eof);
  Data expected(70050);
  const Data start = numbered(100);
  std::copy(start.begin(), start.end(), expected.begin());
  expected[51] = expected[70048] = std::byte{7};
  EXPECT_TRUE(whole(*storage_) == expected);

  write_at(*storage_, 69000, numbered(10));
  Data seen;
  const auto look = [&](std::byte* data, Bytes present) {
    seen.assign(data, data + present);
    return present;
  };
  const auto cut = storage_->map({69000, 5000}, false, look);
  ASSERT_TRUE(succeeded(cut));
  EXPECT_TRUE(cut->eof);
  EXPECT_EQ(cut->bytes, 1050);
  EXPECT_TRUE(seen == read_at(*storage_, 69000, 5000));
  const auto beyond = storage_->map({80000, 10}, false, look);
  ASSERT_TRUE(succeeded(beyond));
  EXPECT_TRUE(beyond->eof);
  EXPECT_EQ(beyond->bytes, 0);
  EXPECT_EQ(storage_->size(), Bytes{70050});
  EXPECT_FALSE(storage_->map({-1, 10}, false, look));
}

TEST_P(StorageSuite, MapsOfReadersDoNotWrite) {
  write_at(*storage_, 0, numbered(10));
  const auto reader = open({.read = true});
  const auto refused = reader->map({0, 10}, true, [](std::byte*, Bytes) { return Bytes{0}; });
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().code, Code::kOther);
}

// ---- Sizes

TEST_P(StorageSuite, ResizeCutsAndExtendsWithZeros) {
  write_at(*storage_, 0, numbered(100));
  ASSERT_TRUE(succeeded(storage_->resize(50)));
  EXPECT_EQ(whole(*storage_), numbered(50));
  ASSERT_TRUE(succeeded(storage_->resize(80)));
  EXPECT_EQ(whole(*storage_), joined({numbered(50), Data(30)}));
  ASSERT_TRUE(succeeded(storage_->resize(0)));
  EXPECT_EQ(storage_->size(), Bytes{0});
}

TEST_P(StorageSuite, ReserveNeverShrinksNorChangesData) {
  write_at(*storage_, 10, numbered(90));
  ASSERT_TRUE(succeeded(storage_->reserve(50)));
  EXPECT_EQ(whole(*storage_), joined({Data(10), numbered(90)}));
  ASSERT_TRUE(succeeded(storage_->reserve(0)));
  ASSERT_TRUE(succeeded(storage_->reserve(120)));
  EXPECT_EQ(whole(*storage_), joined({Data(10), numbered(90), Data(20)}));
}

TEST_P(StorageSuite, SyncKeepsEverything) {
  write_at(*storage_, 0, numbered(100));
  ASSERT_TRUE(succeeded(storage_->sync()));
  EXPECT_EQ(whole(*open()), numbered(100));
}

// ---- Errors

TEST_P(StorageSuite, MalformedRequestsAreRefusedWhole) {
  Data data = numbered(10);
  const auto attempt = [&](std::vector<Extent> extents, std::vector<Span> memory) {
    expect_error(storage_->writev(extents, memory), {Code::kArgument}, *storage_);
    expect_error(storage_->readv(extents, memory), {Code::kArgument}, *storage_);
  };
  attempt({{0, 5}}, {{data.data(), 6}});
  attempt({{0, 5}, {10, 5}}, {{data.data(), 9}});
  attempt({{0, 5}, {-1, 5}}, {span_of(data)});
  attempt({{0, 11}, {20, -1}}, {span_of(data)});
  attempt({{kWholeFile.length - 4, 10}}, {span_of(data)});
  EXPECT_EQ(storage_->size(), Bytes{0});
  expect_error(storage_->resize(-1), {Code::kArgument}, *storage_);
  expect_error(storage_->reserve(-1), {Code::kArgument}, *storage_);
}

TEST_P(StorageSuite, ReadOnlyHandlesDoNotWrite) {
  write_at(*storage_, 0, numbered(10));
  const auto reader = open({.read = true});
  EXPECT_EQ(whole(*reader), numbered(10));
  Data data(4);
  const auto refused = {Code::kReadOnly, Code::kAccess};
  expect_error(reader->write({0, 4}, data.data()), refused, *reader);
  expect_error(reader->resize(5), refused, *reader);
  expect_error(reader->reserve(50), refused, *reader);
  EXPECT_EQ(whole(*storage_), numbered(10));
}

TEST_P(StorageSuite, WriteOnlyHandlesDoNotRead) {
  const auto writer = open({.write = true});
  write_at(*writer, 0, numbered(10));
  Data data(4);
  expect_error(writer->read({0, 4}, data.data()), {Code::kAccess}, *writer);
  EXPECT_EQ(whole(*storage_), numbered(10));
}

}  // namespace stridio
