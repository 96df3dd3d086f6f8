// Data representations other than the machine's own: how items lie in the file (MPI-4.1 section 14.5).
#pragma once

#include <memory>

#include "mpiio/datatype.h"
#include "plan/access_plan.h"

namespace stridio::mpiio {

// The buffer argument of an access, and what it means.
struct Buffer {
  void* address = nullptr;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  Memory memory;        // its bytes
  Signature signature;  // and the items that they are
};

// "native" and "internal" have none: bytes go as they are. Conversions run on the thread of the MPI call that starts or
// completes the access.
class Representation {
 public:
  virtual ~Representation() = default;

  // Bytes of one item in the file.
  virtual Result<Bytes> file_extent(const Item& item) const = 0;
  // Whether data of this direction differ from those in memory.
  virtual bool converts(Direction) const { return true; }

  // All items, to the bytes of the file, one after the other.
  virtual Status to_file(const Buffer& from, std::byte* file) const = 0;
  // The first `items` items.
  virtual Status from_file(const std::byte* file, std::int64_t items, const Buffer& to) const = 0;
};

// Null for "native" and "internal"; kUnsupportedDatarep for a name that nobody registered, null too.
Result<std::shared_ptr<const Representation>> find_representation(const char* name);

// One access through a representation: what goes to or comes from the storage is a buffer of its own, as large as the
// access.
class Conversion {
 public:
  // Data to be written are converted here. kConversion where they cannot be, kNoMemory without room for the buffer.
  static Result<std::unique_ptr<Conversion>> start(std::shared_ptr<const Representation> representation,
                                                   Direction direction, const Buffer& buffer);
  // The bytes that the access is to move.
  Memory staged() const;
  // After `moved` of them: hands over what was read. The bytes that this is in memory; items that the end of the file cut
  // do not count.
  Result<Bytes> finish(Bytes moved);

 private:
  std::shared_ptr<const Representation> representation_;
  Direction direction_ = Direction::kRead;
  KeptType datatype_;  // the program may free its own while the access is pending
  Buffer buffer_;
  Bytes size_ = 0;
  std::unique_ptr<std::byte[]> staging_;
};

}  // namespace stridio::mpiio
