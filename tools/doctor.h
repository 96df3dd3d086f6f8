// `stridio doctor`: what of Stridio works on this machine.
#pragma once

#include <string>
#include <vector>

#include "environment.h"

namespace stridio {

struct DoctorOptions {
  std::vector<std::string> launchers;  // to check besides those found
  bool json = false;
};

// Prints the findings to stdout. 0 if a program's MPI-IO really goes through Stridio under at least
// one MPI, else 1.
int doctor(const DoctorOptions& options, const Environment& environment);

}  // namespace stridio
