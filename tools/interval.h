// `stridio info`, `check` and `flatten`: what an interval file holds, whether it is whole, and the flat file that it
// stands for.
#pragma once

#include <string>

namespace stridio {

// Each gives the command's exit status, and prints what is wrong to stderr.
int interval_info(const std::string& path, bool json);
// 0 whole, 1 damaged, 125 could not be checked.
int interval_check(const std::string& path);
int interval_flatten(const std::string& source, const std::string& target, int threads);

}  // namespace stridio
