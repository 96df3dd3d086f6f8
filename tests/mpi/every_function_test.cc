// Calls every MPI_File_* function, and the two of data representations, from its prototype: by its MPI_ name, by its
// PMPI_ name, and checks what it did. The arguments are files that list the functions of the host's library: each
// must have been called. Run with abort_host_io preloaded behind Stridio, so that no call can reach the host's.
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "mpi/prototypes.h"

namespace {

std::set<std::string> called;
int failures = 0;
int rank = 0;
int size = 0;

void check(bool good, const char* function, const char* what) {
  if (good) return;
  std::printf("rank %d: %s: %s\n", rank, function, what);
  ++failures;
}

void check_code(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  check(false, function, text);
}

const char* noted(const char* function) {
  called.insert(function);
  return function;
}

// One int was moved.
void check_status(const MPI_Status& status, const char* function) {
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  check(count == 1, function, "the status does not say one int");
}

void check_request(MPI_Request& request, const char* function) {
  MPI_Status status;
  check_code(MPI_Wait(&request, &status), function);
  check_status(status, function);
}

int handler_calls = 0;
MPI_File handler_file;
void count_call(MPI_File* file, int*, ...) {
  ++handler_calls;
  handler_file = *file;
}
[[maybe_unused]] void count_call_x(MPI_File file, int code, void* extra) {
  count_call(&file, &code);
  check(extra == &handler_calls, "MPIX_File_create_errhandler_x", "the extra state is not what was given");
}

[[maybe_unused]] void forget(void*) {}

int convert(void*, MPI_Datatype, int, void*, MPI_Offset, void*) { return MPI_SUCCESS; }
int convert_c(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset, void*) { return MPI_SUCCESS; }
int extent_of(MPI_Datatype, MPI_Aint* extent, void*) { return *extent = 1, MPI_SUCCESS; }

constexpr bool is_profiled(const char* prefix) { return prefix[0] == 'P'; }

#define PREFIX MPI
#define PREFIX_X MPIX
#include "mpi/every_function.inc"
#undef PREFIX
#undef PREFIX_X
#define PREFIX PMPI
#define PREFIX_X PMPIX
#include "mpi/every_function.inc"

void check_all_called(const char* list) {
  std::ifstream file(list);
  check(file.good(), list, "cannot be read");
  int functions = 0;
  for (std::string function; std::getline(file, function); ++functions)
    check(called.count(function) == 1, function.c_str(), "is in the host's library, but was not called");
  check(functions >= 100, list, "lists too few functions");
}

void check_is_ours() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&MPI_File_open), &info);
  check(info.dli_fname != nullptr && std::strstr(info.dli_fname, "libstridio-") != nullptr, "MPI_File_open",
        "is not Stridio's");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char path[] = "/tmp/stridio-every-XXXXXX";
  if (rank == 0) close(mkstemp(path));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  check_is_ours();
  call_every_MPI(path);
  call_every_PMPI(path);
  for (int i = 1; i < argc; ++i) check_all_called(argv[i]);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%zu functions called, %d failures\n", called.size(), all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
