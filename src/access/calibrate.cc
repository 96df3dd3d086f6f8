// A step sends requests of one kind and takes the least time of a few tries: what disturbs makes slower, never faster.
//   small     one request of a page, alone
//   large     one request of 1 MiB, alone
//   shared    several such requests at once, on a thread each
//   depth     4 small ones in one list, and where those overlap, 16, 64
// Local storages, whose requests are a system call, keep the tuned constants in all that does not differ twofold: noise of
// the page cache must not decide.
#include "access/calibrate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/guarded.h"

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kSmall = 4096;
constexpr Bytes kLarge = Bytes{1} << 20;
constexpr int kStreams = 4;

class Calibration {
 public:
  Calibration(Storage& storage, const CalibrationRules& rules, Bytes length)
      : storage_(storage), rules_(rules), length_(length), buffer_(static_cast<std::size_t>(length), std::byte{1}),
        start_(Clock::now()) {}

  Result<StorageCosts> measure(Direction direction) {
    direction_ = direction;
    ASSIGN_OR_RETURN(const double small, small_seconds());
    StorageCosts costs;
    costs.request_seconds = small;
    const Bytes large = std::min(kLarge, length_ / kStreams);
    if (large >= 8 * kSmall) {
      ASSIGN_OR_RETURN(const double alone, least([&] { return move({{0, large}}); }, 3));
      costs.byte_seconds = per_byte(alone - small, large);
      costs.shared_byte_seconds = costs.byte_seconds;
      if (time_left()) {
        ASSIGN_OR_RETURN(const double together, least([&] { return move_at_once(large); }, 2));
        // Less than a stream alone is no news: the threads' start costs something too.
        costs.shared_byte_seconds = std::min(costs.byte_seconds, per_byte(together - small, kStreams * large));
      }
    }
    for (int requests = 4; requests <= 64 && requests * 2 * kSmall <= length_ && time_left(); requests *= 4) {
      ASSIGN_OR_RETURN(const double seconds, least([&] { return move_list(requests); }, 2));
      const double depth = std::clamp(requests * small / seconds, 1.0, static_cast<double>(requests));
      costs.depth = std::max(costs.depth, depth);
      if (depth < 0.6 * requests) break;
    }
    return costs;
  }

 private:
  bool time_left() const { return std::chrono::duration<double>(Clock::now() - start_).count() < rules_.budget; }

  // The first request of all pays for what all find made: it is not counted where a second is affordable.
  Result<double> small_seconds() {
    const auto once = [&] { return move({{0, kSmall}}); };
    ASSIGN_OR_RETURN(const double first, least(once, 1));
    ASSIGN_OR_RETURN(const double rest, least(once, first < 1e-4 ? 16 : first < 3e-3 ? 2 : 1));
    return std::max(1e-7, rest);
  }

  template <typename Step>
  Result<double> least(Step step, int tries) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < tries && (i == 0 || time_left()); ++i) {
      const auto start = Clock::now();
      RETURN_IF_ERROR(step());
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
  }

  static double per_byte(double seconds, Bytes bytes) {
    return std::max(1e-12, seconds / static_cast<double>(bytes));
  }

  Status move(const std::vector<Extent>& extents) {
    std::vector<Span> spans;
    for (const Extent& extent : extents) spans.push_back({buffer_.data() + extent.offset, extent.length});
    const auto moved = direction_ == Direction::kRead ? storage_.readv(extents, spans) : storage_.writev(extents, spans);
    if (!moved) return fail(moved.error());
    if (moved->eof) return fail(Code::kIo, "calibration: the file became shorter");
    return {};
  }

  // Apart from one another, so that they are requests of their own.
  Status move_list(int requests) {
    std::vector<Extent> extents;
    for (int i = 0; i < requests; ++i) extents.push_back({i * (length_ / requests / kSmall * kSmall), kSmall});
    return move(extents);
  }

  Status move_at_once(Bytes large) {
    std::array<Status, kStreams> results;
    std::vector<std::jthread> threads;
    for (int i = 1; i < kStreams; ++i)
      threads.emplace_back([&, i] { results[static_cast<std::size_t>(i)] = guarded([&] { return move({{i * large, large}}); }); });
    results[0] = move({{0, large}});
    threads.clear();
    for (const Status& result : results) RETURN_IF_ERROR(result);
    return {};
  }

  Storage& storage_;
  const CalibrationRules& rules_;
  const Bytes length_;
  std::vector<std::byte> buffer_;
  const Clock::time_point start_;
  Direction direction_ = Direction::kRead;
};

double settled(double measured, double tuned) {
  return measured > 2 * tuned || measured < tuned / 2 ? measured : tuned;
}

StorageCosts settled(const StorageCosts& measured) {
  const StorageCosts tuned;
  if (measured.waits()) return measured;
  return {.request_seconds = settled(measured.request_seconds, tuned.request_seconds),
          .byte_seconds = settled(measured.byte_seconds, tuned.byte_seconds),
          .shared_byte_seconds = settled(measured.shared_byte_seconds, tuned.shared_byte_seconds),
          .depth = settled(measured.depth, tuned.depth)};
}

}  // namespace

Result<Profile> calibrate(Storage& storage, const CalibrationRules& rules) {
  return guarded([&]() -> Result<Profile> {
    Bytes length = rules.most;
    if (!rules.writes) {
      ASSIGN_OR_RETURN(const Bytes size, storage.size());
      length = std::min(length, size);
    }
    if (length < kSmall) return fail(Code::kOther, "calibration: too few bytes to measure on");
    Profile profile;
    if (rules.writes) {
      CalibrationRules half = rules;
      half.budget = rules.budget / 2;
      ASSIGN_OR_RETURN(profile.write, Calibration(storage, half, length).measure(Direction::kWrite));
      std::byte last{};
      RETURN_IF_ERROR(storage.write({length - 1, 1}, &last));
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, half, length).measure(Direction::kRead));
      profile.write = settled(profile.write);
      profile.read = settled(profile.read);
    } else {
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, rules, length).measure(Direction::kRead));
      profile.write = profile.read = settled(profile.read);
    }
    profile.measured_at = std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::system_clock::now().time_since_epoch()).count();
    return profile;
  });
}

}  // namespace stridio
