// The board: two halves, each with room for kBoardBytes of every node, used in turn. The leaders gather among
// themselves, each writes its node's half, and a barrier of the node shows it. The half of turn t is written again in
// turn t + 2, after the barrier of turn t + 1, which all enter when they have read: one wait suffices.
//
// Failure: a leader whose host call failed takes part in what follows, lest others wait for it. From then on it says so before
// its bytes, between leaders and on the board: its node's ranks fail with it, those that have anything from it since do too, and
// all do in the next agreement.
#include "group/levels.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace stridio {
namespace {

constexpr std::size_t kBoardBytes = 1024, kBoardLine = 64;

// What precedes a leader's bytes, and a half of the board: its first failure, or one that it has been told of.
struct Standing {
  std::int32_t code = 0;
  std::int32_t rank = -1;  // whose call failed
};

Standing standing_of(const std::optional<Error>& failure) {
  return failure ? Standing{static_cast<std::int32_t>(failure->code), failure->rank} : Standing{};
}

Status status_of(const Standing& standing) {
  if (standing.code == 0) return {};
  return fail(Error{.code = static_cast<Code>(standing.code),
                    .what = "a host MPI call failed on a rank that speaks for its node",
                    .rank = standing.rank});
}

// Some ranks of a group as a group, by the parent's messages.
class Subgroup final : public Group {
 public:
  Subgroup(Group& parent, const std::vector<int>& ranks)
      : parent_(parent), ranks_(ranks), rank_(position_of(ranks, parent.rank())) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  int node_of(int rank) const override { return parent_.node_of(ranks_[static_cast<std::size_t>(rank)]); }
  int node_count() const override { return parent_.node_count(); }
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override {
    return parent_.start(in_parent(sends), in_parent(receives));
  }
  Status finish(Ticket ticket) override {
    Status finished = parent_.finish(ticket);
    note(finished);
    return finished;
  }
  Status barrier() override {
    std::vector<std::byte> all(ranks_.size());
    return allgather(std::span(all).first(1), all);
  }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

 private:
  static int position_of(const std::vector<int>& ranks, int rank) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }
  std::vector<Message> in_parent(std::span<const Message> messages) const {
    std::vector<Message> translated(messages.begin(), messages.end());
    for (Message& message : translated) message.peer = ranks_[static_cast<std::size_t>(message.peer)];
    return translated;
  }
  Result<std::unique_ptr<Levels>> make_levels(bool) override { return Levels::make(*this, {}); }

  void note(const Status& status);

  Group& parent_;
  const std::vector<int> ranks_;
  const int rank_;
  std::optional<Error> failure_;  // the first, for ever
};

void Subgroup::note(const Status& status) {
  if (status || failure_) return;
  failure_ = status.error();
  if (failure_->rank < 0) failure_->rank = parent_.rank();
}

// Bruck's: in step s a rank sends what it has, of 2^s ranks from its own on, to the rank 2^s before it. log2(n) messages. Who
// could not receive passes on what is none, behind its own block, which says so.
Status Subgroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t n = ranks_.size(), length = sizeof(Standing) + mine.size(), here = static_cast<std::size_t>(rank_);
  Buffer blocks(n * length);  // those of the ranks from this one on, round
  const auto write_standing = [&] {
    const Standing standing = standing_of(failure_);
    std::memcpy(blocks.data(), &standing, sizeof standing);
  };
  std::copy(mine.begin(), mine.end(), blocks.begin() + sizeof(Standing));
  for (std::size_t have = 1; have < n; have *= 2) {
    write_standing();
    const auto more = static_cast<Bytes>(std::min(have, n - have) * length);
    const Message to{static_cast<int>((here + n - have) % n), {blocks.data(), more}};
    const Message from{static_cast<int>((here + have) % n), {blocks.data() + have * length, more}};
    (void)exchange({&to, 1}, {&from, 1});
  }
  write_standing();
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* const block = blocks.data() + i * length;
    Standing standing;
    std::memcpy(&standing, block, sizeof standing);
    note(status_of(standing));
    std::copy_n(block + sizeof standing, mine.size(),
                all.begin() + static_cast<std::ptrdiff_t>((here + i) % n * mine.size()));
  }
  if (failure_) return fail(*failure_);
  return {};
}

std::vector<std::vector<int>> members_of(const Group& whole, bool solo) {
  std::vector<std::vector<int>> members(static_cast<std::size_t>(solo ? whole.size() : whole.node_count()));
  for (int rank = 0; rank < whole.size(); ++rank)
    members[static_cast<std::size_t>(solo ? rank : whole.node_of(rank))].push_back(rank);
  return members;
}

