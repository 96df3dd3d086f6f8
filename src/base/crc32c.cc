// Four ways, the fastest that the processor has:
//  - a table, byte by byte;
//  - the instruction for 8 bytes, whose result comes three cycles later: three lanes of a string are summed side by side and
//    joined, which multiplies the first sum by x^(8 * length) modulo the polynomial;
//  - folding (Gopal et al., Fast CRC Computation Using PCLMULQDQ, 2009): 128 bytes at once are multiplied by x^1024 modulo
//    the polynomial, 64 bits by 32, and added to the next 128; of long strings one half, and the instruction takes the other;
//  - the same with AVX-512: 256 bytes at once.
// All work on the register, which is the sum's complement: after a string S and with `state` before, it is
// state * x^(8 * length) + S * x^32 modulo the polynomial.
#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/copy_bytes.h"

#ifdef __x86_64__
#include <immintrin.h>
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

// x^(8 * step * i + more).
constexpr std::size_t kSteps = 256;
constexpr std::array<std::uint32_t, kSteps> powers_by(std::size_t step, std::uint64_t more = 0) {
  std::array<std::uint32_t, kSteps> powers{power_of_x(more)};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = product(power_of_x(8 * step), powers[i - 1]);
  return powers;
}

// state * x^(8 * bytes), bytes < kSteps^2.
std::uint32_t moved_by_table(std::uint32_t state, std::size_t bytes) {
  static constexpr auto kNear = powers_by(1), kFar = powers_by(kSteps);
  return product(kFar[bytes / kSteps], product(kNear[bytes % kSteps], state));
}

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] & 1 ? (table[i] >> 1) ^ kPolynomial : table[i] >> 1;
  }
  return table;
}();

std::uint32_t by_table(const std::byte* data, std::size_t length, std::uint32_t state) {
  for (; length > 0; --length, ++data) state = kTable[(state ^ static_cast<std::uint8_t>(*data)) & 0xff] ^ (state >> 8);
  return state;
}

#ifdef __x86_64__
bool has_instruction() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

#define STRIDIO_CRC_TARGET __attribute__((target("sse4.2,pclmul")))

template <typename Word = std::uint64_t>
Word word(const std::byte* data) {
  Word value;
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

STRIDIO_CRC_TARGET std::uint32_t moved_by_instruction(std::uint32_t state, std::size_t bytes) {
  constexpr std::uint64_t kOrder = 0x7fffffff;  // of x
  static_assert(power_of_x(kOrder) == kOne);
  static constexpr auto kNear = powers_by(1, kOrder - 33), kFar = powers_by(kSteps, kOrder - 33);
  const auto times = [](std::uint64_t a, std::uint32_t b) STRIDIO_CRC_TARGET {
    const __m128i both = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(a)), _mm_cvtsi64_si128(b), 0);
    return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(both)));
  };
  return static_cast<std::uint32_t>(times(times(state, kNear[bytes % kSteps]), kFar[bytes / kSteps]));
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

STRIDIO_CRC_TARGET std::uint32_t by_instruction(const std::byte* data, std::size_t length, std::uint32_t before) {
  std::uint64_t state = by_lanes<336>(data, length, before);
  state = by_lanes<40>(data, length, state);
  for (; length >= 8; data += 8, length -= 8) state = _mm_crc32_u64(state, word(data));
  auto sum = static_cast<std::uint32_t>(state);
  if (length & 4) sum = _mm_crc32_u32(sum, word<std::uint32_t>(data)), data += 4;
  if (length & 2) sum = _mm_crc32_u16(sum, word<std::uint16_t>(data)), data += 2;
  if (length & 1) sum = _mm_crc32_u8(sum, word<std::uint8_t>(data));
  return sum;
}

// ---- Folding by 32 bytes

#define STRIDIO_SHORT_FOLD_TARGET __attribute__((target("avx2,vpclmulqdq,sse4.2,pclmul")))

constexpr std::size_t kShortStep = sizeof(__m256i);
constexpr std::size_t kLeastShort = 4 * kShortStep;

// `before`, made to stand `bits` earlier, and `next`.
template <std::uint64_t bits>
STRIDIO_SHORT_FOLD_TARGET __m256i folded(__m256i before, __m256i next) {
  constexpr std::uint64_t kFirst = power_of_x(bits + 31), kSecond = power_of_x(bits - 33);
  const __m256i factors = _mm256_set_epi64x(kSecond, kFirst, kSecond, kFirst);
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(before, factors, 0x00), next),
                          _mm256_clmulepi64_epi128(before, factors, 0x11));
}

