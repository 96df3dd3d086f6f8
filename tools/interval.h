// `stridio info` and `check`: what an interval file holds, and whether it is whole.
#pragma once

#include <string>

namespace stridio {

// Each gives the command's exit status, and prints what is wrong to stderr.
int interval_info(const std::string& path, bool json);
// 0 whole, 1 damaged, 125 could not be checked.
int interval_check(const std::string& path);

}  // namespace stridio
