#include "mpiio/convert.h"

#include <array>
#include <vector>

namespace stridio::mpiio {
namespace {

struct ModeBit {
  int bit;
  bool AccessMode::*member;
};

}  // namespace

Result<AccessMode> access_mode(int amode) {
  const std::array<ModeBit, 9> bits = {{
      {MPI_MODE_RDONLY, &AccessMode::read_only},
      {MPI_MODE_WRONLY, &AccessMode::write_only},
      {MPI_MODE_RDWR, &AccessMode::read_write},
      {MPI_MODE_CREATE, &AccessMode::create},
      {MPI_MODE_EXCL, &AccessMode::exclusive},
      {MPI_MODE_DELETE_ON_CLOSE, &AccessMode::delete_on_close},
      {MPI_MODE_UNIQUE_OPEN, &AccessMode::unique_open},
      {MPI_MODE_SEQUENTIAL, &AccessMode::sequential},
      {MPI_MODE_APPEND, &AccessMode::append},
  }};
  AccessMode mode;
  for (const auto& [bit, member] : bits) {
    mode.*member = (amode & bit) != 0;
    amode &= ~bit;
  }
  if (amode != 0)
    return fail(Code::kAmode, "the access mode has bits that MPI does not define: " + std::to_string(amode) +
                                  "; combine the constants MPI_MODE_* by |");
  return mode;
}

Result<Whence> whence_of(int whence) {
  if (whence == MPI_SEEK_SET) return Whence::kSet;
  if (whence == MPI_SEEK_CUR) return Whence::kCurrent;
  if (whence == MPI_SEEK_END) return Whence::kEnd;
  return fail(Code::kArgument,
              "whence is " + std::to_string(whence) + "; it must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
}

HintList hints_of(MPI_Info info) {
  HintList hints;
  if (info == MPI_INFO_NULL) return hints;
  int keys = 0;
  PMPI_Info_get_nkeys(info, &keys);
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = {};
    int length = 0;
    int found = 0;
    PMPI_Info_get_nthkey(info, i, key);
    PMPI_Info_get_valuelen(info, key, &length, &found);
    if (found == 0) continue;
    std::vector<char> value(static_cast<std::size_t>(length) + 1);
    PMPI_Info_get(info, key, length, value.data(), &found);
    if (found != 0) hints.emplace_back(key, value.data());
  }
  return hints;
}

MPI_Info info_of(const Hints& hints) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  for (const auto& [name, value] : hints.entries) {
    const bool fits =
        !name.empty() && name.size() < MPI_MAX_INFO_KEY && !value.empty() && value.size() < MPI_MAX_INFO_VAL;
    if (fits) PMPI_Info_set(info, name.c_str(), value.c_str());
  }
  return info;
}

void set_status(MPI_Status* status, Bytes bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
  PMPI_Status_set_cancelled(status, 0);
}

}  // namespace stridio::mpiio
