// WriteCache: what this process has written to a file and the file's storage does not have yet. A Storage over another:
// reads see the kept bytes over the stored ones. Writes are only noted, in the order of the calls, without another
// process: whoever owns the cache hands on what it keeps, oldest batch first, when it has to.
#pragma once

#include <deque>
#include <mutex>

#include "interval/map.h"
#include "pattern/copy.h"
#include "storage/storage.h"

namespace stridio {

class WriteCache final : public Storage {
 public:
  // What is kept in memory at once: bytes and what it takes to know where they belong. Memory is taken when it is used.
  WriteCache(Storage& storage, Bytes budget) : storage_(storage), budget_(budget) {}

  bool empty() const;
  // Whether put() of so many bytes keeps to the budget.
  bool fits(Bytes bytes) const;
  Bytes budget() const { return budget_; }
  // So many bytes have been put since the last oldest().
  Bytes newest() const;

  // Takes the memory that put() of so many bytes needs. kNoMemory.
  Status prepare(Bytes bytes);
  // From now on the bytes `memory` are the file's at `file`, whose data positions may be in any order; of those at one
  // place the last count. Beyond the budget only by this one call. kNoMemory, and nothing is kept.
  Status put(const Pattern& file, const Memory& memory);

  // What is to be handed on next, in ascending order; empty: nothing is kept. It stays as it is, and is seen by reads, until
  // drop(). One thread at a time; others may put meanwhile.
  struct Batch {
    Pattern file;
    Memory memory;
  };
  Batch oldest();
  void drop();
  int batches() const;  // that oldest() and drop() would now take until nothing is kept

  // Over what is kept, as Storage says.
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override;
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override;
  Result<Bytes> size() override;
  Caps caps() const override;
  // Refused: put() is the way to write.
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override;
  // Of the storage alone.
  Status resize(Bytes size) override { return storage_.resize(size); }
  Status reserve(Bytes size) override { return storage_.reserve(size); }
  Status sync() override { return storage_.sync(); }
  Status refresh() override { return storage_.refresh(); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override { return storage_.lock(range, mode); }
  bool has_locks() override { return storage_.has_locks(); }
  const std::string& path() const override { return storage_.path(); }

 private:
  // Bytes side by side as they came, and where they belong: a piece's place in `bytes` is its stored offset.
  struct Kept {
    WriteLog log;
    std::unique_ptr<std::byte[]> bytes;
    Bytes capacity = 0, used = 0;
    Offset end = 0;  // behind its last byte in the file
  };

  // With the mutex held: what is no longer kept has reached the storage.
  struct Sizes {
    Bytes stored = 0, seen = 0;
  };
  Result<Sizes> sizes() const;
  // The first `bytes` bytes behind those that are taken of the newest.
  Result<std::byte*> make_room(Bytes bytes);
  Result<Transferred> read_missing(Bytes stored, std::vector<Extent> missing, std::vector<Span> into,
                                   Transferred moved);

  Storage& storage_;
  const Bytes budget_;
  mutable std::mutex mutex_;
  std::deque<Kept> kept_;               // the oldest first; the last takes what is put,
  bool sealed_ = false;                 // where it is not on its way
  std::unique_ptr<std::byte[]> spare_;  // of the budget's length: memory that has been used costs no page faults
};

}  // namespace stridio
