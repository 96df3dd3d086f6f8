#pragma once

#include <algorithm>
#include <thread>

namespace stridio {

// Of the machine. To find out reads a file.
inline int cores() {
  static const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return count;
}

}  // namespace stridio
