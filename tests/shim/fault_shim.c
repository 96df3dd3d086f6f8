/* A library to preload into a whole program: it makes one file operation of one rank fail.
 *
 *   STRIDIO_FAULT_PATH=PREFIX    only files whose path starts so (all files where it is not set)
 *   STRIDIO_FAULT=rank=R,op=K,errno=E[,kind=KIND][,sticky]
 *       In the process whose rank is R, the K-th matching operation (from 0) fails.
 *       E: an errno of the table below, or SHORT: the operation moves half of its bytes (all of one byte).
 *       KIND: read, write (the pread and pwrite families), size (ftruncate, fallocate), sync (fsync), any of these; close,
 *       after which the descriptor is closed all the same; lock (of fcntl, the unlocking too). sticky: so do all that
 *       follow; of EINTR, every second that follows.
 *   STRIDIO_FAULT_NOLOCK=1       fcntl's lock commands answer ENOSYS, on every rank
 *   STRIDIO_FAULT_NFS=1          the files are said to be on NFS, on every rank
 *
 * The rank is PMI_RANK, OMPI_COMM_WORLD_RANK or PMIX_RANK, and 0 where none is set. A fault that
 * cannot be understood ends the program: a test must not pass because its fault never came.
 *
 * The path of a descriptor is asked for at every operation and not remembered: descriptors are
 * closed and used anew behind our back (fclose, dup2). Only the process that is to fail pays for
 * it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { READ = 1, WRITE = 2, SIZE = 4, SYNC = 8, ANY = 15, CLOSE = 16, LOCK = 32 };
enum { SHORT = -1 };
enum verdict { PASS, FAIL, HALVE };

static struct {
  ssize_t (*pread)(int, void*, size_t, off_t);
  ssize_t (*pwrite)(int, const void*, size_t, off_t);
  ssize_t (*preadv)(int, const struct iovec*, int, off_t);
  ssize_t (*pwritev)(int, const struct iovec*, int, off_t);
  int (*ftruncate)(int, off_t);
  int (*fallocate)(int, int, off_t, off_t);
  int (*fsync)(int);
  int (*close)(int);
  int (*fstatfs)(int, struct statfs*);
  int (*fcntl)(int, int, ...);
} real;

static struct {
  bool armed; /* this process is the one to fail */
  bool sticky, no_locks, nfs;
  int kinds, error;
  long op;
  const char* path;
} fault;

static atomic_long operations;

static const struct {
  const char* name;
  int value;
} errors[] = {{"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EIO", EIO},       {"EINTR", EINTR},  {"SHORT", SHORT},
              {"EROFS", EROFS},   {"EACCES", EACCES}, {"ENOMEM", ENOMEM}, {"ENOLCK", ENOLCK}},
  kinds[] = {{"read", READ}, {"write", WRITE}, {"size", SIZE}, {"sync", SYNC},
             {"any", ANY},   {"close", CLOSE}, {"lock", LOCK}};

static void refuse(const char* what, const char* value) {
  fprintf(stderr, "fault_shim: %s '%s' is not understood\n", what, value);
  _exit(97);
}

static int error_of(const char* name) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
    if (strcmp(errors[i].name, name) == 0) return errors[i].value;
  refuse("errno", name);
  return 0;
}

static int kind_of(const char* name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (strcmp(kinds[i].name, name) == 0) return kinds[i].value;
  refuse("kind", name);
  return 0;
}

static long number_of(const char* what, const char* text) {
  char* end;
  const long number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 0) refuse(what, text);
  return number;
}

static long own_rank(void) {
  static const char* const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (getenv(names[i]) != NULL) return number_of(names[i], getenv(names[i]));
  return 0;
}

static void parse(const char* spec) {
  char text[256];
  long rank = -1;
  fault.op = -1;
  fault.kinds = ANY;
  if (strlen(spec) >= sizeof text) refuse("STRIDIO_FAULT", spec);
  strcpy(text, spec);
  char* rest = NULL;
  for (char* item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
    if (strncmp(item, "rank=", 5) == 0)
      rank = number_of("rank", item + 5);
    else if (strncmp(item, "op=", 3) == 0)
      fault.op = number_of("op", item + 3);
    else if (strncmp(item, "errno=", 6) == 0)
      fault.error = error_of(item + 6);
    else if (strncmp(item, "kind=", 5) == 0)
      fault.kinds = kind_of(item + 5);
    else if (strcmp(item, "sticky") == 0)
      fault.sticky = true;
    else
      refuse("STRIDIO_FAULT", spec);
  }
  if (rank < 0 || fault.op < 0 || fault.error == 0) refuse("STRIDIO_FAULT", spec);
  fault.armed = rank == own_rank();
}

static void* next(const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  if (symbol == NULL) refuse("symbol", name);
  return symbol;
}

static void set_up(void) {
  real.pread = next("pread");
  real.pwrite = next("pwrite");
  real.preadv = next("preadv");
  real.pwritev = next("pwritev");
  real.ftruncate = next("ftruncate");
  real.fallocate = next("fallocate");
  real.fsync = next("fsync");
  real.close = next("close");
  real.fstatfs = next("fstatfs");
  real.fcntl = next("fcntl");
  const char* no_locks = getenv("STRIDIO_FAULT_NOLOCK");
  fault.no_locks = no_locks != NULL && strcmp(no_locks, "1") == 0;
  const char* nfs = getenv("STRIDIO_FAULT_NFS");
  fault.nfs = nfs != NULL && strcmp(nfs, "1") == 0;
  fault.path = getenv("STRIDIO_FAULT_PATH");
  const char* spec = getenv("STRIDIO_FAULT");
  if (spec != NULL && *spec != '\0') parse(spec);
}

