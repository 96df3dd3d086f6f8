#include "storage/mapping.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace stridio {
namespace {

// What the signal handler knows of its thread's mapping; it touches nothing else.
struct Mapped {
  std::uintptr_t begin = 0, end = 0;
  volatile sig_atomic_t torn = 0;
};
thread_local Mapped mapped;

struct sigaction other_action;  // who handled SIGBUS before
const std::uintptr_t page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));

bool replace_page(std::uintptr_t address) {
  void* const page = reinterpret_cast<void*>(address / page_size * page_size);
  return ::mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address >= mapped.begin && address < mapped.end && replace_page(address)) {
    mapped.torn = 1;
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

Result<std::unique_ptr<Mapping>> Mapping::make(int fd, Extent range, bool writable) {
  handle_bus_errors();
  const Offset begin = range.offset / static_cast<Offset>(page_size) * static_cast<Offset>(page_size);
  const Bytes length = range.end() - begin;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const pages = ::mmap(nullptr, static_cast<std::size_t>(length), protection, MAP_SHARED, fd, begin);
  if (pages == MAP_FAILED) return fail_errno(errno, "mapping", "");
  std::unique_ptr<Mapping> mapping(new Mapping(pages, length, static_cast<std::byte*>(pages) + (range.offset - begin)));
  if (::madvise(pages, static_cast<std::size_t>(length), writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0)
    return fail_errno(errno, "mapping", "");
  return mapping;
}

Mapping::Mapping(void* pages, Bytes length, std::byte* data) : pages_(pages), length_(length), data_(data) {
  mapped.begin = reinterpret_cast<std::uintptr_t>(pages);
  mapped.end = mapped.begin + static_cast<std::uintptr_t>(length);
  mapped.torn = 0;
}

Mapping::~Mapping() {
  mapped.begin = mapped.end = 0;
  ::munmap(pages_, static_cast<std::size_t>(length_));
}

bool Mapping::whole() const { return mapped.torn == 0; }

}  // namespace stridio
