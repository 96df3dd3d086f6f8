// The data representations that the program has registered, by name.
#pragma once

#include <string_view>

#include "base/result.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

struct Datarep {
  MPI_Datarep_conversion_function* read = nullptr;
  MPI_Datarep_conversion_function* write = nullptr;
  MPI_Datarep_conversion_function_c* read_c = nullptr;
  MPI_Datarep_conversion_function_c* write_c = nullptr;
  MPI_Datarep_extent_function* extent = nullptr;
  void* extra_state = nullptr;
};

// kDuplicateDatarep for a name that is taken, MPI's own three included; kArgument for an empty or too long one.
Status register_datarep(const char* name, const Datarep& datarep);
bool is_registered(std::string_view name);

}  // namespace stridio::mpiio
