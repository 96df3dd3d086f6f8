// The named acceptance tests of plain calls: counts, failed opens, bad views, `_c` functions, access modes. Those of
// atomic mode and of consistency are in consistency_test.cc, of progress in no_progress_test.cc, of size in
// large_test.cc, of requests in request_test.cc, of memory in out_of_memory_test.cc, of the shared pointer's file in pointer_file_test.cc.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>

#include "mpi/mpi_fixture.h"
#include "mpi/prototypes.h"

namespace stridio::testing {
namespace {

class Acceptance : public MpiTest {
 protected:
  // The file holds 0, 1, 2 ... ; made without MPI.
  void fill(int count) const {
    if (rank() == 0) {
      std::vector<int> values(static_cast<std::size_t>(count));
      std::iota(values.begin(), values.end(), 0);
      std::FILE* file = std::fopen(path().c_str(), "wb");
      EXPECT_EQ(std::fwrite(values.data(), 4, values.size(), file), values.size());
      std::fclose(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  long sum_over_ranks(long mine) const {
    long sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return sum;
  }

  MPI_Offset bytes_on_disk() const { return static_cast<MPI_Offset>(std::filesystem::file_size(path())); }
};

// ---- Counts

class ReadPastTheEnd : public Acceptance {
 protected:
  static constexpr int kThere = 5, kAsked = 10;

  // Five ints, of which ten are asked for, by whatever `read` is.
  void expect_five(const char* how, const std::function<int(MPI_File, int*, MPI_Status*)>& read) {
    SCOPED_TRACE(how);
    MPI_File fh = open(MPI_MODE_RDONLY);
    std::vector<int> values(kAsked, -1);
    MPI_Status status;
    EXPECT_MPI_OK(read(fh, values.data(), &status));
    EXPECT_EQ(ints(status), kThere);
    int bytes = 0, elements = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Get_elements(&status, MPI_INT, &elements);
    EXPECT_EQ(bytes, 4 * kThere);
    EXPECT_EQ(elements, kThere);
    EXPECT_EQ(values, (std::vector<int>{0, 1, 2, 3, 4, -1, -1, -1, -1, -1}));
    EXPECT_MPI_OK(MPI_File_close(&fh));
  }

  static int finish(int started, MPI_Request* request, MPI_Status* status) {
    return started == MPI_SUCCESS ? MPI_Wait(request, status) : started;
  }
};

TEST_F(ReadPastTheEnd, Counts5Not10InEveryIndependentCall) {
  fill(kThere);
  expect_five("read_at",
              [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read_at(fh, 0, to, kAsked, MPI_INT, s); });
  expect_five("read", [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read(fh, to, kAsked, MPI_INT, s); });
  expect_five("iread_at", [](MPI_File fh, int* to, MPI_Status* s) {
    MPI_Request request;
    return finish(MPI_File_iread_at(fh, 0, to, kAsked, MPI_INT, &request), &request, s);
  });
  expect_five("iread", [](MPI_File fh, int* to, MPI_Status* s) {
    MPI_Request request;
    return finish(MPI_File_iread(fh, to, kAsked, MPI_INT, &request), &request, s);
  });
  expect_five("read_at_c",
              [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read_at_c(fh, 0, to, kAsked, MPI_INT, s); });
  expect_five("iread_c", [](MPI_File fh, int* to, MPI_Status* s) {
    MPI_Request request;
    return finish(MPI_File_iread_c(fh, to, kAsked, MPI_INT, &request), &request, s);
  });
}

TEST_F(ReadPastTheEnd, Counts5Not10InEveryCollectiveCall) {
  fill(kThere);
  expect_five("read_at_all",
              [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read_at_all(fh, 0, to, kAsked, MPI_INT, s); });
  expect_five("read_all",
              [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read_all(fh, to, kAsked, MPI_INT, s); });
  expect_five("read_all_c",
              [](MPI_File fh, int* to, MPI_Status* s) { return MPI_File_read_all_c(fh, to, kAsked, MPI_INT, s); });
  expect_five("iread_at_all", [](MPI_File fh, int* to, MPI_Status* s) {
    MPI_Request request;
    return finish(MPI_File_iread_at_all(fh, 0, to, kAsked, MPI_INT, &request), &request, s);
  });
  expect_five("iread_all_c", [](MPI_File fh, int* to, MPI_Status* s) {
    MPI_Request request;
    return finish(MPI_File_iread_all_c(fh, to, kAsked, MPI_INT, &request), &request, s);
  });
  expect_five("read_at_all_begin", [](MPI_File fh, int* to, MPI_Status* s) {
    const int code = MPI_File_read_at_all_begin(fh, 0, to, kAsked, MPI_INT);
    return code == MPI_SUCCESS ? MPI_File_read_at_all_end(fh, to, s) : code;
  });
  expect_five("read_all_begin_c", [](MPI_File fh, int* to, MPI_Status* s) {
    const int code = MPI_File_read_all_begin_c(fh, to, kAsked, MPI_INT);
    return code == MPI_SUCCESS ? MPI_File_read_all_end(fh, to, s) : code;
  });
}

TEST_F(ReadPastTheEnd, CountsWhatIsThereByTheSharedPointer) {
  fill(kThere);
  MPI_File fh = open(MPI_MODE_RDONLY);
  MPI_Status status;
  std::vector<int> values(kAsked, -1);
  EXPECT_MPI_OK(MPI_File_read_shared(fh, values.data(), kAsked, MPI_INT, &status));
  EXPECT_EQ(sum_over_ranks(ints(status)), kThere);  // the first gets all, the others stand past the end
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
  EXPECT_MPI_OK(MPI_File_read_ordered(fh, values.data(), 3, MPI_INT, &status));
  EXPECT_EQ(ints(status), std::clamp(kThere - 3 * rank(), 0, 3));
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
  EXPECT_MPI_OK(MPI_File_read_ordered_begin(fh, values.data(), 3, MPI_INT));
  EXPECT_MPI_OK(MPI_File_read_ordered_end(fh, values.data(), &status));
  EXPECT_EQ(ints(status), std::clamp(kThere - 3 * rank(), 0, 3));
  MPI_File_close(&fh);
}

TEST_F(ReadPastTheEnd, InTheMiddleBehindAndThroughHoles) {
  fill(kThere);
  MPI_File fh = open(MPI_MODE_RDONLY);
  MPI_Status status;
  std::vector<int> values(kAsked, -1);
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 12, values.data(), kAsked, MPI_INT, &status));
  EXPECT_EQ(ints(status), 2);
  EXPECT_MPI_OK(MPI_File_read_at(fh, 1000, values.data(), kAsked, MPI_INT, &status));
  EXPECT_EQ(ints(status), 0);
  EXPECT_MPI_OK(MPI_File_read_at(fh, 18, values.data(), kAsked, MPI_INT, &status));  // half an int
  EXPECT_EQ(ints(status), MPI_UNDEFINED);
  MPI_Datatype every_other;
  MPI_Type_create_resized(MPI_INT, 0, 8, &every_other);
  MPI_Type_commit(&every_other);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, every_other, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, values.data(), kAsked, MPI_INT, &status));
  EXPECT_EQ(ints(status), 3);
  EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), kAsked, MPI_INT, &status));
  EXPECT_EQ(ints(status), 3);
  EXPECT_EQ(std::vector<int>(values.begin(), values.begin() + 3), (std::vector<int>{0, 2, 4}));
  MPI_Type_free(&every_other);
  MPI_File_close(&fh);
}

