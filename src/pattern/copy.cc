// Both sides are walked by blocks. Where the ranges of the two blocks have the same length, or one side is a run long
// enough to count as many such ranges side by side, whole blocks move in one tight loop; otherwise the first range of
// the longer side is split off as a run, after which that holds or a single cut range moves. Cost: one loop
// iteration a range, no allocation.
#include "pattern/copy.h"

#include <cstring>

namespace stridio {
namespace {

template <std::size_t kLength>
void move_fixed(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, kLength);
    to += to_stride;
    from += from_stride;
  }
}

void move_ranges(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride, Bytes length,
                 std::int64_t count) {
  switch (length) {
    case 1: return move_fixed<1>(to, to_stride, from, from_stride, count);
    case 2: return move_fixed<2>(to, to_stride, from, from_stride, count);
    case 4: return move_fixed<4>(to, to_stride, from, from_stride, count);
    case 8: return move_fixed<8>(to, to_stride, from, from_stride, count);
    case 12: return move_fixed<12>(to, to_stride, from, from_stride, count);
    case 16: return move_fixed<16>(to, to_stride, from, from_stride, count);
    case 24: return move_fixed<24>(to, to_stride, from, from_stride, count);
    case 32: return move_fixed<32>(to, to_stride, from, from_stride, count);
    case 40: return move_fixed<40>(to, to_stride, from, from_stride, count);
    case 64: return move_fixed<64>(to, to_stride, from, from_stride, count);
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to, from, static_cast<std::size_t>(length));
        to += to_stride;
        from += from_stride;
      }
  }
}

// One side's current block and what was split off behind it.
class Walk {
 public:
  Walk(Side& side, Bytes bytes) : side_(side), left_(bytes) { fetch(); }

  const Block& block() const { return now_; }
  std::byte* address() const { return side_.base + now_.offset; }
  bool is_run() const { return now_.count == 1; }

  // Makes the current block its first range alone.
  void isolate() {
    if (now_.count == 1) return;
    rest_ = {now_.offset + now_.stride, now_.length, now_.count - 1, now_.stride};
    now_.count = 1;
  }
  void consume_ranges(std::int64_t count) {
    now_.offset += count * now_.stride;
    now_.count -= count;
    if (now_.count == 0) fetch();
  }
  // Of a run.
  void consume_bytes(Bytes bytes) {
    now_.offset += bytes;
    now_.length -= bytes;
    if (now_.length == 0) fetch();
  }

 private:
  void fetch() {
    if (rest_.count > 0) {
      now_ = rest_;
      rest_ = {};
    } else if (left_ > 0) {
      now_ = side_.cursor.next(left_);
      left_ -= now_.size();
    } else {
      now_ = {};
    }
  }

  Side& side_;
  Bytes left_;
  Block now_, rest_;
};

}  // namespace

void copy(Side& to, Side& from, Bytes bytes) {
  Walk a(to, bytes), b(from, bytes);
  while (bytes > 0) {
    const Bytes a_length = a.block().length, b_length = b.block().length;
    if (a_length == b_length && !(a.is_run() && b.is_run())) {
      const std::int64_t count = std::min(a.block().count, b.block().count);
      move_ranges(a.address(), a.block().stride, b.address(), b.block().stride, a_length, count);
      a.consume_ranges(count);
      b.consume_ranges(count);
      bytes -= count * a_length;
    } else if (a.is_run() && a_length >= b_length && !b.is_run()) {
      const std::int64_t count = std::min(a_length / b_length, b.block().count);
      move_ranges(a.address(), b_length, b.address(), b.block().stride, b_length, count);
      a.consume_bytes(count * b_length);
      b.consume_ranges(count);
      bytes -= count * b_length;
    } else if (b.is_run() && b_length >= a_length && !a.is_run()) {
      const std::int64_t count = std::min(b_length / a_length, a.block().count);
      move_ranges(a.address(), a.block().stride, b.address(), a_length, a_length, count);
      a.consume_ranges(count);
      b.consume_bytes(count * a_length);
      bytes -= count * a_length;
    } else if (!a.is_run() && a_length > b_length) {
      a.isolate();
    } else if (!b.is_run() && b_length > a_length) {
      b.isolate();
    } else {  // at least one run, the other's next range no shorter than it
      a.isolate();
      b.isolate();
      const Bytes length = std::min(a_length, b_length);
      std::memcpy(a.address(), b.address(), static_cast<std::size_t>(length));
      a.consume_bytes(length);
      b.consume_bytes(length);
      bytes -= length;
    }
  }
}

void pack(std::byte* to, const std::byte* base, const Pattern& from) {
  Side target{to, Cursor(Pattern::run(0, from.size()))};
  Side source{const_cast<std::byte*>(base), Cursor(from)};
  copy(target, source, from.size());
}

void unpack(std::byte* base, const Pattern& to, const std::byte* from) {
  Side target{base, Cursor(to)};
  Side source{const_cast<std::byte*>(from), Cursor(Pattern::run(0, to.size()))};
  copy(target, source, to.size());
}

}  // namespace stridio
