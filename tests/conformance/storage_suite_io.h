// The vocabulary of the storage suite: data, and reads and writes that must succeed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "storage/storage.h"

namespace stridio {

using Data = std::vector<std::byte>;
using Random = std::mt19937_64;
constexpr std::byte kUntouched{0xEE};

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline Data random_data(Random& random, Bytes length) {
  Data data(length);
  for (std::byte& byte : data) byte = static_cast<std::byte>(draw(random, 1, 255));
  return data;
}

inline Data numbered(Bytes length, int first = 1) {
  Data data(length);
  for (Bytes i = 0; i < length; ++i) data[i] = static_cast<std::byte>(first + i);
  return data;
}

inline Span span_of(Data& data) { return {data.data(), static_cast<Bytes>(data.size())}; }

inline Bytes total_of(const std::vector<Extent>& extents) {
  return std::accumulate(extents.begin(), extents.end(), Bytes{0},
                         [](Bytes sum, const Extent& extent) { return sum + extent.length; });
}

template <typename T>
::testing::AssertionResult succeeded(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().text();
}

inline void write_all(Storage& storage, std::vector<Extent> extents, std::vector<Span> memory) {
  const auto moved = storage.writev(extents, memory);
  ASSERT_TRUE(succeeded(moved));
  EXPECT_EQ(moved->bytes, total_of(extents));
  EXPECT_FALSE(moved->eof);
}

inline void write_at(Storage& storage, Offset offset, Data data) {
  write_all(storage, {{offset, static_cast<Bytes>(data.size())}}, {span_of(data)});
}

// The bytes of the extents, in their order; shorter where the file ends.
inline Data read_list(Storage& storage, std::vector<Extent> extents) {
  Data data(total_of(extents), kUntouched);
  const Span span = span_of(data);
  const auto moved = storage.readv(extents, {&span, 1});
  if (!succeeded(moved)) {
    ADD_FAILURE() << moved.error().text();
    return {};
  }
  EXPECT_EQ(moved->eof, moved->bytes < span.length);
  for (Bytes i = moved->bytes; i < span.length; ++i) EXPECT_EQ(data[i], kUntouched);
  data.resize(moved->bytes);
  return data;
}

inline Data read_at(Storage& storage, Offset offset, Bytes length) { return read_list(storage, {{offset, length}}); }

inline Data whole(Storage& storage) {
  const auto size = storage.size();
  EXPECT_TRUE(succeeded(size));
  return size ? read_at(storage, 0, *size) : Data{};
}

inline Data joined(std::initializer_list<Data> parts) {
  Data all;
  for (const Data& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <typename T>
void expect_error(const Result<T>& result, std::initializer_list<Code> codes, const Storage& storage) {
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(std::find(codes.begin(), codes.end(), result.error().code), codes.end()) << result.error().text();
  EXPECT_FALSE(result.error().what.empty());
  EXPECT_EQ(result.error().path, storage.path());
}

}  // namespace stridio
