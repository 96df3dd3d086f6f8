#include "file/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

namespace stridio {
namespace {

constexpr bool kSame = true, kAtOpen = true;
constexpr std::string_view kSwitch = "enable, disable, automatic", kNumber = "0 or more", kBuffer = "4096 or more";

constexpr std::array kTable{
    HintEntry{"cb_buffer_size", "4194304", kBuffer,
              "bytes of an aggregator's buffer in a collective call; of the default as few as are best", kSame},
    HintEntry{"cb_nodes", "0", kNumber, "aggregators of a collective call; 0: by nodes, cores and bytes", kSame},
    HintEntry{"romio_cb_read", "automatic", kSwitch, "two-phase collective reads; automatic: the cheaper way", kSame},
    HintEntry{"romio_cb_write", "automatic", kSwitch, "two-phase collective writes, likewise", kSame},
    HintEntry{"romio_ds_read", "automatic", kSwitch, "data sieving for independent reads", !kSame},
    HintEntry{"romio_ds_write", "automatic", kSwitch,
              "data sieving for writes; enable is the user's promise that all writers of the file lock, "
              "automatic never modifies bytes outside the request",
              kSame},
    HintEntry{"collective_buffering", "", "true, false",
              "MPI's and OMPIO's: false stands for disable of both romio_cb_ hints, true for automatic", kSame},
    HintEntry{"ind_rd_buffer_size", "4194304", kBuffer, "bytes of a sieving read's window at most", !kSame},
    HintEntry{"ind_wr_buffer_size", "4194304", kBuffer, "bytes of a sieving write's window at most", !kSame},
    HintEntry{"stridio_method", "", "direct, list, mapped, sieve, independent, two_phase",
              "force a method; where it is impossible or unsafe the planner chooses", kSame},
    HintEntry{"file_perm", "0666", "octal, up to 0777",
              "permissions of a file that is made, without those that the umask of rank 0's process takes away", kSame,
              kAtOpen},
    HintEntry{
        "stridio_layout", "flat", "flat, interval",
        "of a file that is made (or is empty); interval stores each process's intervals together; reports what the "
        "file is",
        kSame, kAtOpen},
    HintEntry{"stridio_cache", "automatic", kSwitch,
              "keep writes in each rank's memory until MPI_File_sync, close or a full cache (to an interval file until "
              "they make a long write; what is long itself is not kept), and read one's own from there; automatic: "
              "short writes to an interval file by a rank alone in its communicator; "
              "not in atomic mode and not with stridio_visibility=immediate",
              kSame},
    HintEntry{"stridio_cache_bytes", "67108864", kBuffer, "bytes that a rank keeps in memory at most", !kSame, kAtOpen},
    HintEntry{
        "stridio_wait_generation", "", kNumber,
        "opening an interval file for reading waits until it has a newer generation than this (1 is the empty file), "
        "also until the file exists; reports the one that was opened, so that the file's own info opens the next. "
        "A commit makes one generation; two of the same bytes where ranks have written over one another's bytes, half "
        "as "
        "much again as the file holds or more",
        kSame, kAtOpen},
    HintEntry{"stridio_wait_seconds", "60", kNumber,
              "how long that may take; then the opening fails, and after a second where the file is truncated or "
              "damaged and stays so",
              kSame, kAtOpen},
    HintEntry{
        "stridio_commit", "direct", "direct, atomic",
        "atomic: a flat file opened for writing is written beside, as `.NAME.stridio-commit`, and takes its place at "
        "MPI_File_close, if no write has failed; till then, and if the job dies, the file is as it was. One that "
        "exists is copied first. Interval files are committed so anyway",
        kSame, kAtOpen},
    HintEntry{
        "stridio_visibility", "automatic", "automatic, immediate",
        "immediate: what a rank writes to an interval file is seen by the others at once, also across nodes, where "
        "that costs each access a few requests more; for programs that order their accesses by messages alone, as "
        "parallel HDF5 does those of its metadata. automatic: at MPI_File_sync, on a node small writes at once. "
        "Between two syncs at most 65,536 writes (across nodes 8 MB of maps of them) can be shown; more are refused",
        kSame, kAtOpen},
    HintEntry{"stridio_node_ranks", "0", kNumber,
              "consecutive ranks that make a node; 0: as the machine is (for tests of the path across nodes)", kSame,
              kAtOpen},
};

// What programs and sites give to other MPI-IO: kept and returned, and nothing more.
struct KeptHint {
  std::string_view names, of, why;
};
constexpr std::array kKept{
    KeptHint{"access_style, cb_block_size, chunked, chunked_item, chunked_size, filename, io_node_list, nb_proc, "
             "num_io_nodes",
             "MPI-4.1 section 14.2.8", "the pattern of each request says more"},
    KeptHint{"striping_factor, striping_unit, start_iodevice", "MPI, ROMIO", "of the file system's own tools"},
    KeptHint{"cb_config_list, romio_cb_alltoall, romio_cb_pfr, romio_cb_fr_types, romio_cb_fr_alignment, "
             "romio_cb_ds_threshold, romio_aggregator_list, romio_no_indep_rw, romio_synchronized_flush, direct_read, "
             "direct_write, romio_lustre_co_ratio, romio_lustre_coll_threshold, romio_lustre_ds_in_coll",
             "ROMIO", "aggregators, file domains and requests are the planner's, call by call"},
    KeptHint{"stripe_size, stripe_width, num_aggregators, shared_file_timeout", "OMPIO", "likewise"},
    KeptHint{"cray_cb_nodes_multiplier, cray_cb_write_lock_mode, overcommit", "Cray", "likewise"},
    KeptHint{"nc_num_aggrs_per_node, nc_striping, overstriping_ratio, file_striping", "PnetCDF, GIO",
             "PnetCDF reads its own before Stridio sees them"},
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
  if (text == "enable")
    out = Switch::kEnable;
  else if (text == "disable")
    out = Switch::kDisable;
  else if (text == "automatic")
    out = Switch::kAutomatic;
  else
    return false;
  return true;
}

// One name for both directions: what is said last counts.
bool assign_collective_buffering(Hints& hints, const std::string& value) {
  if (value != "true" && value != "false") return false;
  hints.cb_read = hints.cb_write = value == "true" ? Switch::kAutomatic : Switch::kDisable;
  for (const char* name : {"romio_cb_read", "romio_cb_write"})
    hints.entries[name] = value == "true" ? "automatic" : "disable";
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

bool parse_visibility(const std::string& text, bool& at_once) {
  at_once = text == "immediate";
  return at_once || text == "automatic";
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

bool parse_permissions(const std::string& text, int& out) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 0777) return false;
  out = value;
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
  if (name == "collective_buffering") return assign_collective_buffering(hints, value);
  if (name == "ind_rd_buffer_size") return parse<Bytes>(value, 4096, kLargestBuffer, hints.ind_rd_buffer_size);
  if (name == "ind_wr_buffer_size") return parse<Bytes>(value, 4096, kLargestBuffer, hints.ind_wr_buffer_size);
  if (name == "stridio_method") return parse_method(value, hints.method);
  if (name == "file_perm") return parse_permissions(value, hints.permissions);
  if (name == "stridio_layout") return parse_layout(value, hints.interval);
  if (name == "stridio_cache") return parse(value, hints.cache);
  if (name == "stridio_cache_bytes") return parse<Bytes>(value, 4096, kLargestBuffer, hints.cache_bytes);
  if (name == "stridio_wait_generation") return parse_number(value, hints.wait_generation);
  if (name == "stridio_wait_seconds") return parse(value, 0, 1 << 30, hints.wait_seconds);
  if (name == "stridio_commit") return parse_commit(value, hints.commit_atomic);
  if (name == "stridio_visibility") return parse_visibility(value, hints.visible_at_once);
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

// In any case.
bool is_meant_for_us(std::string_view name) {
  constexpr std::string_view kOurs = "stridio_";
  return name.size() > kOurs.size() && std::equal(kOurs.begin(), kOurs.end(), name.begin(), [](char ours, char theirs) {
           return ours == (theirs >= 'A' && theirs <= 'Z' ? theirs - 'A' + 'a' : theirs);
         });
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
      "returns the values in force.\nOther sources, the strongest first; what the program gives goes before all of "
      "them. Each must be "
      "the same for all ranks.\n\n"
      "- `STRIDIO_HINTS=\"NAME=VALUE;NAME=VALUE\"` in the environment of the ranks\n"
      "- `MPICH_MPIIO_HINTS=\"PATTERN:NAME=VALUE:NAME=VALUE,PATTERN:...\"`, for files whose name, or its last part, "
      "meets the "
      "pattern (`*.h5`)\n"
      "- the file that `ROMIO_HINTS` names, else `/etc/romio-hints`: a name and a value a line, `#` starts a "
      "comment\n\n"
      "`ROMIO_PRINT_HINTS=1` prints all values in force at each open; the records of `stridio run --report` name their "
      "sources.\n\n"
      "A value that a hint does not have is ignored with one warning, and so is "
      "a misspelt name that starts with `stridio_`; other\nunknown names are kept and returned. Hints marked "
      "*same* must have one value on all ranks (else `MPI_ERR_NOT_SAME`); those marked *open* count when the file is "
      "opened, "
      "and are\nignored later.\n\n"
      "This page is made from the one table in `src/file/hints.cc`.\n\n"
      "| hint | values | default | | meaning |\n|---|---|---|---|---|\n";
  for (const HintEntry& entry : kTable) {
    const char* const when = entry.at_open       ? entry.same_on_all ? "same, open" : "open"
                             : entry.same_on_all ? "same"
                                                 : "";
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", entry.name, entry.values, entry.default_value, when, entry.doc);
  }
  text +=
      "\n## Names of others\n\n"
      "They are kept, returned by `MPI_File_get_info`, and change nothing:\n\n"
      "| hint | of | why |\n|---|---|---|\n";
  for (const KeptHint& kept : kKept) {
    std::string names(kept.names);
    for (std::size_t at = 0; (at = names.find(", ", at)) != std::string::npos; at += 4) names.replace(at, 2, "`, `");
    text += fmt::format("| `{}` | {} | {} |\n", names, kept.of, kept.why);
  }
  text +=
      "\nBesides, `MPI_File_get_info` returns `romio_visibility_immediate`: true where others see what is written at "
      "once (on\nthe node that of a flat file without the cache; everywhere that of an interval file with "
      "stridio_visibility=immediate),\nfalse where MPI_File_sync shows it.\n";
  return text;
}

HintList of_open_files(HintList given) {
  std::erase_if(given, [](const auto& each) {
    const HintEntry* const known = find(each.first);
    return known && known->at_open;
  });
  return given;
}

Hints apply_hints(const Hints& base, const HintList& given, const std::string& source,
                  std::vector<std::string>& warnings) {
  Hints hints = base;
  if (hints.entries.empty())
    for (const HintEntry& entry : kTable)
      if (!entry.default_value.empty()) hints.entries[std::string(entry.name)] = entry.default_value;
  for (const auto& [name, value] : given) {
    const HintEntry* known = find(name);
    if (!known && is_meant_for_us(name)) {
      warnings.push_back(fmt::format("no hint is called {}; did you mean {}? ({})", name, nearest(name), source));
    } else if (known && !assign(hints, name, value)) {
      warnings.push_back(
          fmt::format("hint {}={} is ignored: its values are {} ({})", name, value, known->values, source));
    } else {
      hints.entries[name] = value;
      hints.sources[name] = source;
    }
  }
  return hints;
}

}  // namespace stridio
