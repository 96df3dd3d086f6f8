// What is particular to a mounted file system: how files open, which calls are made, what their
// failures become.
#include "storage/posix.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "storage/mapping.h"
#include "storage/posix_calls.h"
#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

constexpr OpenMode kCreate{.read = true, .write = true, .create = true};

// The calls of this file's tests: counts those that move data, and makes one of them fail.
struct Script {
  int calls = 0;
  int failing = -1;  // the number of the call that fails, from 0
  int sys_errno = 0;
  std::vector<Extent> moved;  // what each call was asked for

  bool fails(Offset offset, Bytes length) {
    moved.push_back({offset, length});
    if (calls++ != failing) return false;
    errno = sys_errno;
    return true;
  }
};

Script script;

Bytes length_of(const iovec* pieces, int count) {
  Bytes length = 0;
  for (int i = 0; i < count; ++i) length += static_cast<Bytes>(pieces[i].iov_len);
  return length;
}

PosixCalls scripted() {
  script = {};
  PosixCalls calls;
  calls.pread = [](int fd, void* data, std::size_t length, off_t offset) -> ssize_t {
    return script.fails(offset, length) ? -1 : ::pread(fd, data, length, offset);
  };
  calls.pwrite = [](int fd, const void* data, std::size_t length, off_t offset) -> ssize_t {
    return script.fails(offset, length) ? -1 : ::pwrite(fd, data, length, offset);
  };
  calls.preadv = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    return script.fails(offset, length_of(pieces, count)) ? -1 : ::preadv(fd, pieces, count, offset);
  };
  calls.pwritev = [](int fd, const iovec* pieces, int count, off_t offset) -> ssize_t {
    return script.fails(offset, length_of(pieces, count)) ? -1 : ::pwritev(fd, pieces, count, offset);
  };
  return calls;
}

class Posix : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> open(const PosixCalls& calls = {}, const OpenMode& mode = kCreate) {
    auto opened = open_posix(path_, mode, calls);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
  }

  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempDirectory directory_;
  const std::string path_ = directory_.file("data");
};

Span span_of(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), static_cast<Bytes>(text.size())}; }

// ---- Opening and removing

TEST_F(Posix, MissingFile) {
  const auto opened = open_posix(path_, {.read = true});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kNoSuchFile);
  EXPECT_EQ(opened.error().path, path_);
  EXPECT_EQ(remove_posix(path_).error().code, Code::kNoSuchFile);
}

TEST_F(Posix, ExclusiveCreation) {
  OpenMode mode = kCreate;
  mode.exclusive = true;
  ASSERT_TRUE(open_posix(path_, mode));
  EXPECT_EQ(open_posix(path_, mode).error().code, Code::kFileExists);
}

TEST_F(Posix, Permissions) {
  OpenMode mode = kCreate;
  mode.permissions = 0600;
  ASSERT_TRUE(open_posix(path_, mode));
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(Posix, DirectoriesAreNoFiles) {
  for (const OpenMode& mode : {OpenMode{.read = true}, OpenMode{.write = true}, kCreate}) {
    const auto opened = open_posix(directory_.path(), mode);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kBadFileName) << opened.error().text();
    EXPECT_NE(opened.error().text().find("directory"), std::string::npos);
  }
  EXPECT_EQ(remove_posix(directory_.path()).error().code, Code::kBadFileName);
}

TEST_F(Posix, PipesAreRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const OpenMode& mode : {OpenMode{.read = true}, OpenMode{.write = true}, kCreate})
    EXPECT_EQ(open_posix(path_, mode).error().code, Code::kBadFileName);
}

TEST_F(Posix, FileBelowAFile) {
  open();
  EXPECT_EQ(open_posix(path_ + "/below", kCreate).error().code, Code::kBadFileName);
}

TEST_F(Posix, DevicesWork) {
  auto null = open_posix("/dev/null", {.read = true, .write = true});
  ASSERT_TRUE(null) << null.error().text();
  std::byte data[10] = {};
  EXPECT_EQ((*null)->write({100, 10}, data)->bytes, 10);
  EXPECT_TRUE((*null)->read({100, 10}, data)->eof);
  EXPECT_TRUE((*null)->sync());
}

