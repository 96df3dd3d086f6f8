// The board: two halves, each with room for kBoardBytes of every node, used in turn. The leaders gather among
// themselves, each writes its node's half, and a barrier of the node shows it. The half of turn t is written again in
// turn t + 2, after the barrier of turn t + 1, which all enter when they have read: one wait suffices.
#include "group/levels.h"

#include <algorithm>

namespace stridio {
namespace {

constexpr std::size_t kBoardBytes = 1024;

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
  Status finish(Ticket ticket) override { return parent_.finish(ticket); }
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

  Group& parent_;
  const std::vector<int> ranks_;
  const int rank_;
};

// Bruck's: in step s a rank sends what it has, of 2^s ranks from its own on, to the rank 2^s before it. log2(n) messages.
Status Subgroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::size_t n = ranks_.size(), length = mine.size(), here = static_cast<std::size_t>(rank_);
  Buffer blocks(all.size());  // those of the ranks from this one on, round
  std::copy(mine.begin(), mine.end(), blocks.begin());
  for (std::size_t have = 1; have < n; have *= 2) {
    const auto more = static_cast<Bytes>(std::min(have, n - have) * length);
    const Message to{static_cast<int>((here + n - have) % n), {blocks.data(), more}};
    const Message from{static_cast<int>((here + have) % n), {blocks.data() + have * length, more}};
    RETURN_IF_ERROR(exchange({&to, 1}, {&from, 1}));
  }
  std::rotate_copy(blocks.begin(), blocks.end() - static_cast<std::ptrdiff_t>(here * length), blocks.end(),
                   all.begin());
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
  const Bytes board = static_cast<Bytes>(2 * kBoardBytes * members_.size());
  ASSIGN_OR_RETURN(board_, node_->shared(board));
  if (board_.length == 0) return fail(Code::kNoMemory, "no shared memory on a node");
  board_.length = board;
  return {};
}

Status Levels::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const auto nodes = static_cast<std::size_t>(count());
  for (std::size_t at = 0; at < mine.size(); at += kBoardBytes) {
    const std::size_t piece = std::min(kBoardBytes, mine.size() - at);
    const auto half = std::span(board_.data, static_cast<std::size_t>(board_.length))
                          .subspan(static_cast<std::size_t>(turn_) * nodes * kBoardBytes, nodes * piece);
    turn_ = 1 - turn_;
    const Status gathered = leaders_ ? leaders_->allgather(mine.subspan(at, piece), half) : Status();
    RETURN_IF_ERROR(node_->barrier());
    RETURN_IF_ERROR(gathered);
    for (std::size_t node = 0; node < nodes; ++node)
      std::copy_n(half.begin() + static_cast<std::ptrdiff_t>(node * piece), piece,
                  all.begin() + static_cast<std::ptrdiff_t>(node * mine.size() + at));
  }
  return {};
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
