// A file of a mounted file system.
//
// Transfers. The extents are walked as runs (adjacent neighbours merged); each run is moved by one
// call, with the memory pieces that it covers gathered into an iovec array on the stack. A run is
// cut only where it covers more than kMostPieces pieces or kMostBytes bytes, or takes a Detour. A call that is
// interrupted is repeated, one that falls short is continued where it stopped; a read that returns
// 0 has met the end of the file.
//
// Locks. An OFD lock belongs to the open file description: it excludes other Storages and other
// processes, survives the closing of another descriptor of the same file (a POSIX record lock does
// not), but knows nothing of the threads that share this Storage. So a lock is two:
//   1. the range is acquired in this Storage's RangeTable, which makes the threads take turns;
//   2. the kernel lock is taken, waiting without any mutex held.
// Release does the reverse under the table's mutex, and hands back to the kernel only the parts
// that no other ticket covers: two threads may hold overlapping shared ranges, which are one lock
// to the kernel. A table of ranges and not one mutex: threads that update disjoint ranges must not
// wait for one another.
#include "storage/posix.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <mutex>
#include <utility>

#include "storage/detour.h"
#include "storage/kept_mappings.h"
#include "storage/mapping.h"
#include "storage/posix_calls.h"
#include "storage/range_table.h"
#include "storage/request.h"

namespace stridio {

namespace {

static_assert(sizeof(off_t) == 8, "files are larger than 2 GiB");

constexpr int kMostPieces = 1024;      // IOV_MAX of Linux
constexpr Bytes kMostBytes = 1 << 30;  // a round number below Linux' 2^31 - 4096

constexpr Bytes kWorthStarting = Bytes{256} << 10;  // shorter writes share pages with the next ones

enum class Direction { kRead, kWrite };

std::string describe(const char* what, Extent extent) {
  return std::string(what) + " " + std::to_string(extent.length) + " bytes at offset " + std::to_string(extent.offset);
}

// Repeats a system call while signals interrupt it.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

struct Pieces {
  std::array<iovec, kMostPieces> list;  // left uninitialized: 16 KiB that most calls do not use
  int count = 0;
  Bytes bytes = 0;
};

// The pieces end where the detour's room does.
void gather(MemoryCursor from, Extent run, Detour& detour, Pieces& pieces) {
  const Bytes most = std::min(run.length, kMostBytes);
  for (bool whole = true; whole && pieces.bytes < most && pieces.count < kMostPieces;) {
    const Span piece = from.take(most - pieces.bytes);
    const Span place = detour.place(piece, run.offset + pieces.bytes);
    whole = place.length == piece.length;
    if (place.length == 0) return;
    pieces.list[pieces.count++] = {place.data, static_cast<size_t>(place.length)};
    pieces.bytes += place.length;
  }
}

struct flock flock_of(Extent range, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.offset;
  // 0 stands for "to the end of all offsets".
  lock.l_len = range.end() == std::numeric_limits<Offset>::max() ? 0 : range.length;
  return lock;
}

bool means_no_locks(int sys_errno) {
  return sys_errno == ENOSYS || sys_errno == EOPNOTSUPP || sys_errno == ENOLCK || sys_errno == EINVAL;
}

constexpr unsigned long kXfs = 0x58465342;

// No byte of any file, nor of a range that is locked to keep others out: what is locked to see what other machines wrote.
constexpr Extent kRefreshed{std::numeric_limits<Offset>::max() - 2, 1};
// Another one: what is locked for as long as the file is open.
constexpr Extent kKeptApart{std::numeric_limits<Offset>::max() - 4, 1};

// File systems whose only writers are this machine's processes, through one page cache: on a network's, a page that is
// written back whole would take other machines' bytes in it along.
bool is_local(unsigned long file_system) {
  switch (file_system) {
    case TMPFS_MAGIC:
    case EXT4_SUPER_MAGIC:  // ext2 and ext3 too
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case kXfs: return true;
    default: return false;
  }
}

class PosixStorage final : public Storage {
 public:
  PosixStorage(int fd, const std::string& path, const OpenMode& mode, const PosixCalls& calls)
      : fd_(fd), path_(path), mode_(mode), calls_(calls) {}
  ~PosixStorage() override { (void)PosixStorage::close(); }

