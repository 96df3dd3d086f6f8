// Five gibibytes in one call: counts are exact and nothing wraps at 2^31 or 2^32, by an int count of a large type and
// by a `_c` count of bytes, alone and together. Memory stays small: the buffer is 64 MiB, mapped again and again side
// by side; most files are sparse, or /dev/null. One write goes to a disk, and is read back.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "mpi/mpi_fixture.h"
#include "mpi/prototypes.h"

namespace stridio::testing {
namespace {

constexpr MPI_Offset kGiB = MPI_Offset{1} << 30, kLarge = 5 * kGiB;
constexpr std::size_t kPiece = 64 << 20;

// kLarge bytes of address space over kPiece bytes of memory.
class RepeatedBuffer {
 public:
  RepeatedBuffer() {
    const int fd = memfd_create("stridio-large", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kPiece), 0);
    void* all = mmap(nullptr, kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    data_ = static_cast<char*>(all);
    for (MPI_Offset at = 0; at < kLarge; at += kPiece)
      EXPECT_NE(mmap(data_ + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
    close(fd);
  }
  ~RepeatedBuffer() { munmap(data_, kLarge); }
  char* data() { return data_; }

 private:
  char* data_ = nullptr;
};

class Large : public MpiTest {
 protected:
  void SetUp() override {
    MpiTest::SetUp();
    // A sparse file of /dev/shm takes no memory for being read.
    const auto folder = std::filesystem::path(path()).parent_path();
    sparse_ = std::filesystem::exists("/dev/shm") ? "/dev/shm/" + folder.filename().string() : path() + "-sparse";
    MPI_Type_contiguous(1 << 30, MPI_BYTE, &gibibyte_);
    MPI_Type_commit(&gibibyte_);
  }
  void TearDown() override {
    MPI_Type_free(&gibibyte_);
    if (rank() == 0) unlink(sparse_.c_str());
    MpiTest::TearDown();
  }

  void expect_count(const MPI_Status& status, MPI_Count bytes) {
    int count = -1;
    MPI_Count elements = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    EXPECT_EQ(count, MPI_UNDEFINED);
    MPI_Get_elements(&status, MPI_BYTE, &count);
    EXPECT_EQ(count, MPI_UNDEFINED);
    MPI_Get_elements_x(&status, MPI_BYTE, &elements);
    EXPECT_EQ(elements, bytes);
    MPI_Get_count(&status, gibibyte_, &count);
    EXPECT_EQ(count, bytes % kGiB == 0 ? static_cast<int>(bytes / kGiB) : MPI_UNDEFINED);
#if MPI_VERSION >= 4
    MPI_Get_count_c(&status, MPI_BYTE, &elements);
    EXPECT_EQ(elements, bytes);
    MPI_Get_elements_c(&status, gibibyte_, &elements);
    EXPECT_EQ(elements, bytes);
#endif
  }

  MPI_File open_file(const std::string& name, const char* method = "") {
    MPI_Info info;
    MPI_Info_create(&info);
    if (*method != '\0') MPI_Info_set(info, "stridio_method", method);
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    MPI_Info_free(&info);
    return fh;
  }

  // `bytes` long, with four marked bytes at `at`.
  void make_sparse(MPI_Offset bytes, MPI_Offset at) {
    if (rank() == 0) {
      std::FILE* file = std::fopen(sparse_.c_str(), "wb");
      ASSERT_EQ(fseeko(file, at, SEEK_SET), 0);
      std::fputs("mark", file);
      std::fclose(file);
      std::filesystem::resize_file(sparse_, static_cast<std::uintmax_t>(bytes));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::string sparse_;
  MPI_Datatype gibibyte_ = MPI_DATATYPE_NULL;
};

TEST_F(Large, WritesAloneOfALargeTypeAndOfALargeCount) {
  if (rank() != 0) GTEST_SKIP() << "one rank is enough";
  RepeatedBuffer buffer;
  MPI_File fh;
  EXPECT_MPI_OK(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &fh));
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, buffer.data(), 5, gibibyte_, &status));
  expect_count(status, kLarge);
  EXPECT_MPI_OK(MPI_File_write_at_c(fh, 0, buffer.data(), kLarge - 1, MPI_BYTE, &status));
  expect_count(status, kLarge - 1);
  EXPECT_MPI_OK(MPI_File_write_c(fh, buffer.data(), kLarge, MPI_BYTE, &status));
  expect_count(status, kLarge);
  MPI_Offset position = 0;
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, kLarge);
  MPI_Request request;
  EXPECT_MPI_OK(MPI_File_iwrite_at_c(fh, 0, buffer.data(), kLarge, MPI_BYTE, &request));
  EXPECT_MPI_OK(MPI_Wait(&request, &status));
  expect_count(status, kLarge);
  MPI_Datatype again;  // a mebibyte, 5,120 times over
  MPI_Type_create_hvector(5120, 1 << 20, 0, MPI_BYTE, &again);
  MPI_Type_commit(&again);
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, buffer.data(), 1, again, &status));
  expect_count(status, kLarge);
  int one = 0;
  MPI_Get_count(&status, again, &one);
  EXPECT_EQ(one, 1);
  MPI_Type_free(&again);
  MPI_File_close(&fh);
}

