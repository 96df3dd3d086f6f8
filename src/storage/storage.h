// Storage: where bytes live. One abstract class that a mounted file system, memory, an I/O server
// or a wrapper implements; everything above speaks only this.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

// What a storage can do: positive flags and numbers, never names.
struct Caps {
  bool native_list = false;       // many extents travel in one request
  bool maps = false;              // map() can be had
  bool appends = false;           // a write of any list is one request: the file stores it together
  bool shares_reads = false;      // share_read(), read_stored() and look_up() can be had
  bool caches = false;            // machines keep bytes and sizes for themselves: refresh()
  Bytes alignment = 1;            // transfers at multiples of this are cheapest
  Bytes preferred = 1 << 22;      // a transfer of this length runs at full bandwidth
  std::int64_t largest_list = 1;  // most extents in one native request
};

// How far a transfer went. A read stops at the end of the file; a write moves all or fails.
struct Transferred {
  Bytes bytes = 0;   // bytes moved, a prefix of the request in the order of its extents
  bool eof = false;  // a read met the end of the file before it had all it asked for
  std::int64_t requests =
      0;  // operations of the system that it took: calls, messages; 0 where it found memory to copy to

  // What came after it, with it.
  Transferred& operator+=(const Transferred& next) {
    bytes += next.bytes;
    eof = next.eof;
    requests += next.requests;
    return *this;
  }
};

// kTogether, of lock managers only, excludes all but its own kind. kExclusiveNow is kExclusive, but fails with kFileInUse where it would have to wait. kAsk only asks whether it would: what it
// returns holds nothing.
enum class LockMode { kShared, kTogether, kExclusive, kExclusiveNow, kAsk };

// Every byte that a file can have, as a range to lock.
inline constexpr Extent kWholeFile{0, std::numeric_limits<Offset>::max()};

// Held while it lives; the destructor releases it. The Storage must outlive it.
class RangeLock {
 public:
  virtual ~RangeLock() = default;
};

class SharedRead;
class StoredRead;

// How bytes are stored that lie elsewhere than where they are asked for.
struct StoredAs {
  std::int64_t pieces = 0;  // that lie together
  Bytes touched = 0;        // with what lies between them and is mapped where they are
};

// Thread-safe: any member may be called from any thread at any time.
// Errors carry the code, errno and path. Short transfers are continued and EINTR is retried inside;
// a write that fails midway may have written any prefix of the request and nothing outside it.
class Storage {
 public:
  virtual ~Storage() = default;

  // Moves between `extents` (in the order given; any order, may overlap for reads) and `memory` (in
  // the order given): both lists describe the same number of bytes, cut at different places or not.
  // A read past the end is no error: it returns the bytes before the end of the file. With extents
  // not in ascending order it stops at the first extent that meets the end.
  virtual Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) = 0;
  virtual Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) = 0;

  // Lays `range` of the file into memory and has `body` read or, where `writes`, write there: its arguments are the
  // address of the range's first byte, and how many bytes of the range the file has; it returns how many it moved. For
  // writing, the file is made to reach the range's end first, with space for all of it; what `body` leaves alone stays as
  // it was. kUnsupportedOperation where that cannot be had, for this range or at all, or was disturbed: then nothing, or
  // some of what `body` moved, has arrived, and the caller moves it by readv or writev.
  using MapBody = std::function<Bytes(std::byte* data, Bytes present)>;
  virtual Result<Transferred> map(Extent range, bool writes, const MapBody& body) = 0;

  virtual Result<Bytes> size() = 0;
  // Cuts or extends with zeros.
  virtual Status resize(Bytes size) = 0;
  // Makes sure that space for [0, size) is there; never shrinks, never changes data.
  virtual Status reserve(Bytes size) = 0;
  // What was written before is on stable storage when this returns.
  virtual Status sync() = 0;
  // Where Caps::caches says that a machine may not see of itself what others write: what they have synced or refreshed before,
  // every access that begins after this sees.
  virtual Status refresh() { return {}; }
  // Of such a storage, by who writes to it on one of several machines: what its machine writes back from now on, until the
  // close, are the bytes that were written there and no others around them, where that can be had. Waits for nobody.
  virtual void keep_apart() {}
  // The last call but for those that release locks, of anything; again, it does nothing. A failure tells of writes that the
  // system had put off and that no sync() has asked for: NFS and FUSE may find a quota or a full disk only now. The storage is
  // closed even so. The destructor closes what is not closed, and tells nobody.
  virtual Status close() { return {}; }
  // Every write from now on will be followed by a sync(), which finds the less to do the earlier they are under way.
  virtual void expect_sync() {}
  // So many bytes are about to be written by this process, by several calls; of accesses that go on at once, the last one's count.
  virtual void expect_write(Bytes) {}
  // Of a storage that reads more than it returns, because its sums are of whole cells (Caps::shares_reads): one for a reader
  // among several, who together verify what all of them read.
  virtual Result<std::unique_ptr<SharedRead>> share_read();
  // Of such a storage, opened by each of several readers, none of whom writes: for one of them, who read what is stored block by block,
  // each for all.
  virtual Result<std::unique_ptr<StoredRead>> read_stored();
  // Of such a storage: what a reader of `extents`, ascending and not long, would meet.
  virtual Result<StoredAs> look_up(std::span<const Extent> extents);
  // Waits for the range; fails with kUnsupportedOperation where has_locks() is false. Exclusive
  // excludes every other holder of a common byte, shared only the exclusive ones: of this handle
  // (another thread), of others, and of other processes. An empty range locks nothing.
  virtual Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) = 0;
  // Whether lock() excludes every opener of the file on every process, as far as is known: may ask the storage, once.
  virtual bool has_locks() = 0;

  virtual Caps caps() const = 0;
  virtual const std::string& path() const = 0;

  // The one-extent conveniences.
  Result<Transferred> read(Extent extent, std::byte* data) {
    const Span span{data, extent.length};
    return readv({&extent, 1}, {&span, 1});
  }
  Result<Transferred> write(Extent extent, const std::byte* data) {
    const Span span{const_cast<std::byte*>(data), extent.length};
    return writev({&extent, 1}, {&span, 1});
  }
};

// How to open; the MPI access modes without MPI.
struct OpenMode {
  bool read = false;
  bool write = false;
  bool create = false;
  bool exclusive = false;       // with create: fail where the file exists
  int permissions = 0666;       // of a created file, before the umask
  bool keeps_mappings = false;  // of what is written again and again at the same places of a file in memory
};

}  // namespace stridio
