// A file system that is as slow as a network's: each request takes a latency, and all bytes share one bandwidth. It
// passes everything through to a folder, and counts.
//
// It should take little of a machine that it shares with those who use it, which a storage does not: two threads take requests, into
// buffers that stay in a core's caches, and do what they ask for; a third one answers when that is due. So requests overlap. The kernel
// would still write one inode one request at a time: always where direct_io is set alone, and beyond the end of the
// file even with FOPEN_PARALLEL_DIRECT_WRITES. So each open has an inode of its own, as if each process ran on
// a machine of its own: a lookup of a file always answers with a new node, for which the kernel may keep no entry.
// libfuse 3.14 does not know the flag; the reply to an open is its own few bytes, as <linux/fuse.h> has them.
//
// Nothing is cached: direct_io, and no attribute is kept. A request of a program is cut at 1 MiB (256 pages of user
// memory, the kernel's most) into requests that follow each other.
//
// Range locks go to the folder's file, as locks of this open's descriptor: they exclude every other open.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr char kCountsName[] = ".slowfs-counts";  // in the root: reading gives JSON, writing sets all to 0
constexpr double kDirectorySeconds = 1e6;         // directories change here only: the kernel may remember them
constexpr int kThreads = 2;

// --------------------------------------------------------------------------------------------------- the slow link ---

struct Counts {
  long reads = 0, writes = 0, locks = 0, others = 0;
  long bytes_read = 0, bytes_written = 0, largest = 0;
  long most_in_flight = 0;  // reads and writes at one time
};

class Link {
 public:
  double latency = 1e-3;   // seconds
  double bandwidth = 1e9;  // bytes a second

  void arrive() {
    const std::scoped_lock lock(mutex_);
    counts_.most_in_flight = std::max(counts_.most_in_flight, ++in_flight_);
  }
  // When a request that arrived then may be answered. Its bytes pass the link after those of the requests before it;
  // latencies overlap.
  Clock::time_point carry(Clock::time_point arrival, long bytes) {
    const std::scoped_lock lock(mutex_);
    free_at_ = std::max(free_at_, arrival) + cast(static_cast<double>(bytes) / bandwidth);
    return free_at_ + cast(latency);
  }
  void leave(bool writes, long bytes) {
    const std::scoped_lock lock(mutex_);
    --in_flight_;
    ++(writes ? counts_.writes : counts_.reads);
    (writes ? counts_.bytes_written : counts_.bytes_read) += bytes;
    counts_.largest = std::max(counts_.largest, bytes);
  }
  void count(long Counts::*kind) {
    const std::scoped_lock lock(mutex_);
    ++(counts_.*kind);
  }
  void reset() {
    const std::scoped_lock lock(mutex_);
    counts_ = {.most_in_flight = in_flight_};
  }
  std::string json();

 private:
  static Clock::duration cast(double seconds) { return std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }

  std::mutex mutex_;
  Clock::time_point free_at_;
  long in_flight_ = 0;
  Counts counts_;
};

