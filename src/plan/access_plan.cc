// Costs, in seconds, of a request of b bytes in f file and m memory ranges, of which the storage passes d at once:
//   list   f / d requests + b storage bytes (+ b copied bytes in m ranges where memory is staged)
//          Where memory is columns side by side, several may be staged at a time: more requests, but a line is waited for once,
//          and not for each piece in it.
//   direct list with f = 1
//   Writes that a file admits one at a time cost as much more as ranks write to it.
//   mapped windows + their pages, those of holes too + b copied bytes in max(f, m) pieces
//   sieve  as list, with h holes of k bytes taken along: (f - h) / d requests, at least one for each window, + (b + k)
//          storage bytes + copied bytes and pieces of the clusters that have holes; a write reads those clusters first.
//          h is what costs least: list and whole windows are the two ends of it.
// Both more for what is stored otherwise than it is asked for: its pieces, and pages of which others want the rest.
#include "plan/access_plan.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/text.h"

namespace stridio {
namespace {

constexpr double kSievedLatencies = 20;
constexpr double kStagedLatencies = 4;  // the first half of a window is copied before anything moves
constexpr Bytes kLeastWindow = Bytes{256} << 10;
constexpr Bytes kCacheLine = 64;
constexpr int kShareOfOthers = 4;          // times as many requests where others wait
constexpr double kStagedScattering = 1.4;  // by way of a staging buffer each line is touched several times
constexpr double kReadInPieces = 1.25;  // times as long takes a call that reads to many places, or more than is wanted
constexpr Bytes kLeastSummedMapping = Bytes{128} << 10;
// Linux maps sixteen pages at once: of the first and the last sixteen of a run so many lie beside it.
constexpr double kPagesAround = 15;
// More than from a mapping, by way of a buffer in the caches.
constexpr double kBufferedByteSeconds = 3.2e-11;
constexpr double kShortLock = 0.25;  // of what it is held for: then ranks need not wait for each other's other ranges

double copying(const Profile& profile, double bytes, double ranges) {
  return bytes * profile.copy_byte_seconds + ranges * profile.copy_range_seconds;
}

double new_pages(const RequestShape& shape) { return static_cast<double>(shape.fresh) / Profile::kPage; }

// Of the user's memory, whole; in windows of a staging buffer, or in place.
double scattering(const RequestShape& shape, const Profile& profile, bool staged) {
  return shape.scattered * static_cast<double>(shape.memory_ranges) * profile.scattered_range_seconds *
         (staged ? kStagedScattering : 1);
}

// `requests` in `batches` one after the other. Where several are under way, bytes of some pass while others wait.
double transfers(double requests, double batches, double bytes, const StorageCosts& costs) {
  const double waiting = std::max(batches, requests / costs.overlap) * costs.request_seconds;
  const double passing = bytes * costs.byte_seconds;
  return costs.depth > 1
             ? batches * costs.request_seconds + std::max(waiting - batches * costs.request_seconds, passing)
             : waiting + passing;
}

// What the storage admits one after the other lasts so much longer while others do the same.
double in_turns(double seconds, const RequestShape& shape, const Profile& profile, const AccessRules& rules) {
  const bool waits = rules.other_writers > 0 && takes_turns(shape.direction, profile.of(shape.direction));
  return waits ? seconds * profile.turns_taken * (1 + rules.other_writers) : seconds;
}

// Of a read, beside what as many bytes that lie together would take.
double piecing(const RequestShape& shape, const Profile& profile) {
  if (shape.stored.pieces == 0) return 0;
  const double pages = static_cast<double>(std::max<Bytes>(0, shape.stored.touched - shape.size)) / Profile::kPage;
  const double calls = static_cast<double>(shape.stored.pieces) * profile.read.request_seconds;
  return summing(shape.stored.pieces) + std::min(pages * profile.run_page_seconds, calls);
}

bool stages(const RequestShape& shape, const Profile& profile) {
  return shape.memory_ranges > 1 && shape.size / shape.memory_ranges < profile.long_range;
}

// Whether a list locks each range by itself and not its bounds.
bool locks_apart(const RequestShape& shape, const Profile& profile, const AccessRules& rules) {
  const StorageCosts& costs = profile.of(shape.direction);
  const double range = costs.request_seconds + static_cast<double>(shape.size / shape.file_ranges) * costs.byte_seconds;
  return rules.lock_writes && shape.direction == Direction::kWrite && !costs.waits() && !stages(shape, profile) &&
         profile.lock_seconds < kShortLock * range;
}

// So long that its bytes take `times` as long as a request's latency, but short enough to stay in the caches if it can; at most
// what a hint allows.
Bytes window_for(const StorageCosts& costs, double times, Bytes most) {
  const double enough = times * costs.request_seconds / costs.byte_seconds;
  return std::min(most, std::max(kLeastWindow, static_cast<Bytes>(std::min(enough, 1e12))));
}

bool wants_sieve(const AccessRules& rules) { return rules.prefer_sieve || rules.force == name_of(Method::kSieve); }

// Who asks for sieving gets windows as long as the hints say.
Bytes sieving_window(const RequestShape& shape, const Profile& profile, const AccessRules& rules) {
  const Bytes most = shape.direction == Direction::kWrite ? rules.write_window : rules.read_window;
  return wants_sieve(rules) ? most : window_for(profile.of(shape.direction), kSievedLatencies, most);
}

// As they go through half a staging buffer, where they may: a window is then many requests, neither waited for nor locked
// together.
Columns staged_columns(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules) {
  const StorageCosts& costs = profile.of(shape.direction);
  const bool writes = shape.direction == Direction::kWrite;
  const bool far = costs.waits() || costs.depth > 1;
  if ((far && !(caps.appends && writes)) || !shape.ascending || (writes && rules.lock_writes)) return {};
  Columns columns = shape.columns;
  // What is stored in the order of writing is read so, and checked whole: in longer parts.
  const Bytes room = caps.appends ? profile.staging : profile.staging / 2;
  columns.together = std::min<std::int64_t>(columns.count, room / profile.long_range);
  if (columns.together < 2) return {};
  columns.part = columns.part_of(room / columns.together);
  // Others read columns for themselves, and cells whole.
  const Bytes aligned = columns.part / caps.alignment * caps.alignment;
  if (writes && !far && aligned > 0 && columns.part_of(aligned) == aligned) columns.part = aligned;
  return columns;
}

Candidate list_with(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules,
                    const Columns& columns) {
  const StorageCosts& costs = profile.of(shape.direction);
  const bool appends = caps.appends && shape.direction == Direction::kWrite;
  double ranges = appends ? 1 : shape.ascending ? 1 + shape.gaps.count() : static_cast<double>(shape.file_ranges);
  if (columns.together > 0) ranges += static_cast<double>(shape.size / columns.part);
  const double requests = caps.native_list ? std::max(1.0, ranges / static_cast<double>(caps.largest_list)) : ranges;
  Candidate list{.method = shape.file_ranges == 1 ? Method::kDirect : Method::kList,
                 .size = shape.size,
                 .requests = requests,
                 .columns = columns};
  list.moved_bytes = static_cast<double>(shape.size);
  list.storage_seconds = transfers(requests, 1, list.moved_bytes, costs);
  list.storage_seconds += new_pages(shape) * profile.new_page_seconds + piecing(shape, profile);
  list.storage_seconds = in_turns(list.storage_seconds, shape, profile, rules);
  if (rules.lock_writes && shape.direction == Direction::kWrite)
    list.storage_seconds += (locks_apart(shape, profile, rules) ? ranges : 1) * profile.lock_seconds;
  list.seconds = list.storage_seconds;
  if (!stages(shape, profile)) return list;
  // Of columns a line is waited for once, and not for each piece in it.
  const double lines = columns.together > 0 ? static_cast<double>(std::abs(columns.stride)) / kCacheLine : 1;
  list.seconds += copying(profile, list.moved_bytes, static_cast<double>(shape.memory_ranges)) +
                  std::min(1.0, lines) * scattering(shape, profile, true);
  return list;
}

Candidate propose_list(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules) {
  Candidate list = list_with(shape, caps, profile, rules, {});
  const Columns columns = stages(shape, profile) ? staged_columns(shape, caps, profile, rules) : Columns{};
  if (columns.together == 0) return list;
  Candidate by_columns = list_with(shape, caps, profile, rules, columns);
  return by_columns.seconds < list.seconds ? by_columns : list;
}

// With the holes of the first `classes` classes taken along.
Candidate sieve_with(const RequestShape& shape, const Profile& profile, const AccessRules& rules, Bytes window,
                     int classes) {
  const StorageCosts& costs = profile.of(shape.direction);
  const auto size = static_cast<double>(shape.size);
  const Gaps::Class holes = shape.gaps.below(classes);
  const double clusters = 1 + shape.gaps.count() - holes.count;
  const double with_holes = std::min(clusters, holes.count);
  const double in_them = std::min(size, holes.before * (1 + with_holes / std::max(1.0, holes.count)));
  const double cuts = (size + holes.bytes) / static_cast<double>(window);

  Candidate sieve{.method = Method::kSieve, .size = shape.size};
  sieve.largest_gap = std::min(window, Gaps::largest_of(classes));
  sieve.moved_bytes = sieve.spanned_bytes = size + holes.bytes;
  sieve.requests = clusters + cuts;
  sieve.storage_seconds =
      transfers(sieve.requests, std::max(1.0, cuts), size + Profile::kUnwanted * holes.bytes, costs) +
      piecing(shape, profile);
  if (shape.direction == Direction::kWrite) {
    sieve.storage_seconds += new_pages(shape) * profile.new_page_seconds;
    sieve.storage_seconds = in_turns(sieve.storage_seconds, shape, profile, rules);
    const double read = in_them + holes.bytes;
    sieve.storage_seconds +=
        transfers(with_holes + cuts, std::max(1.0, cuts), in_them + Profile::kUnwanted * holes.bytes, profile.read);
    if (rules.lock_writes) sieve.storage_seconds += std::max(1.0, cuts) * profile.lock_seconds;
    sieve.moved_bytes += read;
  }
  const double copied = stages(shape, profile) ? size : in_them;
  const double pieces = std::max(holes.count + with_holes, static_cast<double>(shape.memory_ranges) * copied / size);
  sieve.seconds = sieve.storage_seconds + copying(profile, copied, pieces) + scattering(shape, profile, true);
  return sieve;
}

Candidate propose_mapped(const RequestShape& shape, const Caps& caps, const Profile& profile,
                         const AccessRules& rules) {
  const auto impossible = [](const char* why) { return Candidate{.method = Method::kMapped, .impossible = why}; };
  if (!caps.maps) return impossible("the storage cannot be mapped");
  if (!shape.ascending) return impossible("the file ranges are not in ascending order");
  const bool writes = shape.direction == Direction::kWrite;
  const auto size = static_cast<double>(shape.size);
  // All pages of a mapping are brought in, those of holes too (to read, sixteen at a time); only holes longer than a mapping are passed over.
  const Gaps::Class within = shape.gaps.shorter_than(profile.map_window);
  const double parts = 1 + shape.gaps.count() - within.count;
  const double windows = parts + (size + within.bytes) / static_cast<double>(profile.map_window);
  const double pages = (size + within.bytes) / Profile::kPage + 2 * windows;
  Candidate mapped{.method = Method::kMapped, .size = shape.size, .requests = windows};
  mapped.moved_bytes = pages * Profile::kPage;
  mapped.seconds = windows * profile.map_seconds +
                   pages * (writes ? profile.written_page_seconds : profile.read_page_seconds) +
                   in_turns(new_pages(shape) * profile.new_mapped_page_seconds, shape, profile, rules) +
                   copying(profile, size, static_cast<double>(std::max(shape.file_ranges, shape.memory_ranges))) +
                   scattering(shape, profile, false);
  if (writes && rules.lock_writes) mapped.seconds += windows * profile.lock_seconds;
  return mapped;
}

Candidate propose_sieve(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules) {
  const bool writes = shape.direction == Direction::kWrite;
  const auto impossible = [](const char* why) { return Candidate{.method = Method::kSieve, .impossible = why}; };
  if (!shape.ascending) return impossible("the file ranges are not in ascending order");
  if (!writes && !rules.sieve_reads) return impossible("switched off by a hint");
  // What is read there of others' is what was committed: written back, it would hide what they have written since.
  if (writes && caps.appends) return impossible("an interval file keeps apart what each rank has written");
  if (writes && !rules.may_modify_holes) return impossible(rules.holes_reason);
  const Bytes window = sieving_window(shape, profile, rules);
  // Holes longer than a window are never moved. Who asks for sieving gets all others.
  const int most = std::min(Gaps::kClasses, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(window))));
  Candidate best = sieve_with(shape, profile, rules, window, most);
  if (wants_sieve(rules)) return best;
  for (int classes = 1; classes < most; ++classes) {
    if (shape.gaps.classes[static_cast<std::size_t>(classes - 1)].count == 0) continue;
    Candidate other = sieve_with(shape, profile, rules, window, classes);
    if (other.seconds < best.seconds) best = std::move(other);
  }
  return best;
}

