#include "mpiio/datarep.h"

#include <map>
#include <mutex>
#include <string>

namespace stridio::mpiio {
namespace {

std::mutex mutex;

std::map<std::string, Datarep, std::less<>>& registered() {
  static auto& map = *new std::map<std::string, Datarep, std::less<>>;
  return map;
}

bool is_predefined(std::string_view name) { return name == "native" || name == "internal" || name == "external32"; }

}  // namespace

Status register_datarep(const char* name, const Datarep& datarep) {
  if (name == nullptr || *name == '\0') return fail(Code::kArgument, "the data representation needs a name");
  if (std::string_view(name).size() >= MPI_MAX_DATAREP_STRING)
    return fail(Code::kArgument, "the data representation's name is longer than MPI_MAX_DATAREP_STRING - 1 = " +
                                     std::to_string(MPI_MAX_DATAREP_STRING - 1) + " characters");
  const std::lock_guard lock(mutex);
  if (is_predefined(name) || !registered().emplace(name, datarep).second)
    return fail(Code::kDuplicateDatarep,
                "data representation \"" + std::string(name) + "\" exists already; choose another name");
  return {};
}

bool is_registered(std::string_view name) {
  const std::lock_guard lock(mutex);
  return registered().find(name) != registered().end();
}

}  // namespace stridio::mpiio
