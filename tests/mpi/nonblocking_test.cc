// Nonblocking accesses behind real requests: they work in every completing call, mixed with messages; starting one waits for
// nobody; errors and counts surface at completion.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace {

class Nonblocking : public testing::Test {
 protected:
  static constexpr int kInts = 50'000;

  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (rank_ == 0) close(mkstemp(name_));
    MPI_Bcast(name_, sizeof name_, MPI_CHAR, 0, MPI_COMM_WORLD);
    ASSERT_EQ(MPI_File_open(MPI_COMM_WORLD, name_, MPI_MODE_RDWR, MPI_INFO_NULL, &file_), MPI_SUCCESS);
    out_.resize(kInts);
    std::iota(out_.begin(), out_.end(), rank_ * kInts);
    in_.assign(kInts, -1);
  }
  void TearDown() override {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::remove(name_);
  }
  MPI_Offset at(int part) const { return static_cast<MPI_Offset>(rank_ * kInts + part) * 4; }
  void expect_count(const MPI_Status& status, int ints) {
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(count, ints);
  }

  int rank_ = 0, size_ = 0;
  char name_[32] = "/tmp/stridio-request-XXXXXX";
  MPI_File file_ = MPI_FILE_NULL;
  std::vector<int> out_, in_;
};

TEST_F(Nonblocking, EveryCompletingCallTakesThem) {
  constexpr int kParts = 8, kPart = kInts / kParts;
  std::array<MPI_Request, kParts> requests;
  for (int i = 0; i < kParts; ++i)
    MPI_File_iwrite_at(file_, at(i * kPart), &out_[static_cast<std::size_t>(i * kPart)], kPart, MPI_INT,
                       &requests[static_cast<std::size_t>(i)]);
  MPI_Status status;
  EXPECT_EQ(MPI_Wait(&requests[0], &status), MPI_SUCCESS);
  EXPECT_EQ(requests[0], MPI_REQUEST_NULL);
  expect_count(status, kPart);
  for (int flag = 0; !flag;) MPI_Test(&requests[1], &flag, &status);
  expect_count(status, kPart);
  for (int flag = 0; !flag;) MPI_Request_get_status(requests[2], &flag, &status);
  expect_count(status, kPart);
  EXPECT_NE(requests[2], MPI_REQUEST_NULL);
  int index = -1;
  EXPECT_EQ(MPI_Waitany(kParts, requests.data(), &index, &status), MPI_SUCCESS);
  EXPECT_GE(index, 2);
  expect_count(status, kPart);
  int some = 0;
  std::array<int, kParts> indices;
  std::array<MPI_Status, kParts> statuses;
  EXPECT_EQ(MPI_Waitsome(kParts, requests.data(), &some, indices.data(), statuses.data()), MPI_SUCCESS);
  ASSERT_GE(some, 1);
  for (int i = 0; i < some; ++i) expect_count(statuses[static_cast<std::size_t>(i)], kPart);
  for (int flag = 0; !flag;) MPI_Testall(kParts, requests.data(), &flag, statuses.data());
  for (const MPI_Request request : requests) EXPECT_EQ(request, MPI_REQUEST_NULL);

  MPI_Request read;
  MPI_File_iread_at(file_, at(0), in_.data(), kInts, MPI_INT, &read);
  EXPECT_EQ(MPI_Cancel(&read), MPI_SUCCESS);
  EXPECT_EQ(MPI_Wait(&read, &status), MPI_SUCCESS);
  EXPECT_EQ(in_, out_);
}

