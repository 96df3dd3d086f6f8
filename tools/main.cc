// The command line of `stridio`, and the only place that reads environment variables.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "doctor.h"
#include "environment.h"
#include "interval.h"
#include "run.h"
#include "show.h"
#include "translate.h"

namespace {

using namespace stridio;

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

Environment read_environment() {
  return {.path = variable("PATH", "/usr/bin:/bin"),
          .ld_preload = variable("LD_PRELOAD"),
          .preload_extra = variable("STRIDIO_PRELOAD_EXTRA"),
          .temporary = variable("TMPDIR", "/tmp"),
          .launched =
              std::max(std::atoi(variable("PMI_SIZE").c_str()), std::atoi(variable("OMPI_COMM_WORLD_SIZE").c_str()))};
}

// CLI11's own checks name the limits of its types.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto check = [=](const std::string& text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return std::string();
    return most == std::numeric_limits<std::int64_t>::max()
               ? fmt::format("{} is not a whole number, {} or more", text, least)
               : fmt::format("{} is not a whole number from {} to {}", text, least, most);
  };
  return {check, ""};
}

CLI::Validator seconds() {
  const auto check = [](const std::string& text) {
    char* stop = nullptr;
    const double value = std::strtod(text.c_str(), &stop);
    if (!text.empty() && *stop == '\0' && std::isfinite(value) && value >= 0) return std::string();
    return text + " is not a number of seconds, 0 or more";
  };
  return {check, ""};
}

CLI::Validator picture_name() {
  const auto check = [](const std::string& text) {
    if (text.ends_with(".svg") || text.ends_with(".png")) return std::string();
    return text + " is no picture: its name must end in .svg or .png";
  };
  return {check, ""};
}

void add_run(CLI::App& app, RunOptions& options, std::string& mpi, std::string& libmpi) {
  CLI::App* run = app.add_subcommand("run", "Run an MPI program with its MPI-IO through Stridio");
  run->add_option("--report", options.report,
                  "After the run, write what the I/O did to this file (JSON) and as a table to stderr; - for the table "
                  "only");
  run->add_flag("--explain", options.explain, "Let the ranks say which access method they choose, and why");
  run->add_flag("--dry-run", options.dry_run, "Print the command that would run, one argument a line, and run nothing");
  run->add_option("--mpi", mpi, "The MPI of the ranks, where it cannot be found out")
      ->check(CLI::IsMember({"mpich", "ompi", "abi"}));
  run->add_option("--libmpi", libmpi, "That MPI's library (libmpi.so.12, libmpi.so.40, ...)");
  run->prefix_command();  // what has no -- before it can be named in its order
  run->footer(
      "Examples:\n"
      "  stridio run --report io.json -- mpiexec -n 4 ./app input.nml\n"
      "  STRIDIO_HINTS=stridio_layout=interval stridio run -- mpiexec -n 4 ./app    hints for a program that gives "
      "none\n\n"
      "The exit status is the command's; 125 where stridio itself fails, 126 and 127 where the\n"
      "command cannot be run or found.\n");
}

void add_doctor(CLI::App& app, DoctorOptions& options, std::string& calibrated) {
  CLI::App* doctor = app.add_subcommand("doctor", "Say what works on this machine");
  doctor->add_option("--launcher", options.launchers, "Check the MPI of this launcher too (may be repeated)");
  doctor->add_flag("--json", options.json, "Print the findings as JSON");
  doctor->add_option("--calibrate", calibrated,
                     "Instead measure the file system of this directory, and remember that for the planner");
  doctor->footer(
      "Examples:\n"
      "  stridio doctor\n"
      "  stridio doctor --launcher /opt/mpich/bin/mpiexec --json\n"
      "  stridio doctor --calibrate /scratch\n\n"
      "Each MPI found is checked by two ranks that write and read a file. The exit status is 0 if\n"
      "that went through Stridio under at least one MPI, else 1.\n");
}

void add_show(CLI::App& app, ShowOptions& options) {
  CLI::App* show = app.add_subcommand("show", "Show what Stridio sees");
  show->require_subcommand(1);
  CLI::App* view =
      show->add_subcommand("view", "The views of the ranks, and which of their bytes are private or shared");
  view->add_option("VIEWS", options.source, "A report of `stridio run --report`, or a description of views")
      ->required();
  view->add_option("--output", options.output, "Draw them to this file, as SVG or PNG by its ending, .svg or .png")
      ->check(picture_name());
  view->add_option("--file", options.file, "Of a report: whose views, where several files have some");
  view->add_option("--end", options.end, "How far to look, in bytes")->check(whole_number(0));
  view->footer(
      "Examples:\n"
      "  stridio show view io.json --file data.h5\n"
      "  stridio show view views.json --output views.svg\n\n"
      "A description is JSON, one view a rank; its regions ascend, do not overlap, and end within the extent:\n"
      "  {\"views\": [{\"displacement\": 0, \"extent\": 64, \"regions\": [[0, 16], [32, 16]]},\n"
      "             {\"extent\": 64, \"vector\": [4, 8, 16]},\n"
      "             {\"subarray\": {\"sizes\": [8, 8], \"subsizes\": [4, 4], \"starts\": [0, 4], \"element\": 1}}]}\n"
      "As in MPI a view repeats for ever, every \"extent\" bytes. Where none is given that is up to its last byte, of "
      "a\n"
      "subarray the whole array; or \"end\", where that is more: {\"end\": 1000, \"views\": [...]} looks at the first\n"
      "1000 bytes only. For a view that does not repeat give an extent, or an end, as large as the file.\n\n"
      "The exit status is 0, 1 where there are no such views or the picture cannot be written.\n");
}

