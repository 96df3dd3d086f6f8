// Bad input: the error class that the standard names, with a text that says what was wrong; in a collective call on
// every rank, whichever rank's arguments were bad.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

#include "mpi/mpi_fixture.h"

namespace stridio::testing {
namespace {

class BadInput : public MpiTest {
 protected:
  static int try_open(const std::string& name, int amode, MPI_Comm comm = MPI_COMM_WORLD,
                      MPI_Info info = MPI_INFO_NULL) {
    MPI_File fh = MPI_FILE_NULL;
    const int code = MPI_File_open(comm, name.c_str(), amode, info, &fh);
    if (code == MPI_SUCCESS) {
      MPI_File_close(&fh);
    } else {
      EXPECT_EQ(fh, MPI_FILE_NULL);
    }
    return code;
  }

  static MPI_Info hint(const char* name, const std::string& value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, name, value.c_str());
    return info;
  }
};

TEST_F(BadInput, NamesThatCannotBeOpened) {
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE, path());
  EXPECT_MPI_ERROR(try_open(path() + "/deeper/file", MPI_MODE_RDWR | MPI_MODE_CREATE), MPI_ERR_NO_SUCH_FILE, "deeper");
  const std::string folder = path().substr(0, path().rfind('/'));
  EXPECT_MPI_ERROR(try_open(folder, MPI_MODE_RDONLY), MPI_ERR_BAD_FILE, folder);
  EXPECT_MPI_ERROR(try_open(folder, MPI_MODE_RDWR), MPI_ERR_BAD_FILE, folder);
  EXPECT_MPI_ERROR(try_open("", MPI_MODE_RDONLY), MPI_ERR_BAD_FILE, "name");
  EXPECT_MPI_ERROR(try_open("unknown://place/file", MPI_MODE_RDONLY), MPI_ERR_BAD_FILE, "unknown://");
  EXPECT_MPI_ERROR(try_open("ufs:" + path(), MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE, path());
  MPI_File fh;
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, nullptr, MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_BAD_FILE,
                   "null");
  EXPECT_MPI_ERROR(MPI_File_delete(path().c_str(), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE, path());
}

TEST_F(BadInput, NoPermission) {
  if (rank() == 0) close(::open(path().c_str(), O_CREAT | O_RDWR, 0600));
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_EQ(chmod(path().c_str(), 0), 0);
  const uid_t before = geteuid();
  if (before == 0) {
    ASSERT_EQ(seteuid(65534), 0);  // nobody: root may open anything
  }
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDONLY, MPI_COMM_SELF), MPI_ERR_ACCESS, path());
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_WRONLY, MPI_COMM_SELF), MPI_ERR_ACCESS, path());
  ASSERT_EQ(seteuid(before), 0);
}

TEST_F(BadInput, AccessModes) {
  constexpr std::array<int, 8> kBad = {0,
                                       MPI_MODE_CREATE,
                                       MPI_MODE_RDONLY | MPI_MODE_CREATE,
                                       MPI_MODE_RDONLY | MPI_MODE_EXCL,
                                       MPI_MODE_RDONLY | MPI_MODE_WRONLY,
                                       MPI_MODE_RDONLY | MPI_MODE_RDWR,
                                       MPI_MODE_WRONLY | MPI_MODE_RDWR | MPI_MODE_CREATE,
                                       MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE};
  for (const int amode : kBad) EXPECT_MPI_ERROR(try_open(path(), amode), MPI_ERR_AMODE, "MODE");
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDWR | (1 << 20)), MPI_ERR_AMODE, "1048576");
  EXPECT_NE(access(path().c_str(), F_OK), 0) << "a refused mode must not create the file";
}

