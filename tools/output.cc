#include "output.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace stridio {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!file) return fail_errno(errno, "cannot be written", path);
  file << text;
  file.close();
  if (file) return {};
  const int why = errno;
  std::error_code ignored;  // of a device nothing is left
  if (std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
  return fail_errno(why, "cannot be written", path);
}

}  // namespace stridio
