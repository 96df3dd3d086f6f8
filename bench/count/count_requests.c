/* Counts the requests that a process makes to one file: reads, writes and locks taken, and the
 * bytes they ask for, by the library that makes them.
 *
 *   LD_PRELOAD=libcount_requests.so COUNT_FILE=data.h5 COUNT_REPORT=counts.txt program ...
 *
 * At its end each process appends to COUNT_REPORT a line for each library or program that made any:
 *   name reads writes locks bytes_read bytes_written
 *
 * A call belongs to COUNT_FILE when its descriptor refers to that file (device and inode), however
 * it was opened. That costs two stat calls each time, so never time a program while counting. One
 * call of a vectored function is one request, and so is a shared mapping of a part of the file. Not
 * seen: what the C library does for itself (stdio), and io_uring. Any thread may call. */
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAX_CALLERS = 32, MAX_NAME = 256 };

struct caller {
  char name[MAX_NAME]; /* of the library or program; a copy, as plug-ins are unloaded */
  long long reads, writes, locks, bytes_read, bytes_written;
};

static struct caller callers[MAX_CALLERS]; /* filled from the front; the last takes any excess */
static pthread_mutex_t callers_mutex = PTHREAD_MUTEX_INITIALIZER;

static int is_counted(int fd) {
  const char* path = getenv("COUNT_FILE");
  struct stat wanted, found;
  return path && stat(path, &wanted) == 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode) &&
         wanted.st_ino == found.st_ino && wanted.st_dev == found.st_dev;
}

/* The file name of the library or program that holds the code at this address. */
static void name_of(const void* code, char name[MAX_NAME]) {
  Dl_info info;
  const char* path = dladdr(code, &info) && info.dli_fname ? info.dli_fname : "unknown";
  const char* slash = strrchr(path, '/');
  snprintf(name, MAX_NAME, "%s", slash ? slash + 1 : path);
}

/* Adds these to what the code at this address has requested. */
static void count(const void* code, int fd, struct caller more) {
  if (!is_counted(fd)) return;
  name_of(code, more.name);
  pthread_mutex_lock(&callers_mutex);
  struct caller* known = callers;
  while (known < callers + MAX_CALLERS - 1 && known->name[0] && strcmp(known->name, more.name) != 0) ++known;
  memcpy(known->name, more.name, MAX_NAME);
  known->reads += more.reads;
  known->writes += more.writes;
  known->locks += more.locks;
  known->bytes_read += more.bytes_read;
  known->bytes_written += more.bytes_written;
  pthread_mutex_unlock(&callers_mutex);
}

static struct caller one_read(size_t bytes) { return (struct caller){.reads = 1, .bytes_read = (long long)bytes}; }

static struct caller one_write(size_t bytes) { return (struct caller){.writes = 1, .bytes_written = (long long)bytes}; }

