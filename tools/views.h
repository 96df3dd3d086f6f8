// Views of ranks, as users give them to the command: a JSON file of one's own,
//   {"end": BYTES,                                         how far to look; may be left out
//    "views": [{"displacement": BYTES, "extent": BYTES,    0, and the larger of the end and the tile's, where left out
//               "regions": [[OFFSET, LENGTH], ...]         the tile: pieces,
//               "vector": [COUNT, LENGTH, STRIDE]          or so many, STRIDE bytes apart,
//               "subarray": {"sizes": [...], "subsizes": [...], "starts": [...], "element": BYTES}}, ...]}   or a box
// one view a rank, whose regions may be none; or from a run's report (`stridio run --report`), which holds the last view that
// each rank had set. What a description says must be exactly this: nothing unknown, empty, overlapping or beyond the extent.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "interval/sets.h"

namespace stridio {

// Of a file that one process writes: each is a thread there, and what they take together grows by the square.
inline constexpr std::size_t kMostRanks = 1024;

struct Views {
  std::vector<TiledView> by_rank;
  Offset end = 0;  // how far to look; 0: nothing says
};
// `of_file`: of a report, whose views; empty: those of the only one that has any. Throws std::runtime_error: what is wrong.
Views read_views(const std::string& source, const std::string& of_file);

}  // namespace stridio
