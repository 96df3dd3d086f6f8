#include "group/process_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace stridio {
namespace {

enum class Found { kYes, kNoSuchProcess, kUnknown };

struct ProcessStat {
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start_time = 0;
};

// The fields 3, 20 and 22 of /proc/PID/stat. The command, field 2, may hold spaces and parentheses:
// what follows its last closing one is regular.
bool parse(const char* line, ProcessStat& stat) {
  const char* at = std::strrchr(line, ')');
  if (at == nullptr) return false;
  unsigned long long threads = 0, start = 0;
  const int fields =
      std::sscanf(at + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %*s %llu",
                  &stat.state, &threads, &start);
  stat.threads = threads;
  stat.start_time = start;
  return fields == 3;
}

Found read_stat(std::int64_t pid, ProcessStat& stat) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? Found::kNoSuchProcess : Found::kUnknown;
  char line[1024];
  const ssize_t length = read(fd, line, sizeof line - 1);
  const int error = errno;
  close(fd);
  if (length < 0) return error == ESRCH ? Found::kNoSuchProcess : Found::kUnknown;
  line[length] = '\0';
  return parse(line, stat) ? Found::kYes : Found::kUnknown;
}

}  // namespace

ProcessId this_process() {
  ProcessId self{.pid = getpid()};
  if (ProcessStat stat; read_stat(self.pid, stat) == Found::kYes) self.start_time = stat.start_time;
  if (struct stat space; ::stat("/proc/self/ns/pid", &space) == 0) self.pid_namespace = space.st_ino;
  return self;
}

bool can_watch(const ProcessId& process) {
  struct stat space;
  if (::stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != process.pid_namespace) return false;
  ProcessStat stat;
  return process.start_time != 0 && read_stat(process.pid, stat) == Found::kYes &&
         stat.start_time == process.start_time;
}

bool has_died(const ProcessId& process) {
  ProcessStat stat;
  switch (read_stat(process.pid, stat)) {
    case Found::kNoSuchProcess: return true;
    case Found::kUnknown: return false;
    case Found::kYes: break;
  }
  if (stat.start_time != process.start_time) return true;
  // A main thread that has ended leaves a zombie too, with other threads alive behind it.
  return (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
}

}  // namespace stridio
