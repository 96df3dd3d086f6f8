// A storage that watches what is asked of it: that no byte is written which must not be, none
// without the lock that it needs, and whether anything failed.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "storage/storage.h"

namespace stridio::testing {

struct Watch {
  // Whether a write may touch a range; empty: any.
  std::function<bool(const Extent&)> may_write;
  bool must_lock = false;  // every write within an exclusive lock that this storage holds
  bool has_locks = true;   // else lock() fails, as on file systems that have none
  bool yields = false;     // other threads run between a read and what is made of it

  // What was seen; deep requests come from several threads.
  std::mutex mutex;
  std::optional<Extent> stray_write;     // the first that may_write refused
  std::optional<Extent> unlocked_write;  // the first without a lock that it needed
  int failures = 0;
  std::list<Extent> held;  // exclusive locks, now
};

// Forwards everything unchanged. `watch` must outlive it.
std::unique_ptr<Storage> wrap_watch(std::unique_ptr<Storage> storage, Watch& watch);

}  // namespace stridio::testing