TEST_F(Acceptance, CountWithHoledViewsIsThatOfTheData) {
  constexpr int kCount = 1000;
  MPI_File fh = open();
  MPI_Datatype own, holed;
  MPI_Type_create_resized(MPI_INT, 0, 4 * (size() + 1), &own);  // the last of each cycle is nobody's
  MPI_Type_commit(&own);
  MPI_Type_vector(kCount, 1, 3, MPI_INT, &holed);
  MPI_Type_commit(&holed);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 4 * rank(), MPI_INT, own, "native", MPI_INFO_NULL));
  std::vector<int> values(3 * kCount, rank());
  const auto expect_whole = [&](const MPI_Status& status) {
    int whole = -1;
    MPI_Count bytes = -1;
    EXPECT_EQ(ints(status), kCount);
    MPI_Get_count(&status, holed, &whole);
    EXPECT_EQ(whole, 1);
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    EXPECT_EQ(bytes, 4 * kCount);
  };
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_write_all(fh, values.data(), 1, holed, &status));
  expect_whole(status);
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), 1, holed, &status));
  expect_whole(status);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, values.data(), 1, holed, &status));
  expect_whole(status);
  EXPECT_MPI_OK(MPI_File_read_at(fh, 0, values.data(), 1, holed, &status));
  expect_whole(status);
  EXPECT_MPI_OK(MPI_File_read_at(fh, kCount - 7, values.data(), 20, MPI_INT, &status));
  EXPECT_EQ(ints(status), 7);
  MPI_Type_free(&holed);
  MPI_Type_free(&own);
  MPI_File_close(&fh);
}

