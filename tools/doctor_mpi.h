// The doctor's look at MPIs: those it finds, and whether a program's MPI-IO really goes through
// Stridio.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "environment.h"
#include "finding.h"
#include "mpi.h"

namespace stridio {

struct MpiCheck {
  Finding finding = {};  // its subject is the MPI's name and version
  std::string launcher = {};
  std::string mpi = {};  // as in --mpi; empty if not known
  std::string version = {};
  std::string libmpi = {};
  std::string libstridio = {};
  bool works = false;
};

// Every MPI, once: that of each launcher in `extra`, on PATH, in the system's folder and in the
// virtual environments of `.venv` under the current folder; and the standard ABI where an MPI
// offers it.
std::vector<MpiCheck> check_mpis(const std::vector<std::string>& extra, const Environment& environment);

}  // namespace stridio
