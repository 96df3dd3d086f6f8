// A step sends requests of one kind and takes the least time of a few tries: what disturbs makes slower, never faster.
//   small     one request of a page, alone; of a local storage many of a few bytes, too, and what takes less
//   large     one request of 1 MiB, alone
//   shared    several such requests at once
//   depth     4 small ones under way at once, and where those overlap, 16; writes that lengthen the file, and within it
//   copies    between buffers, in one piece and of many small pieces
//   pages     what a local file's cost by a mapping, also after one long write, and what new ones cost by a mapping and by a call
// What a user moves is seldom in the processor's caches: neither is what is measured here. Of a local storage, whose requests
// are a system call, and of copies the tuned constants stay where they are about right: noise must not decide.
#include "access/calibrate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "access/deep.h"
#include "base/crew.h"
#include "base/guarded.h"
#include "base/of_process.h"
#include "pattern/copy.h"

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kSmall = 4096;
constexpr Bytes kLarge = Bytes{1} << 20;
constexpr int kStreams = 4;
constexpr int kShallowest = 4, kDeepest = 16;  // threads
constexpr double kWorthIt = 1.5;               // times faster
constexpr double kFewTries = 5e-4;             // seconds of a request from which on a step is tried once
constexpr int kRounds = 3;                     // so many times as many requests as threads,
constexpr double kSlowRequest = 2e-3;          // where one takes less than this
constexpr double kRequests = 16;  // small ones in whose time all must be known, on a storage too slow for its budget
constexpr double kMostSeconds = 0.25;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Out of the processor's caches, where there is an instruction for that.
void evict([[maybe_unused]] const std::byte* data, [[maybe_unused]] Bytes length) {
#if defined(__x86_64__)
  constexpr Bytes kLine = 64;
  for (Bytes at = 0; at < length; at += kLine) _mm_clflush(data + at);
  _mm_mfence();
#endif
}

