// Copying many bytes.
#pragma once

#include <cstddef>
#include <cstring>

namespace stridio {

inline constexpr std::size_t kLeastLong = 2048;

// For copy_bytes(), of kLeastLong bytes or more;
void copy_long(std::byte* to, const std::byte* from, std::size_t length);
// and by the way that it takes there. False, and nothing is copied, where the processor cannot.
bool copy_by_vectors(std::byte* to, const std::byte* from, std::size_t length);

// As memcpy, which on AMD's Zen 3 and 4 takes up to four times as long where the destination lies some bytes behind the source within a
// page, as large blocks of malloc do: before 2.39, glibc copies 2 KiB and more there by one instruction (its bug 30994).
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t length) {
  if (length < kLeastLong) {
    std::memcpy(to, from, length);
  } else {
    copy_long(to, from, length);
  }
}

// Where the destination lies 1 .. kLaggingBytes - 1 bytes behind the source within a page, the processor's instruction for strings of
// bytes may lag, by which Linux copies what is read.
inline constexpr std::size_t kLaggingBytes = 32;
// Whether it takes four times as long there or more: measured once, in some 50 us.
bool string_copies_lag();

// What is to be copied next, to the caches, and where it goes: no processor foresees the beginnings of pieces, and another core's
// caches may have them. (A function that prefetches and no more is left out by some compilers, unless it is inlined.)
[[gnu::always_inline]] inline void prefetch_copy(std::byte* to, const std::byte* from, std::size_t length) {
  constexpr std::size_t kLine = 64, kFarthest = 3072;
  for (std::size_t i = 0; i < length && i < kFarthest; i += kLine) {
    __builtin_prefetch(from + i);
    __builtin_prefetch(to + i, 1);
  }
}

}  // namespace stridio
