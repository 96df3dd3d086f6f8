// Words for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stridio {

// "1 window", "2 windows".
std::string counted(std::int64_t number, std::string_view noun);

// At most `most` characters, the middle of a longer text being left out.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace stridio
