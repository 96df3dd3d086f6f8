// Acceptance tests of who sees what: atomic mode (accesses happen one after the other), and without it what
// MPI_File_sync and MPI_File_close promise, between handles, groups and a reader that knows no MPI. Each on one node
// and, by the hint stridio_node_ranks=1, with every rank a node of its own.
#include <fcntl.h>
#include <unistd.h>

#include <limits>
#include <set>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

struct Place {
  const char* name;
  int node_ranks;
  const char* prefix;
};

class OnNodes : public MpiTest, public ::testing::WithParamInterface<Place> {
 protected:
  bool is_flat() const { return *GetParam().prefix == '\0'; }
  MPI_File open_on(MPI_Comm comm, int amode = MPI_MODE_RDWR | MPI_MODE_CREATE) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "stridio_node_ranks", std::to_string(GetParam().node_ranks).c_str());
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(MPI_File_open(comm, (GetParam().prefix + path()).c_str(), amode, info, &fh));
    MPI_Info_free(&info);
    return fh;
  }
};
constexpr Place kOneNode{"OneNode", 0, ""}, kANodeARank{"ANodeARank", 1, ""};
std::string name_of_place(const ::testing::TestParamInfo<Place>& info) { return info.param.name; }

// ---- Atomic mode

// kBlocks blocks with holes between them, the same for all ranks or overlapping with the next rank's.
class AtomicNoncontiguous : public OnNodes {
 protected:
  static constexpr int kBlocks = 2000, kBlock = 16, kStride = 40;  // in ints; enough to be caught in between
  static constexpr int kAll = kBlocks * kBlock;

  // An atomic file whose views repeat blocks, rank's first one at `first`.
  MPI_File open_blocks(MPI_Comm comm, int first) {
    MPI_File fh = open_on(comm);
    EXPECT_MPI_OK(MPI_File_set_atomicity(fh, 1));
    MPI_Datatype block, blocks;
    MPI_Type_contiguous(kBlock, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, 4 * kStride, &blocks);
    MPI_Type_commit(&blocks);
    EXPECT_MPI_OK(MPI_File_set_view(fh, 4ll * kStride * first, MPI_INT, blocks, "native", MPI_INFO_NULL));
    MPI_Type_free(&block);
    MPI_Type_free(&blocks);
    return fh;
  }

