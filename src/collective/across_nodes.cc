// Two-phase I/O between nodes: the rounds of two_phase.cc, with messages between a node and an aggregator elsewhere.
//
// The bytes of a node's ranks for one aggregator and round travel in one message: one rank's after the other's, each in
// data order. On their node they stand in a staging buffer of its shared memory, where each rank copies its own to or
// from; a rank of the node, the carrier, sends or receives them. (Carriers differ by domain, so that a node's messages
// are not all one rank's work.) To and from an aggregator of the own node, ranks copy at the final place in its window.
//
// 1. The patterns, cut to a domain, go the same way: to the carrier, and in one message to the aggregator. Where every
//    rank asks for the same as in an earlier call, all moved by one distance, and so the domains are too, the aggregators
//    still have them.
// 2. Round k: an agreement by way of the leaders tells every aggregator's window and whether anybody failed. The ranks
//    of a node write down how many bytes each has in each window, which gives everybody's place in the staging buffer;
//    messages are taken in batches that fit. Meanwhile the aggregator's worker thread writes window k - 1, or reads
//    window k + 1.
// 3. The end is as in two_phase.cc.
//
// Failure: all memory that depends on the request is had before an agreement, and a rank that could not have it says so
// there. A failed exchange is the rank's own failure until the next agreement; a failed agreement ends the access.
//
// Memory, with W a window, A domains: a node's shared segment has two windows for each of its aggregators, a staging
// buffer of about W, and eight bytes for each of its ranks and domains; an aggregator has W more for messages, and the
// patterns. A window is cut where overlapping requests would make its messages longer. Without shared memory each rank
// is a node of its own.
#include "collective/across_nodes.h"

#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "base/worker.h"
#include "collective/aggregator.h"
#include "collective/agreement.h"

namespace stridio {
namespace {

std::size_t index(int number) { return static_cast<std::size_t>(number); }

Span span_of(Buffer& buffer) { return {buffer.data(), std::ssize(buffer)}; }

// One message of this node in a round: in the staging buffer from `offset` on.
struct Piece {
  std::size_t domain;
  Bytes offset, length;
};
using Batch = std::vector<Piece>;

class AcrossNodes {
 public:
  AcrossNodes(Group& group, Levels& levels, Storage& storage, const CollectivePlan& plan, Direction direction,
              const Pattern& file, const Memory& memory, const Known& known, Times& times);

  // Of shared memory on every node.
  Bytes length() const { return staging_offset() + most_message_; }
  Result<Transferred> run(SharedMemory memory);

 private:
  bool reads() const { return direction_ == Direction::kRead; }
  bool same_domains() const;
  Status set_up();
  Status exchange_patterns();
  Status exchange_lengths(const std::vector<Buffer>& parts, std::vector<std::vector<Bytes>>& lengths);
  Status gather(const std::vector<Buffer>& parts, std::vector<Buffer>& bundles);
  Status take_patterns(const std::vector<std::vector<Bytes>>& lengths, const std::vector<Buffer>& bundles);
  Status begin();
  void keep_patterns();

  Status rounds();
  Result<Next> announce();
  Status publish(const std::vector<Bytes>& mine);
  std::vector<Batch> batches() const;
  Status write_round(const std::vector<Batch>& all);
  Status read_round(const std::vector<Batch>& all);
  template <typename Rest>
  Status beside_storage(Rest rest);
  void note(Status status) {
    if (status_ && !status) status_ = std::move(status);
  }

  // The ranks that send and receive for a node.
  int carrier(int node, std::size_t domain) const {
    const auto& members = levels_.members(node);
    return nodes_[domain] == node ? plan_.domains[domain].aggregator : members[domain % members.size()];
  }
  bool carries(std::size_t domain) const { return carrier(levels_.own(), domain) == group_.rank(); }
  std::vector<Message> carried(const Batch& batch) const;
  // On an aggregator: calls body(node, its part of message_) for every other node with bytes in this round's window.
  template <typename Body>
  void each_node(Body body);
  std::vector<Message> messages_of_nodes();
  void copy_message(int node, Span message);
  void copy_own(std::size_t domain, Side buffer);
  void copy_near();
  void copy_staged(const Batch& batch);

