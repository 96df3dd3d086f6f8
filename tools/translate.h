// `stridio translate`, `flatten` and `wait`: files that other processes own, or that are flat, once or for each generation
// that a running program commits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "environment.h"

namespace stridio {

struct TranslateOptions {
  const char* command = "translate";
  std::string source, target;
  std::string like, views, file;  // whose intervals the target has; neither: the target is flat
  int threads = 0;                // 0: as many as cores
  bool follow = false;            // on, while a program writes the source
  std::optional<double> timeout;  // seconds that a new generation may take
};

constexpr int kNotInTime = 1;
constexpr int kMostThreads = 512;  // each has some megabytes, and a share of the work

// Each gives the command's exit status, and prints what is wrong to stderr.
int translate(const TranslateOptions& options, const Environment& environment);
// Prints the newest generation, once it is newer. kNotInTime where it is not.
int wait_for(const std::string& path, std::uint64_t newer_than, std::optional<double> timeout);

}  // namespace stridio
