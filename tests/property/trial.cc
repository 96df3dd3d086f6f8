#include "property/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "property/contents.h"
#include "property/faulty_calls.h"

namespace stridio::testing {
namespace {

constexpr Code kBadArguments = Code::kCount;

}  // namespace

Trial::Trial(Case tried, ScratchFile& path) : case_(std::move(tried)), path_(path), ranks_(case_.ranks.size()) {
  owners_.reset(std::max(case_.upper(), case_.length));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = static_cast<int>(i);
    owners_.add(rank, case_.ranks[i].file);
    Watch& watch = ranks_[i].watch;
    watch.may_write = [this, rank](const Extent& range) { return may_write(rank, range); };
    watch.must_lock = case_.access.lock_writes;
    watch.yields = case_.direction == Direction::kWrite && ranks_.size() > 1;
  }
  if (case_.posix) path_.fill(case_.length);
  if (!case_.posix) file_ = make_filled_memory(case_.length);
}

Image Trial::contents() const { return case_.posix ? path_.contents() : contents_of_memory(file_); }

// Nothing outside the requests; where holes may be modified, nothing outside their bounds.
bool Trial::may_write(int rank, const Extent& range) const {
  if (case_.direction == Direction::kRead) return range.empty();
  const bool together = collective(case_.cell.way);
  if (owners_.covers(range, together ? kAnybody : set_of(rank))) return true;
  if (!case_.may_modify_holes()) return false;
  const Extent own = case_.ranks[static_cast<std::size_t>(rank)].file.bounds();
  const Extent bounds = together ? Extent{0, case_.upper()} : own;
  return intersect(bounds, range) == range;
}

// ---- Acting

std::unique_ptr<Storage> Trial::open(int rank) {
  Watch& watch = ranks_[static_cast<std::size_t>(rank)].watch;
  if (case_.posix) {
    auto storage = open_posix(path_.path(), {.read = true, .write = true}, faulty_calls());
    if (!storage) std::abort();
    return wrap_watch(std::move(*storage), watch);
  }
  auto storage = open_memory(file_);
  if (case_.fault.first >= 0 && case_.fails_on(rank)) storage = wrap_fault(std::move(storage), case_.fault);
  return wrap_watch(std::move(storage), watch);
}

CollectiveRequest Trial::request_of(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  CollectiveRequest request{.direction = case_.direction,
                            .file = case_.ranks[index].file,
                            .memory = {ranks_[index].memory.base(), case_.ranks[index].memory},
                            .access = case_.access,
                            .rules = case_.rules,
                            .profile = case_.profile};
  if (rank == case_.invalid_rank) request.invalid = Error{.code = kBadArguments, .what = "bad count"};
  return request;
}

Status Trial::carry_out_earlier(Group& group, CollectiveRequest request, int rank) {
  request.file = case_.earlier[static_cast<std::size_t>(rank)];
  std::vector<std::byte> bytes(static_cast<std::size_t>(request.file.size()));
  request.memory = {bytes.data(), Pattern::run(0, request.file.size())};
  request.direction = Direction::kRead;  // whose requests may overlap
  request.invalid.reset();
  const auto storage = open_memory(make_memory_file());
  Times times;
  ASSIGN_OR_RETURN(const CollectiveOutcome outcome, run_collective(group, *storage, request, times));
  return {};
}

Result<Transferred> Trial::carry_out(Group& group, Storage& storage, int rank) {
  Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  CollectiveRequest request = request_of(rank);
  if (collective(case_.cell.way)) {
    PatternCache cache;
    request.cache = &cache;
    if (!case_.earlier.empty()) RETURN_IF_ERROR(carry_out_earlier(group, request, rank));
    ASSIGN_OR_RETURN(const CollectiveOutcome outcome, run_collective(group, storage, request, mine.times));
    return outcome.moved;
  }
  const RequestShape shape = shape_of(case_.direction, request.file, request.memory.pattern);
  const AccessPlan plan = plan_access(shape, storage.caps(), case_.profile, case_.access);
  return execute(plan, storage, case_.direction, request.file, request.memory, mine.times);
}

void Trial::act(Group& group) {
  const int rank = group.rank();
  Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  const RankRequest& request = case_.ranks[static_cast<std::size_t>(rank)];
  mine.memory = case_.direction == Direction::kWrite ? memory_to_write(request, rank) : noise_for(request.memory);
  std::optional<TransientFaults> transient;
  std::optional<LastingFaults> lasting;
  if (case_.cell.fault == FaultKind::kTransient) transient.emplace(case_.seed + static_cast<std::uint64_t>(rank));
  if (case_.posix && case_.fault.first >= 0 && case_.fails_on(rank)) lasting.emplace(case_.fault);
  const auto storage = open(rank);
  mine.result = carry_out(group, *storage, rank);
}

