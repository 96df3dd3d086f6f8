// Costs, in seconds, of a request of b bytes in f file and m memory ranges spanning s bytes of the file:
//   list   f requests + b storage bytes (+ b copied bytes in m ranges where memory is staged)
//   direct list with f = 1
//   mapped s / window mappings + s / page pages + b copied bytes in max(f, m) pieces
//   sieve  s / window requests + s storage bytes + b copied bytes in max(f, m) pieces;
//          a write does the storage part twice, and once more for locks
#include "plan/access_plan.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace stridio {
namespace {

double copying(const RequestShape& shape, const Profile& profile, std::int64_t ranges) {
  return static_cast<double>(shape.size) * profile.copy_byte_seconds +
         static_cast<double>(ranges) * profile.copy_range_seconds;
}

double transfers(double requests, double bytes, const Profile& profile) {
  return requests * profile.request_seconds + bytes * profile.storage_byte_seconds;
}

bool stages(const RequestShape& shape, const Profile& profile) {
  return shape.memory_ranges > 1 && shape.size / shape.memory_ranges < profile.long_range;
}

Candidate propose_list(const RequestShape& shape, const Caps& caps, const Profile& profile,
                       const AccessRules& rules) {
  const auto ranges = static_cast<double>(shape.file_ranges);
  const double requests =
      caps.native_list ? std::max(1.0, ranges / static_cast<double>(caps.largest_list)) : ranges;
  double seconds = transfers(requests, static_cast<double>(shape.size), profile);
  if (stages(shape, profile)) seconds += copying(shape, profile, shape.memory_ranges);
  if (rules.lock_writes && shape.direction == Direction::kWrite) seconds += profile.lock_seconds;
  const Method method = shape.file_ranges == 1 ? Method::kDirect : Method::kList;
  return {method, true, seconds, fmt::format("{}, {}", counted(std::llround(requests), "request"), counted(shape.size, "byte"))};
}

Candidate propose_mapped(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules) {
  const auto impossible = [](std::string why) { return Candidate{Method::kMapped, false, 0, std::move(why)}; };
  if (!caps.maps) return impossible("the storage cannot be mapped");
  if (!shape.ascending) return impossible("the file ranges are not in ascending order");
  const bool writes = shape.direction == Direction::kWrite;
  const auto windows = static_cast<double>((shape.bounds.length + profile.map_window - 1) / profile.map_window);
  const double pages = static_cast<double>(shape.bounds.length) / Profile::kPage + 2 * windows;
  double seconds = windows * profile.map_seconds +
                   pages * (writes ? profile.written_page_seconds : profile.read_page_seconds) +
                   copying(shape, profile, std::max(shape.file_ranges, shape.memory_ranges));
  if (writes && rules.lock_writes) seconds += windows * profile.lock_seconds;
  return {Method::kMapped, true, seconds, fmt::format("{} of {} bytes in place in {}", counted(shape.size, "byte"),
                                                      shape.bounds.length, counted(std::llround(windows), "mapping"))};
}

Candidate propose_sieve(const RequestShape& shape, const Profile& profile, const AccessRules& rules) {
  const bool writes = shape.direction == Direction::kWrite;
  const auto impossible = [](std::string why) {
    return Candidate{Method::kSieve, false, 0, std::move(why)};
  };
  if (!shape.ascending) return impossible("the file ranges are not in ascending order");
  if (!writes && !rules.sieve_reads) return impossible("switched off by a hint");
  if (writes && !rules.may_modify_holes) return impossible(rules.holes_reason);
  const Bytes window = writes ? rules.write_window : rules.read_window;
  const auto span = static_cast<double>(shape.bounds.length);
  const double windows = std::max(1.0, span / static_cast<double>(window));
  double seconds = transfers(windows, span, profile) +
                   copying(shape, profile, std::max(shape.file_ranges, shape.memory_ranges));
  if (writes) seconds += transfers(windows, span, profile);
  if (writes && rules.lock_writes) seconds += windows * profile.lock_seconds;
  return {Method::kSieve, true, seconds,
          fmt::format("{} of {} bytes at most over {} bytes, for {} of them",
                      counted(std::llround(std::ceil(windows)), "window"), window, shape.bounds.length,
                      shape.size)};
}

const Candidate* choose(const std::vector<Candidate>& candidates, const AccessRules& rules) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.possible) continue;
    if (rules.force == name_of(candidate.method)) return &candidate;
    if (rules.prefer_sieve && candidate.method == Method::kSieve) return &candidate;
    if (!best || candidate.seconds < best->seconds) best = &candidate;
  }
  return best;
}

}  // namespace

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

RequestShape shape_of(Direction direction, const Pattern& file, const Pattern& memory) {
  return {.direction = direction,
          .size = file.size(),
          .bounds = file.bounds(),
          .file_ranges = file.contiguous() ? 1 : file.runs(),
          .memory_ranges = memory.contiguous() ? 1 : memory.runs(),
          .ascending = file.ascending()};
}

AccessPlan plan_access(const RequestShape& shape, const Caps& caps, const Profile& profile,
                       const AccessRules& rules) {
  AccessPlan plan;
  if (shape.size == 0) return plan;
  plan.considered.push_back(propose_list(shape, caps, profile, rules));
  if (shape.file_ranges > 1 || stages(shape, profile))
    plan.considered.push_back(propose_mapped(shape, caps, profile, rules));
  if (shape.file_ranges > 1) plan.considered.push_back(propose_sieve(shape, profile, rules));
  const Candidate* chosen = choose(plan.considered, rules);
  plan.method = chosen->method;
  plan.seconds = chosen->seconds;
  plan.locked = rules.lock_writes && shape.direction == Direction::kWrite;
  if (plan.method == Method::kSieve) {
    plan.window = shape.direction == Direction::kWrite ? rules.write_window : rules.read_window;
  } else {
    plan.staged = stages(shape, profile);
    plan.window = plan.method == Method::kMapped ? profile.map_window : profile.staging;
  }
  return plan;
}

std::string AccessPlan::explain() const {
  std::string line = fmt::format("{} ({:.3g} ms)", name_of(method), seconds * 1e3);
  for (const Candidate& candidate : considered) {
    if (candidate.method == method) {
      line += fmt::format(": {}", candidate.why);
    } else if (candidate.possible) {
      line += fmt::format("; not {} ({:.3g} ms: {})", name_of(candidate.method),
                          candidate.seconds * 1e3, candidate.why);
    } else {
      line += fmt::format("; not {}: {}", name_of(candidate.method), candidate.why);
    }
  }
  return line;
}

}  // namespace stridio
