// What belongs to a handle: error handlers, groups, hints, integers, data representations' extents, split collectives and requests.
#include <dlfcn.h>

#include <cstring>
#include <thread>

#include "mpi/mpi_fixture.h"
#include "mpi/prototypes.h"

namespace stridio::testing {
namespace {

using Handle = MpiTest;

struct Seen {
  MPI_File file;
  int code;
  int calls = 0;
};
Seen seen;

void remember(MPI_File* file, int* code, ...) {
  seen.file = *file;
  seen.code = *code;
  ++seen.calls;
}

void ignore_comm(MPI_Comm*, int*, ...) {}

int fail_on(MPI_File fh) {
  int value = 0;
  MPI_Status status;
  return MPI_File_write_at(fh, 0, &value, -1, MPI_INT, &status);
}

TEST_F(Handle, TheFunctionsAreStridios) {
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&MPI_File_open), &info), 0);
  EXPECT_NE(std::strstr(info.dli_fname, "libstridio-"), nullptr) << info.dli_fname;
}

TEST_F(Handle, UserErrorHandlersGetTheSameHandleAndCode) {
  MPI_File fh = open();
  MPI_Errhandler handler;
  EXPECT_MPI_OK(MPI_File_create_errhandler(remember, &handler));
  EXPECT_MPI_OK(MPI_File_set_errhandler(fh, handler));
  MPI_Errhandler_free(&handler);  // the file keeps it
  EXPECT_EQ(handler, MPI_ERRHANDLER_NULL);
  seen = {};
  const int code = fail_on(fh);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.file, fh);
  EXPECT_EQ(seen.code, code);
  EXPECT_EQ(class_of(code), MPI_ERR_COUNT);
  EXPECT_MPI_OK(MPI_File_call_errhandler(fh, MPI_ERR_QUOTA));
  EXPECT_EQ(seen.calls, 2);
  EXPECT_EQ(class_of(seen.code), MPI_ERR_QUOTA);
  MPI_File_close(&fh);
}

TEST_F(Handle, GetErrhandlerGivesAReferenceThatSetAccepts) {
  MPI_File first = open(), second = open();
  MPI_Errhandler made, got;
  MPI_File_create_errhandler(remember, &made);
  MPI_File_set_errhandler(first, made);
  MPI_Errhandler_free(&made);
  for (int i = 0; i < 100; ++i) {
    EXPECT_MPI_OK(MPI_File_get_errhandler(first, &got));
    EXPECT_MPI_OK(MPI_File_set_errhandler(second, got));
    EXPECT_MPI_OK(MPI_Errhandler_free(&got));
  }
  MPI_File_close(&first);
  seen = {};
  fail_on(second);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.file, second);
  MPI_File_close(&second);
}

TEST_F(Handle, PredefinedErrorHandlersCanBeGotAndFreed) {
  MPI_File fh = open();
  for (int i = 0; i < 10; ++i) {
    MPI_Errhandler got;
    EXPECT_MPI_OK(MPI_File_get_errhandler(fh, &got));
    EXPECT_EQ(got, MPI_ERRORS_RETURN);
    EXPECT_MPI_OK(MPI_Errhandler_free(&got));
  }
  EXPECT_MPI_OK(MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL));
  MPI_Errhandler got;
  EXPECT_MPI_OK(MPI_File_get_errhandler(fh, &got));
  EXPECT_EQ(got, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&got);
  MPI_File_close(&fh);
}

TEST_F(Handle, AForeignErrorHandlerIsRefused) {
  MPI_File fh = open();
  std::vector<MPI_Errhandler> foreign(50);  // more than earlier tests made: some handles are new
  for (MPI_Errhandler& handler : foreign) MPI_Comm_create_errhandler(ignore_comm, &handler);
  EXPECT_MPI_ERROR(MPI_File_set_errhandler(fh, foreign.back()), MPI_ERR_ARG, "MPI_File_create_errhandler");
  for (MPI_Errhandler& handler : foreign) MPI_Errhandler_free(&handler);
  MPI_File_close(&fh);
}

TEST_F(Handle, IntegersAndBack) {
  MPI_File first = open(), second = open();
  EXPECT_NE(MPI_File_c2f(first), MPI_File_c2f(second));
  EXPECT_EQ(MPI_File_f2c(MPI_File_c2f(first)), first);
  EXPECT_EQ(MPI_File_f2c(MPI_File_c2f(second)), second);
  EXPECT_EQ(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)), MPI_FILE_NULL);
  EXPECT_EQ(MPI_File_fromint(MPI_File_toint(second)), second);
  const int closed = MPI_File_c2f(first);
  MPI_File_close(&first);
  EXPECT_EQ(MPI_File_f2c(closed), MPI_FILE_NULL);
  MPI_File_close(&second);
#if defined(MPI_ABI)
  EXPECT_EQ(MPI_File_toint(MPI_FILE_NULL), 0x118);
#else
  EXPECT_EQ(MPI_File_c2f(MPI_FILE_NULL), 0);
#endif
}

TEST_F(Handle, GroupAndMode) {
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size() - rank(), &reversed);
  const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_UNIQUE_OPEN;
  MPI_File fh;
  EXPECT_MPI_OK(MPI_File_open(reversed, path().c_str(), amode, MPI_INFO_NULL, &fh));
  MPI_Group expected, got;
  MPI_Comm_group(reversed, &expected);
  MPI_Comm_free(&reversed);  // the file outlives it
  EXPECT_MPI_OK(MPI_File_get_group(fh, &got));
  int result = 0;
  MPI_Group_compare(expected, got, &result);
  EXPECT_EQ(result, MPI_IDENT);
  MPI_Group_free(&got);
  MPI_Group_free(&expected);
  int mode = 0;
  EXPECT_MPI_OK(MPI_File_get_amode(fh, &mode));
  EXPECT_EQ(mode, amode);
  write_ints(fh, rank() * 4, {rank()});
  MPI_File_close(&fh);
}

