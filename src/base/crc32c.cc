// The processor takes 8 bytes in one instruction, whose result comes three cycles later: three lanes of a string are summed
// side by side and joined. To join, the first sum is multiplied by x^(8 * length) modulo the polynomial: bit by bit, as zlib's
// crc32_combine does, or, where the length is a constant, by a carry-less multiplication, which the sum's own instruction
// reduces.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#include <wmmintrin.h>
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

// x^exponent.
constexpr std::uint32_t power_of_x(std::uint64_t exponent) {
  std::uint32_t result = kOne;
  for (std::size_t i = 0; exponent > 0; exponent >>= 1, ++i)
    if (exponent & 1) result = product(kPowers[i], result);
  return result;
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
#define STRIDIO_CRC_TARGET __attribute__((target("sse4.2,pclmul")))

std::uint64_t word(const std::byte* data) {
  std::uint64_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// state * x^(8 * bytes), not reduced. The multiplication of two reflected words gives one power of x less, the instruction
// that reduces 32 more than that.
template <std::size_t bytes>
STRIDIO_CRC_TARGET __m128i moved_by(std::uint64_t state) {
  constexpr std::uint32_t kFactor = power_of_x(8 * bytes - 33);
  return _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(state)), _mm_cvtsi64_si128(kFactor), 0);
}

// As much of the data as three lanes of this length take, again and again.
template <std::size_t lane>
STRIDIO_CRC_TARGET std::uint64_t by_lanes(const std::byte*& data, std::size_t& length, std::uint64_t state) {
  for (; length >= 3 * lane; data += 3 * lane, length -= 3 * lane) {
    std::uint64_t a = state, b = 0, c = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      a = _mm_crc32_u64(a, word(data + i));
      b = _mm_crc32_u64(b, word(data + lane + i));
      c = _mm_crc32_u64(c, word(data + 2 * lane + i));
    }
    const __m128i ab = _mm_xor_si128(moved_by<2 * lane>(a), moved_by<lane>(b));
    state = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(ab))) ^ c;
  }
  return state;
}

STRIDIO_CRC_TARGET std::uint32_t by_instruction(const std::byte* data, std::size_t length, std::uint64_t state) {
  state = by_lanes<336>(data, length, state);
  state = by_lanes<40>(data, length, state);
  for (; length >= 8; data += 8, length -= 8) state = _mm_crc32_u64(state, word(data));
  return by_table(data, length, static_cast<std::uint32_t>(state));
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
  if (has_instruction) return ~by_instruction(bytes.data(), bytes.size(), ~before);
#endif
  return ~by_table(bytes.data(), bytes.size(), ~before);
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, Bytes second_length) {
  return product(power_of_x(8 * static_cast<std::uint64_t>(second_length)), first) ^ second;
}

}  // namespace stridio
