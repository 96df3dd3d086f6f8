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

// What whoever waits for a change hears; zeros are one. Who looks first at `rings`, then for the change, and sleeps while that
// word holds what it held, misses none.
struct Bell {
  SharedWord rings;
  SharedWord sleepers;  // on it

  void ring() {
    rings.fetch_add(1);
    if (sleepers.load() > 0) futex_wake(rings);
  }
};

}  // namespace stridio
