// Files to try things on: reached by path through the posix storage, or in memory without one.
#pragma once

#include <string>

#include "property/oracle.h"
#include "storage/memory.h"

namespace stridio::testing {

class ScratchFile {
 public:
  // One that lives in memory.
  ScratchFile();
  // One in a directory, which is not removed.
  explicit ScratchFile(const std::string& path);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  // Makes it what a case finds: the first `length` bytes of what was there before.
  void fill(Bytes length);
  Image contents() const;

 private:
  int fd_;
  std::string path_;
};

// The same, without a path.
std::shared_ptr<MemoryFile> make_filled_memory(Bytes length);
Image contents_of_memory(const std::shared_ptr<MemoryFile>& file);

}  // namespace stridio::testing
