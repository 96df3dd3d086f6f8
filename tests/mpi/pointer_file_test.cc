// Across nodes (the hint stridio_node_ranks=1) the shared file pointer is a small file beside the data. What becomes of
// it shows: faults of it (tests/shim/fault_shim.c) fail the call that met them, with nothing moved; one that somebody
// takes away is missed; one that a killed program left is not taken for ours; none stays behind.
//
// STRIDIO_FAULT_PATH is the side file's name up to its ID, so that the data has no faults, and tells the data's name.
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

class PointerFile : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const std::string side = std::getenv("STRIDIO_FAULT_PATH");
    path_ = side.substr(0, side.rfind(".stridio-pointer"));
    if (rank_ == 0) remove_all();
    MPI_Barrier(MPI_COMM_WORLD);
    fh_ = open();
  }
  void TearDown() override {
    if (fh_ != MPI_FILE_NULL) EXPECT_MPI_OK(MPI_File_close(&fh_));
    EXPECT_EQ(side_files().size(), kept_) << side_files().front();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) remove_all();
    MPI_Barrier(MPI_COMM_WORLD);
  }

  MPI_File open() const { return open(path_); }
  static MPI_File open(const std::string& name) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "stridio_node_ranks", "1");
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    MPI_Info_free(&info);
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    return fh;
  }

  std::vector<std::string> side_files() const {
    glob_t found{};
    glob((path_ + ".stridio-pointer*").c_str(), 0, nullptr, &found);
    const std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    return names;
  }
  void remove_all() const {
    unlink(path_.c_str());
    for (const std::string& name : side_files()) unlink(name.c_str());
  }

  // The file holds 0 ... count - 1, in any order.
  void expect_each_once(int count) const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<int> all(static_cast<std::size_t>(count) + 1, -1);
    std::ifstream file(path_, std::ios::binary);
    file.read(reinterpret_cast<char*>(all.data()), 4 * std::ssize(all));
    ASSERT_EQ(file.gcount(), 4 * count);
    all.pop_back();
    std::sort(all.begin(), all.end());
    for (int i = 0; i < count; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
  }

  int write_shared(int value) const { return MPI_File_write_shared(fh_, &value, 1, MPI_INT, MPI_STATUS_IGNORE); }
  MPI_Offset position() const {
    MPI_Offset position = -1;
    EXPECT_MPI_OK(MPI_File_get_position_shared(fh_, &position));
    return position;
  }

  int rank_ = 0, size_ = 1;
  std::string path_;
  std::size_t kept_ = 0;  // side files that are not ours
  MPI_File fh_ = MPI_FILE_NULL;
};

