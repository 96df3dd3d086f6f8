#include "file/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "file/hint_sources.h"

namespace stridio {

using nlohmann::json;

void Report::count(Direction direction, bool collective, Bytes bytes, std::string_view method, std::string_view why) {
  const std::scoped_lock lock(mutex_);
  Use& use = uses_[{method, direction, collective}];
  ++use.calls;
  use.bytes += bytes;
  use.why = why;
}

void Report::note_view(Offset displacement, Bytes extent, std::vector<std::byte> pattern) {
  const std::scoped_lock lock(mutex_);
  if (pattern.size() > kLongestView) pattern.clear();
  view_ = {displacement, extent, std::move(pattern)};
}

namespace {

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

Status Report::write(const std::string& directory, const std::string& path, int rank, int ranks) {
  json calls = {{"read", 0}, {"write", 0}, {"read_all", 0}, {"write_all", 0}};
  json bytes = {{"read", 0}, {"written", 0}};
  json methods = json::array();
  std::map<Key, Use> uses = uses_;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    const Singles& single = single_[static_cast<std::size_t>(direction)];
    if (single.calls == 0) continue;
    Use& use = uses[{name_of(Method::kDirect), direction, false}];
    use.calls += single.calls;
    use.bytes += single.bytes;
    if (use.why.empty()) use.why = "one request";
  }
  for (const auto& [key, use] : uses) {
    const bool reads = key.direction == Direction::kRead;
    const std::string call = std::string(reads ? "read" : "write") + (key.collective ? "_all" : "");
    calls[call] = calls[call].get<std::int64_t>() + use.calls;
    json& total = bytes[reads ? "read" : "written"];
    total = total.get<std::int64_t>() + use.bytes;
    methods.push_back({{"method", key.method},
                       {"direction", reads ? "read" : "write"},
                       {"collective", key.collective},
                       {"calls", use.calls},
                       {"bytes", use.bytes},
                       {"why", use.why}});
  }
  json hints = json::object();
  for (const auto& [name, value] : hints_) {
    const auto source = hint_sources_.find(name);
    hints[name] = {{"value", value}, {"source", source == hint_sources_.end() ? kFromDefault : source->second}};
  }
  const auto seconds = [](const std::atomic<std::int64_t>& ns) { return static_cast<double>(ns.load()) * 1e-9; };
  const StorageCounters& storage = *storage_;
  const auto number = [](const Counter& counter) { return static_cast<std::int64_t>(counter); };
  json all = {{"version", 1},
              {"file", path},
              {"rank", rank},
              {"ranks", ranks},
              {"calls", calls},
              {"bytes", bytes},
              {"methods", methods},
              {"profile", profile_},
              {"hints", hints},
              {"intervals", {{"shared_sets", shared_sets_}, {"inexact", inexact_sets_}}},
              {"storage",
               {{"read_requests", number(storage.read.requests)},
                {"write_requests", number(storage.write.requests)},
                {"read_bytes", number(storage.read.bytes)},
                {"write_bytes", number(storage.write.bytes)},
                {"locks", number(storage.lock.calls)},
                {"syncs", number(storage.sync.calls)}}},
              {"seconds",
               {{"exchange", seconds(times_.exchange)},
                {"copy", seconds(times_.copy)},
                {"storage", seconds(times_.storage)},
                {"waiting", seconds(times_.waiting)},
                {"open", seconds(times_.open)},
                {"total", seconds(times_.total)}}}};
  if (!view_.pattern.empty())
    all["view"] = {{"displacement", view_.displacement}, {"extent", view_.extent}, {"pattern", hex_of(view_.pattern)}};
  static std::atomic<int> sequence{0};
  const std::string name = directory + "/" + std::to_string(getpid()) + "-" + std::to_string(rank) + "-" +
                           std::to_string(sequence++) + ".json";
  std::ofstream out(name);
  out << all.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) return fail_errno(errno, "writing the report", name);
  return {};
}

}  // namespace stridio
