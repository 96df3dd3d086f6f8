#include "property/contents.h"

#include <random>
#include <vector>

namespace stridio::testing {

const std::byte* contents_of(int writer) {
  static const std::vector<std::byte> table = [] {
    std::mt19937_64 random(20240229);
    std::vector<std::byte> bytes(static_cast<std::size_t>(kWriters * kMostOffsets));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(1 + random() % 255);
    return bytes;
  }();
  return table.data() + writer * kMostOffsets;
}

}  // namespace stridio::testing
