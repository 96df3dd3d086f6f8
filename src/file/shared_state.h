// What the ranks of an open file share beyond its bytes: the shared file pointer and the lock of atomic mode. Neither ever
// needs another rank to be inside MPI: on one node they live in memory that all ranks map; across nodes the pointer is a
// small file beside the data, under a storage lock, and the lock is the storage's own.
#pragma once

#include <memory>

#include "group/group.h"
#include "storage/storage.h"

namespace stridio {

class SharedPointer {
 public:
  virtual ~SharedPointer() = default;
  // In bytes of the view's data. Any rank, at any time.
  virtual Result<Bytes> load() = 0;
  virtual Status store(Bytes value) = 0;
  virtual Result<Bytes> fetch_add(Bytes amount) = 0;  // the value before
  // Called by all ranks with an agreement before and after: the pointer is at `value`, and holds nothing outside memory.
  virtual Status reset(Bytes value) = 0;
};

// Whoever needs a range of the file for itself for the length of a call. Coarse: ranges are not told apart between the
// ranks of a group.
class LockManager {
 public:
  virtual ~LockManager() = default;
  virtual Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) = 0;
};

struct SharedState {
  std::unique_ptr<SharedPointer> pointer;
  std::unique_ptr<LockManager> locks;
};

// Collective; `storage` must outlive it. `path`: of the data; the file beside it, `path`.stridio-pointer-ID, exists from the
// pointer's first use to its next reset.
Result<SharedState> share_state(Group& group, Storage& storage, const std::string& path);

}  // namespace stridio