  // After construction: refuses what is not a file of bytes, finds out the capabilities.
  Status inspect(FileId* id);

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (!mode_.read) return fail_here(Code::kAccess, "reading from a file opened for writing only");
    RETURN_IF_ERROR(check(extents, memory));
    return transfer(Direction::kRead, extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override;

  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override;
  Result<Bytes> size() override;
  Status resize(Bytes size) override;
  Status reserve(Bytes size) override;
  Status sync() override;
  Status refresh() override;
  void keep_apart() override;
  Status close() override;
  void expect_sync() override { expects_sync_ = true; }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override;
  bool has_locks() override;

  Caps caps() const override {
    return {.maps = maps_.load(std::memory_order_relaxed), .caches = caches_, .alignment = alignment_};
  }
  const std::string& path() const override { return path_; }

  void unlock(RangeTable::Ticket ticket) {
    held_.release(ticket, [this](Extent part) {
      struct flock lock = flock_of(part, F_UNLCK);
      calls_.lock(fd_, F_OFD_SETLK, &lock);
    });
  }

 private:
  Result<Transferred> transfer(Direction direction, std::span<const Extent> extents, std::span<const Span> memory);
  void note_time();
  ssize_t call_once(Direction direction, Offset offset, const Pieces& pieces);
  Status check(std::span<const Extent> extents, std::span<const Span> memory) const;
  Status extend_by_a_byte(Bytes size);
  Status check_writable(const char* what) const;

  tl::unexpected<Error> fail_here(Code code, std::string what, int sys_errno = 0) const {
    return fail({.code = code, .what = std::move(what), .sys_errno = sys_errno, .path = path_});
  }

  int fd_;  // -1 once it is closed
  const std::string path_;
  const OpenMode mode_;
  const PosixCalls calls_;
  Bytes alignment_ = 1;
  std::once_flag locks_asked_;
  std::atomic<bool> locks_ = true;
  std::atomic<bool> maps_ = false;
  bool caches_ = false;
  bool seeking_waits_ = false;  // for who writes
  bool detours_ = false;        // reading may: calls are cheap, and what is read is copied from this machine's memory
  std::atomic<bool> expects_sync_ = false;
  RangeTable held_;
  KeptMappings kept_{fd_};
  std::atomic<bool> stored_ = false;  // there, of which the file's times tell only at a sync and in the end
  bool keeps_mappings_ = false;
};

FileId id_of(const struct statx& info) {
  return {makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino, S_ISREG(info.stx_mode)};
}

class PosixLock final : public RangeLock {
 public:
  PosixLock(PosixStorage& storage, RangeTable::Ticket ticket) : storage_(storage), ticket_(ticket) {}
  ~PosixLock() override { storage_.unlock(ticket_); }

