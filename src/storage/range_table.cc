#include "storage/range_table.h"

#include <algorithm>

namespace stridio {

bool RangeTable::conflicts(Extent range, LockMode mode) const {
  return std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
    const bool both_shared = mode == LockMode::kShared && held.mode == LockMode::kShared;
    return !both_shared && !intersect(held.range, range).empty();
  });
}

RangeTable::Ticket RangeTable::acquire(Extent range, LockMode mode) {
  std::unique_lock lock(mutex_);
  released_.wait(lock, [&] { return !conflicts(range, mode); });
  return held_.insert(held_.end(), Held{range, mode});
}

std::optional<RangeTable::Ticket> RangeTable::try_acquire(Extent range) {
  std::lock_guard lock(mutex_);
  if (conflicts(range, LockMode::kExclusive)) return std::nullopt;
  return held_.insert(held_.end(), Held{range, LockMode::kExclusive});
}

Extent RangeTable::first_free(Extent range, Offset from) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (const Held& held : held_) {
      if (held.range.offset > from || held.range.end() <= from) continue;
      from = held.range.end();
      moved = true;
    }
  }
  Offset to = range.end();
  for (const Held& held : held_)
    if (held.range.offset > from) to = std::min(to, held.range.offset);
  return {from, to - from};
}

void RangeTable::release(Ticket ticket, const std::function<void(Extent)>& free_part) {
  {
    std::lock_guard lock(mutex_);
    const Extent range = ticket->range;
    held_.erase(ticket);
    if (free_part) {
      for (Extent part = first_free(range, range.offset); !part.empty(); part = first_free(range, part.end()))
        free_part(part);
    }
  }
  released_.notify_all();
}

}  // namespace stridio
