// The envelope and contents of a datatype: the arguments that it was made with.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

// MPI-4.1's combiners. The deprecated *_INTEGER ones are folded into those that replaced them.
enum class Combiner {
  kNamed,
  kF90Real,
  kF90Complex,
  kF90Integer,
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

// Of types that MPI gives: nobody frees them.
inline bool is_predefined(Combiner combiner) { return combiner <= Combiner::kF90Integer; }

// Owns the references to the inner types that MPI hands out.
struct Contents {
  static Result<Contents> of(MPI_Datatype datatype);
  ~Contents();
  Contents(Contents&& other) noexcept = default;
  Contents& operator=(Contents&&) = delete;

  Combiner combiner = Combiner::kNamed;
  // All numbers in the order of MPI_Type_get_contents: integers, then addresses. A type made by a
  // large-count constructor has its counts at the same places.
  std::vector<std::int64_t> numbers;
  std::vector<MPI_Datatype> types;

 private:
  Contents() = default;
};

}  // namespace stridio::mpiio
