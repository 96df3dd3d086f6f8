// A storage that fails on purpose, at an operation that can be told beforehand.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>

#include "storage/storage.h"

namespace stridio {

// Kinds of operations, as a set.
enum FaultKinds : unsigned {
  kFaultRead = 1,
  kFaultWrite = 2,
  kFaultSize = 4,
  kFaultResize = 8,
  kFaultReserve = 16,
  kFaultSync = 32,
  kFaultLock = 64,
  kFaultClose = 128,
  kFaultRefresh = 256,
  kFaultAny = 511,
};

struct FaultPlan {
  static constexpr std::int64_t kNever = -1;

  unsigned kinds = kFaultAny;   // only these are counted, from 0, and only these fail
  std::int64_t first = kNever;  // the number of the first operation that fails
  std::int64_t every = 0;       // then every so many after it: 1 is for good, 0 is never again
  int sys_errno = EIO;          // what it fails with
  Bytes prefix = 0;             // how many bytes of a failing read or write are moved all the same
};

// Forwards everything to `storage`, but for the operations that the plan fails. Their error names
// the number of the operation. Operations are numbered in the order in which they start, over all
// threads.
std::unique_ptr<Storage> wrap_fault(std::unique_ptr<Storage> storage, const FaultPlan& plan);

}  // namespace stridio