TEST_F(Posix, ProcessesThatAreStartedInheritNothing) {
  const auto before = ::dup(0);
  ::close(before);
  open();
  const auto storage = open();
  EXPECT_NE(::fcntl(before, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::fcntl(before, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(Posix, RemovedFilesAreGone) {
  open();
  EXPECT_TRUE(remove_posix(path_));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(Posix, NamesAreFound) {
  FileId opened;
  ASSERT_TRUE(open_posix(path_, kCreate, &opened));
  const auto found = find_posix(path_);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, opened);
  ASSERT_TRUE(find_posix("/dev/null"));
  EXPECT_NE(*find_posix("/dev/null"), opened);
  ASSERT_TRUE(find_posix("."));  // a name without a folder
  ASSERT_TRUE(remove_posix(path_));
  EXPECT_EQ(find_posix(path_).error().code, Code::kNoSuchFile);
}

// ---- Which calls are made

TEST_F(Posix, OneCallARun) {
  const auto storage = open(scripted());
  std::string text = "0123456789abcdef";
  const std::vector<Extent> extents = {{0, 4}, {4, 4}, {20, 4}, {24, 0}, {16, 4}};
  const std::vector<Span> memory = {{span_of(text).data, 3}, {span_of(text).data + 3, 13}};
  const auto moved = storage->writev(extents, memory);
  ASSERT_TRUE(moved);
  EXPECT_EQ(script.moved, (std::vector<Extent>{{0, 8}, {20, 4}, {16, 4}}));
  EXPECT_EQ(moved->requests, 3);
}

TEST_F(Posix, CallsAreCutAtTheSystemsLimits) {
  static std::vector<std::pair<int, Bytes>> asked;  // pieces and bytes of each call
  asked.clear();
  PosixCalls calls;
  calls.pwritev = [](int, const iovec* pieces, int count, off_t) -> ssize_t {
    asked.emplace_back(count, length_of(pieces, count));
    return length_of(pieces, count);
  };
  const auto storage = open(calls);
  std::vector<std::byte> block(4 << 20);
  std::vector<Span> memory(600, Span{block.data(), 4 << 20});
  const Extent large{0, 600LL * (4 << 20)};
  ASSERT_TRUE(storage->writev({&large, 1}, memory));
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0], (std::pair<int, Bytes>{256, 1 << 30}));
  EXPECT_EQ(asked[2], (std::pair<int, Bytes>{88, 88LL * (4 << 20)}));

  asked.clear();
  memory.assign(2500, Span{block.data(), 1});
  const Extent scattered{0, 2500};
  ASSERT_TRUE(storage->writev({&scattered, 1}, memory));
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0], (std::pair<int, Bytes>{1024, 1024}));
  EXPECT_EQ(asked[2], (std::pair<int, Bytes>{452, 452}));
}

// ---- Failures

TEST_F(Posix, FailuresSayWhatWasTried) {
  const auto storage = open(scripted());
  script.failing = 1;
  script.sys_errno = ENOSPC;
  std::string text = "0123456789";
  const std::vector<Extent> extents = {{0, 4}, {8192, 6}};
  const Span memory = span_of(text);
  const auto moved = storage->writev(extents, {&memory, 1});
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kNoSpace);
  EXPECT_EQ(moved.error().sys_errno, ENOSPC);
  EXPECT_EQ(moved.error().path, path_);
  EXPECT_EQ(moved.error().what, "writing 6 bytes at offset 8192");
  EXPECT_EQ(contents(), "0123");
}

