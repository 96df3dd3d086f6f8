// Does the planner choose right? Pieces of 8 bytes to 1 MB x holes x interleaved among ranks or not x latency of the
// storage x reads and writes: each cell by the automatic choice, by every candidate forced, and by a hand-written loop,
// interleaved, medians. One process without MPI: ranks are threads, distance is wrap/delay.
//
// The grid `fit` is what the profile's constants may be tuned on, `test` lies between its points. A candidate whose latencies
// alone take longer than the best time so far is not run: it cannot be the best. Differences below kNoise
// do not count. A cell above the bar is measured again, thrice as often: the bar is for plans, not for hiccups.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "access/calibrate.h"
#include "collective/collective.h"
#include "group/threads.h"
#include "storage/posix.h"
#include "storage/wrap/delay.h"

namespace stridio {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr Bytes kFile = Bytes{1} << 30;
constexpr Bytes kMostBytes = Bytes{16} << 20;  // of a rank in a cell; a fourth of it where they pass a line of 1 GB/s
constexpr double kMostWaiting = 0.04;          // seconds of latency in a cell that goes piece by piece in a list
constexpr double kNoise = 50e-6;
constexpr double kBar = 1.25;
constexpr double kHopeless = 4;  // times the best: not run again

struct Distance {
  const char* name;
  double latency;  // seconds
  double bytes_per_second;
};
constexpr Distance kDistances[] = {{"tmpfs", 0, 0}, {"0.1ms", 1e-4, 1e9}, {"1ms", 1e-3, 1e9}, {"10ms", 1e-2, 1e9}};
constexpr int kDeepest = 16;  // requests of one process at once

Bytes most_bytes(const Distance& distance) { return distance.latency > 0 ? kMostBytes / 4 : kMostBytes; }

enum class Leave { kNone, kHoles };  // whether a write may modify holes, under locks

struct Cell {
  std::string name;
  Distance distance;
  Direction direction = Direction::kRead;
  Leave leave = Leave::kNone;
  std::vector<Pattern> files;     // by rank
  std::vector<Pattern> memories;  // by rank
};

// ---- Running one candidate

std::unique_ptr<Storage> open(const std::string& path, const Distance& distance, std::shared_ptr<DelayLine> line) {
  auto storage = open_posix(path, {.read = true, .write = true});
  if (!storage) {
    std::cerr << storage.error().text() << '\n';
    std::exit(1);
  }
  return distance.latency > 0 ? wrap_delay(std::move(*storage), std::move(line)) : std::move(*storage);
}

std::shared_ptr<DelayLine> line_of(const Distance& distance) {
  DelayModel model{.latency = std::chrono::nanoseconds(static_cast<std::int64_t>(distance.latency * 1e9))};
  if (distance.bytes_per_second > 0) model.bytes_per_second = distance.bytes_per_second;
  return std::make_shared<DelayLine>(model);
}

// What a user writes who knows nothing of lists: a call for each range.
void loop(Storage& storage, const Cell& cell, const Pattern& file, const Memory& memory) {
  const bool reads = cell.direction == Direction::kRead;
  Cursor at(file), in(memory.pattern);
  Extent place, piece;
  while (!place.empty() || !at.done()) {
    if (place.empty()) place = at.next_range();
    if (piece.empty()) piece = in.next_range();
    const Bytes length = std::min(place.length, piece.length);
    std::byte* data = memory.base + piece.offset;
    std::unique_ptr<RangeLock> lock;  // as all writers have promised
    if (cell.leave == Leave::kHoles) lock = storage.lock({place.offset, length}, LockMode::kExclusive).value();
    (void)(reads ? storage.read({place.offset, length}, data) : storage.write({place.offset, length}, data));
    place = {place.offset + length, place.length - length};
    piece = {piece.offset + length, piece.length - length};
  }
}

struct Way {
  std::string method;  // forced; empty: automatic; "loop": by hand
  std::vector<double> seconds;
  double first = 0;  // in seconds, with a cold cache
  double planned = 0;
  std::string why;
  bool ran = true;

