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

// How bytes are stored: kStreamed past the caches, kLongStreamed so of long pieces alone. Lines that are written whole need not be
// read first then, which spares a fifth where the caches would not keep them anyway.
enum class Stores { kCached, kLongStreamed, kStreamed };
inline constexpr std::size_t kLineBytes = 64;  // of the caches
// Shorter pieces have too few whole lines,
inline constexpr std::size_t kLeastStreamed = 512;
// ... or would be kept where the last cache is large.
inline constexpr std::size_t kLeastLongStreamed = 4096;
constexpr bool streams(Stores stores, std::size_t length) {
  return stores != Stores::kCached && length >= (stores == Stores::kStreamed ? kLeastStreamed : kLeastLongStreamed);
}
// As the other copy_bytes().
void copy_bytes(std::byte* to, const std::byte* from, std::size_t length, Stores stores);
// By the way that it takes to stream. False, and nothing is copied, where the processor cannot.
bool copy_by_streaming(std::byte* to, const std::byte* from, std::size_t length);

// While one thread copies so many bytes. Other threads see what was streamed when it has ended.
class Streaming {
 public:
  static constexpr std::size_t kLeast = std::size_t{4} << 20;  // a core's share of the last cache, as a rule

  // Streams kLeast bytes and more: on AMD's processors (measured on Zen 3 and 4) short pieces too, on others (measured on an Intel
  // Xeon with AVX-512) long ones alone.
  explicit Streaming(std::size_t bytes);
  ~Streaming();
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;

  Stores stores() const { return stores_; }

 private:
  const Stores stores_;
};

// Where the destination lies 1 .. kLaggingBytes - 1 bytes behind the source within a page, the processor's instruction for strings of
// bytes may lag, by which Linux copies what is read.
inline constexpr std::size_t kLaggingBytes = 32;
// Whether it takes four times as long there or more: measured once, in some 50 us.
bool string_copies_lag();

// What is to be copied next, to the caches, and where it goes: no processor foresees the beginnings of pieces, and another core's caches may
// have them. Of what is streamed only where it begins and ends within lines: what is stored next would wait till these are there. (A
// function that prefetches and no more is left out by some compilers, unless inlined.)
[[gnu::always_inline]] inline void prefetch_copy(std::byte* to, const std::byte* from, std::size_t length,
                                                 Stores stores = Stores::kCached) {
  constexpr std::size_t kFarthest = 3072;
  if (streams(stores, length)) {
    __builtin_prefetch(to, 1);
    __builtin_prefetch(to + length - 1, 1);
    return;
  }
  for (std::size_t i = 0; i < length && i < kFarthest; i += kLineBytes) {
    __builtin_prefetch(from + i);
    __builtin_prefetch(to + i, 1);
  }
}

}  // namespace stridio
