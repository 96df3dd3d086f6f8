// What a check of the doctor found.
#pragma once

#include <string>

namespace stridio {

enum class Level { kOk, kWarning, kMissing };

struct Finding {
  Level level;
  std::string subject;
  std::string detail;
};

inline const char* name_of(Level level) {
  switch (level) {
    case Level::kOk: return "ok";
    case Level::kWarning: return "warning";
    case Level::kMissing: return "missing";
  }
  return "unknown";
}

}  // namespace stridio
