// MPI's argument forms <-> those of file/.
#pragma once

#include <string>

#include "base/result.h"
#include "file/file.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

// kAmode for bits that MPI does not define; which combinations are allowed is File's business.
Result<AccessMode> access_mode(int amode);
Result<Whence> whence_of(int whence);

// MPI_INFO_NULL is the empty list.
HintList hints_of(MPI_Info info);
// An info object for the program to free. Entries longer than MPI allows are left out.
MPI_Info info_of(const Hints& hints);

// `bytes` as MPI_Get_count and MPI_Get_elements understand them. MPI_STATUS_IGNORE is left alone.
void set_status(MPI_Status* status, Bytes bytes);

}  // namespace stridio::mpiio
