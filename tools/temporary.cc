#include "temporary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

namespace stridio {

namespace fs = std::filesystem;

namespace {

// In the child: reads the name, and waits until nobody can write to it any more.
[[noreturn]] void execute_will(int from_parent) {
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  dup2(from_parent, STDIN_FILENO);
  close_range(STDIN_FILENO + 1, ~0U, 0);
  std::array<char, PATH_MAX + 1> path = {};
  ssize_t got = 0;
  for (std::size_t length = 0; (got = read(STDIN_FILENO, path.data() + length, PATH_MAX - length)) > 0;)
    length += static_cast<std::size_t>(got);
  unlink(path.data());
  _exit(0);
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::create(const std::string& prefix) {
  std::error_code ignored;
  std::string name = fs::absolute(prefix, ignored).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return fail_errno(errno, "cannot create a temporary folder", name);
  return TemporaryFolder(name);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

LastWill::LastWill() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  child_ = fork();
  if (child_ == 0) execute_will(ends[0]);
  ::close(ends[0]);
  to_child_ = ends[1];
}

LastWill::~LastWill() {
  if (to_child_ >= 0) ::close(to_child_);
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

void LastWill::remove(const std::string& path) const {
  if (child_ <= 0 || path.size() >= PATH_MAX) return;  // there can be no such file
  [[maybe_unused]] const auto told = write(to_child_, path.data(), path.size());
}

}  // namespace stridio
