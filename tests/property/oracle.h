// The byte-array oracle: what file and memory must hold after a case, byte by byte, worked out
// without the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "property/case.h"

namespace stridio::testing {

using Image = std::vector<std::byte>;

// Calls body(file offset, memory offset, length) for the first `limit` bytes, in pieces that are
// one on both sides.
template <typename Body>
void each_piece(const Pattern& file, const Pattern& memory, Bytes limit, Body body) {
  Cursor at(file), in(memory);
  Extent f, m;
  while (limit > 0) {
    if (f.empty()) f = at.next_range();
    if (m.empty()) m = in.next_range();
    const Bytes length = std::min({f.length, m.length, limit});
    body(f.offset, m.offset, length);
    f = {f.offset + length, f.length - length};
    m = {m.offset + length, m.length - length};
    limit -= length;
  }
}

// How many bytes a read of `file` gets before it first meets the end of a file of `length` bytes.
Bytes bytes_before_end(const Pattern& file, Bytes length);

// Who writes, or wrote, which byte of a file.
class Ownership {
 public:
  // Forgets everything; offsets below `upper` can be asked for.
  void reset(Offset upper) { writers_.assign(static_cast<std::size_t>(upper), 0); }
  void add(int writer, const Pattern& file);

  using Writers = std::uint16_t;  // a set, by bit
  Offset upper() const { return static_cast<Offset>(writers_.size()); }
  Writers at(Offset offset) const { return writers_[static_cast<std::size_t>(offset)]; }
  // Whether all bytes of the range have a writer of the set.
  bool covers(const Extent& range, Writers set) const;
  // Whether a byte has several.
  bool overlap() const;

 private:
  std::vector<Writers> writers_;
};
inline Ownership::Writers set_of(int writer) { return static_cast<Ownership::Writers>(1 << writer); }
inline constexpr Ownership::Writers kAnybody = 0xffff;

// What is wrong with a file into which the owners wrote. `before`: its length before. The ranks in
// `failed` may have written any part of theirs. Nothing where all is right.
std::optional<std::string> wrong_file(const Image& file, const Ownership& owners, Bytes before,
                                      Ownership::Writers failed);

// A user's memory with a margin on both sides, filled with noise.
struct UserMemory {
  Image bytes;
  Bytes margin = 0;

  std::byte* base() { return bytes.data() + margin; }
};
inline constexpr Bytes kMargin = 24;
UserMemory noise_for(const Pattern& memory);
// The same with the rank's contents at the request's bytes: what is to be written.
UserMemory memory_to_write(const RankRequest& request, int rank);
// The same after a read of `bytes` bytes from a file.
UserMemory memory_after_read(const RankRequest& request, const Image& file, Bytes bytes);

}  // namespace stridio::testing
