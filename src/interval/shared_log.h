// SharedLog: what the ranks of an open interval file have written since the last commit, and all must know before anybody
// commits, in the order in which it was written. On one node that is every small write: programs that order their accesses by
// messages alone, as parallel HDF5 does with its metadata, find what others wrote, and the later of two writes counts. In
// atomic mode it is, on one node and across nodes, all that ranks share. It holds so much; what is more, ranks keep to themselves.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "group/group.h"
#include "interval/map.h"
#include "storage/storage.h"

namespace stridio {

class SharedLog {
 public:
  virtual ~SharedLog() = default;
  // Empties it: by one rank, between two agreements.
  virtual void clear() = 0;
  // On every rank, after that; no two epochs have one number.
  virtual void begin(std::uint64_t epoch) = 0;

  // False, and nothing happens, where there is no room. One piece of no length tells that the file reaches so far.
  virtual Result<bool> publish(std::span<const PieceGroup> groups) = 0;
  // What has come since the last heard(), this rank's own too. Waits for a rank that is about to publish; not for one that is dead.
  virtual Result<std::vector<PieceGroup>> news() = 0;
  // What news() told last is not told again.
  virtual void heard() = 0;
  // Whether both ask the storage.
  virtual bool asks_storage() const = 0;
};

// Collective. In memory that all ranks map, of one file at a time: null where there is nobody to share with, or no memory.
Result<std::unique_ptr<SharedLog>> make_memory_log(Group& group);
// By one rank, before any makes it: what the group's last file has left must not be taken for this one's.
void wipe_memory_log(Group& group);

// In the stored file, under a lock: a few requests more for each access. Its areas are taken like any space.
struct LogSpace {
  Extent head;  // of the stored file; all zeros when an epoch begins
  std::function<Result<Offset>(Bytes)> take;
  std::function<std::vector<Extent>(Extent)> stored;  // where what was taken lies
};
std::unique_ptr<SharedLog> make_storage_log(Storage& storage, LogSpace space);

}  // namespace stridio
