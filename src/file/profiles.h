// The profile of the mount that a file is on: measured at the first open of the mount, then remembered by the process and,
// for a day, by a file for all processes of a user ($XDG_CACHE_HOME or ~/.cache, stridio/profiles.json).
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "plan/profile.h"
#include "storage/posix.h"

namespace stridio {

// For a file that is open, as `id`. Never fails: what cannot be measured has the default profile. A scratch file in the file's
// directory is measured on, without a name where the file system can, or else the file itself is read.
Profile profile_of(const std::string& path, const FileId& id);
// Nothing where it has not been measured.
std::optional<Profile> known_profile_of(const std::string& path, const FileId& id);

// A measured profile that the storage has contradicted is measured anew at the next open of its mount by a new process.
void forget_profile(const std::string& path);

struct CalibratedMount {
  std::string mount;  // host, source, kind, place
  Profile profile;
  std::string cache;  // the file that remembers it
  Status cached;
};
// Measures whatever is remembered, and remembers the result.
Result<CalibratedMount> calibrate_directory(const std::string& directory);

}  // namespace stridio
