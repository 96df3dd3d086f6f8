// Builds a Type from a datatype's contents, without any cache.
#pragma once

#include "mpiio/datatype.h"

namespace stridio::mpiio {

// As in memory where there is no representation: kDatatype where the host's size of the datatype and ours differ, for
// rather no I/O than wrong bytes. Else as in a file, without the signature.
Result<Type> build_type(MPI_Datatype datatype, const Representation* representation);

}  // namespace stridio::mpiio