// ---- Judging

// Only lasting faults count: others are none of the caller's business, and a failure of theirs is
// one of the storage.
bool Trial::fault_struck() const {
  if (case_.fault.first < 0) return false;
  const auto struck = [](const Rank& rank) { return rank.watch.failures > 0; };
  return std::any_of(ranks_.begin(), ranks_.end(), struck);
}

std::optional<std::string> Trial::wrong_success(int rank) const {
  const Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  const Pattern& file = case_.ranks[static_cast<std::size_t>(rank)].file;
  if (!mine.result) return "fails: " + mine.result.error().text();
  const Bytes right = case_.direction == Direction::kWrite ? file.size() : bytes_before_end(file, case_.length);
  if (mine.result->bytes != right) return fmt::format("moved {} bytes, right is {}", mine.result->bytes, right);
  if (mine.result->eof != (right < file.size())) return "is wrong about the end of the file";
  return std::nullopt;
}

std::optional<std::string> Trial::wrong_failure(int rank) const {
  const Rank& mine = ranks_[static_cast<std::size_t>(rank)];
  if (mine.result) return "succeeds in spite of the failure";
  const Error& error = mine.result.error();
  const bool invalid = case_.invalid_rank >= 0;
  const Code right = invalid ? kBadArguments : code_of_errno(case_.fault.sys_errno);
  if (error.code != right) return "fails with another error: " + error.text();
  if (!collective(case_.cell.way)) return std::nullopt;
  if (error.rank < 0 || error.rank >= case_.crew.ranks) return "does not name the rank that failed";
  if (error.rank != ranks_[0].result.error().rank) return "names another rank than rank 0";
  const bool guilty =
      invalid ? error.rank == case_.invalid_rank : ranks_[static_cast<std::size_t>(error.rank)].watch.failures > 0;
  return guilty ? std::nullopt : std::optional("names a rank that did not fail: " + error.text());
}

std::optional<std::string> Trial::wrong_outcomes() const {
  const bool together = collective(case_.cell.way);
  const bool all_fail = together && (fault_struck() || case_.invalid_rank >= 0);
  for (int rank = 0; rank < case_.crew.ranks; ++rank) {
    const Watch& watch = ranks_[static_cast<std::size_t>(rank)].watch;
    const auto named = [&](const std::string& what) { return fmt::format("rank {} {}", rank, what); };
    if (watch.unlocked_write)
      return named(fmt::format("writes {} bytes at {} without a lock", watch.unlocked_write->length,
                               watch.unlocked_write->offset));
    if (watch.stray_write)
      return named(fmt::format("writes {} bytes at {}, which nobody asked for", watch.stray_write->length,
                               watch.stray_write->offset));
    const bool fails = together ? all_fail : watch.failures > 0 && case_.fault.first >= 0;
    if (const auto wrong = fails ? wrong_failure(rank) : wrong_success(rank)) return named(*wrong);
    if (const auto wrong = wrong_memory(rank)) return named(*wrong);
  }
  return std::nullopt;
}

// After a failed read a byte of the request is the file's or as it was; all else is as after a read
// of what arrived.
std::optional<std::string> Trial::wrong_memory(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const RankRequest& request = case_.ranks[index];
  const Rank& mine = ranks_[index];
  const Image before(contents_of(kBefore), contents_of(kBefore) + case_.length);
  UserMemory right = case_.direction == Direction::kWrite
                         ? memory_to_write(request, rank)
                         : memory_after_read(request, before, bytes_before_end(request.file, case_.length));
  if (mine.memory.bytes == right.bytes) return std::nullopt;
  const UserMemory noise = noise_for(request.memory);
  for (std::size_t at = 0; at < right.bytes.size(); ++at) {
    const std::byte byte = mine.memory.bytes[at];
    if (byte == right.bytes[at]) continue;
    if (case_.direction == Direction::kRead && !mine.result && byte == noise.bytes[at]) continue;
    return fmt::format("has {} at byte {} of its memory, right is {}", static_cast<int>(byte),
                       static_cast<Offset>(at) - mine.memory.margin, static_cast<int>(right.bytes[at]));
  }
  return std::nullopt;
}

Ownership::Writers Trial::failed() const {
  Ownership::Writers set = 0;
  for (int rank = 0; rank < case_.crew.ranks; ++rank)
    if (!ranks_[static_cast<std::size_t>(rank)].result) set |= set_of(rank);
  return set;
}

std::optional<std::string> Trial::wrong() {
  if (auto wrong = wrong_outcomes()) return wrong;
  if (case_.direction == Direction::kRead || case_.invalid_rank >= 0) owners_.reset(0);
  return wrong_file(contents(), owners_, case_.length, failed());
}

}  // namespace stridio::testing
