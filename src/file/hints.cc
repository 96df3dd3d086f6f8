#include "file/hints.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <numeric>

namespace stridio {
namespace {

constexpr std::array kTable{
    HintEntry{"cb_buffer_size", "4194304",
              "bytes of an aggregator's buffer in a collective call, 4096 or more", true},
    HintEntry{"cb_nodes", "0", "aggregators of a collective call; 0: by nodes, cores and bytes", true},
    HintEntry{"romio_cb_read", "automatic",
              "two-phase collective reads: enable, disable, automatic (the cheaper way)", true},
    HintEntry{"romio_cb_write", "automatic", "two-phase collective writes, likewise", true},
    HintEntry{"romio_ds_read", "automatic",
              "data sieving for independent reads: enable, disable, automatic", false},
    HintEntry{"romio_ds_write", "automatic",
              "data sieving for writes; enable is the user's promise that all writers of the file lock, "
              "automatic never modifies bytes outside the request",
              true},
    HintEntry{"ind_rd_buffer_size", "4194304", "bytes of a sieving read's window at most, 4096 or more", false},
    HintEntry{"ind_wr_buffer_size", "4194304", "bytes of a sieving write's window at most, 4096 or more", false},
    HintEntry{"stridio_method", "",
              "force a method: direct, list, mapped, sieve, independent, two_phase; where it is impossible or "
              "unsafe the planner chooses",
              true},
    HintEntry{"stridio_layout", "flat",
              "of a file that is made (or is empty): flat, or interval, which stores each process's intervals together; "
              "reports what the file is",
              true},
    HintEntry{"stridio_cache", "automatic",
              "keep writes in each rank's memory until MPI_File_sync, close or a full cache, and read one's own from there: "
              "enable, disable, automatic (short writes to an interval file by a rank alone in its communicator); "
              "not in atomic mode",
              true},
    HintEntry{"stridio_cache_bytes", "67108864", "bytes that a rank keeps in memory at most, 4096 or more; taken at open",
              false},
    HintEntry{"stridio_wait_generation", "",
              "opening an interval file for reading waits until it has a newer generation than this (1 is the empty file), "
              "also until the file exists; reports the one that was opened, so that the file's own info opens the next",
              true},
    HintEntry{"stridio_wait_seconds", "60", "how long that may take; then the opening fails", true},
    HintEntry{"stridio_commit", "direct",
              "atomic: a flat file opened for writing is written beside, as `.NAME.stridio-commit`, and takes its place at "
              "MPI_File_close, if no write has failed; till then, and if the job dies, the file is as it was. One that "
              "exists is copied first. Interval files are committed so anyway; taken at open",
              true},
    HintEntry{"stridio_node_ranks", "0",
              "consecutive ranks that make a node; 0: as the machine is (for tests of the path across nodes)",
              true},
};

template <typename Number>
bool parse(const std::string& text, Number low, Number high, Number& out) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) return false;
  out = value;
  return true;
}

bool parse(const std::string& text, Switch& out) {
  if (text == "enable") out = Switch::kEnable;
  else if (text == "disable") out = Switch::kDisable;
  else if (text == "automatic") out = Switch::kAutomatic;
  else return false;
  return true;
}

bool parse_method(const std::string& text, std::string& out) {
  for (const char* known : {"", "direct", "list", "mapped", "sieve", "independent", "two_phase"})
    if (text == known) {
      out = text;
      return true;
    }
  return false;
}

bool parse_layout(const std::string& text, bool& interval) {
  interval = text == "interval";
  return interval || text == "flat";
}

bool parse_commit(const std::string& text, bool& atomic) {
  atomic = text == "atomic";
  return atomic || text == "direct";
}

bool parse_number(const std::string& text, std::optional<std::uint64_t>& out) {
  std::uint64_t value = 0;
  if (!text.empty() && !parse<std::uint64_t>(text, 0, std::uint64_t{1} << 62, value)) return false;
  out = text.empty() ? std::nullopt : std::optional(value);
  return true;
}

constexpr Bytes kLargestBuffer = Bytes{1} << 40;

