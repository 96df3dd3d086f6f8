// Micro-benchmarks of the copy kernel and of the union reader, each beside what it should come
// close to: a hand-written loop that knows the shape, and one memcpy of the same bytes. Every case
// moves kBytes, more than a core's caches hold.
//
//   kernels_bench --benchmark_filter=pack     (or unpack, both, indexed, flash, union)
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "pattern/copy.h"
#include "pattern/pattern.h"

namespace stridio {
namespace {

constexpr Bytes kBytes = Bytes{16} << 20;

std::byte* buffer(std::vector<std::byte>& storage, Bytes size) {
  storage.assign(static_cast<std::size_t>(size), std::byte{1});
  return storage.data();
}

// A pattern of kBytes over memory of its own.
struct Place {
  explicit Place(Pattern all) : pattern(std::move(all)) { base = buffer(storage, pattern.upper()); }

  Pattern pattern;
  std::vector<std::byte> storage;
  std::byte* base;
};

void run_copy(benchmark::State& state, const Pattern& to, const Pattern& from) {
  Place target(to), source(from);
  for (auto _ : state) {
    Side a{target.base, Cursor(target.pattern)}, b{source.base, Cursor(source.pattern)};
    copy(a, b, to.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * to.size());
}

using Loop = std::function<void(std::byte* to, const std::byte* from)>;

// A hand-written loop over the same memory.
void run_loop(benchmark::State& state, const Pattern& to, const Pattern& from, const Loop& loop) {
  Place target(to), source(from);
  for (auto _ : state) {
    loop(target.base, source.base);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * to.size());
}

void add(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))->Unit(benchmark::kMillisecond);
}

// ----------------------------------------------------------------------------- strided ranges

// What a programmer writes who knows the length when compiling.
template <Bytes kLength>
void move_known(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride) {
  for (Bytes i = 0; i < kBytes / kLength; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kLength);
}

// And who does not.
void move_any(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride, Bytes length) {
  for (Bytes i = 0; i < kBytes / length; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(length));
}

template <Bytes kLength>
void add_strided(const std::string& name, Bytes to_stride, Bytes from_stride) {
  const auto side = [](Bytes stride) { return Pattern::strided(kBytes / kLength, stride, Pattern::run(0, kLength)); };
  const Pattern to = side(to_stride), from = side(from_stride);
  const std::string of = "/" + std::to_string(kLength);
  add(name + of + "/stridio", [=](benchmark::State& state) { run_copy(state, to, from); });
  add(name + of + "/loop, length known", [=](benchmark::State& state) {
    run_loop(state, to, from,
             [=](std::byte* a, const std::byte* b) { move_known<kLength>(a, to_stride, b, from_stride); });
  });
  add(name + of + "/loop", [=](benchmark::State& state) {
    Bytes length = kLength;
    benchmark::DoNotOptimize(length);
    run_loop(state, to, from,
             [=](std::byte* a, const std::byte* b) { move_any(a, to_stride, b, from_stride, length); });
  });
}

// Every other range of memory on the strided sides; three of four skipped on the second side of
// `both`.
template <Bytes kLength>
void add_length() {
  add_strided<kLength>("pack", kLength, 2 * kLength);
  add_strided<kLength>("unpack", 2 * kLength, kLength);
  add_strided<kLength>("both", 2 * kLength, 4 * kLength);
}

// ----------------------------------------------------------------------------- irregular ranges

std::vector<Offset> random_places(Bytes length, std::uint64_t seed) {
  std::vector<Offset> places(static_cast<std::size_t>(2 * kBytes / length));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<Offset>(i) * length;
  std::mt19937_64 random(seed);
  std::shuffle(places.begin(), places.end(), random);
  places.resize(places.size() / 2);
  std::sort(places.begin(), places.end());
  return places;
}

void add_indexed(Bytes length) {
  const std::vector<Offset> places = random_places(length, 1);
  const Pattern from = Pattern::indexed(places, {}, 0, Pattern::run(0, length));
  const Pattern to = Pattern::run(0, from.size());
  const std::string name = "indexed pack/" + std::to_string(length);
  add(name + "/stridio", [=](benchmark::State& state) { run_copy(state, to, from); });
  add(name + "/loop", [=](benchmark::State& state) {
    run_loop(state, to, from, [&places, length](std::byte* a, const std::byte* b) {
      for (const Offset place : places) {
        std::memcpy(a, b + place, static_cast<std::size_t>(length));
        a += length;
      }
    });
  });
}

// ----------------------------------------------------------------------------- FLASH

// 80 blocks of 8^3 cells within 4 guard cells, 24 variables: block-major in memory, variable-major
// in the file.
constexpr Bytes kBlocks = 80, kCells = 8, kSide = 16, kGuard = 4, kVariables = 24;
constexpr Bytes kCell = kVariables * 8, kRow = kSide * kCell, kPlane = kSide * kRow, kBlock = kSide * kPlane;
constexpr Bytes kFirstCell = kGuard * (kPlane + kRow + kCell);
constexpr Bytes kVariable = kBlocks * kCells * kCells * kCells * 8;  // in the file

Pattern flash_memory() {
  Pattern cells = Pattern::strided(kCells, kCell, Pattern::run(0, 8));
  cells = Pattern::strided(kCells, kPlane, Pattern::strided(kCells, kRow, cells));
  const Pattern variable = Pattern::strided(kBlocks, kBlock, cells);
  return Pattern::strided(kVariables, 8, variable).shifted(kFirstCell);
}

template <typename Visit>
void for_each_cell(Visit visit) {
  for (Bytes block = 0; block < kBlocks; ++block)
    for (Bytes k = 0; k < kCells; ++k)
      for (Bytes j = 0; j < kCells; ++j)
        for (Bytes i = 0; i < kCells; ++i)
          visit(((block * kCells + k) * kCells + j) * kCells + i,
                kFirstCell + block * kBlock + k * kPlane + j * kRow + i * kCell);
}

// In the order of the file: memory is walked through once for each variable.
void flash_by_variable(std::byte* file, const std::byte* memory) {
  for (Bytes v = 0; v < kVariables; ++v)
    for_each_cell(
        [=](Bytes cell, Bytes place) { std::memcpy(file + v * kVariable + cell * 8, memory + place + v * 8, 8); });
}

// In the order of memory, which is then read once: as many streams to the file as there are
// variables.
void flash_by_cell(std::byte* file, const std::byte* memory) {
  for_each_cell([=](Bytes cell, Bytes place) {
    for (Bytes v = 0; v < kVariables; ++v) std::memcpy(file + v * kVariable + cell * 8, memory + place + v * 8, 8);
  });
}

void flash_back_by_cell(std::byte* memory, const std::byte* file) {
  for_each_cell([=](Bytes cell, Bytes place) {
    for (Bytes v = 0; v < kVariables; ++v) std::memcpy(memory + place + v * 8, file + v * kVariable + cell * 8, 8);
  });
}

void add_flash() {
  const Pattern memory = flash_memory(), file = Pattern::run(0, memory.size());
  add("flash pack/stridio", [=](benchmark::State& state) { run_copy(state, file, memory); });
  add("flash pack/loop by variable",
      [=](benchmark::State& state) { run_loop(state, file, memory, flash_by_variable); });
  add("flash pack/loop by cell", [=](benchmark::State& state) { run_loop(state, file, memory, flash_by_cell); });
  add("flash unpack/stridio", [=](benchmark::State& state) { run_copy(state, memory, file); });
  add("flash unpack/loop by cell", [=](benchmark::State& state) { run_loop(state, memory, file, flash_back_by_cell); });
}

// ----------------------------------------------------------------------------- one memcpy

void add_memcpy() {
  const Pattern whole = Pattern::run(0, kBytes);
  add("whole/stridio", [=](benchmark::State& state) { run_copy(state, whole, whole); });
  add("whole/memcpy", [=](benchmark::State& state) {
    run_loop(state, whole, whole, [](std::byte* a, const std::byte* b) { std::memcpy(a, b, kBytes); });
  });
}

// ----------------------------------------------------------------------------- unions

constexpr std::int64_t kRanges = 1 << 16;  // of each pattern
constexpr Bytes kRange = 64;

void run_union(benchmark::State& state, const std::vector<Pattern>& patterns) {
  std::int64_t runs = 0;
  for (auto _ : state) {
    UnionReader reader(patterns);
    for (runs = 0; reader.next(); ++runs) {
    }
    benchmark::DoNotOptimize(runs);
  }
  state.SetItemsProcessed(state.iterations() * kRanges * static_cast<std::int64_t>(patterns.size()));
  state.counters["runs"] = static_cast<double>(runs);
}

// The k ranks' places in ascending lists, merged by looking at all heads.
std::int64_t merge_lists(const std::vector<std::vector<Offset>>& lists) {
  std::vector<std::size_t> heads(lists.size());
  std::int64_t runs = 0;
  for (Offset end = -1;;) {
    std::size_t least = lists.size();
    Offset offset = 0;
    for (std::size_t i = 0; i < lists.size(); ++i)
      if (heads[i] < lists[i].size() && (least == lists.size() || lists[i][heads[i]] < offset)) {
        least = i;
        offset = lists[i][heads[i]];
      }
    if (least == lists.size()) return runs;
    ++heads[least];
    runs += offset > end;
    end = std::max(end, offset + kRange);
  }
}

void run_lists(benchmark::State& state, const std::vector<std::vector<Offset>>& lists) {
  for (auto _ : state) benchmark::DoNotOptimize(merge_lists(lists));
  state.SetItemsProcessed(state.iterations() * kRanges * static_cast<std::int64_t>(lists.size()));
}

// Which rank has which place: in turns, or at random.
std::vector<std::vector<Offset>> deal(std::size_t ranks, bool at_random) {
  std::vector<std::vector<Offset>> lists(ranks);
  std::vector<std::size_t> owner(ranks * kRanges);
  for (std::size_t i = 0; i < owner.size(); ++i) owner[i] = i % ranks;
  std::mt19937_64 random(1);
  if (at_random) std::shuffle(owner.begin(), owner.end(), random);
  for (std::size_t i = 0; i < owner.size(); ++i) lists[owner[i]].push_back(static_cast<Offset>(i) * kRange);
  return lists;
}

void add_union(std::size_t ranks) {
  const std::string of = "/" + std::to_string(ranks) + " ranks";
  const Pattern range = Pattern::run(0, kRange);
  const Bytes stride = static_cast<Bytes>(ranks) * kRange;
  std::vector<Pattern> cyclic, irregular;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    cyclic.push_back(Pattern::strided(kRanges, stride, range).shifted(static_cast<Bytes>(rank) * kRange));
  const auto dealt = deal(ranks, true);
  for (const auto& places : dealt) irregular.push_back(Pattern::indexed(places, {}, 0, range));
  add("union cyclic" + of + "/stridio", [=](benchmark::State& state) { run_union(state, cyclic); });
  add("union cyclic" + of + "/lists", [=](benchmark::State& state) { run_lists(state, deal(ranks, false)); });
  add("union irregular" + of + "/stridio", [=](benchmark::State& state) { run_union(state, irregular); });
  add("union irregular" + of + "/lists", [=](benchmark::State& state) { run_lists(state, dealt); });
}

const bool added = [] {
  add_memcpy();
  add_length<4>();
  add_length<8>();
  add_length<64>();
  add_length<256>();
  add_length<4096>();
  add_indexed(8);
  add_indexed(64);
  add_flash();
  add_union(4);
  add_union(64);
  return true;
}();

}  // namespace
}  // namespace stridio