  double median() const {
    if (seconds.empty()) return std::numeric_limits<double>::infinity();
    std::vector<double> sorted = seconds;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

void run_way(const Cell& cell, Way& way, Group& group, Storage& storage, const Profile& profile, const Memory& memory) {
  const Pattern& file = cell.files[static_cast<std::size_t>(group.rank())];
  if (way.method == "loop") {
    loop(storage, cell, file, memory);
    return;
  }
  AccessRules access;
  access.may_modify_holes = access.lock_writes = cell.leave == Leave::kHoles;
  access.force = way.method;
  Times times;
  std::string why;
  double planned = 0;
  if (group.size() == 1) {
    const RequestShape shape = shape_on(storage, profile, cell.direction, file, memory).value();
    const AccessPlan plan = plan_access(shape, storage.caps(), profile, access);
    if (!execute(plan, storage, cell.direction, file, memory, times)) std::abort();
    why = plan.explain();
    planned = plan.seconds;
    way.ran = way.method.empty() || way.method == name_of(plan.method);
  } else {
    CollectiveRequest request{
        .direction = cell.direction, .file = file, .memory = memory, .access = access, .rules = {}, .profile = profile};
    request.rules.may_modify_holes = access.lock_writes;
    request.rules.force = way.method;
    request.explains = true;
    const auto outcome = run_collective(group, storage, request, times);
    if (!outcome) std::abort();
    why = outcome->why;
    planned = outcome->planned_seconds;
    way.ran = way.method.empty() || way.method == outcome->method;
  }
  if (group.rank() == 0) {
    way.why = why;
    way.planned = planned;
  }
}

// The latencies that nothing can avoid who sends each range by itself.
double least_seconds(const Cell& cell, const std::string& method) {
  std::int64_t most = 0;
  for (const Pattern& file : cell.files) most = std::max(most, file.contiguous() ? 1 : file.runs());
  const double requests = static_cast<double>(most);
  if (method == "loop") return requests * cell.distance.latency;
  if (method == "list") return std::ceil(requests / kDeepest) * cell.distance.latency;
  return 0;
}

std::vector<Way> measure(const Cell& cell, const std::string& path, const Profile& profile, int repetitions) {
  std::vector<Way> ways;
  for (const char* method : {"", "list", "mapped", "sieve", "two_phase", "loop"}) ways.emplace_back().method = method;
  if (cell.files.front().runs() == 1) ways.emplace_back().method = "direct";
  const auto line = line_of(cell.distance);
  std::vector<std::atomic<bool>> skip(ways.size());
  std::atomic<Clock::rep> started;  // when the first rank did
  run_threads(static_cast<int>(cell.files.size()), {}, [&](Group& group) {
    const auto storage = open(path, cell.distance, line);
    const Pattern& pattern = cell.memories[static_cast<std::size_t>(group.rank())];
    std::vector<std::byte> bytes(static_cast<std::size_t>(pattern.upper()), std::byte{1});
    const Memory memory{bytes.data(), pattern};
    for (int repetition = -1; repetition < repetitions; ++repetition) {  // the first warms up
      for (std::size_t i = 0; i < ways.size(); ++i) {
        if (group.rank() == 0) {
          double best = 1.0;  // nobody waits longer than that for a candidate
          for (const Way& way : ways) best = std::min(best, 1.5 * way.median());
          skip[i] = !ways[i].method.empty() &&
                    (!ways[i].ran || least_seconds(cell, ways[i].method) > best || ways[i].first > kHopeless * best);
        }
        if (group.rank() == 0) started = std::numeric_limits<Clock::rep>::max();
        (void)group.barrier();
        if (skip[i]) continue;
        const Clock::rep now = Clock::now().time_since_epoch().count();
        for (Clock::rep first = started; now < first && !started.compare_exchange_weak(first, now);) {
        }
        run_way(cell, ways[i], group, *storage, profile, memory);
        (void)group.barrier();
        if (group.rank() == 0) {
          const Clock::duration taken(Clock::now().time_since_epoch().count() - started);
          const double seconds = std::chrono::duration<double>(taken).count();
          if (repetition < 0) ways[i].first = seconds;
          if (repetition >= 0 || cell.distance.latency > 0) ways[i].seconds.push_back(seconds);
        }
        (void)group.barrier();
      }
    }
  });
  std::erase_if(ways, [](const Way& way) { return !way.ran || way.seconds.empty(); });
  return ways;
}

// ---- The cells

// `ranks` take turns piece by piece, then comes the hole.
std::optional<Cell> regular_cell(const Distance& distance, Direction direction, Leave leave, int ranks, Bytes piece,
                                 int percent) {
  const Bytes period = std::max<Bytes>(ranks * piece, ranks * piece * 100 / (100 - percent));
  const double waiting = distance.latency > 0 ? kMostWaiting / distance.latency * kDeepest : 1e9;
  const std::int64_t count =
      std::min({most_bytes(distance) / piece, kFile / period, std::int64_t{distance.latency > 0 ? 4096 : 16384},
                static_cast<std::int64_t>(waiting)});
  if (count < 2) return std::nullopt;
  Cell cell{.name = fmt::format("{} {}{} {} rank{} {} B holes {}%", distance.name,
                                direction == Direction::kRead ? "read" : "write",
                                leave == Leave::kHoles ? "+holes" : "", ranks, ranks > 1 ? "s" : "", piece, percent),
            .distance = distance,
            .direction = direction,
            .leave = leave,
            .files = {},
            .memories = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    cell.files.push_back(Pattern::strided(count, period, Pattern::run(0, piece)).shifted(rank * piece));
    cell.memories.push_back(Pattern::run(0, count * piece));
  }
  return cell;
}

std::vector<Cell> grid(bool fit) {
  const std::vector<Bytes> pieces = fit ? std::vector<Bytes>{8, 64, 512, 4096, 32768, 262144, 1048576}
                                        : std::vector<Bytes>{24, 200, 1500, 12000, 100000, 700000};
  const std::vector<int> holes = fit ? std::vector<int>{0, 25, 50, 90, 99} : std::vector<int>{10, 40, 75, 95};
  std::vector<Cell> cells;
  const std::pair<Direction, Leave> kinds[] = {
      {Direction::kRead, Leave::kNone}, {Direction::kWrite, Leave::kNone}, {Direction::kWrite, Leave::kHoles}};
  for (const Distance& distance : kDistances)
    for (const auto& [direction, leave] : kinds)
      for (const int ranks : {1, 2, 4})
        for (const Bytes piece : pieces)
          for (const int percent : holes)
            if (auto cell = regular_cell(distance, direction, leave, ranks, piece, percent)) cells.push_back(*cell);
  return cells;
}

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
Bytes pick_scale(Random& random, double low, double high) {
  return static_cast<Bytes>(std::exp2(std::uniform_real_distribution<double>(std::log2(low), std::log2(high))(random)));
}

// A part of a request: regular, nested or irregular pieces, of at most `bytes` bytes in `most` ranges.
Pattern random_part(Random& random, Bytes bytes, std::int64_t most, Offset& end) {
  const Bytes piece = pick_scale(random, 8, 1 << 18);
  const Bytes stride = piece + pick(random, 0, 3) * pick_scale(random, 1, static_cast<double>(piece) * 20);
  const std::int64_t count = std::clamp<std::int64_t>(std::min(bytes / piece, (kFile / 64) / stride), 1, most);
  Pattern part;
  if (pick(random, 0, 2) == 0) {
    std::vector<Offset> places;
    for (std::int64_t i = 0; i < count; ++i) places.push_back(i * stride + pick(random, 0, stride - piece));
    part = Pattern::indexed(places, {}, 0, Pattern::run(0, piece));
  } else {
    part = Pattern::strided(count, stride, Pattern::run(0, piece));
  }
  part = part.shifted(end);
  end = part.upper() + pick_scale(random, 1, 1 << 20);
  return part;
}

Cell random_cell(std::uint64_t seed) {
  Random random(seed);
  Cell cell;
  cell.distance = kDistances[static_cast<std::size_t>(pick(random, 0, std::size(kDistances) - 1))];
  cell.direction = pick(random, 0, 1) == 0 ? Direction::kRead : Direction::kWrite;
  cell.leave = cell.direction == Direction::kWrite && pick(random, 0, 1) == 0 ? Leave::kHoles : Leave::kNone;
  const int ranks = 1 << pick(random, 0, 2);
  const double waiting = cell.distance.latency > 0 ? kMostWaiting / cell.distance.latency * kDeepest : 16384;
  const int parts = static_cast<int>(pick(random, 1, 5));
  Offset end = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (pick(random, 0, 1) == 0) end = 0;  // among the ranks before, or behind them
    std::vector<Pattern> sections;
    for (int part = 0; part < parts; ++part)
      sections.push_back(random_part(random, most_bytes(cell.distance) / parts,
                                     std::max<std::int64_t>(1, static_cast<std::int64_t>(waiting) / parts), end));
    cell.files.push_back(Pattern::sequence(sections));
    const Bytes size = cell.files.back().size();
    cell.memories.push_back(Pattern::run(0, size));
  }
  cell.name = fmt::format("random {} {} {}{} {} ranks, {} parts", seed, cell.distance.name,
                          cell.direction == Direction::kRead ? "read" : "write",
                          cell.leave == Leave::kHoles ? "+holes" : "", ranks, parts);
  return cell;
}

// ---- Judging

struct Verdict {
  const Cell* cell;
  std::vector<Way> ways;
  double ratio = 1;
  const Way* best = nullptr;

