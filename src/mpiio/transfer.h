// One access of an open file, for all families of read and write calls.
#pragma once

#include "mpiio/handle.h"

namespace stridio::mpiio {

// What a read or write call is, apart from its arguments.
struct Form {
  Direction direction;
  Pointer pointer;
  bool collective = false;
};

struct UserBuffer {
  void* address;
  MPI_Count count;
  MPI_Datatype datatype;
};

// Moves the data and returns the bytes moved. A rank with bad arguments takes part in a collective call, with nothing.
// `offset` matters with Pointer::kExplicit only.
Result<Bytes> transfer(OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer);

// An access as a value, not yet done, and the conversion that its data go through, null for none.
struct Prepared {
  Access access;
  std::unique_ptr<Conversion> conversion;
};

// A collective access with bad arguments is one that takes part with nothing.
Result<Prepared> prepare(const OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer);
// What `moved` bytes of the access are in memory; hands over what was read. Null: nothing is converted.
Result<Bytes> finish(Conversion* conversion, Bytes moved);

// Split collectives: begin does all the work, end hands out the status.
Status begin(OpenFile& open, Split kind, Form form, MPI_Offset offset, const UserBuffer& buffer);
Status end(OpenFile& open, Split kind, MPI_Status* status);

}  // namespace stridio::mpiio
