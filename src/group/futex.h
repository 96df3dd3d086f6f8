// Sleeping on a 32-bit word that several processes map. Spurious returns are allowed everywhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stridio {

using SharedWord = std::atomic<std::uint32_t>;
static_assert(SharedWord::is_always_lock_free && sizeof(SharedWord) == 4);

enum class Nap { kChanged, kTimedOut };

// Sleeps while `word` holds `seen`, at most `longest`.
Nap futex_sleep(SharedWord& word, std::uint32_t seen, std::chrono::nanoseconds longest);
// Wakes all that sleep on `word`.
void futex_wake(SharedWord& word);

}  // namespace stridio
