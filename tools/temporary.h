// A folder that is removed, with all that is in it, when its owner goes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace stridio {

class TemporaryFolder {
 public:
  // A new folder, readable by its owner only, whose path begins with `prefix`.
  static Result<TemporaryFolder> create(const std::string& prefix);

  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace stridio
