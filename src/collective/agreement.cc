#include "collective/agreement.h"

#include "base/text.h"

namespace stridio {

Verdict verdict_of(const Status& status) {
  Verdict verdict;
  if (status) return verdict;
  const Error& error = status.error();
  verdict.code = static_cast<std::int32_t>(error.code);
  verdict.sys_errno = error.sys_errno;
  error.what.copy(verdict.what, sizeof verdict.what - 1);
  shortened(error.path, sizeof verdict.path - 1).copy(verdict.path, sizeof verdict.path - 1);
  return verdict;
}

Status worst(std::span<const Verdict> verdicts) {
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    const Verdict& verdict = verdicts[rank];
    if (verdict.code == 0) continue;
    return fail(Error{.code = static_cast<Code>(verdict.code),
                      .what = verdict.what,
                      .sys_errno = verdict.sys_errno,
                      .path = verdict.path,
                      .rank = verdict.rank < 0 ? static_cast<int>(rank) : verdict.rank});
  }
  return {};
}

Status agree(Group& group, const Status& mine) {
  if (group.node_count() > 1) {
    ASSIGN_OR_RETURN(Levels* const levels, group.levels());
    return agree(*levels, mine);
  }
  ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts, allgather(group, verdict_of(mine)));
  return worst(verdicts);
}

Verdict worst_of_node(const Levels& levels, std::span<const Verdict> verdicts) {
  for (std::size_t member = 0; member < verdicts.size(); ++member) {
    if (verdicts[member].code == 0) continue;
    Verdict verdict = verdicts[member];
    verdict.rank = levels.members(levels.own())[member];
    return verdict;
  }
  return {};
}

Status agree(Levels& levels, const Status& mine) {
  ASSIGN_OR_RETURN(const std::vector<Verdict> here, allgather(levels.node(), verdict_of(mine)));
  ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts, allgather(levels, worst_of_node(levels, here)));
  return worst(verdicts);
}

}  // namespace stridio
