#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "report.h"

namespace stridio {

namespace {

constexpr std::size_t kTextWidth = 86;
constexpr std::size_t kMostFiles = 12;       // the table's longest; the document has them all
constexpr double kSmallRequest = 64 * 1024;  // below it a request costs more than the bytes it moves

// The order of the table's lines.
struct Part {
  const char* name;
  const char* title;
};
const Part kParts[] = {{"storage", "storage"},     {"exchange", "exchange"}, {"copy", "copy"},  {"waiting", "waiting"},
                       {"open", "open and close"}, {"other", "other"},       {"total", "total"}};

std::int64_t at(const Counts& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

Spread at(const FileReport& file, const char* name) {
  const auto found = file.seconds.find(name);
  return found == file.seconds.end() ? Spread{} : found->second;
}

std::string size_text(double bytes) {
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.95 && unit + 1 < std::size(units)) bytes /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string size_text(std::int64_t bytes) { return size_text(static_cast<double>(bytes)); }

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.0f} us", seconds * 1e6);
}

std::string count_text(std::int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// "12 writes of 4.2 MB on average", "no requests".
std::string requests_text(const Counts& storage) {
  std::string text;
  for (const char* verb : {"write", "read"}) {
    const std::int64_t count = at(storage, fmt::format("{}_requests", verb));
    const std::int64_t bytes = at(storage, fmt::format("{}_bytes", verb));
    if (count == 0) continue;
    fmt::format_to(std::back_inserter(text), "{}{} {}{} of {} on average", text.empty() ? "" : ", ", count, verb,
                   count == 1 ? "" : "s", size_text(static_cast<double>(bytes) / static_cast<double>(count)));
  }
  return text.empty() ? "no requests" : text;
}

bool small_requests(const Counts& storage) {
  const std::int64_t bytes = at(storage, "read_bytes") + at(storage, "write_bytes");
  const std::int64_t requests = at(storage, "read_requests") + at(storage, "write_requests");
  return requests > 1 && static_cast<double>(bytes) < kSmallRequest * static_cast<double>(requests);
}

std::string storage_cost(const FileReport& file) {
  return fmt::format("the storage{}: {}", small_requests(file.storage) ? ", in small requests" : "",
                     requests_text(file.storage));
}

std::string cost_in_words(const FileReport& file, const std::string& part) {
  const Spread spread = at(file, part.c_str());
  if (part == "storage") return storage_cost(file);
  if (part == "exchange") return "moving data between the ranks";
  if (part == "copy") return "copying data in memory";
  if (part == "open") return "opening and closing the file";
  if (part == "waiting")
    return fmt::format("waiting for other ranks: rank {} waited longest, {}", spread.max_rank, time_text(spread.max));
  return "work in the MPI-IO layer itself, neither storage nor data movement";
}

std::string calls_text(const Counts& calls) {
  std::string text;
  for (const auto& [name, count] : calls)
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text.empty() ? "none" : text;
}

using Text = std::back_insert_iterator<std::string>;

// Breaks a text at its spaces into lines that fit the table.
void print_wrapped(Text out, std::string_view text) {
  while (!text.empty()) {
    std::size_t end = text.size() <= kTextWidth ? text.size() : text.rfind(' ', kTextWidth);
    if (end == text.npos) end = std::min(text.find(' '), text.size());
    fmt::format_to(out, "  {:<9}   {}\n", "", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void print_methods(Text out, const FileReport& file) {
  const char* label = "methods";
  for (const MethodUse& use : file.methods) {
    fmt::format_to(out, "  {:<9} {} for {} {}: {}, {}\n", label, use.method,
                   use.collective ? "collective" : "independent", use.direction == "read" ? "reads" : "writes",
                   count_text(use.calls, "call", "calls"), size_text(use.bytes));
    print_wrapped(out, use.why);
    label = "";
  }
}

void print_times(Text out, const FileReport& file) {
  const Spread total = at(file, "total");
  const bool short_times = total.max < 1;
  const double scale = short_times ? 1000 : 1;
  fmt::format_to(out, "  {:<9} {:<15} {:>10} {:>10}   share\n", short_times ? "ms" : "seconds", "", "all ranks",
                 "longest");
  for (const Part& part : kParts) {
    const Spread spread = at(file, part.name);
    fmt::format_to(out, "  {:<9} {:<15} {:>10.3f} {:>10.3f} {:>5.0f} %", "", part.title, scale * spread.sum,
                   scale * spread.max, total.sum > 0 ? 100 * spread.sum / total.sum : 0);
    if (file.reporting > 1 && spread.max > 0) fmt::format_to(out, "  (longest on rank {})", spread.max_rank);
    *out++ = '\n';
  }
}

void print_bytes(Text out, const FileReport& file) {
  const std::int64_t written = at(file.bytes, "written"), read = at(file.bytes, "read");
  fmt::format_to(out, "  {:<9} {} written, {} read", "bytes", size_text(written), size_text(read));
  const double longest = at(file, "total").max;
  if (longest > 0)
    fmt::format_to(out, "; {}/s over the longest rank's time",
                   size_text(static_cast<double>(written + read) / longest));
  *out++ = '\n';
}

void print_file(Text out, const FileReport& file) {
  fmt::format_to(out, "\n{}: {}\n", file.file, dominant_cost(file));
  if (file.reporting < file.ranks)
    fmt::format_to(out,
                   "  only {} of its {} ranks left a record: the others ended early, or run where "
                   "the report's folder is not visible\n",
                   file.reporting, file.ranks);
  fmt::format_to(out, "  {:<9} {} (all ranks together); opened {} by {}\n", "calls", calls_text(file.calls),
                 count_text(file.opens, "time", "times"), count_text(file.ranks, "rank", "ranks"));
  print_bytes(out, file);
  print_methods(out, file);
  fmt::format_to(out, "  {:<9} {}; {}, {}\n", "storage", requests_text(file.storage),
                 count_text(at(file.storage, "locks"), "lock", "locks"),
                 count_text(at(file.storage, "syncs"), "sync", "syncs"));
  print_times(out, file);
}

const char* const kNothing =
    "stridio report: no rank reported any MPI-IO. Either the program did none (HDF5 without its "
    "MPI-IO driver,\n"
    "serial NetCDF and plain files do none), or the preload did not take. Check that\n"
    "  - nothing between the launcher and the program clears LD_PRELOAD (env -i, a container, "
    "sudo, setuid);\n"
    "  - the program is not linked statically against its MPI, and uses the MPI that `stridio run "
    "--dry-run` "
    "names;\n"
    "  - all nodes see Stridio's library and the report's folder (it is made beside the report's "
    "file);\n"
    "  - `stridio doctor` says ok for this MPI.\n";

}  // namespace

std::string dominant_cost(const FileReport& file) {
  const double total = at(file, "total").sum;
  if (total <= 0) return "no time spent in MPI-IO";
  const auto longer = [&](const Part& a, const Part& b) { return at(file, a.name).sum < at(file, b.name).sum; };
  const Part* largest = std::max_element(std::begin(kParts), std::end(kParts) - 1, longer);
  const double seconds = at(file, largest->name).sum;
  return fmt::format("{:.0f} % of its MPI-IO time ({} of {} over {}) went to {}", 100 * seconds / total,
                     time_text(seconds), time_text(total), count_text(file.reporting, "rank", "ranks"),
                     cost_in_words(file, largest->name));
}

std::string report_table(const Report& report, int signal) {
  std::string text;
  const Text out(text);
  if (report.files.empty() && report.unreadable.empty()) {
    if (signal == 0) return kNothing;
    return fmt::format(
        "stridio report: signal {} ({}) ended the command before a rank reported any MPI-IO: ranks report a file when "
        "they close it\n",
        signal, strsignal(signal));
  }
  fmt::format_to(out, "stridio report: {}\n", count_text(std::ssize(report.files), "file", "files"));
  if (!report.unreadable.empty())
    fmt::format_to(out, "{} could not be read and {} missing below; the first: {}\n",
                   count_text(std::ssize(report.unreadable), "record", "records"),
                   report.unreadable.size() == 1 ? "is" : "are", report.unreadable.front());
  const auto shown = std::min(report.files.size(), kMostFiles);
  for (std::size_t i = 0; i < shown; ++i) print_file(out, report.files[i]);
  if (shown < report.files.size())
    fmt::format_to(
        out, "\n{} with less time: --report FILE lists all\n",
        count_text(std::ssize(report.files) - static_cast<std::ptrdiff_t>(shown), "more file", "more files"));
  return text;
}

}  // namespace stridio
