// Requests of one process that are under way at once, for storages that are far: latencies of many overlap.
#pragma once

#include <functional>

#include "plan/access_plan.h"
#include "storage/storage.h"

namespace stridio {

// Calls each(0) to each(count - 1), which throws nothing, on up to `depth` threads at once. Once it has returned false no more are
// begun.
void at_once(int depth, std::size_t count, const std::function<bool(std::size_t)>& each);

// As storage.readv or storage.writev of the same lists, by up to `deep.depth` threads. A write that fails may have written any part
// of the request. A read whose extents do not ascend, or overlap, is one call: it ends where
// the first of them meets the end of the file.
Result<Transferred> transfer_deep(Storage& storage, Direction direction, std::span<const Extent> extents,
                                  std::span<const Span> memory, const Deep& deep);

}  // namespace stridio
