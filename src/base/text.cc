#include "base/text.h"

namespace stridio {

std::string counted(std::int64_t number, std::string_view noun) {
  std::string text = std::to_string(number) + " " + std::string(noun);
  if (number != 1) text += 's';
  return text;
}

}  // namespace stridio
