// The agreements of a collective call: every rank leaves with the same verdict.
#pragma once

#include "group/levels.h"

namespace stridio {

// An error as it travels; code 0 is success.
struct Verdict {
  std::int32_t code = 0;
  std::int32_t sys_errno = 0;
  std::int32_t rank = -1;  // whose it is; -1: of the rank that says it
  char what[240] = {};
  char path[240] = {};
};
Verdict verdict_of(const Status& status);
// The error of the first rank that failed, naming it; success if none did.
Status worst(std::span<const Verdict> verdicts);

// Collective. Every rank's status in, the same out: one agreement, by way of the nodes where there are several.
Status agree(Group& group, const Status& mine);
Status agree(Levels& levels, const Status& mine);
// The worst of this rank's node, as its leader tells the other nodes.
Verdict worst_of_node(const Levels& levels, std::span<const Verdict> verdicts);

}  // namespace stridio