TEST_F(Posix, ErrnosBecomeCodes) {
  const std::vector<std::pair<int, Code>> expected = {
      {ENOSPC, Code::kNoSpace}, {EFBIG, Code::kNoSpace}, {EDQUOT, Code::kQuota},   {EIO, Code::kIo},
      {EROFS, Code::kReadOnly}, {EACCES, Code::kAccess}, {ENOMEM, Code::kNoMemory}};
  const auto storage = open(scripted());
  std::byte byte{};
  for (const auto& [sys_errno, code] : expected) {
    script = Script{.calls = 0, .failing = 0, .sys_errno = sys_errno, .moved = {}};
    EXPECT_EQ(storage->write({0, 1}, &byte).error().code, code) << sys_errno;
    script = Script{.calls = 0, .failing = 0, .sys_errno = sys_errno, .moved = {}};
    EXPECT_EQ(storage->read({0, 1}, &byte).error().code, code) << sys_errno;
  }
}

TEST_F(Posix, AWriteThatMovesNothingFails) {
  PosixCalls calls;
  calls.pwrite = [](int, const void*, std::size_t, off_t) -> ssize_t { return 0; };
  const auto storage = open(calls);
  std::byte byte{};
  EXPECT_EQ(storage->write({0, 1}, &byte).error().code, Code::kIo);
}

TEST_F(Posix, OtherCallsFailWithTheirErrno) {
  PosixCalls calls;
  calls.ftruncate = [](int, off_t) { return errno = EIO, -1; };
  calls.fallocate = [](int, int, off_t, off_t) { return errno = ENOSPC, -1; };
  calls.fsync = [](int) { return errno = EDQUOT, -1; };
  const auto storage = open(calls);
  EXPECT_EQ(storage->resize(10).error().code, Code::kIo);
  EXPECT_EQ(storage->reserve(10).error().code, Code::kNoSpace);
  EXPECT_EQ(storage->sync().error().code, Code::kQuota);
  EXPECT_EQ(storage->resize(10).error().what, "resizing to 10 bytes");
}

// NFS and FUSE tell by close alone what became of writes that no sync has asked for.
TEST_F(Posix, ClosingTellsWhatCouldNotBeWritten) {
  static int why, closed;
  PosixCalls calls;
  calls.close = [](int fd) {
    ++closed;
    EXPECT_EQ(::close(fd), 0);
    return why == 0 ? 0 : (errno = why, -1);
  };
  const auto code_of = [&](int sys_errno) {
    why = sys_errno;
    closed = 0;
    Code code;
    {
      const auto storage = open(calls);
      const Status first = storage->close();
      code = first ? Code::kOk : first.error().code;
      EXPECT_TRUE(first || first.error().path == path_);
      EXPECT_TRUE(storage->close()) << "closed it is even so";
    }
    EXPECT_EQ(closed, 1) << "the number may be another file's by now";
    return code;
  };
  EXPECT_EQ(code_of(0), Code::kOk);
  EXPECT_EQ(code_of(EDQUOT), Code::kQuota);
  EXPECT_EQ(code_of(ENOSPC), Code::kNoSpace);
  EXPECT_EQ(code_of(EIO), Code::kIo);
  EXPECT_EQ(code_of(EINTR), Code::kOk) << "Linux has closed it";
  closed = 0;
  open(calls);
  EXPECT_EQ(closed, 1) << "by the destructor";
}

TEST_F(Posix, LocksMayOutliveTheClosing) {
  const auto storage = open();
  auto lock = storage->lock({0, 10}, LockMode::kExclusive);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(storage->close());
  const auto other = open();  // by the number that was the first one's
  ASSERT_TRUE(other->lock({0, 10}, LockMode::kExclusiveNow)) << "closing has released it";
  const auto others = other->lock({0, 10}, LockMode::kExclusive);
  ASSERT_TRUE(others);
  lock->reset();
  EXPECT_EQ(open()->lock({0, 10}, LockMode::kExclusiveNow).error().code, Code::kFileInUse) << "it is not the other's";
}

