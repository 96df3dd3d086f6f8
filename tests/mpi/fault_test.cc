// One file operation of one rank fails (tests/shim/fault_shim.c, preloaded): in a collective call every rank returns the
// same class within five seconds, an independent call fails on its caller, and no byte outside the request changes.
//
//   fault_test CALL CLASS RANK [METHOD]
//     CALL   write_all, write_at, read_all, set_size, sync, of a flat file;
//            close: of a flat file, after a write
//            replace: the same by the hint stridio_commit=atomic, which leaves the file as it was
//            generation: write_all and sync, of an interval file: once the fault has passed, the same is written whole
//            last: the same, but the file is opened anew before;
//            lasting: the same of a fault that stays: what was committed before is read whole
//     CLASS  no_space, quota, io, none (the fault must not show)
//     RANK   where the operation fails
//     METHOD the hint stridio_method
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kBlock = 100;
constexpr int kBlocks = 64;
constexpr unsigned char kOld = 0xaa;

int rank = 0, size = 1, failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  ++failures;
  std::printf("rank %d: %s\n", rank, what.c_str());
}

std::string describe(int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

int class_of(int code) {
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  return error_class;
}

// Blocks of all ranks in turn, then one that nobody writes.
constexpr int cycle(int ranks) { return kBlock * (ranks + 1); }
int file_bytes() { return cycle(size) * kBlocks; }

// Made beside the name that the fault looks for, so that making it does not count.
void make_file(const std::string& path) {
  const std::string made = "/tmp/stridio-made-" + std::to_string(getpid());
  const int fd = open(made.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  const std::vector<unsigned char> bytes(static_cast<std::size_t>(file_bytes()), kOld);
  check(write(fd, bytes.data(), bytes.size()) == file_bytes(), "the file could not be made");
  close(fd);
  check(rename(made.c_str(), path.c_str()) == 0, "the file could not be named");
}

void check_file(const std::string& path, bool written, bool untouched = false) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(file_bytes()));
  const std::string aside = "/tmp/stridio-made-" + std::to_string(getpid());
  check(rename(path.c_str(), aside.c_str()) == 0, "the file is gone");
  const int fd = open(aside.c_str(), O_RDONLY);
  check(read(fd, bytes.data(), bytes.size()) == file_bytes(), "the file has become shorter");
  close(fd);
  unlink(aside.c_str());
  for (int i = 0; i < file_bytes(); ++i) {
    const int owner = i % cycle(size) / kBlock;
    const unsigned char byte = bytes[static_cast<std::size_t>(i)];
    const bool is_new = byte == owner + 1;
    const bool right = owner == size || untouched ? byte == kOld : written ? is_new : is_new || byte == kOld;
    if (!right) return check(false, "wrong byte at " + std::to_string(i));
  }
}

void view_blocks(MPI_File fh) {
  MPI_Datatype block, share;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, cycle(size), &share);
  MPI_Type_commit(&share);
  MPI_File_set_view(fh, rank * kBlock, MPI_BYTE, share, "native", MPI_INFO_NULL);
  MPI_Type_free(&share);
  MPI_Type_free(&block);
}

MPI_File open_with_view(const std::string& path, const char* method, bool replaces = false) {
  MPI_Info info;
  MPI_Info_create(&info);
  if (replaces) MPI_Info_set(info, "stridio_commit", "atomic");
  if (*method != '\0') MPI_Info_set(info, "stridio_method", method);
  MPI_File fh;
  check(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR, info, &fh) == MPI_SUCCESS, "open failed");
  MPI_Info_free(&info);
  view_blocks(fh);
  return fh;
}

int call(const std::string& name, MPI_File fh, std::vector<unsigned char>& bytes) {
  const int count = static_cast<int>(bytes.size());
  if (name == "write_all") return MPI_File_write_at_all(fh, 0, bytes.data(), count, MPI_BYTE, MPI_STATUS_IGNORE);
  if (name == "write_at") return MPI_File_write_at(fh, 0, bytes.data(), count, MPI_BYTE, MPI_STATUS_IGNORE);
  if (name == "read_all") return MPI_File_read_at_all(fh, 0, bytes.data(), count, MPI_BYTE, MPI_STATUS_IGNORE);
  if (name == "set_size") return MPI_File_set_size(fh, file_bytes());
  if (name == "sync") return MPI_File_sync(fh);
  std::printf("%s is no call that this test knows\n", name.c_str());
  return MPI_ERR_OTHER;
}

