// The environment variables that the command looks at. main.cc alone reads them; everything else is
// given this value, so that each part can be tested and nothing depends on hidden state.
#pragma once

#include <string>

namespace stridio {

struct Environment {
  std::string path;           // PATH
  std::string ld_preload;     // LD_PRELOAD: the user's own libraries, kept before ours
  std::string preload_extra;  // STRIDIO_PRELOAD_EXTRA: libraries behind that MPI's
  std::string temporary;      // TMPDIR, or /tmp
  int launched = 0;           // how many processes an MPI launcher says it has started, this one among them
};

}  // namespace stridio
