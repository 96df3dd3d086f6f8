#include "base/text.h"

namespace stridio {

std::string counted(std::int64_t number, std::string_view noun) {
  std::string text = std::to_string(number) + " " + std::string(noun);
  if (number != 1) text += 's';
  return text;
}

std::string shortened(std::string_view text, std::size_t most) {
  constexpr std::string_view kGap = "...";
  if (text.size() <= most) return std::string(text);
  const std::size_t kept = most - kGap.size(), front = kept / 2;
  return std::string(text.substr(0, front)).append(kGap).append(text.substr(text.size() - (kept - front)));
}

}  // namespace stridio
