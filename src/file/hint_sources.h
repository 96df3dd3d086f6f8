// Where hints come from besides the program: the environment, and the files that ROMIO's users have.
#pragma once

#include "file/hints.h"

namespace stridio {

// Where an entry of Hints comes from, as reports name it.
inline constexpr const char* kFromDefault = "default";
inline constexpr const char* kFromProgram = "program";

// All hints for a file that is opened by this name, the weakest source first: the file that ROMIO_HINTS names (else
// /etc/romio-hints), MPICH_MPIIO_HINTS, STRIDIO_HINTS, the program.
Hints hints_for(const std::string& name, const HintList& given, std::vector<std::string>& warnings);

// ROMIO's file: a name and a value a line; lines that start with # are comments.
HintList parse_hint_lines(std::string_view text);
// MPICH_MPIIO_HINTS, as Cray's users write it: PATTERN:NAME=VALUE:NAME=VALUE,PATTERN:... The patterns are a shell's, and
// meet the whole name or its last part.
HintList parse_hint_patterns(std::string_view text, const std::string& name);

// What ROMIO_PRINT_HINTS=1 asks for, once a file is open: a line each, on standard output.
void print_hints_if_wanted(const Hints& hints);

}  // namespace stridio
