// From generation to generation: readers that open a file anew by its own info, while another program, here other ranks of
// this one, writes it.
#include <chrono>
#include <thread>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

constexpr int kFrames = 6, kInts = 20000;

class Generations : public MpiTest {
 protected:
  void SetUp() override {
    MpiTest::SetUp();
    MPI_Info_create(&info_);
  }
  void TearDown() override {
    MPI_Info_free(&info_);
    MpiTest::TearDown();
  }

  void hint(const char* name, const std::string& value) { MPI_Info_set(info_, name, value.c_str()); }

  static std::string generation(MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1] = {};
    int found = 0;
    MPI_Info_get(info, "stridio_wait_generation", MPI_MAX_INFO_VAL, value, &found);
    return found ? value : "none";
  }
  // That the next opening will wait for one that is newer.
  void take_info(MPI_File fh) {
    MPI_Info_free(&info_);
    EXPECT_MPI_OK(MPI_File_get_info(fh, &info_));
  }

  // Frame after frame, each a generation.
  void write(MPI_Comm comm, int frames, std::chrono::milliseconds pause) const {
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(
        MPI_File_open(comm, ("interval:" + path()).c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &fh));
    int mine = 0, all = 0;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &all);
    for (int frame = 1; frame <= frames; ++frame) {
      const std::vector<int> values(static_cast<std::size_t>(kInts / all), frame);
      write_ints(fh, static_cast<MPI_Offset>(sizeof(int) * values.size()) * mine, values);
      EXPECT_MPI_OK(MPI_File_sync(fh));
      std::this_thread::sleep_for(pause);
    }
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }

  MPI_Info info_ = MPI_INFO_NULL;
};

TEST_F(Generations, OpeningWaitsForANewerOne) {
  write(MPI_COMM_WORLD, 1, {});
  MPI_File fh = open(MPI_MODE_RDONLY);
  take_info(fh);
  EXPECT_EQ(generation(info_), "none");  // who does not ask is not made to wait by its own info
  EXPECT_MPI_OK(MPI_File_close(&fh));
  hint("stridio_wait_generation", "1");
  fh = open(MPI_MODE_RDONLY, info_);
  take_info(fh);
  EXPECT_EQ(generation(info_), "2");
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", info_));
  EXPECT_MPI_OK(MPI_File_close(&fh));
  hint("stridio_wait_seconds", "0");
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDONLY, info_, &fh), MPI_ERR_NO_SUCH_FILE,
                   "no generation newer than 2");
  fh = open(MPI_MODE_RDWR, info_);  // a writer waits for nobody
  EXPECT_MPI_OK(MPI_File_close(&fh));
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, (path() + "-missing").c_str(), MPI_MODE_RDONLY, info_, &fh),
                   MPI_ERR_NO_SUCH_FILE, "it does not exist");
}

TEST_F(Generations, AFlatFileHasNone) {
  MPI_File fh = open();
  if (rank() == 0) write_ints(fh, 0, {1});
  EXPECT_MPI_OK(MPI_File_close(&fh));
  hint("stridio_wait_generation", "0");
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDONLY, info_, &fh), MPI_ERR_BAD_FILE,
                   "has no generations");
}

// The ranks of one half write, those of the other read what they find newest, until they have read the last.
TEST_F(Generations, ReadersGoFromOneToTheNext) {
  if (size() == 1) return;
  const bool writes = rank() < size() / 2;
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, writes, rank(), &half);
  if (writes) {
    write(half, kFrames, std::chrono::milliseconds(20));
  } else {
    int all = 0;
    MPI_Comm_size(half, &all);
    hint("stridio_wait_generation", "1");
    int writers = size() / 2, last = 0;
    while (last < kFrames) {
      MPI_File fh = MPI_FILE_NULL;
      const int code = MPI_File_open(half, path().c_str(), MPI_MODE_RDONLY, info_, &fh);
      EXPECT_MPI_OK(code);
      if (code != MPI_SUCCESS) break;
      take_info(fh);
      const int frame = std::stoi(generation(info_)) - 1;
      EXPECT_GT(frame, last);
      last = frame;
      const int present = kInts / writers * writers;
      EXPECT_TRUE(read_ints(fh, 0, kInts) == std::vector<int>(static_cast<std::size_t>(present), frame)) << frame;
      EXPECT_MPI_OK(MPI_File_close(&fh));
    }
  }
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace stridio::testing