TEST_F(Large, ReadsAloneStopAtAnEndBeyondFourGibibytes) {
  make_sparse(kLarge - 123, kLarge - 1000);
  if (rank() == 0) {
    RepeatedBuffer buffer;
    std::memset(buffer.data(), 'x', kPiece);
    MPI_File fh;
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_SELF, sparse_.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    MPI_Status status;
    EXPECT_MPI_OK(MPI_File_read_at(fh, 0, buffer.data(), 5, gibibyte_, &status));
    expect_count(status, kLarge - 123);
    EXPECT_EQ(std::string(buffer.data() + kLarge - 1000, 5), std::string("mark\0", 5));
    MPI_File_close(&fh);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// One rank has five gibibytes, the others a megabyte each behind them: by windows, since the method is forced.
TEST_F(Large, CollectivesByWindows) {
  RepeatedBuffer buffer;
  constexpr int kOthers = 1 << 20;
  const bool first = rank() == 0;
  const MPI_Offset at = first ? 0 : kLarge + (rank() - 1) * MPI_Offset{kOthers};
  MPI_File fh = open_file("/dev/null", "two_phase");
  MPI_Status status;
  const auto expect_own = [&] {
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (first) expect_count(status, kLarge);
    if (!first) {
      EXPECT_EQ(count, kOthers);
    }
  };
  EXPECT_MPI_OK(
      MPI_File_write_at_all(fh, at, buffer.data(), first ? 5 : kOthers, first ? gibibyte_ : MPI_BYTE, &status));
  expect_own();
  MPI_File_close(&fh);
  // The others read the end of it, too: windows come in any order, and the first rank's buffer repeats.
  make_sparse(kLarge, kLarge - 1000);
  fh = open_file(sparse_, "two_phase");
  EXPECT_MPI_OK(MPI_File_read_at_all_c(fh, first ? 0 : kLarge - kOthers, buffer.data(), first ? kLarge : kOthers,
                                       MPI_BYTE, &status));
  expect_own();
  if (!first) {
    EXPECT_EQ(std::string(buffer.data() + kOthers - 1000, 5), std::string("mark\0", 5));
  }
  MPI_File_close(&fh);
}

TEST_F(Large, ADiskHoldsThemAll) {
  std::error_code unknown;
  const auto space = std::filesystem::space(std::filesystem::path(path()).parent_path(), unknown);
  int enough = !unknown && space.available > static_cast<std::uintmax_t>(4 * kLarge) ? 1 : 0;
  MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!enough) GTEST_SKIP() << "too little space";
  RepeatedBuffer buffer;
  if (rank() == 0)
    for (std::size_t i = 0; i < kPiece; i += 8) std::memcpy(buffer.data() + i, &i, 8);
  MPI_File fh = open_file(path());
  MPI_Status status;
  const bool first = rank() == 0;
  EXPECT_MPI_OK(MPI_File_write_at_all_c(fh, 4096, buffer.data(), first ? kLarge : 0, MPI_BYTE, &status));
  if (first) expect_count(status, kLarge);
  MPI_Offset bytes = 0;
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 4096 + kLarge);
  for (MPI_Offset at = 0; at < kLarge; at += kGiB / 8 + 4096 + 8) {
    std::size_t got = 0;
    EXPECT_MPI_OK(MPI_File_read_at(fh, 4096 + at, &got, 8, MPI_BYTE, MPI_STATUS_IGNORE));
    ASSERT_EQ(got, static_cast<std::size_t>(at) % kPiece) << at;
  }
  EXPECT_MPI_OK(MPI_File_set_size(fh, 0));
  MPI_File_close(&fh);
}

}  // namespace
}  // namespace stridio::testing
