// Whether an interval file is whole.
#pragma once

#include <string>
#include <vector>

#include "storage/storage.h"

namespace stridio {

struct Check {
  std::vector<std::string> damage;  // what is wrong with the newest generation: bytes are lost
  std::vector<std::string> notes;   // what is odd, and harms nothing
};

// Reads everything of the newest generation and verifies it: sums, places, that no two processes have one byte. Fails
// where the storage cannot be read. A program may commit meanwhile: what is checked is pinned, or, without locks, checked anew.
Result<Check> check_interval_file(Storage& storage);

}  // namespace stridio
