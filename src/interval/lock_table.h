// The lock managers of one node: a table each, in memory that all ranks map.
#pragma once

#include "group/segment.h"
#include "interval/lock.h"

namespace stridio {

// What lock_table_bytes() of the segment hold is the managers' alone, and zeroed.
Bytes lock_table_bytes(int ranks);
// Called on every rank before any of them locks, by one of them first with `first` and an agreement after it.
Result<std::unique_ptr<LockManager>> make_lock_tables(std::shared_ptr<Segment> segment, int rank, int ranks,
                                                      bool first);

}  // namespace stridio
