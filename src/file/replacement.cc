#include "file/replacement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "interval/format.h"

namespace stridio {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTurns = 10;  // of others that become the file just when we come

// What opening `path` would say.
Result<bool> exists_for(const std::string& path, const AccessMode& mode) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  const bool exists = fs::exists(status);
  if (!exists && failed && failed.value() != ENOENT) return fail_errno(failed.value(), "opening", path);
  if (exists && mode.exclusive)
    return fail(
        Error{.code = Code::kFileExists, .what = "opening a file that exists, with MPI_MODE_EXCL", .path = path});
  if (!exists && !mode.create) return fail_errno(ENOENT, "opening", path);
  if (exists && !fs::is_regular_file(status))
    return fail(
        Error{.code = Code::kBadFileName,
              .what = "replacing what is no regular file; without the hint stridio_commit=atomic it can be written",
              .path = path});
  if (exists && ::access(path.c_str(), R_OK | W_OK) != 0) return fail_errno(errno, "opening", path);
  return exists;
}

Status copy_all(const std::string& from, Storage& to) {
  ASSIGN_OR_RETURN(const auto source, open_posix(from, {.read = true}));
  std::vector<std::byte> buffer(std::size_t{4} << 20);
  for (Offset at = 0;;) {
    ASSIGN_OR_RETURN(const Transferred got, source->read({at, std::ssize(buffer)}, buffer.data()));
    if (got.bytes > 0) RETURN_IF_ERROR(to.write({at, got.bytes}, buffer.data()));
    if (got.eof) return {};
    at += got.bytes;
  }
}

}  // namespace

std::string Replacement::beside(const std::string& path) {
  const fs::path whole = resolved_posix(path);
  return (whole.parent_path() / fmt::format(".{}.stridio-commit", whole.filename().string())).string();
}

Result<std::unique_ptr<Replacement>> Replacement::begin(const std::string& path, const AccessMode& mode,
                                                        int permissions, const Open& open) {
  RETURN_IF_ERROR(exists_for(path, mode));
  std::unique_ptr<Replacement> made(new Replacement(resolved_posix(path), beside(path)));
  RETURN_IF_ERROR(made->take(permissions, open));
  ASSIGN_OR_RETURN(const bool exists, exists_for(path, mode));  // by now: another's version may just have become it
  RETURN_IF_ERROR(made->storage_->resize(0));
  if (exists) {
    std::error_code failed;  // before there is anything to read
    fs::permissions(made->beside_, fs::status(made->path_).permissions(), failed);
    if (failed) return fail_errno(failed.value(), "giving " + made->beside_ + " the file's permissions", path);
    RETURN_IF_ERROR(copy_all(made->path_, *made->storage_));
    made->copied_ = true;
  }
  return made;
}

// Another's version may get the file's name between our opening and our locking it, and is the live file then: what is locked
// counts if it still has the name beside.
Status Replacement::take(int permissions, const Open& open) {
  const OpenMode mode{.read = true, .write = true, .create = true, .permissions = permissions};
  for (int turn = 0; turn < kMostTurns; ++turn) {
    FileId id;
    ASSIGN_OR_RETURN(auto storage, open ? open(beside_, mode, &id) : open_posix(beside_, mode, &id));
    auto lock = storage->lock(kWriterLock, LockMode::kExclusiveNow);
    const auto named = find_posix(beside_);
    if (!named && named.error().code != Code::kNoSuchFile) return fail(named.error());
    if (!named || *named != id) continue;
    if (!lock && lock.error().code == Code::kFileInUse) break;
    if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
    if (lock) writing_ = *std::move(lock);
    storage_ = std::move(storage);
    ours_ = true;
    return {};
  }
  return fail(Error{.code = Code::kFileInUse,
                    .what = "another program is writing a new version of the file (hint stridio_commit=atomic)",
                    .path = path_});
}

Replacement::~Replacement() {
  if (ours_) (void)remove_posix(beside_);
}

Status Replacement::commit() {
  if (copied_) RETURN_IF_ERROR(storage_->sync());  // this handle alone is sure to be told what became of the copy
  if (::rename(beside_.c_str(), path_.c_str()) != 0)
    return fail_errno(errno, "giving the new version its name, from " + beside_, path_);
  ours_ = false;
  const std::string folder = fs::path(path_).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return {};  // a folder that may not be read: the name is there, if not yet durable
  const int why = ::fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  ::close(fd);
  return why == 0 ? Status() : fail_errno(why, "making the name durable", path_);
}

}  // namespace stridio
