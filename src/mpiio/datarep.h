// The data representations that the program has registered, by name.
#pragma once

#include <memory>
#include <string_view>

#include "mpiio/representation.h"

namespace stridio::mpiio {

// The arguments of MPI_Register_datarep or, with the _c functions, of MPI_Register_datarep_c. A null conversion function
// (MPI_CONVERSION_FN_NULL) says that data of that direction are as in memory.
struct Datarep {
  MPI_Datarep_conversion_function* read = nullptr;
  MPI_Datarep_conversion_function* write = nullptr;
  MPI_Datarep_conversion_function_c* read_c = nullptr;
  MPI_Datarep_conversion_function_c* write_c = nullptr;
  MPI_Datarep_extent_function* extent = nullptr;
  void* extra_state = nullptr;
};

// kDuplicateDatarep for a name that is taken, MPI's own three included; kArgument for an empty or too long one, or without
// an extent function.
Status register_datarep(const char* name, const Datarep& datarep);
// Null for a name that is not registered.
std::shared_ptr<const Representation> find_datarep(std::string_view name);

}  // namespace stridio::mpiio
