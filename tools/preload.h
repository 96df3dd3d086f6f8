// What to preload into the ranks: the user's own libraries, libstridio-X.so, then that MPI's libmpi. The user's come first, since
// tools that wrap MPI (Darshan, Score-P) see the program's calls only before the functions that they forward to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "command_line.h"
#include "environment.h"
#include "launcher.h"
#include "mpi.h"
#include "temporary.h"

namespace stridio {

// What the user said about the MPI, in place of what would be found.
struct MpiChoice {
  std::optional<Mpi> mpi;
  std::optional<std::filesystem::path> libmpi;
};

struct HostMpi {
  Mpi mpi;
  std::filesystem::path libmpi;
  std::string warning;  // what the user should know about this choice; empty if nothing
};

// The MPI that the ranks will use. The user's word counts first, then what the program is linked
// against, then the launcher's own MPI, then the installation that a command without launcher lies
// in (a virtual environment's python). `command` is the file that the command line starts with.
Result<HostMpi> choose_mpi(const MpiChoice& choice, const std::optional<Launcher>& launcher,
                           const std::optional<FoundProgram>& program, const std::string& command);

// The folder of the libraries of the installation that this command belongs to, and libstridio-X.so
// in it.
Result<std::filesystem::path> library_folder();
Result<std::filesystem::path> libstridio_for(Mpi mpi);

// The value of LD_PRELOAD. It separates its entries by spaces and colons and has no escape: a
// library whose path holds one is reached by a link to its *folder* in `links`, created at need (a
// link to the library would move its $ORIGIN).
Result<std::string> preload_value(const std::vector<std::filesystem::path>& libraries, const Environment& environment,
                                  std::optional<TemporaryFolder>& links);

}  // namespace stridio