// The least time of `step`, each with `before` before it, as long as there is time.
template <typename Step, typename Before>
Result<double> least_seconds(int tries, Step step, Before before, Clock::time_point until = Clock::time_point::max()) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries && (i == 0 || Clock::now() < until); ++i) {
    RETURN_IF_ERROR(before());
    const auto start = Clock::now();
    RETURN_IF_ERROR(step());
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Of one direction.
class Calibration {
 public:
  Calibration(Storage& storage, const CalibrationRules& rules, std::span<std::byte> buffer)
      : storage_(storage),
        length_(std::ssize(buffer)),
        buffer_(buffer),
        budget_(rules.budget / 2),
        start_(Clock::now()) {}

  Result<StorageCosts> measure(Direction direction) {
    direction_ = direction;
    StorageCosts costs;
    ASSIGN_OR_RETURN(costs.request_seconds, small_seconds());
    budget_ = std::min(std::max(budget_, kRequests * costs.request_seconds), kMostSeconds);
    const int tries = costs.request_seconds > kFewTries ? 1 : 3;
    if (!costs.waits()) {
      ASSIGN_OR_RETURN(const double piece, piece_seconds(tries));
      costs.request_seconds = std::min(costs.request_seconds, piece);
    }
    const Bytes large = std::min(kLarge, length_ / kStreams);
    if (large >= 8 * kSmall) {
      const auto step = [&] { return move({{0, large}}); };
      ASSIGN_OR_RETURN(const double alone, least_seconds(
                                               tries, step, [&] { return evict_all(large); }, until()));
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
  Clock::time_point until() const {
    return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget_));
  }
  bool time_left() const { return Clock::now() < until(); }
  bool most_time_left() const { return seconds_since(start_) < kMostSeconds; }

  // The first request of all pays for what all find made, and counts where more cannot be afforded. One that may be a local one,
  // delayed by what else the machine does, is tried a few times more.
  Result<double> small_seconds() {
    const auto once = [&] { return move({{0, kSmall}}); };
    ASSIGN_OR_RETURN(const double first, least(once, 1));
    ASSIGN_OR_RETURN(const double rest, least(once, first < 1e-4 ? 16 : first < kFewTries ? 4 : 1));
    return std::max(1e-7, std::min(first, rest));
  }

  // One piece of a list.
  Result<double> piece_seconds(int tries) {
    constexpr int kPieces = 64;
    std::vector<Extent> extents;
    for (int i = 0; i < kPieces; ++i) extents.push_back({i * (length_ / kPieces), 8});
    ASSIGN_OR_RETURN(const double seconds, least([&] { return move(extents); }, tries));
    return seconds / kPieces;
  }

  // The file's, too, where they are this machine's memory.
  Status evict_all(Bytes length) {
    evict(buffer_.data(), length);
    const auto evict_file = [](std::byte* data, Bytes present) {
      evict(data, present);
      return Bytes{0};
    };
    if (storage_.caps().maps) (void)storage_.map({0, length}, false, evict_file);
    return {};
  }

  Status measure_overlap(StorageCosts& costs, int tries) {
    of_process<Crew>().run(kDeepest - 1, [] {});  // threads are started once
    double extending = 0;
    if (direction_ == Direction::kWrite) {
      // As many at once as are first tried within the file: one by one they take long enough to be told apart on a busy machine.
      std::vector<Extent> beyond;
      for (int i = kShallowest; i < 2 * kShallowest; ++i) beyond.push_back({i * (length_ / (2 * kShallowest)), kSmall});
      ASSIGN_OR_RETURN(extending, least([&] { return move(beyond, kShallowest); }, 1));
      RETURN_IF_ERROR(move({{length_ - kSmall, kSmall}}));
    }
    // A list is long: to wake its threads takes little of its time, but some of that of a few requests. What a busy machine has
    // taken of the budget does not make requests wait for each other: nothing is as dear as not to know that they overlap.
    const int rounds = costs.request_seconds < kSlowRequest ? kRounds : 1;
    for (int depth = kShallowest; depth <= kDeepest && depth * rounds * kSmall <= length_ && most_time_left();
         depth *= 4) {
      const int count = depth * (depth > kShallowest ? rounds : 1);
      ASSIGN_OR_RETURN(const double seconds, least([&] { return move_list(count, depth); }, tries));
      costs.extends_alone = costs.extends_alone || extending > kWorthIt * seconds;
      const double overlap = count * costs.request_seconds / seconds;
      if (overlap < kWorthIt * costs.overlap) continue;
      costs.depth = depth;
      costs.overlap = std::min(overlap, static_cast<double>(depth));
    }
    return {};
  }

  template <typename Step>
  Result<double> least(Step step, int tries) {
    return least_seconds(
        tries, step, [] { return Status(); }, until());
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
  Status move_list(int count, int depth) {
    std::vector<Extent> extents;
    for (int i = 0; i < count; ++i) extents.push_back({i * (length_ / count), kSmall});
    return move(extents, depth);
  }

  Status move_at_once(Bytes large) {
    std::vector<Extent> extents;
    for (int i = 0; i < kStreams; ++i) extents.push_back({i * large, large - kSmall});
    return move(extents, kStreams);
  }

  Storage& storage_;
  const Bytes length_;  // of the file, too
  const std::span<std::byte> buffer_;
  double budget_;  // of the direction that is measured
  const Clock::time_point start_;
  Direction direction_ = Direction::kRead;
};

constexpr int kTries = 3;

// Memory of which pieces are a cache line or more apart is walked once for each of the pieces that share a line: the first
// time they come from memory, then from the caches, if those are large enough.
constexpr Bytes kWalked = Bytes{8} << 20;
Status measure_copies(std::byte* data, Profile& profile) {
  constexpr Bytes kApart = 192, kPiece = 8, kPiecesOfLine = 8;
  const auto evicted = [&](Bytes length) {
    return [data, length] {
      evict(data, length);
      return Status();
    };
  };
  const auto copy_run = [&] {
    pack(data + kLarge, data, Pattern::run(0, kLarge));
    return Status();
  };
  ASSIGN_OR_RETURN(const double run, least_seconds(kTries, copy_run, evicted(2 * kLarge)));
  profile.copy_byte_seconds = run / static_cast<double>(kLarge);

  const std::int64_t count = kWalked / kApart;
  const Pattern pieces = Pattern::strided(count, kApart, Pattern::run(0, kPiece));
  std::vector<std::byte> packed(static_cast<std::size_t>(count * kPiece));
  const auto gather = [&] {
    pack(packed.data(), data, pieces);
    return Status();
  };
  ASSIGN_OR_RETURN(const double first, least_seconds(2, gather, evicted(kWalked)));
  ASSIGN_OR_RETURN(const double again, least_seconds(2, gather, evicted(0)));
  const double near = profile.copy_range_seconds + kPiece * profile.copy_byte_seconds;
  const double piece = (first + (kPiecesOfLine - 1) * again) / static_cast<double>(kPiecesOfLine * count);
  profile.scattered_range_seconds = piece - near;
  profile.far_range_seconds = first / static_cast<double>(count) - near;
  return {};
}

// A byte of each page, to be moved.
Bytes touch(std::byte* data, Bytes present, bool writes) {
  for (Bytes at = 0; at < present; at += Profile::kPage) {
    volatile std::byte* const byte = data + at;
    const std::byte seen = *byte;
    if (writes) *byte = seen;
  }
  return present;
}

// Of a storage that may be mapped; empties what may be written.
Status measure_pages(Storage& storage, bool writes, std::span<const std::byte> data, Profile& profile) {
  const Bytes length = std::ssize(data);
  const auto map = [&](Bytes bytes, bool writing) {
    return [&storage, bytes, writing]() -> Status {
      const auto body = [writing](std::byte* mapped, Bytes present) { return touch(mapped, present, writing); };
      RETURN_IF_ERROR(storage.map({0, bytes}, writing, body));
      return {};
    };
  };
  const auto nothing = [] { return Status(); };
  const auto pages = static_cast<double>(length / Profile::kPage);
  ASSIGN_OR_RETURN(profile.map_seconds, least_seconds(kTries, map(Profile::kPage, false), nothing));
  ASSIGN_OR_RETURN(const double read, least_seconds(kTries, map(length, false), nothing));
  profile.read_page_seconds = profile.run_page_seconds = (read - profile.map_seconds) / pages;
  if (!writes) return {};

  const auto empty = [&] { return storage.resize(0); };
  const auto write = [&]() -> Status {
    RETURN_IF_ERROR(storage.write({0, length}, data.data()));
    return {};
  };
  ASSIGN_OR_RETURN(const double new_written, least_seconds(kTries, write, empty));
  ASSIGN_OR_RETURN(const double read_run, least_seconds(kTries, map(length, false), nothing));
  ASSIGN_OR_RETURN(const double written, least_seconds(kTries, write, nothing));
  ASSIGN_OR_RETURN(const double new_mapped, least_seconds(kTries, map(length, true), empty));
  ASSIGN_OR_RETURN(const double mapped, least_seconds(kTries, map(length, true), nothing));
  profile.run_page_seconds = (read_run - profile.map_seconds) / pages;
  profile.new_page_seconds = (new_written - written) / pages;
  profile.new_mapped_page_seconds = (new_mapped - mapped) / pages;
  profile.written_page_seconds = (mapped - profile.map_seconds) / pages;
  return {};
}

constexpr double kPagesOfFolio = 16;  // in one of which a page costs so much less than by itself, at most

// A tuned constant comes from more than a few tries, and stays where it is about right.
double settled(double measured, double tuned, double most_below = 4) {
  constexpr double kAboutRight = 1.2;
  if (measured < kAboutRight * tuned && measured > tuned / kAboutRight) return tuned;
  return std::max(measured, tuned / most_below);
}

StorageCosts settled(const StorageCosts& measured) {
  const StorageCosts tuned;
  if (measured.waits()) return measured;
  return {.request_seconds = settled(measured.request_seconds, tuned.request_seconds),
          .byte_seconds = settled(measured.byte_seconds, tuned.byte_seconds),
          .shared_byte_seconds = settled(measured.shared_byte_seconds, tuned.shared_byte_seconds),
          .depth = tuned.depth,
          .overlap = tuned.overlap};
}

void settle(Profile& profile) {
  const Profile tuned;
  profile.read = settled(profile.read);
  profile.write = settled(profile.write);
  for (double Profile::*const constant :
       {&Profile::copy_byte_seconds, &Profile::scattered_range_seconds, &Profile::map_seconds,
        &Profile::read_page_seconds, &Profile::written_page_seconds, &Profile::new_page_seconds,
        &Profile::new_mapped_page_seconds})
    profile.*constant = settled(profile.*constant, tuned.*constant);
  profile.run_page_seconds = settled(profile.run_page_seconds, tuned.run_page_seconds, kPagesOfFolio);
  // What is walked here spans fewer pages than a program's memory, and no other core asks for memory meanwhile.
  profile.far_range_seconds = settled(profile.far_range_seconds, tuned.far_range_seconds, 2);
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
    std::vector<std::byte> memory(static_cast<std::size_t>(std::max(length, kWalked)), std::byte{1});
    const std::span<std::byte> buffer = std::span(memory).first(static_cast<std::size_t>(length));
    Profile profile;
    if (rules.writes) {
      ASSIGN_OR_RETURN(profile.write, Calibration(storage, rules, buffer).measure(Direction::kWrite));
      if (!profile.write.waits()) RETURN_IF_ERROR(storage.resize(length));  // else it was written that far
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, rules, buffer).measure(Direction::kRead));
      if (profile.write.waits() && storage.has_locks()) {
        const auto start = Clock::now();
        if (storage.lock({0, kSmall}, LockMode::kExclusive))
          profile.lock_seconds = std::max(profile.lock_seconds, seconds_since(start));
      }
    } else {
      ASSIGN_OR_RETURN(profile.read, Calibration(storage, rules, buffer).measure(Direction::kRead));
      profile.write = profile.read;
    }
    RETURN_IF_ERROR(measure_copies(memory.data(), profile));
    if (storage.caps().maps && !profile.write.waits()) {
      auto measured = profile;
      const std::span<const std::byte> pages = buffer.first(static_cast<std::size_t>(std::min(length, kLarge)));
      if (measure_pages(storage, rules.writes, pages, measured)) profile = measured;
    }
    settle(profile);
    profile.measured_at =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    return profile;
  });
}

}  // namespace stridio
