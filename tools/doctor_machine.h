// The doctor's look at the machine: what Stridio uses of it beside an MPI.
#pragma once

#include <filesystem>
#include <vector>

#include "finding.h"

namespace stridio {

// Shared memory, locks on files in `folder`, limits of this process, cores.
std::vector<Finding> check_machine(const std::filesystem::path& folder);

}  // namespace stridio
