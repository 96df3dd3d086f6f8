// Each MPI is checked by running the probe of its ABI family on 2 ranks, preloaded as `stridio run`
// does it. Where the launcher refuses (root, more ranks than cores), the check is repeated with the
// variables that allow it, and the finding names them.
#include "doctor_mpi.h"

#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "command_line.h"
#include "launcher.h"
#include "preload.h"
#include "process.h"
#include "temporary.h"

namespace stridio {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kProbeTimeout{60};
const char* const kNames[] = {"mpiexec", "mpirun", "mpiexec.mpich", "mpiexec.hydra", "mpiexec.openmpi", "orterun"};

const Variables kAsRoot = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
const Variables kOversubscribed = {{"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                                   {"OMPI_MCA_rmaps_base_oversubscribe", "1"}};

std::vector<std::string> in_environments() {
  std::set<std::string> found;
  std::error_code ignored;
  const fs::path root = fs::current_path(ignored) / ".venv";
  if (fs::exists(root / "bin/mpiexec", ignored)) found.insert((root / "bin/mpiexec").string());
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const fs::path launcher = entry.path() / "bin" / "mpiexec";
    if (fs::exists(launcher, ignored)) found.insert(launcher.string());
  }
  return {found.begin(), found.end()};
}

std::vector<std::string> launchers(const std::vector<std::string>& extra, const Environment& environment) {
  std::vector<std::string> all = extra;
  std::istringstream folders(environment.path + ":/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : kNames)
      if (const std::string found = find_program(name, folder); !found.empty()) all.push_back(found);
  for (const std::string& found : in_environments()) all.push_back(found);
  return all;
}

std::string probe_for(Mpi mpi) {
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / fmt::format("stridio-probe-{}", family_of(mpi).name)).string();
}

struct ProbeRun {
  bool ok = false;
  std::string library;  // that MPI_File_open came from
  std::string failure;
};

std::string last_line(const std::string& output) {
  std::istringstream lines(output);
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of("- \t=") != line.npos) last = line;
  return last;
}

// The line that says most: the probe's own, else the loader's, else the first one that speaks of an
// error.
std::string reason(const Captured& captured) {
  if (captured.timed_out) return fmt::format("no answer within {} s", kProbeTimeout.count());
  for (const char* mark : {"stridio-probe:", "ld.so", "rror"}) {
    std::istringstream lines(captured.output);
    for (std::string line; std::getline(lines, line);)
      if (line.find(mark) != line.npos) return line;
  }
  return fmt::format("exit status {}{}{}", captured.status, captured.output.empty() ? "" : ", ",
                     last_line(captured.output));
}

// What follows `mark` on its line; nothing where the output has no such mark.
std::optional<std::string> after(const std::string& output, std::string_view mark) {
  const auto found = output.find(mark);
  if (found == output.npos) return std::nullopt;
  const auto begin = found + mark.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

ProbeRun judge(const Captured& captured) {
  if (captured.timed_out || captured.status != 0) return {false, "", reason(captured)};
  if (const auto library = after(captured.output, "stridio-probe ok: 2 ranks through ")) return {true, *library, ""};
  if (after(captured.output, "stridio-probe ok: ")) return {false, "", "the 2 ranks did not find each other"};
  return {false, "", reason(captured)};
}

Result<Captured> run_probe(const Launcher& launcher, const MpiCheck& check, Mpi mpi, const Environment& environment,
                           const Variables& variables) {
  ASSIGN_OR_RETURN(const auto place, TemporaryFolder::create(environment.temporary + "/stridio-probe-"));
  std::optional<TemporaryFolder> links;
  ASSIGN_OR_RETURN(const auto preload, preload_value({check.libstridio, check.libmpi}, environment, links));
  const Arguments arguments = with_rank_variables(
      launcher.mpi,
      {fs::absolute(launcher.program).string(), "-n", "2", probe_for(mpi), (place.path() / "file").string()},
      {{"LD_PRELOAD", preload}});
  return capture(arguments, variables, kProbeTimeout);
}

// The variables that the launcher's refusal asks for; none if it did not refuse.
Variables asked_for(const std::string& output) {
  const auto says = [&](const char* text) { return output.find(text) != output.npos; };
  if (says("as root")) return kAsRoot;
  return says("slots") ? kOversubscribed : Variables{};
}

std::string text_of(const Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

void conclude(MpiCheck& check, const ProbeRun& run, const Variables& needed) {
  std::error_code ignored;
  Finding& finding = check.finding;
  if (!run.ok) {
    finding.level = Level::kMissing;
    finding.detail = "the check failed: " + run.failure;
  } else if (!fs::equivalent(run.library, check.libstridio, ignored)) {
    finding.level = Level::kMissing;
    finding.detail = "MPI-IO went through " + run.library + ", not through Stridio";
  } else {
    check.works = true;
    finding.level = needed.empty() ? Level::kOk : Level::kWarning;
    finding.detail = "2 ranks wrote and read a file through Stridio";
    if (!needed.empty()) finding.detail += ", but only with " + text_of(needed) + " set";
  }
}

void check_by_running(MpiCheck& check, const Launcher& launcher, Mpi mpi, const Environment& environment) {
  Variables needed;
  for (;;) {
    const auto captured = run_probe(launcher, check, mpi, environment, needed);
    const ProbeRun run = captured ? judge(*captured) : ProbeRun{false, "", captured.error().text()};
    const Variables more = captured && !run.ok ? asked_for(captured->output) : Variables{};
    const bool asked_before = needed.size() >= kAsRoot.size() + kOversubscribed.size() ||
                              (!more.empty() && text_of(needed).find(more[0].first) != std::string::npos);
    if (more.empty() || asked_before) return conclude(check, run, needed);
    needed.insert(needed.end(), more.begin(), more.end());
  }
}

MpiCheck check_mpi(const Launcher& launcher, Mpi mpi, const fs::path& libmpi, const std::string& version,
                   const Environment& environment) {
  MpiCheck check{
      .launcher = launcher.program, .mpi = family_of(mpi).name, .version = version, .libmpi = libmpi.string()};
  check.finding.subject = mpi == Mpi::kAbi
                              ? fmt::format("{} of {} {}", family_of(mpi).title, family_of(launcher.mpi).title, version)
                              : fmt::format("{} {}", family_of(mpi).title, version);
  const auto ours = libstridio_for(mpi);
  if (!ours) {
    check.finding.level = Level::kMissing;
    check.finding.detail = ours.error().text();
    return check;
  }
  check.libstridio = ours->string();
  if (find_program(probe_for(mpi), "").empty()) {
    check.finding.level = Level::kWarning;
    check.finding.detail = "not checked: there is no " + probe_for(mpi);
    return check;
  }
  check_by_running(check, launcher, mpi, environment);
  return check;
}

MpiCheck unusable(const std::string& launcher, Level level, const std::string& detail) {
  return {.finding = {level, "MPI", detail}, .launcher = launcher};
}

// The launchers by what they resolve to, so that no MPI is checked twice under two names.
class Seen {
 public:
  bool first(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return paths_.insert(error ? path : real).second;
  }

 private:
  std::set<fs::path> paths_;
};

void check_launcher(const std::string& program, const Environment& environment, Seen& seen,
                    std::vector<MpiCheck>& checks) {
  const auto identified = identify_launcher(program);
  if (!identified || !*identified) {
    checks.push_back(unusable(program, Level::kWarning,
                              identified ? "not a launcher that Stridio knows" : identified.error().text()));
    return;
  }
  const Launcher& launcher = **identified;
  const std::string version = version_number(ask_version(program));
  const auto libmpi = libmpi_beside(program, launcher.mpi);
  if (!libmpi)
    checks.push_back(
        unusable(program, Level::kMissing, fmt::format("no library of {} beside it", family_of(launcher.mpi).title)));
  else if (seen.first(*libmpi))
    checks.push_back(check_mpi(launcher, launcher.mpi, *libmpi, version, environment));
  const auto abi = libmpi_beside(program, Mpi::kAbi);
  if (abi && seen.first(*abi)) checks.push_back(check_mpi(launcher, Mpi::kAbi, *abi, version, environment));
}

}  // namespace

std::vector<MpiCheck> check_mpis(const std::vector<std::string>& extra, const Environment& environment) {
  std::vector<MpiCheck> checks;
  Seen seen;
  for (const std::string& name : launchers(extra, environment)) {
    const std::string program = find_program(name, environment.path);
    if (program.empty())
      checks.push_back(unusable(name, Level::kMissing, "there is no such program"));
    else if (seen.first(program))
      check_launcher(program, environment, seen, checks);
  }
  return checks;
}

}  // namespace stridio
