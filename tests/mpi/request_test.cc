// Acceptance tests of requests: every completing call takes those of files among null, inactive, persistent and message
// requests, and reports failed accesses as MPI-4.1 says: the code of the one, or MPI_ERR_IN_STATUS and each its own.
#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

// The requests of an array, by place. The file's are the first; null and inactive ones never complete anything.
enum Place { kWrite, kNull, kReceive, kInactive, kRead, kStarted, kSend, kPlaces };

class Requests : public MpiTest {
 protected:
  static constexpr int kInts = 20'000;

  void SetUp() override {
    MpiTest::SetUp();
    fh_ = open();
    EXPECT_MPI_OK(MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &full_));
    out_.assign(kInts, rank() + 1);
    write_ints(fh_, place(1), out_);
    to_ = (rank() + 1) % size();
    from_ = (rank() + size() - 1) % size();
    MPI_Recv_init(&unused_, 1, MPI_INT, from_, 99, MPI_COMM_WORLD, &inactive_);
    MPI_Send_init(&token_, 1, MPI_INT, to_, 2, MPI_COMM_WORLD, &persistent_);
  }
  void TearDown() override {
    MPI_Request_free(&inactive_);
    MPI_Request_free(&persistent_);
    MPI_File_close(&full_);
    MPI_File_close(&fh_);
    MpiTest::TearDown();
  }

  MPI_Offset place(int half) const { return (2ll * rank() + half) * 4 * kInts; }

  // One of everything, all under way, and beside them the receive of what the persistent request sends.
  std::array<MPI_Request, kPlaces> start() {
    std::array<MPI_Request, kPlaces> requests;
    in_.assign(kInts, -1);
    received_ = -1;
    token_ = rank();
    EXPECT_MPI_OK(MPI_File_iwrite_at_all(fh_, place(0), out_.data(), kInts, MPI_INT, &requests[kWrite]));
    requests[kNull] = MPI_REQUEST_NULL;
    MPI_Irecv(&received_, 1, MPI_INT, from_, 1, MPI_COMM_WORLD, &requests[kReceive]);
    requests[kInactive] = inactive_;
    EXPECT_MPI_OK(MPI_File_iread_at(fh_, place(1), in_.data(), kInts, MPI_INT, &requests[kRead]));
    MPI_Irecv(&second_, 1, MPI_INT, from_, 2, MPI_COMM_WORLD, &second_receive_);
    MPI_Start(&persistent_);
    requests[kStarted] = persistent_;
    MPI_Isend(&token_, 1, MPI_INT, to_, 1, MPI_COMM_WORLD, &requests[kSend]);
    return requests;
  }

  void expect_status(int at, const MPI_Status& status) const {
    if (at == kWrite || at == kRead) {
      EXPECT_EQ(ints(status), kInts) << "place " << at;
    }
    if (at == kReceive) {
      EXPECT_EQ(status.MPI_SOURCE, from_);
    }
    if (at == kReceive) {
      EXPECT_EQ(status.MPI_TAG, 1);
    }
    if (at == kNull || at == kInactive) {
      EXPECT_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
    }
  }

  // All of them are complete.
  void finish(const std::array<MPI_Request, kPlaces>& requests) {
    EXPECT_MPI_OK(MPI_Wait(&second_receive_, MPI_STATUS_IGNORE));
    EXPECT_EQ(second_, from_);
    EXPECT_EQ(received_, from_);
    EXPECT_EQ(in_, out_);
    for (int i = 0; i < kPlaces; ++i) {
      const MPI_Request expected = i == kInactive ? inactive_ : i == kStarted ? persistent_ : MPI_REQUEST_NULL;
      EXPECT_EQ(requests[static_cast<std::size_t>(i)], expected) << "place " << i;
    }
    EXPECT_EQ(read_ints(fh_, place(0), kInts), out_);
  }

  // Completes them one or some at a time by `step`, which returns the places that it completed, none at the end.
  void drain(std::array<MPI_Request, kPlaces>& requests, const std::function<std::vector<int>()>& step) {
    std::vector<int> completed;
    for (std::vector<int> places = step(); !places.empty(); places = step())
      completed.insert(completed.end(), places.begin(), places.end());
    std::sort(completed.begin(), completed.end());
    EXPECT_EQ(completed, (std::vector<int>{kWrite, kReceive, kRead, kStarted, kSend}));
    finish(requests);
  }

  // A write that fails for want of space, one that does not, a message, an inactive and a null request.
  enum Failing { kFails, kWorks, kMessage, kIdle, kNothing, kFailsToo, kFailingPlaces };
  std::array<MPI_Request, kFailingPlaces> start_failing() {
    std::array<MPI_Request, kFailingPlaces> requests;
    EXPECT_MPI_OK(MPI_File_iwrite_at(full_, 0, out_.data(), 10, MPI_INT, &requests[kFails]));
    EXPECT_MPI_OK(MPI_File_iwrite_at(fh_, place(0), out_.data(), kInts, MPI_INT, &requests[kWorks]));
    MPI_Irecv(&received_, 1, MPI_INT, rank(), 3, MPI_COMM_WORLD, &requests[kMessage]);
    MPI_Send(&token_, 1, MPI_INT, rank(), 3, MPI_COMM_WORLD);
    requests[kIdle] = inactive_;
    requests[kNothing] = MPI_REQUEST_NULL;
    EXPECT_MPI_OK(MPI_File_iwrite(full_, out_.data(), 10, MPI_INT, &requests[kFailsToo]));
    return requests;
  }

  static void expect_errors(const std::array<MPI_Status, kFailingPlaces>& statuses) {
    for (int i = 0; i < kFailingPlaces; ++i) {
      const bool fails = i == kFails || i == kFailsToo;
      const int code = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
      EXPECT_EQ(class_of(code), fails ? MPI_ERR_NO_SPACE : MPI_SUCCESS) << "place " << i << ": " << text_of(code);
      if (fails) {
        EXPECT_NE(text_of(code).find("/dev/full"), std::string::npos) << text_of(code);
      }
    }
    EXPECT_EQ(ints(statuses[kWorks]), kInts);
  }

  MPI_File fh_ = MPI_FILE_NULL, full_ = MPI_FILE_NULL;
  std::vector<int> out_, in_;
  MPI_Request inactive_ = MPI_REQUEST_NULL, persistent_ = MPI_REQUEST_NULL, second_receive_ = MPI_REQUEST_NULL;
  int to_ = 0, from_ = 0, token_ = 0, received_ = -1, second_ = -1, unused_ = 0;
};