TEST_F(PointerFile, IsThereFromItsFirstUseToTheNextView) {
  EXPECT_TRUE(side_files().empty());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(write_shared(rank_));
  EXPECT_EQ(side_files().size(), 1u);
  expect_each_once(size_);
  EXPECT_MPI_OK(MPI_File_set_view(fh_, 4 * size_, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_TRUE(side_files().empty());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(write_shared(size_ + rank_));
  expect_each_once(2 * size_);
}

TEST_F(PointerFile, TwoOpensOfOneFileHaveOneEach) {
  MPI_File other = open();
  EXPECT_MPI_OK(write_shared(rank_));
  const int value = 99;
  EXPECT_MPI_OK(MPI_File_set_view(other, 4096, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_write_shared(other, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(side_files().size(), 2u);
  EXPECT_EQ(position(), size_);
  EXPECT_MPI_OK(MPI_File_close(&other));
  EXPECT_MPI_OK(write_shared(size_ + rank_));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(position(), 2 * size_);
}

// Each rank has a link of its own in a folder of its own, and goes elsewhere before the first use.
TEST_F(PointerFile, IsOneForAllNamesOfTheFile) {
  namespace fs = std::filesystem;
  EXPECT_MPI_OK(MPI_File_close(&fh_));
  const fs::path before = fs::current_path(), own = path_ + "." + std::to_string(rank_);
  fs::create_directory(own);
  fs::create_symlink(path_, own / "link");
  fs::current_path(own);
  fh_ = open("link");
  fs::current_path(before);
  for (int round = 0; round < 3; ++round) EXPECT_MPI_OK(write_shared(round * size_ + rank_));
  EXPECT_EQ(side_files().size(), 1u);
  expect_each_once(3 * size_);
  EXPECT_EQ(position(), 3 * size_);
  EXPECT_EQ(std::distance(fs::directory_iterator(own), fs::directory_iterator()), 1);
  fs::remove_all(own);
}

TEST_F(PointerFile, LeftByAKilledProgramIsNotTakenForOurs) {
  EXPECT_MPI_OK(MPI_File_close(&fh_));
  for (const char* id : {"", "-1", "-deadbeefdeadbeef"})
    if (rank_ == 0) std::ofstream(path_ + ".stridio-pointer" + id) << "no pointer but something else, and long";
  kept_ = 3;
  MPI_Barrier(MPI_COMM_WORLD);
  fh_ = open();
  EXPECT_EQ(position(), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(write_shared(rank_));
  expect_each_once(size_);
}

TEST_F(PointerFile, TakenAwayItIsMissedAtTheNextUseAndAtTheClose) {
  EXPECT_MPI_OK(write_shared(rank_));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0)
    for (const std::string& name : side_files()) unlink(name.c_str());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_ERROR(write_shared(7), MPI_ERR_IO, "shared file pointer");
  expect_each_once(size_);  // nobody has written over anything
  EXPECT_MPI_ERROR(MPI_File_set_view(fh_, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_IO,
                   "shared file pointer");
  EXPECT_MPI_ERROR(MPI_File_close(&fh_), MPI_ERR_IO, "shared file pointer");
  fh_ = open();  // and all is well again
  EXPECT_EQ(position(), 0);
}

// A rank that has not used it yet cannot know; those that have do, and all ranks learn of it at the close.
TEST_F(PointerFile, TakenAwayAndMadeAnewIsMissedByThoseWhoKnewIt) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  if (rank_ == 0) EXPECT_MPI_OK(write_shared(0));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 1) {
    for (const std::string& name : side_files()) unlink(name.c_str());
    EXPECT_MPI_OK(write_shared(1));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) EXPECT_MPI_ERROR(write_shared(2), MPI_ERR_IO, "removed or replaced");
  EXPECT_MPI_ERROR(MPI_File_close(&fh_), MPI_ERR_IO, "shared file pointer");
}

TEST_F(PointerFile, WhatCannotBeMadeIsAnError) {
  if (geteuid() == 0) {
    ASSERT_EQ(seteuid(65534), 0);  // nobody, who may not write into our folder; root may
  } else {
    GTEST_SKIP() << "needs root";
  }
  EXPECT_MPI_ERROR(write_shared(1), MPI_ERR_ACCESS, "shared file pointer");
  EXPECT_MPI_ERROR(MPI_File_write_ordered(fh_, &rank_, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS,
                   "shared file pointer");
  ASSERT_EQ(seteuid(0), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(write_shared(rank_));
  expect_each_once(size_);
}

// ---- With STRIDIO_FAULT: one operation of one rank on the side file.

class PointerFileFault : public PointerFile {
 protected:
  void SetUp() override {
    const char* given = std::getenv("STRIDIO_FAULT");
    if (given == nullptr) GTEST_SKIP() << "no fault is asked for";
    const std::string fault = given;
    const std::map<std::string, int> classes = {
        {"EIO", MPI_ERR_IO}, {"ENOSPC", MPI_ERR_NO_SPACE}, {"EINTR", MPI_SUCCESS}, {"SHORT", MPI_SUCCESS}};
    for (const auto& [name, error_class] : classes)
      if (fault.find("errno=" + name) != std::string::npos) expected_ = error_class;
    ASSERT_GE(expected_, 0) << fault;
    faulty_rank_ = std::atoi(fault.c_str() + fault.find("rank=") + 5);
    PointerFile::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) PointerFile::TearDown();
  }
  int expected_ = -1, faulty_rank_ = -1;
};

TEST_F(PointerFileFault, FailsOneCallThatMetItAndMovesNothing) {
  constexpr int kEach = 10;
  int failures = 0;
  for (int i = 0; i < kEach; ++i) {
    int code = write_shared(rank_ * kEach + i);
    if (code == MPI_SUCCESS) continue;
    ++failures;
    EXPECT_MPI_ERROR(code, expected_, "shared file pointer");
    code = write_shared(rank_ * kEach + i);
    EXPECT_MPI_OK(code);
  }
  EXPECT_EQ(failures, rank_ == faulty_rank_ && expected_ != MPI_SUCCESS ? 1 : 0);
  expect_each_once(size_ * kEach);
}

TEST_F(PointerFileFault, FailsAnOrderedOneOnAllRanksAndMovesNothing) {
  constexpr int kRounds = 10;
  int failures = 0;
  for (int i = 0; i < kRounds; ++i) {
    const int value = i * size_ + rank_;
    const int code = MPI_File_write_ordered(fh_, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) continue;
    ++failures;
    EXPECT_MPI_ERROR(code, expected_, "shared file pointer");
    EXPECT_MPI_OK(MPI_File_write_ordered(fh_, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  EXPECT_EQ(failures, expected_ == MPI_SUCCESS ? 0 : 1);
  expect_each_once(size_ * kRounds);
}

}  // namespace
}  // namespace stridio::testing