// The server is asked anew by a lock that nobody else is in the way of; where there are none, by a look at the attributes.
TEST_F(Posix, WhatOtherMachinesWroteIsAskedForOnNfsAlone) {
  static std::vector<struct flock> taken;
  static int why;
  PosixCalls calls;
  calls.lock = [](int fd, int command, struct flock* range) {
    EXPECT_EQ(command, F_OFD_SETLK) << "nobody is waited for";
    taken.push_back(*range);
    return why == 0 ? ::fcntl(fd, command, range) : (errno = why, -1);
  };
  const auto refresh = [&](int sys_errno, const OpenMode& mode = kCreate) {
    const auto storage = open(calls, mode);
    taken.clear();
    why = sys_errno;
    return storage->refresh();
  };
  EXPECT_FALSE(open(calls)->caps().caches);
  EXPECT_TRUE(refresh(0));
  EXPECT_TRUE(taken.empty()) << "one page cache is enough";
  calls.fstatfs = [](int, struct statfs* info) {
    info->f_type = NFS_SUPER_MAGIC;
    return 0;
  };
  EXPECT_TRUE(open(calls)->caps().caches);
  EXPECT_FALSE(open(calls)->caps().maps);
  EXPECT_TRUE(refresh(0, {.write = true})) << "who cannot read keeps nothing that others wrote";
  EXPECT_TRUE(taken.empty());
  for (const OpenMode& mode : {kCreate, OpenMode{.read = true}}) {
    EXPECT_TRUE(refresh(0, mode));
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[0].l_type, F_RDLCK) << "machines are not in each other's way";
    EXPECT_EQ(taken[1].l_type, F_UNLCK);
    for (const struct flock& each : taken) {
      EXPECT_EQ(each.l_start, std::numeric_limits<Offset>::max() - 2);
      EXPECT_EQ(each.l_len, 1);
    }
  }
  for (const int sys_errno : {EAGAIN, EACCES, ENOLCK, ENOSYS}) EXPECT_TRUE(refresh(sys_errno)) << sys_errno;
  EXPECT_EQ(refresh(EIO).error().code, Code::kIo);
}

// By a lock that no machine is in another's way with, which is held until the close, whatever is refreshed meanwhile.
TEST_F(Posix, WritersOfSeveralMachinesAreKeptApartOnNfsAlone) {
  static int asked, why;
  PosixCalls calls;
  calls.lock = [](int fd, int command, struct flock* range) {
    ++asked;
    EXPECT_EQ(command, F_OFD_SETLK) << "nobody is waited for";
    return why == 0 ? ::fcntl(fd, command, range) : (errno = why, -1);
  };
  const auto kept_apart = [&](const OpenMode& mode = kCreate) {
    auto storage = open(calls, mode);
    asked = 0;
    storage->keep_apart();
    return storage;
  };
  // Who would have all bytes that no file has.
  const auto is_held = [&] {
    const int fd = ::open(path_.c_str(), O_RDWR);
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_start = Offset{1} << 62;
    EXPECT_EQ(::fcntl(fd, F_OFD_GETLK, &range), 0);
    ::close(fd);
    EXPECT_TRUE(range.l_type != F_WRLCK);
    return range.l_type == F_RDLCK;
  };
  kept_apart();
  EXPECT_EQ(asked, 0) << "one page cache is enough";
  calls.fstatfs = [](int, struct statfs* info) {
    info->f_type = NFS_SUPER_MAGIC;
    return 0;
  };
  kept_apart({.read = true});
  EXPECT_EQ(asked, 0) << "who writes nothing writes nothing back";
  {
    const auto one = kept_apart(), other = kept_apart();
    EXPECT_TRUE(one->refresh());
    EXPECT_TRUE(other->refresh());
    EXPECT_TRUE(is_held());
    EXPECT_TRUE(one->close());
    EXPECT_TRUE(is_held()) << "the other's";
    EXPECT_TRUE(other->close());
    EXPECT_FALSE(is_held());
  }
  for (const int sys_errno : {EAGAIN, ENOLCK, ENOSYS, EIO}) {
    why = sys_errno;
    EXPECT_TRUE(kept_apart()->write({0, 1}, reinterpret_cast<const std::byte*>("x"))) << "it goes on without";
  }
}

