#include "mpi.h"

#include <algorithm>

namespace stridio {

namespace fs = std::filesystem;

namespace {

// Intel MPI keeps its library in lib/release.
const char* const kLibraryFolders[] = {"lib", "lib/" STRIDIO_MULTIARCH, "lib64", "lib/release"};

std::optional<fs::path> libmpi_under(const fs::path& prefix, const MpiFamily& family) {
  std::error_code ignored;
  for (const char* folder : kLibraryFolders) {
    for (const std::string& soname : family.sonames) {
      const fs::path found = fs::canonical(prefix / folder, ignored) / soname;
      if (!ignored && fs::is_regular_file(found, ignored)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

const std::vector<MpiFamily>& mpi_families() {
  static const std::vector<MpiFamily> families = {
      {Mpi::kMpich, "mpich", "MPICH", {"libmpi.so.12", "libmpich.so.12"}},
      {Mpi::kOmpi, "ompi", "Open MPI", {"libmpi.so.40"}},
      {Mpi::kAbi, "abi", "the MPI standard ABI", {"libmpi_abi.so.1", "libmpi_abi.so.0"}},
  };
  return families;
}

const MpiFamily& family_of(Mpi mpi) { return mpi_families()[static_cast<std::size_t>(mpi)]; }

std::optional<Mpi> mpi_by_name(std::string_view name) {
  for (const MpiFamily& family : mpi_families())
    if (name == family.name) return family.mpi;
  return std::nullopt;
}

std::optional<Mpi> mpi_by_soname(std::string_view file_name) {
  for (const MpiFamily& family : mpi_families())
    for (const std::string& soname : family.sonames)
      if (file_name == soname || file_name.starts_with(soname + ".")) return family.mpi;
  return std::nullopt;
}

std::optional<fs::path> libmpi_beside(const fs::path& launcher, Mpi mpi) {
  std::error_code ignored;
  for (const fs::path& path : {launcher, fs::canonical(launcher, ignored)}) {
    if (path.empty()) continue;
    if (auto found = libmpi_under(path.parent_path() / "..", family_of(mpi))) return found;
  }
  return std::nullopt;
}

std::optional<fs::path> libmpi_in_environment(const fs::path& command, Mpi mpi) {
  const fs::path prefix = command.parent_path() / "..";
  std::error_code ignored;
  for (const char* mark : {"pyvenv.cfg", "conda-meta"})
    if (fs::exists(prefix / mark, ignored)) return libmpi_under(prefix, family_of(mpi));
  return std::nullopt;
}

}  // namespace stridio
