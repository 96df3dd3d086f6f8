// How programs end: with files open, with freed and unfreed handlers, or by an error handler that is fatal.
//   ending_test open | library | fatal | abort | fatal_default | left PATH | found PATH
// `left` leaves files open whose data are still in memory; it checks what is said, `found` that nothing is lost. `library` has a
// file closed as HDF5 does its own: when MPI_Finalize deletes an attribute that was set before the file was opened.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

void ignore(MPI_File*, int*, ...) {}

MPI_File open_file(const std::string& path, int amode) {
  MPI_File fh = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, path.c_str(), amode, MPI_INFO_NULL, &fh);
  return fh;
}

void fail(MPI_File fh) {
  int value = 0;
  MPI_File_write_at(fh, 0, &value, -1, MPI_INT, MPI_STATUS_IGNORE);
}

// Erroneous, and no reason to crash: MPI_Finalize with files open and handlers in use.
void leave_open(const std::string& path) {
  MPI_File fh = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE);
  open_file(path, MPI_MODE_RDWR);
  MPI_Errhandler handler;
  MPI_File_create_errhandler(ignore, &handler);
  MPI_File_set_errhandler(fh, handler);
  MPI_File_set_errhandler(MPI_FILE_NULL, handler);
  int value = 1;
  MPI_Request request;
  MPI_File_write_all_begin(fh, &value, 1, MPI_INT);
  MPI_File_iwrite_at(fh, 100, &value, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

struct Library {
  MPI_File fh = MPI_FILE_NULL;
  bool closed = false;
};

int close_in_library(MPI_Comm, int, void* attribute, void*) {
  auto& library = *static_cast<Library*>(attribute);
  MPI_Offset size = 0;
  const int value = 1;
  const bool written = MPI_File_get_size(library.fh, &size) == MPI_SUCCESS &&
                       MPI_File_write_at_all(library.fh, size, &value, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS;
  library.closed = written && MPI_File_close(&library.fh) == MPI_SUCCESS;
  return MPI_SUCCESS;
}

struct Kept {
  const char* suffix;
  const char* hint;
  const char* value;
};
constexpr Kept kKept[] = {{".flat", "stridio_cache", "enable"},
                          {".interval", "stridio_layout", "interval"},
                          {".plain", "", ""},
                          {".nodes", "stridio_node_ranks", "1"}};
constexpr int kInts = 1000;

std::vector<int> ints_of(int rank) { return std::vector<int>(kInts, 100 + rank); }

void write_and_leave(const std::string& path, int rank) {
  for (const Kept& kept : kKept) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (*kept.hint != '\0') MPI_Info_set(info, kept.hint, kept.value);
    MPI_File fh;
    MPI_File_open(MPI_COMM_WORLD, (path + kept.suffix).c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh);
    MPI_Info_free(&info);
    const auto values = ints_of(rank);
    MPI_File_write_at(fh, rank * MPI_Offset{4} * kInts, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE);
  }
  MPI_File own;
  MPI_File_open(MPI_COMM_SELF, (path + ".gone." + std::to_string(rank)).c_str(),
                MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &own);
}

// What is said by MPI_Finalize on standard error.
std::string finalize() {
  std::FILE* const said = std::tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(said), STDERR_FILENO);
  MPI_Finalize();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  std::rewind(said);
  std::string text;
  for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) text += static_cast<char>(c);
  return text;
}

int check_left(const std::string& path, int rank) {
  const std::string said = finalize();
  const std::string expected =
      rank == 0 ? "MPI_Finalize was called with 5 files open" : "MPI_Finalize was called with 1 file open";
  const bool told = said.find(expected) != std::string::npos &&
                    said.find(path + (rank == 0 ? ".flat" : ".gone")) != std::string::npos;
  const bool gone = access((path + ".gone." + std::to_string(rank)).c_str(), F_OK) != 0;
  if (!told) std::printf("rank %d: it said \"%s\"\n", rank, said.c_str());
  if (!gone) std::printf("rank %d: MPI_MODE_DELETE_ON_CLOSE was forgotten\n", rank);
  return told && gone ? 0 : 1;
}

int check_library(const std::string& path, int rank) {
  Library library;
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_in_library, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &library);
  library.fh = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
  const std::string said = finalize();
  if (!library.closed) std::printf("rank %d: the file was closed before its library could\n", rank);
  if (!said.empty()) std::printf("rank %d: it said \"%s\"\n", rank, said.c_str());
  return library.closed && said.empty() ? 0 : 1;
}

int check_found(const std::string& path, int rank) {
  int lost = 0;
  for (const Kept& kept : kKept) {
    MPI_File fh = open_file(path + kept.suffix, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    std::vector<int> values(kInts);
    MPI_File_read_at_all(fh, rank * MPI_Offset{4} * kInts, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE);
    if (values != ints_of(rank)) std::printf("rank %d: %s is lost\n", rank, kept.suffix), ++lost;
    MPI_File_close(&fh);
  }
  MPI_Finalize();
  return lost;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "";
  char path[64] = {};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (mode == "left") return write_and_leave(argv[2], rank), check_left(argv[2], rank);
  if (mode == "found") return check_found(argv[2], rank);
  if (rank == 0) std::snprintf(path, sizeof path, "/tmp/stridio-ending-%d", static_cast<int>(getpid()));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  if (mode == "library") return check_library(path, rank);
  if (mode == "open") leave_open(path);
  if (mode == "fatal" || mode == "abort") {
    MPI_File fh = open_file(path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    std::remove(path);
#if defined(MPI_ERRORS_ABORT)
    MPI_File_set_errhandler(fh, mode == "abort" ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL);
#else
    MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL);
#endif
    fail(fh);
    std::puts("still here");
  }
  if (mode == "fatal_default") {
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    open_file("/no/such/file", MPI_MODE_RDONLY);
    std::puts("still here");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::remove(path);
  MPI_Finalize();
  std::puts("ended well");
  return 0;
}