  void judge() {
    best = &*std::min_element(ways.begin(), ways.end(),
                              [](const Way& a, const Way& b) { return a.median() < b.median(); });
    const double ours = ways.front().median();
    ratio = ours - best->median() < kNoise ? 1 : ours / best->median();
  }
};

Json summary(std::string_view title, std::vector<Verdict>& verdicts) {
  std::sort(verdicts.begin(), verdicts.end(), [](const Verdict& a, const Verdict& b) { return a.ratio > b.ratio; });
  const auto within = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.ratio <= kBar; });
  const auto over = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.ratio > 2; });
  const double share = 100.0 * static_cast<double>(within) / static_cast<double>(verdicts.size());
  fmt::print("{}: {} cells, {:.1f}% within {} of the best, {} over 2, worst {:.2f}\n", title, verdicts.size(), share,
             kBar, over, verdicts.front().ratio);
  return {{"cells", verdicts.size()}, {"percent_within", share}, {"over_2", over}, {"worst", verdicts.front().ratio}};
}

void print(const Verdict& verdict) {
  fmt::print("{:.2f} {}\n", verdict.ratio, verdict.cell->name);
  for (const Way& way : verdict.ways)
    fmt::print(
        "  {:>9.3f} ms {:<10} {}\n", way.median() * 1e3, way.method.empty() ? "automatic" : way.method,
        way.method.empty() || &way == verdict.best ? way.why : fmt::format("planned {:.3f} ms", way.planned * 1e3));
}