class ZeroLength : public Acceptance {
 protected:
  // Every collective form; ranks for which `takes_part` is false give no bytes. Values come back by another form.
  void run(const std::function<bool(int)>& takes_part) {
    const int count = takes_part(rank()) ? 4 : 0;
    const MPI_Offset at = rank() * 4;
    std::vector<int> out(4, rank() + 1), in(4, -1);
    int* const from = count > 0 ? out.data() : nullptr;
    int* const to = count > 0 ? in.data() : nullptr;
    MPI_File fh = open();
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Status status;
    MPI_Request request;
    const auto expect_moved = [&] { EXPECT_EQ(ints(status), count); };
    const auto expect_back = [&] {
      expect_moved();
      if (count > 0) {
        EXPECT_EQ(in, out);
      }
      std::fill(in.begin(), in.end(), -1);
    };
    EXPECT_MPI_OK(MPI_File_write_at_all(fh, at, from, count, MPI_INT, &status));
    expect_moved();
    EXPECT_MPI_OK(MPI_File_read_at_all(fh, at, to, count, MPI_INT, &status));
    expect_back();
    EXPECT_MPI_OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
    EXPECT_MPI_OK(MPI_File_write_all(fh, from, count, MPI_INT, &status));
    expect_moved();
    EXPECT_MPI_OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
    EXPECT_MPI_OK(MPI_File_read_all_begin(fh, to, count, MPI_INT));
    EXPECT_MPI_OK(MPI_File_read_all_end(fh, to, &status));
    expect_back();
    EXPECT_MPI_OK(MPI_File_iwrite_at_all(fh, at, from, count, MPI_INT, &request));
    EXPECT_MPI_OK(MPI_Wait(&request, &status));
    expect_moved();
    EXPECT_MPI_OK(MPI_File_iread_at_all(fh, at, to, count, MPI_INT, &request));
    EXPECT_MPI_OK(MPI_Wait(&request, &status));
    expect_back();
    EXPECT_MPI_OK(MPI_File_write_ordered(fh, from, count, MPI_INT, &status));
    expect_moved();
    EXPECT_MPI_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
    EXPECT_MPI_OK(MPI_File_read_ordered(fh, to, count, MPI_INT, &status));
    expect_back();
    MPI_File_close(&fh);
  }
};

