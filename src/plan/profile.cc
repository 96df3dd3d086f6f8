#include "plan/profile.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace stridio {
namespace {

std::string describe(const char* name, const StorageCosts& costs) {
  return fmt::format("{} {:.3g} ms a request, {:.2g} GB/s alone, {:.2g} GB/s together, {} requests at once as {:.2g}{}",
                     name, costs.request_seconds * 1e3, 1e-9 / costs.byte_seconds, 1e-9 / costs.shared_byte_seconds,
                     costs.depth, costs.overlap, costs.extends_alone ? ", within the file only" : "");
}

}  // namespace

std::string describe(const Profile& profile) {
  const std::string origin = profile.measured_at == 0
                                 ? "default profile"
                                 : fmt::format("profile of {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(profile.measured_at));
  return fmt::format("{}: {}; {}", origin, describe("read", profile.read), describe("write", profile.write));
}

}  // namespace stridio
