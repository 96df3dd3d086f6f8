// A file on a communicator from a session, in a program that never calls MPI_Init; then MPI starts anew in another session.
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  ++failures;
}

void check_ok(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  check(false, what + std::string(": ") + text);
}

int handler_calls = 0;
void count_call(MPI_File*, int*, ...) { ++handler_calls; }

// `node_ranks`: 1 takes each rank for a node, so that messages are sent.
void use_file(MPI_Comm comm, const char* node_ranks) {
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  char path[] = "/tmp/stridio-sessions-XXXXXX";
  if (rank == 0) close(mkstemp(path));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, comm);
  MPI_Comm_size(comm, &size);
  MPI_File fh;
  MPI_Status status;
  MPI_Info hints;
  MPI_Info_create(&hints);
  MPI_Info_set(hints, "stridio_node_ranks", node_ranks);
  check_ok(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &fh), "open");
  MPI_Info_free(&hints);
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&MPI_File_open), &info);
  check(info.dli_fname != nullptr && std::strstr(info.dli_fname, "libstridio-") != nullptr, "not served by Stridio");

  MPI_Datatype filetype;
  MPI_Type_create_resized(MPI_INT, 0, 4 * size, &filetype);
  MPI_Type_commit(&filetype);
  check_ok(MPI_File_set_view(fh, 4 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL), "set_view");
  MPI_Type_free(&filetype);
  std::vector<int> values(1000), back(1000);
  for (int i = 0; i < 1000; ++i) values[static_cast<std::size_t>(i)] = 10 * i + rank;
  check_ok(MPI_File_write_all(fh, values.data(), 1000, MPI_INT, &status), "write_all");
  check_ok(MPI_File_sync(fh), "sync");
  check_ok(MPI_File_read_at_all(fh, 0, back.data(), 1000, MPI_INT, &status), "read_at_all");
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  check(back == values && count == 1000, "other data");
  MPI_Request request;
  check_ok(MPI_File_iread_at(fh, 500, back.data(), 500, MPI_INT, &request), "iread_at");
  check_ok(MPI_Wait(&request, &status), "wait");
  check(std::vector<int>(back.begin(), back.begin() + 500) == std::vector<int>(values.begin() + 500, values.end()),
        "other data by iread_at");
  check_ok(MPI_File_iread_at_all(fh, 0, back.data(), 1000, MPI_INT, &request), "iread_at_all");
  check_ok(MPI_Wait(&request, &status), "wait");
  check(back == values, "other data by iread_at_all");

  check_ok(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), "set_view");
  check_ok(MPI_File_write_ordered(fh, &rank, 1, MPI_INT, &status), "write_ordered");
  MPI_Offset position = 0;
  check_ok(MPI_File_get_position_shared(fh, &position), "get_position_shared");
  check(position == size, "another shared position");

  MPI_Errhandler handler;
  check_ok(MPI_File_create_errhandler(count_call, &handler), "create_errhandler");
  check_ok(MPI_File_set_errhandler(fh, handler), "set_errhandler");
  MPI_Errhandler_free(&handler);
  handler_calls = 0;
  check(MPI_File_write_at(fh, -1, &rank, 1, MPI_INT, &status) != MPI_SUCCESS && handler_calls == 1,
        "the handler was not called");
  MPI_Info used;
  MPI_Group group;
  check_ok(MPI_File_get_info(fh, &used), "get_info");
  MPI_Info_free(&used);
  check_ok(MPI_File_get_group(fh, &group), "get_group");
  MPI_Group_free(&group);
  check_ok(MPI_File_close(&fh), "close");
  if (rank == 0) check_ok(MPI_File_delete(path, MPI_INFO_NULL), "delete");
}

#if !defined(OPEN_MPI)
struct Meeting {
  char path[64] = "/tmp/stridio-sessions-met-XXXXXX";
  int rank = 0, size = 0;
};

// Without MPI: a byte from each, until all have written theirs.
void wait_for_all(const Meeting& meeting) {
  const int file = open(meeting.path, O_WRONLY | O_APPEND);
  check(file >= 0 && write(file, "", 1) == 1, "cannot say that the session has ended");
  struct stat now {};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (fstat(file, &now) == 0 && now.st_size < meeting.size && std::chrono::steady_clock::now() < end) usleep(1000);
  check(now.st_size == meeting.size, "some rank has not ended its session");
  close(file);
}
#endif

template <typename Use>
void use_session(Use use) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  check_ok(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), "session");
  check_ok(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), "group");
  check_ok(MPI_Comm_create_from_group(group, "stridio-sessions-test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
           "communicator");
  use(comm);
  MPI_Group_free(&group);
  MPI_Comm_free(&comm);
  check_ok(MPI_Session_finalize(&session), "the end of the session");
}

}  // namespace

int main() {
  const auto use_files = [](MPI_Comm comm) {
    use_file(comm, "0");
    use_file(comm, "1");
  };
#if defined(OPEN_MPI)  // 5.0 crashes in MPI_Session_init when it was ended once
  use_session(use_files);
#else
  Meeting meeting;
  use_session([&](MPI_Comm comm) {
    use_files(comm);
    MPI_Comm_rank(comm, &meeting.rank);
    MPI_Comm_size(comm, &meeting.size);
    if (meeting.rank == 0) close(mkstemp(meeting.path));
    MPI_Bcast(meeting.path, sizeof meeting.path, MPI_CHAR, 0, comm);
  });
  // MPICH 5.0 may wait for ever in MPI_Comm_create_from_group where one rank starts anew before another has ended.
  wait_for_all(meeting);
  use_session(use_files);
  if (meeting.rank == 0) unlink(meeting.path);
#endif
  if (failures == 0) std::puts("ended well");
  return failures == 0 ? 0 : 1;
}
