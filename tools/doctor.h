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

// Measures the mount of a directory, prints what it takes, and has Stridio remember it. 0 if that could be done, else 1.
int calibrate(const std::string& directory);

}  // namespace stridio
