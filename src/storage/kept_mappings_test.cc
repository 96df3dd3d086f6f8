#include "storage/kept_mappings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/worker.h"
#include "storage/posix_calls.h"
#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

constexpr Bytes kBytes = 2 * KeptMappings::kLeast;

class Kept : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/stridio-kept-XXXXXX";
    struct statfs info;
    if (::mkdtemp(name) == nullptr) GTEST_SKIP() << "there is no /dev/shm";
    folder_ = name;
    if (::statfs(name, &info) != 0 || info.f_type != TMPFS_MAGIC) GTEST_SKIP() << "/dev/shm is not in memory";
    open(folder_ + "/data");
  }
  void TearDown() override {
    storage_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open(const std::string& path) {
    path_ = path;
    calls_made = 0;
    PosixCalls calls;
    calls.pwritev = [](int fd, const iovec* pieces, int count, off_t offset) {
      ++calls_made;
      return ::pwritev(fd, pieces, count, offset);
    };
    auto opened = open_posix(path_, {.read = true, .write = true, .create = true, .keeps_mappings = true}, calls);
    ASSERT_TRUE(opened) << opened.error().text();
    storage_ = *std::move(opened);
  }

  // Whether calls were needed.
  bool write(const std::vector<Extent>& extents, char value) {
    Bytes size = 0;
    for (const Extent& extent : extents) size += extent.length;
    std::vector<std::byte> data(static_cast<std::size_t>(size), std::byte(value));
    // Cut elsewhere than the extents.
    const Span halves[] = {{data.data(), size / 2}, {data.data() + size / 2, size - size / 2}};
    const auto moved = storage_->writev(extents, halves);
    EXPECT_TRUE(moved) << moved.error().text();
    EXPECT_EQ(moved->bytes, size);
    return moved->requests > 0;
  }

  std::string stored() {
    std::string all(static_cast<std::size_t>(*storage_->size()), '?');
    const int fd = ::open(path_.c_str(), O_RDONLY);
    EXPECT_EQ(::pread(fd, all.data(), all.size(), 0), std::ssize(all));
    ::close(fd);
    return all;
  }

  static std::atomic<int> calls_made;
  std::string folder_, path_;
  std::unique_ptr<Storage> storage_;
};
std::atomic<int> Kept::calls_made = 0;

TEST_F(Kept, WhatIsWrittenAgainTakesNoCalls) {
  const std::vector<Extent> rows{{100000, kBytes}, {10, kBytes}, {300000, 5000}};
  EXPECT_TRUE(write(rows, 'a'));
  const int before = calls_made;
  EXPECT_EQ(before, 1) << "the last piece goes by itself";
  EXPECT_FALSE(write(rows, 'b'));
  EXPECT_FALSE(write(rows, 'c'));
  EXPECT_EQ(calls_made, before);
  std::string wanted(305000, '\0');
  for (const Extent& row : rows)
    wanted.replace(static_cast<std::size_t>(row.offset), static_cast<std::size_t>(row.length),
                   static_cast<std::size_t>(row.length), 'c');
  EXPECT_TRUE(stored() == wanted);
}

TEST_F(Kept, LaterBytesOfOneRequestCount) {
  std::vector<std::byte> data(2 * kBytes, std::byte{'a'});
  std::memset(data.data() + kBytes, 'b', kBytes);
  const std::vector<Extent> extents{{0, kBytes}, {kBytes / 2, kBytes}};
  const Span all{data.data(), 2 * kBytes};
  ASSERT_TRUE(storage_->writev(extents, {&all, 1}));
  const std::vector<std::byte> zeros(3 * kBytes / 2);
  ASSERT_TRUE(storage_->write({0, std::ssize(zeros)}, zeros.data()));
  EXPECT_EQ(storage_->writev(extents, {&all, 1})->requests, 0);
  EXPECT_TRUE(stored() == std::string(kBytes / 2, 'a') + std::string(kBytes, 'b'));
}

TEST_F(Kept, OtherRequestsTakeCalls) {
  const std::vector<Extent> little{{0, KeptMappings::kLeast - 1}};
  std::vector<Extent> far;
  for (Offset i = 0; i < 8; ++i) far.push_back({i << 22, kBytes / 8});
  const std::vector<Extent> longest{{KeptMappings::kMost, kBytes}, {0, kBytes}};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(write(little, 'a'));
    EXPECT_TRUE(write(far, 'b')) << "page tables for so little";
    EXPECT_TRUE(write(longest, 'b'));
    EXPECT_TRUE(write({{i, kBytes}}, 'c'));
  }
}

// Of the last page it may have some bytes still.
TEST_F(Kept, AFileThatWasCutOffGrowsAgain) {
  const std::vector<Extent> extents{{0, kBytes}};
  for (const bool by_others : {false, true})
    for (const Bytes left : {Bytes{5000}, kBytes - 1}) {
      write(extents, 'a');
      EXPECT_FALSE(write(extents, 'a'));
      if (by_others)
        ASSERT_EQ(::truncate(path_.c_str(), left), 0);
      else
        ASSERT_TRUE(storage_->resize(left));
      EXPECT_TRUE(write(extents, 'b'));
      EXPECT_TRUE(stored() == std::string(kBytes, 'b'));
    }
}

