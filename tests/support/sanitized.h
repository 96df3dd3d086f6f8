// What of a test's work a sanitizer, under which it takes ten to fifty times as long, is spared.
#pragma once

#include <cstdint>

namespace stridio::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitized;
#endif

// How often something random is tried; the thread sanitizer, the slowest, is given fewer.
constexpr std::int64_t rounds(std::int64_t otherwise, std::int64_t under_thread_sanitizer) {
  return kThreadSanitized ? under_thread_sanitizer : otherwise;
}

}  // namespace stridio::testing
