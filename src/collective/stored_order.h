// A collective read in the order in which bytes are stored, where that is another one than they are asked for in.
#pragma once

#include "base/times.h"
#include "group/group.h"
#include "pattern/copy.h"
#include "plan/collective_plan.h"
#include "storage/storage.h"

namespace stridio {

// As two_phase() of a read, over a plan that says `in_stored_order`. `memory` is what the group shares.
Result<Transferred> in_stored_order(Group& group, SharedMemory memory, Storage& storage, const CollectivePlan& plan,
                                    const Pattern& file, const Memory& to, Times& times);
// How much of that it takes.
Bytes shared_for_stored_order(const CollectivePlan& plan, int ranks);

}  // namespace stridio
