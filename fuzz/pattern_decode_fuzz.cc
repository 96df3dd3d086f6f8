// Decoding of patterns from any bytes: either refused, or a pattern that keeps all its promises in
// bounded time and memory. The bytes are a pattern's body; magic, version and checksum are put
// around them, which the fuzzer would not hit upon.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "pattern/pattern.h"

namespace {

using namespace stridio;

constexpr int kMostBlocks = 300;

void check(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

std::vector<std::byte> sealed(std::span<const std::byte> body) {
  std::vector<std::byte> bytes{std::byte{'P'}, std::byte{1}};
  bytes.insert(bytes.end(), body.begin(), body.end());
  const std::uint32_t sum = XXH32(bytes.data(), bytes.size(), 0);
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(sum >> shift));
  return bytes;
}

void check_equal_facts(const Pattern& a, const Pattern& b) {
  check(a.size() == b.size(), "equal sizes");
  check(a.lower() == b.lower() && a.upper() == b.upper(), "equal bounds");
  check(a.ascending() == b.ascending() && a.nondecreasing() == b.nondecreasing(), "equal order");
  check(a.encode() == b.encode(), "equal encodings");
}

// The ranges from `position` on, at most kMostBlocks of them, and where they end in the data.
Bytes walk(const Pattern& pattern, Bytes position, std::vector<Extent>& ranges) {
  Cursor cursor(pattern, position);
  Offset last = pattern.lower();
  for (int i = 0; i < kMostBlocks && !cursor.done(); ++i) {
    const Bytes before = cursor.position();
    const Extent range = cursor.next_range();
    check(range.length > 0, "ranges are not empty");
    check(cursor.position() == before + range.length, "the cursor counts what it yields");
    check(range.offset >= pattern.lower() && range.end() <= pattern.upper(), "ranges are within the bounds");
    check(!pattern.ascending() || range.offset >= last, "ranges of an ascending pattern ascend");
    last = range.end();
    ranges.push_back(range);
  }
  check(cursor.position() <= pattern.size(), "the cursor stays within the pattern");
  return cursor.position();
}

void check_blocks(const Pattern& pattern, Bytes position) {
  Cursor cursor(pattern, position);
  for (int i = 0; i < kMostBlocks && !cursor.done(); ++i) {
    const Block block = cursor.next(1 + i * i * i);
    check(block.count > 0 && block.length > 0, "blocks are not empty");
    check(block.size() <= 1 + i * i * i, "blocks keep the limit");
  }
}

std::vector<Extent> merged(const std::vector<Extent>& ranges) {
  std::vector<Extent> runs;
  for (const Extent& range : ranges) {
    if (!runs.empty() && runs.back().end() == range.offset)
      runs.back().length += range.length;
    else
      runs.push_back(range);
  }
  return runs;
}

// A slice is what a cursor walks from its start to its end.
void check_slice(const Pattern& pattern, Bytes begin) {
  std::vector<Extent> walked, sliced;
  const Bytes end = walk(pattern, begin, walked);
  const Pattern slice = pattern.slice(begin, end);
  check(slice.size() == end - begin, "a slice has its size");
  for (Cursor cursor(slice); !cursor.done() && sliced.size() <= 2 * kMostBlocks;) sliced.push_back(cursor.next_range());
  check(merged(walked) == merged(sliced), "a slice has the ranges of the walk");
  check(!pattern.ascending() || slice.ascending(), "a slice of an ascending pattern ascends");
}

void check_clip(const Pattern& pattern, Offset from, Offset to) {
  if (!pattern.ascending() || from > to) return;
  const Bytes below_from = pattern.bytes_below(from), below_to = pattern.bytes_below(to);
  check(0 <= below_from && below_from <= below_to && below_to <= pattern.size(), "bytes_below ascends");
  const Pattern clipped = pattern.clip({from, to - from});
  check(clipped.size() == below_to - below_from, "a clip has the bytes between its ends");
  check(clipped.empty() || (clipped.lower() >= from && clipped.upper() <= to), "a clip keeps its window");
}

void check_promises(const Pattern& pattern, std::size_t input) {
  check(pattern.footprint() <= static_cast<Bytes>(2000 + 600 * input), "memory follows the input");
  const auto again = Pattern::decode(pattern.encode());
  check(again.has_value(), "what is encoded decodes");
  check_equal_facts(pattern, *again);
  const std::uint64_t mixed = XXH64(&input, sizeof input, static_cast<std::uint64_t>(pattern.size()));
  const Bytes somewhere = pattern.empty() ? 0 : static_cast<Bytes>(mixed % static_cast<std::uint64_t>(pattern.size()));
  for (const Bytes position : {Bytes{0}, somewhere, pattern.size() / 2, pattern.size()}) {
    check_blocks(pattern, position);
    check_slice(pattern, position);
  }
  const Offset middle = pattern.lower() / 2 + pattern.upper() / 2;
  check_clip(pattern, pattern.lower(), middle);
  check_clip(pattern, middle, pattern.upper());
  check_clip(pattern, pattern.lower() + 1, middle + 1);
  RunReader reader{Cursor(pattern)};
  for (int i = 0; i < kMostBlocks; ++i)
    if (const auto run = reader.next(); !run || run->length > pattern.size()) break;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto lucky = Pattern::decode(bytes)) check_promises(*lucky, size);
  if (const auto pattern = Pattern::decode(sealed(bytes))) check_promises(*pattern, size);
  return 0;
}
