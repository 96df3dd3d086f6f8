// Reading to memory for which the kernel's copying is slow.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/copy_bytes.h"
#include "base/extent.h"
#include "base/page_buffer.h"

namespace stridio {

// Linux copies what is read by the processor's instruction for strings, which on AMD's Zen 3 and 4 takes twenty times as long from the
// caches, and two to three times as long from memory, where the destination lies 1 to 31 bytes behind the source within a page: as large
// blocks of malloc do (they begin 16 bytes behind a page) for bytes that begin with a page of the file. Such pieces of a call go to a
// buffer, from which this copies them. Not thread-safe.
class Detour {
 public:
  // `needed`: whether the kernel's copying lags; else no piece takes it.
  explicit Detour(bool needed) : needed_(needed) {}

  static constexpr Bytes kRoom = Bytes{96} << 10;  // less than malloc asks the kernel for
  static constexpr Bytes kLeast = 1024;            // of a piece: what less takes longer is little

  // Where the call is to put `piece`, which comes from `offset` of the file: as much of it as there is room for, which for a call's
  // first piece there is.
  Span place(Span piece, Offset offset) {
    if (!needed_ || piece.length < kLeast || !lags(piece.data, offset)) return piece;
    if (!buffer_) buffer_ = page_buffer(kRoom, std::nothrow);
    if (!buffer_) return piece;
    const Bytes at = used_ + ((offset - used_) & (Bytes{kLineBytes} - 1));  // as far behind a line as in the file
    const Bytes length = std::min(piece.length, kRoom - at);
    if (length < kLeast) return {};
    moves_[count_++] = {piece.data, buffer_.get() + at, offset, length};
    used_ = at + length;
    return {buffer_.get() + at, length};
  }

  // The call has brought the bytes up to `end` of the file; the next one begins.
  void arrive(Offset end) {
    for (std::size_t i = 0; i < count_; ++i) {
      const Move& move = moves_[i];
      copy_bytes(move.to, move.from, static_cast<std::size_t>(std::clamp<Bytes>(end - move.offset, 0, move.length)));
    }
    count_ = 0;
    used_ = 0;
  }

 private:
  struct Move {
    std::byte* to;
    const std::byte* from;
    Offset offset;
    Bytes length;
  };

  static bool lags(const std::byte* to, Offset from) {
    const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(to) - static_cast<std::uintptr_t>(from);
    return behind % kPageBytes - 1 < kLaggingBytes - 1;
  }

  const bool needed_;
  PageBuffer buffer_;
  // Left uninitialized, as most calls do not use them.
  std::array<Move, static_cast<std::size_t>(kRoom / kLeast)> moves_;
  std::size_t count_ = 0;
  Bytes used_ = 0;
};

}  // namespace stridio