TEST_F(Requests, WaitEachOfAMixture) {
  auto requests = start();
  for (int i = 0; i < kPlaces; ++i) {
    MPI_Status status;
    EXPECT_MPI_OK(MPI_Wait(&requests[static_cast<std::size_t>(i)], &status));
    expect_status(i, status);
  }
  finish(requests);
}

TEST_F(Requests, TestEachOfAMixture) {
  auto requests = start();
  for (int i = 0; i < kPlaces; ++i) {
    MPI_Status status;
    for (int flag = 0; !flag;) EXPECT_MPI_OK(MPI_Test(&requests[static_cast<std::size_t>(i)], &flag, &status));
    expect_status(i, status);
  }
  finish(requests);
}

TEST_F(Requests, WaitallOfAMixture) {
  for (const bool wanted : {true, false}) {
    auto requests = start();
    std::array<MPI_Status, kPlaces> statuses;
    EXPECT_MPI_OK(MPI_Waitall(kPlaces, requests.data(), wanted ? statuses.data() : MPI_STATUSES_IGNORE));
    if (wanted)
      for (int i = 0; i < kPlaces; ++i) expect_status(i, statuses[static_cast<std::size_t>(i)]);
    finish(requests);
  }
}

TEST_F(Requests, TestallOfAMixture) {
  auto requests = start();
  std::array<MPI_Status, kPlaces> statuses;
  for (int flag = 0; !flag;) EXPECT_MPI_OK(MPI_Testall(kPlaces, requests.data(), &flag, statuses.data()));
  for (int i = 0; i < kPlaces; ++i) expect_status(i, statuses[static_cast<std::size_t>(i)]);
  finish(requests);
}

TEST_F(Requests, WaitanyOfAMixture) {
  auto requests = start();
  drain(requests, [&] {
    int index = -1;
    MPI_Status status;
    EXPECT_MPI_OK(MPI_Waitany(kPlaces, requests.data(), &index, &status));
    if (index == MPI_UNDEFINED) return std::vector<int>{};
    expect_status(index, status);
    return std::vector<int>{index};
  });
}

