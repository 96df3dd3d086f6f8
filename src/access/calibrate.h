// Measures what a storage takes, in a few requests.
#pragma once

#include "plan/profile.h"
#include "storage/storage.h"

namespace stridio {

struct CalibrationRules {
  bool writes = false;          // the storage's contents may be overwritten; else it is read as it is
  Bytes most = Bytes{4} << 20;  // bytes of it that are touched
  // Seconds after which no further step begins, but for whether requests overlap; more on a storage whose requests take longer than
  // 1 ms.
  double budget = 0.015;
};

// A profile with the storage's costs, or an error where a request failed or there is nothing to measure on: a file of fewer
// than 4096 bytes that may not be written. Where writes are not measured, they are taken to cost what reads cost.
Result<Profile> calibrate(Storage& storage, const CalibrationRules& rules);

}  // namespace stridio
