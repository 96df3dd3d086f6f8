// Random datatypes by every constructor of MPI, nested.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace stridio::testing {

struct MadeType {
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  // committed; for the caller to free
  std::string how;
  std::vector<std::int64_t> bytes;  // the type map by MPI's definitions: each byte's displacement, in order
};

struct TypeLimits {
  int depth = 3;
  MPI_Count size = 1 << 14;        // bytes of data
  MPI_Count extent = 1 << 20;      // of extent and true extent
  bool for_views = false;          // displacements ascend without overlap, tiles too, and none is negative
  const MadeType* base = nullptr;  // built of copies of this type; null: of any predefined ones
};

MadeType random_datatype(std::mt19937_64& random, const TypeLimits& limits = {});

}  // namespace stridio::testing
