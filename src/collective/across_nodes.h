// Two-phase I/O between nodes.
#pragma once

#include "collective/collective.h"

namespace stridio {

// Collective, as two_phase(), for any group.
Result<Transferred> across_nodes(Group& group, Storage& storage, const CollectivePlan& plan, Direction direction,
                                 const Pattern& file, const Memory& memory, const Known& known, Times& times);

}  // namespace stridio
