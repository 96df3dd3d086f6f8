// Builds a Type from a datatype's contents, without any cache.
#pragma once

#include "mpiio/datatype.h"

namespace stridio::mpiio {

// kDatatype where the host's size of the datatype and ours differ: rather no I/O than wrong bytes.
Result<Type> build_type(MPI_Datatype datatype);

}  // namespace stridio::mpiio
