// An aggregator's way through its file domain: windows that hold exactly the requested bytes of all ranks.
#pragma once

#include <vector>

#include "pattern/pattern.h"

namespace stridio {

struct FileWindow {
  Extent range;              // from a requested byte to one past a requested byte
  std::vector<Extent> runs;  // the union of all ranks' bytes in it: maximal, ascending

  bool empty() const { return range.empty(); }
  bool whole() const { return runs.size() == 1; }
};

// Memory: the runs of one window, at most kMostRuns.
class WindowReader {
 public:
  // `patterns`: every rank's bytes in the domain, ascending.
  WindowReader(std::span<const Pattern> patterns, Bytes length) : union_(patterns), length_(length) {}
  // An empty window at the end.
  FileWindow next();

 private:
  static constexpr std::size_t kMostRuns = 1 << 16;
  UnionReader union_;
  Bytes length_;
  Extent ahead_;  // the rest of a run that a window's end cut
};

}  // namespace stridio
