// Hints: the one table of every knob, from which docs/hints.md is made and by which values are checked.
// Names starting with `stridio_` are ours (a misspelt one warns once); ROMIO's mean what its users expect;
// others are kept and reported as they came.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/extent.h"
#include "base/result.h"

namespace stridio {

enum class Switch { kDisable, kAutomatic, kEnable };

// The values in force, as the planner sees them.
struct Hints {
  Bytes cb_buffer_size = Bytes{4} << 20;  // an aggregator's buffer in a collective call
  int cb_nodes = 0;                       // aggregators; 0: by nodes and bytes
  Switch cb_read = Switch::kAutomatic;    // two-phase for collective reads
  Switch cb_write = Switch::kAutomatic;
  Switch ds_read = Switch::kAutomatic;        // data sieving for independent reads
  Switch ds_write = Switch::kAutomatic;       // enable: all writers of the file lock (rule 1 of the design)
  Bytes ind_rd_buffer_size = Bytes{4} << 20;  // a sieving read's window
  Bytes ind_wr_buffer_size = Bytes{4} << 20;
  std::string method;                            // stridio_method: force one candidate by its name; empty: planner
  bool interval = false;                         // stridio_layout: of a file that is made
  Switch cache = Switch::kAutomatic;             // stridio_cache: writes are kept in memory until sync or close
  Bytes cache_bytes = Bytes{64} << 20;           // stridio_cache_bytes: of a rank, at most
  std::optional<std::uint64_t> wait_generation;  // stridio_wait_generation: opening for reading wants a newer one
  int wait_seconds = 60;                         // stridio_wait_seconds
  bool commit_atomic = false;                    // stridio_commit: a new version takes the file's place at close
  bool visible_at_once = false;                  // stridio_visibility: others see what is written
  int permissions = 0666;                        // file_perm: of a file that is made, before the umask
  int node_ranks = 0;                            // stridio_node_ranks: ranks that make a node; 0: as it is

  // Everything that the user gave or that is in force, for MPI_File_get_info: name to value.
  std::map<std::string, std::string> entries;
  std::map<std::string, std::string> sources = {};  // who gave the value; default, where none is named
};

using HintList = std::vector<std::pair<std::string, std::string>>;

struct HintEntry {
  std::string_view name;
  std::string_view default_value;
  std::string_view values;
  std::string_view doc;  // one line: meaning and unit
  bool same_on_all;      // must be equal on all ranks of the group
  bool at_open = false;  // later it is ignored
};
std::span<const HintEntry> hint_table();
// The table as a document: docs/hints.md.
std::string hints_markdown();

// Those of them that count for a file that is open already.
HintList of_open_files(HintList given);

// `base` with `given` laid over it. A bad value of a known hint is ignored with one warning in `warnings` (MPI-4.1
// section 14.2.8: an implementation may ignore hints), as is a misspelt `stridio_` name, with the nearest right one named.
// `source` says who gave them.
Hints apply_hints(const Hints& base, const HintList& given, const std::string& source,
                  std::vector<std::string>& warnings);

}  // namespace stridio
