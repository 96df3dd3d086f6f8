// System calls below the posix storage that a test makes fail: each thread, which is a rank, sets
// what its own do.
#pragma once

#include "storage/posix_calls.h"
#include "storage/wrap/fault.h"
#include "support/random_pattern.h"

namespace stridio::testing {

// While it lives, faulty_calls() made by this thread are interrupted and fall short, as POSIX
// allows.
class TransientFaults {
 public:
  explicit TransientFaults(std::uint64_t seed);
  ~TransientFaults();
};

// While it lives, those of this thread that the plan names fail with its errno. The plan's prefix
// is not used.
class LastingFaults {
 public:
  explicit LastingFaults(const FaultPlan& plan);
  ~LastingFaults();
};

PosixCalls faulty_calls();

}  // namespace stridio::testing
