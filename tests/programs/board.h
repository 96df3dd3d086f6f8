// What the ranks of a run share beside MPI: memory that all map. The harness meets and reports there, so that it neither
// costs an MPI collective a step nor depends on what is under test.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace stridio::testing {

constexpr int kMostRanks = 8;

// A barrier of a number of ranks that may differ from time to time.
struct Gate {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> opened;
};

struct RankBoard {
  std::array<char, 160> step;               // what it is doing, for the watchdog
  std::array<char, 4096> failure;           // its first failure in this program
  std::array<unsigned char, 1 << 16> data;  // what it hands to the others
};

struct Board {
  Gate program, members;
  std::atomic<std::uint64_t> beats;  // of all ranks together: no beat for long means a hang
  std::atomic<std::uint64_t> seed;   // of the program that runs
  std::atomic<std::uint32_t> failed, told, go_on;
  std::array<RankBoard, kMostRanks> ranks;
};

// Collective over MPI_COMM_WORLD, once.
Board& shared_board();

// Waits until `count` ranks are here, driving MPI's progress: others may still need it for what this rank sent.
void meet(Gate& gate, int count);

template <std::size_t n>
void put_text(std::array<char, n>& to, const std::string& text) {
  const std::size_t length = text.copy(to.data(), n - 1);
  to[length] = '\0';
}

// Ends the process, with a word about every rank, when the board sees no beat for `seconds`; and names the program
// where a signal kills it.
void watch(Board& board, int ranks, int seconds, const std::string& replay);

}  // namespace stridio::testing
