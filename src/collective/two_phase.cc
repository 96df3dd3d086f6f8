// Generalized two-phase I/O (ROMIO paper, section 4.2), in bounded rounds, where the group shares memory. (Where it
// does not, or not all of it, see across_nodes.cc.)
//
// 1. Every rank sends each aggregator its pattern cut to the aggregator's file domain, in encoded form: structure, not
//    offset lists (unless the patterns are so small that all know them already). From these the aggregator finds the
//    exact union of the requests, window by window. A read may take its domain whole instead.
// 2. Round k. The aggregator finds window k, and for a read fetches it. One agreement tells all ranks every
//    aggregator's window and whether anybody failed. Then each rank moves its own bytes of every window between its
//    user's memory and the aggregator's buffer, at the final place. An aggregator then writes the window of round k - 1,
//    which is complete because its ranks have entered round k's agreement.
// 3. When no aggregator has a window left, or anybody failed, all leave the loop in the same round; a last agreement
//    carries the error.
//
// Two buffers an aggregator: in round k the ranks work on buffer k mod 2. Buffer (k + 1) mod 2 is free to be prepared for
// the next round once agreement k is passed and, for writes, its window k - 1 is written; so storage and copies
// overlap between ranks with one agreement a round. Where a written storage is waited for, there are three, and threads
// write: two windows are under way while the ranks fill the third. Range locks are taken and dropped within one write: held
// across an agreement they could deadlock with another program's aggregators. Memory: two or three windows an aggregator,
// and one more for each under way where holes are modified.
#include "base/guarded.h"
#include "base/worker.h"
#include "collective/across_nodes.h"
#include "collective/aggregator.h"
#include "collective/agreement.h"
#include "collective/collective.h"
#include "collective/stored_order.h"

namespace stridio {
namespace {

class TwoPhase {
 public:
  TwoPhase(Group& group, SharedMemory slots, Storage& storage, const CollectivePlan& plan, Direction direction,
           const Pattern& file, const Memory& memory, std::span<const Buffer> known, Times& times)
      : group_(group),
        slots_(slots),
        storage_(storage),
        plan_(plan),
        direction_(direction),
        file_(file),
        user_{memory.base, Cursor(memory.pattern)},
        known_(known),
        times_(times) {}

  Result<Transferred> run();

 private:
  bool reads() const { return direction_ == Direction::kRead; }
  Status set_up();
  Status exchange_patterns();
  Status take_patterns(std::span<const Buffer> encoded);
  Status rounds();
  Result<Next> announce(std::vector<Round>& rounds);
  void move(const std::vector<Round>& rounds);
  void write_beside();
  void finish_write(int slot);

  const Extent& domain() const { return plan_.domains[static_cast<std::size_t>(domain_)].range; }
  std::byte* slot(std::size_t domain, int round) const {
    return slots_.data + (plan_.slots * static_cast<Bytes>(domain) + round % plan_.slots) * plan_.window;
  }
  std::byte* own_slot(int round) const { return slot(static_cast<std::size_t>(domain_), round); }

  Group& group_;
  const SharedMemory slots_;  // `plan.slots` a domain
  Storage& storage_;
  const CollectivePlan& plan_;
  const Direction direction_;
  const Pattern file_;
  Side user_;
  const std::span<const Buffer> known_;
  Times& times_;

  int domain_ = -1;  // of which this rank is the aggregator
  std::optional<Aggregator> aggregator_;
  int round_ = 0;
  Offset end_of_file_ = std::numeric_limits<Offset>::max();
  Status status_;  // this rank's own; reported in the next agreement

