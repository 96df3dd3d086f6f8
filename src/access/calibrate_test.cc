#include "access/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

#include "storage/memory.h"
#include "storage/wrap/delay.h"
#include "storage/wrap/fault.h"
#include "storage/wrap/trace.h"
#include "support/sanitized.h"
#include "support/wrapped_storage.h"

namespace stridio {
namespace {

using namespace std::chrono_literals;
using testing::kSanitized;

constexpr OpenMode kBoth{.read = true, .write = true};

std::unique_ptr<Storage> far(std::chrono::nanoseconds latency, double bytes_per_second) {
  const DelayModel model{.latency = latency, .bytes_per_second = bytes_per_second};
  return wrap_delay(open_memory(make_memory_file(), kBoth), std::make_shared<DelayLine>(model));
}

bool near(double measured, double true_one) { return measured > true_one / 1.3 && measured < true_one * 1.3; }

// Others use the machine: of the attempts of 45 seconds one must be right, and is, where the machine lets it run. An attempt says
// what was wrong.
template <typename Attempt>
void once_undisturbed(Attempt attempt) {
  const auto until = std::chrono::steady_clock::now() + 45s;
  std::string wrong;
  do {
    wrong = attempt();
    if (wrong.empty()) return;
  } while (std::chrono::steady_clock::now() < until);
  ADD_FAILURE() << wrong;
}

class CalibrateLatency : public ::testing::TestWithParam<std::chrono::microseconds> {};

TEST_P(CalibrateLatency, FindsLatencyBandwidthAndOverlap) {
  if (kSanitized) GTEST_SKIP() << "copies of a sanitized build are slower than the line";
  constexpr double kLine = 1e8;  // bytes a second: a copy on a slow day takes a twentieth of that
  const double latency = std::chrono::duration<double>(GetParam()).count();
  once_undisturbed([&]() -> std::string {
    const auto profile = calibrate(*far(GetParam(), kLine), {.writes = true, .budget = 0.5});
    if (!profile) return profile.error().text();
    EXPECT_GT(profile->measured_at, 0);
    bool right = true;
    for (const StorageCosts& costs : {profile->read, profile->write})
      right = right && costs.waits() && near(costs.request_seconds, latency) && near(costs.byte_seconds, 1 / kLine) &&
              costs.depth >= 4 && costs.overlap > 2.5;  // the line takes any number of requests at once
    return right ? "" : describe(*profile);
  });
}
INSTANTIATE_TEST_SUITE_P(Far, CalibrateLatency, ::testing::Values(1000us, 3000us, 10000us));

TEST(Calibrate, IsShort) {
  if (kSanitized) GTEST_SKIP() << "threads of a sanitized build start late";
  once_undisturbed([&]() -> std::string {
    const auto storage = far(1ms, 1e9);
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t worked = std::clock();
    const auto profile = calibrate(*storage, {.writes = true});
    const double working = static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!profile) return profile.error().text();
    const double requests = (seconds.count() - working) / profile->write.request_seconds;
    return requests < 35 ? "" : std::to_string(requests) + " requests of 1 ms, without what processors took";
  });
}

TEST(Calibrate, KeepsTunedConstantsNearby) {
  once_undisturbed([]() -> std::string {
    const auto profile = calibrate(*open_memory(make_memory_file(), kBoth), {.writes = true});
    if (!profile) return profile.error().text();
    return !profile->read.waits() && profile->read.depth == 1 ? "" : describe(*profile);
  });
}

// Where writes that lengthen the file wait for each other.
class GrowsByOne final : public Wrapped {
 public:
  explicit GrowsByOne(std::chrono::nanoseconds latency) : Wrapped(far(latency, 1e9)) {}

  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (extents.back().end() > end_) lock.lock();
    auto written = Wrapped::writev(extents, memory);
    if (lock.owns_lock()) end_ = std::max(end_.load(), extents.back().end());
    return written;
  }

 private:
  std::mutex mutex_;
  std::atomic<Offset> end_ = 0;
};

TEST(Calibrate, SeesWhetherWritesOverlapWithinTheFileOnly) {
  if (kSanitized) GTEST_SKIP() << "threads of a sanitized build start late";
  once_undisturbed([]() -> std::string {
    GrowsByOne grows(3ms);
    const auto profile = calibrate(grows, {.writes = true});
    if (!profile) return profile.error().text();
    return profile->write.extends_alone && profile->write.depth > 1 ? "" : describe(*profile);
  });
}

// Where lists are slow, as the first is where a file's memory is new and others take the cores.
class SlowLists final : public Wrapped {
 public:
  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    wait_for(extents);
    return Wrapped::readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    wait_for(extents);
    return Wrapped::writev(extents, memory);
  }

 private:
  static void wait_for(std::span<const Extent> extents) {
    if (extents.size() > 1) std::this_thread::sleep_for(10ms);
  }
};

TEST(Calibrate, ASlowListMakesNoFarStorage) {
  once_undisturbed([]() -> std::string {
    SlowLists slow;
    const auto profile = calibrate(slow, {.writes = true});
    if (!profile) return profile.error().text();
    return profile->read.waits() || profile->write.waits() ? describe(*profile) : "";
  });
}

