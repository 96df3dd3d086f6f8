#include "mpiio/handle.h"

#include <algorithm>
#include <map>
#include <shared_mutex>

namespace stridio::mpiio {
namespace {

// Above the integers that the standard ABI reserves for predefined handles.
constexpr int kFirstInteger = 0x1000;

struct Table {
  std::shared_mutex mutex;
  std::map<MPI_File, std::shared_ptr<OpenFile>> files;
  std::map<int, MPI_File> integers;
  std::uint64_t opened = 0;
};

// Never destroyed: a program may leave files open.
Table& table() {
  static auto& instance = *new Table;
  return instance;
}

int smallest_free(const std::map<int, MPI_File>& integers) {
  int candidate = kFirstInteger;
  for (const auto& [integer, fh] : integers) {
    if (integer != candidate) break;
    ++candidate;
  }
  return candidate;
}

}  // namespace

MPI_File enter(std::shared_ptr<OpenFile> file) {
  const std::lock_guard lock(table().mutex);
  const MPI_File fh = file->handle();
  file->integer = smallest_free(table().integers);
  table().integers[file->integer] = fh;
  file->number = ++table().opened;
  table().files[fh] = std::move(file);
  return fh;
}

std::shared_ptr<OpenFile> find(MPI_File fh) {
  const std::shared_lock lock(table().mutex);
  const auto found = table().files.find(fh);
  return found == table().files.end() ? nullptr : found->second;
}

void leave(MPI_File fh) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().files.find(fh);
  if (found == table().files.end()) return;
  table().integers.erase(found->second->integer);
  table().files.erase(found);
}

std::vector<std::shared_ptr<OpenFile>> open_files() {
  std::vector<std::shared_ptr<OpenFile>> files;
  {
    const std::shared_lock lock(table().mutex);
    for (const auto& [fh, file] : table().files) files.push_back(file);
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a->number < b->number; });
  return files;
}

int to_integer(MPI_File fh, int null_integer) {
  const auto file = find(fh);
  return file ? file->integer : null_integer;
}

MPI_File from_integer(int integer, int null_integer) {
  if (integer == null_integer) return MPI_FILE_NULL;
  const std::shared_lock lock(table().mutex);
  const auto found = table().integers.find(integer);
  return found == table().integers.end() ? MPI_FILE_NULL : found->second;
}

}  // namespace stridio::mpiio
