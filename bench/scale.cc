// What a collective write costs at many ranks, simulated: the ranks are threads of this process, nodes are forced, the
// storage keeps no data. It counts; it does not time. docs/design/002-scale.md says what the columns mean.
//
//   scale [--check] [RANKS ...]      RANKS: square numbers; --check fails where counts grow faster than they may
#include <fmt/format.h>

#include <string>
#include <vector>

#include "collective/collective.h"
#include "simulation.h"

namespace stridio {
namespace {

constexpr Bytes kWindow = Bytes{1} << 20;

// ---- Workloads: the file pattern of a rank

struct Workload {
  const char* name;
  Pattern (*file)(int rank, int ranks);
};

struct Slab {
  Bytes start, length;
};

Slab slab(Bytes size, std::int64_t part, std::int64_t parts) {
  const Bytes start = size * part / parts;
  return {start, size * (part + 1) / parts - start};
}

// A box of a cube of n^3 elements.
Pattern box(Bytes n, Bytes element, Slab z, Slab y, Slab x) {
  const Pattern row = Pattern::run(0, x.length * element);
  const Pattern plane = Pattern::strided(y.length, n * element, row);
  return Pattern::strided(z.length, n * n * element, plane).shifted(((z.start * n + y.start) * n + x.start) * element);
}

// The diagonal multipartition of a cube of 5 doubles a point: about 100 KB a rank. Weak.
Pattern btio(int rank, int ranks) {
  const std::int64_t q = root(ranks, 2), n = root(std::int64_t{ranks} * 2500, 3);
  std::vector<Pattern> cells;
  for (std::int64_t layer = 0; layer < q; ++layer) {
    const std::int64_t x = (rank % q + layer) % q, y = (rank / q - layer + q) % q;
    cells.push_back(box(n, 40, slab(n, layer, q), slab(n, y, q), slab(n, x, q)));
  }
  return Pattern::sequence(std::move(cells));
}

// A cube of 512^3 ints in blocks. Strong.
Pattern dist3d(int rank, int ranks) {
  const int bits = std::countr_zero(static_cast<unsigned>(ranks));
  const std::int64_t nx = 1 << bits / 3, ny = 1 << (bits + 1) / 3, nz = 1 << (bits + 2) / 3;
  return box(512, 4, slab(512, rank / (nx * ny), nz), slab(512, rank / nx % ny, ny), slab(512, rank % nx, nx));
}

constexpr Workload kWorkloads[] = {{"FLASH", flash}, {"BTIO", btio}, {"DIST3D", dist3d}};

class NullStorage final : public Storage {
 public:
  explicit NullStorage(Counts& counts) : counts_(counts) {}
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span>) override { return all(extents); }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span>) override {
    ++counts_.writes;
    return all(extents);
  }
  Result<Transferred> map(Extent, bool, const MapBody&) override {
    return fail(Code::kUnsupportedOperation, "no maps");
  }
  Result<Bytes> size() override { return 0; }
  Status resize(Bytes) override { return {}; }
  Status reserve(Bytes) override { return {}; }
  Status sync() override { return {}; }
  Result<std::unique_ptr<RangeLock>> lock(Extent, LockMode) override {
    return fail(Code::kUnsupportedOperation, "no locks");
  }
  bool has_locks() override { return false; }
  Caps caps() const override { return {}; }
  const std::string& path() const override { return path_; }

 private:
  static Transferred all(std::span<const Extent> extents) {
    Transferred moved{.requests = 1};
    for (const Extent& extent : extents) moved.bytes += extent.length;
    return moved;
  }
  Counts& counts_;
  const std::string path_ = "(nowhere)";
};

// ---- A run

struct Table {
  std::vector<Counts> first, again;  // by rank: a call, and the same further on in the file
};

Table run(const Workload& workload, int ranks) {
  Table table{std::vector<Counts>(static_cast<std::size_t>(ranks)),
              std::vector<Counts>(static_cast<std::size_t>(ranks))};
  Bytes end = 0, most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Pattern file = workload.file(rank, ranks);
    end = std::max(end, file.upper());
    most = std::max(most, file.size());
  }
  Buffer data(static_cast<std::size_t>(most));  // all write the same
  run_threads(ranks, {.ranks_per_node = kRanksPerNode}, [&](Group& inner) {
    const Pattern file = workload.file(inner.rank(), ranks);
    Counts opening;
    CountingGroup group(inner, opening);
    if (!group.levels()) std::exit(1);  // as opening a file does
    PatternCache cache;
    for (auto* counts : {&table.first, &table.again}) {
      Counts& mine = (*counts)[static_cast<std::size_t>(inner.rank())];
      group.count_in(mine);
      NullStorage storage(mine);
      Times times;
      CollectiveRequest request;
      request.direction = Direction::kWrite;
      request.file = file.shifted(counts == &table.again ? (end + 4095) / 4096 * 4096 : 0);
      request.memory = {data.data(), Pattern::run(0, file.size())};
      request.rules.force = "two_phase";
      request.rules.window = kWindow;
      request.cache = &cache;
      const std::int64_t before = heap_most = heap_now;
      if (const auto done = run_collective(group, storage, request, times); !done) {
        fmt::print("{}\n", done.error().text());
        std::exit(1);
      }
      mine.heap = heap_most - before;
    }
  });
  return table;
}

void print(const char* name, int ranks, const char* call, const std::vector<Counts>& counts) {
  const Counts most = most_of(counts);
  std::int64_t messages = 0, bytes = 0;
  for (const Counts& each : counts) {
    messages += each.messages;
    bytes += each.bytes;
  }
  fmt::print("| {} {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name, call, ranks, most.writes, messages,
             most.messages, bytes, most.agreed, most.heap, most.steps);
}

// Whether no rank gets more than a message a round from each node, one for each step of the leaders' agreements (one a
// round, and few besides), and, for a new shape, two from each node with its patterns; and nothing that grows with ranks.
bool bounded(int ranks, bool repeated, const std::vector<Counts>& counts) {
  const Counts most = most_of(counts);
  const int nodes = (ranks + kRanksPerNode - 1) / kRanksPerNode;
  if (nodes == 1) return true;
  const std::int64_t steps = std::bit_width(static_cast<unsigned>(nodes - 1));
  const std::int64_t allowed = (most.writes + (repeated ? 0 : 2)) * (nodes - 1) + (most.writes + 8) * steps;
  if (most.messages <= allowed && most.agreed == 0) return true;
  fmt::print("too much: {} messages of {}, {} bytes in agreements of all ranks\n", most.messages, allowed, most.agreed);
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
  if (all_ranks.empty()) all_ranks = {16, 64, 256, 1024, 4096};
  fmt::print(
      "| | ranks | rounds | messages | most to a rank | bytes | agreed bytes | heap of a rank | steps |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const Workload& workload : kWorkloads) {
    for (const int ranks : all_ranks) {
      const Table table = run(workload, ranks);
      print(workload.name, ranks, "", table.first);
      print(workload.name, ranks, "again", table.again);
      std::fflush(stdout);
      good = good && bounded(ranks, false, table.first) && bounded(ranks, true, table.again);
    }
  }
  return check && !good ? 1 : 0;
}

}  // namespace
}  // namespace stridio

int main(int count, char** arguments) { return stridio::main_of({arguments + 1, arguments + count}); }
