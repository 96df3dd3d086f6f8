// Translation: the bytes of one file become another's, in which other processes own them, or none does. Sets of bytes are
// interval maps here, of which only the logical side means something.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "interval/interval_file.h"
#include "interval/sets.h"

namespace stridio {

IntervalMap all_bytes(Bytes size);
// Those of a view below `end`. Memory and time follow its ranges there.
IntervalMap bytes_of(const TiledView& view, Bytes end);
// What the generation that the file is read from maps, as a whole and by process.
Result<IntervalMap> content_of(IntervalFile& file);
Result<std::vector<IntervalMap>> content_by_process(IntervalFile& file);
// The bytes of `now` that may differ from those of `before`, an earlier generation of the same file: all but those that are
// stored at one place in both, in cells of equal sums. While both are pinned what is stored at one place is equal anyway, unless
// the file has been emptied and made anew.
Result<IntervalMap> changed_between(IntervalFile& before, IntervalFile& now);

// Who is to have which bytes.
struct Owners {
  std::vector<IntervalMap> bytes;  // by process; disjoint
  Bytes unclaimed = 0;             // that no view has, and process 0 gets
};
// Everything of `content` has one owner: of the views that have a byte the last, as in a commit.
Owners assign(std::span<const IntervalMap> views, const IntervalMap& content);

// How much of the content is done.
using Progress = std::function<void(double share)>;

// Collective: what `source` has at `content`, below its size, is written to `target`: by each rank of the group what
// `owners` says, whose processes are its ranks. A reading rank takes a window of some megabytes at a time, and sends each
// owner its share; `readers` of them do so at once, and that bounds the memory: some 25 MiB for each, besides the maps.
Status move_to_owners(Group& group, Storage& source, const IntervalMap& content, const Owners& owners, Storage& target,
                      int readers, const Progress& progress);
// What of a flat file is as in an earlier one.
struct Earlier {
  Storage& file;
  IntervalMap changed;  // everything but this
};
// Collective: the same into a flat file that is all zeros, window by window as a whole; a window in which nothing has changed
// since an earlier one is copied from there. `writes`: how the target's requests are under way.
Status move_to_flat(Group& group, Storage& source, const IntervalMap& content, Storage& target, const Deep& writes,
                    const Earlier* earlier, const Progress& progress);

}  // namespace stridio
