// Interval files through the MPI's own functions: made by prefix or hint, found by content.
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

class IntervalFiles : public MpiTest {
 protected:
  static constexpr int kBlock = 100, kBlocks = 80;

  static std::string layout(MPI_File fh) { return hint(fh, "stridio_layout"); }

  static std::string hint(MPI_File fh, const char* name) {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_MPI_OK(MPI_File_get_info(fh, &info));
    char value[MPI_MAX_INFO_VAL + 1] = {};
    int found = 0;
    MPI_Info_get(info, name, MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&info);
    return found ? value : "none";
  }

  MPI_File open_as(const std::string& name, int amode, const std::map<std::string, std::string>& hints = {}) const {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    for (const auto& [hint, value] : hints) MPI_Info_set(info, hint.c_str(), value.c_str());
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_WORLD, name.c_str(), amode, info, &fh));
    MPI_Info_free(&info);
    return fh;
  }

  // The ranks' blocks of ints in turn; those of the rank that comes `next` places after.
  void set_cyclic_view(MPI_File fh, int next = 0) const {
    MPI_Datatype block, turn;
    MPI_Type_contiguous(kBlock, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(sizeof(int)) * kBlock * size(), &turn);
    MPI_Type_commit(&turn);
    EXPECT_MPI_OK(MPI_File_set_view(fh, static_cast<MPI_Offset>(sizeof(int)) * kBlock * ((rank() + next) % size()),
                                    MPI_INT, turn, "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&turn);
  }

  int total() const { return kBlock * kBlocks * size(); }

  // Place i of the file holds start + i.
  std::vector<int> own(int start, int next = 0) const {
    std::vector<int> values;
    for (int block = 0; block < kBlocks; ++block)
      for (int i = 0; i < kBlock; ++i)
        values.push_back(start + (block * size() + (rank() + next) % size()) * kBlock + i);
    return values;
  }

  void write_cyclic(MPI_File fh, int start, bool collective) const {
    set_cyclic_view(fh);
    const std::vector<int> values = own(start);
    MPI_Status status;
    const auto count = static_cast<int>(values.size());
    EXPECT_MPI_OK(collective ? MPI_File_write_at_all(fh, 0, values.data(), count, MPI_INT, &status)
                             : MPI_File_write_at(fh, 0, values.data(), count, MPI_INT, &status));
    EXPECT_EQ(ints(status), count);
  }

  void expect_file(MPI_File fh, int start) const {
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Offset bytes = 0;
    EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
    EXPECT_EQ(bytes, static_cast<MPI_Offset>(sizeof(int)) * total());
    std::vector<int> wanted(static_cast<std::size_t>(total()));
    std::iota(wanted.begin(), wanted.end(), start);
    EXPECT_TRUE(read_ints(fh, 0, total()) == wanted);
    const int first = rank() * 977 % total();
    std::vector<int> part(static_cast<std::size_t>(total() - first), -1);
    EXPECT_MPI_OK(
        MPI_File_read_at_all(fh, first, part.data(), static_cast<int>(part.size()), MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), wanted.begin() + first));
  }
};

TEST_F(IntervalFiles, AreMadeByPrefixAndFoundByContent) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  EXPECT_EQ(layout(fh), "interval");
  write_cyclic(fh, 1000, true);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  expect_file(fh, 1000);
  EXPECT_MPI_OK(MPI_File_close(&fh));
  for (const int amode : {MPI_MODE_RDONLY, MPI_MODE_RDWR}) {
    fh = open_as(path(), amode);
    EXPECT_EQ(layout(fh), "interval");
    expect_file(fh, 1000);
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }
  // Rewritten by another view, independently; close commits.
  fh = open_as(path(), MPI_MODE_WRONLY);
  std::vector<int> values(static_cast<std::size_t>(kBlock * kBlocks));
  std::iota(values.begin(), values.end(), 5 + static_cast<int>(values.size()) * rank());
  write_ints(fh, static_cast<MPI_Offset>(sizeof(int) * values.size()) * rank(), values);
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open_as(path(), MPI_MODE_RDONLY);
  expect_file(fh, 5);
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