bool assign(Hints& hints, const std::string& name, const std::string& value) {
  if (name == "cb_buffer_size") return parse<Bytes>(value, 4096, kLargestBuffer, hints.cb_buffer_size);
  if (name == "cb_nodes") return parse(value, 0, 1 << 30, hints.cb_nodes);
  if (name == "romio_cb_read") return parse(value, hints.cb_read);
  if (name == "romio_cb_write") return parse(value, hints.cb_write);
  if (name == "romio_ds_read") return parse(value, hints.ds_read);
  if (name == "romio_ds_write") return parse(value, hints.ds_write);
  if (name == "ind_rd_buffer_size")
    return parse<Bytes>(value, 4096, kLargestBuffer, hints.ind_rd_buffer_size);
  if (name == "ind_wr_buffer_size")
    return parse<Bytes>(value, 4096, kLargestBuffer, hints.ind_wr_buffer_size);
  if (name == "stridio_method") return parse_method(value, hints.method);
  if (name == "stridio_layout") return parse_layout(value, hints.interval);
  if (name == "stridio_cache") return parse(value, hints.cache);
  if (name == "stridio_cache_bytes") return parse<Bytes>(value, 4096, kLargestBuffer, hints.cache_bytes);
  if (name == "stridio_wait_generation") return parse_number(value, hints.wait_generation);
  if (name == "stridio_wait_seconds") return parse(value, 0, 1 << 30, hints.wait_seconds);
  if (name == "stridio_commit") return parse_commit(value, hints.commit_atomic);
  if (name == "stridio_node_ranks") return parse(value, 0, 1 << 30, hints.node_ranks);
  return true;
}

const HintEntry* find(std::string_view name) {
  for (const HintEntry& entry : kTable)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view name) {
  const auto closer = [&](const HintEntry& a, const HintEntry& b) {
    return edit_distance(a.name, name) < edit_distance(b.name, name);
  };
  return std::min_element(kTable.begin(), kTable.end(), closer)->name;
}

}  // namespace

std::span<const HintEntry> hint_table() { return kTable; }

std::string hints_markdown() {
  std::string text =
      "# Hints\n\n"
      "Given as `MPI_Info` to `MPI_File_open`, `MPI_File_set_view` or `MPI_File_set_info`; `MPI_File_get_info` "
      "returns the values in force.\nFor programs that give none: `STRIDIO_HINTS=\"NAME=VALUE;NAME=VALUE\"` in the "
      "environment of the ranks; what the program gives goes before.\n"
      "A value that a hint does not have is ignored with one warning, and so is "
      "a misspelt name that starts with `stridio_`; other\nunknown names are kept and returned. Hints marked "
      "*same* must have one value on all ranks (else `MPI_ERR_NOT_SAME`).\n\n"
      "This page is made from the one table in `src/file/hints.cc`.\n\n"
      "| hint | default | | meaning |\n|---|---|---|---|\n";
  for (const HintEntry& entry : kTable)
    text += fmt::format("| `{}` | {} | {} | {} |\n", entry.name, entry.default_value,
                        entry.same_on_all ? "same" : "", entry.doc);
  return text;
}

HintList with_environment(const HintList& given) {
  HintList hints;
  const char* const text = std::getenv("STRIDIO_HINTS");
  for (std::string_view left = text ? text : ""; !left.empty();) {
    const std::string_view entry = left.substr(0, left.find(';'));
    left.remove_prefix(std::min(left.size(), entry.size() + 1));
    const std::size_t equals = std::min(entry.find('='), entry.size());
    if (!entry.empty()) hints.emplace_back(entry.substr(0, equals), entry.substr(std::min(equals + 1, entry.size())));
  }
  hints.insert(hints.end(), given.begin(), given.end());
  return hints;
}

Hints apply_hints(const Hints& base, const HintList& given, std::vector<std::string>& warnings) {
  Hints hints = base;
  if (hints.entries.empty())
    for (const HintEntry& entry : kTable)
      if (!entry.default_value.empty())
        hints.entries[std::string(entry.name)] = entry.default_value;
  for (const auto& [name, value] : given) {
    const HintEntry* known = find(name);
    if (!known && name.starts_with("stridio_")) {
      warnings.push_back(fmt::format("no hint is called {}; did you mean {}?", name, nearest(name)));
    } else if (known && !assign(hints, name, value)) {
      warnings.push_back(
          fmt::format("hint {} ignored: {} is not a value of it ({})", name, value, known->doc));
    } else {
      hints.entries[name] = value;
    }
  }
  return hints;
}

}  // namespace stridio
