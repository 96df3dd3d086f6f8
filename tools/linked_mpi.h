// Which MPI a program is linked against, asked of the program's own loader.
#pragma once

#include <filesystem>
#include <optional>

#include "mpi.h"

namespace stridio {

struct LinkedMpi {
  Mpi mpi;
  std::filesystem::path libmpi;  // empty where the loader does not find it
};

// The loader (PT_INTERP) that a dynamically linked 64-bit ELF program names; nothing for all other
// files.
std::optional<std::filesystem::path> elf_interpreter(const std::filesystem::path& program);

// The MPI among the libraries that the program, or a library it needs, is linked against. The
// program does not run: its loader lists what it would load, as ldd does, so that run paths,
// LD_LIBRARY_PATH and the loader's cache all count. Nothing for scripts, static programs and those
// that load MPI later (Python).
std::optional<LinkedMpi> linked_mpi(const std::filesystem::path& program);

}  // namespace stridio
