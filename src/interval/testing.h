// What the tests of this folder share: seeds, random lists, and an oracle of the logical file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "interval/interval_file.h"
#include "storage/memory.h"

namespace stridio {

using Random = std::mt19937_64;
using Data = std::vector<std::byte>;

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline std::uint64_t seed_of_this_run() {
  const char* given = std::getenv("STRIDIO_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::cout << "STRIDIO_SEED=" << seed << "\n";
  return seed;
}

inline Data random_data(Random& random, Bytes length) {
  Data data(static_cast<std::size_t>(length));
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

// The logical file as a byte array.
struct Oracle {
  Data bytes;

  void write(std::span<const Extent> extents, const Data& data) {
    std::size_t from = 0;
    for (const Extent& extent : extents) {
      if (extent.empty()) continue;
      if (extent.end() > static_cast<Offset>(bytes.size())) bytes.resize(static_cast<std::size_t>(extent.end()));
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(from), extent.length, bytes.begin() + extent.offset);
      from += static_cast<std::size_t>(extent.length);
    }
  }
  Data read(Extent extent) const {
    const Extent present = intersect(extent, {0, static_cast<Bytes>(bytes.size())});
    return {bytes.begin() + present.offset, bytes.begin() + present.offset + present.length};
  }
  Data read_list(std::span<const Extent> extents) const {
    Data all;
    for (const Extent& each : extents) {
      const Data piece = read(each);
      all.insert(all.end(), piece.begin(), piece.end());
    }
    return all;
  }
};

inline Status write_list(Storage& storage, std::span<const Extent> extents, Data& data) {
  const Span span{data.data(), static_cast<Bytes>(data.size())};
  RETURN_IF_ERROR(storage.writev(extents, {&span, 1}));
  return {};
}

inline Status fill(Storage& storage, const std::vector<Extent>& extents, char with) {
  Bytes bytes = 0;
  for (const Extent& each : extents) bytes += each.length;
  Data data(static_cast<std::size_t>(bytes), static_cast<std::byte>(with));
  return write_list(storage, extents, data);
}

inline Result<Data> read_extent(Storage& storage, Extent extent) {
  Data data(static_cast<std::size_t>(extent.length));
  ASSIGN_OR_RETURN(const Transferred moved, storage.read(extent, data.data()));
  EXPECT_EQ(moved.eof, moved.bytes < extent.length);
  data.resize(static_cast<std::size_t>(moved.bytes));
  return data;
}

inline void flip(const std::shared_ptr<MemoryFile>& file, Offset at) {
  std::byte byte{};
  ASSERT_TRUE(open_memory(file)->read({at, 1}, &byte));
  byte ^= std::byte{4};
  ASSERT_TRUE(open_memory(file)->write({at, 1}, &byte));
}

inline Result<Data> read_all(Storage& storage) {
  ASSIGN_OR_RETURN(const Bytes size, storage.size());
  return read_extent(storage, {0, size});
}

}  // namespace stridio
