#include "file/profiles.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "access/calibrate.h"
#include "base/guarded.h"
#include "base/log.h"
#include "storage/posix.h"

namespace stridio {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 5;                    // of the cache file
constexpr std::int64_t kLifetime = 24 * 3600;  // seconds
constexpr std::int64_t kLeastAge = 600;        // before a profile is measured anew because it was contradicted

// ---- Which mount

// A space, tab, newline or backslash is written as \ooo.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool holds(const fs::path& mount_point, const fs::path& directory) {
  const auto [end, ignored] = std::mismatch(mount_point.begin(), mount_point.end(), directory.begin(), directory.end());
  return end == mount_point.end() || (end->empty() && std::next(end) == mount_point.end());
}

// A sanitized build takes twenty times as long for a copy: others must not go by what it has measured.
#ifdef STRIDIO_SANITIZED
constexpr const char* kBuild = " (sanitized)";
#else
constexpr const char* kBuild = "";
#endif

// The last mount on the longest mount point above the directory, with the host's name: the cache may be shared by many.
std::string mount_of(const std::string& directory) {
  std::error_code ignored;
  const fs::path place = fs::canonical(directory, ignored);
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line, best_point, best;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string skipped, point, kind, source;
    fields >> skipped >> skipped >> skipped >> skipped >> point;
    while (fields >> skipped && skipped != "-") continue;
    fields >> kind >> source;
    point = unescaped(point);
    if (point.size() < best_point.size() || !holds(point, place)) continue;
    best_point = point;
    best = source + " " + kind + " " + point;
  }
  if (best.empty()) {  // a changed root: the mount that it is on is outside
    struct stat info;
    if (::stat(directory.c_str(), &info) != 0) return "";
    best = "device " + std::to_string(info.st_dev);
  }
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return std::string(host) + " " + best + kBuild;
}

std::string directory_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// ---- The cache file

std::string cache_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && *cache == '/') return std::string(cache) + "/stridio/profiles.json";
  return home && *home == '/' ? std::string(home) + "/.cache/stridio/profiles.json" : "";
}

Json to_json(const StorageCosts& costs) {
  return {{"request_seconds", costs.request_seconds},
          {"byte_seconds", costs.byte_seconds},
          {"shared_byte_seconds", costs.shared_byte_seconds},
          {"depth", costs.depth},
          {"overlap", costs.overlap},
          {"extends_alone", costs.extends_alone}};
}

double number_in(const Json& json, const char* name, double low, double high) {
  const double value = json.at(name).get<double>();
  if (!(value >= low && value <= high)) throw std::out_of_range(name);
  return value;
}

// The measured constants besides what the storage takes.
struct Constant {
  const char* name;
  double Profile::*seconds;
};
constexpr Constant kConstants[] = {
    {"lock_seconds", &Profile::lock_seconds},
    {"copy_byte_seconds", &Profile::copy_byte_seconds},
    {"scattered_range_seconds", &Profile::scattered_range_seconds},
    {"far_range_seconds", &Profile::far_range_seconds},
    {"map_seconds", &Profile::map_seconds},
    {"read_page_seconds", &Profile::read_page_seconds},
    {"run_page_seconds", &Profile::run_page_seconds},
    {"written_page_seconds", &Profile::written_page_seconds},
    {"new_page_seconds", &Profile::new_page_seconds},
    {"new_mapped_page_seconds", &Profile::new_mapped_page_seconds},
};

Json to_json(const Profile& profile) {
  Json json = {
      {"measured_at", profile.measured_at}, {"read", to_json(profile.read)}, {"write", to_json(profile.write)}};
  for (const Constant& each : kConstants) json[each.name] = profile.*each.seconds;
  return json;
}

StorageCosts costs_in(const Json& json) {
  StorageCosts costs;
  costs.request_seconds = number_in(json, "request_seconds", 1e-9, 1e3);
  costs.byte_seconds = number_in(json, "byte_seconds", 1e-13, 1);
  costs.shared_byte_seconds = number_in(json, "shared_byte_seconds", 1e-13, 1);
  costs.depth = static_cast<int>(number_in(json, "depth", 1, 1024));
  costs.overlap = number_in(json, "overlap", 1, costs.depth);
  costs.extends_alone = json.at("extends_alone").get<bool>();
  return costs;
}

// Empty where there is none or another version's; what cannot be understood is said once.
Json read_cache() {
  const Json none = {{"version", kVersion}, {"profiles", Json::object()}};
  std::ifstream in(cache_path());
  if (!in) return none;
  const Json cache = Json::parse(in, nullptr, false);
  if (cache.is_object() && cache.contains("version") && cache["version"] != kVersion) return none;
  if (cache.is_object() && cache.contains("profiles") && cache["profiles"].is_object()) return cache;
  static std::once_flag warned;
  std::call_once(warned, [] { warn(cache_path() + " is no cache of profiles, and is ignored"); });
  return none;
}

bool is_fresh(const Json& profile) {
  const std::int64_t age = std::time(nullptr) - profile.at("measured_at").get<std::int64_t>();
  return age >= 0 && age < kLifetime;
}

std::optional<Profile> cached_profile(const std::string& mount) {
  const Json cache = read_cache();
  const auto found = cache["profiles"].find(mount);
  if (found == cache["profiles"].end()) return std::nullopt;
  try {
    Profile profile;
    profile.read = costs_in(found->at("read"));
    profile.write = costs_in(found->at("write"));
    for (const Constant& each : kConstants) profile.*each.seconds = number_in(*found, each.name, 1e-13, 1e3);
    profile.measured_at = found->at("measured_at").get<std::int64_t>();
    if (is_fresh(*found)) return profile;
  } catch (const std::exception&) {
    static std::once_flag warned;
    std::call_once(warned, [] { warn(cache_path() + ": a profile in it is not one, and is ignored"); });
  }
  return std::nullopt;
}