Bytes bytes_beyond(const Pattern& file, Bytes file_size) {
  if (file_size >= file.upper()) return 0;
  if (file.ascending()) return file.size() - file.bytes_below(file_size);
  return std::min(file.size(), file.upper() - std::max(file.lower(), file_size));
}

const Candidate* choose(const std::vector<Candidate>& candidates, const AccessRules& rules) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.impossible) continue;
    if (rules.force == name_of(candidate.method)) return &candidate;
    if (rules.prefer_sieve && candidate.method == Method::kSieve) return &candidate;
    if (!best || weighed(candidate.method, candidate.seconds) < weighed(best->method, best->seconds)) best = &candidate;
  }
  return best;
}

}  // namespace

double weighed(Method method, double seconds) {
  return method == Method::kMapped ? seconds / Profile::kWorthMapping : seconds;
}

double summing(std::int64_t pieces) { return 5e-8 * static_cast<double>(pieces); }

bool takes_turns(Direction direction, const StorageCosts& costs) {
  return direction == Direction::kWrite && !costs.waits();
}

const char* name_of(Method method) {
  switch (method) {
    case Method::kNothing: return "nothing";
    case Method::kDirect: return "direct";
    case Method::kList: return "list";
    case Method::kMapped: return "mapped";
    case Method::kSieve: return "sieve";
  }
  return "?";
}