 private:
  PosixStorage& storage_;
  const RangeTable::Ticket ticket_;
};

Status PosixStorage::inspect(FileId* id) {
  struct statx info;  // as known from opening: no network file system is asked again
  if (::statx(fd_, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) != 0)
    return fail_errno(errno, "asking for the kind of file", path_);
  if (S_ISDIR(info.stx_mode)) return fail_here(Code::kBadFileName, "opening a directory as a file", EISDIR);
  if (S_ISFIFO(info.stx_mode) || S_ISSOCK(info.stx_mode))
    return fail_here(Code::kBadFileName, "opening a pipe or socket, which has no offsets", ESPIPE);
  if (id != nullptr) *id = id_of(info);
  alignment_ = std::max<Bytes>(1, info.stx_blksize);
  struct statfs mounted;
  const auto file_system = calls_.fstatfs(fd_, &mounted) == 0 ? static_cast<unsigned long>(mounted.f_type) : 0;
  caches_ = file_system == NFS_SUPER_MAGIC;
  maps_ = S_ISREG(info.stx_mode) && mode_.read && is_local(file_system);
  seeking_waits_ = file_system != kXfs;
  detours_ = maps_ && calls_.copies_lag;
  keeps_mappings_ = mode_.keeps_mappings && maps_ && file_system == TMPFS_MAGIC;
  return {};
}

// Asking who holds a lock tells whether the file system has any.
bool PosixStorage::has_locks() {
  std::call_once(locks_asked_, [this] {
    struct flock anyone = flock_of(kWholeFile, F_WRLCK);
    if (calls_.lock(fd_, F_OFD_GETLK, &anyone) != 0 && means_no_locks(errno)) locks_ = false;
  });
  return locks_;
}

Status PosixStorage::check_writable(const char* what) const {
  if (mode_.write) return {};
  return fail_here(Code::kReadOnly, std::string(what) + " a file opened for reading only");
}

Status PosixStorage::check(std::span<const Extent> extents, std::span<const Span> memory) const {
  const Status valid = check_request(extents, memory);
  return valid ? valid : fail_here(valid.error().code, valid.error().what);
}

Result<Transferred> PosixStorage::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  RETURN_IF_ERROR(check_writable("writing to"));
  RETURN_IF_ERROR(check(extents, memory));
  // To make a file in memory longer changes none of its pages: nobody need be waited for, as map() does.
  const auto has = [this](Extent range) {
    struct stat info;
    return ::fstat(fd_, &info) == 0 && range.end() <= info.st_size;
  };
  if (!keeps_mappings_ || !kept_.store(extents, memory, has)) return transfer(Direction::kWrite, extents, memory);
  stored_ = true;
  Transferred moved;
  for (const Span& piece : memory) moved.bytes += piece.length;
  return moved;
}

ssize_t PosixStorage::call_once(Direction direction, Offset offset, const Pieces& pieces) {
  const iovec* list = pieces.list.data();
  if (pieces.count == 1) {
    return direction == Direction::kRead ? calls_.pread(fd_, list->iov_base, list->iov_len, offset)
                                         : calls_.pwrite(fd_, list->iov_base, list->iov_len, offset);
  }
  return direction == Direction::kRead ? calls_.preadv(fd_, list, pieces.count, offset)
                                       : calls_.pwritev(fd_, list, pieces.count, offset);
}

Result<Transferred> PosixStorage::transfer(Direction direction, std::span<const Extent> extents,
                                           std::span<const Span> memory) {
  const bool reads = direction == Direction::kRead;
  Transferred moved;
  MemoryCursor cursor(memory);
  RunCursor runs(extents);
  Detour detour(reads && detours_);
  while (std::optional<Extent> run = runs.next()) {
    while (!run->empty()) {
      Pieces pieces;
      gather(cursor, *run, detour, pieces);
      const ssize_t done = uninterrupted([&] { return call_once(direction, run->offset, pieces); });
      if (done < 0 || (done == 0 && !reads))
        return fail_errno(done < 0 ? errno : EIO, describe(reads ? "reading" : "writing", *run), path_);
      ++moved.requests;
      moved.eof = done == 0;
      if (moved.eof) return moved;
      detour.arrive(run->offset + done);
      if (!reads && done >= kWorthStarting && expects_sync_.load(std::memory_order_relaxed))
        calls_.sync_file_range(fd_, run->offset, done, SYNC_FILE_RANGE_WRITE);  // what fails here, sync() tells
      moved.bytes += done;
      cursor.skip(done);
      *run = {run->offset + done, run->length - done};
    }
  }
  return moved;
}

Result<Transferred> PosixStorage::map(Extent range, bool writes, const MapBody& body) {
  const auto cannot = [&](int why) {
    if (why == EOPNOTSUPP || why == ENOSYS || why == EINVAL || why == ENODEV) maps_ = false;
    return fail_here(Code::kUnsupportedOperation, describe("mapping", range), why);
  };
  if (writes) RETURN_IF_ERROR(check_writable("mapping for writing"));
  if (range.offset < 0 || range.length < 0 || range.end() < range.offset)
    return fail_here(Code::kArgument, describe("mapping", range));
  if (!maps_) return cannot(0);
  struct stat info;
  if (::fstat(fd_, &info) != 0) return fail_errno(errno, "asking for the size", path_);
  const bool dense = range.end() <= info.st_size && info.st_blocks * 512 >= info.st_size;
  // Another's call may be making the file longer, and show the new size before it is done: what is stored in a mapping
  // meanwhile can get lost (seen on ext4). It holds the inode's lock, for which fallocate waits, and
  // SEEK_DATA, but on XFS.
  const bool seeks = dense && seeking_waits_;
  if (writes && seeks) ::lseek(fd_, range.offset, SEEK_DATA);
  if (writes && !seeks && !range.empty() &&
      uninterrupted([&] { return calls_.fallocate(fd_, 0, range.offset, range.length); }) != 0)
    return cannot(errno);
  const Extent present = writes ? range : intersect(range, {0, info.st_size});
  Transferred moved{.bytes = 0, .eof = present.length < range.length, .requests = 1};
  if (present.empty()) return moved;
  auto mapping = Mapping::make(fd_, present, writes);
  if (!mapping) return cannot(mapping.error().sys_errno);
  Mapping::Watch watch(**mapping);
  moved.bytes = body((*mapping)->data(), present.length);
  if (!watch.whole()) return cannot(0);
  return moved;
}

Result<Bytes> PosixStorage::size() {
  struct stat info;
  if (::fstat(fd_, &info) != 0) return fail_errno(errno, "asking for the size", path_);
  return info.st_size;
}

Status PosixStorage::resize(Bytes size) {
  RETURN_IF_ERROR(check_writable("resizing"));
  const std::string what = "resizing to " + std::to_string(size) + " bytes";
  if (size < 0) return fail_here(Code::kArgument, what);
  kept_.clear();
  if (uninterrupted([&] { return calls_.ftruncate(fd_, size); }) == 0) return {};
  return fail_errno(errno, what, path_);
}

Status PosixStorage::reserve(Bytes size) {
  RETURN_IF_ERROR(check_writable("reserving space in"));
  const std::string what = "reserving " + std::to_string(size) + " bytes";
  if (size < 0) return fail_here(Code::kArgument, what);
  if (size == 0) return {};
  if (uninterrupted([&] { return calls_.fallocate(fd_, 0, 0, size); }) == 0) return {};
  if (errno == EOPNOTSUPP || errno == ENOSYS) return extend_by_a_byte(size);
  return fail_errno(errno, what, path_);
}

// Where the file system cannot allocate, only the size is seen to. A zero is written as the last
// byte, not ftruncate called: another writer may have extended the file since its size was asked
// for, and ftruncate would cut that off.
Status PosixStorage::extend_by_a_byte(Bytes size) {
  ASSIGN_OR_RETURN(const Bytes now, this->size());
  if (now >= size) return {};
  std::byte zero{};
  const Extent last{size - 1, 1};
  const Span piece{&zero, 1};
  RETURN_IF_ERROR(transfer(Direction::kWrite, {&last, 1}, {&piece, 1}));
  return {};
}

// As a write does, for which it is enough that the file may be written: of one time alone it is not.
void PosixStorage::note_time() {
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 0, .tv_nsec = UTIME_NOW}};
  if (stored_.exchange(false) && ::futimens(fd_, times) != 0) ::futimens(fd_, nullptr);
}

