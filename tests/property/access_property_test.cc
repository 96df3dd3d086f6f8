// Every way of access, for every class of patterns, under every kind of fault, against the
// byte-array oracle. Cases run from consecutive seeds, crew by crew.
//
// STRIDIO_SEED=n STRIDIO_CASES=1 runs the one case of seed n.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "property/seed.h"
#include "property/trial.h"
#include "property/watchdog.h"

namespace stridio::testing {
namespace {

constexpr const char* kReplay = "STRIDIO_CASES=1 property --gtest_filter='Access*' with STRIDIO_SEED=";

struct Tally {
  std::array<std::int64_t, kCells> cases{};
  std::array<std::int64_t, kCells> struck{};  // in which the fault was met
};

// The cases of one crew.
class Cases final : public Series {
 public:
  Cases(std::vector<std::uint64_t> seeds, ScratchFile& path, Tally& tally, Watchdog& watchdog)
      : seeds_(std::move(seeds)), path_(path), tally_(tally), watchdog_(watchdog) {}

  bool prepare() override {
    if (trial_ && !judge()) return false;
    trial_.reset();
    while (next_ < seeds_.size()) {
      const std::uint64_t seed = seeds_[next_++];
      watchdog_.start(seed);
      trial_.emplace(make_case(seed), path_);
      if (trial_->possible()) return true;
    }
    return false;
  }
  void act(Group& group) override { trial_->act(group); }

 private:
  bool judge() {
    const Case& tried = trial_->tried();
    const auto cell = static_cast<std::size_t>(index_of_cell(tried.seed));
    ++tally_.cases[cell];
    if (trial_->fault_struck()) ++tally_.struck[cell];
    const auto wrong = trial_->wrong();
    if (wrong) ADD_FAILURE() << *wrong << "\nreplay: " << kReplay << tried.seed << "\n" << tried.text();
    return !wrong;
  }

  const std::vector<std::uint64_t> seeds_;
  ScratchFile& path_;
  Tally& tally_;
  Watchdog& watchdog_;
  std::size_t next_ = 0;
  std::optional<Trial> trial_;
};

void expect_every_cell(const Tally& tally) {
  for (int index = 0; index < kCells; ++index) {
    const Cell cell = cell_of(static_cast<std::uint64_t>(index));
    const auto i = static_cast<std::size_t>(index);
    const std::string name = fmt::format("{} x {} x {}", name_of(cell.way), name_of(cell.shape), name_of(cell.fault));
    EXPECT_GE(tally.cases[i], 1000) << name;
    if (cell.fault >= FaultKind::kOnce) {
      EXPECT_GE(tally.struck[i], 250) << name;
    }
  }
}

TEST(AccessProperty, EveryWayAgreesWithTheOracle) {
  const std::uint64_t first = seed_of_run();
  const std::int64_t cases = cases_of_run(1000 * kCells, 5000);
  std::printf("seeds %llu and the %lld after it\n", static_cast<unsigned long long>(first),
              static_cast<long long>(cases - 1));
  std::map<CrewOptions, std::vector<std::uint64_t>> by_crew;
  for (std::int64_t i = 0; i < cases; ++i)
    by_crew[crew_of(first + static_cast<std::uint64_t>(i))].push_back(first + static_cast<std::uint64_t>(i));
  Tally tally;
  ScratchFile path;
  Watchdog watchdog(kReplay);
  for (auto& [crew, seeds] : by_crew) {
    Cases series(std::move(seeds), path, tally, watchdog);
    work_through(crew, series);
    if (HasFailure()) return;
  }
  if (cases >= 1000 * kCells) expect_every_cell(tally);
}

}  // namespace
}  // namespace stridio::testing
