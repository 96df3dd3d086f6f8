// The report of a run: the records that the ranks leave in STRIDIO_REPORT_DIR, one for each rank
// and open of a file, merged per file. The record's form, version 1:
//
//   {"version":1, "file":path, "rank":r, "ranks":n,
//    "calls":{"read":n,"write":n,"read_all":n,"write_all":n}, "bytes":{"read":n,"written":n},
//    "methods":[{"method":text,"direction":"read|write","collective":bool,"calls":n,"bytes":n,"why":text}],
//    "storage":{"read_requests":n,"write_requests":n,"read_bytes":n,"write_bytes":n,"locks":n,"syncs":n},
//    "view":{"displacement":n,"extent":n,"pattern":hex}, "intervals":{"shared_sets":n,"inexact":n},
//    "seconds":{"exchange":x,"copy":x,"storage":x,"waiting":x,"open":x,"total":x}}
//
// total is the time inside MPI_File calls, and at least the sum of the others. What a record leaves
// out counts as 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace stridio {

using Counts = std::map<std::string, std::int64_t>;

// A duration on each rank, as its sum over ranks and its largest value.
struct Spread {
  double sum = 0;
  double max = 0;
  int max_rank = -1;
};

struct MethodUse {
  std::string method;
  std::string direction;
  bool collective = false;
  std::string why;
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

// The last view that a rank had set.
struct RankView {
  std::int64_t displacement = 0;
  std::int64_t extent = 1;
  std::string pattern;  // encoded, in hexadecimal
};

struct FileReport {
  std::string file = {};
  int ranks = 0;      // of the communicator that opened it
  int reporting = 0;  // those of them that left a record
  int opens = 0;      // the most of any rank
  Counts calls = {};
  Counts bytes = {};
  Counts storage = {};
  std::vector<MethodUse> methods = {};         // by bytes, the largest first
  std::map<int, RankView> views = {};          // by rank
  std::map<std::string, Spread> seconds = {};  // also "other": what of total is in no other entry
};

struct Report {
  int records = 0;
  std::vector<std::string> unreadable;  // what was wrong with which record
  std::vector<FileReport> files;        // by time, the longest first
};

// What the run was, for the head of the JSON report.
struct RunFacts {
  std::vector<std::string> command;
  std::string mpi;
  int exit_status = 0;
  double seconds = 0;
};

// Merges all *.json of a folder. A record that cannot be read is named, and the others still count.
Report merge_records(const std::filesystem::path& folder);

// One line in words: where the time of the MPI-IO on this file went, and the figure that explains
// it.
std::string dominant_cost(const FileReport& file);

std::string report_json(const Report& report, const RunFacts& facts);
// `signal`: that ended the command, or 0.
std::string report_table(const Report& report, int signal);

}  // namespace stridio
