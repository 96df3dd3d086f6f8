#include "programs/board.h"

#include <execinfo.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace stridio::testing {
namespace {

Board* of_signals = nullptr;
std::array<char, 1024> replay_text;

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* limit) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit, nullptr, 0);
}

void say_and_die(int signal) {
  char text[1200];
  const int length = std::snprintf(text, sizeof text, "signal %d; replay: %s --seed %llu\n", signal, replay_text.data(),
                                   static_cast<unsigned long long>(of_signals->seed.load()));
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) _exit(5);
  std::array<void*, 40> frames;
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

Board& shared_board() {
  std::array<char, 64> name = {"/dev/shm/stridio-board-XXXXXX"};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    const int made = mkstemp(name.data());
    if (made < 0 || ftruncate(made, sizeof(Board)) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    close(made);
  }
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  const int file = open(name.data(), O_RDWR | O_CLOEXEC);
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
  close(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) unlink(name.data());
  return *static_cast<Board*>(memory);  // a new file is all zeros, which is a board with nobody at its gates
}

void meet(Gate& gate, int count) {
  const std::uint32_t seen = gate.opened;
  if (gate.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(count)) {
    gate.arrived = 0;
    ++gate.opened;
    futex(gate.opened, FUTEX_WAKE, kMostRanks, nullptr);
    return;
  }
  const timespec nap = {0, 2'000'000};
  while (gate.opened == seen) {
    futex(gate.opened, FUTEX_WAIT, seen, &nap);
    if (gate.opened != seen) return;
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, 4711, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  }
}

void watch(Board& board, int ranks, int seconds, const std::string& replay) {
  of_signals = &board;
  put_text(replay_text, replay);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, say_and_die);
  std::thread([&board, ranks, seconds] {
    std::uint64_t seen = 0;
    for (int idle = 0; idle < 4 * seconds;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      const std::uint64_t now = board.beats;
      idle = now == seen ? idle + 1 : 0;
      seen = now;
    }
    if (board.told.exchange(1) == 0) {
      std::fprintf(stderr, "a program hangs; replay: %s --seed %llu\n", replay_text.data(),
                   static_cast<unsigned long long>(board.seed.load()));
      for (int r = 0; r < ranks; ++r)
        std::fprintf(stderr, "  rank %d of the run is in: %s\n", r,
                     board.ranks[static_cast<std::size_t>(r)].step.data());
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // leave it time to be heard
    }
    std::fflush(nullptr);
    _exit(3);
  }).detach();
}

}  // namespace stridio::testing
