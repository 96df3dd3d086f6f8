// Data access: positions, views, pointers, counts, and every collective form against a byte array.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "mpi/mpi_fixture.h"
#include "mpi/prototypes.h"
#include "mpi/random_datatype.h"

namespace stridio::testing {
namespace {

using AccessTest = MpiTest;

TEST_F(AccessTest, PartialElementsOfAStructureAreCounted) {
  MPI_File fh = open();
  if (rank() == 0) write_ints(fh, 0, {1, 2, 3, 4, 5});
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  int values[8] = {};
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values, 4, pair, &status));
  int count = 0, elements = 0;
  MPI_Get_count(&status, pair, &count);
  MPI_Get_elements(&status, pair, &elements);
  EXPECT_EQ(count, MPI_UNDEFINED);
  EXPECT_EQ(elements, 5);
  MPI_Type_free(&pair);
  MPI_File_close(&fh);
}

TEST_F(AccessTest, PointersMoveByEtypes) {
  MPI_File fh = open();
  EXPECT_MPI_OK(MPI_File_set_view(fh, 16 * rank(), MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  int values[4] = {rank(), 1, 2, 3};
  MPI_Status status;
  MPI_Offset position = -1;
  EXPECT_MPI_OK(MPI_File_write(fh, values, 2, MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 2);
  EXPECT_MPI_OK(MPI_File_write_all(fh, values + 2, 2, MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 4);
  EXPECT_MPI_OK(MPI_File_seek(fh, -3, MPI_SEEK_CUR));
  EXPECT_MPI_OK(MPI_File_read(fh, values, 1, MPI_INT, &status));
  EXPECT_EQ(values[0], 1);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 4 * (size() - rank()));
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 0);
  MPI_File_close(&fh);
}

TEST_F(AccessTest, ViewsAreHandedBackAsCopies) {
  MPI_File fh = open();
  MPI_Datatype etype, filetype, got_etype, got_filetype;
  MPI_Type_contiguous(2, MPI_SHORT, &etype);
  MPI_Type_commit(&etype);
  MPI_Type_vector(2, 1, 3, etype, &filetype);
  MPI_Type_commit(&filetype);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 100, etype, filetype, "internal", MPI_INFO_NULL));
  MPI_Offset displacement = 0;
  char datarep[MPI_MAX_DATAREP_STRING + 1] = {}, name[MPI_MAX_OBJECT_NAME] = {};
  EXPECT_MPI_OK(MPI_File_get_view(fh, &displacement, &got_etype, &got_filetype, datarep));
  EXPECT_NE(got_etype, etype);
  EXPECT_NE(got_filetype, filetype);
  MPI_Type_set_name(got_filetype, "handed back");
  int length = 0;
  MPI_Type_get_name(filetype, name, &length);
  EXPECT_STREQ(name, "") << "it is another datatype";
  MPI_Type_free(&got_etype);
  MPI_Type_free(&got_filetype);
  MPI_Type_free(&etype);
  MPI_Type_free(&filetype);
  EXPECT_MPI_OK(MPI_File_get_view(fh, &displacement, &got_etype, &got_filetype, datarep));
  EXPECT_EQ(displacement, 100);
  EXPECT_STREQ(datarep, "internal");
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(got_filetype, &lb, &extent);
  EXPECT_EQ(extent, 16);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, got_etype, got_filetype, "native", MPI_INFO_NULL));
  MPI_Type_free(&got_etype);
  MPI_Type_free(&got_filetype);
  MPI_Offset offset = 0;
  EXPECT_MPI_OK(MPI_File_get_byte_offset(fh, 3, &offset));
  EXPECT_EQ(offset, 16 + 12);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_get_view(fh, &displacement, &got_etype, &got_filetype, datarep));
  EXPECT_EQ(got_etype, MPI_BYTE);
  EXPECT_EQ(got_filetype, MPI_BYTE);
  MPI_File_close(&fh);
}

