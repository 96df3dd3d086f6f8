// Rank 0 computes for eight seconds (STRIDIO_ASLEEP), outside MPI, and the others need nothing of it: shared file pointers and
// atomic mode go on meanwhile, and end within STRIDIO_PATIENCE seconds, on one node and, by the hint stridio_node_ranks=1, with
// every rank a node of its own.
//
// STRIDIO_FAULT_NOLOCK=1 (tests/shim/fault_shim.c): no file system lock can be had. On one node nothing changes; across
// nodes both are refused, in time, on all ranks.
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

constexpr int kEach = 50;
double setting(const char* name, double otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::atof(given);
}
const double kAsleep = setting("STRIDIO_ASLEEP", 8);
const double kPatience = setting("STRIDIO_PATIENCE", 3);  // a crowded machine has its part in it

class NoProgress : public MpiTest {
 protected:
  static bool has_locks() {
    const char* given = std::getenv("STRIDIO_FAULT_NOLOCK");
    return given == nullptr || *given != '1';
  }

  MPI_File open_on(const char* node_ranks, const std::string& name) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "stridio_node_ranks", node_ranks);
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Info_free(&info);
    return fh;
  }

  // Every independent call by the shared pointer.
  static void use_shared(MPI_File fh) {
    MPI_Status status;
    MPI_Request request;
    MPI_Offset position = -1;
    for (int i = 0; i < kEach; ++i) {
      const int value = rank() * kEach + i;
      if (i % 2 == 0) {
        EXPECT_MPI_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, &status));
      } else {
        EXPECT_MPI_OK(MPI_File_iwrite_shared(fh, &value, 1, MPI_INT, &request));
        EXPECT_MPI_OK(MPI_Wait(&request, &status));
      }
      EXPECT_EQ(ints(status), 1);
      EXPECT_MPI_OK(MPI_File_get_position_shared(fh, &position));
      EXPECT_GT(position, i);
    }
  }

  // Every rank but 0 has written kEach different ints, and nobody else any.
  static void expect_all_there(MPI_File fh, int skipped) {
    const int writers = size() - 1;
    std::vector<int> all = read_ints(fh, skipped, writers * kEach + 1);
    std::sort(all.begin(), all.end());
    std::vector<int> expected;
    for (int i = kEach; i < size() * kEach; ++i) expected.push_back(i);
    EXPECT_EQ(all, expected);
  }

  static void use_atomic(MPI_File fh) {
    for (int i = 0; i < kEach; ++i) {
      std::vector<int> values(100, rank());
      MPI_Request request;
      EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), 100, MPI_INT, MPI_STATUS_IGNORE));
      EXPECT_MPI_OK(MPI_File_iread_at(fh, 0, values.data(), 100, MPI_INT, &request));
      EXPECT_MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_EQ(values, std::vector<int>(100, values.front()));
    }
  }

  std::size_t side_files() const {
    glob_t found{};
    glob((path() + "*.stridio-pointer*").c_str(), 0, nullptr, &found);
    const std::size_t count = found.gl_pathc;
    globfree(&found);
    return count;
  }
};

TEST_F(NoProgress, SharedPointersAndAtomicModeGoOnWhileRank0Computes) {
  std::vector<MPI_File> shared = {open_on("0", path())}, atomic = {open_on("0", path() + "-atomic")};
  if (has_locks()) {
    shared.push_back(open_on("1", path() + "-nodes"));
    atomic.push_back(open_on("1", path() + "-atomic-nodes"));
    atomic.push_back(open_on("0", "interval:" + path() + "-atomic-intervals"));
    atomic.push_back(open_on("1", "interval:" + path() + "-atomic-intervals-nodes"));
  }
  for (MPI_File fh : atomic) EXPECT_MPI_OK(MPI_File_set_atomicity(fh, 1));
  // Rank 0 has accesses under way, too: they are its threads' business.
  const std::vector<int> zeros(100, 0);
  std::vector<MPI_Request> requests;
  if (rank() == 0)
    for (MPI_File fh : atomic) MPI_File_iwrite_at(fh, 0, zeros.data(), 100, MPI_INT, &requests.emplace_back());
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = steady_clock::now();
  if (rank() == 0) {
    while (duration<double>(steady_clock::now() - start).count() < kAsleep) usleep(10'000);
  } else {
    for (MPI_File fh : shared) use_shared(fh);
    for (MPI_File fh : atomic) use_atomic(fh);
    const double took = duration<double>(steady_clock::now() - start).count();
    EXPECT_LT(took, kPatience);
    RecordProperty("seconds", std::to_string(took));
    std::printf("rank %d of %d: %.2f s\n", rank(), size(), took);
  }
  EXPECT_MPI_OK(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  for (MPI_File fh : shared) expect_all_there(fh, 0);
  for (MPI_File fh : shared) MPI_File_close(&fh);
  for (MPI_File fh : atomic) MPI_File_close(&fh);
  EXPECT_EQ(side_files(), 0u);
}

TEST_F(NoProgress, WithoutLocksAcrossNodesBothAreRefusedOnAllRanks) {
  if (has_locks()) GTEST_SKIP() << "the file system has locks";
  if (size() == 1) GTEST_SKIP() << "one rank is one node";
  MPI_File fh = open_on("1", path());
  MPI_Status status;
  int value = rank();
  MPI_Offset position = 0;
  MPI_Request request;
  const auto start = steady_clock::now();
  const auto refused = [](int code, const char* what) {
    EXPECT_EQ(class_of(code), MPI_ERR_UNSUPPORTED_OPERATION) << what << ": " << text_of(code);
    EXPECT_NE(text_of(code).find("locks"), std::string::npos) << what << ": " << text_of(code);
  };
  refused(MPI_File_write_shared(fh, &value, 1, MPI_INT, &status), "write_shared");
  refused(MPI_File_read_shared(fh, &value, 1, MPI_INT, &status), "read_shared");
  refused(MPI_File_iwrite_shared(fh, &value, 1, MPI_INT, &request), "iwrite_shared");
  refused(MPI_File_write_ordered(fh, &value, 1, MPI_INT, &status), "write_ordered");
  refused(MPI_File_seek_shared(fh, 3, MPI_SEEK_SET), "seek_shared");
  refused(MPI_File_get_position_shared(fh, &position), "get_position_shared");
  refused(MPI_File_set_atomicity(fh, 1), "set_atomicity");
  EXPECT_LT(duration<double>(steady_clock::now() - start).count(), kPatience);
  int flag = -1;
  EXPECT_MPI_OK(MPI_File_get_atomicity(fh, &flag));
  EXPECT_EQ(flag, 0);
  MPI_Offset bytes = -1;
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 0) << "nothing was written";
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, rank(), &value, 1, MPI_INT, &status));  // all else works
  EXPECT_MPI_OK(MPI_File_close(&fh));
  EXPECT_EQ(side_files(), 0u);
}

}  // namespace
}  // namespace stridio::testing