std::string Candidate::why() const {
  if (impossible) return impossible;
  const std::int64_t count = std::llround(requests);
  switch (method) {
    case Method::kNothing: return "nothing";
    case Method::kDirect:
    case Method::kList: {
      const std::string text = fmt::format("{}, {}", counted(count, "request"), counted(size, "byte"));
      return columns.together > 0 ? fmt::format("{}, of {} columns at a time", text, columns.together) : text;
    }
    case Method::kMapped:
      return fmt::format("{} in {} in place in {}", counted(size, "byte"),
                         counted(std::llround(moved_bytes / Profile::kPage), "page"), counted(count, "mapping"));
    case Method::kSieve:
      return fmt::format("{} over {:.0f} bytes, for {} of them; holes up to {} bytes taken along",
                         counted(count, "request"), spanned_bytes, size, largest_gap);
  }
  return "?";
}

// Where requests overlap, shorter ones cost nothing; and of a mebibyte that does not lie on pages' bounds in memory, the kernel makes two,
// one after the other.
Deep deep_of(const StorageCosts& costs) {
  if (costs.depth <= 1) return {};
  return {.depth = costs.depth, .unit = Bytes{512} << 10, .extend_first = costs.extends_alone};
}

SummedRequests summed_requests(const Profile& profile) {
  const bool far = profile.read.waits() || profile.write.waits();
  // What was read to where it belongs is in the caches still when it is summed, beside what it was read from.
  const Bytes cached = profile.staging / 4;
  // A window of staged memory is one request: ranks that write to one file take turns in it, and one copies while another writes.
  SummedRequests requests{.waits = far,
                          .longest_read = far ? profile.longest_staging : cached,
                          .longest_written = far ? profile.longest_staging : profile.staging,
                          .read = deep_of(profile.read),
                          .write = deep_of(profile.write)};
  const double calling = profile.read.byte_seconds + profile.read.request_seconds / static_cast<double>(cached);
  const double mapping = profile.run_page_seconds / Profile::kPage + profile.copy_byte_seconds;
  const double spared = kReadInPieces * calling - mapping;  // a byte
  if (far || spared * static_cast<double>(SummedRequests::kMostMapped) <= profile.map_seconds) return requests;
  requests.least_mapped = std::max(kLeastSummedMapping, static_cast<Bytes>(profile.map_seconds / spared));
  requests.least_mapped_run = static_cast<Bytes>(kPagesAround * profile.run_page_seconds / kBufferedByteSeconds);
  requests.calls_a_page = profile.run_page_seconds / profile.read.request_seconds;
  return requests;
}