std::string value_of(MPI_File fh, const char* key) {
  MPI_Info info;
  EXPECT_MPI_OK(MPI_File_get_info(fh, &info));
  char value[MPI_MAX_INFO_VAL + 1] = {};
  int found = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
  MPI_Info_free(&info);
  return found != 0 ? value : "(none)";
}

TEST_F(Handle, InfoReportsWhatIsInForce) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "65536");
  MPI_Info_set(info, "a_hint_of_somebody_else", "kept");
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
  EXPECT_EQ(value_of(fh, "cb_buffer_size"), "65536");
  EXPECT_EQ(value_of(fh, "a_hint_of_somebody_else"), "kept");
  EXPECT_EQ(value_of(fh, "romio_ds_write"), "automatic");
  MPI_Info_set(info, "cb_buffer_size", "131072");
  EXPECT_MPI_OK(MPI_File_set_info(fh, info));
  EXPECT_EQ(value_of(fh, "cb_buffer_size"), "131072");
  MPI_Info_set(info, "romio_ds_write", "disable");
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", info));
  EXPECT_EQ(value_of(fh, "romio_ds_write"), "disable");
  MPI_Info_free(&info);
  MPI_File_close(&fh);
}

TEST_F(Handle, TypeExtentsAreThoseOfMemory) {
  MPI_File fh = open();
  MPI_Datatype vector;
  MPI_Type_vector(3, 1, 4, MPI_INT, &vector);
  MPI_Aint extent = 0;
  EXPECT_MPI_OK(MPI_File_get_type_extent(fh, vector, &extent));
  EXPECT_EQ(extent, 36);
  EXPECT_MPI_ERROR(MPI_File_get_type_extent(fh, MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  MPI_Type_free(&vector);
  MPI_File_close(&fh);
}

TEST_F(Handle, SplitCollectivesPairUp) {
  MPI_File fh = open();
  int value = rank() + 10;
  MPI_Status status;
  EXPECT_MPI_ERROR(MPI_File_write_all_end(fh, &value, &status), MPI_ERR_OTHER, "no split collective");
  EXPECT_MPI_OK(MPI_File_write_at_all_begin(fh, rank() * 4, &value, 1, MPI_INT));
  EXPECT_MPI_ERROR(MPI_File_write_all_end(fh, &value, &status), MPI_ERR_OTHER, "MPI_File_write_at_all_begin");
  EXPECT_MPI_ERROR(MPI_File_read_all_begin(fh, &value, 1, MPI_INT), MPI_ERR_OTHER, "has not been ended");
  EXPECT_MPI_ERROR(MPI_File_read_all(fh, &value, 1, MPI_INT, &status), MPI_ERR_OTHER, "has not been ended");
  EXPECT_EQ(read_ints(fh, rank() * 4, 1), std::vector<int>{rank() + 10});  // independent calls may come between
  EXPECT_MPI_OK(MPI_File_write_at_all_end(fh, &value, &status));
  EXPECT_EQ(ints(status), 1);
  EXPECT_MPI_OK(MPI_File_read_ordered_begin(fh, &value, 1, MPI_INT));
  EXPECT_MPI_OK(MPI_File_read_ordered_end(fh, &value, MPI_STATUS_IGNORE));
  EXPECT_EQ(value, rank() + 10);
  MPI_File_close(&fh);
}

TEST_F(Handle, StartingANonblockingCollectiveDoesNotWaitForOthers) {
  MPI_File fh = open();
  int value = rank();
  MPI_Request request;
  if (rank() == 0) {  // the others have not started yet
    EXPECT_MPI_OK(MPI_File_iwrite_at_all(fh, 0, &value, 1, MPI_INT, &request));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() != 0) {
    EXPECT_MPI_OK(MPI_File_iwrite_at_all(fh, 4 * rank(), &value, 1, MPI_INT, &request));
  }
  MPI_Status status;
  EXPECT_MPI_OK(MPI_Wait(&request, &status));
  EXPECT_EQ(ints(status), 1);
  EXPECT_EQ(read_ints(fh, 4 * rank(), 1), std::vector<int>{rank()});
  MPI_File_close(&fh);
}

TEST_F(Handle, ThreadsMayUseOneFileAtOnce) {
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "the host has no MPI_THREAD_MULTIPLE";
  MPI_File fh = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      MPI_Datatype vector;
      MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
      MPI_Type_commit(&vector);
      for (int i = 0; i < 50; ++i) {
        int values[3] = {t, -1, t};
        const MPI_Offset offset = ((rank() * 4 + t) * 50 + i) * 8;
        MPI_File_write_at(fh, offset, values, 1, vector, MPI_STATUS_IGNORE);
        fail_on(fh);
      }
      MPI_Type_free(&vector);
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(read_ints(fh, (rank() * 4 + t) * 400, 100), std::vector<int>(100, t));
  MPI_File_close(&fh);
}

TEST_F(Handle, ManyFilesCanBeOpen) {
  std::vector<MPI_File> files;
  for (int i = 0; i < 20; ++i) files.push_back(open());
  for (MPI_File& fh : files) EXPECT_MPI_OK(MPI_File_close(&fh));
}

}  // namespace
}  // namespace stridio::testing
