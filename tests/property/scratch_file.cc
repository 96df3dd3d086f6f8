#include "property/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "property/contents.h"

namespace stridio::testing {
namespace {

void require(bool held, const char* what) {
  if (held) return;
  std::perror(what);
  std::abort();
}

}  // namespace

ScratchFile::ScratchFile() : fd_(::memfd_create("stridio-property", MFD_CLOEXEC)) {
  require(fd_ >= 0, "memfd_create");
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}
ScratchFile::ScratchFile(const std::string& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)), path_(path) {
  require(fd_ >= 0, "open");
}
ScratchFile::~ScratchFile() { ::close(fd_); }

void ScratchFile::fill(Bytes length) {
  require(::ftruncate(fd_, 0) == 0, "ftruncate");
  require(::pwrite(fd_, contents_of(kBefore), static_cast<std::size_t>(length), 0) == length, "pwrite");
}

Image ScratchFile::contents() const {
  Image image(static_cast<std::size_t>(::lseek(fd_, 0, SEEK_END)));
  require(::pread(fd_, image.data(), image.size(), 0) == static_cast<ssize_t>(image.size()), "pread");
  return image;
}

std::shared_ptr<MemoryFile> make_filled_memory(Bytes length) {
  auto file = make_memory_file();
  require(open_memory(file)->write({0, length}, contents_of(kBefore)).has_value(), "writing to memory");
  return file;
}

Image contents_of_memory(const std::shared_ptr<MemoryFile>& file) {
  const auto storage = open_memory(file);
  Image image(static_cast<std::size_t>(*storage->size()));
  require(storage->read({0, static_cast<Bytes>(image.size())}, image.data()).has_value(), "reading memory");
  return image;
}

}  // namespace stridio::testing