Status PosixStorage::sync() {
  note_time();
  if (uninterrupted([&] { return calls_.fsync(fd_); }) == 0) return {};
  if (errno == EINVAL) return {};  // a device without anything to sync, such as /dev/null
  return fail_errno(errno, "syncing", path_);
}

// An NFS client writes back before it takes a lock, and forgets afterwards whatever it has of the file: fsync does only the
// former, and asking for the attributes misses what others wrote before this machine's own last write. Where there are no
// locks, or somebody holds one on all bytes, that has to do.
Status PosixStorage::refresh() {
  if (!caches_ || !mode_.read) return {};
  struct flock lock = flock_of(kRefreshed, F_RDLCK);
  if (uninterrupted([&] { return calls_.lock(fd_, F_OFD_SETLK, &lock); }) == 0) {
    lock = flock_of(kRefreshed, F_UNLCK);
    calls_.lock(fd_, F_OFD_SETLK, &lock);
    return {};
  }
  if (errno != EAGAIN && errno != EACCES && !means_no_locks(errno))
    return fail_errno(errno, "asking for what other machines have written", path_);
  struct statx info;
  if (::statx(fd_, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info) == 0) return {};
  return fail_errno(errno, "asking for what other machines have written", path_);
}

// An NFS client writes a page that it has cached as a whole, though one byte of it was written, unless a range of the file is
// locked on its machine: where it does not know of what others have written meanwhile, it would write over that. Every process
// has a lock of its own, since that of another one goes when that closes the file.
void PosixStorage::keep_apart() {
  if (!caches_ || !mode_.write || !mode_.read) return;
  struct flock lock = flock_of(kKeptApart, F_RDLCK);
  uninterrupted([&] { return calls_.lock(fd_, F_OFD_SETLK, &lock); });
}