TEST_F(BadInput, ModesAndHintsThatDifferBetweenRanks) {
  if (size() == 1) GTEST_SKIP() << "needs two ranks";
  MPI_File created = open();
  const int amode = rank() == size() - 1 ? MPI_MODE_RDONLY : MPI_MODE_RDWR;
  EXPECT_MPI_ERROR(try_open(path(), amode), MPI_ERR_NOT_SAME, "mode");
  MPI_Info info = hint("cb_buffer_size", std::to_string(65536 * (1 + (rank() == size() - 1 ? 1 : 0))));
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDWR, MPI_COMM_WORLD, info), MPI_ERR_NOT_SAME, "cb_buffer_size");
  EXPECT_MPI_ERROR(MPI_File_set_info(created, info), MPI_ERR_NOT_SAME, "cb_buffer_size");
  EXPECT_MPI_ERROR(MPI_File_set_size(created, rank() == 0 ? 10 : 20), MPI_ERR_NOT_SAME, "size");
  EXPECT_MPI_ERROR(MPI_File_preallocate(created, rank() == 0 ? 10 : 20), MPI_ERR_NOT_SAME, "size");
  EXPECT_MPI_ERROR(MPI_File_set_atomicity(created, rank() == 0 ? 1 : 0), MPI_ERR_NOT_SAME, "atomicity");
  EXPECT_MPI_ERROR(MPI_File_seek_shared(created, rank() == 0 ? 1 : 0, MPI_SEEK_SET), MPI_ERR_NOT_SAME, "offset");
  EXPECT_MPI_ERROR(MPI_File_set_view(created, 0, rank() == 0 ? MPI_INT : MPI_DOUBLE, rank() == 0 ? MPI_INT : MPI_DOUBLE,
                                     "native", MPI_INFO_NULL),
                   MPI_ERR_NOT_SAME, "etype");
  MPI_Info_free(&info);
  // By this hint the ranks' ways part before they have a group, on communicators that are new to it and others.
  for (const int last : {1, 2, 0}) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (const MPI_Comm each : {comm, comm, MPI_COMM_WORLD}) {
      info = hint("stridio_node_ranks", std::to_string(rank() == size() - 1 ? last : (last + 1) % 3));
      EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDWR, each, info), MPI_ERR_NOT_SAME, "stridio_node_ranks");
      MPI_Info_free(&info);
      EXPECT_MPI_OK(try_open(path(), MPI_MODE_RDWR, each));
    }
    MPI_Comm_free(&comm);
  }
  MPI_File_close(&created);
}

TEST_F(BadInput, AMisspeltHintWarnsOnce) {
  const std::string log = own_path() + ".log";
  const int saved = dup(STDERR_FILENO);
  const int file = ::open(log.c_str(), O_CREAT | O_RDWR, 0600);
  dup2(file, STDERR_FILENO);
  MPI_Info info = hint("stridio_metod", "list");
  MPI_File fh = open(MPI_MODE_RDWR | MPI_MODE_CREATE, info);
  EXPECT_MPI_OK(MPI_File_close(&fh));
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  MPI_Info_free(&info);
  std::stringstream text;
  text << std::ifstream(log).rdbuf();
  const std::size_t first = text.str().find("stridio_metod");
  EXPECT_EQ(first != std::string::npos, rank() == 0) << text.str();
  if (rank() == 0) {
    EXPECT_NE(text.str().find("stridio_method"), std::string::npos) << text.str();
    EXPECT_EQ(text.str().find("stridio_metod", first + 1), std::string::npos) << text.str();
  }
}

