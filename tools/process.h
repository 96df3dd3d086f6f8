// Starting other programs: always by argument vectors, never through a shell.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stridio {

using Arguments = std::vector<std::string>;
using Variables = std::vector<std::pair<std::string, std::string>>;

// The file that a command's name stands for: the name itself where it has a slash, else the first
// executable of that name in `search_path`; empty where there is none.
std::string find_program(const std::string& name, const std::string& search_path);

struct Ended {
  int status = 0;  // its exit status, 128 + n where signal n ended it
  int signal = 0;  // that ended it, or that it was sent to end: launchers have statuses of their own then. 0: none
};

// Runs `program` with `arguments` (the first one its own name) and this process's environment plus
// `variables`, and waits. INT, TERM, HUP, QUIT, USR1 and USR2 sent to this process are sent on;
// those that a terminal sends to the whole foreground group reach the program anyway, once. If this
// process is killed the program gets TERM. Single-threaded callers only.
Result<Ended> run_program(const std::string& program, const Arguments& arguments, const Variables& variables);

struct Captured {
  int status = 0;  // as of Ended
  bool timed_out = false;
  std::string output;  // stdout and stderr, in the order written, 1 MiB at most
};

// Runs a program in a session of its own, with no input, for its output. After `timeout` its whole
// group is ended, by TERM and then KILL. An empty value removes the variable.
Result<Captured> capture(const Arguments& arguments, const Variables& variables, std::chrono::milliseconds timeout);

}  // namespace stridio
