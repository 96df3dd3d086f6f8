#include "run.h"

#include <fmt/core.h>

#include <chrono>

#include "output.h"
#include "report.h"

namespace stridio {

namespace {

// All that is decided before anything starts.
struct Launch {
  std::string program;
  Arguments arguments;
  Variables own = {};  // set in the started process itself: only where no launcher stands between
  Variables ranks = {};
  HostMpi host = {};
  std::optional<TemporaryFolder> links = {};
  std::optional<TemporaryFolder> records = {};
};

void say(const std::string& text) { fmt::print(stderr, "stridio: {}\n", text); }

constexpr char kByHand[] = R"(
`stridio run` knows the launchers of MPICH (Hydra; Intel MPI and MVAPICH use it too) and of Open MPI, programs
without launcher that are linked against an MPI, and Python environments that hold one. For anything else
  - name the MPI:    stridio run --mpi mpich|ompi|abi --libmpi PATH/libmpi.so.12 -- COMMAND ...
    (the whole command then gets LD_PRELOAD: it should start one rank, or be a script)
  - or set LD_PRELOAD by hand, in the ranks only; for instance under Slurm
      MPICH and its kin:  srun env LD_PRELOAD={0}/libstridio-mpich.so:PATH/libmpi.so.12 ./app
      Open MPI:           srun env LD_PRELOAD={0}/libstridio-ompi.so:PATH/libmpi.so.40 ./app
      standard ABI:       srun env LD_PRELOAD={0}/libstridio-abi.so:PATH/libmpi_abi.so.1 ./app
`stridio doctor` lists the MPIs of this machine and the libraries that serve them.
)";

int explain_failure(const Error& error) {
  say(error.text());
  const auto folder = library_folder();
  if (error.code == Code::kUnsupportedOperation || error.code == Code::kNoSuchFile)
    fmt::print(stderr, kByHand, folder ? folder->string() : "PATH");
  return kOwnError;
}

// Beside the report's file, which all nodes of a cluster are likelier to see than /tmp.
Result<TemporaryFolder> folder_for_records(const std::string& report, const Environment& environment) {
  auto folder =
      TemporaryFolder::create(report == "-" ? environment.temporary + "/stridio-report-" : report + ".records-");
  if (folder) return folder;
  folder.error().code = Code::kArgument;  // nothing is wrong with the MPI
  folder.error().what = "--report: cannot create a folder for the ranks' records";
  return fail(folder.error());
}

// The user who names the MPI and its library needs no launcher that we know.
Result<std::optional<Launcher>> find_launcher(const RunOptions& options, const std::string& program) {
  auto identified = identify_launcher(program);
  const bool told = options.mpi.mpi && options.mpi.libmpi;
  if (!identified && told) return std::nullopt;
  if (identified && *identified) {
    RETURN_IF_ERROR(refuse_own_preload(options.command));
    RETURN_IF_ERROR(refuse_app_file(**identified, options.command));
  }
  return identified;
}

Status set_rank_variables(const RunOptions& options, const Environment& environment, Launch& launch) {
  ASSIGN_OR_RETURN(const auto ours, libstridio_for(launch.host.mpi));
  ASSIGN_OR_RETURN(const std::string value, preload_value({ours, launch.host.libmpi}, environment, launch.links));
  launch.ranks.emplace_back("LD_PRELOAD", value);
  if (options.explain) launch.ranks.emplace_back("STRIDIO_EXPLAIN", "1");
  if (options.report.empty()) return {};
  ASSIGN_OR_RETURN(auto records, folder_for_records(options.report, environment));
  launch.records.emplace(std::move(records));
  launch.ranks.emplace_back("STRIDIO_REPORT_DIR", launch.records->path().string());
  return {};
}

Result<Launch> prepare(const RunOptions& options, const Environment& environment, const std::string& program) {
  ASSIGN_OR_RETURN(const auto launcher, find_launcher(options, program));
  const Arguments candidates = launcher ? options.command : Arguments{"", program};
  const auto linked = find_mpi_program(candidates, environment.path);
  Launch launch{program, options.command};
  ASSIGN_OR_RETURN(launch.host, choose_mpi(options.mpi, launcher, linked, program));
  RETURN_IF_ERROR(set_rank_variables(options, environment, launch));
  if (launcher)
    launch.arguments = with_rank_variables(launcher->mpi, options.command, launch.ranks);
  else
    launch.own = launch.ranks;
  return launch;
}

void print_launch(const Launch& launch) {
  for (const auto& [name, value] : launch.own) fmt::print("{}={}\n", name, value);
  fmt::print("{}\n", launch.program);
  for (const std::string& argument : launch.arguments) fmt::print("{}\n", argument);
}

Status write_report(const RunOptions& options, const Launch& launch, const RunFacts& facts, int signal) {
  const Report report = merge_records(launch.records->path());
  fmt::print(stderr, "{}", report_table(report, signal));
  return options.report == "-" ? Status() : write_file(options.report, report_json(report, facts));
}

int execute(const RunOptions& options, const Launch& launch) {
  const auto start = std::chrono::steady_clock::now();
  const auto ended = run_program(launch.program, launch.arguments, launch.own);
  if (!ended) {
    say(ended.error().text());
    return kCannotRun;
  }
  if (!launch.records) return ended->status;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const RunFacts facts{options.command, family_of(launch.host.mpi).name, ended->status, elapsed.count()};
  const auto written = write_report(options, launch, facts, ended->signal);
  if (written) return ended->status;
  say("the report " + written.error().text());
  return ended->status != 0 ? ended->status : kOwnError;
}

}  // namespace

int run(const RunOptions& options, const Environment& environment) {
  const std::string program = find_program(options.command.front(), environment.path);
  if (program.empty()) {
    say("there is no command " + options.command.front());
    return kNotFound;
  }
  const auto launch = prepare(options, environment, program);
  if (!launch) return explain_failure(launch.error());
  if (!launch->host.warning.empty()) say("warning: " + launch->host.warning);
  if (!options.dry_run) return execute(options, *launch);
  print_launch(*launch);
  return 0;
}

}  // namespace stridio
