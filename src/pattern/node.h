// The nodes of a pattern. Children of strided and indexed nodes stand at displacement 0 (their own displacement is
// folded into the parent's), no node is empty, and simplify-on-construction leaves no node that a smaller one equals.
#pragma once

#include "pattern/pattern.h"

namespace stridio {

struct Pattern::Node {
  enum class Kind : std::uint8_t { kRun, kStrided, kIndexed, kSequence };

  Kind kind = Kind::kRun;
  bool ascending = true;
  bool nondecreasing = true;
  Bytes size = 0;
  Offset lower = 0;
  Offset upper = 0;
  Offset first = 0;  // where the first range starts, in data order
  Offset last = 0;   // where the last range starts
  std::int64_t runs = 1;
  int levels = 0;  // of the Nest that it is; negative where it is none

  std::int64_t count = 0;             // strided: copies
  Bytes stride = 0;                   // strided, and the copies within an indexed node's block
  std::shared_ptr<const Node> child;  // strided, indexed

  std::vector<Offset> displacements;  // indexed
  std::vector<std::int64_t> before;   // indexed: copies before block i, n + 1 of them; empty: one copy a block.
                                      // sequence: bytes before part i, n + 1 of them
  std::vector<Pattern> parts;         // sequence

  std::int64_t blocks() const { return static_cast<std::int64_t>(displacements.size()); }
  std::int64_t copies(std::int64_t block) const { return before.empty() ? 1 : before[block + 1] - before[block]; }
  // Of a node around `child`, whose own copies are placed by a stride.
  static int levels_around(const Node& child) {
    const bool nest = child.levels >= 0 && child.levels < Nest::kLevels && child.kind != Kind::kIndexed;
    return nest ? child.levels + 1 : -1;
  }
};

}  // namespace stridio
