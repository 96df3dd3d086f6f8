#include "launcher.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "process.h"

namespace stridio {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kVersionTimeout{10};

struct KnownName {
  const char* name;
  Mpi mpi;
};

const KnownName kKnownNames[] = {
    {"mpiexec.mpich", Mpi::kMpich}, {"mpirun.mpich", Mpi::kMpich},    {"mpiexec.hydra", Mpi::kMpich},
    {"mpirun.hydra", Mpi::kMpich},  {"mpiexec.gforker", Mpi::kMpich}, {"mpiexec.openmpi", Mpi::kOmpi},
    {"mpirun.openmpi", Mpi::kOmpi}, {"orterun", Mpi::kOmpi},          {"prterun", Mpi::kOmpi},
};

// They start ranks, but have no option that both sets a variable for the ranks and leaves the
// launcher alone.
const char* const kUnsupported[] = {"srun", "aprun", "jsrun", "lrun", "flux", "ibrun", "ccc_mprun", "prun", "palsrun"};

std::optional<Mpi> mpi_of_name(const std::string& name) {
  for (const KnownName& known : kKnownNames)
    if (name == known.name) return known.mpi;
  return std::nullopt;
}

bool looks_like_launcher(const std::string& name) { return name.starts_with("mpiexec") || name.starts_with("mpirun"); }

bool is_unsupported(const std::string& name) {
  return std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported);
}

}  // namespace

std::string ask_version(const std::string& program) {
  const auto answer = capture({program, "--version"}, {}, kVersionTimeout);
  return answer && !answer->timed_out ? answer->output.substr(0, 4096) : "";
}

std::optional<Mpi> mpi_of_version(const std::string& answer) {
  const auto says = [&](const char* text) { return answer.find(text) != answer.npos; };
  if (says("HYDRA build details") || says("Intel(R) MPI Library")) return Mpi::kMpich;
  if (says("(Open MPI)") || says("(OpenRTE)") || says("(PRRTE)")) return Mpi::kOmpi;
  return std::nullopt;
}

std::string version_number(const std::string& answer) {
  for (const std::string_view mark : {"Version", "(Open MPI)", "(OpenRTE)", "(PRRTE)"}) {
    const auto found = answer.find(mark);
    if (found == answer.npos) continue;
    const auto begin = answer.find_first_not_of(": \t", found + mark.size());
    if (begin == answer.npos) continue;
    return answer.substr(begin, answer.find_first_of(" ,\t\r\n", begin) - begin);
  }
  return "";
}

Status refuse_app_file(const Launcher& launcher, const std::vector<std::string>& arguments) {
  const auto app_file = [](const std::string& argument) { return argument == "--app" || argument == "-app"; };
  if (launcher.mpi != Mpi::kOmpi || std::none_of(arguments.begin(), arguments.end(), app_file)) return {};
  if (!version_number(ask_version(launcher.program)).starts_with("4")) return {};
  return fail(Code::kArgument,
              "Open MPI 4 ignores variables set before --app FILE: give the programs on the command "
              "line, separated by \":\"");
}

Result<std::optional<Launcher>> identify_launcher(const std::string& program) {
  std::error_code ignored;
  const std::string given = fs::path(program).filename().string();
  const std::string resolved = fs::canonical(program, ignored).filename().string();
  for (const std::string& name : {resolved, given}) {
    if (const auto mpi = mpi_of_name(name)) return Launcher{program, *mpi};
    if (is_unsupported(name)) return fail(Code::kUnsupportedOperation, "the launcher " + program + " is not supported");
  }
  if (!looks_like_launcher(given) && !looks_like_launcher(resolved)) return std::nullopt;
  const std::string answer = ask_version(program);
  if (const auto mpi = mpi_of_version(answer)) return Launcher{program, *mpi};
  return fail(Code::kUnsupportedOperation, "cannot tell whose launcher " + program + " is: its --version says \"" +
                                               answer.substr(0, answer.find('\n')) + "\"");
}

}  // namespace stridio
