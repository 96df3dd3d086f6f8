// What the command writes for users.
#pragma once

#include <string>

#include "base/result.h"

namespace stridio {

// A file with this text. Where it cannot be written whole, none is left.
Status write_file(const std::string& path, const std::string& text);

}  // namespace stridio
