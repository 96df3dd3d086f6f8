// What goes when its owner goes.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace stridio {

// A folder, with all that is in it.
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

// A file that a process removes when it ends, however it does, SIGKILL included: a child waits for that, in a session of its
// own, which neither a terminal's signals reach nor those of a launcher. Made before there are threads.
class LastWill {
 public:
  LastWill();
  LastWill(const LastWill&) = delete;
  ~LastWill();

  // One file; by the end it may have gone.
  void remove(const std::string& path) const;

 private:
  int to_child_ = -1;
  pid_t child_ = -1;
};

}  // namespace stridio
