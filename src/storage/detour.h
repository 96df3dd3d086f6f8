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
  static constexpr Bytes kRoom = Bytes{96} << 10;  // less than malloc asks the kernel for
  static constexpr Bytes kLeast = 1024;            // of a piece: what less takes longer is little

  // Where the call is to put `piece`, which comes from `offset` of the file, and is the `before`th byte of the call and those that
  // follow: as much of it as there is room for, which for a call's first piece there is.
  Span place(Span piece, Offset offset, Bytes before) {
    if (piece.length < kLeast || !lags(piece.data, offset)) return piece;
    if (!buffer_ && !make_buffer()) return piece;
    constexpr Bytes kLine = 64;
    const Bytes at = used_ + (((offset - used_) % kLine) + kLine) % kLine;
    const Bytes length = std::min(piece.length, kRoom - at);
    if (length < kLeast) return {};
    moves_[count_++] = {{piece.data, length}, buffer_.get() + at, before};
    used_ = at + length;
    return {buffer_.get() + at, length};
  }

  // The call has brought so many bytes; the next one begins.
  void arrive(Bytes bytes) {
    for (std::size_t i = 0; i < count_; ++i) {
      const Move& move = moves_[i];
      const Bytes length = std::clamp<Bytes>(bytes - move.before, 0, move.to.length);
      copy_bytes(move.to.data, move.from, static_cast<std::size_t>(length));
    }
    count_ = 0;
    used_ = 0;
  }

 private:
  struct Move {
    Span to;
    const std::byte* from;
    Bytes before;
  };

  static bool lags(const std::byte* to, Offset from) {
    const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(to) - static_cast<std::uintptr_t>(from);
    return behind % kPageBytes - 1 < kLaggingBytes - 1;
  }
  bool make_buffer() {
    buffer_.reset(new (std::align_val_t{kPageBytes}, std::nothrow) std::byte[static_cast<std::size_t>(kRoom)]);
    return buffer_ != nullptr;
  }

  PageBuffer buffer_;
  std::array<Move, static_cast<std::size_t>(kRoom / kLeast)> moves_;
  std::size_t count_ = 0;
  Bytes used_ = 0;
};

}  // namespace stridio
