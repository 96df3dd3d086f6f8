// A flat file that is written beside, under another name, and takes its place when it is whole: hint stridio_commit=atomic.
// Whoever opens the path sees the file as it was before, or as it is at MPI_File_close; a job that dies in between changes
// nothing of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "file/file.h"
#include "storage/posix.h"

namespace stridio {

class Replacement {
 public:
  // Where it is written: in the file's own folder; a symbolic link's is that of the file behind it. What a dead job has left
  // there is used again.
  static std::string beside(const std::string& path);
  // Makes that file, a copy of the one at `path` where there is one. kFileInUse where another writes one already; other errors
  // as opening `path` with `mode` would give. `permissions`: of a file that does not exist yet, before the umask. `open`: the
  // file beside; open_posix() if not given.
  using Open = std::function<Result<std::unique_ptr<Storage>>(const std::string&, const OpenMode&, FileId*)>;
  static Result<std::unique_ptr<Replacement>> begin(const std::string& path, const AccessMode& mode, int permissions,
                                                    const Open& open = nullptr);
  // Unless it was committed, nothing stays.
  ~Replacement();

  // It takes the place of the file at `path`, durably if its bytes are.
  Status commit();

 private:
  Replacement(std::string path, std::string beside) : path_(std::move(path)), beside_(std::move(beside)) {}
  Status take(int permissions, const Open& open);

  const std::string path_, beside_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<RangeLock> writing_;
  bool ours_ = false;  // what has the name beside, and goes if it is not committed
  bool copied_ = false;
};

}  // namespace stridio