  struct Write {
    FileWindow window;
    Status done;
    Worker beside;
  };
  std::array<Write, CollectivePlan::kMostSlots> writes_;  // by slot; they end before what they use
};

Result<Transferred> TwoPhase::run() {
  RETURN_IF_ERROR(set_up());
  RETURN_IF_ERROR(rounds());
  const Stopwatch watch(times_.waiting);
  RETURN_IF_ERROR(agree(group_, status_));
  const bool eof = reads() && file_.upper() > end_of_file_;
  return Transferred{eof ? file_.bytes_below(end_of_file_) : file_.size(), eof,
                     aggregator_ ? aggregator_->requests() : 0};
}

Status TwoPhase::set_up() {
  for (std::size_t i = 0; i < plan_.domains.size(); ++i)
    if (plan_.domains[i].aggregator == group_.rank()) domain_ = static_cast<int>(i);
  if (plan_.whole) {
    if (domain_ >= 0)
      status_ = guarded([&]() -> Status {
        const Pattern all = Pattern::run(domain().offset, domain().length);
        aggregator_.emplace(storage_, plan_, direction_, std::span(&all, 1), times_);
        return {};
      });
    return {};
  }
  if (known_.empty()) return exchange_patterns();
  if (domain_ >= 0) status_ = guarded([&] { return take_patterns(known_); });
  return {};
}

Status TwoPhase::exchange_patterns() {
  const Stopwatch watch(times_.exchange);
  std::vector<Buffer> sends(static_cast<std::size_t>(group_.size()));
  status_ = guarded([&]() -> Status {
    for (const FileDomain& domain : plan_.domains) {
      const Pattern part = file_.clip(domain.range);
      if (!part.empty()) sends[static_cast<std::size_t>(domain.aggregator)] = part.encode();
    }
    return {};
  });
  ASSIGN_OR_RETURN(const std::vector<Buffer> received, alltoallv(group_, sends));
  if (domain_ >= 0 && status_) status_ = guarded([&] { return take_patterns(received); });
  return {};
}

Status TwoPhase::take_patterns(std::span<const Buffer> encoded) {
  std::vector<Pattern> patterns;
  for (const Buffer& bytes : encoded) {
    ASSIGN_OR_RETURN(const Pattern pattern, bytes.empty() ? Pattern() : Pattern::decode(bytes));
    patterns.push_back(pattern.clip(domain()));
  }
  aggregator_.emplace(storage_, plan_, direction_, patterns, times_);
  return {};
}

Status TwoPhase::rounds() {
  const bool writes = aggregator_ && !reads();
  std::vector<Round> rounds;
  for (;; ++round_) {
    finish_write(round_);
    if (aggregator_ && status_) status_ = guarded([&] { return aggregator_->next(own_slot(round_)); });
    ASSIGN_OR_RETURN(const Next next, announce(rounds));
    if (next == Next::kFail) break;
    const bool beside = plan_.slots > 2;
    if (writes && beside) write_beside();
    if (next == Next::kMove && status_)
      status_ = guarded([&]() -> Status {
        move(rounds);
        return {};
      });
    if (writes && !beside && status_)
      status_ = guarded([&] { return aggregator_->flush_previous(own_slot(round_ + 1)); });
    if (next == Next::kEnd) break;
  }
  for (int slot = 0; slot < plan_.slots; ++slot) finish_write(slot);
  return {};
}

// The window of the round before.
void TwoPhase::write_beside() {
  Write& write = writes_[static_cast<std::size_t>((round_ + plan_.slots - 1) % plan_.slots)];
  status_ = guarded([&]() -> Status {
    write.window = aggregator_->take_previous();
    write.beside.post_or_run([this, &write, buffer = own_slot(round_ + plan_.slots - 1)] {
      write.done = guarded([&] { return aggregator_->write(write.window, buffer); });
    });
    return {};
  });
}

void TwoPhase::finish_write(int slot) {
  const Stopwatch watch(times_.storage);
  Write& write = writes_[static_cast<std::size_t>(slot % plan_.slots)];
  write.beside.wait();
  if (status_) status_ = std::exchange(write.done, {});
}

// The agreement of a round.
Result<Next> TwoPhase::announce(std::vector<Round>& rounds) {
  const Stopwatch watch(times_.waiting);
  Round mine = aggregator_ ? aggregator_->round() : Round{};
  mine.failed = status_ ? 0 : 1;
  ASSIGN_OR_RETURN(const std::vector<Round> all, allgather(group_, mine));
  rounds.clear();
  bool more = false;
  for (const Round& round : all)
    if (round.failed != 0) return Next::kFail;
  for (const FileDomain& domain : plan_.domains) {
    const Round& round = all[static_cast<std::size_t>(domain.aggregator)];
    rounds.push_back(round);
    more = more || !round.window.empty();
    if (reads() && round.valid_end < round.window.end()) end_of_file_ = std::min(end_of_file_, round.valid_end);
  }
  return more ? Next::kMove : Next::kEnd;
}

void TwoPhase::move(const std::vector<Round>& rounds) {
  // Ranks start at different windows, so that they do not all write one buffer's memory at once.
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::size_t domain = (i + static_cast<std::size_t>(group_.rank())) % rounds.size();
    const Extent mine = positions(file_, rounds[domain]);
    if (mine.empty()) continue;
    const Stopwatch watch(times_.copy);
    Side buffer{slot(domain, round_), Cursor(file_.shifted(-rounds[domain].window.offset), mine.offset)};
    user_.cursor.seek(mine.offset);
    reads() ? copy(user_, buffer, mine.length) : copy(buffer, user_, mine.length);
  }
}

}  // namespace

Result<Transferred> two_phase(Group& group, Storage& storage, const CollectivePlan& plan, Direction direction,
                              const Pattern& file, const Memory& memory, const Known& known, Times& times) {
  if (!plan.in_stored_order.empty()) {
    ASSIGN_OR_RETURN(const SharedMemory shared, group.shared(shared_for_stored_order(plan, group.size())));
    if (shared.length > 0) return in_stored_order(group, shared, storage, plan, file, memory, times);
  }
  if (group.node_count() == 1) {
    const Bytes length = plan.slots * plan.window * static_cast<Bytes>(plan.domains.size());
    ASSIGN_OR_RETURN(const SharedMemory slots, group.shared(length));
    if (slots.length > 0)
      return TwoPhase(group, slots, storage, plan, direction, file, memory, known.patterns, times).run();
  }
  return across_nodes(group, storage, plan, direction, file, memory, known, times);
}

}  // namespace stridio