static size_t total(const struct iovec* pieces, int parts) {
  size_t bytes = 0;
  for (int i = 0; i < parts; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

static void append_line(int report, const struct caller* caller) {
  char line[MAX_NAME + 128];
  int length = snprintf(line, sizeof line, "%s %lld %lld %lld %lld %lld\n", caller->name, caller->reads, caller->writes,
                        caller->locks, caller->bytes_read, caller->bytes_written);
  if (write(report, line, length) != length) perror("count_requests");
}

__attribute__((destructor)) static void write_report(void) {
  const char* path = getenv("COUNT_REPORT");
  if (!path || !callers[0].name[0]) return;
  int report = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (report < 0) {
    perror(path);
    return;
  }
  for (int i = 0; i < MAX_CALLERS && callers[i].name[0]; ++i) append_line(report, &callers[i]);
  close(report);
}

/* Defines `name` to count a request and then call the next function of that name. */
#define COUNTED(result, name, parameters, fd, request, ...) \
  result name parameters {                                  \
    static result(*_Atomic next) parameters;                \
    if (!next) next = dlsym(RTLD_NEXT, #name);              \
    count(__builtin_return_address(0), fd, request);        \
    return next(__VA_ARGS__);                               \
  }

#define COUNTED_READ(name, parameters, bytes, ...) COUNTED(ssize_t, name, parameters, fd, one_read(bytes), __VA_ARGS__)
#define COUNTED_WRITE(name, parameters, bytes, ...) \
  COUNTED(ssize_t, name, parameters, fd, one_write(bytes), __VA_ARGS__)

#define VECTOR int fd, const struct iovec *pieces, int parts

COUNTED_READ(read, (int fd, void* data, size_t size), size, fd, data, size)
COUNTED_READ(pread, (int fd, void* data, size_t size, off_t at), size, fd, data, size, at)
COUNTED_READ(pread64, (int fd, void* data, size_t size, off64_t at), size, fd, data, size, at)
COUNTED_READ(readv, (VECTOR), total(pieces, parts), fd, pieces, parts)
COUNTED_READ(preadv, (VECTOR, off_t at), total(pieces, parts), fd, pieces, parts, at)
COUNTED_READ(preadv64, (VECTOR, off64_t at), total(pieces, parts), fd, pieces, parts, at)
COUNTED_READ(preadv2, (VECTOR, off_t at, int flags), total(pieces, parts), fd, pieces, parts, at, flags)
COUNTED_READ(preadv64v2, (VECTOR, off64_t at, int flags), total(pieces, parts), fd, pieces, parts, at, flags)

COUNTED_WRITE(write, (int fd, const void* data, size_t size), size, fd, data, size)
COUNTED_WRITE(pwrite, (int fd, const void* data, size_t size, off_t at), size, fd, data, size, at)
COUNTED_WRITE(pwrite64, (int fd, const void* data, size_t size, off64_t at), size, fd, data, size, at)
COUNTED_WRITE(writev, (VECTOR), total(pieces, parts), fd, pieces, parts)
COUNTED_WRITE(pwritev, (VECTOR, off_t at), total(pieces, parts), fd, pieces, parts, at)
COUNTED_WRITE(pwritev64, (VECTOR, off64_t at), total(pieces, parts), fd, pieces, parts, at)
COUNTED_WRITE(pwritev2, (VECTOR, off_t at, int flags), total(pieces, parts), fd, pieces, parts, at, flags)
COUNTED_WRITE(pwritev64v2, (VECTOR, off64_t at, int flags), total(pieces, parts), fd, pieces, parts, at, flags)

/* What a fortified build calls instead where the compiler knows the buffer's size. */
COUNTED_READ(__read_chk, (int fd, void* data, size_t size, size_t room), size, fd, data, size, room)
COUNTED_READ(__pread_chk, (int fd, void* data, size_t size, off_t at, size_t room), size, fd, data, size, at, room)
COUNTED_READ(__pread64_chk, (int fd, void* data, size_t size, off64_t at, size_t room), size, fd, data, size, at, room)

/* The C library serves these on threads of its own. */
#define COUNTED_AIO(name, control, one) \
  COUNTED(int, name, (struct control * request), request->aio_fildes, one(request->aio_nbytes), request)

COUNTED_AIO(aio_read, aiocb, one_read)
COUNTED_AIO(aio_read64, aiocb64, one_read)
COUNTED_AIO(aio_write, aiocb, one_write)
COUNTED_AIO(aio_write64, aiocb64, one_write)

static int takes_lock(int command, const void* argument) {
  const int is_lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  return is_lock && ((const struct flock*)argument)->l_type != F_UNLCK;
}

/* The optional argument is a number or a pointer: on 64-bit Linux both travel as a pointer. */
#define COUNTED_FCNTL(name)                                                                                 \
  int name(int fd, int command, ...) {                                                                      \
    static int (*_Atomic next)(int, int, ...);                                                              \
    if (!next) next = dlsym(RTLD_NEXT, #name);                                                              \
    va_list arguments;                                                                                      \
    va_start(arguments, command);                                                                           \
    void* argument = va_arg(arguments, void*);                                                              \
    va_end(arguments);                                                                                      \
    if (takes_lock(command, argument)) count(__builtin_return_address(0), fd, (struct caller){.locks = 1}); \
    return next(fd, command, argument);                                                                     \
  }

COUNTED_FCNTL(fcntl)
COUNTED_FCNTL(fcntl64)

/* By the system call itself: allocators map memory before anything can be looked up. */
void* mmap(void* place, size_t length, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && (flags & MAP_TYPE) != MAP_PRIVATE)
    count(__builtin_return_address(0), fd, protection & PROT_WRITE ? one_write(length) : one_read(length));
  return (void*)syscall(SYS_mmap, place, length, protection, flags, fd, offset);
}
void* mmap64(void*, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
