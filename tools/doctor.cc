#include "doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "doctor_machine.h"
#include "doctor_mpi.h"
#include "file/profiles.h"

namespace stridio {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

void print(const Finding& finding) {
  fmt::print("  {:<8} {:<14} {}\n", name_of(finding.level), finding.subject, finding.detail);
}

void print(const MpiCheck& check) {
  fmt::print("  {:<8} {} ({})\n", name_of(check.finding.level), check.finding.subject, check.launcher);
  fmt::print("           {}\n", check.finding.detail);
  if (!check.libmpi.empty()) fmt::print("           its library: {}\n", check.libmpi);
  if (!check.libstridio.empty()) fmt::print("           served by:   {}\n", check.libstridio);
}

void print_advice(const std::vector<MpiCheck>& mpis, std::ptrdiff_t working) {
  if (mpis.empty()) fmt::print("  missing  no MPI found: install one, or name its launcher by --launcher PATH\n");
  fmt::print("\n{} of {} work{} with Stridio.\n", working,
             mpis.size() == 1 ? "1 MPI" : fmt::format("{} MPIs", mpis.size()), working == 1 ? "s" : "");
  const auto works = std::find_if(mpis.begin(), mpis.end(), [](const MpiCheck& m) { return m.works; });
  if (works != mpis.end()) fmt::print("Try: stridio run -- {} -n 4 ./app\n", works->launcher);
}

Json to_json(const Finding& finding) {
  return {{"subject", finding.subject}, {"status", name_of(finding.level)}, {"detail", finding.detail}};
}

Json to_json(const MpiCheck& check) {
  Json json = to_json(check.finding);
  json.update({{"works", check.works},
               {"launcher", check.launcher},
               {"mpi", check.mpi},
               {"version", check.version},
               {"libmpi", check.libmpi},
               {"libstridio", check.libstridio}});
  return json;
}

void print_json(const std::vector<MpiCheck>& mpis, const std::vector<Finding>& machine) {
  Json json = {{"version", 1}, {"stridio", STRIDIO_VERSION}, {"mpis", Json::array()}, {"machine", Json::array()}};
  for (const MpiCheck& check : mpis) json["mpis"].push_back(to_json(check));
  for (const Finding& finding : machine) json["machine"].push_back(to_json(finding));
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int doctor(const DoctorOptions& options, const Environment& environment) {
  std::error_code ignored;
  const auto mpis = check_mpis(options.launchers, environment);
  const auto machine = check_machine(fs::current_path(ignored));
  const auto working = std::count_if(mpis.begin(), mpis.end(), [](const MpiCheck& m) { return m.works; });
  if (options.json) {
    print_json(mpis, machine);
  } else {
    fmt::print("stridio {}\n\nMPI\n", STRIDIO_VERSION);
    for (const MpiCheck& check : mpis) print(check);
    fmt::print("\nMachine\n");
    for (const Finding& finding : machine) print(finding);
    print_advice(mpis, working);
  }
  return working > 0 ? 0 : 1;
}

int calibrate(const std::string& directory) {
  const auto calibrated = calibrate_directory(directory);
  if (!calibrated) {
    fmt::print(stderr, "stridio doctor: {}\n", calibrated.error().text());
    return 1;
  }
  fmt::print("{}\n  {}\n", calibrated->mount, describe(calibrated->profile));
  if (calibrated->cached)
    fmt::print("  remembered in {} for a day\n", calibrated->cache);
  else
    fmt::print("  not remembered: {}\n", calibrated->cached.error().text());
  return calibrated->cached ? 0 : 1;
}

}  // namespace stridio
