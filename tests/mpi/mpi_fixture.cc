#include "mpi/mpi_fixture.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace stridio::testing {

int MpiTest::rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiTest::size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

void MpiTest::SetUp() {
  std::array<char, 256> folder = {};
  if (rank() == 0) {
    const auto name = std::filesystem::temp_directory_path() / "stridio-mpi-XXXXXX";
    name.string().copy(folder.data(), folder.size() - 1);
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
  }
  MPI_Bcast(folder.data(), static_cast<int>(folder.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  path_ = std::string(folder.data()) + "/file";
}

void MpiTest::TearDown() {
  MPI_Barrier(MPI_COMM_WORLD);
  std::error_code ignored;
  if (rank() == 0) std::filesystem::remove_all(std::filesystem::path(path_).parent_path(), ignored);
}

MPI_File MpiTest::open(int amode, MPI_Info info) const {
  MPI_File fh = MPI_FILE_NULL;
  EXPECT_MPI_OK(MPI_File_open(MPI_COMM_WORLD, path().c_str(), amode, info, &fh));
  return fh;
}

void MpiTest::write_ints(MPI_File fh, MPI_Offset offset, const std::vector<int>& values) {
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_write_at(fh, offset, values.data(), static_cast<int>(values.size()), MPI_INT, &status));
  EXPECT_EQ(ints(status), static_cast<int>(values.size()));
}

std::vector<int> MpiTest::read_ints(MPI_File fh, MPI_Offset offset, int count) {
  std::vector<int> values(static_cast<std::size_t>(count), -1);
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_read_at(fh, offset, values.data(), count, MPI_INT, &status));
  values.resize(static_cast<std::size_t>(std::max(0, ints(status))));
  return values;
}

int MpiTest::ints(const MPI_Status& status) {
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  return count;
}

std::uint64_t shared_seed() {
  const char* given = std::getenv("STRIDIO_SEED");
  unsigned long long seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
  return seed;
}

}  // namespace stridio::testing
