#include "report.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace stridio {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// What every record and report has, be it 0.
const Counts kCalls = {{"read", 0}, {"write", 0}, {"read_all", 0}, {"write_all", 0}};
const Counts kBytes = {{"read", 0}, {"written", 0}};
const Counts kStorage = {{"read_requests", 0}, {"write_requests", 0}, {"read_bytes", 0},
                         {"write_bytes", 0},   {"locks", 0},          {"syncs", 0}};
const std::map<std::string, double> kSeconds = {{"exchange", 0}, {"copy", 0}, {"storage", 0},
                                                {"waiting", 0},  {"open", 0}, {"total", 0}};

// One file's records while they are added up: seconds stay apart by rank until the end.
struct Merging {
  FileReport report = {.calls = kCalls, .bytes = kBytes, .storage = kStorage};
  std::map<int, int> opens;
  std::map<int, std::map<std::string, double>> seconds;
};

void add_counts(Counts& counts, const Json& record, const char* part) {
  const Json values = record.value(part, Json::object());
  for (const auto& [name, value] : values.items()) counts[name] += value.get<std::int64_t>();
}

void add_method(std::vector<MethodUse>& methods, const Json& record) {
  MethodUse use{
      record.at("method"),     record.value("direction", ""),          record.value("collective", false),
      record.value("why", ""), record.value("calls", std::int64_t{0}), record.value("bytes", std::int64_t{0})};
  const auto same = std::find_if(methods.begin(), methods.end(), [&](const MethodUse& other) {
    return other.method == use.method && other.direction == use.direction && other.collective == use.collective &&
           other.why == use.why;
  });
  if (same == methods.end()) {
    methods.push_back(std::move(use));
    return;
  }
  same->calls += use.calls;
  same->bytes += use.bytes;
}

// Adds a record that was checked to be well formed: throws before it changes anything, or not at
// all.
void add_record(Merging& merging, const Json& record) {
  Merging next = merging;
  const int rank = record.at("rank");
  next.seconds.try_emplace(rank, kSeconds);
  next.report.ranks = std::max(next.report.ranks, record.at("ranks").get<int>());
  ++next.opens[rank];
  add_counts(next.report.calls, record, "calls");
  add_counts(next.report.bytes, record, "bytes");
  add_counts(next.report.storage, record, "storage");
  const Json methods = record.value("methods", Json::array());
  for (const Json& method : methods) add_method(next.report.methods, method);
  if (record.contains("view")) {
    const Json& view = record.at("view");
    next.report.views[rank] = {view.at("displacement"), view.at("extent"), view.at("pattern")};
  }
  const Json seconds = record.value("seconds", Json::object());
  for (const auto& [name, value] : seconds.items()) next.seconds[rank][name] += value.get<double>();
  merging = std::move(next);
}

void read_record(const fs::path& path, std::map<std::string, Merging>& files) {
  std::ifstream stream(path);
  const Json record = Json::parse(stream);
  if (record.at("version") != 1) throw std::runtime_error("its version is " + record.at("version").dump() + ", not 1");
  add_record(files[record.at("file").get<std::string>()], record);
}

void add_other(std::map<std::string, double>& seconds) {
  double known = 0;
  for (const auto& [name, value] : seconds)
    if (name != "total") known += value;
  seconds["total"] = std::max(seconds["total"], known);
  seconds["other"] = seconds["total"] - known;
}

FileReport finish(const std::string& name, Merging merging) {
  FileReport report = std::move(merging.report);
  report.file = name;
  report.reporting = static_cast<int>(merging.opens.size());
  for (const auto& [rank, opens] : merging.opens) report.opens = std::max(report.opens, opens);
  for (auto& [rank, seconds] : merging.seconds) {
    add_other(seconds);
    for (const auto& [part, value] : seconds) {
      Spread& spread = report.seconds[part];
      spread.sum += value;
      if (spread.max_rank < 0 || value > spread.max) spread.max = value, spread.max_rank = rank;
    }
  }
  std::stable_sort(report.methods.begin(), report.methods.end(),
                   [](const MethodUse& a, const MethodUse& b) { return a.bytes > b.bytes; });
  return report;
}

double total_seconds(const FileReport& file) {
  const auto found = file.seconds.find("total");
  return found == file.seconds.end() ? 0 : found->second.sum;
}

double mean(const Counts& storage, const char* bytes, const char* requests) {
  const auto of = [&](const char* name) {
    const auto found = storage.find(name);
    return found == storage.end() ? std::int64_t{0} : found->second;
  };
  return of(requests) == 0 ? 0 : static_cast<double>(of(bytes)) / static_cast<double>(of(requests));
}

Json to_json(const FileReport& file) {
  Json storage = file.storage;
  storage["mean_read_request"] = mean(file.storage, "read_bytes", "read_requests");
  storage["mean_write_request"] = mean(file.storage, "write_bytes", "write_requests");
  Json methods = Json::array();
  for (const MethodUse& use : file.methods)
    methods.push_back({{"method", use.method},
                       {"direction", use.direction},
                       {"collective", use.collective},
                       {"why", use.why},
                       {"calls", use.calls},
                       {"bytes", use.bytes}});
  Json seconds = Json::object();
  for (const auto& [name, spread] : file.seconds)
    seconds[name] = {{"sum", spread.sum}, {"max", spread.max}, {"max_rank", spread.max_rank}};
  Json views = Json::array();
  for (const auto& [rank, view] : file.views)
    views.push_back(
        {{"rank", rank}, {"displacement", view.displacement}, {"extent", view.extent}, {"pattern", view.pattern}});
  return {{"file", file.file},   {"dominant_cost", dominant_cost(file)},
          {"ranks", file.ranks}, {"ranks_reporting", file.reporting},
          {"opens", file.opens}, {"calls", file.calls},
          {"bytes", file.bytes}, {"methods", methods},
          {"storage", storage},  {"seconds", seconds},
          {"views", views}};
}

}  // namespace

Report merge_records(const fs::path& folder) {
  Report report;
  std::set<fs::path> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".json") paths.insert(entry.path());
  std::map<std::string, Merging> files;
  for (const fs::path& path : paths) {
    try {
      read_record(path, files);
      ++report.records;
    } catch (const std::exception& error) {
      report.unreadable.push_back(fmt::format("{}: {}", path.filename().string(), error.what()));
    }
  }
  for (auto& [name, merging] : files)
    if (!merging.opens.empty()) report.files.push_back(finish(name, std::move(merging)));
  std::stable_sort(report.files.begin(), report.files.end(),
                   [](const auto& a, const auto& b) { return total_seconds(a) > total_seconds(b); });
  return report;
}

std::string report_json(const Report& report, const RunFacts& facts) {
  Json files = Json::array();
  for (const FileReport& file : report.files) files.push_back(to_json(file));
  const Json json = {{"version", 1},
                     {"command", facts.command},
                     {"mpi", facts.mpi},
                     {"exit_status", facts.exit_status},
                     {"seconds", facts.seconds},
                     {"records", report.records},
                     {"unreadable_records", report.unreadable},
                     {"files", files}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stridio
