#include "command_line.h"

namespace stridio {

namespace {

std::string program_of(const std::string& argument, const std::string& search_path) {
  const std::string found = find_program(argument, search_path);
  return found.empty() ? find_program("./" + argument, search_path) : found;
}

Arguments options_for(Mpi launcher, const Variables& variables) {
  Arguments options;
  for (const auto& [name, value] : variables) {
    if (launcher == Mpi::kOmpi)
      options.insert(options.end(), {"-x", name + "=" + value});
    else
      options.insert(options.end(), {"-genv", name, value});
  }
  return options;
}

}  // namespace

std::optional<FoundProgram> find_mpi_program(const Arguments& arguments, const std::string& search_path) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].empty() || arguments[i].front() == '-') continue;
    const std::string program = program_of(arguments[i], search_path);
    if (program.empty()) continue;
    if (const auto linked = linked_mpi(program)) return FoundProgram{program, *linked};
  }
  return std::nullopt;
}

Arguments with_rank_variables(Mpi launcher, const Arguments& arguments, const Variables& variables) {
  const Arguments options = options_for(launcher, variables);
  Arguments result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    result.push_back(arguments[i]);
    const bool part_begins = i == 0 || (launcher == Mpi::kOmpi && arguments[i] == ":");
    if (part_begins) result.insert(result.end(), options.begin(), options.end());
  }
  return result;
}

Status refuse_own_preload(const Arguments& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    const bool sets = option == "-genv" || option == "-env" || option == "-x" || option == "--x";
    if (sets && (arguments[i + 1] == "LD_PRELOAD" || arguments[i + 1].starts_with("LD_PRELOAD=")))
      return fail(Code::kArgument,
                  "the launcher's option " + option +
                      " LD_PRELOAD and Stridio's would replace each "
                      "other: give your libraries as LD_PRELOAD in the environment of stridio, which keeps "
                      "them before its own");
  }
  return {};
}

}  // namespace stridio