TEST_F(Nonblocking, MixedWithMessagesInOneWaitall) {
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  int token = rank_, got = -1;
  std::array<MPI_Request, 3> requests;
  MPI_Irecv(&got, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_File_iwrite_at_all(file_, at(0), out_.data(), kInts, MPI_INT, &requests[1]);
  MPI_Isend(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[2]);
  std::array<MPI_Status, 3> statuses;
  EXPECT_EQ(MPI_Waitall(3, requests.data(), statuses.data()), MPI_SUCCESS);
  EXPECT_EQ(got, previous);
  expect_count(statuses[1], kInts);
}

TEST_F(Nonblocking, StartingACollectiveWaitsForNobody) {
  MPI_Request request;
  if (rank_ == 0) MPI_File_iwrite_at_all(file_, at(0), out_.data(), kInts, MPI_INT, &request);
  // The others hear from rank 0 only after it has started; so it cannot have waited for them.
  MPI_Bcast(&size_, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank_ != 0) MPI_File_iwrite_at_all(file_, at(0), out_.data(), kInts, MPI_INT, &request);
  EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(MPI_File_read_at_all(file_, at(0), in_.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(in_, out_);
}

TEST_F(Nonblocking, AnIndependentOneCompletesBesideACollectiveOneThatCannot) {
  MPI_Request together = MPI_REQUEST_NULL, alone;
  if (rank_ == 0) {
    MPI_File_iwrite_at_all(file_, at(0), out_.data(), kInts, MPI_INT, &together);
    MPI_File_iwrite_at(file_, at(0) + 4ll * size_ * kInts, out_.data(), kInts, MPI_INT, &alone);
    EXPECT_EQ(MPI_Wait(&alone, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != 0) MPI_File_iwrite_at_all(file_, at(0), out_.data(), kInts, MPI_INT, &together);
  EXPECT_EQ(MPI_Wait(&together, MPI_STATUS_IGNORE), MPI_SUCCESS);
}

TEST_F(Nonblocking, PointersMoveAtTheStartAndBlockingCollectivesComeAfter) {
  MPI_File_set_view(file_, static_cast<MPI_Offset>(rank_) * kInts * 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  std::array<MPI_Request, 2> requests;
  const int half = kInts / 2;
  MPI_File_iwrite_all(file_, out_.data(), half, MPI_INT, &requests[0]);
  MPI_Offset position = -1;
  MPI_File_get_position(file_, &position);
  EXPECT_EQ(position, half);
  MPI_File_iwrite(file_, &out_[static_cast<std::size_t>(half)], half, MPI_INT, &requests[1]);
  EXPECT_EQ(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
  MPI_File_iread_at_all(file_, 0, in_.data(), half, MPI_INT, &requests[0]);
  std::vector<int> all(kInts, -1);
  EXPECT_EQ(MPI_File_read_at_all(file_, 0, all.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(all, out_);
  EXPECT_EQ(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_TRUE(std::equal(in_.begin(), in_.begin() + half, out_.begin()));
}

TEST_F(Nonblocking, ABadArgumentOfOneRankFailsACollectiveOnAll) {
  MPI_Request request = MPI_REQUEST_NULL;
  const MPI_Offset offset = rank_ == size_ - 1 ? -4 : at(0);
  ASSERT_EQ(MPI_File_iwrite_at_all(file_, offset, out_.data(), kInts, MPI_INT, &request), MPI_SUCCESS);
  const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  EXPECT_EQ(error_class, MPI_ERR_ARG);
}

TEST_F(Nonblocking, AFreedRequestIsStillCarriedOut) {
  MPI_Request request;
  MPI_File_iwrite_at(file_, at(0), out_.data(), kInts, MPI_INT, &request);
  EXPECT_EQ(MPI_Request_free(&request), MPI_SUCCESS);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  MPI_File_sync(file_);
  EXPECT_EQ(MPI_File_read_at(file_, at(0), in_.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(in_, out_);
}

TEST_F(Nonblocking, ClosingWithOnePendingIsAnErrorAndNoCrash) {
  MPI_Request request;
  MPI_File_iwrite_at(file_, at(0), out_.data(), kInts, MPI_INT, &request);
  EXPECT_NE(MPI_File_close(&file_), MPI_SUCCESS);
  MPI_Status status;
  EXPECT_EQ(MPI_Wait(&request, &status), MPI_SUCCESS);
  expect_count(status, kInts);
}

}  // namespace
