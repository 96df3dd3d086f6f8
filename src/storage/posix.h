// A file of a mounted file system, by pread, pwrite, preadv and pwritev.
#pragma once

#include "storage/storage.h"

namespace stridio {

// What tells a file from all others on one machine.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool regular = false;  // not a device

  bool operator==(const FileId&) const = default;
};

// `id`, if given, becomes that of the opened file.
Result<std::unique_ptr<Storage>> open_posix(const std::string& path, const OpenMode& mode, FileId* id = nullptr);
// What the name leads to now: network file systems are asked anew what its folder has. kNoSuchFile.
Result<FileId> find_posix(const std::string& path);
// The absolute name, without symbolic links, of what the name leads to, which need not exist: the same file wherever the process
// goes.
std::string resolved_posix(const std::string& path);
// Whether somebody holds an exclusive lock on some of the range. Takes none itself; asks a handle of its own.
// kUnsupportedOperation where there are no locks.
Result<bool> is_locked_posix(const std::string& path, Extent range);
// kNoSuchFile where it does not exist; a directory is kBadFileName.
Status remove_posix(const std::string& path);

}  // namespace stridio