TEST_F(IntervalFiles, AreMadeByHint) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "stridio_layout", "interval");
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
  EXPECT_EQ(layout(fh), "interval");
  write_cyclic(fh, 7, false);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", info));
  EXPECT_EQ(layout(fh), "interval");
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open(MPI_MODE_RDONLY);
  expect_file(fh, 7);
  EXPECT_MPI_OK(MPI_File_close(&fh));
  MPI_Info_free(&info);
}

TEST_F(IntervalFiles, WhatAFileIsItsContentSays) {
  MPI_File fh = open();
  EXPECT_EQ(layout(fh), "flat");
  if (rank() == 0) write_ints(fh, 0, {1, 2, 3});
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  EXPECT_EQ(layout(fh), "flat");
  EXPECT_EQ(read_ints(fh, 0, 10), (std::vector<int>{1, 2, 3}));
  EXPECT_MPI_OK(MPI_File_close(&fh));
  if (rank() == 0) EXPECT_MPI_OK(MPI_File_delete(("interval:" + path()).c_str(), MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

// As libraries expect that move data in a file: a collective read shows what collective writes before it have written.
TEST_F(IntervalFiles, ACollectiveReadSeesWhatAllHaveWritten) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  for (const int start : {1, 1000}) {
    write_cyclic(fh, start, true);
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    const int share = total() / size(), other = (rank() + 1) % size();
    std::vector<int> got(static_cast<std::size_t>(share)), wanted(got.size());
    std::iota(wanted.begin(), wanted.end(), start + share * other);
    EXPECT_MPI_OK(MPI_File_read_at_all(fh, share * other, got.data(), share, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_TRUE(got == wanted);
    // Moved, and seen where they are now.
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_MPI_OK(MPI_File_write_at_all(fh, total() + share * other, got.data(), share, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    std::iota(wanted.begin(), wanted.end(), start + share * rank());
    EXPECT_MPI_OK(MPI_File_read_at_all(fh, total() + share * rank(), got.data(), share, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_TRUE(got == wanted);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

TEST_F(IntervalFiles, SizesAreThoseOfTheLogicalFile) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  write_cyclic(fh, 0, true);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_set_size(fh, 4 * 10));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  EXPECT_EQ(read_ints(fh, 0, 20), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_MPI_OK(MPI_File_preallocate(fh, 4 * 12));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  EXPECT_EQ(read_ints(fh, 8, 20), (std::vector<int>{8, 9, 0, 0}));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == size() - 1) write_ints(fh, 14, {14});
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open(MPI_MODE_RDONLY | MPI_MODE_APPEND);
  MPI_Offset bytes = 0;
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 4 * 15);
  EXPECT_EQ(read_ints(fh, 4 * 9, 20), (std::vector<int>{9, 0, 0, 0, 0, 14}));
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

// Without a sync between: a rank's own accesses are in order, whoever could carry them out (MPI-4.1 section 14.6.1).
TEST_F(IntervalFiles, ARankSeesItsOwnWritesAtOnce) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "stridio_layout", "interval");
  MPI_Info_set(info, "stridio_method", "two_phase");
  MPI_Info_set(info, "cb_nodes", "1");
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
  MPI_Info_free(&info);
  write_cyclic(fh, 1, false);
  write_cyclic(fh, 5000000, true);  // over it
  const std::vector<int> wanted = own(5000000);
  EXPECT_TRUE(read_ints(fh, 0, kBlock * kBlocks) == wanted);
  std::vector<int> got(wanted.size());
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, got.data(), static_cast<int>(got.size()), MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_TRUE(got == wanted);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  expect_file(fh, 5000000);
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

// Blocks of 750 ints, written in turns, are read in turns of 1024: long enough to be read in stored order.
TEST_F(IntervalFiles, AreReadInOtherTurnsThanTheyWereWrittenIn) {
  constexpr int kWritten = 750, kRead = 1024, kEach = kWritten * kRead;
  const auto set_turns = [&](MPI_File fh, int block) {
    MPI_Datatype ints, turns;
    MPI_Type_contiguous(block, MPI_INT, &ints);
    MPI_Type_create_resized(ints, 0, static_cast<MPI_Aint>(sizeof(int)) * block * size(), &turns);
    MPI_Type_commit(&turns);
    const auto first = static_cast<MPI_Offset>(sizeof(int)) * block * rank();
    EXPECT_MPI_OK(MPI_File_set_view(fh, first, MPI_INT, turns, "native", MPI_INFO_NULL));
    MPI_Type_free(&turns);
    MPI_Type_free(&ints);
  };
  const auto values = [&](int block) {
    std::vector<int> mine(kEach);
    for (int i = 0; i < kEach; ++i)
      mine[static_cast<std::size_t>(i)] = 7 + ((i / block) * size() + rank()) * block + i % block;
    return mine;
  };
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_WRONLY | MPI_MODE_CREATE);
  set_turns(fh, kWritten);
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, 0, values(kWritten).data(), kEach, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_close(&fh));
  const std::vector<int> wanted = values(kRead);
  for (const char* method : {"two_phase", "independent"}) {
    fh = open_as(path(), MPI_MODE_RDONLY, {{"stridio_method", method}});
    set_turns(fh, kRead);
    for (int again = 0; again < 2; ++again) {
      std::vector<int> got(kEach + 1, -1);
      MPI_Status status;
      EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, got.data(), kEach + 1, MPI_INT, &status));
      int count = 0;
      MPI_Get_count(&status, MPI_INT, &count);
      EXPECT_EQ(count, kEach);
      EXPECT_EQ(got.back(), -1);
      got.pop_back();
      EXPECT_TRUE(got == wanted) << method;
    }
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }
}

TEST_F(IntervalFiles, TheSharedPointerWorks) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (int turn = 0; turn < 3; ++turn) {
    const int mine = turn * size() + rank();
    EXPECT_MPI_OK(MPI_File_write_ordered(fh, &mine, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  EXPECT_MPI_OK(MPI_File_sync(fh));
  std::vector<int> wanted(static_cast<std::size_t>(3 * size()));
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(read_ints(fh, 0, 100), wanted);
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

// What is written is seen with no MPI_File_sync: by views that share it, and its end and, once views change, the rest by all.
class AtomicIntervalFiles : public IntervalFiles, public ::testing::WithParamInterface<const char*> {};

TEST_P(AtomicIntervalFiles, ShowWritesAtOnce) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE, {{"stridio_node_ranks", GetParam()}});
  EXPECT_MPI_OK(MPI_File_set_atomicity(fh, 1));
  for (const bool collective : {false, true}) {
    const int start = collective ? 40 : 8000;
    write_cyclic(fh, start, collective);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset bytes = 0;
    EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
    EXPECT_EQ(bytes, static_cast<MPI_Offset>(sizeof(int)) * total());
    expect_file(fh, start);
  }
  // What was one's alone becomes another's, and its own again.
  for (const int turn : {0, 1}) {
    set_cyclic_view(fh, turn);
    const std::vector<int> values = own(100 * turn, turn);
    EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), static_cast<int>(values.size()), MPI_INT, MPI_STATUS_IGNORE));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  set_cyclic_view(fh);
  EXPECT_TRUE(read_ints(fh, 0, kBlock * kBlocks) == own(100));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  EXPECT_TRUE(read_ints(fh, 0, kBlock * kBlocks) == own(100));
  // Every second int of the whole file, by one rank after the other: far more extents than small writes have.
  MPI_Datatype second = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &second);
  MPI_Type_commit(&second);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, second, "native", MPI_INFO_NULL));
  for (int turn = 0; turn < 3 * size(); ++turn) {
    const std::vector<int> mine(static_cast<std::size_t>(total() / 2), turn);
    if (turn % size() == rank()) write_ints(fh, 0, mine);
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(read_ints(fh, 0, total() / 2) == mine) << turn;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Type_free(&second);
  EXPECT_MPI_OK(MPI_File_set_atomicity(fh, 0));
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

// As PnetCDF moves data when a file's header grows: collective reads and writes in turns, with no sync.
TEST_P(AtomicIntervalFiles, CollectiveReadsSettleAnOrder) {
  for (const int first : {0, size() - 1}) {
    const std::string name = "interval:" + path() + std::to_string(first);
    MPI_File fh = open_as(name, MPI_MODE_RDWR | MPI_MODE_CREATE, {{"stridio_node_ranks", GetParam()}});
    set_cyclic_view(fh);
    for (int turn = 0; turn < 2 * size(); ++turn) {  // each rank's blocks are all ranks' in turn
      set_cyclic_view(fh, first + turn);
      const std::vector<int> values = own(1000 * turn, first + turn);
      const auto count = static_cast<int>(values.size());
      EXPECT_MPI_OK(MPI_File_write_at_all(fh, 0, values.data(), count, MPI_INT, MPI_STATUS_IGNORE));
      set_cyclic_view(fh, first + turn + 1);
      std::vector<int> got(values.size(), -1);
      EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, got.data(), count, MPI_INT, MPI_STATUS_IGNORE));
      EXPECT_TRUE(got == own(1000 * turn, first + turn + 1)) << turn;
    }
    EXPECT_MPI_OK(MPI_File_sync(fh));
    expect_file(fh, 1000 * (2 * size() - 1));
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }
}

