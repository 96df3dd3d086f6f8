// File views: MPI's arguments -> File's, and the copies of them that get_view hands out.
#pragma once

#include "mpiio/handle.h"

namespace stridio::mpiio {

// Collective. A rank whose arguments are bad takes part, with its error.
Status set_view(OpenFile& open, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep,
                MPI_Info info);
// The types are for the program to free, unless they are predefined.
Status get_view(OpenFile& open, MPI_Offset* displacement, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep);

// Of a datatype in the file's present representation.
Result<Bytes> file_extent(const OpenFile& open, MPI_Datatype datatype);

}  // namespace stridio::mpiio
