#include "temporary.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace stridio {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::create(const std::string& prefix) {
  std::error_code ignored;
  std::string name = fs::absolute(prefix, ignored).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return fail_errno(errno, "cannot create a temporary folder", name);
  return TemporaryFolder(name);
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace stridio
