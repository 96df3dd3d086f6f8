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
  return fmt::format(
      "{}: {}; {}; copies {:.2g} GB/s, {:.2g} ns a scattered piece, {:.2g} far from any cache; a mapped page {:.2g} us "
      "read, {:.2g} us of a long run, {:.2g} us written, "
      "{:.2g} us more where new, a new one by a call {:.2g} us more",
      origin, describe("read", profile.read), describe("write", profile.write), 1e-9 / profile.copy_byte_seconds,
      profile.scattered_range_seconds * 1e9, profile.far_range_seconds * 1e9, profile.read_page_seconds * 1e6,
      profile.run_page_seconds * 1e6, profile.written_page_seconds * 1e6, profile.new_mapped_page_seconds * 1e6,
      profile.new_page_seconds * 1e6);
}

}  // namespace stridio