double scattered(const Pattern& memory) {
  if (memory.ascending() || memory.size() >= memory.runs() * kCacheLine) return 0;
  const Nest nest = Cursor(memory).peek();
  if (nest.depth == 0 || nest.levels[0].table || nest.levels[0].stride < 0) return 1;
  return std::min(1.0, static_cast<double>(nest.levels[0].stride) / kCacheLine);
}

namespace {

// Whether rows of pieces, each in a column of its own, follow each other in the columns: the next row finds their lines in a cache.
bool is_rows_of_columns(const Nest& nest) {
  constexpr std::int64_t kKeptLines = 4096;
  if (nest.depth < 2 || nest.levels[0].table || nest.levels[1].table) return false;
  return nest.levels[0].count <= kKeptLines && std::abs(nest.levels[0].stride) >= kCacheLine &&
         std::abs(nest.levels[1].stride) < kCacheLine;
}

double far_ranges(const Pattern& memory) {
  if (scattered(memory) == 0) return 0;
  const Nest nest = Cursor(memory).peek();
  return is_rows_of_columns(nest) ? static_cast<double>(std::abs(nest.levels[1].stride)) / kCacheLine : 1;
}

}  // namespace

Bytes Columns::part_of(Bytes most) const {
  most = std::min(inside, most);
  Bytes whole = most;
  for (const Bytes each : parts)
    if (each > 0 && each <= most) whole = most / each * each;
  return whole;
}

