// The ABI families that Stridio serves, and where an MPI keeps its library.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stridio {

enum class Mpi { kMpich, kOmpi, kAbi };

struct MpiFamily {
  Mpi mpi;
  const char* name;                  // as in --mpi and libstridio-NAME.so
  const char* title;                 // for people
  std::vector<std::string> sonames;  // of its libmpi, the likeliest first
};

const std::vector<MpiFamily>& mpi_families();
const MpiFamily& family_of(Mpi mpi);
std::optional<Mpi> mpi_by_name(std::string_view name);

// The family of a library, by its file name; nothing where it is not the library of an MPI.
std::optional<Mpi> mpi_by_soname(std::string_view file_name);

// That MPI's libmpi in the installation that a launcher belongs to: in the lib folders beside its
// own, first as the path stands, then with links resolved (Debian's `mpiexec` is a link).
std::optional<std::filesystem::path> libmpi_beside(const std::filesystem::path& launcher, Mpi mpi);

// The same for a command in a Python environment (venv or conda), whose `python` is often a link
// out of it; nothing where the command lies in none.
std::optional<std::filesystem::path> libmpi_in_environment(const std::filesystem::path& command, Mpi mpi);

}  // namespace stridio
