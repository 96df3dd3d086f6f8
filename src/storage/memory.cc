// One vector of bytes behind a readers-writer mutex, and one table of locked ranges, both shared by
// all handles.
#include "storage/memory.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <vector>

#include "storage/range_table.h"
#include "storage/request.h"

namespace stridio {

namespace {

// A stray offset must fail as on a disk, and not by exhausting the machine.
constexpr Bytes kLargestFile = Bytes{1} << 40;

}  // namespace

class MemoryFile {
 public:
  const std::string path = "(memory)";
  RangeTable locks;

  Bytes size() const {
    std::shared_lock lock(mutex_);
    return length();
  }

  Status resize(Bytes size) {
    std::unique_lock lock(mutex_);
    return set_length(size);
  }

  Status reserve(Bytes size) {
    std::unique_lock lock(mutex_);
    return size <= length() ? Status{} : set_length(size);
  }

  Transferred read(std::span<const Extent> extents, std::span<const Span> memory) const;
  Result<Transferred> write(std::span<const Extent> extents, std::span<const Span> memory);
  Result<Transferred> map(Extent range, bool writes, const Storage::MapBody& body);

 private:
  Bytes length() const { return static_cast<Bytes>(bytes_.size()); }
  Status set_length(Bytes size);

  mutable std::shared_mutex mutex_;
  std::vector<std::byte> bytes_;
};

Status MemoryFile::set_length(Bytes size) {
  const auto refuse = [&](int sys_errno) {
    return fail_errno(sys_errno, "extending to " + std::to_string(size) + " bytes", path);
  };
  if (size > kLargestFile) return refuse(EFBIG);
  try {
    bytes_.resize(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    return refuse(ENOMEM);
  }
  return {};
}

Transferred MemoryFile::read(std::span<const Extent> extents, std::span<const Span> memory) const {
  std::shared_lock lock(mutex_);
  Transferred moved;
  MemoryCursor cursor(memory);
  RunCursor runs(extents);
  while (std::optional<Extent> run = runs.next()) {
    ++moved.requests;
    const Extent present = intersect(*run, {0, length()});
    for (Bytes done = 0; done < present.length;) {
      const Span piece = cursor.take(present.length - done);
      std::memcpy(piece.data, bytes_.data() + present.offset + done, piece.length);
      done += piece.length;
    }
    moved.bytes += present.length;
    moved.eof = present.length < run->length;
    if (moved.eof) break;
  }
  return moved;
}

Result<Transferred> MemoryFile::write(std::span<const Extent> extents, std::span<const Span> memory) {
  std::unique_lock lock(mutex_);
  Transferred moved;
  MemoryCursor cursor(memory);
  RunCursor runs(extents);
  while (std::optional<Extent> run = runs.next()) {
    ++moved.requests;
    if (run->end() > length()) RETURN_IF_ERROR(set_length(run->end()));
    for (Bytes done = 0; done < run->length;) {
      const Span piece = cursor.take(run->length - done);
      std::memcpy(bytes_.data() + run->offset + done, piece.data, piece.length);
      done += piece.length;
    }
    moved.bytes += run->length;
  }
  return moved;
}

Result<Transferred> MemoryFile::map(Extent range, bool writes, const Storage::MapBody& body) {
  std::unique_lock lock(mutex_);
  if (writes && range.end() > length()) RETURN_IF_ERROR(set_length(range.end()));
  const Extent present = intersect(range, {0, length()});
  Transferred moved{.bytes = 0, .eof = present.length < range.length, .requests = 1};
  if (!present.empty()) moved.bytes = body(bytes_.data() + present.offset, present.length);
  return moved;
}

namespace {

class MemoryLock final : public RangeLock {
 public:
  MemoryLock(std::shared_ptr<MemoryFile> file, RangeTable::Ticket ticket) : file_(std::move(file)), ticket_(ticket) {}
  ~MemoryLock() override { file_->locks.release(ticket_); }

 private:
  const std::shared_ptr<MemoryFile> file_;
  const RangeTable::Ticket ticket_;
};

class MemoryStorage final : public Storage {
 public:
  MemoryStorage(std::shared_ptr<MemoryFile> file, const OpenMode& mode) : file_(std::move(file)), mode_(mode) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (!mode_.read) return refuse(Code::kAccess, "reading from a file opened for writing only");
    RETURN_IF_ERROR(check(extents, memory));
    return file_->read(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    RETURN_IF_ERROR(check_writable());
    RETURN_IF_ERROR(check(extents, memory));
    return file_->write(extents, memory);
  }

  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    if (writes) RETURN_IF_ERROR(check_writable());
    if (!mode_.read) return refuse(Code::kUnsupportedOperation, "mapping a file opened for writing only");
    if (range.offset < 0 || range.length < 0 || range.end() < range.offset)
      return refuse(Code::kArgument, "mapping a range that is not within 0 .. 2^63 - 1");
    return file_->map(range, writes, body);
  }
  Result<Bytes> size() override { return file_->size(); }
  Status resize(Bytes size) override {
    RETURN_IF_ERROR(check_writable());
    if (size < 0) return refuse(Code::kArgument, "resizing to a negative size");
    return file_->resize(size);
  }
  Status reserve(Bytes size) override {
    RETURN_IF_ERROR(check_writable());
    if (size < 0) return refuse(Code::kArgument, "reserving a negative size");
    return file_->reserve(size);
  }
  Status sync() override { return {}; }

  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    if (range.offset < 0 || range.length < 0 || range.end() < range.offset)
      return refuse(Code::kArgument, "locking a range that is not within 0 .. 2^63 - 1");
    if (range.empty()) return std::make_unique<RangeLock>();
    const bool waits = mode == LockMode::kShared || mode == LockMode::kExclusive;
    const auto ticket = waits ? file_->locks.acquire(range, mode) : file_->locks.try_acquire(range);
    if (!ticket) return refuse(Code::kFileInUse, "locking a range where somebody else holds a lock");
    if (mode == LockMode::kAsk) {
      file_->locks.release(*ticket);
      return std::make_unique<RangeLock>();
    }
    return std::make_unique<MemoryLock>(file_, *ticket);
  }

  bool has_locks() override { return true; }
  Caps caps() const override { return {.maps = mode_.read}; }
  const std::string& path() const override { return file_->path; }

 private:
  tl::unexpected<Error> refuse(Code code, std::string what) const {
    return fail({.code = code, .what = std::move(what), .path = file_->path});
  }
  Status check_writable() const {
    if (mode_.write) return {};
    return refuse(Code::kReadOnly, "changing a file opened for reading only");
  }
  Status check(std::span<const Extent> extents, std::span<const Span> memory) const {
    auto valid = check_request(extents, memory);
    if (!valid) return refuse(valid.error().code, valid.error().what);
    return {};
  }

  const std::shared_ptr<MemoryFile> file_;
  const OpenMode mode_;
};

}  // namespace

std::shared_ptr<MemoryFile> make_memory_file() { return std::make_shared<MemoryFile>(); }

std::unique_ptr<Storage> open_memory(std::shared_ptr<MemoryFile> file, const OpenMode& mode) {
  return std::make_unique<MemoryStorage>(std::move(file), mode);
}

}  // namespace stridio