STRIDIO_SHORT_FOLD_TARGET __m256i begun(__m256i first, std::uint32_t state) {
  return _mm256_xor_si256(first, _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(state))));
}

STRIDIO_SHORT_FOLD_TARGET std::uint32_t reduced(__m256i bytes) {
  std::uint64_t words[4], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), bytes);
  for (const std::uint64_t each : words) sum = _mm_crc32_u64(sum, each);
  return static_cast<std::uint32_t>(sum);
}

enum class Copies { kNone, kCached, kStreamed };

// At least kLeastShort bytes. To be streamed, `to` begins with a line of the caches; the last length % 128 bytes are not.
template <Copies copies>
STRIDIO_SHORT_FOLD_TARGET std::uint32_t by_short_folding(const std::byte* data, std::byte* to, std::size_t length,
                                                         std::uint32_t state) {
  const auto take = [&]<Copies how>() STRIDIO_SHORT_FOLD_TARGET {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    if constexpr (how == Copies::kCached) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
    if constexpr (how == Copies::kStreamed) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes);
    if constexpr (how != Copies::kNone) to += kShortStep;
    data += kShortStep;
    length -= kShortStep;
    return bytes;
  };
  const auto next = [&]() STRIDIO_SHORT_FOLD_TARGET { return take.template operator()<copies>(); };
  constexpr Copies last = copies == Copies::kStreamed ? Copies::kCached : copies;
  __m256i a = begun(next(), state);
  __m256i b = next(), c = next(), d = next();
  while (length >= 4 * kShortStep) {
    a = folded<4 * 256>(a, next());
    b = folded<4 * 256>(b, next());
    c = folded<4 * 256>(c, next());
    d = folded<4 * 256>(d, next());
  }
  __m256i all = folded<256>(folded<256>(folded<256>(a, b), c), d);
  while (length >= kShortStep) all = folded<256>(all, take.template operator()<last>());
  const std::uint32_t sum = reduced(all);
  _mm256_zeroupper();
  if (copies != Copies::kNone && length > 0) std::memcpy(to, data, length);
  return by_instruction(data, length, sum);
}

// The two use different units of the processor: of long strings one half is folded while the instruction takes the other, as three
// lanes behind it.
constexpr std::size_t kLeastShared = 2048;
STRIDIO_SHORT_FOLD_TARGET std::uint32_t by_short_folding_and_instruction(const std::byte* data, std::size_t length,
                                                                         std::uint32_t state) {
  constexpr std::size_t kFolded = 4 * kShortStep, kLane = 40, kMost = 1 << 15;  // of each step; of a string at once
  while (length >= kLeastShared) {
    const std::size_t steps = std::min(length, kMost) / (kFolded + 3 * kLane), lane = steps * kLane;
    const std::byte *in = data, *lanes = data + steps * kFolded;
    const auto next = [&]() STRIDIO_SHORT_FOLD_TARGET {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
      in += kShortStep;
      return bytes;
    };
    std::uint64_t x = 0, y = 0, z = 0;
    const auto take_lanes = [&]() STRIDIO_SHORT_FOLD_TARGET {
      for (std::size_t i = 0; i < kLane; i += 8) {
        x = _mm_crc32_u64(x, word(lanes + i));
        y = _mm_crc32_u64(y, word(lanes + lane + i));
        z = _mm_crc32_u64(z, word(lanes + 2 * lane + i));
      }
      lanes += kLane;
    };
    __m256i a = begun(next(), state);
    __m256i b = next(), c = next(), d = next();
    take_lanes();
    for (std::size_t step = 1; step < steps; ++step) {
      a = folded<8 * kFolded>(a, next());
      b = folded<8 * kFolded>(b, next());
      c = folded<8 * kFolded>(c, next());
      d = folded<8 * kFolded>(d, next());
      take_lanes();
    }
    state = moved_by_instruction(reduced(folded<256>(folded<256>(folded<256>(a, b), c), d)), 3 * lane) ^
            moved_by_instruction(static_cast<std::uint32_t>(x), 2 * lane) ^
            moved_by_instruction(static_cast<std::uint32_t>(y), lane) ^ static_cast<std::uint32_t>(z);
    data += steps * kFolded + 3 * lane;
    length -= steps * kFolded + 3 * lane;
  }
  return length >= kLeastShort ? by_short_folding<Copies::kNone>(data, nullptr, length, state)
                               : by_instruction(data, length, state);
}

// At least kLeastStreamed bytes.
std::uint32_t by_streaming(const std::byte* data, std::byte* to, std::size_t length, std::uint32_t state) {
  static_assert(kLeastStreamed >= kLineBytes + kLeastShort);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  std::memcpy(to, data, head);
  state = by_instruction(data, head, state);
  return by_short_folding<Copies::kStreamed>(data + head, to + head, length - head, state);
}

