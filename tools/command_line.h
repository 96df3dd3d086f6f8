// A launcher's command line: which program it starts, and how it is told to set variables for the
// ranks only.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "linked_mpi.h"
#include "mpi.h"
#include "process.h"

namespace stridio {

struct FoundProgram {
  std::string path;
  LinkedMpi linked;
};

// The first of `arguments` (after the launcher's name) that is a program linked against an MPI.
// Wrappers
// (`valgrind ./app`, `./bind.sh ./app`) and options are passed over; nothing for Python and the
// like.
std::optional<FoundProgram> find_mpi_program(const Arguments& arguments, const std::string& search_path);

// The command line with options that set `variables` in the ranks, and neither in the launcher nor
// in its helpers: `-genv NAME VALUE` once for MPICH's launchers, `-x NAME=VALUE` for Open MPI's in
// every program's part (they are separated by ":", and Open MPI 4.1 sets -x for one part only).
Arguments with_rank_variables(Mpi launcher, const Arguments& arguments, const Variables& variables);

// An error if the user's own launcher options set LD_PRELOAD: they would replace ours, or be
// replaced.
Status refuse_own_preload(const Arguments& arguments);

}  // namespace stridio
