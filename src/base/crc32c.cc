// The processor takes 8 bytes in one instruction, whose result comes three cycles later: three lanes of a long string are
// summed side by side and joined. To join, the first sum is multiplied by x^(8 * length) modulo the polynomial (as zlib's
// crc32_combine does).
#include "base/crc32c.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace stridio {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr std::uint32_t kOne = 0x80000000;         // the polynomial 1

// a * b; a is not 0.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result = 0;
  for (std::uint32_t bit = kOne;; bit >>= 1) {
    if (a & bit) {
      result ^= b;
      if ((a & (bit - 1)) == 0) return result;
    }
    b = b & 1 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
}

// x^(2^i).
constexpr auto kPowers = [] {
  std::array<std::uint32_t, 32> powers{};
  powers[0] = kOne >> 1;
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = product(powers[i - 1], powers[i - 1]);
  return powers;
}();

// x^(8 * length).
constexpr std::uint32_t factor_of(Bytes length) {
  std::uint32_t factor = kOne;
  std::size_t power = 3;
  for (auto left = static_cast<std::uint64_t>(length); left > 0; left >>= 1, ++power)
    if (left & 1) factor = product(kPowers[power], factor);
  return factor;
}

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] & 1 ? (table[i] >> 1) ^ kPolynomial : table[i] >> 1;
  }
  return table;
}();

// These work on the register, which is the sum's complement.
std::uint32_t by_table(const std::byte* data, std::size_t length, std::uint32_t state) {
  for (; length > 0; --length, ++data) state = kTable[(state ^ static_cast<std::uint8_t>(*data)) & 0xff] ^ (state >> 8);
  return state;
}

#ifdef __x86_64__
constexpr std::size_t kLane = 1360;  // bytes; three of them are most of 4 KiB
constexpr std::uint32_t kBehindLane = factor_of(kLane);

std::uint64_t word(const std::byte* data) {
  std::uint64_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const std::byte* data, std::size_t length,
                                                               std::uint32_t state) {
  for (; length >= 3 * kLane; data += 3 * kLane, length -= 3 * kLane) {
    std::uint64_t a = state, b = ~0u, c = ~0u;
    for (std::size_t i = 0; i < kLane; i += 8) {
      a = _mm_crc32_u64(a, word(data + i));
      b = _mm_crc32_u64(b, word(data + kLane + i));
      c = _mm_crc32_u64(c, word(data + 2 * kLane + i));
    }
    const std::uint32_t ab = product(kBehindLane, ~static_cast<std::uint32_t>(a)) ^ ~static_cast<std::uint32_t>(b);
    state = ~(product(kBehindLane, ab) ^ ~static_cast<std::uint32_t>(c));
  }
  for (; length >= 8; data += 8, length -= 8) state = static_cast<std::uint32_t>(_mm_crc32_u64(state, word(data)));
  return by_table(data, length, state);
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ~by_instruction(bytes.data(), bytes.size(), ~before);
#endif
  return ~by_table(bytes.data(), bytes.size(), ~before);
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, Bytes second_length) {
  return product(factor_of(second_length), first) ^ second;
}

}  // namespace stridio
