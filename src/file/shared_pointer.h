// The shared file pointer. It never needs another rank to be inside MPI: on one node it lives in memory that all ranks
// map; across nodes it is a small file beside the data, under a storage lock.
#pragma once

#include <memory>

#include "group/group.h"

namespace stridio {

class SharedPointer {
 public:
  virtual ~SharedPointer() = default;
  // In bytes of the view's data. Any rank, at any time.
  virtual Result<Bytes> load() = 0;
  virtual Status store(Bytes value) = 0;
  // The value before; kArgument, and unmoved, where it would become more than `most`.
  virtual Result<Bytes> fetch_add(Bytes amount, Bytes most) = 0;
  // Whether what holds the pointer is what this rank has used since the last reset. With an agreement before the reset.
  virtual Status intact() = 0;
  // Called by all ranks with an agreement before and after: the pointer is at `value`, and holds nothing outside memory.
  virtual Status reset(Bytes value) = 0;
};

// Collective. `path`: of the data; the file beside it, `path`.stridio-pointer-ID, exists from the pointer's first use to
// its next reset. ID is of this open alone, so that neither another open of the same file nor what a killed program left
// can be taken for it.
Result<std::unique_ptr<SharedPointer>> share_pointer(Group& group, const std::string& path);

}  // namespace stridio
