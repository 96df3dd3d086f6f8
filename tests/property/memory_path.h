// A file that lives in memory, but is reached by path through the posix storage.
#pragma once

#include <string>

#include "property/oracle.h"
#include "storage/memory.h"

namespace stridio::testing {

class MemoryPath {
 public:
  MemoryPath();
  ~MemoryPath();
  MemoryPath(const MemoryPath&) = delete;
  MemoryPath& operator=(const MemoryPath&) = delete;

  const std::string& path() const { return path_; }
  // Makes it what the case finds: the first `length` bytes of what was there before.
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
