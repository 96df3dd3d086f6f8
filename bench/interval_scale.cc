// What cutting the views of many ranks into interval sets costs, simulated: the ranks are threads of this process, nodes
// are forced. It counts; it does not time. docs/design/004-interval-sets.md says what the columns mean.
//
//   interval_scale [--check] [RANKS ...]     RANKS: square numbers; --check fails where counts grow faster than they may
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "interval/sets.h"
#include "simulation.h"

namespace stridio {
namespace {

// ---- Workloads: the view of a rank

struct Workload {
  const char* name;
  TiledView (*view)(int rank, int ranks);
  std::int64_t classes, known;  // as Knowledge's of a rank, at most, however many ranks there are
};

TiledView flash_view(int rank, int ranks) {
  const Pattern file = flash(rank, ranks);
  return {0, file, file.size() * ranks};
}

// Tiles of 512 x 512 pixels of 3 bytes that reach 16 pixels into their neighbours'. Weak.
TiledView tile_view(int rank, int ranks) {
  constexpr Bytes kSide = 512, kGhost = 16, kPixel = 3;
  const std::int64_t grid = root(ranks, 2), x = rank % grid, y = rank / grid;
  const Bytes all = grid * kSide;
  const auto low = [&](std::int64_t at) { return std::max<Bytes>(0, at * kSide - kGhost); };
  const auto high = [&](std::int64_t at) { return std::min(all, (at + 1) * kSide + kGhost); };
  const Pattern row = Pattern::run(0, (high(x) - low(x)) * kPixel);
  const Pattern tile = Pattern::strided(high(y) - low(y), all * kPixel, row);
  return {0, tile.shifted((low(y) * all + low(x)) * kPixel), all * all * kPixel};
}

// Pieces of 64 bytes at random places, 2,000 a rank; many are another rank's too. Weak.
TiledView unstruc_view(int rank, int ranks) {
  constexpr Bytes kPiece = 64;
  constexpr std::int64_t kPieces = 2000;
  std::mt19937_64 random(static_cast<std::uint64_t>(rank));
  std::vector<Offset> places(kPieces);
  for (Offset& place : places)
    place = kPiece * static_cast<Offset>(random() % static_cast<std::uint64_t>(2 * kPieces * ranks));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return {0, Pattern::indexed(std::move(places), {}, 0, Pattern::run(0, kPiece)), 2 * kPieces * kPiece * ranks};
}

// No view was set: all ranks have the whole file.
TiledView whole_view(int, int) { return {0, Pattern::run(0, 1), 1}; }

constexpr Workload kWorkloads[] = {{"FLASH", flash_view, 0, 0},
                                   {"tile", tile_view, 16, 20'000},
                                   {"UNSTRUC", unstruc_view, 1000, 600'000},
                                   {"whole file", whole_view, 1, 512}};

// ---- A run

// Of one rank, what it knows in the end.
struct Knowledge {
  std::int64_t classes = 0;  // sets of intervals that it shares with the same ranks
  Bytes bytes = 0;           // in memory
  Bytes shared = 0;          // of the file
  std::int64_t inexact = 0;
  std::set<std::pair<int, std::uint32_t>> locks;
};

struct Table {
  std::vector<Counts> counts;
  std::vector<Knowledge> knowledge;
};

Table run(const Workload& workload, int ranks) {
  Table table{std::vector<Counts>(static_cast<std::size_t>(ranks)),
              std::vector<Knowledge>(static_cast<std::size_t>(ranks))};
  run_threads(ranks, {.ranks_per_node = kRanksPerNode}, [&](Group& inner) {
    const auto rank = static_cast<std::size_t>(inner.rank());
    const TiledView view = workload.view(inner.rank(), ranks);
    Counts opening;
    CountingGroup group(inner, opening);
    if (group.node_count() > 1 && !group.levels()) std::exit(1);  // as opening a file does
    Counts& mine = table.counts[rank];
    group.count_in(mine);
    const std::int64_t before = heap_most = heap_now;
    const auto sets = cut_intervals(group, view);
    if (!sets) {
      fmt::print("{}\n", sets.error().text());
      std::exit(1);
    }
    mine.heap = heap_most - before;
    Knowledge& knows = table.knowledge[rank];
    for (const SharedIntervals& each : sets->shared()) {
      ++knows.classes;
      knows.bytes += each.bytes.footprint() + each.sharers.footprint();
      knows.shared += each.bytes.size();
      knows.inexact += !each.exact;
      knows.locks.emplace(each.manager, each.lock);
    }
  });
  return table;
}

Knowledge most_of(const std::vector<Knowledge>& all) {
  Knowledge most;
  for (const Knowledge& each : all) {
    most.classes = std::max(most.classes, each.classes);
    most.bytes = std::max(most.bytes, each.bytes);
  }
  return most;
}

void print(const char* name, int ranks, const Table& table) {
  const Counts most = most_of(table.counts);
  const Knowledge knows = most_of(table.knowledge);
  std::int64_t messages = 0, bytes = 0, inexact = 0;
  std::set<std::pair<int, std::uint32_t>> locks;
  std::set<int> managers;
  for (const Counts& each : table.counts) {
    messages += each.messages;
    bytes += each.bytes;
  }
  for (const Knowledge& each : table.knowledge) {
    inexact += each.inexact;
    locks.insert(each.locks.begin(), each.locks.end());
  }
  for (const auto& [manager, lock] : locks) managers.insert(manager);
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name, ranks, messages,
             most.messages, bytes, most.bytes, most.agreed, most.heap, most.steps, managers.size(), locks.size(),
             knows.classes, knows.bytes);
  if (inexact > 0) fmt::print("inexact: {}\n", inexact);
  std::fflush(stdout);
}

// Whether no rank gets more messages than two from each other node, four for each step of the leaders' agreements, and
// what nodes tell each other of their messages; agrees with all ranks about nothing but that; takes some megabytes; and knows
// of what it shares as much as its view has of that, however many ranks there are.
bool bounded(const Workload& workload, int ranks, const Table& table) {
  constexpr std::int64_t kMostHeap = std::int64_t{8} << 20;
  const Counts most = most_of(table.counts);
  const Knowledge knows = most_of(table.knowledge);
  const int nodes = (ranks + kRanksPerNode - 1) / kRanksPerNode;
  const std::int64_t steps = std::bit_width(static_cast<unsigned>(nodes - 1));
  const std::int64_t allowed = nodes == 1 ? 0 : 4 * (nodes - 1) + 16 * steps;
  if (most.messages <= allowed && (nodes == 1 || most.agreed == 0) && most.heap <= kMostHeap &&
      knows.classes <= workload.classes && knows.bytes <= workload.known)
    return true;
  fmt::print(
      "too much: {} messages of {}, {} bytes in agreements of all ranks, {} of heap, {} sets of {}, {} bytes known of "
      "{}\n",
      most.messages, allowed, most.agreed, most.heap, knows.classes, workload.classes, knows.bytes, workload.known);
  return false;
}

int main_of(const std::vector<std::string>& arguments) {
  bool check = false, good = true;
  std::vector<int> all_ranks;
  for (const std::string& argument : arguments) {
    if (argument == "--check")
      check = true;
    else
      all_ranks.push_back(std::atoi(argument.c_str()));
  }
  if (all_ranks.empty()) all_ranks = {16, 64, 256, 1024};
  fmt::print(
      "| | ranks | messages | most to a rank | bytes | most to a rank | agreed bytes | heap of a rank | steps | "
      "managers | "
      "locks | of a rank | bytes known |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Workload& workload : kWorkloads) {
    for (const int ranks : all_ranks) {
      const Table table = run(workload, ranks);
      print(workload.name, ranks, table);
      good = good && bounded(workload, ranks, table);
    }
  }
  return check && !good ? 1 : 0;
}

}  // namespace
}  // namespace stridio

int main(int count, char** arguments) { return stridio::main_of({arguments + 1, arguments + count}); }
