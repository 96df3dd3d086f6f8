#include "doctor_machine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "temporary.h"

namespace stridio {

namespace fs = std::filesystem;

namespace {

constexpr double kMega = 1e6;
constexpr double kLittleSharedMemory = 128 * kMega;  // containers often get 64 MB
constexpr rlim_t kFewFiles = 256;

Finding check_shared_memory() {
  struct statvfs info;
  if (statvfs("/dev/shm", &info) != 0)
    return {Level::kMissing, "shared memory",
            fmt::format("/dev/shm: {}; ranks of one node will exchange data by messages", strerror(errno))};
  const double block = static_cast<double>(info.f_frsize);
  const double size = static_cast<double>(info.f_blocks) * block;
  const double free = static_cast<double>(info.f_bavail) * block;
  const bool little = free < kLittleSharedMemory;
  return {little ? Level::kWarning : Level::kOk, "shared memory",
          fmt::format("/dev/shm has {:.0f} MB, {:.0f} MB of them free{}", size / kMega, free / kMega,
                      little ? ": little for ranks to exchange data through (--shm-size in a container)" : "")};
}

class Descriptor {
 public:
  explicit Descriptor(const fs::path& path) : number_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  bool lock() const {
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_len = 1;
    return fcntl(number_, F_OFD_SETLK, &range) == 0;
  }

 private:
  int number_;
};

Finding check_locks(const fs::path& folder) {
  const char* const subject = "file locks";
  const auto place = TemporaryFolder::create((folder / ".stridio-doctor-").string());
  if (!place) return {Level::kWarning, subject, fmt::format("not checked: cannot write in {}", folder.string())};
  const Descriptor first(place->path() / "file"), second(place->path() / "file");
  if (!first.lock())
    return {Level::kWarning, subject,
            fmt::format("{} takes none ({}): no data sieving for writes there", folder.string(), strerror(errno))};
  if (second.lock())
    return {Level::kWarning, subject,
            fmt::format("{} grants a lock twice: no data sieving for writes there", folder.string())};
  return {Level::kOk, subject, fmt::format("locks of open file descriptions work in {}", folder.string())};
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{}", limit); }

Finding check_open_files() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur < kFewFiles ? Level::kWarning : Level::kOk, "open files",
          fmt::format("{} at a time in a process (ulimit -n)", limit_text(limit.rlim_cur))};
}

Finding check_file_size() {
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const bool limited = limit.rlim_cur != RLIM_INFINITY;
  return {limited ? Level::kWarning : Level::kOk, "file size",
          limited ? fmt::format("limited to {} bytes (ulimit -f)", limit_text(limit.rlim_cur)) : "unlimited"};
}

// The CPU time that a container may use, in cores; 0 where it is not limited.
double quota_in_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

Finding check_cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  std::string detail = fmt::format("{} usable of {}", CPU_COUNT(&usable), sysconf(_SC_NPROCESSORS_ONLN));
  if (const double quota = quota_in_cores(); quota > 0) detail += fmt::format(", limited to the time of {:.1f}", quota);
  return {Level::kOk, "cores", detail};
}

}  // namespace

std::vector<Finding> check_machine(const fs::path& folder) {
  return {check_shared_memory(), check_locks(folder), check_open_files(), check_file_size(), check_cores()};
}

}  // namespace stridio
