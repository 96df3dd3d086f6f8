// What a process has one of, for all that it does.
#pragma once

#include <unistd.h>

#include <mutex>

namespace stridio {

// Made when it is first asked for, and never destroyed: nothing waits for its threads when the process ends. A forked child has
// none of them, and gets its own.
template <typename T>
T& of_process() {
  static std::mutex mutex;
  static T* one = nullptr;
  static pid_t owner = 0;
  const std::scoped_lock lock(mutex);
  if (const pid_t self = ::getpid(); self != owner) {
    one = new T;
    owner = self;
  }
  return *one;
}

}  // namespace stridio