Json to_json(const Verdict& verdict) {
  Json json = {{"cell", verdict.cell->name}, {"ratio", verdict.ratio}, {"best", verdict.best->method}};
  for (const Way& way : verdict.ways) json["seconds"][way.method.empty() ? "automatic" : way.method] = way.median();
  json["why"] = verdict.ways.front().why;
  return json;
}

struct Options {
  std::string grid, json, only, directory = "/dev/shm";
  std::uint64_t seed = 1;
  int random = 0;
  std::size_t worst = 10;
  std::size_t every = 1;
  bool verbose = false;
};

Options parse(int count, char** arguments) {
  Options options;
  CLI::App app("Does the planner choose right? Every cell of a grid by the automatic choice and by every candidate.");
  app.add_option("--grid", options.grid, "fit: where constants may be tuned; test: between its points; default: both")
      ->check(CLI::IsMember({"fit", "test"}));
  app.add_option("--random", options.random, "so many random cells, and grids only if named");
  app.add_option("--seed", options.seed, "of the first random cell");
  app.add_option("--only", options.only, "cells whose name holds this");
  app.add_option("--every", options.every, "every so manieth cell, in an order that is random and always the same")
      ->check(CLI::PositiveNumber);
  app.add_option("--worst", options.worst, "so many of the worst are shown");
  app.add_option("--directory", options.directory, "of the scratch file, 1 GiB");
  app.add_option("--json", options.json, "where all results go");
  app.add_flag("--verbose", options.verbose, "every cell as it is measured");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

struct ScratchFile {
  explicit ScratchFile(const std::string& directory) : path(directory + "/stridio-sweep-" + std::to_string(getpid())) {
    const auto storage = open_posix(path, {.read = true, .write = true, .create = true});
    std::vector<std::byte> block(Bytes{1} << 20, std::byte{1});
    for (Offset at = 0; storage && at < kFile; at += static_cast<Bytes>(block.size()))
      if (!(*storage)->write({at, static_cast<Bytes>(block.size())}, block.data())) std::exit(1);
  }
  ~ScratchFile() { (void)remove_posix(path); }
  std::string path;
};

void take_better(StorageCosts& costs, const StorageCosts& tried) {
  costs.request_seconds = std::min(costs.request_seconds, tried.request_seconds);
  costs.byte_seconds = std::min(costs.byte_seconds, tried.byte_seconds);
  costs.shared_byte_seconds = std::min(costs.shared_byte_seconds, tried.shared_byte_seconds);
  if (tried.overlap > costs.overlap) {
    costs.depth = tried.depth;
    costs.overlap = tried.overlap;
  }
}

int run(const Options& options) {
  prctl(PR_SET_TIMERSLACK, 1);  // a sleep of 0.1 ms would take 0.15
  std::vector<std::pair<std::string, std::vector<Cell>>> sets;
  if (options.grid != "test" && (options.grid == "fit" || options.random == 0)) sets.emplace_back("fit", grid(true));
  if (options.grid != "fit" && (options.grid == "test" || options.random == 0)) sets.emplace_back("test", grid(false));
  if (options.random > 0) {
    sets.emplace_back("random", std::vector<Cell>());
    for (int i = 0; i < options.random; ++i)
      sets.back().second.push_back(random_cell(options.seed + static_cast<std::uint64_t>(i)));
  }
  const ScratchFile file(options.directory);
  std::map<std::string, Profile> profiles;
  for (const Distance& distance : kDistances) {
    const auto storage = open(file.path, distance, line_of(distance));
    Profile& profile = profiles[distance.name];
    for (int i = 0; i < 5; ++i) {  // others may disturb: the best of each
      const Profile tried = calibrate(*storage, {.writes = true}).value_or(Profile{});
      if (i == 0) profile = tried;
      take_better(profile.read, tried.read);
      take_better(profile.write, tried.write);
    }
    fmt::print("{}: {}\n", distance.name, describe(profiles[distance.name]));
  }
  Json report;
  for (auto& [title, cells] : sets) {
    std::vector<Verdict> verdicts;
    std::shuffle(cells.begin(), cells.end(), Random(1));
    cells.resize((cells.size() + options.every - 1) / options.every);
    for (const Cell& cell : cells) {
      if (cell.name.find(options.only) == std::string::npos) continue;
      const int repetitions = cell.distance.latency > 0 ? 2 : 5;
      Verdict verdict{&cell, measure(cell, file.path, profiles[cell.distance.name], repetitions)};
      verdict.judge();
      if (verdict.ratio > kBar) {
        verdict.ways = measure(cell, file.path, profiles[cell.distance.name], 3 * repetitions);
        verdict.judge();
      }
      verdicts.push_back(std::move(verdict));
      verdicts.back().judge();
      if (options.verbose && verdicts.back().ratio > kBar)
        print(verdicts.back());
      else if (options.verbose)
        fmt::print("{:.2f} {}\n", verdicts.back().ratio, cell.name);
      std::fflush(stdout);
    }
    if (verdicts.empty()) continue;
    report[title] = summary(title, verdicts);
    for (std::size_t i = 0; i < std::min(options.worst, verdicts.size()) && verdicts[i].ratio > kBar; ++i)
      print(verdicts[i]);
    for (Verdict& verdict : verdicts) {
      verdict.judge();
      report[title]["all"].push_back(to_json(verdict));
    }
  }
  if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << '\n';
  return 0;
}

}  // namespace
}  // namespace stridio

int main(int count, char** arguments) { return stridio::run(stridio::parse(count, arguments)); }
