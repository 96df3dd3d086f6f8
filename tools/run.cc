#include "run.h"

#include <fmt/core.h>

#include <cerrno>

namespace stridio {

namespace {

// All that is decided before anything starts.
struct Launch {
  std::string program;
  Arguments arguments;
  Variables own;  // set in the started process itself: only where no launcher stands between
  Variables ranks;
  HostMpi host;
  std::optional<TemporaryFolder> links;
};

void say(const std::string& text) { fmt::print(stderr, "stridio: {}\n", text); }

const char* const kByHand = R"(
`stridio run` knows the launchers of MPICH (Hydra; Intel MPI and MVAPICH use it too) and of Open MPI, and
programs without a launcher that are linked against an MPI. For anything else
  - name the MPI:     stridio run --mpi mpich|ompi|abi --libmpi /path/to/libmpi.so.12 -- COMMAND ...
  - or preload by hand, into the ranks only:
      LD_PRELOAD=/path/to/libstridio-mpich.so:/path/to/libmpi.so.12     (MPICH and its kin)
      LD_PRELOAD=/path/to/libstridio-ompi.so:/path/to/libmpi.so.40      (Open MPI)
    for instance      srun env LD_PRELOAD=... ./app
`stridio doctor` lists the MPIs of this machine and the libraries that serve them.)";

int explain_failure(const Error& error) {
  say(error.text());
  if (error.code == Code::kUnsupportedOperation || error.code == Code::kNoSuchFile)
    say(kByHand + 1);
  return kOwnError;
}

Result<Launch> prepare(const RunOptions& options, const Environment& environment,
                       const std::string& program) {
  std::optional<Launcher> launcher;
  const bool told = options.mpi.mpi && options.mpi.libmpi;
  auto identified = identify_launcher(program);
  if (identified)
    launcher = *identified;
  else if (!told)
    return fail(identified.error());
  if (launcher) RETURN_IF_ERROR(refuse_own_preload(options.command));
  Arguments candidates = options.command;
  if (!launcher) candidates = {"", program};
  const auto linked = find_mpi_program(candidates, environment.path);
  ASSIGN_OR_RETURN(HostMpi host, choose_mpi(options.mpi, launcher, linked, program));
  ASSIGN_OR_RETURN(const auto ours, libstridio_for(host.mpi));
  Launch launch{program, options.command, {}, {}, std::move(host), std::nullopt};
  ASSIGN_OR_RETURN(const std::string value,
                   preload_value({ours, launch.host.libmpi}, environment, launch.links));
  launch.ranks.emplace_back("LD_PRELOAD", value);
  if (options.explain) launch.ranks.emplace_back("STRIDIO_EXPLAIN", "1");
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

}  // namespace

int run(const RunOptions& options, const Environment& environment) {
  const std::string program = find_program(options.command.front(), environment.path);
  if (program.empty()) {
    say("there is no command " + options.command.front());
    return kNotFound;
  }
  auto launch = prepare(options, environment, program);
  if (!launch) return explain_failure(launch.error());
  if (!launch->host.warning.empty()) say("warning: " + launch->host.warning);
  if (options.dry_run) return print_launch(*launch), 0;
  const auto status = run_program(launch->program, launch->arguments, launch->own);
  if (status) return *status;
  say(status.error().text());
  return kCannotRun;
}

}  // namespace stridio
