// The copy kernel: moves bytes between two patterns, position by position in data order. Pack and unpack are the
// cases where one side is a run. Equal ranges on both sides go as fixed-size moves for the common element lengths.
#pragma once

#include "pattern/pattern.h"

namespace stridio {

// One side of a copy: a cursor whose offsets are relative to `base`.
struct Side {
  std::byte* base = nullptr;
  Cursor cursor;
};

// A user's memory: `pattern` relative to `base`. May be empty.
struct Memory {
  std::byte* base = nullptr;
  Pattern pattern;
};

// Moves the next `bytes` bytes from `from` to `to` and advances both cursors. The two must not overlap in memory.
void copy(Side& to, Side& from, Bytes bytes);

// Whole-pattern conveniences.
void pack(std::byte* to, const std::byte* base, const Pattern& from);
void unpack(std::byte* base, const Pattern& to, const std::byte* from);

}  // namespace stridio
