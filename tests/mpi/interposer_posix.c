/* A tool that wraps POSIX I/O: counts what happens to files that have "interposed" in their names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kMost = 4096 };
static atomic_char watched[kMost];
static atomic_long opens, closes, bytes_written, bytes_read, syncs;

#define NEXT(name)               \
  static __typeof__(name)* next; \
  if (next == NULL) next = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

static int is_watched(int fd) { return fd >= 0 && fd < kMost && watched[fd]; }
static int watch(const char* path, int fd) {
  if (fd >= 0 && fd < kMost && strstr(path, "interposed") != NULL) {
    watched[fd] = 1;
    ++opens;
  }
  return fd;
}
static ssize_t add(atomic_long* total, int fd, ssize_t bytes) {
  if (bytes > 0 && is_watched(fd)) *total += bytes;
  return bytes;
}

#define MODE                                     \
  va_list arguments;                             \
  va_start(arguments, flags);                    \
  const mode_t mode = va_arg(arguments, mode_t); \
  va_end(arguments)
#define OPEN(name)                               \
  int name(const char* path, int flags, ...) {   \
    NEXT(name);                                  \
    MODE;                                        \
    return watch(path, next(path, flags, mode)); \
  }
#define OPENAT(name)                                       \
  int name(int folder, const char* path, int flags, ...) { \
    NEXT(name);                                            \
    MODE;                                                  \
    return watch(path, next(folder, path, flags, mode));   \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  NEXT(close);
  if (is_watched(fd)) {
    watched[fd] = 0;
    ++closes;
  }
  return next(fd);
}
int fsync(int fd) {
  NEXT(fsync);
  syncs += is_watched(fd);
  return next(fd);
}
int fdatasync(int fd) {
  NEXT(fdatasync);
  syncs += is_watched(fd);
  return next(fd);
}

#define PLAIN(name, total, type)                      \
  ssize_t name(int fd, type buffer, size_t length) {  \
    NEXT(name);                                       \
    return add(&total, fd, next(fd, buffer, length)); \
  }
#define AT(name, total, type, offset_type)                               \
  ssize_t name(int fd, type buffer, size_t length, offset_type offset) { \
    NEXT(name);                                                          \
    return add(&total, fd, next(fd, buffer, length, offset));            \
  }
#define VECTOR(name, total, offset_type)                                            \
  ssize_t name(int fd, const struct iovec* pieces, int count, offset_type offset) { \
    NEXT(name);                                                                     \
    return add(&total, fd, next(fd, pieces, count, offset));                        \
  }
PLAIN(write, bytes_written, const void*)
PLAIN(read, bytes_read, void*)
AT(pwrite, bytes_written, const void*, off_t)
AT(pwrite64, bytes_written, const void*, off64_t)
AT(pread, bytes_read, void*, off_t)
AT(pread64, bytes_read, void*, off64_t)
VECTOR(pwritev, bytes_written, off_t)
VECTOR(pwritev64, bytes_written, off64_t)
VECTOR(preadv, bytes_read, off_t)
VECTOR(preadv64, bytes_read, off64_t)

long posix_calls_seen(const char* what) {
  if (strcmp(what, "opens") == 0) return opens;
  if (strcmp(what, "closes") == 0) return closes;
  if (strcmp(what, "bytes written") == 0) return bytes_written;
  if (strcmp(what, "bytes read") == 0) return bytes_read;
  if (strcmp(what, "syncs") == 0) return syncs;
  return -1;
}
