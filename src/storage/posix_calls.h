// The system calls below the posix storage's loops, so that a test can make any of them fail or
// fall short.
#pragma once

#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/copy_bytes.h"
#include "storage/posix.h"

namespace stridio {

// As the functions of the same names of the C library, errno included. The defaults are the
// library's own symbols, reached through the dynamic linker: tools that interpose them (Darshan,
// fault shims) see every call.
struct PosixCalls {
  ssize_t (*pread)(int fd, void* data, size_t length, off_t offset) = ::pread;
  ssize_t (*pwrite)(int fd, const void* data, size_t length, off_t offset) = ::pwrite;
  ssize_t (*preadv)(int fd, const iovec* pieces, int count, off_t offset) = ::preadv;
  ssize_t (*pwritev)(int fd, const iovec* pieces, int count, off_t offset) = ::pwritev;
  int (*ftruncate)(int fd, off_t size) = ::ftruncate;
  int (*fallocate)(int fd, int mode, off_t offset, off_t length) = ::fallocate;
  int (*fsync)(int fd) = ::fsync;
  int (*close)(int fd) = ::close;
  int (*sync_file_range)(int fd, off64_t offset, off64_t length, unsigned int flags) = ::sync_file_range;
  // fcntl's commands that take a struct flock.
  int (*lock)(int fd, int command, struct flock* range) = [](int fd, int command, struct flock* range) {
    return ::fcntl(fd, command, range);
  };
  int (*fstatfs)(int fd, struct statfs* info) = ::fstatfs;
  bool copies_lag = string_copies_lag();  // the kernel's, of what is read (storage/detour.h)
};

Result<std::unique_ptr<Storage>> open_posix(const std::string& path, const OpenMode& mode, const PosixCalls& calls,
                                            FileId* id = nullptr);

}  // namespace stridio