TEST_F(Posix, WhatWillBeSyncedIsOnItsWayAtOnce) {
  static std::vector<Extent> begun;
  begun.clear();
  PosixCalls calls;
  calls.sync_file_range = [](int, off64_t offset, off64_t length, unsigned int flags) {
    EXPECT_EQ(flags, static_cast<unsigned int>(SYNC_FILE_RANGE_WRITE));
    begun.push_back({offset, length});
    return errno = EIO, -1;  // that is for sync() to tell
  };
  const auto storage = open(calls);
  std::vector<std::byte> data(1 << 20);
  const auto write = [&](Extent extent) { ASSERT_TRUE(storage->write(extent, data.data())); };
  write({0, 1 << 20});
  EXPECT_TRUE(begun.empty()) << "nobody has said that it will be synced";
  storage->expect_sync();
  write({4096, 1 << 20});
  write({2 << 20, 4096});
  EXPECT_EQ(begun, (std::vector<Extent>{{4096, 1 << 20}}));
  EXPECT_TRUE(storage->read({4096, 1 << 20}, data.data()));
  EXPECT_TRUE(storage->sync());
  EXPECT_EQ(begun.size(), 1u);
}

// ---- Locks

TEST_F(Posix, NoLocksOnThisFileSystem) {
  for (int sys_errno : {ENOSYS, EOPNOTSUPP, ENOLCK}) {
    static int why;
    why = sys_errno;
    PosixCalls calls;
    calls.lock = [](int, int, struct flock*) { return errno = why, -1; };
    const auto storage = open(calls);
    EXPECT_FALSE(storage->has_locks());
    const auto locked = storage->lock({0, 10}, LockMode::kExclusive);
    ASSERT_FALSE(locked);
    EXPECT_EQ(locked.error().code, Code::kUnsupportedOperation);
    EXPECT_NE(locked.error().what.find("no range locks"), std::string::npos);
  }
}

TEST_F(Posix, LocksFoundMissingLaterAreNoLongerPromised) {
  PosixCalls calls;
  calls.lock = [](int, int command, struct flock*) { return command == F_OFD_GETLK ? 0 : (errno = ENOLCK, -1); };
  const auto storage = open(calls);
  EXPECT_TRUE(storage->has_locks());
  for (int attempt = 0; attempt < 2; ++attempt)  // the first must not be left in the way of the second
    EXPECT_FALSE(storage->lock({0, 10}, LockMode::kExclusive));
  EXPECT_FALSE(storage->has_locks());
}

TEST_F(Posix, ExclusiveLocksNeedAHandleThatWrites) {
  open();
  const auto reader = open({}, {.read = true});
  EXPECT_TRUE(reader->lock({0, 10}, LockMode::kShared));
  EXPECT_EQ(reader->lock({0, 10}, LockMode::kExclusive).error().code, Code::kAccess);
}

TEST_F(Posix, WhatIsCutOffWhileMappedIsNoCrash) {
  const auto storage = open();
  if (!storage->caps().maps) GTEST_SKIP() << "the file system of " << path_ << " is not mapped";
  ASSERT_TRUE(storage->resize(100000));
  std::vector<std::byte> copied(100000);
  for (const bool writes : {false, true}) {
    ASSERT_TRUE(storage->resize(100000));
    const auto moved = storage->map({0, 100000}, writes, [&](std::byte* data, Bytes present) {
      EXPECT_EQ(::truncate(path_.c_str(), 5000), 0);
      const auto length = static_cast<std::size_t>(present);
      std::memcpy(writes ? data : copied.data(), writes ? copied.data() : data, length);
      return present;
    });
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, Code::kUnsupportedOperation);
    EXPECT_EQ(storage->size(), Bytes{5000});
  }
}