// Without atomic mode, for programs that order their accesses by messages alone.
TEST_P(AtomicIntervalFiles, HintShowsWritesAtOnce) {
  MPI_File fh =
      open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE,
              {{"stridio_node_ranks", GetParam()}, {"stridio_visibility", "immediate"}, {"stridio_cache", "enable"}});
  EXPECT_EQ(hint(fh, "romio_visibility_immediate"), "true");
  for (const bool collective : {false, true}) {
    write_cyclic(fh, collective ? 40 : 8000, collective);
    MPI_Barrier(MPI_COMM_WORLD);
    expect_file(fh, collective ? 40 : 8000);
  }
  for (int turn = 0; turn < 3 * size(); ++turn) {
    if (turn % size() == rank()) write_ints(fh, 0, std::vector<int>(static_cast<std::size_t>(total()), turn));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_TRUE(read_ints(fh, 0, total()) == std::vector<int>(static_cast<std::size_t>(total()), turn)) << turn;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_MPI_OK(MPI_File_close(&fh));
  fh = open_as(path(), MPI_MODE_RDONLY);
  EXPECT_TRUE(read_ints(fh, 0, total()) == std::vector<int>(static_cast<std::size_t>(total()), 3 * size() - 1));
  EXPECT_EQ(hint(fh, "romio_visibility_immediate"), "false");
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

INSTANTIATE_TEST_SUITE_P(Nodes, AtomicIntervalFiles, ::testing::Values("0", "1"), [](const auto& nodes) {
  return std::string(nodes.param[0] == '0' ? "OneNode" : "ANodeARank");
});

TEST_F(IntervalFiles, HaveOneWriter) {
  MPI_File fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
  MPI_File again = MPI_FILE_NULL;
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDWR, MPI_INFO_NULL, &again),
                   MPI_ERR_FILE_IN_USE, "one program at a time");
  EXPECT_MPI_OK(MPI_File_close(&fh));
}

TEST_F(IntervalFiles, DamageIsAnErrorOnAllRanks) {
  MPI_File fh;
  for (int commits = 0; commits < 2; ++commits) {  // so that both slots are in use
    fh = open_as("interval:" + path(), MPI_MODE_RDWR | MPI_MODE_CREATE);
    write_cyclic(fh, 3, true);
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }
  if (rank() == 0) std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_IO,
                   "truncated");
  if (rank() == 0) {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    for (const int header : {32768, 65536, 98304, 131072}) file.seekp(header + 8).put(9);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_IO,
                   "wrong checksum");
}

}  // namespace
}  // namespace stridio::testing
