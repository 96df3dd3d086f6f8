// What a collective write costs at many ranks, simulated: the ranks are threads of this process, nodes are forced, the
// storage keeps no data. It counts; it does not time. docs/design/002-scale.md says what the columns mean.
//
//   scale [--check] [RANKS ...]      RANKS: square numbers; --check fails where counts grow faster than they may
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "collective/collective.h"
#include "group/levels.h"
#include "group/threads.h"

namespace {

// What the calling thread, which is a rank, has allocated and not yet freed. (What another frees counts there.)
thread_local std::int64_t heap_now = 0, heap_most = 0;

constexpr std::size_t kHead = 16;

}  // namespace

void* operator new(std::size_t size) {
  auto* head = static_cast<std::size_t*>(std::malloc(size + kHead));
  if (head == nullptr) throw std::bad_alloc();
  *head = size;
  heap_now += static_cast<std::int64_t>(size);
  heap_most = std::max(heap_most, heap_now);
  return reinterpret_cast<std::byte*>(head) + kHead;
}

void operator delete(void* data) noexcept {
  if (data == nullptr) return;
  auto* head = reinterpret_cast<std::size_t*>(static_cast<std::byte*>(data) - kHead);
  heap_now -= static_cast<std::int64_t>(*head);
  std::free(head);
}

void operator delete(void* data, std::size_t) noexcept { operator delete(data); }

namespace stridio {
namespace {

constexpr int kRanksPerNode = 16;
constexpr Bytes kWindow = Bytes{1} << 20;

// ---- Workloads: the file pattern of a rank

struct Workload {
  const char* name;
  Pattern (*file)(int rank, int ranks);
};

// 24 variables of 8 blocks a rank of 8^3 doubles, each variable an array of its own. Weak.
Pattern flash(int rank, int ranks) {
  constexpr Bytes kRankBytes = Bytes{8} * 8 * 8 * 8 * 8;
  return Pattern::strided(24, ranks * kRankBytes, Pattern::run(0, kRankBytes)).shifted(rank * kRankBytes);
}

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

std::int64_t root(std::int64_t value, int power) {
  const auto raised = [power](std::int64_t base) {
    std::int64_t product = 1;
    for (int i = 0; i < power; ++i) product *= base;
    return product;
  };
  std::int64_t result = 1;
  while (raised(result + 1) <= value) ++result;
  return result;
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

// ---- Counting

// Of one rank.
struct Counts {
  std::int64_t messages = 0;  // received from other nodes
  std::int64_t bytes = 0;     // in them
  std::int64_t agreed = 0;    // bytes received in agreements
  std::int64_t steps = 0;     // waits for other nodes, one after the other; an agreement takes log2(ranks)
  std::int64_t heap = 0;      // most bytes on the heap
  std::int64_t writes = 0;    // windows written
};

class CountingGroup final : public Group {
 public:
  CountingGroup(Group& inner, Counts& counts) : inner_(inner), counts_(&counts) {}
  void count_in(Counts& counts) { counts_ = &counts; }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int node_of(int rank) const override { return inner_.node_of(rank); }
  int node_count() const override { return inner_.node_count(); }
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    counts_->steps += std::bit_width(static_cast<unsigned>(size() - 1));
    counts_->agreed += std::ssize(all);
    return inner_.allgather(mine, all);
  }
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override {
    bool waits = false;
    for (const Message& message : receives) {
      if (node_of(message.peer) == node_of(rank()) || message.bytes.length == 0) continue;
      waits = true;
      ++counts_->messages;
      counts_->bytes += message.bytes.length;
    }
    counts_->steps += waits;
    return inner_.start(sends, receives);
  }
  Status finish(Ticket ticket) override { return inner_.finish(ticket); }
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes length) override { return inner_.shared(length); }

 private:
  Result<std::unique_ptr<Levels>> make_levels(bool share) override {
    return Levels::make(*this, share ? std::optional(SharedGroupOptions{.one_address_space = true}) : std::nullopt);
  }

  Group& inner_;
  Counts* counts_;
};

class NullStorage final : public Storage {
 public:
  explicit NullStorage(Counts& counts) : counts_(counts) {}
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span>) override { return all(extents); }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span>) override {
    ++counts_.writes;
    return all(extents);
  }
  Result<Bytes> size() override { return 0; }
  Status resize(Bytes) override { return {}; }
  Status reserve(Bytes) override { return {}; }
  Status sync() override { return {}; }
  Result<std::unique_ptr<RangeLock>> lock(Extent, LockMode) override {
    return fail(Code::kUnsupportedOperation, "no locks");
  }
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

// Of the rank that has most.
Counts most_of(const std::vector<Counts>& all) {
  Counts most;
  for (const Counts& each : all)
    for (const auto field :
         {&Counts::messages, &Counts::bytes, &Counts::agreed, &Counts::steps, &Counts::heap, &Counts::writes})
      most.*field = std::max(most.*field, each.*field);
  return most;
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