// Where the third write is delayed, as on a machine that others keep busy.
class Stalls final : public Wrapped {
 public:
  explicit Stalls(std::chrono::nanoseconds latency) : Wrapped(far(latency, 1e9)) {}

  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (++writes_ == 3) std::this_thread::sleep_for(100ms);
    return Wrapped::writev(extents, memory);
  }

 private:
  std::atomic<int> writes_ = 0;
};

TEST(Calibrate, SeesThatRequestsOverlapWhateverTheOthersTake) {
  if (kSanitized) GTEST_SKIP() << "threads of a sanitized build start late";
  once_undisturbed([]() -> std::string {
    Stalls stalls(1ms);
    const auto profile = calibrate(stalls, {.writes = true});
    if (!profile) return profile.error().text();
    return profile->write.depth > 1 && profile->write.overlap > 2 ? "" : describe(*profile);
  });
}

// Where each page of a mapping costs what it says.
class DearPages final : public Wrapped {
 public:
  DearPages(double page_seconds, double new_page_seconds)
      : page_seconds_(page_seconds), new_page_seconds_(new_page_seconds) {}

  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    const Bytes fresh = writes ? std::max<Bytes>(0, range.end() - size().value()) : 0;
    const double seconds = static_cast<double>(range.length) / Profile::kPage * page_seconds_ +
                           static_cast<double>(fresh) / Profile::kPage * new_page_seconds_;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return Wrapped::map(range, writes, body);
  }

 private:
  const double page_seconds_, new_page_seconds_;
};

TEST(Calibrate, SeesWhatPagesCostHere) {
  if (kSanitized) GTEST_SKIP() << "requests of a sanitized build are slow enough for a far storage";
  once_undisturbed([]() -> std::string {
    DearPages dear(2e-5, 5e-5);
    const auto profile = calibrate(dear, {.writes = true});
    if (!profile) return profile.error().text();
    bool right = profile->new_mapped_page_seconds > 2e-5 && profile->new_page_seconds < 1e-5;  // calls do not map
    for (const double seconds : {profile->read_page_seconds, profile->written_page_seconds})
      right = right && seconds > 1e-5 && seconds < 1e-4;
    return right ? "" : describe(*profile);
  });
}

// Where pages cost less to map if they were written by one long call.
class Folios final : public Wrapped {
 public:
  Status resize(Bytes size) override {
    if (size == 0) run_ = false;
    return Wrapped::resize(size);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (extents.size() == 1 && extents[0].offset == 0 && size().value() == 0) run_ = extents[0].length >= 1 << 19;
    return Wrapped::writev(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    const double page_seconds = run_ ? 5e-6 : 4e-5;
    std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(range.length) / 4096 * page_seconds));
    return Wrapped::map(range, writes, body);
  }

 private:
  std::atomic<bool> run_ = false;
};

TEST(Calibrate, SeesWhatPagesOfALongRunCost) {
  if (kSanitized) GTEST_SKIP() << "requests of a sanitized build are slow enough for a far storage";
  once_undisturbed([]() -> std::string {
    Folios folios;
    const auto profile = calibrate(folios, {.writes = true});
    if (!profile) return profile.error().text();
    return profile->read_page_seconds > 3e-5 && profile->run_page_seconds < 1.5e-5 ? "" : describe(*profile);
  });
}

TEST(Calibrate, NeverBelievesWhatIsTooGood) {
  const auto profile = calibrate(*open_memory(make_memory_file(), kBoth), {.writes = true});
  ASSERT_TRUE(profile);
  const Profile tuned;
  EXPECT_GE(profile->read_page_seconds, tuned.read_page_seconds / 4);  // no page table is touched
  EXPECT_GE(profile->read.request_seconds, tuned.read.request_seconds / 4);
}

TEST(Calibrate, OnlyReadsWhatIsNotItsOwn) {
  const auto file = make_memory_file();
  std::vector<std::byte> data(1 << 20, std::byte{7});
  ASSERT_TRUE(open_memory(file, kBoth)->write({0, 1 << 20}, data.data()));
  const auto counters = std::make_shared<StorageCounters>();
  const auto line = std::make_shared<DelayLine>(DelayModel{.latency = 1ms});
  const auto storage = wrap_trace(wrap_delay(open_memory(file, kBoth), line), counters);
  const auto profile = calibrate(*storage, {.writes = false});
  ASSERT_TRUE(profile);
  EXPECT_EQ(counters->write.calls, 0);
  EXPECT_GE(profile->read.request_seconds, 1e-3);
  EXPECT_EQ(profile->write.request_seconds, profile->read.request_seconds);
}

TEST(Calibrate, FailsWhereThereIsNothingToMeasureOn) {
  EXPECT_FALSE(calibrate(*open_memory(make_memory_file(), kBoth), {.writes = false}));
  for (int operation = 0; operation < 8; ++operation) {
    const auto storage = wrap_fault(open_memory(make_memory_file(), kBoth),
                                    {.kinds = kFaultAny, .first = operation, .every = 1, .sys_errno = ENOSPC});
    EXPECT_FALSE(calibrate(*storage, {.writes = true})) << operation;
  }
}

}  // namespace
}  // namespace stridio