struct IntervalOptions {
  std::string source;
  bool json = false;
};

void add_interval(CLI::App& app, IntervalOptions& options) {
  CLI::App* info = app.add_subcommand("info", "Say what an interval file holds");
  info->add_option("FILE", options.source, "The interval file")->required();
  info->add_flag("--json", options.json, "Print it as JSON");
  info->footer(
      "Example:\n"
      "  stridio info checkpoint\n\n"
      "The exit status is 0, 125 where it cannot be read or is no interval file.\n");
  CLI::App* check = app.add_subcommand("check", "Verify an interval file");
  check->add_option("FILE", options.source, "The interval file")->required();
  check->footer(
      "Example:\n"
      "  stridio check checkpoint\n\n"
      "The exit status is 0 if the file is whole, 1 if it is damaged, and what is damaged is printed; 125 where it\n"
      "cannot be read or is no interval file.\n");
}

void add_moving(CLI::App* command, TranslateOptions& options) {
  command->add_option("--threads", options.threads, "How many; 0: as many as cores")
      ->check(whole_number(0, kMostThreads));
  auto* follow = command->add_flag(
      "--follow", options.follow,
      "Go on with each generation that a running program commits to SRC, which it may remove or empty "
      "and make anew, until nobody has had it open for writing for a second");
  command->add_option("--timeout", options.timeout, "With --follow: the seconds that a new generation may take at most")
      ->check(seconds())
      ->needs(follow);
}

void add_translate(CLI::App& app, TranslateOptions& options) {
  CLI::App* flatten = app.add_subcommand("flatten", "Make the flat file that an interval file stands for");
  flatten->add_option("SRC", options.source, "The interval file")->required();
  flatten->add_option("DST", options.target, "The flat file, which is replaced")->required();
  add_moving(flatten, options);
  flatten->footer(
      "DST appears when it is complete, with the permissions of the file that it replaces; a symbolic link stays, and\n"
      "the file that it leads to is replaced. With --follow each generation replaces it as a whole: who has it open "
      "keeps\n"
      "reading the one that he opened. Until then it is DST.stridio-partial-NUMBER, which goes however its process "
      "ends.\n"
      "The exit status is 0, 1 where --timeout ended it, 125 where it failed.\n\n"
      "Examples:\n"
      "  stridio flatten checkpoint checkpoint.flat\n"
      "  stridio run -- mpiexec -n 4 stridio flatten checkpoint checkpoint.flat\n");
  CLI::App* translate =
      app.add_subcommand("translate", "Make an interval file whose processes own what their views say");
  translate->add_option("SRC", options.source, "An interval file, or a flat one")->required();
  translate->add_option("DST", options.target, "The interval file, which is replaced")->required();
  auto* whose = translate->add_option_group("whose");
  whose->add_option("--like", options.like, "Each process gets what it has in this interval file");
  auto* view = whose->add_option("--view", options.views, "Each gets its view: JSON, as of `stridio show view`");
  whose->require_option(1);
  translate
      ->add_option("--file", options.file,
                   "Of a report of `stridio run --report`: whose views, where several files have some")
      ->needs(view);
  add_moving(translate, options);
  translate->footer(
      "A view repeats for ever, every \"extent\" bytes, as `stridio show view --help` says: for one that does not, "
      "give\n"
      "an extent as large as the file, or {\"end\": BYTES, \"views\": [...]}.\n"
      "Of bytes that several views have, the last process gets them; process 0 gets those that none has, and it is "
      "said\n"
      "how many these are. DST appears when it is complete, as that of `stridio flatten`; with --follow it has a\n"
      "generation for each one of SRC that it was fast enough to see. Memory: some\n"
      "25 MiB a thread or process, besides the maps of the files. Under mpiexec, start as many processes as there are\n"
      "views, or on one node fewer. The exit status is 0, 1 where --timeout ended it, 125 where it failed.\n\n"
      "Examples:\n"
      "  stridio translate checkpoint analysis --view views.json\n"
      "  stridio translate --follow --timeout 60 checkpoint analysis --like old-analysis\n"
      "  stridio run -- mpiexec -n 4 stridio translate checkpoint analysis --view views.json\n");
}

struct WaitOptions {
  std::string source;
  std::uint64_t newer_than = 1;
  std::optional<std::uint64_t> generation;
  std::optional<double> timeout;
};

