// A storage that watches what is asked of it: that no byte is written which must not be, and
// whether anything failed.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "storage/storage.h"

namespace stridio::testing {

struct Watch {
  // Whether a write may touch a range; empty: any.
  std::function<bool(const Extent&)> may_write;

  // What was seen.
  std::optional<Extent> stray_write;  // the first that may_write refused
  int failures = 0;
  int operations = 0;
  int writes = 0;
  int locks = 0;
};

// Forwards everything unchanged. For one thread at a time; `watch` must outlive it.
std::unique_ptr<Storage> wrap_watch(std::unique_ptr<Storage> storage, Watch& watch);

}  // namespace stridio::testing
