// `stridio run`: a program's MPI-IO goes through Stridio, the program and its MPI unchanged.
#pragma once

#include <string>

#include "base/result.h"
#include "environment.h"
#include "preload.h"
#include "process.h"

namespace stridio {

struct RunOptions {
  Arguments command;   // the launcher, or the program, and its arguments
  std::string report;  // a file, "-" for a table only, empty for no report
  bool explain = false;
  bool dry_run = false;
  MpiChoice mpi;
};

// Exit statuses of its own, as env(1) and timeout(1) use them; every other one is the command's.
inline constexpr int kOwnError = 125;
inline constexpr int kCannotRun = 126;
inline constexpr int kNotFound = 127;

// Runs the command and gives its exit status (128 + n where signal n ended it). Errors are printed
// to stderr.
int run(const RunOptions& options, const Environment& environment);

}  // namespace stridio
