// One rank has no memory left for its buffers: a collective call fails on all ranks with MPI_ERR_NO_MEM, in time, an
// independent one on its caller, a nonblocking one at its completion; and all work again when there is memory.
#include <sys/resource.h>

#include <cstdio>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

constexpr MPI_Offset kWindow = 192 << 20;

// No more address space than now and a little, while it lives.
class Shortage {
 public:
  explicit Shortage(bool here) {
    getrlimit(RLIMIT_AS, &before_);
    if (here) set(address_space() + (32 << 20));
  }
  ~Shortage() { setrlimit(RLIMIT_AS, &before_); }

 private:
  static rlim_t address_space() {
    long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    EXPECT_EQ(std::fscanf(file, "%ld", &pages), 1);
    std::fclose(file);
    return static_cast<rlim_t>(pages) * 4096;
  }
  void set(rlim_t most) {
    rlimit limit = before_;
    limit.rlim_cur = most;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  rlimit before_{};
};

class OutOfMemory : public MpiTest {
 protected:
  static bool short_here() { return rank() == size() - 1; }

  // Every rank has one int in each kilobyte, of a file as long as the window.
  MPI_File open_with(std::initializer_list<std::pair<const char*, const char*>> hints) {
    MPI_Info info;
    MPI_Info_create(&info);
    for (const auto& [name, value] : hints) MPI_Info_set(info, name, value);
    MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
    MPI_Info_free(&info);
    EXPECT_MPI_OK(MPI_File_set_size(fh, kWindow));
    MPI_Datatype own;
    MPI_Type_create_resized(MPI_INT, 0, 1024, &own);
    MPI_Type_commit(&own);
    EXPECT_MPI_OK(MPI_File_set_view(fh, 4 * rank(), MPI_INT, own, "native", MPI_INFO_NULL));
    MPI_Type_free(&own);
    values_.assign(kWindow / 1024, rank());
    return fh;
  }
  int count() const { return static_cast<int>(values_.size()); }
  // `node_ranks`: as the hint stridio_node_ranks.
  void for_windows(const char* node_ranks);

  std::vector<int> values_;
};

TEST_F(OutOfMemory, ForASievingBuffer) {
  MPI_File fh = open_with({{"stridio_method", "sieve"}, {"ind_rd_buffer_size", "201326592"}});
  MPI_Status status;
  MPI_Request request;
  int alone = -1, together = -1, later = -1;
  {
    const Shortage shortage(short_here());
    alone = MPI_File_read_at(fh, 0, values_.data(), count(), MPI_INT, &status);
    if (MPI_File_iread_at(fh, 0, values_.data(), count(), MPI_INT, &request) == MPI_SUCCESS)
      later = MPI_Wait(&request, &status);
    together = MPI_File_read_at_all(fh, 0, values_.data(), count(), MPI_INT, &status);
  }
  EXPECT_EQ(class_of(alone), short_here() ? MPI_ERR_NO_MEM : MPI_SUCCESS) << text_of(alone);
  EXPECT_EQ(class_of(later), short_here() ? MPI_ERR_NO_MEM : MPI_SUCCESS) << text_of(later);
  EXPECT_EQ(class_of(together), MPI_ERR_NO_MEM) << text_of(together);
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, values_.data(), count(), MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

void OutOfMemory::for_windows(const char* node_ranks) {
  const std::string all = std::to_string(size());
  MPI_File fh = open_with({{"stridio_method", "two_phase"},
                           {"cb_buffer_size", "201326592"},
                           {"cb_nodes", all.c_str()},
                           {"stridio_node_ranks", node_ranks}});
  MPI_Status status;
  int read = -1, write = -1;
  {
    const Shortage shortage(short_here());
    read = MPI_File_read_at_all(fh, 0, values_.data(), count(), MPI_INT, &status);
    write = MPI_File_write_at_all(fh, 0, values_.data(), count(), MPI_INT, &status);
  }
  EXPECT_EQ(class_of(read), MPI_ERR_NO_MEM) << text_of(read);
  EXPECT_EQ(class_of(write), MPI_ERR_NO_MEM) << text_of(write);
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open_with({{"stridio_method", "two_phase"}, {"cb_nodes", all.c_str()}, {"stridio_node_ranks", node_ranks}});
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, 0, values_.data(), count(), MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

TEST_F(OutOfMemory, ForAnAggregatorsWindows) { for_windows("0"); }
TEST_F(OutOfMemory, AcrossNodesOfTwo) { for_windows("2"); }
TEST_F(OutOfMemory, AcrossNodesOfOne) { for_windows("1"); }

}  // namespace
}  // namespace stridio::testing
