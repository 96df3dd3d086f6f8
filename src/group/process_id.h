// Whether another process of this machine still lives, told apart from a later one with the same
// number.
#pragma once

#include <cstdint>

namespace stridio {

// Plain data, meant to be put where other processes read it.
struct ProcessId {
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;     // in clock ticks since boot; 0: unknown
  std::uint64_t pid_namespace = 0;  // 0: unknown
};

ProcessId this_process();

// Whether has_died() can be asked about the process: not across pid namespaces, nor without /proc.
bool can_watch(const ProcessId& process);
// Only for what can_watch() said yes to. A zombie has died; where the answer cannot be had, it has
// not.
bool has_died(const ProcessId& process);

}  // namespace stridio
