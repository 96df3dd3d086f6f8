// With tools preloaded before or behind Stridio: the program's data are right, and each tool sees what it should.
//   interposed_test [mpi=N] [posix]
// `mpi=N`: the tool that wraps MPI sees N times each of the program's calls (0 behind Stridio, whose functions end the search),
// and none of Stridio's own. `posix`: the one that wraps POSIX I/O sees all that happens to the file.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kInts = 40'000;
int rank = 0;
int size = 0;
int failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  std::printf("rank %d: %s\n", rank, what.c_str());
  ++failures;
}

void check_ok(int code, const char* what) { check(code == MPI_SUCCESS, what + std::string(" failed")); }

long seen(const char* tool, const char* what) {
  const auto ask = reinterpret_cast<long (*)(const char*)>(dlsym(RTLD_DEFAULT, tool));
  return ask == nullptr ? -2 : ask(what);
}

// Whatever the tools do, the file's functions are Stridio's.
void check_served() {
  Dl_info info{};
  dladdr(dlsym(RTLD_DEFAULT, "PMPI_File_open"), &info);
  check(info.dli_fname != nullptr && std::strstr(info.dli_fname, "libstridio-") != nullptr, "not served by Stridio");
}

std::vector<int> ints(int first) {
  std::vector<int> values(kInts);
  for (int i = 0; i < kInts; ++i) values[static_cast<std::size_t>(i)] = first + i;
  return values;
}

// Each rank has three blocks, one behind the other: a collective one, an independent one and a nonblocking one.
void run_program(const char* path) {
  const MPI_Offset block = MPI_Offset{kInts} * 4;
  MPI_File fh;
  MPI_Status status;
  MPI_Request request;
  check_ok(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh), "open");
  check_ok(MPI_File_set_view(fh, 3 * block * rank, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set_view");
  const auto values = ints(1'000'000 * rank), next = ints(2'000'000 * rank), last = ints(3'000'000 * rank);
  check_ok(MPI_File_write_at_all(fh, 0, values.data(), kInts, MPI_INT, &status), "write_at_all");
  check_ok(MPI_File_write_at(fh, block, next.data(), kInts, MPI_INT, &status), "write_at");
  check_ok(MPI_File_iwrite_at(fh, 2 * block, last.data(), kInts, MPI_INT, &request), "iwrite_at");
  check_ok(MPI_Wait(&request, &status), "wait");
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  check(count == kInts, "another count");
  check_ok(MPI_File_sync(fh), "sync");
  std::vector<int> back(kInts);
  check_ok(MPI_File_read_at_all(fh, block, back.data(), kInts, MPI_INT, &status), "read_at_all");
  check(back == next, "other data read");
  check_ok(MPI_File_close(&fh), "close");
}

void check_bytes(const char* path) {
  const int fd = open(path, O_RDONLY);
  std::vector<int> found(kInts * 3);
  const auto bytes = static_cast<ssize_t>(found.size() * sizeof(int));
  check(pread(fd, found.data(), static_cast<std::size_t>(bytes), bytes * rank) == bytes, "the file is too short");
  close(fd);
  for (int block = 0; block < 3; ++block) {
    const auto begin = found.begin() + block * kInts;
    check(std::vector<int>(begin, begin + kInts) == ints(1'000'000 * (block + 1) * rank), "other data in the file");
  }
}

void check_mpi_tool(long times) {
  for (const char* function : {"File_open", "File_set_view", "File_write_at_all", "File_write_at", "File_iwrite_at",
                               "File_read_at_all", "File_sync", "File_close", "Wait"})
    check(seen("mpi_calls_seen", function) == times,
          std::string(function) + " was seen " + std::to_string(seen("mpi_calls_seen", function)) + " times");
  for (const char* function : {"Test", "Grequest_start", "Comm_split", "Barrier", "Allgather", "Type_get_envelope"})
    check(seen("mpi_calls_seen", function) == 0, std::string(function) + " was seen: it is Stridio's own");
}

void check_posix_tool() {
  const auto total = [](const char* what) {
    long mine = seen("posix_calls_seen", what), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
  };
  const long bytes = 3L * kInts * 4 * size;
  check(seen("posix_calls_seen", "opens") >= 1, "no open was seen");
  check(total("opens") == total("closes"), "opens and closes are not as many");
  check(total("bytes written") == bytes, "another number of bytes was written");
  check(total("bytes read") >= bytes / 3, "too few bytes were read");
  check(total("syncs") >= 1, "no sync was seen");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char path[] = "/tmp/stridio-interposed-XXXXXX";
  if (rank == 0) close(mkstemp(path));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  check_served();
  run_program(path);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "mpi=", 4) == 0) check_mpi_tool(argv[i][4] - '0');
    if (std::strcmp(argv[i], "posix") == 0) check_posix_tool();
  }
  check_bytes(path);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::remove(path);
  if (rank == 0) std::printf("%d failures\n", all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
