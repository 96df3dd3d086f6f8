#include "storage/mapping.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <utility>

namespace stridio {
namespace {

thread_local Mapping::Watch* innermost = nullptr;

struct sigaction other_action;  // who handled SIGBUS before
const std::uintptr_t page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (Mapping::Watch::replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = saved;
    return;
  }
  if ((other_action.sa_flags & SA_SIGINFO) != 0) return other_action.sa_sigaction(signal, info, context);
  if (other_action.sa_handler != SIG_DFL && other_action.sa_handler != SIG_IGN) return other_action.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // it ends the program as it would have without us
  ::raise(signal);
}

void handle_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(SIGBUS, &ours, &other_action);
  });
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::make(int fd, Extent range, bool writable, bool brings_in) {
  handle_bus_errors();
  brings_in = brings_in && (writable || !Watch::sees_errors());
  if (brings_in && !writable && range.length > kMostBroughtIn)
    return fail(Code::kUnsupportedOperation, "mapping so much of a file for a program that handles bus errors itself");
  const Offset begin = range.offset / static_cast<Offset>(page_size) * static_cast<Offset>(page_size);
  const Bytes length = range.end() - begin;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const pages = ::mmap(nullptr, static_cast<std::size_t>(length), protection, MAP_SHARED, fd, begin);
  if (pages == MAP_FAILED) return fail_errno(errno, "mapping", "");
  std::unique_ptr<Mapping> mapping(new Mapping(pages, length, static_cast<std::byte*>(pages) + (range.offset - begin)));
  const int all = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  // To touch pages to read costs less: then the kernel maps up to sixteen at once.
  if (brings_in && ::madvise(pages, static_cast<std::size_t>(length), all) != 0)
    return fail_errno(errno, "mapping", "");
  return mapping;
}

Mapping::~Mapping() { ::munmap(pages_, static_cast<std::size_t>(length_)); }

Mapping::Watch::Watch(const Mapping& mapping)
    : begin_(reinterpret_cast<std::uintptr_t>(mapping.pages_)),
      end_(begin_ + static_cast<std::uintptr_t>(mapping.length_)),
      outer_(std::exchange(innermost, this)) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the handler knows of it before the first byte is touched
}

Mapping::Watch::~Watch() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  innermost = outer_;
}

bool Mapping::Watch::whole() const {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return torn_ == 0;
}

bool Mapping::Watch::sees_errors() {
  handle_bus_errors();
  struct sigaction now {};
  sigset_t blocked;
  return ::sigaction(SIGBUS, nullptr, &now) == 0 && now.sa_sigaction == on_bus_error &&
         ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0 && ::sigismember(&blocked, SIGBUS) == 0;
}

bool Mapping::Watch::replace_page(std::uintptr_t address) {
  for (Watch* watch = innermost; watch != nullptr; watch = watch->outer_) {
    if (address < watch->begin_ || address >= watch->end_) continue;
    // With all that follow, so that a failing disk is asked once.
    const std::uintptr_t first = address / page_size * page_size;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (::mmap(reinterpret_cast<void*>(first), watch->end_ - first, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
      return false;
    watch->torn_ = 1;
    return true;
  }
  return false;
}

}  // namespace stridio
