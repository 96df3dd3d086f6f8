// Messages for people, on standard error, one line each.
#pragma once

#include <string_view>

namespace stridio {

void warn(std::string_view message);
void inform(std::string_view message);

}  // namespace stridio
