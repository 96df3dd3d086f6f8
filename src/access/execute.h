// The executors of an access plan on one process. They decide nothing: method, staging, locks and windows come with
// the plan, and are carried out to the byte.
#pragma once

#include "base/times.h"
#include "pattern/copy.h"
#include "plan/access_plan.h"
#include "storage/storage.h"

namespace stridio {

// For plan_access(): shape_of() with the size of the file, where it matters and is no request.
Result<RequestShape> shape_on(Storage& storage, const Profile& profile, Direction direction, const Pattern& file,
                              const Memory& memory);

// How a long read of `file` is stored, by a sample of it; nothing where it lies as it is asked for, or is waited for anyway.
void note_stored(Storage& storage, const Profile& profile, const Pattern& file, RequestShape& shape);

// Moves memory.pattern.size() bytes between `memory` and the bytes `file` of `storage`, position by position.
// A read ends at the end of the file, at the first data position that lies past it; memory after that is
// untouched. Thread-safe as the storage is. Memory used: the plan's window and a bounded list of ranges.
Result<Transferred> execute(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                            const Memory& memory, Times& times);

// Writes `extents` (ascending) from `buffer`, whose first byte stands for offset `origin`, as transfer_deep does.
Status write_from(Storage& storage, std::span<const Extent> extents, std::byte* buffer, Offset origin,
                  const Deep& deep);

}  // namespace stridio