void run(const std::string& name, int expected, int where, const char* method, const std::string& path) {
  MPI_File fh = open_with_view(path, method);
  std::vector<unsigned char> bytes(kBlock * kBlocks, static_cast<unsigned char>(rank + 1));
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  const int code = call(name, fh, bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  check(took.count() < 5, "took " + std::to_string(took.count()) + " s");
  const bool fails_here = name != "write_at" || rank == where;
  const int wanted = fails_here ? expected : static_cast<int>(MPI_SUCCESS);
  check(class_of(code) == wanted,
        "class " + std::to_string(class_of(code)) + " instead of " + std::to_string(wanted) + ": " + describe(code));
  const int again = call(name, fh, bytes);  // the fault has passed, and left nothing behind
  check(again == MPI_SUCCESS, "the same call fails again: " + describe(again));
  const int closed = MPI_File_close(&fh);
  check(closed == MPI_SUCCESS, "closing fails: " + describe(closed));
  if (rank == 0) check_file(path, name.substr(0, 5) == "write");
}

// The system has taken what was written, and says only at the end that it could not store it.
void run_close(int expected, const std::string& path, bool replaces) {
  MPI_File fh = open_with_view(path, "", replaces);
  std::vector<unsigned char> bytes(kBlock * kBlocks, static_cast<unsigned char>(rank + 1));
  const int written = call("write_all", fh, bytes);
  check(written == MPI_SUCCESS, "writing fails: " + describe(written));
  const int closed = MPI_File_close(&fh);
  check(class_of(closed) == expected, "class " + std::to_string(class_of(closed)) + " instead of " +
                                          std::to_string(expected) + ": " + describe(closed));
  check(fh == MPI_FILE_NULL, "the file is still open");
  if (rank == 0) check_file(path, !replaces, replaces);
}

// ---- Interval files

MPI_File open_all(const std::string& name, int mode) {
  MPI_File fh;
  const int opened = MPI_File_open(MPI_COMM_WORLD, name.c_str(), mode, MPI_INFO_NULL, &fh);
  check(opened == MPI_SUCCESS, "opening fails: " + describe(opened));
  view_blocks(fh);
  return fh;
}

int commit_all(MPI_File fh, unsigned char byte) {
  const std::vector<unsigned char> bytes(kBlock * kBlocks, byte);
  const int written =
      MPI_File_write_at_all(fh, 0, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, MPI_STATUS_IGNORE);
  return written == MPI_SUCCESS ? MPI_File_sync(fh) : written;
}

void check_all(const std::string& path, unsigned char byte) {
  MPI_File fh = open_all(path, MPI_MODE_RDONLY);
  std::vector<unsigned char> bytes(kBlock * kBlocks);
  const int got =
      MPI_File_read_at_all(fh, 0, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, MPI_STATUS_IGNORE);
  check(got == MPI_SUCCESS, "reading fails: " + describe(got));
  check(bytes == std::vector<unsigned char>(bytes.size(), byte), "other bytes than were committed");
  MPI_File_close(&fh);
}

void run_generations(const std::string& kind, int expected, const std::string& path) {
  const bool lasting = kind == "lasting";
  constexpr unsigned char kNew = 0x55;
  const std::string aside = "/tmp/stridio-made" + path.substr(path.rfind('-'));
  MPI_File fh = open_all("interval:" + aside, MPI_MODE_CREATE | MPI_MODE_RDWR);
  check(commit_all(fh, kOld) == MPI_SUCCESS, "the file could not be made");
  MPI_File_close(&fh);
  if (rank == 0) check(rename(aside.c_str(), path.c_str()) == 0, "the file could not be named");
  MPI_Barrier(MPI_COMM_WORLD);

  fh = open_all(path, MPI_MODE_RDWR);
  const auto start = std::chrono::steady_clock::now();
  const int code = commit_all(fh, kNew);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  check(took.count() < 5, "took " + std::to_string(took.count()) + " s");
  check(class_of(code) == expected,
        "class " + std::to_string(class_of(code)) + " instead of " + std::to_string(expected) + ": " + describe(code));
  if (kind == "last") {
    MPI_File_close(&fh);
    fh = open_all(path, MPI_MODE_RDWR);
  }
  if (!lasting) {
    const int again = commit_all(fh, kNew);
    check(again == MPI_SUCCESS, "the same fails again: " + describe(again));
  }
  const int closed = MPI_File_close(&fh);
  check(lasting || closed == MPI_SUCCESS, "closing fails: " + describe(closed));
  check_all(path, lasting ? kOld : kNew);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::map<std::string, int> classes = {
      {"no_space", MPI_ERR_NO_SPACE}, {"quota", MPI_ERR_QUOTA}, {"io", MPI_ERR_IO}, {"none", MPI_SUCCESS}};
  char name[64] = {};
  std::snprintf(name, sizeof name, "/tmp/stridio-faulty-%d", static_cast<int>(getpid()));
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  const std::string call = argv[1];
  const int expected = classes.at(argv[2]);
  if (call == "generation" || call == "last" || call == "lasting") {
    run_generations(call, expected, name);
  } else {
    if (rank == 0) make_file(name);
    if (call == "close" || call == "replace")
      run_close(expected, name, call == "replace");
    else
      run(call, expected, std::atoi(argv[3]), argc > 4 ? argv[4] : "", name);
  }
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
