// The agreements of a collective call: every rank leaves with the same verdict.
#pragma once

#include "group/group.h"

namespace stridio {

// An error as it travels; code 0 is success.
struct Verdict {
  std::int32_t code = 0;
  std::int32_t sys_errno = 0;
  char what[240] = {};
  char path[240] = {};
};
Verdict verdict_of(const Status& status);
// The error of the first rank that failed, naming it; success if none did.
Status worst(std::span<const Verdict> verdicts);

// Collective. Every rank's status in, the same out: one agreement.
Status agree(Group& group, const Status& mine);

}  // namespace stridio
