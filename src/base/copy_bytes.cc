#include "base/copy_bytes.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

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

bool has_vectors() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

bool prefers_vectors() {
  static const bool prefers = __builtin_cpu_is("amd");
  return prefers;
}
#endif

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
  if (prefers_vectors() && length < kPastCaches && copy_by_vectors(to, from, length)) return;
#endif
  std::memcpy(to, from, length);
}

}  // namespace stridio