TEST_F(Requests, TestanyOfAMixture) {
  auto requests = start();
  drain(requests, [&] {
    int index = -1;
    MPI_Status status;
    for (int flag = 0; !flag;) EXPECT_MPI_OK(MPI_Testany(kPlaces, requests.data(), &index, &flag, &status));
    if (index == MPI_UNDEFINED) return std::vector<int>{};
    expect_status(index, status);
    return std::vector<int>{index};
  });
}

using SomeCall = int (*)(int, MPI_Request*, int*, int*, MPI_Status*);
std::vector<int> some_of(SomeCall call, std::array<MPI_Request, kPlaces>& requests,
                         std::array<MPI_Status, kPlaces>& statuses) {
  for (;;) {
    int count = 0;
    std::array<int, kPlaces> indices;
    EXPECT_MPI_OK(call(kPlaces, requests.data(), &count, indices.data(), statuses.data()));
    if (count == MPI_UNDEFINED) return {};
    if (count > 0) return {indices.begin(), indices.begin() + count};
  }
}

TEST_F(Requests, WaitsomeAndTestsomeOfAMixture) {
  for (const SomeCall call : {&MPI_Waitsome, &MPI_Testsome}) {
    auto requests = start();
    drain(requests, [&] {
      std::array<MPI_Status, kPlaces> statuses;
      const std::vector<int> places = some_of(call, requests, statuses);
      for (std::size_t i = 0; i < places.size(); ++i) expect_status(places[i], statuses[i]);
      return places;
    });
  }
}

TEST_F(Requests, RequestGetStatusLeavesThemAll) {
  auto requests = start();
  for (int i = 0; i < kPlaces; ++i) {
    MPI_Status status;
    for (int flag = 0; !flag;)
      EXPECT_MPI_OK(MPI_Request_get_status(requests[static_cast<std::size_t>(i)], &flag, &status));
    expect_status(i, status);
  }
  EXPECT_NE(requests[kWrite], MPI_REQUEST_NULL);
  EXPECT_MPI_OK(MPI_Waitall(kPlaces, requests.data(), MPI_STATUSES_IGNORE));
  finish(requests);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
TEST_F(Requests, RequestGetStatusAllLeavesThemAll) {
  auto requests = start();
  std::array<MPI_Status, kPlaces> statuses;
  for (int flag = 0; !flag;)
    EXPECT_MPI_OK(MPI_Request_get_status_all(kPlaces, requests.data(), &flag, statuses.data()));
  for (int i = 0; i < kPlaces; ++i) expect_status(i, statuses[static_cast<std::size_t>(i)]);
  EXPECT_NE(requests[kWrite], MPI_REQUEST_NULL);
  EXPECT_MPI_OK(MPI_Waitall(kPlaces, requests.data(), MPI_STATUSES_IGNORE));
  finish(requests);
}

TEST_F(Requests, RequestGetStatusAnyFindsThoseOfFiles) {
  auto requests = start();
  for (const int at : {kWrite, kRead}) {  // alone among what completes nothing
    std::array<MPI_Request, 3> few = {MPI_REQUEST_NULL, requests[kInactive], requests[static_cast<std::size_t>(at)]};
    int index = -1;
    MPI_Status status;
    for (int flag = 0; !flag;) EXPECT_MPI_OK(MPI_Request_get_status_any(3, few.data(), &index, &flag, &status));
    EXPECT_EQ(index, 2);
    expect_status(at, status);
  }
  EXPECT_MPI_OK(MPI_Waitall(kPlaces, requests.data(), MPI_STATUSES_IGNORE));
  finish(requests);
}

TEST_F(Requests, RequestGetStatusSomeFindsAllThatAreDone) {
  auto requests = start();
  std::array<MPI_Status, kPlaces> statuses;
  std::array<int, kPlaces> indices;
  std::set<int> seen;  // of messages MPICH 5.0.2 tells little: those are its own business
  const double start = MPI_Wtime();
  while (!(seen.count(kWrite) && seen.count(kRead)) && MPI_Wtime() - start < 10) {
    int count = 0;
    EXPECT_MPI_OK(MPI_Request_get_status_some(kPlaces, requests.data(), &count, indices.data(), statuses.data()));
    for (int i = 0; i < count; ++i)
      expect_status(indices[static_cast<std::size_t>(i)], statuses[static_cast<std::size_t>(i)]);
    if (count > 0) seen.insert(indices.begin(), indices.begin() + count);
  }
  EXPECT_EQ(seen.count(kWrite), 1u);
  EXPECT_EQ(seen.count(kRead), 1u);
  EXPECT_EQ(seen.count(kNull) + seen.count(kInactive), 0u);
  EXPECT_MPI_OK(MPI_Waitall(kPlaces, requests.data(), MPI_STATUSES_IGNORE));
  finish(requests);
}
#endif

// ---- Failed accesses

TEST_F(Requests, WaitallSaysErrInStatusAndEachStatusItsOwn) {
  auto requests = start_failing();
  std::array<MPI_Status, kFailingPlaces> statuses;
  EXPECT_EQ(class_of(MPI_Waitall(kFailingPlaces, requests.data(), statuses.data())), MPI_ERR_IN_STATUS);
  expect_errors(statuses);
  EXPECT_EQ(requests[kFails], MPI_REQUEST_NULL);
  requests = start_failing();
  EXPECT_EQ(class_of(MPI_Waitall(kFailingPlaces, requests.data(), MPI_STATUSES_IGNORE)), MPI_ERR_IN_STATUS);
}

TEST_F(Requests, TestallSaysErrInStatusAndEachStatusItsOwn) {
  auto requests = start_failing();
  std::array<MPI_Status, kFailingPlaces> statuses;
  int code = MPI_SUCCESS;
  for (int flag = 0; !flag;) code = MPI_Testall(kFailingPlaces, requests.data(), &flag, statuses.data());
  EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS);
  expect_errors(statuses);
}