TEST_F(ZeroLength, CollectivesOfAllRanks) {
  run([](int) { return false; });
  EXPECT_EQ(bytes_on_disk(), 0);
}
TEST_F(ZeroLength, CollectivesOfAllButTheFirst) {
  run([](int rank) { return rank == 0; });
}
TEST_F(ZeroLength, CollectivesOfAllButTheLast) {
  const int last = size() - 1;
  run([last](int rank) { return rank == last; });
}
TEST_F(ZeroLength, CollectivesOfEveryOther) {
  run([](int rank) { return rank % 2 == 1; });
}

TEST_F(ZeroLength, TypesWithoutBytes) {
  MPI_File fh = open();
  MPI_Datatype nothing;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  MPI_Type_commit(&nothing);
  int value = 5;
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, &value, 7, nothing, &status));
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, 0, &value, rank() == 0 ? 7 : 0, nothing, &status));
  int bytes = -1;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  EXPECT_EQ(bytes, 0);
  MPI_Type_free(&nothing);
  MPI_File_close(&fh);
}

// ---- Errors

struct Call {
  MPI_File file;
  int code;
};
std::vector<Call> calls;
void note_call(MPI_File* file, int* code, ...) { calls.push_back({*file, *code}); }

TEST_F(Acceptance, AFailedOpenCallsTheHandlerOfFileNull) {
  MPI_Errhandler handler;
  ASSERT_EQ(MPI_File_create_errhandler(note_call, &handler), MPI_SUCCESS);
  ASSERT_EQ(MPI_File_set_errhandler(MPI_FILE_NULL, handler), MPI_SUCCESS);
  calls.clear();
  MPI_File fh = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].file, MPI_FILE_NULL);
  EXPECT_EQ(calls[0].code, code);
  EXPECT_EQ(class_of(code), MPI_ERR_NO_SUCH_FILE);
  EXPECT_EQ(fh, MPI_FILE_NULL);
  // Deleting what is not there is an error without a file, too.
  EXPECT_EQ(class_of(MPI_File_delete(path().c_str(), MPI_INFO_NULL)), MPI_ERR_NO_SUCH_FILE);
  EXPECT_EQ(calls.size(), 2u);
  // A file inherits it at its opening and keeps it.
  fh = open();
  EXPECT_MPI_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
  EXPECT_EQ(class_of(MPI_File_seek(fh, -1, MPI_SEEK_SET)), MPI_ERR_ARG);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[2].file, fh);
  MPI_File_close(&fh);
  EXPECT_EQ(class_of(MPI_File_sync(MPI_FILE_NULL)), MPI_ERR_FILE);
  EXPECT_EQ(calls.size(), 3u) << "the handler was taken back";
  MPI_Errhandler_free(&handler);
}

