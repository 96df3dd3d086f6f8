// The byte ranges that threads of this process hold locked.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

#include "storage/storage.h"

namespace stridio {

// Thread-safe. Two overlapping ranges are held together only where both are shared. Waiters are not
// queued: a stream of shared holders can keep an exclusive waiter out, as it can in the kernel's
// own lock table.
class RangeTable {
 public:
  struct Held {
    Extent range;
    LockMode mode;
  };
  using Ticket = std::list<Held>::iterator;

  // Waits until nothing conflicts with the range, then holds it.
  Ticket acquire(Extent range, LockMode mode);
  // Exclusively, unless something conflicts with the range.
  std::optional<Ticket> try_acquire(Extent range);

  // Lets go. First calls `free_part`, with the table locked, for every part of the range that no
  // other ticket covers: nobody can acquire a part before its call has returned.
  void release(Ticket ticket, const std::function<void(Extent)>& free_part = nullptr);

 private:
  bool conflicts(Extent range, LockMode mode) const;
  // The first part at or after `from`, within `range`, that no ticket covers; empty where there is
  // none.
  Extent first_free(Extent range, Offset from) const;

  std::mutex mutex_;
  std::condition_variable released_;
  std::list<Held> held_;
};

}  // namespace stridio
