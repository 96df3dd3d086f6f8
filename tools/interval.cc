#include "interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

#include "base/guarded.h"
#include "interval/check.h"
#include "interval/interval_file.h"
#include "run.h"
#include "storage/posix.h"

namespace stridio {
namespace {

constexpr std::size_t kMostLines = 100;  // about damage

int complain(const char* command, const Error& error, int status = kOwnError) {
  fmt::print(stderr, "stridio {}: {}\n", command, error.text());
  return status;
}

Result<std::unique_ptr<Storage>> open_source(const std::string& path) {
  ASSIGN_OR_RETURN(auto storage, open_posix(path, {.read = true}));
  ASSIGN_OR_RETURN(const Head head, Head::read(*storage));
  if (head.content() != Head::Content::kIntervals)
    return fail(Error{.code = Code::kBadFileName, .what = "not an interval file", .path = path});
  return storage;
}

// ---- info

nlohmann::ordered_json facts_of(const Root& root, Bytes file_bytes) {
  Bytes stored = 0, metadata = 0;
  auto parts = nlohmann::ordered_json::array();
  for (const PartEntry& part : root.parts) {
    Bytes in_runs = 0;
    for (const Extent& run : part.runs) in_runs += run.length;
    parts.push_back({{"process", part.process},
                     {"bytes", part.bytes},
                     {"lower", part.bounds.offset},
                     {"upper", part.bounds.end()},
                     {"stored_bytes", in_runs},
                     {"runs", part.runs.size()},
                     {"metadata_bytes", part.metadata.length}});
    stored += in_runs;
    metadata += part.metadata.length;
  }
  return {{"format_version", kIntervalVersion}, {"generation", root.generation}, {"size", root.size},
          {"processes", root.processes},        {"bytes", root.live()},          {"stored_bytes", stored},
          {"metadata_bytes", metadata},         {"file_bytes", file_bytes},      {"parts", parts}};
}

Result<nlohmann::ordered_json> read_facts(const std::string& path) {
  ASSIGN_OR_RETURN(auto storage, open_source(path));
  ASSIGN_OR_RETURN(PinnedRoot found, pin_newest(*storage));
  ASSIGN_OR_RETURN(const auto generation, Generation::of(std::move(found.header), found.root));
  ASSIGN_OR_RETURN(const Bytes file_bytes, storage->size());
  return facts_of(generation->root(), file_bytes);
}

std::string written_of(Bytes written, Bytes size) {
  if (size == 0) return "";
  if (written == 0) return ", none of them written: all zeros";
  return written == size ? ", all of them written" : fmt::format(", {} of them written, the others zeros", written);
}

void print_facts(const std::string& path, const nlohmann::ordered_json& facts) {
  const auto number = [&](const char* name) { return facts[name].get<std::int64_t>(); };
  const auto share = [&](Bytes part) {
    return number("bytes") == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(number("bytes"));
  };
  fmt::print("{}: interval file, format version {}, generation {}\n", path, number("format_version"),
             number("generation"));
  fmt::print("  size      {} bytes{}\n", number("size"), written_of(number("bytes"), number("size")));
  fmt::print("  stored    {} bytes of data, {} bytes of metadata ({:.2f} %) in {} bytes\n", number("stored_bytes"),
             number("metadata_bytes"), share(number("metadata_bytes")), number("file_bytes"));
  fmt::print("  written by {} process{}\n", number("processes"), number("processes") == 1 ? "" : "es");
  for (const auto& part : facts["parts"])
    fmt::print("    process {}: {} bytes between {} and {}, stored in {} run{}\n", part["process"].get<int>(),
               part["bytes"].get<Bytes>(), part["lower"].get<Offset>(), part["upper"].get<Offset>(),
               part["runs"].get<int>(), part["runs"].get<int>() == 1 ? "" : "s");
}

}  // namespace

int interval_info(const std::string& path, bool json) {
  const auto facts = guarded([&] { return read_facts(path); });
  if (!facts) return complain("info", facts.error());
  if (json)
    fmt::print("{}\n", facts->dump(2));
  else
    print_facts(path, *facts);
  return 0;
}

int interval_check(const std::string& path) {
  auto storage = open_source(path);
  if (!storage) return complain("check", storage.error());
  const auto check = check_interval_file(**storage);
  if (!check) return complain("check", check.error());
  for (const std::string& note : check->notes) fmt::print("{}: note: {}\n", path, note);
  const auto shown = std::min(check->damage.size(), kMostLines);
  for (const std::string& damage : std::span(check->damage).first(shown)) fmt::print("{}: {}\n", path, damage);
  if (shown < check->damage.size()) fmt::print("{}: and {} more\n", path, check->damage.size() - shown);
  fmt::print("{}: {}\n", path, check->damage.empty() ? "whole" : "DAMAGED");
  return check->damage.empty() ? 0 : 1;
}

}  // namespace stridio