// Linux has given the descriptor back whatever close returns: one that was interrupted is not called again.
Status PosixStorage::close() {
  if (fd_ < 0) return {};
  note_time();
  if (calls_.close(std::exchange(fd_, -1)) == 0 || errno == EINTR) return {};
  return fail_errno(errno, mode_.write ? "closing: some of what was written may be lost" : "closing", path_);
}

Result<std::unique_ptr<RangeLock>> PosixStorage::lock(Extent range, LockMode mode) {
  const std::string what = describe("locking", range);
  if (range.offset < 0 || range.length < 0 || range.end() < range.offset) return fail_here(Code::kArgument, what);
  if (range.empty()) return std::make_unique<RangeLock>();
  const bool shared = mode == LockMode::kShared, asks = mode == LockMode::kAsk;
  const bool now = asks || mode == LockMode::kExclusiveNow;
  const auto in_use = [&] { return fail_here(Code::kFileInUse, what + ": somebody else holds a lock there"); };
  const auto held = now ? held_.try_acquire(range) : held_.acquire(range, mode);
  if (!held) return in_use();
  const RangeTable::Ticket ticket = *held;
  struct flock wanted = flock_of(range, shared ? F_RDLCK : F_WRLCK);
  const int command = asks ? F_OFD_GETLK : now ? F_OFD_SETLK : F_OFD_SETLKW;
  const int why = uninterrupted([&] { return calls_.lock(fd_, command, &wanted); }) == 0 ? 0 : errno;
  if (why == 0 && !asks) return std::make_unique<PosixLock>(*this, ticket);
  if (asks) {
    held_.release(ticket);
    if (why == 0 && wanted.l_type != F_UNLCK) return in_use();
    if (why == 0) return std::make_unique<RangeLock>();
  } else {
    unlock(ticket);
  }
  if (now && (why == EAGAIN || why == EACCES)) return in_use();
  if (why == EBADF)
    return fail_here(Code::kAccess, what + (shared ? ": a shared lock needs a file opened for reading"
                                                   : ": an exclusive lock needs a file opened for writing"));
  if (!means_no_locks(why)) return fail_errno(why, what, path_);
  locks_ = false;
  return fail_here(Code::kUnsupportedOperation, what + ": the file system has no range locks (F_OFD_SETLKW)", why);
}