void add_wait(CLI::App& app, WaitOptions& options) {
  CLI::App* wait = app.add_subcommand("wait", "Wait until a program has committed a generation of an interval file");
  wait->add_option("FILE", options.source, "The interval file, which need not exist yet")->required();
  auto* newer =
      wait->add_option("--newer-than", options.newer_than, "One newer than this; 1, the empty file, by default")
          ->check(whole_number(0));
  wait->add_option("--generation", options.generation, "This one, or one that is newer")
      ->excludes(newer)
      ->check(whole_number(1));
  wait->add_option("--timeout", options.timeout, "In so many seconds")->check(seconds());
  wait->footer(
      "Example:\n"
      "  stridio wait checkpoint --newer-than 7 --timeout 600\n\n"
      "Prints the number of the newest. The exit status is 0, 1 if it did not come in time, 125 where it cannot be "
      "known,\n"
      "or the file is truncated or damaged and stays so for a second. Of the data it is not seen whether they are "
      "right:\n"
      "`stridio check` does that. The file is looked at ten times a second.\n");
}

// What follows "--" is the user's command and never parsed; taken out of `own`.
std::vector<std::string> take_command(std::vector<std::string>& own) {
  const auto separator = std::find(own.begin(), own.end(), "--");
  if (separator == own.end()) return {};
  std::vector<std::string> command(separator + 1, own.end());
  own.erase(separator, own.end());
  return command;
}

// CLI11 would say only that a subcommand is required.
bool knows_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with('-')) return true;
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands({})) names.push_back(each->get_name());
  if (std::find(names.begin(), names.end(), words.front()) != names.end()) return true;
  fmt::print(stderr, "{}: {} is no command; there are {}\n", app.get_name(), words.front(), fmt::join(names, ", "));
  return false;
}

// `own` ends with `unknown`, what is neither an option of stridio run nor follows --.
int refuse_unknown(std::vector<std::string> own, std::vector<std::string> unknown,
                   const std::vector<std::string>& command) {
  if (unknown.front().starts_with('-')) {
    fmt::print(stderr, "stridio run: {} is no option of it; stridio run --help lists them\n", unknown.front());
    return kOwnError;
  }
  own.resize(own.size() - unknown.size());
  unknown.insert(unknown.end(), command.begin(), command.end());
  fmt::print(stderr, "stridio run: write the program after --: stridio {} -- {}\n", fmt::join(own, " "),
             fmt::join(unknown, " "));
  return kOwnError;
}

int run_with(RunOptions options, const std::string& mpi, const std::string& libmpi) {
  if (options.command.empty()) {
    std::fputs("stridio run: no command; write it after --: stridio run -- mpiexec -n 4 ./app\n", stderr);
    return kOwnError;
  }
  options.mpi.mpi = mpi_by_name(mpi);
  if (!libmpi.empty()) options.mpi.libmpi = libmpi;
  return run(options, read_environment());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Stridio: a drop-in MPI-IO that makes parallel I/O fast, correct and explained", "stridio");
  app.set_version_flag("--version", "stridio " STRIDIO_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  stridio run -- mpiexec -n 4 ./app                       the program's MPI-IO through "
      "Stridio\n"
      "  stridio run --report io.json -- mpiexec -n 4 ./app      and say where its time went\n"
      "  stridio doctor                                          what works on this machine\n"
      "  stridio flatten checkpoint checkpoint.flat              the flat file of an interval file\n"
      "  stridio translate checkpoint analysis --view VIEWS      the interval file of other processes\n");
  RunOptions run_options;
  DoctorOptions doctor_options;
  std::string mpi, libmpi, calibrated;
  add_run(app, run_options, mpi, libmpi);
  add_doctor(app, doctor_options, calibrated);
  ShowOptions show_options;
  add_show(app, show_options);
  IntervalOptions interval;
  add_interval(app, interval);
  TranslateOptions moving;
  add_translate(app, moving);
  WaitOptions waiting;
  add_wait(app, waiting);
  std::vector<std::string> own(argv + 1, argv + argc);
  run_options.command = take_command(own);
  if (!knows_command(app, own)) return kOwnError;
  if (!own.empty() && own.front() == "show" &&
      !knows_command(*app.get_subcommand("show"), {own.begin() + 1, own.end()}))
    return kOwnError;
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kOwnError;
  }
  if (const auto unknown = app.get_subcommand("run")->remaining(); !unknown.empty())
    return refuse_unknown(own, unknown, run_options.command);
  if (!calibrated.empty()) return calibrate(calibrated);
  if (app.got_subcommand("show")) return show_view(show_options);
  if (app.got_subcommand("info")) return interval_info(interval.source, interval.json);
  if (app.got_subcommand("check")) return interval_check(interval.source);
  if (app.got_subcommand("flatten")) moving.command = "flatten";
  if (app.got_subcommand("flatten") || app.got_subcommand("translate")) return translate(moving, read_environment());
  if (app.got_subcommand("wait"))
    return wait_for(waiting.source, waiting.generation ? *waiting.generation - 1 : waiting.newer_than, waiting.timeout);
  if (app.got_subcommand("doctor")) return doctor(doctor_options, read_environment());
  return run_with(run_options, mpi, libmpi);
}