// ---- Folding by 64 bytes

#define STRIDIO_FOLD_TARGET __attribute__((target("avx,avx512f,avx512vl,avx512bw,avx512vbmi,vpclmulqdq,sse4.2,pclmul")))

// What each 128 bits are multiplied by to stand `bits` earlier: their first half, which comes first, by the low word.
template <std::uint64_t bits>
STRIDIO_FOLD_TARGET __m512i folding_factors() {
  constexpr std::uint64_t kFirst = power_of_x(bits + 31), kSecond = power_of_x(bits - 33);
  return _mm512_set4_epi64(kSecond, kFirst, kSecond, kFirst);
}

STRIDIO_FOLD_TARGET __m512i folded(__m512i before, __m512i factors, __m512i next) {
  constexpr int kSumOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(before, factors, 0x00),
                                   _mm512_clmulepi64_epi128(before, factors, 0x11), next, kSumOfThree);
}

constexpr std::size_t kLine = sizeof(__m512i);

__mmask64 last(std::size_t bytes) { return ~0ULL << (kLine - bytes); }

// Bytes one step after the other; they are copied where there is somewhere to copy them to.
template <bool copies>
struct Steps {
  const std::byte* from;
  std::byte* to;

  STRIDIO_FOLD_TARGET __m512i next(std::size_t length = kLine) {
    const __m512i bytes = _mm512_loadu_si512(from);
    if constexpr (copies) {
      _mm512_storeu_si512(to, bytes);
      to += length;
    }
    from += length;
    return bytes;
  }
  // The last bytes of a step that began before: they alone are copied.
  STRIDIO_FOLD_TARGET __m512i last_of(std::size_t length) const {
    const __m512i bytes = _mm512_loadu_si512(from + length - kLine);
    if constexpr (copies) _mm512_mask_storeu_epi8(to + length - kLine, last(length), bytes);
    return bytes;
  }
};

// Bytes `by`, `by` + 1 ... of 64, then the first ones; zeros where `kept` has none.
STRIDIO_FOLD_TARGET __m512i rotated(__m512i bytes, std::size_t by, __mmask64 kept = ~0ULL) {
  static constexpr auto kPlaces = [] {
    std::array<std::uint8_t, kLine> places{};
    for (std::size_t i = 0; i < kLine; ++i) places[i] = static_cast<std::uint8_t>(i);
    return places;
  }();
  const __m512i places = _mm512_add_epi8(_mm512_loadu_si512(kPlaces.data()), _mm512_set1_epi8(static_cast<char>(by)));
  return _mm512_maskz_permutexvar_epi8(kept, places, bytes);
}