TEST_F(Acceptance, ABadSetViewIsAnErrorOnAllRanksAndTheOldViewStays) {
  const auto blocks = [](std::initializer_list<int> at, bool commit = true) {
    MPI_Datatype type;
    MPI_Type_create_indexed_block(static_cast<int>(at.size()), 2, at.begin(), MPI_INT, &type);
    if (commit) MPI_Type_commit(&type);
    return type;
  };
  MPI_Datatype unsorted = blocks({8, 0}), overlapping = blocks({0, 1}), negative = blocks({-4, 0});
  MPI_Datatype raw = blocks({0, 4}, false), torn, odd;
  MPI_Type_vector(4, 2, 5, MPI_BYTE, &torn);
  MPI_Type_commit(&torn);
  MPI_Type_contiguous(6, MPI_BYTE, &odd);
  MPI_Type_commit(&odd);
  struct Bad {
    const char* what;
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    const char* datarep;
    int error_class;
  };
  const Bad all[] = {
      {"negative displacement", -4711, MPI_INT, MPI_INT, "native", MPI_ERR_ARG},
      {"null etype", 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_ERR_TYPE},
      {"null file type", 0, MPI_INT, MPI_DATATYPE_NULL, "native", MPI_ERR_TYPE},
      {"uncommitted etype", 0, raw, MPI_INT, "native", MPI_ERR_TYPE},
      {"uncommitted file type", 0, MPI_INT, raw, "native", MPI_ERR_TYPE},
      {"size no multiple of the etype's", 0, MPI_INT, odd, "native", MPI_ERR_ARG},
      {"pieces that tear etypes", 0, MPI_INT, torn, "native", MPI_ERR_ARG},
      {"unsorted displacements", 0, MPI_INT, unsorted, "native", MPI_ERR_TYPE},
      {"overlaps in a file to write", 0, MPI_INT, overlapping, "native", MPI_ERR_TYPE},
      {"negative displacements in the type", 0, MPI_INT, negative, "native", MPI_ERR_TYPE},
      {"unknown representation", 0, MPI_INT, MPI_INT, "martian", MPI_ERR_UNSUPPORTED_DATAREP},
      {"displacement of sequential files", MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_ERR_ARG},
  };
  MPI_File fh = open();
  MPI_Datatype own;
  MPI_Type_create_resized(MPI_INT, 0, 4 * size(), &own);
  MPI_Type_commit(&own);
  ASSERT_EQ(MPI_File_set_view(fh, 100 + 4 * rank(), MPI_INT, own, "native", MPI_INFO_NULL), MPI_SUCCESS);
  EXPECT_MPI_OK(MPI_File_seek(fh, 5, MPI_SEEK_SET));
  EXPECT_MPI_OK(MPI_File_seek_shared(fh, 6, MPI_SEEK_SET));
  for (const bool everywhere : {true, false}) {  // or on the last rank alone
    for (const Bad& bad : all) {
      const bool mine = everywhere || rank() == size() - 1;
      const int code = MPI_File_set_view(fh, mine ? bad.displacement : 0, mine ? bad.etype : MPI_INT,
                                         mine ? bad.filetype : MPI_INT, mine ? bad.datarep : "native", MPI_INFO_NULL);
      EXPECT_EQ(class_of(code), bad.error_class) << bad.what << ": " << text_of(code);
      MPI_Offset displacement = -1, position = -1, shared = -1, byte = -1;
      MPI_Datatype etype, filetype;
      char datarep[MPI_MAX_DATAREP_STRING + 1] = {};
      EXPECT_MPI_OK(MPI_File_get_view(fh, &displacement, &etype, &filetype, datarep));
      EXPECT_EQ(displacement, 100 + 4 * rank()) << bad.what;
      EXPECT_EQ(etype, MPI_INT) << bad.what;
      EXPECT_STREQ(datarep, "native") << bad.what;
      MPI_Type_free(&filetype);
      EXPECT_MPI_OK(MPI_File_get_byte_offset(fh, 2, &byte));
      EXPECT_EQ(byte, 100 + 4 * (rank() + 2 * size())) << bad.what;
      EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
      EXPECT_EQ(position, 5) << bad.what;
      EXPECT_MPI_OK(MPI_File_get_position_shared(fh, &shared));
      EXPECT_EQ(shared, 6) << bad.what;
    }
  }
  std::vector<int> values(3, rank());
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, 0, values.data(), 3, MPI_INT, MPI_STATUS_IGNORE));
  MPI_File_close(&fh);
  EXPECT_EQ(bytes_on_disk(), 100 + 12 * size());
  for (MPI_Datatype* type : {&unsorted, &overlapping, &negative, &raw, &torn, &odd, &own}) MPI_Type_free(type);
}

// ---- Large counts

class LargeCount : public Acceptance {
 protected:
  static constexpr MPI_Count kCount = 3;
  using Move = std::function<int(MPI_File, MPI_Offset, int*, MPI_Status*)>;

