// Bytes of any length from any rank to any other, where most pairs have none.
#pragma once

#include "group/group.h"

namespace stridio {

struct Parcel {
  int peer = 0;  // to whom, or from whom
  Buffer bytes;
};

// Collective; at most one parcel to a rank. What was sent to this rank comes back by rank, empty ones left out. Across nodes
// a pair of nodes exchanges one message with all that goes between their ranks.
Result<std::vector<Parcel>> exchange_parcels(Group& group, std::vector<Parcel> parcels);

}  // namespace stridio