// The first bytes, up to where lines of the cache begin, are put behind zeros, which before a string count for nothing. So
// are the steps until they go by four. At least two steps long.
template <bool copies>
STRIDIO_FOLD_TARGET std::uint32_t by_folding(const std::byte* data, std::byte* to, std::size_t length,
                                             std::uint32_t state) {
  const auto place = reinterpret_cast<std::uintptr_t>(copies ? to : data);
  std::size_t head = -place % kLine;
  if (head < sizeof state) {  // too short to take up the state
    if constexpr (copies) std::memcpy(to, data, head);
    state = by_table(copies ? to : data, head, state);
    if constexpr (copies) to += head;
    data += head;
    length -= head;
    head = kLine;
  }
  Steps<copies> steps{data, to};
  const __m512i beginning =
      _mm512_xor_si512(steps.next(head), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  const __m512i first = rotated(beginning, head, last(head));
  std::size_t left = (length - head) / kLine;
  const std::size_t tail = (length - head) % kLine;
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  switch (left % 4) {
    case 0: d = first; break;
    case 1: c = first, d = steps.next(); break;
    case 2: b = first, c = steps.next(), d = steps.next(); break;
    case 3: a = first, b = steps.next(), c = steps.next(), d = steps.next(); break;
  }
  for (left /= 4; left > 0; --left) {
    const __m512i factors = folding_factors<4 * 512>();
    a = folded(a, factors, steps.next());
    b = folded(b, factors, steps.next());
    c = folded(c, factors, steps.next());
    d = folded(d, factors, steps.next());
  }
  a = folded(a, folding_factors<3 * 512>(), d);
  b = folded(b, folding_factors<2 * 512>(), a);
  a = folded(c, folding_factors<512>(), b);
  if (tail > 0) {  // all before stands as much earlier
    a = folded(rotated(a, tail, last(tail)), folding_factors<512>(),
               _mm512_mask_mov_epi8(rotated(a, tail), last(tail), steps.last_of(tail)));
  }
  std::uint64_t words[8], sum = 0;
  _mm512_storeu_si512(words, a);
  for (const std::uint64_t each : words) sum = _mm_crc32_u64(sum, each);
  _mm256_zeroupper();  // else what comes next, for older processors, waits a hundred cycles for these registers
  return static_cast<std::uint32_t>(sum);
}

std::uint32_t by_folding_or_instruction(const std::byte* data, std::size_t length, std::uint32_t state) {
  return length >= 2 * kLine ? by_folding<false>(data, nullptr, length, state) : by_instruction(data, length, state);
}
#endif

struct Way {
  using Copy = std::uint32_t (*)(const std::byte*, std::byte*, std::size_t, std::uint32_t);

  std::uint32_t (*sum)(const std::byte*, std::size_t, std::uint32_t);
  Copy copied = nullptr;  // of `least_copied` bytes or more
  std::size_t least_copied = 0;
  Copy streamed = nullptr;

  std::uint32_t copy(const std::byte* data, std::byte* to, std::size_t length, std::uint32_t state,
                     Stores stores) const {
    if (streamed && streams(stores, length)) return streamed(data, to, length, state);
    if (copied && length >= least_copied) return copied(data, to, length, state);
    if (length > 0) copy_bytes(to, data, length, stores);
    return sum(data, length, state);
  }
};

std::vector<Way> ways() {
  std::vector<Way> all{{by_table}};
#ifdef __x86_64__
  if (!has_instruction()) return all;
  all.push_back({by_instruction});
  if (!__builtin_cpu_supports("vpclmulqdq")) return all;
  if (__builtin_cpu_supports("avx2"))
    all.push_back({by_short_folding_and_instruction, by_short_folding<Copies::kCached>, kLeastShort, by_streaming});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vbmi"))
    all.push_back({by_folding_or_instruction, by_folding<true>, 2 * kLine, by_streaming});
#endif
  return all;
}

using Move = std::uint32_t (*)(std::uint32_t, std::size_t);

std::vector<Move> moves() {
  std::vector<Move> all{moved_by_table};
#ifdef __x86_64__
  if (has_instruction()) all.push_back(moved_by_instruction);
#endif
  return all;
}

// What the register's ones before a string give to its sum.
std::uint32_t of_ones(Bytes length) {
  const auto moved = [](Bytes by) { return product(power_of_x(8 * static_cast<std::uint64_t>(by)), ~0U); };
  constexpr Bytes kOften = 16384;
  static const std::uint32_t often = moved(kOften);
  return length == kOften ? often : moved(length);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const Way fastest = ways().back();
  return ~fastest.sum(bytes.data(), bytes.size(), ~before);
}

std::uint32_t copy_crc32c(std::byte* to, std::span<const std::byte> bytes, std::uint32_t before, Stores stores) {
  static const Way fastest = ways().back();
  return ~fastest.copy(bytes.data(), to, bytes.size(), ~before, stores);
}

std::vector<std::uint32_t> crc32c_by_all_ways(std::span<const std::byte> bytes, std::uint32_t before) {
  std::vector<std::uint32_t> sums;
  for (const Way& way : ways()) sums.push_back(~way.sum(bytes.data(), bytes.size(), ~before));
  return sums;
}

std::uint32_t crc32c_of_part(std::span<const std::byte> part, Bytes behind) {
  static const Way fastest = ways().back();
  static const Move moved = moves().back();
  return moved(fastest.sum(part.data(), part.size(), 0), static_cast<std::size_t>(behind));
}

std::uint32_t copy_crc32c_of_part(std::byte* to, std::span<const std::byte> part, Bytes behind, Stores stores) {
  static const Way fastest = ways().back();
  static const Move moved = moves().back();
  return moved(fastest.copy(part.data(), to, part.size(), 0, stores), static_cast<std::size_t>(behind));
}

void copy_crc32c_of_part_by_all_ways(std::byte* to, std::span<const std::byte> part, Bytes behind, Stores stores,
                                     const std::function<void(std::uint32_t)>& done) {
  for (const Way& way : ways())
    for (const Move moved : moves())
      done(moved(way.copy(part.data(), to, part.size(), 0, stores), static_cast<std::size_t>(behind)));
}

std::uint32_t crc32c_as_part(std::uint32_t sum, Bytes length, Bytes behind) {
  static const Move moved = moves().back();
  return moved(of_ones(length) ^ ~sum, static_cast<std::size_t>(behind));
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, Bytes second_length) {
  return product(power_of_x(8 * static_cast<std::uint64_t>(second_length)), first) ^ second;
}

}  // namespace stridio
