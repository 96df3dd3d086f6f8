#include "base/copy_bytes.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "base/page_buffer.h"

namespace stridio {
namespace {

#ifdef __x86_64__
#define STRIDIO_VECTOR_TARGET __attribute__((target("avx2")))

constexpr std::size_t kStep = 4 * sizeof(__m256i);
static_assert(kStep <= kLeastLong);

STRIDIO_VECTOR_TARGET void copy_step(std::byte* to, const std::byte* from) {
  const auto* const source = reinterpret_cast<const __m256i*>(from);
  auto* const target = reinterpret_cast<__m256i*>(to);
  const __m256i a = _mm256_loadu_si256(source), b = _mm256_loadu_si256(source + 1);
  const __m256i c = _mm256_loadu_si256(source + 2), d = _mm256_loadu_si256(source + 3);
  _mm256_storeu_si256(target, a);
  _mm256_storeu_si256(target + 1, b);
  _mm256_storeu_si256(target + 2, c);
  _mm256_storeu_si256(target + 3, d);
}

STRIDIO_VECTOR_TARGET void copy_steps(std::byte* to, const std::byte* from, std::size_t length) {
  std::size_t at = 0;
  for (; at + kStep < length; at += kStep) copy_step(to + at, from + at);
  copy_step(to + length - kStep, from + length - kStep);  // which may copy bytes again
}

STRIDIO_VECTOR_TARGET void stream_lines(std::byte* to, const std::byte* from, std::size_t length) {
  static_assert(kLineBytes == 2 * sizeof(__m256i));
  for (std::size_t at = 0; at < length; at += kLineBytes) {
    const auto* const source = reinterpret_cast<const __m256i*>(from + at);
    auto* const target = reinterpret_cast<__m256i*>(to + at);
    const __m256i a = _mm256_loadu_si256(source), b = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
  }
}

bool has_vectors() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

// Where it has, Linux uses them.
bool has_fast_strings() {
  constexpr unsigned kLeaf = 7, kEnhancedStrings = 1U << 9;  // of ebx
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) != 0 && (b & kEnhancedStrings) != 0;
}

void copy_as_string(std::byte* to, const std::byte* from, std::size_t length) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

// A time that is too long has been interrupted.
bool measure_lag() {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kCopied = 2 * kPageBytes;
  constexpr int kTries = 4, kTimesAsLong = 4;
  alignas(kPageBytes) std::array<std::byte, kCopied> from;
  alignas(kPageBytes) std::array<std::byte, kCopied + kPageBytes> to;
  from.fill(std::byte{1});
  to.fill(std::byte{2});
  const auto least = [&](std::size_t behind) {
    Clock::duration best = Clock::duration::max();
    for (int i = 0; i < kTries; ++i) {
      const auto start = Clock::now();
      copy_as_string(to.data() + behind, from.data(), kCopied);
      best = std::min(best, Clock::now() - start);
    }
    return best;
  };
  return least(kLaggingBytes / 2) >= kTimesAsLong * std::max(least(2 * kLaggingBytes), Clock::duration{1});
}
#endif

Stores streaming_stores() {
#ifdef __x86_64__
  if (has_vectors()) return __builtin_cpu_is("amd") ? Stores::kStreamed : Stores::kLongStreamed;
#endif
  return Stores::kCached;
}

}  // namespace

bool copy_by_vectors([[maybe_unused]] std::byte* to, [[maybe_unused]] const std::byte* from,
                     [[maybe_unused]] std::size_t length) {
#ifdef __x86_64__
  if (has_vectors()) {
    copy_steps(to, from, length);
    return true;
  }
#endif
  return false;
}

void copy_long(std::byte* to, const std::byte* from, std::size_t length) {
#ifdef __x86_64__
  constexpr std::size_t kPastCaches = std::size_t{1} << 20;  // memcpy has other stores for these
  if (string_copies_lag() && length < kPastCaches && copy_by_vectors(to, from, length)) return;
#endif
  std::memcpy(to, from, length);
}

Streaming::Streaming(std::size_t bytes) : stores_(bytes >= kLeast ? streaming_stores() : Stores::kCached) {}

Streaming::~Streaming() {
#ifdef __x86_64__
  if (stores_ != Stores::kCached) _mm_sfence();
#endif
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t length, Stores stores) {
  if (!streams(stores, length) || !copy_by_streaming(to, from, length)) copy_bytes(to, from, length);
}

// A line that is streamed in part, or that the caches have been given the rest of, takes longer than by ordinary stores.
bool copy_by_streaming([[maybe_unused]] std::byte* to, [[maybe_unused]] const std::byte* from,
                       [[maybe_unused]] std::size_t length) {
#ifdef __x86_64__
  if (has_vectors()) {
    const std::size_t head = std::min(length, -reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
    const std::size_t lines = (length - head) / kLineBytes * kLineBytes;
    std::memcpy(to, from, head);
    stream_lines(to + head, from + head, lines);
    std::memcpy(to + head + lines, from + head + lines, length - head - lines);
    return true;
  }
#endif
  return false;
}

bool string_copies_lag() {
#ifdef __x86_64__
  static const bool lag = has_fast_strings() && measure_lag();
  return lag;
#else
  return false;
#endif
}

}  // namespace stridio