static void ready(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_up);
}

/* Whether the descriptor is of a file that faults are for. */
static bool chosen(int fd) {
  if (fault.path == NULL) return true;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path);
  const size_t prefix = strlen(fault.path);
  return length >= (ssize_t)prefix && memcmp(path, fault.path, prefix) == 0;
}

/* What becomes of this operation; sets errno where it fails. */
static enum verdict judge(int fd, enum kind kind) {
  ready();
  if (!fault.armed || (fault.kinds & kind) == 0 || !chosen(fd)) return PASS;
  const long after = atomic_fetch_add(&operations, 1) - fault.op;
  const long period = fault.error == EINTR ? 2 : 1;
  if (after != 0 && !(fault.sticky && after > 0 && after % period == 0)) return PASS;
  if (fault.error == SHORT) return HALVE;
  errno = fault.error;
  return FAIL;
}

static size_t half(size_t length) { return length < 2 ? length : length / 2; }

/* The first half of the bytes of `pieces`, as a list of its own; NULL where there is no memory for
 * it. */
static struct iovec* halve(const struct iovec* pieces, int count, int* kept) {
  struct iovec* part = malloc((size_t)(count > 0 ? count : 1) * sizeof *part);
  size_t left = 0;
  for (int i = 0; i < count; ++i) left += pieces[i].iov_len;
  left = half(left);
  *kept = 0;
  for (int i = 0; part != NULL && i < count && left > 0; ++i) {
    part[i] = pieces[i];
    if (part[i].iov_len > left) part[i].iov_len = left;
    left -= part[i].iov_len;
    ++*kept;
  }
  return part;
}

static ssize_t move_half(ssize_t (*move)(int, const struct iovec*, int, off_t), int fd, const struct iovec* pieces,
                         int count, off_t offset) {
  int kept;
  struct iovec* part = halve(pieces, count, &kept);
  if (part == NULL) return move(fd, pieces, count, offset);
  const ssize_t moved = move(fd, part, kept, offset);
  const int why = errno;
  free(part);
  errno = why;
  return moved;
}

ssize_t pread(int fd, void* data, size_t length, off_t offset) {
  const enum verdict verdict = judge(fd, READ);
  if (verdict == FAIL) return -1;
  return real.pread(fd, data, verdict == HALVE ? half(length) : length, offset);
}

ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) {
  const enum verdict verdict = judge(fd, WRITE);
  if (verdict == FAIL) return -1;
  return real.pwrite(fd, data, verdict == HALVE ? half(length) : length, offset);
}

ssize_t preadv(int fd, const struct iovec* pieces, int count, off_t offset) {
  const enum verdict verdict = judge(fd, READ);
  if (verdict == FAIL) return -1;
  if (verdict == HALVE) return move_half(real.preadv, fd, pieces, count, offset);
  return real.preadv(fd, pieces, count, offset);
}

ssize_t pwritev(int fd, const struct iovec* pieces, int count, off_t offset) {
  const enum verdict verdict = judge(fd, WRITE);
  if (verdict == FAIL) return -1;
  if (verdict == HALVE) return move_half(real.pwritev, fd, pieces, count, offset);
  return real.pwritev(fd, pieces, count, offset);
}

int ftruncate(int fd, off_t size) { return judge(fd, SIZE) == FAIL ? -1 : real.ftruncate(fd, size); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
  return judge(fd, SIZE) == FAIL ? -1 : real.fallocate(fd, mode, offset, length);
}

int fsync(int fd) { return judge(fd, SYNC) == FAIL ? -1 : real.fsync(fd); }

int close(int fd) {
  const bool fails = judge(fd, CLOSE) == FAIL;
  const int why = errno;
  const int closed = real.close(fd);
  if (!fails) return closed;
  errno = why;
  return -1;
}

static bool locks(int command) {
  return command == F_GETLK || command == F_SETLK || command == F_SETLKW || command == F_OFD_GETLK ||
         command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*); /* an int travels in the same register */
  va_end(arguments);
  ready();
  if (fault.no_locks && locks(command) && chosen(fd)) {
    errno = ENOSYS;
    return -1;
  }
  if (locks(command) && judge(fd, LOCK) == FAIL) return -1;
  return real.fcntl(fd, command, argument);
}

int fstatfs(int fd, struct statfs* info) {
  ready();
  const int result = real.fstatfs(fd, info);
  if (result == 0 && fault.nfs && chosen(fd)) info->f_type = NFS_SUPER_MAGIC;
  return result;
}

/* Where off_t has 64 bits the other names are the same functions. */
_Static_assert(sizeof(off_t) == 8, "for 64-bit systems");
ssize_t pread64(int, void*, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
ssize_t preadv64(int, const struct iovec*, int, off64_t) __attribute__((alias("preadv")));
ssize_t pwritev64(int, const struct iovec*, int, off64_t) __attribute__((alias("pwritev")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int fstatfs64(int, struct statfs64*) __attribute__((alias("fstatfs")));
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