std::string Link::json() {
  const std::scoped_lock lock(mutex_);
  std::string text;
  const auto add = [&](const char* name, long value) {
    text += (text.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + std::to_string(value);
  };
  add("reads", counts_.reads);
  add("writes", counts_.writes);
  add("locks", counts_.locks);
  add("others", counts_.others);
  add("bytes_read", counts_.bytes_read);
  add("bytes_written", counts_.bytes_written);
  add("largest", counts_.largest);
  add("most_in_flight", counts_.most_in_flight);
  return text + "}\n";
}

Link& network() {
  static Link instance;
  return instance;
}

// What is to be done later, by one thread, which starts with the first of it.
class Later {
 public:
  // What is not due yet is left undone.
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    tasks_.clear();
  }
  void at(Clock::time_point due, std::function<void()> task) {
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    const auto added = tasks_.emplace(due, std::move(task));
    if (added == tasks_.begin()) changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (tasks_.empty()) {
        changed_.wait(lock);
      } else if (const auto due = tasks_.begin()->first; due > Clock::now()) {
        changed_.wait_until(lock, due);
      } else {
        const auto task = tasks_.extract(tasks_.begin());
        lock.unlock();
        task.mapped()();
        lock.lock();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

Later& later() {
  static Later instance;
  return instance;
}

// The work is done at once, and what comes of it answered when it is due: a number of bytes, or -1 and errno.
template <typename Work, typename Answer>
void transfer(bool writes, Work work, Answer answer) {
  const auto arrival = Clock::now();
  network().arrive();
  const ssize_t result = work();
  const int error = errno;
  const long bytes = std::max<ssize_t>(result, 0);
  later().at(network().carry(arrival, bytes), [=] {
    network().leave(writes, bytes);
    errno = error;
    answer(result);
  });
}

// A request without data, whose work is done when it is answered.
void small(std::function<void()> work, long Counts::*kind = &Counts::others) {
  network().count(kind);
  later().at(network().carry(Clock::now(), 0), std::move(work));
}

// Where what was read waits for its answer: memory that is used again, the last first.
class Buffers {
 public:
  std::shared_ptr<char> take(size_t size) {
    std::unique_ptr<std::vector<char>> buffer;
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        buffer = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!buffer) buffer = std::make_unique<std::vector<char>>();
    if (buffer->size() < size) buffer->resize(size);
    char* const data = buffer->data();
    return {data, [this, kept = buffer.release()](char*) {
              const std::scoped_lock lock(mutex_);
              free_.emplace_back(kept);
            }};
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::vector<char>>> free_;
};

Buffers& buffers() {
  static Buffers instance;
  return instance;
}

// ----------------------------------------------------------------------------------------------------------- nodes ---

// A name that was looked up, once; the kernel's number for it is its address.
struct Node {
  int fd;  // O_PATH; -1: the counts
};

Node root{-1};
Node counts{-1};

Node& at(fuse_ino_t number) { return number == FUSE_ROOT_ID ? root : *reinterpret_cast<Node*>(number); }
bool is_counts(fuse_ino_t number) { return &at(number) == &counts; }

// The kernel's way to a node's file.
std::string path_of(fuse_ino_t number) { return "/proc/self/fd/" + std::to_string(at(number).fd); }

int describe(fuse_ino_t number, struct stat* attributes) {
  if (!is_counts(number)) return fstatat(at(number).fd, "", attributes, AT_EMPTY_PATH);
  *attributes = {};
  attributes->st_mode = S_IFREG | 0644;
  attributes->st_nlink = 1;
  return 0;
}

void reply(fuse_req_t request, ssize_t result) { fuse_reply_err(request, result < 0 ? errno : 0); }

void reply_entry(fuse_req_t request, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry{};
  if (parent == FUSE_ROOT_ID && std::strcmp(name, kCountsName) == 0) {
    entry.ino = reinterpret_cast<fuse_ino_t>(&counts);
  } else {
    const int fd = openat(at(parent).fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return reply(request, -1);
    entry.ino = reinterpret_cast<fuse_ino_t>(new Node{fd});
  }
  describe(entry.ino, &entry.attr);
  if (S_ISDIR(entry.attr.st_mode)) entry.entry_timeout = kDirectorySeconds;
  fuse_reply_entry(request, &entry);
}

void forget(fuse_req_t request, fuse_ino_t number, uint64_t) {
  if (number != FUSE_ROOT_ID && !is_counts(number)) {
    close(at(number).fd);
    delete &at(number);
  }
  fuse_reply_none(request);
}

void reply_attributes(fuse_req_t request, fuse_ino_t number) {
  struct stat attributes;
  if (describe(number, &attributes) != 0) return reply(request, -1);
  fuse_reply_attr(request, &attributes, 0);
}

void getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
  if (is_counts(number)) return reply_attributes(request, number);
  small([=] { reply_attributes(request, number); });
}

void setattr(fuse_req_t request, fuse_ino_t number, struct stat* wanted, int which, fuse_file_info*) {
  if (is_counts(number)) return reply_attributes(request, number);
  small([=, size = wanted->st_size, mode = wanted->st_mode] {
    const std::string path = path_of(number);
    int result = 0;
    if (which & FUSE_SET_ATTR_SIZE) result = truncate(path.c_str(), size);
    if (result == 0 && which & FUSE_SET_ATTR_MODE) result = chmod(path.c_str(), mode);
    if (result != 0) return reply(request, -1);
    reply_attributes(request, number);
  });
}

// ---------------------------------------------------------------------------------------------- names and folders ---

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) { reply_entry(request, parent, name); }

void make_node(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  small([=, name = std::string(name)] {
    if (mknodat(at(parent).fd, name.c_str(), mode, device) != 0) return reply(request, -1);
    reply_entry(request, parent, name.c_str());
  });
}

void make_folder(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  small([=, name = std::string(name)] {
    if (mkdirat(at(parent).fd, name.c_str(), mode) != 0) return reply(request, -1);
    reply_entry(request, parent, name.c_str());
  });
}

void unlink_file(fuse_req_t request, fuse_ino_t parent, const char* name) {
  small([=, name = std::string(name)] { reply(request, unlinkat(at(parent).fd, name.c_str(), 0)); });
}

void remove_folder(fuse_req_t request, fuse_ino_t parent, const char* name) {
  small([=, name = std::string(name)] { reply(request, unlinkat(at(parent).fd, name.c_str(), AT_REMOVEDIR)); });
}

void rename_entry(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
                  unsigned flags) {
  small([=, name = std::string(name), new_name = std::string(new_name)] {
    reply(request, renameat2(at(parent).fd, name.c_str(), at(new_parent).fd, new_name.c_str(), flags));
  });
}

void list_folder(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info*) {
  DIR* folder = opendir(path_of(number).c_str());
  if (!folder) return reply(request, -1);
  std::vector<char> buffer(size);
  size_t used = 0;
  off_t index = 0;
  while (const dirent* entry = readdir(folder)) {
    if (index++ < offset) continue;
    struct stat attributes {};
    attributes.st_ino = entry->d_ino;
    attributes.st_mode = static_cast<mode_t>(DTTOIF(entry->d_type));
    const size_t needed =
        fuse_add_direntry(request, buffer.data() + used, size - used, entry->d_name, &attributes, index);
    if (needed > size - used) break;
    used += needed;
  }
  closedir(folder);
  fuse_reply_buf(request, buffer.data(), used);
}

void statfs(fuse_req_t request, fuse_ino_t number) {
  struct statvfs what;
  if (fstatvfs(at(number).fd, &what) != 0) return reply(request, -1);
  fuse_reply_statfs(request, &what);
}

// ----------------------------------------------------------------------------------------------------------- files ---

void open_file(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  const auto answer = [request](int fd) {
    fuse_open_out opened{};
    opened.fh = static_cast<uint64_t>(fd);
    opened.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
    fuse_reply_buf(request, reinterpret_cast<const char*>(&opened), sizeof opened);
  };
  if (is_counts(number)) return answer(0);
  small([=, flags = (file->flags & ~O_NOFOLLOW) | O_CLOEXEC] {
    const int fd = open(path_of(number).c_str(), flags);
    if (fd < 0) return reply(request, -1);
    answer(fd);
  });
}

void release(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
  if (!is_counts(number)) close(static_cast<int>(file->fh));
  reply(request, 0);
}

void read_counts(fuse_req_t request, size_t size, off_t offset) {
  const std::string text = network().json();
  const auto begin = std::min(text.size(), static_cast<size_t>(offset));
  fuse_reply_buf(request, text.data() + begin, std::min(size, text.size() - begin));
}

void read_file(fuse_req_t request, fuse_ino_t number, size_t size, off_t offset, fuse_file_info* file) {
  if (is_counts(number)) return read_counts(request, size, offset);
  const auto buffer = buffers().take(size);
  transfer(
      false, [&] { return pread(static_cast<int>(file->fh), buffer.get(), size, offset); },
      [=](ssize_t got) {
        if (got < 0) return reply(request, -1);
        fuse_reply_buf(request, buffer.get(), static_cast<size_t>(got));
      });
}

void write_file(fuse_req_t request, fuse_ino_t number, const char* data, size_t size, off_t offset,
                fuse_file_info* file) {
  if (is_counts(number)) {
    network().reset();
    fuse_reply_write(request, size);
    return;
  }
  transfer(
      true,
      [&] {
        static std::mutex turn;  // the kernel's own would be waited for by spinning
        const std::scoped_lock lock(turn);
        return pwrite(static_cast<int>(file->fh), data, size, offset);
      },
      [=](ssize_t done) {
        if (done < 0) return reply(request, -1);
        fuse_reply_write(request, static_cast<size_t>(done));
      });
}

void sync_file(fuse_req_t request, fuse_ino_t number, int, fuse_file_info* file) {
  if (is_counts(number)) return reply(request, 0);
  small([=, fd = static_cast<int>(file->fh)] { reply(request, fsync(fd)); });
}

void allocate(fuse_req_t request, fuse_ino_t number, int mode, off_t offset, off_t length, fuse_file_info* file) {
  if (is_counts(number)) return reply(request, 0);
  small([=, fd = static_cast<int>(file->fh)] { reply(request, fallocate(fd, mode, offset, length)); });
}

void ask_lock(fuse_req_t request, fuse_ino_t, fuse_file_info* file, struct flock* lock) {
  lock->l_pid = 0;  // as locks of a descriptor want it
  const auto ask = [request, fd = static_cast<int>(file->fh), asked = *lock]() mutable {
    if (fcntl(fd, F_OFD_GETLK, &asked) != 0) return reply(request, -1);
    fuse_reply_lock(request, &asked);
  };
  small(ask, &Counts::locks);
}

// A waiter asks again and again, so that its end (a signal) can be heard.
void try_lock(fuse_req_t request, int fd, struct flock lock, bool waits) {
  const int result = fcntl(fd, F_OFD_SETLK, &lock);
  if (result == 0 || errno != EAGAIN || !waits) return reply(request, result);
  if (fuse_req_interrupted(request)) {
    fuse_reply_err(request, EINTR);
    return;
  }
  later().at(Clock::now() + std::chrono::milliseconds(1), [=] { try_lock(request, fd, lock, waits); });
}

void set_lock(fuse_req_t request, fuse_ino_t, fuse_file_info* file, struct flock* lock, int waits) {
  lock->l_pid = 0;
  small([=, fd = static_cast<int>(file->fh), wanted = *lock] { try_lock(request, fd, wanted, waits != 0); },
        &Counts::locks);
}

// ------------------------------------------------------------------------------------------------------------ main ---

// There is no `create`: the kernel then makes a node and opens it.
const fuse_lowlevel_ops operations = [] {
  fuse_lowlevel_ops ops{};
  ops.lookup = lookup;
  ops.forget = forget;
  ops.getattr = getattr;
  ops.setattr = setattr;
  ops.mknod = make_node;
  ops.mkdir = make_folder;
  ops.unlink = unlink_file;
  ops.rmdir = remove_folder;
  ops.rename = rename_entry;
  ops.readdir = list_folder;
  ops.statfs = statfs;
  ops.open = open_file;
  ops.release = release;
  ops.read = read_file;
  ops.write = write_file;
  ops.fsync = sync_file;
  ops.fallocate = allocate;
  ops.getlk = ask_lock;
  ops.setlk = set_lock;
  return ops;
}();

// Returns after SIGTERM, SIGINT or an unmount.
int serve(const std::string& mount_point) {
  const char* words[] = {"slowfs", "-o", "fsname=slowfs,subtype=slowfs"};
  fuse_args arguments = FUSE_ARGS_INIT(3, const_cast<char**>(words));
  fuse_session* session = fuse_session_new(&arguments, &operations, sizeof operations, nullptr);
  if (!session) return 1;
  int status = 1;
  if (fuse_set_signal_handlers(session) == 0 && fuse_session_mount(session, mount_point.c_str()) == 0) {
    fuse_loop_config* config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(config, kThreads);
    fuse_loop_cfg_set_idle_threads(config, kThreads);
    status = fuse_session_loop_mt(session, config) < 0;
    fuse_loop_cfg_destroy(config);
    later().stop();
    fuse_session_unmount(session);
  }
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Mounts a folder as slow, network-like storage, until SIGTERM.");
  std::string folder, mount_point;
  double latency_ms = 1, bandwidth_mb = 1000;
  app.add_option("folder", folder, "where the data is")->required()->check(CLI::ExistingDirectory);
  app.add_option("mount", mount_point, "where it is mounted")->required()->check(CLI::ExistingDirectory);
  app.add_option("--latency", latency_ms, "of a request, in ms")->capture_default_str()->check(CLI::NonNegativeNumber);
  app.add_option("--bandwidth", bandwidth_mb, "of all together, in MB/s")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  root.fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root.fd < 0) return perror(folder.c_str()), 1;
  umask(0);                           // the kernel has applied the program's
  prctl(PR_SET_PDEATHSIG, SIGTERM);   // whoever mounts it may be killed
  prctl(PR_SET_TIMERSLACK, 1);        // or each answer would be 50 us late
  setpriority(PRIO_PROCESS, 0, -20);  // no ranks that compute should keep it waiting; where that is allowed
  network().latency = latency_ms * 1e-3;
  network().bandwidth = bandwidth_mb * 1e6;
  return serve(mount_point);
}
