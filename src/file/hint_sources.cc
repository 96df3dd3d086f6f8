#include "file/hint_sources.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stridio {
namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

// Calls `each` with the parts between the separators.
template <typename Each>
void split(std::string_view text, char separator, Each each) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(separator));
    each(part);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

void add_assignment(std::string_view text, HintList& hints) {
  const std::size_t equals = std::min(text.find('='), text.size());
  if (!text.empty())
    hints.emplace_back(trimmed(text.substr(0, equals)), trimmed(text.substr(std::min(equals + 1, text.size()))));
}

HintList from_environment(std::vector<std::string>& warnings) {
  HintList hints;
  const std::string all = variable("STRIDIO_HINTS");
  split(all, ';', [&](std::string_view part) {
    part = trimmed(part);
    if (part.empty()) return;
    if (part.find('=') == part.npos)
      warnings.push_back(fmt::format("STRIDIO_HINTS: {} is ignored: write NAME=VALUE;NAME=VALUE", part));
    else
      add_assignment(part, hints);
  });
  return hints;
}

HintList from_file(std::string& path, std::vector<std::string>& warnings) {
  const std::string named = variable("ROMIO_HINTS");
  for (const std::string& candidate : {named, std::string("/etc/romio-hints")}) {
    if (candidate.empty()) continue;
    path = candidate;
    if (std::ifstream file(candidate); file) {
      std::ostringstream text;
      text << file.rdbuf();
      return parse_hint_lines(text.str());
    }
    if (!named.empty() && candidate == named)
      warnings.push_back(fmt::format("ROMIO_HINTS={}: the file cannot be read, and is ignored", named));
  }
  return {};
}

}  // namespace

HintList parse_hint_lines(std::string_view text) {
  HintList hints;
  split(text, '\n', [&](std::string_view line) {
    if (line.starts_with('#')) return;
    std::istringstream words{std::string(line)};
    std::string name, value;
    if (words >> name >> value) hints.emplace_back(name, value);
  });
  return hints;
}

HintList parse_hint_patterns(std::string_view text, const std::string& name) {
  HintList hints;
  const std::string last = name.substr(name.rfind('/') + 1);
  split(text, ',', [&](std::string_view entry) {
    const std::string pattern(entry.substr(0, entry.find(':')));
    if (fnmatch(pattern.c_str(), name.c_str(), 0) != 0 && fnmatch(pattern.c_str(), last.c_str(), 0) != 0) return;
    entry.remove_prefix(std::min(entry.size(), pattern.size() + 1));
    split(entry, ':', [&](std::string_view part) { add_assignment(part, hints); });
  });
  return hints;
}

Hints hints_for(const std::string& name, const HintList& given, std::vector<std::string>& warnings) {
  std::string path;
  const HintList lines = from_file(path, warnings);
  Hints hints = apply_hints({}, lines, path, warnings);
  hints = apply_hints(hints, parse_hint_patterns(variable("MPICH_MPIIO_HINTS"), name), "MPICH_MPIIO_HINTS", warnings);
  hints = apply_hints(hints, from_environment(warnings), "STRIDIO_HINTS", warnings);
  return apply_hints(hints, given, kFromProgram, warnings);
}

void print_hints_if_wanted(const Hints& hints) {
  if (variable("ROMIO_PRINT_HINTS").empty()) return;
  for (const auto& [name, value] : hints.entries) fmt::print("key = {:<25} value = {:<10}\n", name, value);
  std::fflush(stdout);
}

}  // namespace stridio