  std::size_t domains() const { return plan_.domains.size(); }
  // Bytes of a member of this node for a domain: of its pattern, or in this round.
  Bytes& sized(std::size_t member, std::size_t domain) const {
    return reinterpret_cast<Bytes*>(memory_.data)[member * domains() + domain];
  }
  Bytes slots_offset() const { return (static_cast<Bytes>(most_members_ * domains() * sizeof(Bytes)) + 63) / 64 * 64; }
  Bytes staging_offset() const { return slots_offset() + 2 * static_cast<Bytes>(most_slots_) * plan_.window; }
  std::byte* slot(std::size_t domain, int parity) const {
    return memory_.data + slots_offset() + (2 * static_cast<Bytes>(slots_[domain]) + parity) * plan_.window;
  }

  Group& group_;
  Levels& levels_;
  Storage& storage_;
  const CollectivePlan& plan_;
  const Direction direction_;
  const Pattern file_;
  Side user_;
  const Known& known_;
  Times& times_;

  std::vector<int> nodes_;          // by domain: its aggregator's
  std::vector<std::size_t> slots_;  // by domain: its number among those of its node
  std::size_t most_slots_ = 0, most_members_ = 0;
  Bytes most_message_;
  std::size_t me_;       // this rank's number on its node
  SharedMemory memory_;  // of the node: sizes, slots, staging buffer

  std::optional<std::size_t> domain_;  // of which this rank is the aggregator
  std::vector<Pattern> patterns_;      // by rank, cut to that domain
  std::optional<Aggregator> aggregator_;
  Buffer message_;  // of all other nodes in a round, one after the other
  Worker worker_;