// Each by an own open, as ranks do.
TEST_F(Posix, WhatIsStoredInMappingsOutlivesTheFilesGrowth) {
  if (!open()->caps().maps) GTEST_SKIP() << "the file system of " << path_ << " is not mapped";
  constexpr Extent kRanges[] = {{3523, 124}, {2058, 28},  {1746, 102}, {2692, 86}, {2432, 71},
                                {4415, 604}, {1236, 134}, {2991, 12},  {2787, 97}};
  constexpr int kRounds = 4000;
  const std::vector<std::byte> bytes(604, std::byte{7});
  std::barrier together(std::size(kRanges));
  int lost = 0;
  const auto work = [&](Extent mine) {
    for (int round = 0; round < kRounds; ++round) {
      if (mine == kRanges[0]) {
        EXPECT_TRUE(remove_posix(path_));
        EXPECT_TRUE(open()->write({0, 558}, bytes.data()));
      }
      together.arrive_and_wait();
      const auto storage = open();
      together.arrive_and_wait();
      EXPECT_TRUE(storage->map(mine, true, [&](std::byte* data, Bytes present) {
        std::memcpy(data, bytes.data(), static_cast<std::size_t>(present));
        return present;
      }));
      together.arrive_and_wait();
      if (mine != kRanges[0]) continue;
      std::vector<std::byte> all(5019);
      EXPECT_TRUE(storage->read({0, 5019}, all.data()));
      for (const Extent& range : kRanges)
        lost += std::any_of(all.begin() + range.offset, all.begin() + range.end(),
                            [](std::byte byte) { return byte != std::byte{7}; });
    }
  };
  std::vector<std::thread> threads;
  for (const Extent& range : kRanges) threads.emplace_back(work, range);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0) << "of " << kRounds * std::ssize(kRanges);
}

TEST_F(Posix, OtherBusErrorsStillEndTheProgram) {
  const auto storage = open();
  if (!storage->caps().maps) GTEST_SKIP() << "the file system of " << path_ << " is not mapped";
  const auto crash = [&] {
    (void)storage->map({0, 10}, true, [](std::byte*, Bytes) { return Bytes{10}; });
    ::raise(SIGBUS);
  };
  // Address sanitizer's own handler, which was there before ours, ends it with a status.
  EXPECT_EXIT(
      crash(), [](int status) { return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : status != 0; }, "");
}

// A program that handles them itself has all pages brought in before: of no range that is much longer than what it may want.
TEST_F(Posix, WhoDoesNotSeeErrorsMapsLittleToRead) {
  const auto storage = open();
  if (!storage->caps().maps) GTEST_SKIP() << "the file system of " << path_ << " is not mapped";
  constexpr Bytes kLong = Mapping::kMostBroughtIn + 1;
  ASSERT_TRUE(storage->resize(kLong));
  const auto maps = [&](Bytes length) {
    return storage->map({0, length}, false, [](std::byte*, Bytes) { return Bytes{0}; }).has_value();
  };
  EXPECT_TRUE(maps(kLong));
  struct sigaction theirs {
  }, ours;
  theirs.sa_handler = [](int) {};
  ::sigaction(SIGBUS, &theirs, &ours);
  EXPECT_TRUE(maps(kLong - 1));
  EXPECT_FALSE(maps(kLong));
  ::sigaction(SIGBUS, &ours, nullptr);
  EXPECT_TRUE(maps(kLong));
}

TEST_F(Posix, AFullDiskIsNoCrash) {
  PosixCalls calls;
  calls.fallocate = [](int, int, off_t, off_t) {
    errno = ENOSPC;
    return -1;
  };
  const auto storage = open(calls);
  bool called = false;
  const auto moved = storage->map({0, 10}, true, [&](std::byte*, Bytes) {
    called = true;
    return Bytes{0};
  });
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kUnsupportedOperation);
  EXPECT_FALSE(called);
  EXPECT_EQ(storage->size(), Bytes{0});
}

TEST_F(Posix, OtherProcessesAreExcluded) {
  const auto storage = open();
  auto held = storage->lock({10, 10}, LockMode::kExclusive);
  ASSERT_TRUE(held);
  { open(); }  // closing another descriptor must not drop the lock
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(path_.c_str(), O_RDWR);
    struct flock inside {};
    inside.l_type = F_WRLCK;
    inside.l_start = 15;
    inside.l_len = 1;
    struct flock outside = inside;
    outside.l_start = 20;
    const bool excluded = ::fcntl(fd, F_OFD_SETLK, &inside) != 0;
    const bool free = ::fcntl(fd, F_OFD_SETLK, &outside) == 0;
    ::_exit(excluded && free ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stridio