Bootstrap bootstrap_alone() {
  return {0, 1, [](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
            std::copy(mine.begin(), mine.end(), all.begin());
            return {};
          }};
}

}  // namespace

Levels::Levels(Group& whole, std::vector<std::vector<int>> members)
    : whole_(whole), members_(std::move(members)), node_of_(static_cast<std::size_t>(whole.size())) {
  for (int node = 0; node < count(); ++node)
    for (const int rank : members_[static_cast<std::size_t>(node)]) node_of_[static_cast<std::size_t>(rank)] = node;
  own_ = node_of(whole.rank());
}

Result<std::unique_ptr<Levels>> Levels::make(Group& whole, const std::optional<SharedGroupOptions>& sharing) {
  std::unique_ptr<Levels> levels(new Levels(whole, members_of(whole, !sharing)));
  const Status made = levels->make_node(sharing);
  ASSIGN_OR_RETURN(const std::vector<Code> codes, stridio::allgather(whole, made ? Code::kOk : made.error().code));
  const auto failed = std::find_if(codes.begin(), codes.end(), [](Code code) { return code != Code::kOk; });
  if (failed == codes.end()) return levels;
  if (sharing) return make(whole, {});
  return fail(*failed, "a rank cannot have memory for messages between nodes");
}

Status Levels::make_node(const std::optional<SharedGroupOptions>& sharing) {
  const std::vector<int>& members = members_[static_cast<std::size_t>(own_)];
  Subgroup messages(whole_, members);
  const bool alone = members.size() == 1;
  SharedGroupOptions options = alone ? SharedGroupOptions{.one_address_space = true} : *sharing;
  options.known_as = members;
  options.known_size = whole_.size();
  ASSIGN_OR_RETURN(node_, make_shared_group(alone ? bootstrap_alone() : bootstrap_over(messages), std::move(options)));
  if (node_->rank() == 0) {
    std::vector<int> leaders;
    for (const auto& each : members_) leaders.push_back(each.front());
    leaders_ = std::make_unique<Subgroup>(whole_, leaders);
  }
  const Bytes board = static_cast<Bytes>(2 * half_of_board());
  ASSIGN_OR_RETURN(board_, node_->shared(board));
  if (board_.length == 0) return fail(Code::kNoMemory, "no shared memory on a node");
  board_.length = board;
  return {};
}

std::size_t Levels::half_of_board() const { return kBoardLine + kBoardBytes * members_.size(); }

Status Levels::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto nodes = static_cast<std::size_t>(count());
  Status told;
  for (std::size_t at = 0; at < mine.size(); at += kBoardBytes) {  // to the end, even after a failure
    const std::size_t piece = std::min(kBoardBytes, mine.size() - at);
    std::byte* const half = board_.data + static_cast<std::size_t>(turn_) * half_of_board();
    const std::span<std::byte> bytes(half + kBoardLine, nodes * piece);
    turn_ = 1 - turn_;
    Standing standing;
    if (leaders_) {
      if (const Status gathered = leaders_->allgather(mine.subspan(at, piece), bytes); !gathered) {
        if (told) told = gathered;
        standing = standing_of(gathered.error());
      }
      std::memcpy(half, &standing, sizeof standing);
    }
    RETURN_IF_ERROR(node_->barrier());
    std::memcpy(&standing, half, sizeof standing);
    if (told) told = status_of(standing);
    for (std::size_t node = 0; node < nodes; ++node)
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(node * piece), piece,
                  all.begin() + static_cast<std::ptrdiff_t>(node * mine.size() + at));
  }
  return told;
}

Result<SharedMemory> Levels::shared(Bytes length) {
  if (length <= memory_.length) return memory_;
  if (refused_ && length >= *refused_) return SharedMemory{};
  ASSIGN_OR_RETURN(const SharedMemory made, node_->shared(board_.length + length));
  if (made.length > 0) {  // though another node be refused: what was there is unmapped
    board_.data = made.data;
    memory_.data = made.data + board_.length;
  }
  ASSIGN_OR_RETURN(const std::vector<char> had, stridio::allgather(*this, static_cast<char>(made.length > 0)));
  if (std::find(had.begin(), had.end(), 0) != had.end()) {
    refused_ = length;
    return SharedMemory{};
  }
  memory_.length = length;
  return memory_;
}

}  // namespace stridio