  int round_ = 0;
  std::vector<Round> round_of_;  // by domain
  std::vector<Extent> mine_;     // by domain: this rank's data positions in the window
  Offset end_of_file_ = std::numeric_limits<Offset>::max();
  Status status_;  // this rank's own; reported in the next agreement
};

AcrossNodes::AcrossNodes(Group& group, Levels& levels, Storage& storage, const CollectivePlan& plan,
                         Direction direction, const Pattern& file, const Memory& memory, const Known& known,
                         Times& times)
    : group_(group),
      levels_(levels),
      storage_(storage),
      plan_(plan),
      direction_(direction),
      file_(file),
      user_{memory.base, Cursor(memory.pattern)},
      known_(known),
      times_(times),
      most_message_(std::max<Bytes>(plan.window, group.size())),
      me_(index(levels.node().rank())) {
  std::vector<std::size_t> slots(index(levels.count()));
  for (std::size_t i = 0; i < domains(); ++i) {
    const int aggregator = plan.domains[i].aggregator, node = levels.node_of(aggregator);
    if (aggregator == group.rank()) domain_ = i;
    nodes_.push_back(node);
    slots_.push_back(slots[index(node)]++);
  }
  most_slots_ = *std::max_element(slots.begin(), slots.end());
  for (int node = 0; node < levels.count(); ++node)
    most_members_ = std::max(most_members_, levels.members(node).size());
}

Result<Transferred> AcrossNodes::run(SharedMemory memory) {
  memory_ = memory;
  RETURN_IF_ERROR(set_up());
  RETURN_IF_ERROR(rounds());
  {
    const Stopwatch watch(times_.waiting);
    RETURN_IF_ERROR(agree(levels_, status_));
  }
  if (known_.cache != nullptr) keep_patterns();
  const bool eof = reads() && file_.upper() > end_of_file_;
  return Transferred{eof ? file_.bytes_below(end_of_file_) : file_.size(), eof,
                     aggregator_ ? aggregator_->requests() : 0};
}

// ---- Patterns

Status AcrossNodes::set_up() {
  if (known_.shift && same_domains()) {
    for (const Pattern& pattern : known_.cache->patterns) patterns_.push_back(pattern.shifted(*known_.shift));
  } else {
    RETURN_IF_ERROR(exchange_patterns());
  }
  if (domain_ && status_) status_ = guarded([&] { return begin(); });
  return {};
}

bool AcrossNodes::same_domains() const {
  const auto& before = known_.cache->domains;
  return std::equal(before.begin(), before.end(), plan_.domains.begin(), plan_.domains.end(),
                    [&](const FileDomain& was, const FileDomain& is) {
                      return was.aggregator == is.aggregator && was.range.length == is.range.length &&
                             was.range.offset + *known_.shift == is.range.offset;
                    });
}

Status AcrossNodes::begin() {
  std::vector<Pattern> far;  // of ranks whose bytes come by messages
  for (int rank = 0; rank < group_.size(); ++rank)
    if (levels_.node_of(rank) != levels_.own() && !patterns_[index(rank)].empty())
      far.push_back(patterns_[index(rank)]);
  if (!far.empty()) message_.resize(static_cast<std::size_t>(most_message_));
  aggregator_.emplace(storage_, plan_, direction_, patterns_, times_, std::move(far), most_message_);
  return {};
}

Status AcrossNodes::exchange_patterns() {
  const Stopwatch watch(times_.exchange);
  std::vector<Buffer> parts(domains());  // this rank's, by domain
  status_ = guarded([&]() -> Status {
    for (std::size_t i = 0; i < domains(); ++i)
      if (const Pattern part = file_.clip(plan_.domains[i].range); !part.empty()) parts[i] = part.encode();
    return {};
  });
  std::vector<std::vector<Bytes>> lengths(domain_ ? index(levels_.count()) : 0);  // by node, by member
  RETURN_IF_ERROR(exchange_lengths(parts, lengths));

  std::vector<Buffer> bundles(domains());  // of this node's ranks, for the domains that this one carries
  std::vector<Buffer> received(lengths.size());
  if (status_) {
    status_ = guarded([&]() -> Status {
      for (std::size_t i = 0; i < domains(); ++i)
        for (std::size_t member = 0; carries(i) && member < levels_.members(levels_.own()).size(); ++member)
          bundles[i].resize(bundles[i].size() + static_cast<std::size_t>(sized(member, i)));
      for (std::size_t node = 0; node < lengths.size(); ++node)
        for (const Bytes length : lengths[node])
          received[node].resize(received[node].size() + static_cast<std::size_t>(length));
      return {};
    });
  }
  RETURN_IF_ERROR(agree(levels_, status_));

  RETURN_IF_ERROR(gather(parts, bundles));
  std::vector<Message> sends, receives;
  for (std::size_t i = 0; i < domains(); ++i)
    if (carries(i) && i != domain_) sends.push_back({plan_.domains[i].aggregator, span_of(bundles[i])});
  for (std::size_t node = 0; node < received.size(); ++node) {
    const int from = static_cast<int>(node);
    if (from == levels_.own()) {
      received[node] = std::move(bundles[*domain_]);
    } else {
      receives.push_back({carrier(from, *domain_), span_of(received[node])});
    }
  }
  note(group_.exchange(sends, receives));
  if (domain_ && status_) status_ = guarded([&] { return take_patterns(lengths, received); });
  return {};
}

// Every member's length on each node's carriers, and from there on the aggregators: by node, by member.
Status AcrossNodes::exchange_lengths(const std::vector<Buffer>& parts, std::vector<std::vector<Bytes>>& lengths) {
  std::vector<Bytes> own;
  for (const Buffer& part : parts) own.push_back(status_ ? std::ssize(part) : 0);
  RETURN_IF_ERROR(publish(own));
  const std::size_t members = levels_.members(levels_.own()).size();
  const auto bytes_of = [](std::vector<Bytes>& list) {
    return Span{reinterpret_cast<std::byte*>(list.data()), static_cast<Bytes>(list.size() * sizeof(Bytes))};
  };
  std::vector<std::vector<Bytes>> columns(domains());
  std::vector<Message> sends, receives;
  for (std::size_t i = 0; i < domains(); ++i) {
    if (!carries(i)) continue;
    for (std::size_t member = 0; member < members; ++member) columns[i].push_back(sized(member, i));
    if (i != domain_) sends.push_back({plan_.domains[i].aggregator, bytes_of(columns[i])});
  }
  for (std::size_t node = 0; node < lengths.size(); ++node) {
    const int from = static_cast<int>(node);
    lengths[node].resize(levels_.members(from).size());
    if (from == levels_.own()) {
      lengths[node] = columns[*domain_];
    } else {
      receives.push_back({carrier(from, *domain_), bytes_of(lengths[node])});
    }
  }
  note(group_.exchange(sends, receives));
  return {};
}

// Each carrier's bundles, from the members' parts. One exchange for the domains of this node, whose carriers differ, and
// one for every so many others as there are members, for the same reason.
Status AcrossNodes::gather(const std::vector<Buffer>& parts, std::vector<Buffer>& bundles) {
  const auto& members = levels_.members(levels_.own());
  const auto turn_of = [&](std::size_t domain) {
    return nodes_[domain] == levels_.own() ? 0 : 1 + domain / members.size();
  };
  for (std::size_t turn = 0; turn <= 1 + (domains() - 1) / members.size(); ++turn) {
    std::vector<Message> sends, receives;
    for (std::size_t i = 0; i < domains(); ++i) {
      if (turn_of(i) != turn) continue;
      const auto to =
          static_cast<int>(std::find(members.begin(), members.end(), carrier(levels_.own(), i)) - members.begin());
      if (to != static_cast<int>(me_)) {
        sends.push_back({to, {const_cast<std::byte*>(parts[i].data()), std::ssize(parts[i])}});
        continue;
      }
      std::byte* at = bundles[i].data();
      for (std::size_t member = 0; member < members.size(); at += sized(member++, i)) {
        if (member == me_) {
          std::copy(parts[i].begin(), parts[i].end(), at);
        } else {
          receives.push_back({static_cast<int>(member), {at, sized(member, i)}});
        }
      }
    }
    RETURN_IF_ERROR(levels_.node().exchange(sends, receives));
  }
  return {};
}

Status AcrossNodes::take_patterns(const std::vector<std::vector<Bytes>>& lengths, const std::vector<Buffer>& bundles) {
  patterns_.resize(index(group_.size()));
  for (std::size_t node = 0; node < bundles.size(); ++node) {
    auto rest = std::span(bundles[node]);
    const auto& members = levels_.members(static_cast<int>(node));
    for (std::size_t member = 0; member < members.size(); ++member) {
      const auto length = static_cast<std::size_t>(lengths[node][member]);
      if (length == 0) continue;
      ASSIGN_OR_RETURN(const Pattern pattern, Pattern::decode(rest.first(length)));
      patterns_[index(members[member])] = pattern.clip(plan_.domains[*domain_].range);
      rest = rest.subspan(length);
    }
  }
  return {};
}

void AcrossNodes::keep_patterns() {
  PatternCache& cache = *known_.cache;
  const bool kept = known_.shift && same_domains();
  if (kept) return;
  cache.lower = file_.lower();
  cache.file = file_.empty() ? Buffer() : file_.shifted(-cache.lower).encode();
  cache.domains = plan_.domains;
  cache.patterns = std::move(patterns_);
}

// ---- Rounds

Status AcrossNodes::rounds() {
  if (aggregator_ && status_) status_ = guarded([&] { return aggregator_->next(slot(*domain_, 0)); });
  for (;; ++round_) {
    ASSIGN_OR_RETURN(const Next next, announce());
    if (next == Next::kFail) return {};
    if (next == Next::kEnd) break;
    std::vector<Bytes> sizes;
    mine_.clear();
    for (const Round& round : round_of_) {
      mine_.push_back(positions(file_, round));
      sizes.push_back(mine_.back().length);
    }
    RETURN_IF_ERROR(publish(sizes));
    RETURN_IF_ERROR(reads() ? read_round(batches()) : write_round(batches()));
  }
  if (aggregator_ && !reads() && status_)
    status_ = guarded([&] { return aggregator_->flush_previous(slot(*domain_, 1 - round_ % 2)); });
  return {};
}

// The agreement of a round.
Result<Next> AcrossNodes::announce() {
  const Stopwatch watch(times_.waiting);
  Round mine = aggregator_ ? aggregator_->round() : Round{};
  mine.failed = status_ ? 0 : 1;
  ASSIGN_OR_RETURN(const std::vector<Round> here, allgather(levels_.node(), mine));
  std::vector<Round> told(most_slots_), all(most_slots_ * index(levels_.count()));
  const auto& members = levels_.members(levels_.own());
  for (std::size_t member = 0; member < members.size(); ++member) told[0].failed |= here[member].failed;
  for (std::size_t i = 0; i < domains(); ++i) {
    if (nodes_[i] != levels_.own()) continue;
    const auto at = std::find(members.begin(), members.end(), plan_.domains[i].aggregator) - members.begin();
    const Round& round = here[static_cast<std::size_t>(at)];
    told[slots_[i]].window = round.window;
    told[slots_[i]].valid_end = round.valid_end;
  }
  RETURN_IF_ERROR(levels_.allgather(std::as_bytes(std::span(told)), std::as_writable_bytes(std::span(all))));
  for (const Round& round : all)
    if (round.failed != 0) return Next::kFail;
  bool more = false;
  round_of_.clear();
  for (std::size_t i = 0; i < domains(); ++i) {
    const Round& round = all[index(nodes_[i]) * most_slots_ + slots_[i]];
    round_of_.push_back(round);
    more = more || !round.window.empty();
    if (reads() && round.valid_end < round.window.end()) end_of_file_ = std::min(end_of_file_, round.valid_end);
  }
  return more ? Next::kMove : Next::kEnd;
}

// Shows the members of the node how many bytes each of them has for each domain.
Status AcrossNodes::publish(const std::vector<Bytes>& mine) {
  const Stopwatch watch(times_.waiting);
  std::copy(mine.begin(), mine.end(), &sized(me_, 0));
  return levels_.node().barrier();
}

// This node's messages of the round, each batch filling the staging buffer from its start. Nodes begin with different
// domains. The same on all members.
std::vector<Batch> AcrossNodes::batches() const {
  std::vector<Batch> all;
  Bytes filled = most_message_;
  for (std::size_t k = 0; k < domains(); ++k) {
    const std::size_t i = (k + index(levels_.own())) % domains();
    if (nodes_[i] == levels_.own()) continue;
    Piece piece{i, 0, 0};
    for (std::size_t member = 0; member < levels_.members(levels_.own()).size(); ++member)
      piece.length += sized(member, i);
    if (piece.length == 0) continue;
    if (filled + piece.length > most_message_) {
      all.emplace_back();
      filled = 0;
    }
    piece.offset = filled;
    filled += piece.length;
    all.back().push_back(piece);
  }
  return all;
}

std::vector<Message> AcrossNodes::carried(const Batch& batch) const {
  std::vector<Message> messages;
  for (const Piece& piece : batch)
    if (carries(piece.domain))
      messages.push_back(
          {plan_.domains[piece.domain].aggregator, {memory_.data + staging_offset() + piece.offset, piece.length}});
  return messages;
}

template <typename Body>
void AcrossNodes::each_node(Body body) {
  if (!aggregator_) return;
  Bytes at = 0;
  for (int node = 0; node < levels_.count(); ++node) {
    if (node == levels_.own()) continue;
    Bytes length = 0;
    for (const int rank : levels_.members(node))
      length += positions(patterns_[index(rank)], round_of_[*domain_]).length;
    if (length > 0) body(node, Span{message_.data() + at, length});
    at += length;
  }
}

std::vector<Message> AcrossNodes::messages_of_nodes() {
  std::vector<Message> messages;
  each_node([&](int node, Span message) { messages.push_back({carrier(node, *domain_), message}); });
  return messages;
}

// Between a node's message and this aggregator's window.
void AcrossNodes::copy_message(int node, Span message) {
  const Stopwatch watch(times_.copy);
  const Round& round = round_of_[*domain_];
  Side packed{message.data, Cursor(Pattern::run(0, message.length))};
  for (const int rank : levels_.members(node)) {
    const Pattern& pattern = patterns_[index(rank)];
    const Extent theirs = positions(pattern, round);
    if (theirs.empty()) continue;
    Side window{slot(*domain_, round_ % 2), Cursor(pattern.shifted(-round.window.offset), theirs.offset)};
    reads() ? copy(packed, window, theirs.length) : copy(window, packed, theirs.length);
  }
}

// Between this rank's memory and `buffer`.
void AcrossNodes::copy_own(std::size_t domain, Side buffer) {
  if (mine_[domain].empty()) return;
  const Stopwatch watch(times_.copy);
  user_.cursor.seek(mine_[domain].offset);
  reads() ? copy(user_, buffer, mine_[domain].length) : copy(buffer, user_, mine_[domain].length);
}

void AcrossNodes::copy_near() {
  for (std::size_t i = 0; i < domains(); ++i)
    if (nodes_[i] == levels_.own() && !mine_[i].empty())
      copy_own(i, {slot(i, round_ % 2), Cursor(file_.shifted(-round_of_[i].window.offset), mine_[i].offset)});
}

void AcrossNodes::copy_staged(const Batch& batch) {
  for (const Piece& piece : batch) {
    Bytes before = 0;
    for (std::size_t member = 0; member < me_; ++member) before += sized(member, piece.domain);
    copy_own(piece.domain, {memory_.data + staging_offset() + piece.offset + before,
                            Cursor(Pattern::run(0, mine_[piece.domain].length))});
  }
}

// Calls `rest` while the worker writes the window of the round before, or reads that of the next.
template <typename Rest>
Status AcrossNodes::beside_storage(Rest rest) {
  if (!aggregator_ || !status_) return guarded(rest);
  Status stored;
  const auto store = [&] {
    stored = guarded([&]() -> Status {
      std::byte* const other = slot(*domain_, 1 - round_ % 2);
      if (!reads()) RETURN_IF_ERROR(aggregator_->flush_previous(other));
      return aggregator_->next(other);
    });
  };
  note(guarded([&]() -> Status {
    worker_.post_or_run(store);
    return {};
  }));
  const Status done = guarded(rest);
  worker_.wait();
  note(std::move(stored));
  return done;
}

Status AcrossNodes::write_round(const std::vector<Batch>& all) {
  Exchange incoming(group_, {}, messages_of_nodes());
  std::optional<Exchange> outgoing;
  copy_near();
  for (const Batch& batch : all) {
    if (outgoing) {
      note(outgoing->finish());
      RETURN_IF_ERROR(levels_.node().barrier());  // the staging buffer is free
    }
    copy_staged(batch);
    RETURN_IF_ERROR(levels_.node().barrier());
    outgoing.emplace(group_, carried(batch), std::span<const Message>{});
  }
  return beside_storage([&]() -> Status {
    const Stopwatch watch(times_.exchange);
    if (outgoing) note(outgoing->finish());
    note(incoming.finish());
    each_node([&](int node, Span message) { copy_message(node, message); });
    return {};
  });
}

Status AcrossNodes::read_round(const std::vector<Batch>& all) {
  each_node([&](int node, Span message) { copy_message(node, message); });
  Exchange outgoing(group_, messages_of_nodes(), {});
  return beside_storage([&]() -> Status {
    copy_near();
    for (const Batch& batch : all) {
      if (&batch != &all.front()) RETURN_IF_ERROR(levels_.node().barrier());  // the staging buffer is free
      {
        const Stopwatch watch(times_.exchange);
        note(group_.exchange({}, carried(batch)));
        RETURN_IF_ERROR(levels_.node().barrier());
      }
      copy_staged(batch);
    }
    note(outgoing.finish());
    return {};
  });
}

}  // namespace

Result<Transferred> across_nodes(Group& group, Storage& storage, const CollectivePlan& plan, Direction direction,
                                 const Pattern& file, const Memory& memory, const Known& known, Times& times) {
  for (const bool share : {true, false}) {
    ASSIGN_OR_RETURN(Levels* const levels, group.levels(share));
    AcrossNodes access(group, *levels, storage, plan, direction, file, memory, known, times);
    ASSIGN_OR_RETURN(const SharedMemory shared, levels->shared(access.length()));
    if (shared.length > 0) return access.run(shared);
  }
  return fail(Code::kNoMemory, "a rank cannot have the memory for an aggregator's windows");
}

}  // namespace stridio
