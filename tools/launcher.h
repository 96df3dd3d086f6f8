// Whose launcher a command is. Every MPI calls its launcher mpiexec and mpirun, so names decide
// only where they are unambiguous, after links (Debian's alternatives) are resolved; else the
// launcher is asked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mpi.h"

namespace stridio {

struct Launcher {
  std::string program;  // the file to execute, links not resolved
  Mpi mpi;              // never kAbi: the ABI is the program's property
};

// How a command line begins.
//   a Launcher     a launcher whose MPI is known
//   nothing        no launcher: a program or a script
//   an error       a launcher, but one that Stridio cannot hand an environment for the ranks to
Result<std::optional<Launcher>> identify_launcher(const std::string& program);

// An error for a command line whose programs stand in a file where Stridio's variables do not reach
// them.
Status refuse_app_file(const Launcher& launcher, const std::vector<std::string>& arguments);

// The first lines that `program --version` prints; empty where it does not answer in time.
std::string ask_version(const std::string& program);

// The MPI, and the version number, that such an answer speaks of.
std::optional<Mpi> mpi_of_version(const std::string& answer);
std::string version_number(const std::string& answer);

}  // namespace stridio
