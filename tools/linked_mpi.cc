#include "linked_mpi.h"

#include <elf.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "process.h"

namespace stridio {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kLoaderTimeout{10};
constexpr int kMostProgramHeaders = 256;

template <typename T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

bool is_elf64(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_phnum <= kMostProgramHeaders;
}

// "<name> => <path> (0x...)", "<name> => not found" or "<path> (0x...)": the name and the path.
std::optional<LinkedMpi> parse_line(std::string line) {
  line.erase(0, line.find_first_not_of(" \t"));
  const auto arrow = line.find(" => ");
  const std::string name = line.substr(0, arrow == line.npos ? line.find(" (0x") : arrow);
  const auto mpi = mpi_by_soname(fs::path(name).filename().string());
  if (!mpi) return std::nullopt;
  if (arrow == line.npos) return LinkedMpi{*mpi, name};
  const std::string target = line.substr(arrow + 4);
  if (target.starts_with("not found")) return LinkedMpi{*mpi, {}};
  return LinkedMpi{*mpi, target.substr(0, target.rfind(" (0x"))};
}

}  // namespace

std::optional<fs::path> elf_interpreter(const fs::path& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header;
  if (!file || !read_at(file, 0, header) || !is_elf64(header)) return std::nullopt;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file, header.e_phoff + i * sizeof segment, segment)) return std::nullopt;
    if (segment.p_type != PT_INTERP || segment.p_filesz > PATH_MAX) continue;
    std::string name(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(name.data(), static_cast<std::streamsize>(name.size()))) return std::nullopt;
    return fs::path(name.c_str());
  }
  return std::nullopt;
}

std::optional<LinkedMpi> linked_mpi(const fs::path& program) {
  const auto loader = elf_interpreter(program);
  if (!loader) return std::nullopt;
  const auto listed = capture({loader->string(), fs::absolute(program).string()},
                              {{"LD_TRACE_LOADED_OBJECTS", "1"}, {"LD_PRELOAD", ""}}, kLoaderTimeout);
  if (!listed || listed->timed_out) return std::nullopt;
  std::istringstream lines(listed->output);
  for (std::string line; std::getline(lines, line);)
    if (auto found = parse_line(line)) return found;
  return std::nullopt;
}

}  // namespace stridio
