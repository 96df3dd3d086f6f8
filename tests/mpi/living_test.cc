// Among other things that programs do: many files, a file opened twice, names of all kinds, directories that differ between
// ranks, child processes, communicators of one.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

namespace fs = std::filesystem;

class Living : public MpiTest {
 protected:
  std::string folder() const { return path().substr(0, path().rfind('/')); }

  static int try_open(const std::string& name, int amode, MPI_File& fh, MPI_Comm comm = MPI_COMM_WORLD) {
    return MPI_File_open(comm, name.c_str(), amode, MPI_INFO_NULL, &fh);
  }

  // Each rank writes its rank by `name`, which must be the file `real`, and all can see it there.
  static void write_by(const std::string& name, const std::string& real) {
    SCOPED_TRACE(name.substr(0, 100));
    MPI_File fh;
    const int code = try_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE, fh);
    ASSERT_EQ(code, MPI_SUCCESS) << text_of(code);
    write_ints(fh, rank() * 4, {rank() + 1000});
    EXPECT_MPI_OK(MPI_File_close(&fh));
    EXPECT_EQ(ints_of(real), all_ranks());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) EXPECT_MPI_OK(MPI_File_delete(name.c_str(), MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_FALSE(fs::exists(real));
  }

  static std::vector<int> all_ranks() {
    std::vector<int> values;
    for (int r = 0; r < size(); ++r) values.push_back(r + 1000);
    return values;
  }

  static std::vector<int> ints_of(const std::string& real) {
    std::ifstream file(real, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<int> values(bytes.size() / sizeof(int));
    bytes.copy(reinterpret_cast<char*>(values.data()), values.size() * sizeof(int));
    return values;
  }

  // All ranks have the same class, and it is `expected`.
  static void expect_class_on_all(int code, int expected) {
    int classes[2] = {class_of(code), -class_of(code)};
    MPI_Allreduce(MPI_IN_PLACE, classes, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(classes[0], expected) << text_of(code);
    EXPECT_EQ(-classes[1], expected) << text_of(code);
  }
};

TEST_F(Living, FiveHundredFilesAreOpenAtOnce) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  constexpr int kFiles = 500;
  std::vector<MPI_File> files(kFiles, MPI_FILE_NULL);
  const auto name = [&](int i) { return path() + "." + std::to_string(i); };
  for (int i = 0; i < kFiles; ++i) {
    const int code = try_open(name(i), MPI_MODE_RDWR | MPI_MODE_CREATE, files[static_cast<std::size_t>(i)]);
    ASSERT_EQ(code, MPI_SUCCESS) << i << ": " << text_of(code);
  }
  for (int i = 0; i < kFiles; ++i) {
    const int value = 10 * i + rank();
    const MPI_File fh = files[static_cast<std::size_t>(i)];
    EXPECT_MPI_OK(MPI_File_write_at_all(fh, 4 * rank(), &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  for (MPI_File& fh : files) EXPECT_MPI_OK(MPI_File_close(&fh));
  for (int i = rank(); i < kFiles; i += size()) {
    std::vector<int> expected;
    for (int r = 0; r < size(); ++r) expected.push_back(10 * i + r);
    EXPECT_EQ(ints_of(name(i)), expected) << i;
  }
}

TEST_F(Living, AFileIsOpenedTwiceByAProcess) {
  MPI_File first = open(), second = open(), own = MPI_FILE_NULL;
  EXPECT_MPI_OK(try_open(path(), MPI_MODE_RDWR, own, MPI_COMM_SELF));
  EXPECT_NE(first, second);
  for (MPI_File fh : {first, second, own}) EXPECT_MPI_OK(MPI_File_set_atomicity(fh, 1));
  write_ints(first, 12 * rank(), {1});
  write_ints(second, 12 * rank() + 4, {2});
  write_ints(own, 12 * rank() + 8, {3});
  for (MPI_File fh : {first, second, own}) EXPECT_EQ(read_ints(fh, 12 * rank(), 3), (std::vector<int>{1, 2, 3}));
  MPI_Offset position = -1;
  EXPECT_MPI_OK(MPI_File_seek(first, 5, MPI_SEEK_SET));
  EXPECT_MPI_OK(MPI_File_get_position(second, &position));
  EXPECT_EQ(position, 0);
  EXPECT_MPI_OK(MPI_File_close(&first));
  write_ints(second, 12 * rank(), {4});  // the other's closing has taken nothing of it
  EXPECT_EQ(read_ints(own, 12 * rank(), 3), (std::vector<int>{4, 2, 3}));
  EXPECT_MPI_OK(MPI_File_close(&own));
  EXPECT_MPI_OK(MPI_File_close(&second));
}

TEST_F(Living, NamesWithPrefixesSpacesAndOtherLetters) {
  for (const char* prefix : {"", "ufs:", "nfs:", "lustre:", "gpfs:", "panfs:", "xfs:"})
    write_by(prefix + path(), path());
  for (const char* last : {"with a space", " before", "behind ", "quote'\"", "$HOME", "*", "a:b",
                           "ufs:", "\xc3\xa4\xe2\x82\xac", "line\nbreak", "\xff\xfe"}) {
    write_by(folder() + "/" + last, folder() + "/" + last);
    write_by("ufs:" + folder() + "/" + last, folder() + "/" + last);
  }
}

TEST_F(Living, LongNames) {
  // Up to the longest that the system takes: PATH_MAX counts the final nul.
  std::string deep = folder();
  while (deep.size() < PATH_MAX - 1 - 200)
    deep += "/" + std::string(std::min<std::size_t>(150, PATH_MAX - 100 - deep.size()), 'd');
  if (rank() == 0) fs::create_directories(deep);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::string longest = deep + "/" + std::string(PATH_MAX - 1 - deep.size() - 1, 'f');
  ASSERT_EQ(longest.size(), PATH_MAX - 1U);
  write_by(longest, longest);
  write_by("ufs:" + longest, longest);

  MPI_File fh;
  const auto refused = [&](const std::string& name) {
    const int code = try_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE, fh);
    expect_class_on_all(code, MPI_ERR_BAD_FILE);
    EXPECT_NE(text_of(code).find("too long"), std::string::npos) << text_of(code);
    EXPECT_EQ(fh, MPI_FILE_NULL);
  };
  refused(longest + "f");
  refused(folder() + "/" + std::string(NAME_MAX + 1, 'x'));
  refused(std::string(100'000, 'y'));
  for (int bad = 0; bad < size(); ++bad) refused(rank() == bad ? longest + "f" : path());
  EXPECT_MPI_ERROR(MPI_File_delete((longest + "f").c_str(), MPI_INFO_NULL), MPI_ERR_BAD_FILE, "too long");
}

// Names are each rank's own, relative to its directory (MPI leaves it to the program that they lead to one file).
TEST_F(Living, RelativeNamesWithOtherDirectories) {
  const std::string before = fs::current_path(), mine = folder() + "/" + std::to_string(rank());
  fs::create_directory(mine);
  fs::current_path(mine);
  MPI_Barrier(MPI_COMM_WORLD);
  write_by("../file", path());
  write_by(rank() % 2 == 0 ? "../file" : path(), path());
  MPI_File fh;
  if (size() > 1) {
    // Rank 0 makes the file in its directory; the others have none.
    const int code = try_open("file", MPI_MODE_RDWR | MPI_MODE_CREATE, fh);
    expect_class_on_all(code, MPI_ERR_NO_SUCH_FILE);
    // All have one, each another.
    std::ofstream(mine + "/file") << "here";
    MPI_Barrier(MPI_COMM_WORLD);
    for (const int amode : {int{MPI_MODE_RDONLY}, int{MPI_MODE_RDWR}, MPI_MODE_RDWR | MPI_MODE_CREATE}) {
      const int other = try_open("file", amode, fh);
      expect_class_on_all(other, MPI_ERR_NOT_SAME);
      EXPECT_NE(text_of(other).find("same file"), std::string::npos) << text_of(other);
    }
  }
  EXPECT_MPI_OK(try_open("alone", MPI_MODE_RDWR | MPI_MODE_CREATE, fh, MPI_COMM_SELF));
  fs::current_path(before);  // the file is open: where the process goes then is no matter
  write_ints(fh, 0, {rank()});
  EXPECT_MPI_OK(MPI_File_close(&fh));
  EXPECT_EQ(ints_of(mine + "/alone"), std::vector<int>{rank()});
}

// Runs `body` in a child process, which is killed if it does not end.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    body();
    _exit(99);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(Living, ChildProcessesWithAFileOpen) {
  for (const char* hints : {"", "interval"}) {
    SCOPED_TRACE(hints);
    MPI_Info info;
    MPI_Info_create(&info);
    if (*hints != '\0') MPI_Info_set(info, "stridio_layout", "interval");
    if (*hints != '\0') MPI_Info_set(info, "stridio_cache", "enable");
    MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
    MPI_Info_free(&info);
    MPI_Request request;
    std::vector<int> values(1000, rank());
    EXPECT_MPI_OK(MPI_File_iwrite_at(fh, 4000 * rank(), values.data(), 1000, MPI_INT, &request));  // starts a thread
    const int forked_within = status_of_child([] { _exit(7); });
    EXPECT_EQ(forked_within, 7);
    EXPECT_MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(status_of_child([] { std::quick_exit(8); }), 8);
    EXPECT_EQ(status_of_child([] { execl("/bin/sh", "sh", "-c", "exit 9", nullptr); }), 9);
    EXPECT_EQ(std::system("exit 3"), 3 << 8);
    // A child that ends as programs do, with its destructors and what is registered for the end.
    EXPECT_EQ(status_of_child([] {
                std::fflush(nullptr);
                std::exit(10);
              }),
              10);
    MPI_Barrier(MPI_COMM_WORLD);
    values.assign(1000, rank() + 50);
    EXPECT_MPI_OK(MPI_File_write_at_all(fh, 4000 * rank(), values.data(), 1000, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_MPI_OK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_MPI_OK(MPI_File_sync(fh));
    const int next = (rank() + 1) % size();
    EXPECT_EQ(read_ints(fh, 4000 * next, 1000), std::vector<int>(1000, next + 50));
    EXPECT_MPI_OK(MPI_File_close(&fh));
    if (rank() == 0) EXPECT_MPI_OK(MPI_File_delete(path().c_str(), MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(Living, CommunicatorsOfOneAndFreedOnes) {
  MPI_Comm alone, all;
  MPI_Comm_split(MPI_COMM_WORLD, rank(), 0, &alone);
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_File own, of_all;
  EXPECT_MPI_OK(try_open(own_path(), MPI_MODE_RDWR | MPI_MODE_CREATE, own, alone));
  EXPECT_MPI_OK(try_open(path(), MPI_MODE_RDWR | MPI_MODE_CREATE, of_all, all));
  MPI_Comm_free(&alone);
  MPI_Comm_free(&all);
  const int value = rank() + 1000;
  EXPECT_MPI_OK(MPI_File_write_ordered(own, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_write_ordered(of_all, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_close(&own));
  EXPECT_MPI_OK(MPI_File_close(&of_all));
  EXPECT_EQ(ints_of(own_path()), std::vector<int>{value});
  EXPECT_EQ(ints_of(path()), all_ranks());
}

}  // namespace
}  // namespace stridio::testing