int flags_of(const OpenMode& mode) {
  int flags = O_CLOEXEC;
  flags |= mode.read && mode.write ? O_RDWR : mode.write ? O_WRONLY : O_RDONLY;
  if (mode.create) flags |= O_CREAT;
  if (mode.create && mode.exclusive) flags |= O_EXCL;
  return flags;
}

// O_NONBLOCK for the time of the opening: a pipe is refused, not waited on. A file that somebody
// holds a lease on answers EWOULDBLOCK, and is waited for.
int open_file(const std::string& path, const OpenMode& mode) {
  const int flags = flags_of(mode);
  const auto open_with = [&](int more) {
    return uninterrupted([&] { return ::open(path.c_str(), flags | more, mode.permissions); });
  };
  const int fd = open_with(O_NONBLOCK);
  if (fd < 0) return errno == EWOULDBLOCK ? open_with(0) : fd;
  ::fcntl(fd, F_SETFL, flags & O_ACCMODE);
  return fd;
}

Result<int> opened(const std::string& path, const OpenMode& mode) {
  const int fd = open_file(path, mode);
  if (fd >= 0) return fd;
  auto failure = fail_errno(errno, mode.create ? "opening or creating" : "opening", path);
  if (errno == ENXIO || errno == EINVAL) failure.value().code = Code::kBadFileName;
  return failure;
}

}  // namespace

Result<std::unique_ptr<Storage>> open_posix(const std::string& path, const OpenMode& mode, const PosixCalls& calls,
                                            FileId* id) {
  if (!mode.read && !mode.write) return fail({.code = Code::kArgument, .what = "opening for nothing", .path = path});
  ASSIGN_OR_RETURN(const int fd, opened(path, mode));
  auto storage = std::make_unique<PosixStorage>(fd, path, mode, calls);
  RETURN_IF_ERROR(storage->inspect(id));
  return storage;
}

Result<std::unique_ptr<Storage>> open_posix(const std::string& path, const OpenMode& mode, FileId* id) {
  return open_posix(path, mode, PosixCalls{}, id);
}

Result<FileId> find_posix(const std::string& path) {
  struct statx info;
  const auto ask = [&](const std::string& name, int flags) {
    return ::statx(AT_FDCWD, name.c_str(), flags, STATX_BASIC_STATS, &info) == 0;
  };
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  // NFS looks names up anew in a folder that it finds changed, which it asks the server for times and sizes only.
  if (ask(folder, AT_STATX_FORCE_SYNC) && ask(path, AT_STATX_DONT_SYNC)) return id_of(info);
  return fail_errno(errno, "looking up", path);
}

std::string resolved_posix(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::path whole =
      fs::absolute(path, failed);  // of what does not exist, the next step alone leaves a relative name as it is
  if (!failed) whole = fs::weakly_canonical(whole, failed);
  return failed ? path : whole.string();
}

Result<bool> is_locked_posix(const std::string& path, Extent range) {
  ASSIGN_OR_RETURN(const int fd, opened(path, {.read = true}));
  struct flock lock = flock_of(range, F_RDLCK);
  const int why = uninterrupted([&] { return ::fcntl(fd, F_OFD_GETLK, &lock); }) == 0 ? 0 : errno;
  ::close(fd);
  if (why == 0) return lock.l_type != F_UNLCK;
  constexpr const char* kWhat = "asking who holds a lock";
  if (!means_no_locks(why)) return fail_errno(why, kWhat, path);
  return fail(Error{.code = Code::kUnsupportedOperation, .what = kWhat, .sys_errno = why, .path = path});
}

Status remove_posix(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  return fail_errno(errno, "removing", path);
}

}  // namespace stridio