TEST_F(AccessTest, SizesAndPreallocation) {
  MPI_File fh = open();
  MPI_Offset bytes = -1;
  EXPECT_MPI_OK(MPI_File_set_size(fh, 1000));
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 1000);
  EXPECT_MPI_OK(MPI_File_preallocate(fh, 500));
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 1000);
  EXPECT_MPI_OK(MPI_File_preallocate(fh, 5000));
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 5000);
  EXPECT_MPI_OK(MPI_File_set_size(fh, 0));
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_EQ(bytes, 0);
  EXPECT_MPI_OK(MPI_File_sync(fh));
  MPI_File_close(&fh);
}

TEST_F(AccessTest, SharedPointersGiveEveryoneAPlaceOfTheirOwn) {
  MPI_File fh = open();
  MPI_Status status;
  for (int i = 0; i < 5; ++i) {
    const int value = 1 + rank() * 5 + i;
    EXPECT_MPI_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, &status));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset position = 0;
  EXPECT_MPI_OK(MPI_File_get_position_shared(fh, &position));
  EXPECT_EQ(position, 20 * size());
  std::vector<int> all = read_ints(fh, 0, 5 * size());
  std::sort(all.begin(), all.end());
  std::vector<int> expected(static_cast<std::size_t>(5 * size()));
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(all, expected);
  MPI_File_close(&fh);
}

TEST_F(AccessTest, OrderedCallsGoByRank) {
  MPI_File fh = open();
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  MPI_Status status;
  std::vector<int> mine(static_cast<std::size_t>(rank() + 1), rank());
  EXPECT_MPI_OK(MPI_File_write_ordered(fh, mine.data(), rank() + 1, MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_write_ordered_begin(fh, mine.data(), rank() + 1, MPI_INT));
  EXPECT_MPI_OK(MPI_File_write_ordered_end(fh, mine.data(), &status));
  std::vector<int> expected;
  for (int round = 0; round < 2; ++round)
    for (int r = 0; r < size(); ++r) expected.insert(expected.end(), static_cast<std::size_t>(r + 1), r);
  EXPECT_EQ(read_ints(fh, 0, static_cast<int>(expected.size()) + 1), expected);
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
  std::fill(mine.begin(), mine.end(), -1);
  EXPECT_MPI_OK(MPI_File_read_ordered(fh, mine.data(), rank() + 1, MPI_INT, &status));
  EXPECT_EQ(mine, std::vector<int>(static_cast<std::size_t>(rank() + 1), rank()));
  MPI_File_close(&fh);
}

TEST_F(AccessTest, AbsoluteAddressesFromMpiBottom) {
  MPI_File fh = open();
  int first = rank(), second = rank() + 100;
  MPI_Aint addresses[2];
  MPI_Get_address(&first, &addresses[0]);
  MPI_Get_address(&second, &addresses[1]);
  const int lengths[2] = {1, 1};
  MPI_Datatype both;
  MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &both);
  MPI_Type_commit(&both);
  EXPECT_MPI_OK(MPI_File_write_at(fh, rank() * 8, MPI_BOTTOM, 1, both, MPI_STATUS_IGNORE));
  EXPECT_EQ(read_ints(fh, rank() * 8, 2), (std::vector<int>{rank(), rank() + 100}));
  MPI_Type_free(&both);
  MPI_File_close(&fh);
}

TEST_F(AccessTest, OffsetsBeyondTwoGigabytes) {
  MPI_File fh = open();
  const MPI_Offset far = (MPI_Offset{5} << 30) + rank() * 4;
  write_ints(fh, far, {rank() + 7});
  EXPECT_EQ(read_ints(fh, far, 1), std::vector<int>{rank() + 7});
  int value = rank();
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, far + 4096, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Offset bytes = 0;
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  EXPECT_GT(bytes, MPI_Offset{5} << 30);
  MPI_File_close(&fh);
}

}  // namespace
}  // namespace stridio::testing