// Under another name first, so that a reader finds the old cache or the new one. Of two writers at once one is forgotten.
Status write_cache(const std::string& mount, const std::optional<Profile>& profile) {
  return guarded([&]() -> Status {
    const std::string path = cache_path();
    if (path.empty()) return fail(Code::kOther, "neither XDG_CACHE_HOME nor HOME names a directory for the cache");
    Json cache = read_cache();
    for (auto it = cache["profiles"].begin(); it != cache["profiles"].end();) {
      const bool fresh = guarded([&]() -> Result<bool> { return is_fresh(*it); }).value_or(false);
      it = fresh && it.key() != mount ? std::next(it) : cache["profiles"].erase(it);
    }
    if (profile) cache["profiles"][mount] = to_json(*profile);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    const std::string fresh = path + "." + std::to_string(getpid());
    std::ofstream out(fresh);
    out << cache.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
    out.close();
    if (out) fs::rename(fresh, path, error);
    if (!out || error) {
      const int why = error ? error.value() : errno;
      fs::remove(fresh, error);
      return fail_errno(why, "writing the cache of profiles", path);
    }
    return {};
  });
}

// ---- Measuring

// Small beside what is free and allowed: nobody must meet a full disk because of it.
bool scratch_fits(const std::string& directory, Bytes bytes) {
  struct statvfs space;
  struct rlimit limit;
  if (statvfs(directory.c_str(), &space) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  const auto free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  return free > 16.0 * static_cast<double>(bytes) && limit.rlim_cur >= static_cast<rlim_t>(bytes);
}

// A file without a name, gone with its storage.
Result<std::unique_ptr<Storage>> open_scratch(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    auto storage = open_posix("/proc/self/fd/" + std::to_string(fd), {.read = true, .write = true});
    ::close(fd);
    if (storage) return storage;
  }
  const std::string name = directory + "/.stridio-calibration-" + std::to_string(getpid());
  auto storage =
      open_posix(name, {.read = true, .write = true, .create = true, .exclusive = true, .permissions = 0600});
  if (storage) (void)remove_posix(name);
  return storage;
}

Result<Profile> measure_scratch(const std::string& directory) {
  const CalibrationRules rules{.writes = true};
  if (!scratch_fits(directory, rules.most)) return fail(Code::kNoSpace, "no space for a scratch file");
  ASSIGN_OR_RETURN(const auto storage, open_scratch(directory));
  return calibrate(*storage, rules);
}

Result<Profile> measure(const std::string& path) {
  auto profile = measure_scratch(directory_of(path));
  if (profile) return profile;
  ASSIGN_OR_RETURN(const auto storage, open_posix(path, {.read = true}));
  return calibrate(*storage, {.writes = false});
}

// ---- What the process remembers, by device

std::mutex known_mutex;
std::map<std::uint64_t, Profile>& known() {
  static std::map<std::uint64_t, Profile> profiles;
  return profiles;
}

// With known_mutex.
std::optional<Profile> remembered(const std::string& path, const FileId& id) {
  if (const auto found = known().find(id.device); found != known().end()) return found->second;
  const std::string mount = mount_of(directory_of(path));
  const auto cached = mount.empty() ? std::nullopt : cached_profile(mount);
  if (cached) known().emplace(id.device, *cached);
  return cached;
}

}  // namespace

std::optional<Profile> known_profile_of(const std::string& path, const FileId& id) {
  const auto found = guarded([&]() -> Result<std::optional<Profile>> {
    const std::scoped_lock lock(known_mutex);
    return id.regular ? remembered(path, id) : std::nullopt;
  });
  return found.value_or(std::nullopt);
}

Profile profile_of(const std::string& path, const FileId& id) {
  const auto found = guarded([&]() -> Result<Profile> {
    if (!id.regular) return Profile{};
    const std::scoped_lock lock(known_mutex);
    if (const auto profile = remembered(path, id)) return *profile;
    Profile& profile = known()[id.device];  // where it cannot be measured, it is not tried again
    ASSIGN_OR_RETURN(profile, measure(path));
    if (const std::string mount = mount_of(directory_of(path)); !mount.empty()) (void)write_cache(mount, profile);
    return profile;
  });
  return found.value_or(Profile{});
}

void forget_profile(const std::string& path) {
  (void)guarded([&]() -> Status {
    const std::string mount = mount_of(directory_of(path));
    if (mount.empty()) return {};
    const auto cached = cached_profile(mount);
    return cached && std::time(nullptr) - cached->measured_at > kLeastAge ? write_cache(mount, {}) : Status();
  });
}

Result<CalibratedMount> calibrate_directory(const std::string& directory) {
  return guarded([&]() -> Result<CalibratedMount> {
    CalibratedMount calibrated{.mount = mount_of(directory), .profile = {}, .cache = cache_path(), .cached = {}};
    ASSIGN_OR_RETURN(calibrated.profile, measure_scratch(directory));
    calibrated.cached = calibrated.mount.empty() ? fail(Code::kOther, "no mount holds " + directory)
                                                 : write_cache(calibrated.mount, calibrated.profile);
    return calibrated;
  });
}

}  // namespace stridio