  // Writes three ints a rank at a place of its own, and reads them back. Counts and values are right.
  void round_trip(const char* how, const Move& write, const Move& read) {
    SCOPED_TRACE(how);
    MPI_File fh = open();
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    ++stamp_;
    std::vector<int> out(kCount, 100 * stamp_ + rank()), in(kCount, -1);
    const MPI_Offset at = rank() * kCount;
    const auto move = [&](const Move& call, std::vector<int>& values) {
      EXPECT_MPI_OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
      EXPECT_MPI_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
      MPI_Status status;
      EXPECT_MPI_OK(call(fh, at, values.data(), &status));
      EXPECT_EQ(ints(status), kCount);
      MPI_Barrier(MPI_COMM_WORLD);
    };
    move(write, out);
    move(read, in);
    EXPECT_EQ(in, std::vector<int>(kCount, in.front()));  // by a shared pointer it may be another rank's
    EXPECT_EQ(sum_over_ranks(in.front()), sum_over_ranks(out.front()));
    MPI_File_close(&fh);
  }

  static int wait(int started, MPI_Request* request, MPI_Status* status) {
    return started == MPI_SUCCESS ? MPI_Wait(request, status) : started;
  }

 private:
  int stamp_ = 0;
};

#define CALL(name, ...) \
  [](MPI_File fh, MPI_Offset at, int* data, MPI_Status* status) { return (void)at, MPI_File_##name(__VA_ARGS__); }
#define START(name, ...)                                                             \
  [](MPI_File fh, MPI_Offset at, int* data, MPI_Status* status) {                    \
    MPI_Request request;                                                             \
    return (void)at, wait(MPI_File_##name(__VA_ARGS__, &request), &request, status); \
  }
#define SPLIT(name, ...)                                                         \
  [](MPI_File fh, MPI_Offset at, int* data, MPI_Status* status) {                \
    const int code = ((void)at, MPI_File_##name##_begin_c(__VA_ARGS__));         \
    return code == MPI_SUCCESS ? MPI_File_##name##_end(fh, data, status) : code; \
  }
#define BOTH(form, write, read, ...) \
  round_trip("MPI_File_" #write "_c / " #read "_c", form(write##_c, __VA_ARGS__), form(read##_c, __VA_ARGS__))
#define BOTH_SPLIT(write, read, ...) \
  round_trip("MPI_File_" #write "_begin_c / " #read "_begin_c", SPLIT(write, __VA_ARGS__), SPLIT(read, __VA_ARGS__))

TEST_F(LargeCount, FunctionsOfAllFamiliesMoveData) {
  BOTH(CALL, write_at, read_at, fh, at, data, kCount, MPI_INT, status);
  BOTH(CALL, write_at_all, read_at_all, fh, at, data, kCount, MPI_INT, status);
  BOTH(CALL, write, read, fh, data, kCount, MPI_INT, status);
  BOTH(CALL, write_all, read_all, fh, data, kCount, MPI_INT, status);
  BOTH(CALL, write_shared, read_shared, fh, data, kCount, MPI_INT, status);
  BOTH(CALL, write_ordered, read_ordered, fh, data, kCount, MPI_INT, status);
  BOTH(START, iwrite_at, iread_at, fh, at, data, kCount, MPI_INT);
  BOTH(START, iwrite_at_all, iread_at_all, fh, at, data, kCount, MPI_INT);
  BOTH(START, iwrite, iread, fh, data, kCount, MPI_INT);
  BOTH(START, iwrite_all, iread_all, fh, data, kCount, MPI_INT);
  BOTH(START, iwrite_shared, iread_shared, fh, data, kCount, MPI_INT);
  BOTH_SPLIT(write_at_all, read_at_all, fh, at, data, kCount, MPI_INT);
  BOTH_SPLIT(write_all, read_all, fh, data, kCount, MPI_INT);
  BOTH_SPLIT(write_ordered, read_ordered, fh, data, kCount, MPI_INT);
  MPI_File fh = open();
  MPI_Count extent = 0;
  EXPECT_MPI_OK(MPI_File_get_type_extent_c(fh, MPI_INT, &extent));
  EXPECT_EQ(extent, 4);
  MPI_File_close(&fh);
}

TEST_F(LargeCount, CountsThatCannotBeAreErrors) {
  MPI_File fh = open();
  int value = 0;
  MPI_Status status;
  constexpr MPI_Count kMost = std::numeric_limits<MPI_Count>::max();
  EXPECT_MPI_ERROR(MPI_File_write_at_c(fh, 0, &value, kMost, MPI_INT, &status), MPI_ERR_COUNT, "2^63");
  EXPECT_MPI_ERROR(MPI_File_read_c(fh, &value, MPI_Count{-1}, MPI_INT, &status), MPI_ERR_COUNT, "-1");
  EXPECT_MPI_ERROR(MPI_File_write_at_all_c(fh, 0, &value, rank() == 0 ? kMost : 1, MPI_INT, &status), MPI_ERR_COUNT,
                   "2^63");
  MPI_File_close(&fh);
}

// ---- Access modes

TEST_F(Acceptance, ExclRaceIsWonByExactlyOne) {
  for (int round = 0; round < 20; ++round) {
    const std::string name = path() + "-" + std::to_string(round);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File fh = MPI_FILE_NULL;
    const int code =
        MPI_File_open(MPI_COMM_SELF, name.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &fh);
    EXPECT_TRUE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_FILE_EXISTS) << text_of(code);
    EXPECT_EQ(sum_over_ranks(code == MPI_SUCCESS ? 1 : 0), 1);
    if (code == MPI_SUCCESS) MPI_File_close(&fh);
  }
}

TEST_F(Acceptance, ExclusiveCreationByAGroupFailsOnAllOrNone) {
  const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL;
  MPI_File fh = open(amode), again;
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, path().c_str(), amode, MPI_INFO_NULL, &again), MPI_ERR_FILE_EXISTS,
                   path());
  MPI_File_close(&fh);
}

TEST_F(Acceptance, DeleteOnCloseRemovesTheFileAtTheEnd) {
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
  write_ints(fh, rank() * 4, {rank()});
  EXPECT_EQ(access(path().c_str(), F_OK), 0) << "not before it is closed";
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(read_ints(fh, ((rank() + 1) % size()) * 4, 1), std::vector<int>{(rank() + 1) % size()});
  EXPECT_MPI_OK(MPI_File_close(&fh));
  EXPECT_EQ(fh, MPI_FILE_NULL);
  EXPECT_NE(access(path().c_str(), F_OK), 0);
  // One that is gone already is an error of the close, on all ranks, and the handle is free all the same.
  fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
  if (rank() == 0) unlink(path().c_str());
  EXPECT_MPI_ERROR(MPI_File_close(&fh), MPI_ERR_NO_SUCH_FILE, path());
  EXPECT_EQ(fh, MPI_FILE_NULL);
}

TEST_F(Acceptance, UniqueOpenNeverChangesWhatNobodyWrites) {
  fill(1000 * (size() + 1));
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_UNIQUE_OPEN);
  MPI_Datatype own;
  MPI_Type_create_resized(MPI_INT, 0, 4 * (size() + 1), &own);
  MPI_Type_commit(&own);
  EXPECT_MPI_OK(MPI_File_set_view(fh, 4 * rank(), MPI_INT, own, "native", MPI_INFO_NULL));
  const std::vector<int> values(1000, -1 - rank());
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), 500, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_write_at_all(fh, 500, values.data(), 500, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_sync(fh));
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  const int all = 1000 * (size() + 1);
  const std::vector<int> now = read_ints(fh, 0, all);
  ASSERT_EQ(now.size(), static_cast<std::size_t>(all));
  for (int i = 0; i < all; ++i) {
    const int owner = i % (size() + 1);
    ASSERT_EQ(now[static_cast<std::size_t>(i)], owner == size() ? i : -1 - owner) << i;
  }
  MPI_Type_free(&own);
  MPI_File_close(&fh);
}