Columns columns_of(const Pattern& memory) {
  if (scattered(memory) == 0) return {};
  const Nest nest = Cursor(memory).peek();
  if (nest.size < memory.size() || nest.depth < 2) return {};
  const Nest::Level& outer = nest.outer();
  if (outer.table || std::abs(outer.stride) >= kCacheLine) return {};
  Columns columns{.count = outer.count, .stride = outer.stride, .inside = outer.inside};
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(nest.depth); ++i) columns.parts[i] = nest.levels[i].inside;
  return columns;
}

RequestShape shape_of(Direction direction, const Pattern& file, const Pattern& memory, Bytes file_size) {
  return {.direction = direction,
          .size = file.size(),
          .bounds = file.bounds(),
          .fresh = direction == Direction::kWrite ? bytes_beyond(file, file_size) : 0,
          .file_ranges = file.contiguous() ? 1 : file.runs(),
          .memory_ranges = memory.contiguous() ? 1 : memory.runs(),
          .scattered = scattered(memory),
          .far = far_ranges(memory),
          .columns = columns_of(memory),
          .ascending = file.ascending(),
          .gaps = file.ascending() && !file.contiguous() ? gaps_of(file) : Gaps{}};
}

AccessPlan plan_access(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules,
                       const Correction& correction) {
  AccessPlan plan;
  if (shape.size == 0) return plan;
  plan.considered.push_back(propose_list(shape, caps, profile, rules));
  if (shape.file_ranges > 1 || stages(shape, profile))
    plan.considered.push_back(propose_mapped(shape, caps, profile, rules));
  if (shape.file_ranges > 1) plan.considered.push_back(propose_sieve(shape, caps, profile, rules));
  for (Candidate& candidate : plan.considered) {
    candidate.seconds *= correction.of(candidate.method);
    candidate.storage_seconds *= correction.of(candidate.method);
  }
  const Candidate* chosen = choose(plan.considered, rules);
  plan.method = chosen->method;
  plan.seconds = chosen->seconds;
  plan.uncorrected_seconds = chosen->seconds / correction.of(chosen->method);
  plan.storage_seconds = chosen->storage_seconds;
  plan.moved_bytes = chosen->moved_bytes;
  plan.latency_seconds =
      std::max(0.0, plan.storage_seconds - plan.moved_bytes * profile.of(shape.direction).byte_seconds);
  plan.locked = rules.lock_writes && shape.direction == Direction::kWrite;
  plan.staged = stages(shape, profile);
  plan.pipelined = profile.of(shape.direction).waits();
  if (plan.pipelined) plan.first_window = profile.first_staging;
  plan.deep = deep_of(profile.of(shape.direction));
  if (rules.waited_for && plan.deep.depth > 1) plan.deep.depth *= kShareOfOthers;
  plan.window =
      std::max(profile.staging, window_for(profile.of(shape.direction), kStagedLatencies, profile.longest_staging));
  plan.columns = chosen->columns;
  if (plan.method == Method::kList && locks_apart(shape, profile, rules)) plan.ranges = 1;
  if (caps.appends) {
    plan.deep = {};  // its own: it knows what lies together
    plan.ranges = 1 << 16;
    // Half a window of a write is a request, and of scattered memory as much as can be in one pass.
    if (shape.direction == Direction::kWrite)
      plan.window = plan.pipelined ? profile.longest_staging : 2 * profile.staging;
  }
  if (plan.method == Method::kSieve) {
    plan.window = sieving_window(shape, profile, rules);
    plan.largest_gap = chosen->largest_gap;
  } else if (plan.method == Method::kMapped) {
    plan.window = profile.map_window;
  }
  return plan;
}

std::string AccessPlan::explain() const {
  std::string line = fmt::format("{} ({:.3g} ms)", name_of(method), seconds * 1e3);
  for (const Candidate& candidate : considered) {
    if (candidate.method == method) {
      line += fmt::format(": {}", candidate.why());
    } else if (candidate.impossible) {
      line += fmt::format("; not {}: {}", name_of(candidate.method), candidate.impossible);
    } else {
      line +=
          fmt::format("; not {} ({:.3g} ms: {})", name_of(candidate.method), candidate.seconds * 1e3, candidate.why());
    }
  }
  return line;
}

}  // namespace stridio