// On the program's threads and on ours, which take no signals.
TEST_F(Kept, WhatIsCutOffMeanwhileIsNoCrash) {
  const int fd = ::open(path_.c_str(), O_RDWR);
  std::vector<std::byte> data(kBytes);
  const Extent extent{0, kBytes};
  const Span all{data.data(), kBytes};
  bool cut = false;
  const auto has = [&](Extent bounds) {
    EXPECT_EQ(bounds, extent);
    EXPECT_EQ(cut ? ::ftruncate(fd, 0) : 0, 0);
    return true;
  };
  const auto test = [&] {
    KeptMappings kept(fd);
    const auto stores = [&] { return kept.store({&extent, 1}, {&all, 1}, has); };
    cut = false;
    ASSERT_EQ(::ftruncate(fd, kBytes), 0);
    EXPECT_FALSE(stores());
    EXPECT_TRUE(stores());
    cut = true;
    EXPECT_FALSE(stores());
    cut = false;
    ASSERT_EQ(::ftruncate(fd, kBytes), 0);
    EXPECT_FALSE(stores()) << "its pages are no longer the file's";
    kept.clear();
    EXPECT_FALSE(stores());
    EXPECT_TRUE(stores());
  };
  test();
  start_without_signals(test).join();
  ::close(fd);
}

// Of a program that handles or blocks them itself.
TEST_F(Kept, WhoDoesNotSeeErrorsMakesCalls) {
  const std::vector<Extent> extents{{0, kBytes}};
  EXPECT_TRUE(write(extents, 'a'));
  EXPECT_FALSE(write(extents, 'b'));
  sigset_t errors, before;
  ::sigemptyset(&errors);
  ::sigaddset(&errors, SIGBUS);
  ::pthread_sigmask(SIG_BLOCK, &errors, &before);
  EXPECT_TRUE(write(extents, 'c'));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  struct sigaction theirs {
  }, ours;
  theirs.sa_handler = [](int) {};
  ::sigaction(SIGBUS, &theirs, &ours);
  EXPECT_TRUE(write(extents, 'd'));
  ::sigaction(SIGBUS, &ours, nullptr);
  EXPECT_FALSE(write(extents, 'e'));
}

TEST_F(Kept, WhatIsKeptHasABound) {
  constexpr Bytes kApart = 2 * KeptMappings::kLeast, kHalf = KeptMappings::kMost / 2;
  const auto short_one = [](Offset i) { return std::vector<Extent>{{i * kApart, kApart}}; };
  const auto long_one = [](Offset i) { return std::vector<Extent>{{i * kApart, kApart}, {kHalf, kApart}}; };
  EXPECT_TRUE(write(short_one(0), 'a'));
  for (Offset i = 1; i < 64; ++i) write(short_one(i), 'a');
  EXPECT_FALSE(write(short_one(0), 'b'));
  write(short_one(64), 'b');
  EXPECT_TRUE(write(short_one(0), 'b')) << "forgotten";
  EXPECT_TRUE(write(long_one(0), 'a'));
  EXPECT_FALSE(write(long_one(0), 'b'));
  write(long_one(1), 'b');
  EXPECT_TRUE(write(long_one(0), 'b')) << "forgotten";
}

// There a page that has been written out is dearer in a mapping than by a call.
TEST_F(Kept, FilesOnDisksTakeCalls) {
  const TempDirectory folder;
  open(folder.file("data"));
  struct statfs info;
  ASSERT_EQ(::statfs(path_.c_str(), &info), 0);
  if (info.f_type == TMPFS_MAGIC) GTEST_SKIP() << path_ << " is in memory";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(write({{0, kBytes}}, 'a'));
}

TEST_F(Kept, UsesOfMappingsNest) {
  const std::vector<Extent> extents{{0, kBytes}};
  EXPECT_TRUE(write(extents, 'a'));
  const auto moved = storage_->map({0, kBytes}, true, [&](std::byte* data, Bytes present) {
    EXPECT_FALSE(write(extents, 'b'));
    EXPECT_EQ(::truncate(path_.c_str(), 0), 0);
    data[present - 1] = std::byte{'c'};
    return present;
  });
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code, Code::kUnsupportedOperation);
}

TEST_F(Kept, TheFilesTimeTellsOfIt) {
  const std::vector<Extent> extents{{0, kBytes}};
  for (const bool syncs : {true, false}) {
    for (int i = 0; i < 2; ++i) write(extents, 'a');
    ASSERT_TRUE(storage_->sync());
    const timespec past[] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), past, 0), 0);
    EXPECT_FALSE(write(extents, 'b'));
    if (syncs)
      ASSERT_TRUE(storage_->sync());
    else
      storage_.reset();
    struct stat info;
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_GT(info.st_mtime, 1000000);
    EXPECT_EQ(info.st_atime, 1);
  }
}

// Each its own extents, and all the same.
TEST_F(Kept, ThreadsWriteAtOnce) {
  constexpr int kThreads = 4, kRounds = 200;
  const std::vector<Extent> common{{kThreads * kBytes, kBytes}};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        write({{i * kBytes, kBytes}}, static_cast<char>('a' + round % 26));
        write(common, 'z');
      }
    });
  for (std::thread& thread : threads) thread.join();
  const char last = 'a' + (kRounds - 1) % 26;
  EXPECT_TRUE(stored() == std::string(kThreads * kBytes, last) + std::string(kBytes, 'z'));
}

}  // namespace
}  // namespace stridio
