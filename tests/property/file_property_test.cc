// Open files of groups, through views, pointers, hints, modes and mistakes, step by step against a
// model of MPI's definitions.
//
// STRIDIO_SEED=n STRIDIO_CASES=1 runs the one case of seed n.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "property/file_step.h"
#include "property/seed.h"
#include "property/watchdog.h"
#include "storage/testing/temp_directory.h"

namespace stridio::testing {
namespace {

constexpr const char* kReplay = "STRIDIO_CASES=1 property --gtest_filter='File*' with STRIDIO_SEED=";

// One open file, from open to close.
class FileTrial {
 public:
  FileTrial(const FileSetting& setting, ScratchFile& path) : world_(setting, path) { next(); }

  // False when the file is closed.
  bool next();
  void act(Group& group);
  std::optional<std::string> wrong();
  bool struck() const { return struck_; }
  std::string text() const { return world_.setting.text() + history_; }

 private:
  std::optional<std::string> wrong_watch() const;
  std::optional<std::string> wrong_pointers() const;
  std::optional<std::string> wrong_failure();

  World world_;
  std::unique_ptr<Step> step_;
  std::string history_;
  bool struck_ = false;
};

bool FileTrial::next() {
  const bool opened = world_.ranks.front().file != nullptr;
  if (world_.step > 0 && !opened) return false;
  if (world_.step == 0)
    step_ = open_step();
  else if (struck_ || world_.step > world_.setting.steps)
    step_ = close_step();
  else
    step_ = draw_step(world_);
  history_ += "\n  " + step_->text();
  ++world_.step;
  for (RankSide& side : world_.ranks) side.failures_before = side.watch.failures;
  return true;
}

void FileTrial::act(Group& group) {
  RankSide& side = world_.side(group.rank());
  side.result = step_->act(world_, group);
}

std::optional<std::string> FileTrial::wrong_watch() const {
  for (std::size_t rank = 0; rank < world_.ranks.size(); ++rank) {
    const Watch& watch = world_.ranks[rank].watch;
    if (const auto& range = watch.unlocked_write)
      return fmt::format("rank {} writes {} bytes at {} without a lock", rank, range->length, range->offset);
    if (const auto& range = watch.stray_write)
      return fmt::format("rank {} writes {} bytes at {}, which nobody asked for", rank, range->length, range->offset);
  }
  return std::nullopt;
}

std::optional<std::string> FileTrial::wrong_pointers() const {
  for (std::size_t rank = 0; rank < world_.ranks.size(); ++rank) {
    const RankSide& side = world_.ranks[rank];
    if (!side.file) continue;
    const auto position = side.file->position();
    if (!world_.setting.mode.sequential && (!position || *position != side.pointer / side.view.etype()))
      return fmt::format("rank {} is at {}, right is {}", rank, position.value_or(-1),
                         side.pointer / side.view.etype());
    const auto shared = side.file->position_shared();
    if (!shared || *shared != world_.shared_pointer / side.view.etype())
      return fmt::format("the shared pointer is at {}, right is {}", shared.value_or(-1),
                         world_.shared_pointer / side.view.etype());
  }
  return std::nullopt;
}

// Where a fault was met: who fails, with which error, and that no byte changed that nobody asked to
// change.
std::optional<std::string> FileTrial::wrong_failure() {
  const Code right = code_of_errno(world_.setting.fault.sys_errno);
  Ownership::Writers failed = 0;
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Result<Bytes>& result = world_.side(rank).result;
    const bool fails = world_.fails(rank, step_->collective());
    if (fails == result.has_value())
      return fmt::format("rank {} {}", rank, fails ? "succeeds" : "fails: " + result.error().text());
    if (fails && result.error().code != right)
      return fmt::format("rank {} fails with another error: {}", rank, result.error().text());
    if (fails) failed |= set_of(rank);
  }
  const Ownership& owners = step_->owners();
  Image image = world_.contents();
  for (std::size_t at = 0; at < std::max(image.size(), world_.image.size()); ++at) {
    if (static_cast<Offset>(at) < owners.upper() && owners.at(static_cast<Offset>(at)) != 0) continue;
    const std::byte was = at < world_.image.size() ? world_.image[at] : std::byte{0};
    if (at >= image.size() || image[at] != was)
      return fmt::format("byte {} of the file changed, which nobody asked for", at);
  }
  world_.image = std::move(image);  // the close may fail, too
  return std::nullopt;
}

std::optional<std::string> FileTrial::wrong() {
  struck_ = struck_ || world_.any_struck();
  if (auto wrong = wrong_watch()) return wrong;
  if (world_.any_struck()) return wrong_failure();
  if (auto wrong = step_->wrong(world_)) return wrong;
  return struck_ ? std::nullopt : wrong_pointers();
}

// The cases of one crew.
class FileCases final : public Series {
 public:
  FileCases(std::vector<std::uint64_t> seeds, ScratchFile& path, Watchdog& watchdog, std::int64_t& struck)
      : seeds_(std::move(seeds)), path_(path), watchdog_(watchdog), struck_(struck) {}

  bool prepare() override {
    if (trial_) {
      if (!judge()) return false;
      if (trial_->next()) return true;
      if (trial_->struck()) ++struck_;
    }
    if (next_ == seeds_.size()) return false;
    watchdog_.start(seeds_[next_]);
    trial_.emplace(make_setting(seeds_[next_++]), path_);
    return true;
  }
  void act(Group& group) override { trial_->act(group); }

 private:
  bool judge() {
    const auto wrong = trial_->wrong();
    if (wrong) ADD_FAILURE() << *wrong << "\nreplay: " << kReplay << seeds_[next_ - 1] << "\n" << trial_->text();
    return !wrong;
  }

  const std::vector<std::uint64_t> seeds_;
  ScratchFile& path_;
  Watchdog& watchdog_;
  std::int64_t& struck_;
  std::size_t next_ = 0;
  std::optional<FileTrial> trial_;
};

TEST(FileProperty, OpenFilesAgreeWithTheModel) {
  const std::uint64_t first = seed_of_run();
  const std::int64_t cases = cases_of_run(20000, 1500);
  std::printf("seeds %llu and the %lld after it\n", static_cast<unsigned long long>(first),
              static_cast<long long>(cases - 1));
  std::map<CrewOptions, std::vector<std::uint64_t>> by_crew;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(cases); ++seed)
    by_crew[crew_of_setting(seed)].push_back(seed);
  const TempDirectory directory;
  ScratchFile path(directory.file("data"));
  Watchdog watchdog(kReplay);
  std::int64_t struck = 0;
  for (auto& [crew, seeds] : by_crew) {
    FileCases series(std::move(seeds), path, watchdog, struck);
    work_through(crew, series);
    if (HasFailure()) return;
  }
  if (cases < 1000) return;
  EXPECT_GE(struck, cases / 20) << "faults that were met";
}

}  // namespace
}  // namespace stridio::testing
