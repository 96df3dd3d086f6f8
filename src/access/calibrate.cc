// A step sends requests of one kind and takes the least time of a few tries: what disturbs makes slower, never faster.
//   small     one request of a page, alone
//   large     one request of 1 MiB, alone
//   shared    several such requests at once
//   depth     4 small ones under way at once, and where those overlap, 16; writes that lengthen the file, and within it
// Local storages, whose requests are a system call, keep the tuned constants in all that is not twice as slow: noise of the
// page cache must not decide, and the same bytes again and again stay in the processor's caches as no user's do.
#include "access/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "access/deep.h"
#include "base/guarded.h"

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kSmall = 4096;
constexpr Bytes kLarge = Bytes{1} << 20;
constexpr int kStreams = 4;
constexpr int kDeepest = 16;        // threads
constexpr double kWorthIt = 1.5;    // times faster
constexpr double kFewTries = 5e-4;  // seconds of a request from which on a step is tried once
constexpr double kRequests = 16;    // small ones in whose time all must be known, on a storage too slow for its budget
constexpr double kMostSeconds = 0.25;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Calibration {
 public:
  Calibration(Storage& storage, const CalibrationRules& rules, Bytes length)
      : storage_(storage),
        length_(length),
        buffer_(static_cast<std::size_t>(length), std::byte{1}),
        budget_(rules.budget / 2),
        start_(Clock::now()) {}

  Result<StorageCosts> measure(Direction direction) {
    direction_ = direction;
    StorageCosts costs;
    ASSIGN_OR_RETURN(costs.request_seconds, small_seconds());
    budget_ = std::min(std::max(budget_, kRequests * costs.request_seconds), kMostSeconds);
    const int tries = costs.request_seconds > kFewTries ? 1 : 3;
    const Bytes large = std::min(kLarge, length_ / kStreams);
    if (large >= 8 * kSmall) {
      ASSIGN_OR_RETURN(const double alone, least([&] { return move({{0, large}}); }, tries));
      costs.byte_seconds = costs.shared_byte_seconds = per_byte(alone - costs.request_seconds, large);
    }
    if (costs.waits()) RETURN_IF_ERROR(measure_overlap(costs, tries));
    if (large < 8 * kSmall) return costs;
    if (!time_left()) return costs;
    ASSIGN_OR_RETURN(const double together, least([&] { return move_at_once(large); }, tries));
    // Several that are slower than one are no news: starting them costs something too.
    costs.shared_byte_seconds =
        std::min(costs.byte_seconds, per_byte(together - costs.request_seconds, kStreams * (large - kSmall)));
    return costs;
  }

 private:
  bool time_left() const { return seconds_since(start_) < budget_; }

  // The first request of all pays for what all find made, and counts where more cannot be afforded.
  Result<double> small_seconds() {
    const auto once = [&] { return move({{0, kSmall}}); };
    ASSIGN_OR_RETURN(const double first, least(once, 1));
    ASSIGN_OR_RETURN(const double rest, least(once, first < 1e-4 ? 16 : 1));
    return std::max(1e-7, std::min(first, rest));
  }

  Status measure_overlap(StorageCosts& costs, int tries) {
    double extending = 0;
    if (direction_ == Direction::kWrite) {
      const auto extend_twice = [&] { return move({{length_ / 2, kSmall}, {length_ / 4 * 3, kSmall}}, 2); };
      ASSIGN_OR_RETURN(extending, least(extend_twice, 1));
      RETURN_IF_ERROR(move({{length_ - kSmall, kSmall}}));
    }
    for (int depth = 4; depth <= kDeepest && depth * kSmall <= length_ && time_left(); depth *= 4) {
      ASSIGN_OR_RETURN(const double seconds, least([&] { return move_list(depth); }, tries));
      costs.extends_alone = costs.extends_alone || extending > kWorthIt * seconds;
      const double overlap = depth * costs.request_seconds / seconds;
      if (overlap < kWorthIt * costs.overlap) continue;
      costs.depth = depth;
      costs.overlap = std::min(overlap, static_cast<double>(depth));
    }
    return {};
  }

  template <typename Step>
  Result<double> least(Step step, int tries) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < tries && (i == 0 || time_left()); ++i) {
      const auto start = Clock::now();
      RETURN_IF_ERROR(step());
      best = std::min(best, seconds_since(start));
    }
    return best;
  }

  static double per_byte(double seconds, Bytes bytes) { return std::max(1e-12, seconds / static_cast<double>(bytes)); }

  Status move(const std::vector<Extent>& extents, int depth = 1) {
    std::vector<Span> spans;
    for (const Extent& extent : extents) spans.push_back({buffer_.data() + extent.offset, extent.length});
    ASSIGN_OR_RETURN(const Transferred moved, transfer_deep(storage_, direction_, extents, spans, {.depth = depth}));
    if (moved.eof) return fail(Code::kIo, "calibration: the file became shorter");
    return {};
  }

  // Apart from one another, so that they are requests of their own.
  Status move_list(int depth) {
    std::vector<Extent> extents;
    for (int i = 0; i < depth; ++i) extents.push_back({i * (length_ / depth), kSmall});
    return move(extents, depth);
  }

  Status move_at_once(Bytes large) {
    std::vector<Extent> extents;
    for (int i = 0; i < kStreams; ++i) extents.push_back({i * large, large - kSmall});
    return move(extents, kStreams);
  }

  Storage& storage_;
  const Bytes length_;
  std::vector<std::byte> buffer_;
  double budget_;  // of the direction that is measured
  const Clock::time_point start_;
  Direction direction_ = Direction::kRead;
};

double settled(double measured, double tuned) { return measured > 2 * tuned ? measured : tuned; }

StorageCosts settled(const StorageCosts& measured) {
  const StorageCosts tuned;
  if (measured.waits()) return measured;
  return {.request_seconds = settled(measured.request_seconds, tuned.request_seconds),
          .byte_seconds = settled(measured.byte_seconds, tuned.byte_seconds),
          .shared_byte_seconds = settled(measured.shared_byte_seconds, tuned.shared_byte_seconds),
          .depth = tuned.depth,
          .overlap = tuned.overlap};
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
      ASSIGN_OR_RETURN(profile.write, Calibration(storage, rules, length).measure(Direction::kWrite));
      std::byte last{};
      RETURN_IF_ERROR(storage.write({length - 1, 1}, &last));
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, rules, length).measure(Direction::kRead));
      if (profile.write.waits() && storage.has_locks()) {
        const auto start = Clock::now();
        if (storage.lock({0, kSmall}, LockMode::kExclusive))
          profile.lock_seconds = std::max(profile.lock_seconds, seconds_since(start));
      }
      profile.write = settled(profile.write);
      profile.read = settled(profile.read);
    } else {
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, rules, length).measure(Direction::kRead));
      profile.write = profile.read = settled(profile.read);
    }
    profile.measured_at =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    return profile;
  });
}

}  // namespace stridio
