#include "group/overdue.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace stridio {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr std::size_t kListed = 16;
constexpr int kSayers = 64;

thread_local std::pair<const char*, const std::string*> current{nullptr, nullptr};

Milliseconds limit_from_environment() {
  constexpr double kDefault = 60, kMost = 1e9;
  const char* const text = std::getenv("STRIDIO_HANG_SECONDS");
  if (text == nullptr) return Milliseconds(static_cast<std::int64_t>(kDefault * 1000));
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end != text && *end == '\0' && seconds >= 0 && seconds <= kMost)
    return Milliseconds(static_cast<std::int64_t>(seconds * 1000));
  warn(fmt::format("STRIDIO_HANG_SECONDS={} is no number of seconds; {} it is", text, kDefault));
  return Milliseconds(static_cast<std::int64_t>(kDefault * 1000));
}

}  // namespace

InCall::InCall(const char* call, const std::string& path) : before_(std::exchange(current, {call, &path})) {}
InCall::~InCall() { current = before_; }

std::string InCall::name() {
  if (current.first == nullptr) return "a call";
  return *current.first == 'P' ? current.first + 1 : current.first;
}

Milliseconds Patience::limit() {
  static const Milliseconds limit = limit_from_environment();
  return limit;
}

bool Patience::ends() {
  if (ended_ || limit() == Milliseconds::zero() || std::chrono::steady_clock::now() - begin_ < limit()) return false;
  return ended_ = true;
}

std::string Patience::text() const {
  return fmt::format("has waited {} s in {}{}{}", std::chrono::duration<double>(limit()).count(), InCall::name(),
                     current.second == nullptr ? "" : " of ", current.second == nullptr ? "" : *current.second);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t listed = std::min(ranks.size(), kListed);
  for (std::size_t i = 0; i < listed; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (listed < ranks.size()) text += fmt::format(" and {} more", ranks.size() - listed);
  return text;
}

void say_alone(const Patience& patience, int rank, int size, const std::vector<int>& whom) {
  if (rank >= kSayers) return;
  warn(fmt::format("rank {} of {} {}{}; each rank{} that waits says so, and those that do not are missing", rank, size,
                   patience.text(), whom.empty() ? "" : " for " + list_of(whom),
                   size > kSayers ? fmt::format(" below {}", kSayers) : ""));
}

struct Alarm::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
};

Alarm::Alarm(int rank, int size) : state_(std::make_shared<State>()) {
  if (size == 1 || Patience::limit() == Milliseconds::zero()) return;
  try {
    thread_ = start_without_signals([state = state_, rank, size, call = current, patience = Patience()] {
      std::unique_lock lock(state->mutex);
      if (state->changed.wait_for(lock, Patience::limit(), [&] { return state->over; })) return;
      current = call;
      say_alone(patience, rank, size);
    });
  } catch (const std::system_error&) {
    // A limit of threads: a call without the warning is better than one that the others wait for in vain.
  }
}

Alarm::~Alarm() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->over = true;
  }
  state_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace stridio