TEST_F(Requests, WaitsomeAndTestsomeSayErrInStatus) {
  for (const SomeCall call : {&MPI_Waitsome, &MPI_Testsome}) {
    auto requests = start_failing();
    std::array<MPI_Status, kFailingPlaces> all{};
    for (int done = 0; done < 4;) {
      int count = 0;
      std::array<int, kFailingPlaces> indices;
      std::array<MPI_Status, kFailingPlaces> statuses;
      const int code = call(kFailingPlaces, requests.data(), &count, indices.data(), statuses.data());
      bool failed = false;
      for (int i = 0; i < count; ++i) {
        const int at = indices[static_cast<std::size_t>(i)];
        all[static_cast<std::size_t>(at)] = statuses[static_cast<std::size_t>(i)];
        const bool fails = at == kFails || at == kFailsToo;
        if (!fails && code == MPI_SUCCESS) all[static_cast<std::size_t>(at)].MPI_ERROR = MPI_SUCCESS;
        failed = failed || fails;
      }
      EXPECT_EQ(class_of(code), failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
      ASSERT_NE(count, MPI_UNDEFINED);
      done += count;
    }
    all[kIdle].MPI_ERROR = all[kNothing].MPI_ERROR = MPI_SUCCESS;
    expect_errors(all);
  }
}

struct Heard {
  MPI_File file = MPI_FILE_NULL;
  int calls = 0;
} heard;
void hear(MPI_File* file, int*, ...) {
  heard.file = *file;
  ++heard.calls;
}

TEST_F(Requests, OneRequestReturnsItsCodeAndItsFilesHandlerIsCalledOnce) {
  MPI_Errhandler handler;
  MPI_File_create_errhandler(hear, &handler);
  MPI_File_set_errhandler(full_, handler);
  const auto fails = [&](const std::function<int(MPI_Request*)>& complete) {
    heard = {};
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_MPI_OK(MPI_File_iwrite_at(full_, 0, out_.data(), 10, MPI_INT, &request));
    const int code = complete(&request);
    EXPECT_EQ(class_of(code), MPI_ERR_NO_SPACE) << text_of(code);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    EXPECT_EQ(heard.calls, 1);
    EXPECT_EQ(heard.file, full_);
  };
  int index = -1;
  fails([](MPI_Request* request) { return MPI_Wait(request, MPI_STATUS_IGNORE); });
  fails([](MPI_Request* request) {
    int flag = 0, code = MPI_SUCCESS;
    while (!flag) code = MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    return code;
  });
  fails([&](MPI_Request* request) { return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE); });
  EXPECT_EQ(index, 0);
  fails([&](MPI_Request* request) {
    int flag = 0, code = MPI_SUCCESS;
    while (!flag) code = MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE);
    return code;
  });
  EXPECT_EQ(index, 0);
  fails([](MPI_Request* request) {  // asking changes nothing: the error waits for the completion
    for (int flag = 0; !flag;) EXPECT_MPI_OK(MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(heard.calls, 0);
    return MPI_Wait(request, MPI_STATUS_IGNORE);
  });
  MPI_Errhandler_free(&handler);
}

}  // namespace
}  // namespace stridio::testing