// MPI-4.1 section 14.2.1: reading or writing from start to end through the shared pointer, and nothing else.
TEST_F(Acceptance, SequentialAllowsTheSharedPointerOnly) {
  MPI_File fh = open(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
  int value = 7;
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Offset offset = 0;
  EXPECT_MPI_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_iwrite_shared(fh, &value, 1, MPI_INT, &request));
  EXPECT_MPI_OK(MPI_Wait(&request, &status));
  EXPECT_MPI_OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, &status));
  EXPECT_MPI_OK(MPI_File_write_ordered_begin(fh, &value, 1, MPI_INT));
  EXPECT_MPI_OK(MPI_File_write_ordered_end(fh, &value, &status));
  EXPECT_MPI_OK(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, &status));

  const auto refused = [](int code, const char* what) {
    EXPECT_EQ(class_of(code), MPI_ERR_UNSUPPORTED_OPERATION) << what << ": " << text_of(code);
  };
  refused(MPI_File_write(fh, &value, 1, MPI_INT, &status), "write");
  refused(MPI_File_write_at(fh, 0, &value, 1, MPI_INT, &status), "write_at");
  refused(MPI_File_write_all(fh, &value, 1, MPI_INT, &status), "write_all");
  refused(MPI_File_write_at_all(fh, 0, &value, 1, MPI_INT, &status), "write_at_all");
  refused(MPI_File_write_all_begin(fh, &value, 1, MPI_INT), "write_all_begin");
  refused(MPI_File_iwrite(fh, &value, 1, MPI_INT, &request), "iwrite");
  refused(MPI_File_iwrite_at(fh, 0, &value, 1, MPI_INT, &request), "iwrite_at");
  refused(MPI_File_seek(fh, 0, MPI_SEEK_SET), "seek");
  refused(MPI_File_get_position(fh, &offset), "get_position");
  refused(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET), "seek_shared");
  refused(MPI_File_get_position_shared(fh, &offset), "get_position_shared");
  EXPECT_MPI_ERROR(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG,
                   "MPI_DISPLACEMENT_CURRENT");
  MPI_File_close(&fh);
  EXPECT_EQ(bytes_on_disk(), 20 * size());

  fh = open(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
  std::vector<int> values(5, -1);
  EXPECT_MPI_OK(MPI_File_read_ordered(fh, values.data(), 5, MPI_INT, &status));
  EXPECT_EQ(values, std::vector<int>(5, 7));
  EXPECT_MPI_OK(MPI_File_read_shared(fh, values.data(), 1, MPI_INT, &status));
  EXPECT_EQ(ints(status), 0) << "at the end";
  MPI_File_close(&fh);
  EXPECT_EQ(
      class_of(MPI_File_open(MPI_COMM_WORLD, path().c_str(), MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &fh)),
      MPI_ERR_AMODE);
}

TEST_F(Acceptance, AppendStartsBothPointersAtTheEnd) {
  fill(2);
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_APPEND);
  MPI_Offset position = 0;
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 8);
  EXPECT_MPI_OK(MPI_File_get_position_shared(fh, &position));
  EXPECT_EQ(position, 8);
  MPI_Barrier(MPI_COMM_WORLD);
  const int value = rank() + 10;
  EXPECT_MPI_OK(MPI_File_write_ordered(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  if (rank() == 0) EXPECT_MPI_OK(MPI_File_write(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));  // over the same place
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<int> expected = {0, 1};
  for (int r = 0; r < size(); ++r) expected.push_back(r + 10);
  EXPECT_EQ(read_ints(fh, 0, size() + 5), expected);
  // Only the start is at the end: a view begins anew, as everywhere.
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  EXPECT_MPI_OK(MPI_File_get_position(fh, &position));
  EXPECT_EQ(position, 0);
  MPI_File_close(&fh);
  fh = open(MPI_MODE_WRONLY | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL);
  EXPECT_MPI_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_File_close(&fh);
  EXPECT_EQ(bytes_on_disk(), 8 + 8 * size());
}

}  // namespace
}  // namespace stridio::testing