  // Even ranks write, odd ones read: whoever reads sees one whole write, or nothing of any.
  void race(MPI_File fh) {
    const int rounds = 15;
    if (rank() == 0) {
      const std::vector<int> zeros(kAll, 0);
      EXPECT_MPI_OK(MPI_File_write_at(fh, 0, zeros.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> values(kAll, 1 + rank() + 100 * round);
      if (rank() % 2 == 0) {
        EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
      } else {
        EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
        EXPECT_EQ(std::set<int>(values.begin(), values.end()).size(), 1u) << "round " << round;
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<int> values(kAll, -1);
    EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT_EQ(std::set<int>(values.begin(), values.end()).size(), 1u);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // All ranks write the same blocks by `write`: they are one rank's in the end.
  template <typename Write>
  void all_write(MPI_File fh, Write write) {
    for (int round = 0; round < 5; ++round) {
      const std::vector<int> mine(kAll, 1 + rank() + 100 * round);
      EXPECT_MPI_OK(write(fh, mine.data()));
      MPI_Barrier(MPI_COMM_WORLD);
      std::vector<int> values(kAll, -1);
      EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
      const std::set<int> seen(values.begin(), values.end());
      EXPECT_EQ(seen.size(), 1u) << "round " << round;
      EXPECT_EQ(*seen.begin() / 100, round);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
};

TEST_P(AtomicNoncontiguous, ConcurrentWritesAreSerialAndReadsSeeWholeOnes) {
  MPI_File fh = open_blocks(MPI_COMM_WORLD, 0);
  race(fh);
  MPI_File_close(&fh);
}

TEST_P(AtomicNoncontiguous, AcrossHandlesThatKnowNothingOfEachOther) {
  if (!is_flat()) GTEST_SKIP() << "an interval file has one writer";
  MPI_File fh = open_blocks(MPI_COMM_SELF, 0);
  race(fh);
  MPI_File_close(&fh);
}

TEST_P(AtomicNoncontiguous, EveryWritingCallIsSerial) {
  MPI_File fh = open_blocks(MPI_COMM_WORLD, 0);
  all_write(fh, [](MPI_File file, const int* from) {
    return MPI_File_write_at_all(file, 0, from, kAll, MPI_INT, MPI_STATUS_IGNORE);
  });
  all_write(fh, [](MPI_File file, const int* from) {
    MPI_Request request;
    const int code = MPI_File_iwrite_at(file, 0, from, kAll, MPI_INT, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
  });
  all_write(fh, [](MPI_File file, const int* from) {
    MPI_Request request;
    const int code = MPI_File_iwrite_at_all(file, 0, from, kAll, MPI_INT, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
  });
  all_write(fh, [](MPI_File file, const int* from) {
    const int code = MPI_File_write_at_all_begin(file, 0, from, kAll, MPI_INT);
    return code == MPI_SUCCESS ? MPI_File_write_at_all_end(file, from, MPI_STATUS_IGNORE) : code;
  });
  MPI_File_close(&fh);
}

// Each half overlaps with another rank's: every overlap is one rank's as a whole.
TEST_P(AtomicNoncontiguous, ChainOfOverlapsIsSerial) {
  constexpr int kHalf = kBlocks / 2;
  MPI_File fh = open_blocks(MPI_COMM_WORLD, kHalf * rank());
  for (int round = 0; round < 5; ++round) {
    const std::vector<int> mine(kAll, rank() + 100 * round);
    EXPECT_MPI_OK(MPI_File_write_at(fh, 0, mine.data(), kAll, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    std::vector<int> values(kAll / 2, -1);  // the half shared with the rank before, or nobody
    EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), kAll / 2, MPI_INT, MPI_STATUS_IGNORE));
    const std::set<int> seen(values.begin(), values.end());
    EXPECT_EQ(seen.size(), 1u) << "round " << round;
    EXPECT_TRUE(*seen.begin() == mine[0] || (rank() > 0 && *seen.begin() == mine[0] - 1)) << *seen.begin();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_File_close(&fh);
}

INSTANTIATE_TEST_SUITE_P(Places, AtomicNoncontiguous,
                         ::testing::Values(kOneNode, kANodeARank, Place{"IntervalOnOneNode", 0, "interval:"},
                                           Place{"IntervalANodeARank", 1, "interval:"}),
                         name_of_place);

// ---- Without atomic mode

class Consistency : public OnNodes {
 protected:
  static constexpr int kInts = 1000;
  static std::vector<int> values_of(int rank) {
    std::vector<int> values(kInts);
    for (int i = 0; i < kInts; ++i) values[static_cast<std::size_t>(i)] = rank * kInts + i;
    return values;
  }
  static MPI_Offset place_of(int rank) { return 4ll * kInts * rank; }
  static int next() { return (rank() + 1) % size(); }

  static void write_own(MPI_File fh) { write_ints(fh, place_of(rank()), values_of(rank())); }
  static void expect_others(MPI_File fh) { EXPECT_EQ(read_ints(fh, place_of(next()), kInts), values_of(next())); }

  // As a program without MPI sees it.
  void expect_posix() const {
    const int fd = ::open(path().c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    for (int r = 0; r < size(); ++r) {
      std::vector<int> got(kInts, -1);
      EXPECT_EQ(pread(fd, got.data(), 4 * kInts, place_of(r)), 4 * kInts);
      EXPECT_EQ(got, values_of(r));
    }
    close(fd);
  }
};

TEST_P(Consistency, SyncBarrierSync) {
  MPI_File fh = open_on(MPI_COMM_WORLD);
  write_own(fh);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  expect_others(fh);
  expect_posix();
  MPI_File_close(&fh);
}

TEST_P(Consistency, CloseBarrierOpen) {
  MPI_File fh = open_on(MPI_COMM_SELF);
  write_own(fh);
  MPI_File_close(&fh);
  MPI_Barrier(MPI_COMM_WORLD);
  expect_posix();
  fh = open_on(MPI_COMM_WORLD, MPI_MODE_RDONLY);
  expect_others(fh);
  MPI_File_close(&fh);
}

TEST_P(Consistency, TwoHandlesOfOneProgram) {
  MPI_File writer = open_on(MPI_COMM_WORLD), reader = open_on(MPI_COMM_WORLD, MPI_MODE_RDONLY);
  EXPECT_EQ(read_ints(reader, 0, kInts), std::vector<int>{});  // whatever a reader might keep, it has it now
  MPI_Barrier(MPI_COMM_WORLD);
  write_own(writer);
  EXPECT_MPI_OK(MPI_File_sync(writer));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_sync(reader));
  expect_others(reader);
  const std::vector<int> mine = values_of(rank());
  std::vector<int> got(kInts, -1);
  EXPECT_MPI_OK(
      MPI_File_write_at_all(writer, place_of(next()), values_of(next()).data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_sync(writer));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_sync(reader));
  EXPECT_MPI_OK(MPI_File_read_at_all(reader, place_of(rank()), got.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(got, mine);
  MPI_File_close(&reader);
  MPI_File_close(&writer);
}

// The even ranks are one program, the odd ones another: nothing is common to them but the file.
TEST_P(Consistency, TwoGroupsAndAPlainReader) {
  MPI_Comm group;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &group);
  MPI_File fh = open_on(group);
  const std::vector<int> mine = values_of(rank());
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, place_of(rank()), mine.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  expect_others(fh);  // of the other program
  std::vector<int> got(kInts, -1);
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, place_of(next()), got.data(), kInts, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_EQ(got, values_of(next()));
  expect_posix();
  MPI_File_close(&fh);
  MPI_Comm_free(&group);
}

// Each open of a file has a shared pointer of its own: two groups that append by it write over each other.
TEST_P(Consistency, SharedPointersBelongToTheOpen) {
  MPI_Comm group;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &group);
  int members = 0;
  MPI_Comm_size(group, &members);
  MPI_File own = open_on(group), both = open_on(MPI_COMM_WORLD);
  const int value = rank();
  MPI_Offset position = -1;
  EXPECT_MPI_OK(MPI_File_write_shared(own, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_write_shared(both, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_get_position_shared(own, &position));
  EXPECT_EQ(position, 4 * members);
  EXPECT_MPI_OK(MPI_File_get_position_shared(both, &position));
  EXPECT_EQ(position, 4 * size());
  MPI_File_close(&both);
  EXPECT_MPI_OK(MPI_File_get_position_shared(own, &position));  // the other's closing takes nothing away
  EXPECT_EQ(position, 4 * members);
  MPI_File late = open_on(MPI_COMM_SELF);
  EXPECT_MPI_OK(MPI_File_get_position_shared(own, &position));
  EXPECT_EQ(position, 4 * members);
  MPI_File_close(&late);
  MPI_File_close(&own);
  MPI_Comm_free(&group);
}

TEST_P(Consistency, TheSharedPointerStopsBeforeTheLargestOffset) {
  constexpr MPI_Offset kMost = std::numeric_limits<MPI_Offset>::max();
  MPI_File fh = open_on(MPI_COMM_WORLD);
  const std::vector<char> bytes(100);
  MPI_Status status;
  MPI_Request request;
  MPI_Offset position = -1;
  const auto expect_unmoved = [&](MPI_Offset expected) {
    EXPECT_MPI_OK(MPI_File_get_position_shared(fh, &position));
    EXPECT_EQ(position, expected);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, kMost - 50, MPI_SEEK_SET));
  EXPECT_MPI_ERROR(MPI_File_write_shared(fh, bytes.data(), 100, MPI_BYTE, &status), MPI_ERR_ARG, "largest offset");
  EXPECT_MPI_ERROR(MPI_File_iwrite_shared(fh, bytes.data(), 100, MPI_BYTE, &request), MPI_ERR_ARG, "largest offset");
  EXPECT_MPI_ERROR(MPI_File_write_ordered(fh, bytes.data(), 100, MPI_BYTE, &status), MPI_ERR_ARG, "largest offset");
  EXPECT_MPI_ERROR(MPI_File_write_ordered(fh, bytes.data(), 49, MPI_BYTE, &status), MPI_ERR_ARG, "largest offset");
  expect_unmoved(kMost - 50);
  MPI_Datatype sparse;  // one byte of each mebibyte: fewer positions than offsets
  MPI_Type_create_resized(MPI_BYTE, 0, 1 << 20, &sparse);
  MPI_Type_commit(&sparse);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_BYTE, sparse, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, (kMost >> 20) - 10, MPI_SEEK_SET));
  EXPECT_MPI_ERROR(MPI_File_read_shared(fh, nullptr, 100, MPI_BYTE, &status), MPI_ERR_ARG, "largest offset");
  expect_unmoved((kMost >> 20) - 10);
  MPI_Type_free(&sparse);
  MPI_File_close(&fh);
}

TEST_P(Consistency, NonblockingAndSplitWritesAreThereAfterTheirCompletionAndASync) {
  MPI_File fh = open_on(MPI_COMM_WORLD);
  const std::vector<int> mine = values_of(rank());
  MPI_Request request;
  EXPECT_MPI_OK(MPI_File_iwrite_at(fh, place_of(rank()), mine.data(), kInts / 2, MPI_INT, &request));
  EXPECT_MPI_OK(
      MPI_File_write_at_all_begin(fh, place_of(rank()) + 2 * kInts, mine.data() + kInts / 2, kInts / 2, MPI_INT));
  EXPECT_MPI_OK(MPI_File_write_at_all_end(fh, mine.data() + kInts / 2, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  expect_others(fh);
  expect_posix();
  MPI_File_close(&fh);
}

INSTANTIATE_TEST_SUITE_P(Nodes, Consistency, ::testing::Values(kOneNode, kANodeARank), name_of_place);

}  // namespace
}  // namespace stridio::testing
