// MPI_Datatype -> Pattern, by envelope and contents, structure for structure: nothing is flattened.
#pragma once

#include <memory>

#include "base/extent.h"
#include "base/result.h"
#include "mpiio/host.h"
#include "mpiio/signature.h"
#include "pattern/copy.h"
#include "pattern/pattern.h"

namespace stridio::mpiio {

class Representation;

struct Type {
  Pattern pattern;  // the bytes of one element, in type-map order
  Signature signature;
  Bytes lb = 0;
  Bytes extent = 0;
  // Named or a parametrised Fortran type: never freed by anyone.
  bool predefined = false;

  Bytes size() const { return pattern.size(); }
};

// Derived types keep their Type as an attribute, so that repeated calls cost a look-up. kDatatype for
// MPI_DATATYPE_NULL and for what cannot be decoded. Thread-safe.
Result<std::shared_ptr<const Type>> decode(MPI_Datatype datatype);
// The same for a type that data moves by, or that makes a view: kDatatype also where it has not been committed.
Result<std::shared_ptr<const Type>> decode_committed(MPI_Datatype datatype);

// Frees what remembers types; they are decoded anew when they are used again. Nobody may be decoding.
void forget_types();

// The datatype as it is in a file of this representation: its predefined types at their extents there, one after the
// other as the constructors say. Displacements that were given in bytes stay as they are (MPI-4.1 section 14.5).
Result<Type> in_file(MPI_Datatype datatype, const Representation& representation);

// Bytes that `count` elements of `type` cover, in data order. kCount where they are more than 2^63 - 1.
Result<Pattern> repeat(const Type& type, std::int64_t count);

// A handle that is freed in the end, unless it is a predefined type's.
class OwnedType {
 public:
  OwnedType() = default;
  explicit OwnedType(MPI_Datatype derived) : datatype_(derived), derived_(true) {}
  ~OwnedType();
  OwnedType(OwnedType&& other) noexcept;
  OwnedType& operator=(OwnedType&& other) noexcept;
  static OwnedType predefined(MPI_Datatype datatype);

  MPI_Datatype get() const { return datatype_; }
  bool derived() const { return derived_; }
  MPI_Datatype release() &&;

 private:
  MPI_Datatype datatype_ = MPI_BYTE;
  bool derived_ = false;
};

// Keeps a datatype that the program may free meanwhile; its attributes end when nothing keeps it any more. Not by
// MPI_Type_dup, which takes Open MPI milliseconds where a type has many blocks, but by a type made of no copies of it.
class KeptType {
 public:
  static Result<KeptType> keep(MPI_Datatype datatype);

  // The datatype, committed: with some hosts the very one that the program made, not to be given to it.
  Result<OwnedType> original() const;
  // A new datatype, its duplicate; a predefined one is itself.
  Result<OwnedType> duplicate() const;

 private:
  OwnedType type_;  // itself if it is predefined, else the type made of it
};

}  // namespace stridio::mpiio
