// The envelope and contents of a datatype: the arguments that it was made with.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

// MPI-4.1's combiners. The deprecated *_INTEGER ones are folded into those that replaced them.
enum class Combiner {
  kPredefined,  // named, or a parametrised Fortran type
  kDup,
  kContiguous,
  kVector,
  kHvector,
  kIndexed,
  kHindexed,
  kIndexedBlock,
  kHindexedBlock,
  kStruct,
  kSubarray,
  kDarray,
  kResized,
  kValueIndex,
};

// Owns the references to the inner types that MPI hands out.
struct Contents {
  static Result<Contents> of(MPI_Datatype datatype);
  ~Contents();
  Contents(Contents&& other) noexcept = default;
  Contents& operator=(Contents&&) = delete;

  Combiner combiner = Combiner::kPredefined;
  // All numbers in the order of MPI_Type_get_contents: integers, then addresses. A type made by a
  // large-count constructor has its counts at the same places.
  std::vector<std::int64_t> numbers;
  std::vector<MPI_Datatype> types;

 private:
  Contents() = default;
};

}  // namespace stridio::mpiio
