#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <thread>

namespace stridio {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr std::size_t kMostOutput = 1 << 20;
constexpr std::chrono::seconds kGrace{2};  // between TERM and KILL: a launcher ends its ranks

int shell_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

bool executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

void set_variables(const Variables& variables) {
  for (const auto& [name, value] : variables) {
    if (value.empty())
      unsetenv(name.c_str());
    else
      setenv(name.c_str(), value.c_str(), 1);
  }
}

// In the child: becomes the program, or writes the errno to `report` and ends.
[[noreturn]] void become(const std::string& program, const Arguments& arguments, const Variables& variables,
                         int report) {
  set_variables(variables);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  const int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(error == ENOENT ? 127 : 126);
}

struct Pipe {
  int read_end = -1, write_end = -1;
  ~Pipe() {
    close_read();
    close_write();
  }
  bool open() {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = ends[0], write_end = ends[1];
    return true;
  }
  void close_read() {
    if (read_end >= 0) ::close(read_end), read_end = -1;
  }
  void close_write() {
    if (write_end >= 0) ::close(write_end), write_end = -1;
  }
};

// Starts the program; `prepare` runs in the child first. An exec that fails is this function's
// error.
Result<pid_t> start(const std::string& program, const Arguments& arguments, const Variables& variables,
                    const std::function<void()>& prepare) {
  Pipe failed;
  if (!failed.open()) return fail_errno(errno, "cannot create a pipe");
  const pid_t child = fork();
  if (child < 0) return fail_errno(errno, "cannot start a process");
  if (child == 0) {
    prepare();
    become(program, arguments, variables, failed.write_end);
  }
  failed.close_write();
  int error = 0;
  if (read(failed.read_end, &error, sizeof error) != sizeof error) return child;
  waitpid(child, nullptr, 0);
  return fail_errno(error, "cannot run " + program);
}

// Blocks the forwarded signals and SIGCHLD for the lifetime of the object, so that they can be
// waited for.
class SignalMask {
 public:
  SignalMask() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    for (int signal : kForwarded) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~SignalMask() { restore(); }
  SignalMask(const SignalMask&) = delete;
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int next(siginfo_t* info) const { return sigwaitinfo(&set_, info); }

 private:
  sigset_t set_;
  sigset_t before_;
};

Ended wait_forwarding(pid_t child, const SignalMask& signals) {
  for (int asked = 0;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return {shell_status(status), WIFSIGNALED(status) ? WTERMSIG(status) : asked};
    siginfo_t info;
    const int signal = signals.next(&info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    if (signal != SIGUSR1 && signal != SIGUSR2) asked = signal;
    if (info.si_code != SI_KERNEL) kill(child, signal);
  }
}

// Reads until the end of the output or the deadline; true if the end was reached.
bool drain(int descriptor, Clock::time_point deadline, std::string& output) {
  std::array<char, 4096> buffer;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{descriptor, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    const std::size_t room = kMostOutput - std::min(kMostOutput, output.size());
    output.append(buffer.data(), std::min<std::size_t>(room, static_cast<std::size_t>(count)));
  }
}

bool ended_by(pid_t child, Clock::time_point deadline, int& status) {
  while (waitpid(child, &status, WNOHANG) != child) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

int end_group(pid_t child) {
  int status = 0;
  kill(-child, SIGTERM);
  if (!ended_by(child, Clock::now() + kGrace, status)) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
  }
  kill(-child, SIGKILL);
  return status;
}

void become_session(int output) {
  setsid();
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
}

}  // namespace

std::string find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != name.npos) return executable_file(name) ? name : "";
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (!name.empty() && executable_file(candidate)) return candidate.string();
  }
  return "";
}

Result<Ended> run_program(const std::string& program, const Arguments& arguments, const Variables& variables) {
  const SignalMask signals;
  ASSIGN_OR_RETURN(const pid_t child, start(program, arguments, variables, [&] {
                     prctl(PR_SET_PDEATHSIG, SIGTERM);
                     signals.restore();
                   }));
  return wait_forwarding(child, signals);
}

Result<Captured> capture(const Arguments& arguments, const Variables& variables, std::chrono::milliseconds timeout) {
  Pipe out;
  if (!out.open()) return fail_errno(errno, "cannot create a pipe");
  ASSIGN_OR_RETURN(const pid_t child,
                   start(arguments.front(), arguments, variables, [&] { become_session(out.write_end); }));
  out.close_write();
  Captured captured;
  int status = 0;
  const auto deadline = Clock::now() + timeout;
  const bool ended = drain(out.read_end, deadline, captured.output) && ended_by(child, deadline, status);
  if (!ended) status = end_group(child);
  captured.timed_out = !ended;
  captured.status = shell_status(status);
  return captured;
}

}  // namespace stridio
