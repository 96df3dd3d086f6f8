#include "collective/window_reader.h"

namespace stridio {

FileWindow WindowReader::next() {
  FileWindow window;
  Offset limit = 0;
  while (window.runs.size() < kMostRuns) {
    if (ahead_.empty()) ahead_ = union_.next().value_or(Extent{});
    if (ahead_.empty()) break;
    if (window.runs.empty()) limit = ahead_.offset + length_;
    const Extent inside = intersect(ahead_, {ahead_.offset, limit - ahead_.offset});
    if (inside.empty()) break;
    window.runs.push_back(inside);
    ahead_ = {inside.end(), ahead_.end() - inside.end()};
    if (!ahead_.empty()) break;
  }
  if (!window.runs.empty())
    window.range = {window.runs.front().offset, window.runs.back().end() - window.runs.front().offset};
  return window;
}

}  // namespace stridio