TEST_F(BadInput, Communicators) {
  MPI_File fh;
  EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_NULL, path().c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_COMM,
                   "MPI_COMM_NULL");
  if (size() == 1) return;
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank() % 2 == 0 ? 1 : 0, 5, &inter);
  EXPECT_MPI_ERROR(MPI_File_open(inter, path().c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &fh), MPI_ERR_COMM,
                   "intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

TEST_F(BadInput, Handles) {
  MPI_File null = MPI_FILE_NULL;
  MPI_Offset offset;
  EXPECT_MPI_ERROR(MPI_File_get_size(null, &offset), MPI_ERR_FILE, "MPI_FILE_NULL");
  EXPECT_MPI_ERROR(MPI_File_close(&null), MPI_ERR_FILE, "MPI_FILE_NULL");
  MPI_File fh = open();
  MPI_File closed = fh;
  EXPECT_MPI_OK(MPI_File_close(&fh));
  EXPECT_MPI_ERROR(MPI_File_get_size(closed, &offset), MPI_ERR_FILE, "open file");
  int garbage = 0;
  EXPECT_MPI_ERROR(MPI_File_sync(reinterpret_cast<MPI_File>(&garbage)), MPI_ERR_FILE, "open file");
}

TEST_F(BadInput, CountsTypesAndOffsets) {
  MPI_File fh = open();
  int value = 0;
  MPI_Status status;
  MPI_Request request;
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, 0, &value, -1, MPI_INT, &status), MPI_ERR_COUNT, "-1");
  EXPECT_MPI_ERROR(MPI_File_read(fh, &value, -2, MPI_INT, &status), MPI_ERR_COUNT, "-2");
  EXPECT_MPI_ERROR(MPI_File_iread_shared(fh, &value, -3, MPI_INT, &request), MPI_ERR_COUNT, "-3");
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_MPI_ERROR(MPI_File_write_all(fh, &value, -4, MPI_INT, &status), MPI_ERR_COUNT, "-4");
  EXPECT_MPI_ERROR(MPI_File_write_ordered(fh, &value, -5, MPI_INT, &status), MPI_ERR_COUNT, "-5");
  EXPECT_MPI_ERROR(MPI_File_write(fh, &value, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  EXPECT_MPI_ERROR(MPI_File_read_all(fh, &value, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, -1, &value, 1, MPI_INT, &status), MPI_ERR_ARG, "-1");
  EXPECT_MPI_ERROR(MPI_File_read_at_all(fh, -7, &value, 1, MPI_INT, &status), MPI_ERR_ARG, "-7");
  EXPECT_MPI_ERROR(MPI_File_set_size(fh, -1), MPI_ERR_ARG, "-1");
  EXPECT_MPI_ERROR(MPI_File_preallocate(fh, -1), MPI_ERR_ARG, "-1");
  EXPECT_MPI_ERROR(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG, "-1");
  EXPECT_MPI_ERROR(MPI_File_seek(fh, 0, 4711), MPI_ERR_ARG, "4711");
  EXPECT_MPI_ERROR(MPI_File_seek_shared(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG, "-1");
  EXPECT_MPI_ERROR(MPI_File_seek_shared(fh, 0, 4711), MPI_ERR_ARG, "4711");
  MPI_Offset offset;
  EXPECT_MPI_ERROR(MPI_File_get_byte_offset(fh, -1, &offset), MPI_ERR_ARG, "-1");
  MPI_File_close(&fh);
}

TEST_F(BadInput, Views) {
  MPI_File fh = open();
  const auto set = [&](MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                       const char* datarep = "native") {
    return MPI_File_set_view(fh, displacement, etype, filetype, datarep, MPI_INFO_NULL);
  };
  const auto indexed = [](std::initializer_list<int> displacements) {
    MPI_Datatype type;
    MPI_Type_create_indexed_block(static_cast<int>(displacements.size()), 2, displacements.begin(), MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
  };
  MPI_Datatype unsorted = indexed({8, 0}), overlapping = indexed({0, 1}), negative = indexed({-4, 0});
  MPI_Datatype torn;
  MPI_Type_vector(4, 2, 5, MPI_BYTE, &torn);
  MPI_Type_commit(&torn);
  EXPECT_MPI_ERROR(set(-4711, MPI_BYTE, MPI_BYTE), MPI_ERR_ARG, "-4711");
  EXPECT_MPI_ERROR(set(0, MPI_DATATYPE_NULL, MPI_BYTE), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  EXPECT_MPI_ERROR(set(0, MPI_BYTE, MPI_DATATYPE_NULL), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
  EXPECT_MPI_ERROR(set(0, MPI_INT, unsorted), MPI_ERR_TYPE, "order");
  EXPECT_MPI_ERROR(set(0, MPI_INT, overlapping), MPI_ERR_TYPE, "overlap");
  EXPECT_MPI_ERROR(set(0, MPI_INT, negative), MPI_ERR_TYPE, "negative");
  EXPECT_MPI_ERROR(set(0, MPI_DOUBLE, MPI_INT), MPI_ERR_ARG, "multiple");
  EXPECT_MPI_ERROR(set(0, MPI_INT, torn), MPI_ERR_ARG, "etype");
  EXPECT_MPI_ERROR(set(0, MPI_INT, MPI_INT, "martian"), MPI_ERR_UNSUPPORTED_DATAREP, "martian");
  EXPECT_MPI_ERROR(set(0, MPI_INT, MPI_INT, nullptr), MPI_ERR_UNSUPPORTED_DATAREP, "null");
  EXPECT_MPI_ERROR(set(MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT), MPI_ERR_ARG, "SEQUENTIAL");
  EXPECT_MPI_OK(set(0, MPI_DOUBLE, MPI_DOUBLE));
  double value = 0;
  MPI_Status status;
  EXPECT_MPI_ERROR(MPI_File_write(fh, &value, 3, MPI_BYTE, &status), MPI_ERR_ARG, "etype");
  EXPECT_MPI_ERROR(MPI_File_write_all(fh, &value, 1, MPI_INT, &status), MPI_ERR_ARG, "etype");
  MPI_File_close(&fh);
  fh = open(MPI_MODE_RDONLY);
  EXPECT_MPI_OK(set(0, MPI_INT, overlapping));  // forbidden for writers only
  MPI_File_close(&fh);
  for (MPI_Datatype* type : {&unsorted, &overlapping, &negative, &torn}) MPI_Type_free(type);
}

TEST_F(BadInput, WrongDirection) {
  MPI_File fh = open(MPI_MODE_WRONLY | MPI_MODE_CREATE);
  int value = 0;
  MPI_Status status;
  EXPECT_MPI_ERROR(MPI_File_read_at(fh, 0, &value, 1, MPI_INT, &status), MPI_ERR_ACCESS, "writing only");
  EXPECT_MPI_ERROR(MPI_File_read_all(fh, &value, 1, MPI_INT, &status), MPI_ERR_ACCESS, "writing only");
  MPI_File_close(&fh);
  fh = open(MPI_MODE_RDONLY);
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, 0, &value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY, "reading only");
  EXPECT_MPI_ERROR(MPI_File_write_at_all(fh, 0, &value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY, "reading only");
  EXPECT_MPI_ERROR(MPI_File_set_size(fh, 10), MPI_ERR_READ_ONLY, "reading only");
  MPI_File_close(&fh);
}

TEST_F(BadInput, OneBadRankFailsACollectiveCallOnAll) {
  MPI_File fh = open();
  const bool bad = rank() == size() - 1;
  int value = 0;
  MPI_Status status;
  EXPECT_MPI_ERROR(MPI_File_write_all(fh, &value, bad ? -1 : 1, MPI_INT, &status), MPI_ERR_COUNT, "-1");
  EXPECT_MPI_ERROR(MPI_File_write_at_all(fh, bad ? -9 : 0, &value, 1, MPI_INT, &status), MPI_ERR_ARG, "-9");
  EXPECT_MPI_ERROR(MPI_File_read_ordered(fh, &value, 1, bad ? MPI_DATATYPE_NULL : MPI_INT, &status), MPI_ERR_TYPE,
                   "MPI_DATATYPE_NULL");
  EXPECT_MPI_ERROR(MPI_File_write_all_begin(fh, &value, bad ? -1 : 1, MPI_INT), MPI_ERR_COUNT, "-1");
  EXPECT_MPI_ERROR(MPI_File_set_view(fh, bad ? -5 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG, "-5");
  EXPECT_MPI_ERROR(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, bad ? "martian" : "native", MPI_INFO_NULL),
                   MPI_ERR_UNSUPPORTED_DATAREP, "martian");
  const int code = MPI_File_seek_shared(fh, 0, bad ? 4711 : MPI_SEEK_SET);
  EXPECT_NE(code, MPI_SUCCESS);
  EXPECT_MPI_ERROR(try_open(path(), MPI_MODE_RDWR | (bad ? 1 << 20 : 0)), MPI_ERR_AMODE, "");
  EXPECT_MPI_OK(MPI_File_write_all(fh, &value, 1, MPI_INT, &status));
  MPI_File_close(&fh);
}

// Also where the hints ask for more steps than opening has otherwise.
TEST_F(BadInput, OneRanksBadNameFailsTheOpeningOnAll) {
  for (const auto& [name, value] :
       {std::pair{"stridio_commit", "direct"}, {"stridio_commit", "atomic"}, {"stridio_wait_generation", "1"}}) {
    MPI_Info info = hint(name, value);
    const int amode = *value == '1' ? MPI_MODE_RDONLY : MPI_MODE_RDWR | MPI_MODE_CREATE;
    for (const int bad : {0, size() - 1}) {
      SCOPED_TRACE(std::string(name) + "=" + value + ", rank " + std::to_string(bad));
      const bool mine = rank() == bad;
      EXPECT_MPI_ERROR(try_open(mine ? "" : path(), amode, MPI_COMM_WORLD, info), MPI_ERR_BAD_FILE, "empty");
      EXPECT_MPI_ERROR(try_open(mine ? "rados:x" : path(), amode, MPI_COMM_WORLD, info), MPI_ERR_UNSUPPORTED_OPERATION,
                       "rados:");
      MPI_File fh;
      EXPECT_MPI_ERROR(MPI_File_open(MPI_COMM_WORLD, mine ? nullptr : path().c_str(), amode, info, &fh),
                       MPI_ERR_BAD_FILE, (mine ? "null" : "empty"));
    }
    MPI_Info_free(&info);
  }
  EXPECT_NE(access(path().c_str(), F_OK), 0) << "a refused name must not create the file";
}

TEST_F(BadInput, AnIndependentCallFailsOnItsCallerAlone) {
  MPI_File fh = open();
  int value = rank();
  MPI_Status status;
  const int code = MPI_File_write_at(fh, rank(), &value, rank() == 0 ? -1 : 1, MPI_BYTE, &status);
  EXPECT_EQ(class_of(code), rank() == 0 ? MPI_ERR_COUNT : MPI_SUCCESS);
  MPI_File_close(&fh);
}

TEST_F(BadInput, DataRepresentations) {
  const auto convert = [](void*, MPI_Datatype, int, void*, MPI_Offset, void*) -> int { return MPI_SUCCESS; };
  const auto extent = [](MPI_Datatype, MPI_Aint* bytes, void*) -> int {
    *bytes = -3;
    return MPI_SUCCESS;
  };
  EXPECT_MPI_OK(MPI_Register_datarep("bad_input", convert, convert, extent, nullptr));
  EXPECT_MPI_ERROR(MPI_Register_datarep("bad_input", convert, convert, extent, nullptr), MPI_ERR_DUP_DATAREP,
                   "bad_input");
  EXPECT_MPI_ERROR(MPI_Register_datarep("native", convert, convert, extent, nullptr), MPI_ERR_DUP_DATAREP, "native");
  EXPECT_MPI_ERROR(MPI_Register_datarep(std::string(500, 'x').c_str(), convert, convert, extent, nullptr), MPI_ERR_ARG,
                   "MPI_MAX_DATAREP_STRING");
  EXPECT_MPI_ERROR(MPI_Register_datarep("no_extent", convert, convert, nullptr, nullptr), MPI_ERR_ARG,
                   "extent function");
  MPI_File fh = open();
  EXPECT_MPI_ERROR(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "bad_input", MPI_INFO_NULL), MPI_ERR_CONVERSION,
                   "gave -3 bytes");
  MPI_File_close(&fh);
}

TEST_F(BadInput, TextsOfErrorsLiveForEightMore) {
  MPI_File fh = open();
  int value = 0;
  MPI_Status status;
  const int code = MPI_File_write_at(fh, 0, &value, -77, MPI_INT, &status);
  for (int i = 0; i < 7; ++i) MPI_File_write_at(fh, 0, &value, -1, MPI_INT, &status);
  EXPECT_NE(text_of(code).find("-77"), std::string::npos);
  for (int i = 0; i < 1000; ++i) MPI_File_write_at(fh, 0, &value, -1, MPI_INT, &status);
  EXPECT_EQ(class_of(code), MPI_ERR_COUNT);
  MPI_File_close(&fh);
}

}  // namespace
}  // namespace stridio::testing
