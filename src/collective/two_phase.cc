// Generalized two-phase I/O (ROMIO paper, section 4.2), in bounded rounds.
//
// 1. Every rank sends each aggregator its pattern cut to the aggregator's file domain, in encoded form: structure, not
//    offset lists (unless the patterns are so small that all know them already). From these the aggregator finds the
//    exact union of the requests, window by window.
// 2. Round k. The aggregator finds window k, and for a read fetches it. One agreement tells all ranks every
//    aggregator's window and whether anybody failed. Then each rank moves its own bytes of every window: where the
//    group shares memory, between its user's memory and the aggregator's buffer, at the final place; else by
//    messages that the aggregator packs or unpacks. An aggregator then writes the window of round k - 1, which is
//    complete because its ranks have entered round k's agreement.
// 3. When no aggregator has a window left, or anybody failed, all leave the loop in the same round; a last agreement
//    carries the error.
//
// Two buffers an aggregator: in round k the ranks work on buffer k mod 2. Buffer (k + 1) mod 2 is free to be prepared for
// the next round once agreement k is passed and, for writes, its window k - 1 is written; so storage and copies
// overlap between ranks with one agreement a round. Range locks are taken and dropped within one write: held across an
// agreement they could deadlock with another program's aggregators. Memory: two windows an aggregator, one message
// a peer, and one window more where holes are modified.
#include <cstring>

#include "access/deep.h"
#include "base/guarded.h"
#include "collective/agreement.h"
#include "collective/collective.h"
#include "collective/window_reader.h"

namespace stridio {
namespace {

// What an aggregator tells of its next window; empty for other ranks and at the end.
struct Round {
  Extent window;
  Offset valid_end = 0;  // a read: where the file ended, if inside the window; else the window's end
  std::int32_t failed = 0;
};

class TwoPhase {
 public:
  TwoPhase(Group& group, Storage& storage, const CollectivePlan& plan, Direction direction,
           const Pattern& file, const Memory& memory, std::span<const Buffer> known, Times& times)
      : group_(group), storage_(storage), plan_(plan), reads_(direction == Direction::kRead),
        file_(file), user_{memory.base, Cursor(memory.pattern)}, known_(known), times_(times) {}

  Result<Transferred> run();

 private:
  Status set_up();
  Status prepare_windows();
  Status exchange_patterns();
  void take_patterns(std::span<const Buffer> encoded);
  Status rounds();
  Status prepare();
  Status fetch(const Extent& range, std::span<const Extent> extents);
  Status flush(const FileWindow& window, std::byte* buffer);
  Result<bool> announce(std::vector<Round>& rounds);
  void move_shared(const std::vector<Round>& rounds);
  Status move_by_messages(const std::vector<Round>& rounds);

  std::byte* slot(std::size_t domain, int parity) const;
  std::byte* own_slot(int parity) const { return slot(static_cast<std::size_t>(domain_), parity); }
  // The data positions of `file` that lie in a window.
  static Extent positions(const Pattern& file, const Round& round);
  // Towards `memory` for a read, from it for a write.
  void copy_range(Side& buffer, Side& memory, Bytes bytes);

  Group& group_;
  Storage& storage_;
  const CollectivePlan& plan_;
  const bool reads_;
  const Pattern file_;
  Side user_;
  const std::span<const Buffer> known_;
  Times& times_;

  int domain_ = -1;                  // of which this rank is the aggregator
  std::vector<Pattern> patterns_;    // by rank, cut to that domain
  std::optional<WindowReader> windows_;
  SharedMemory shared_;              // two slots a domain
  Buffer private_;                   // two slots, where nothing is shared

  int round_ = 0;
  FileWindow window_, previous_;     // of this round and the one before
  Offset valid_end_ = 0;
  Offset end_of_file_ = std::numeric_limits<Offset>::max();
  std::int64_t requests_ = 0;
  Status status_;                    // this rank's own; reported in the next agreement
};

Result<Transferred> TwoPhase::run() {
  RETURN_IF_ERROR(set_up());
  RETURN_IF_ERROR(rounds());
  const Stopwatch watch(times_.waiting);
  RETURN_IF_ERROR(agree(group_, status_));
  const bool eof = reads_ && file_.upper() > end_of_file_;
  return Transferred{eof ? file_.bytes_below(end_of_file_) : file_.size(), eof, requests_};
}

Status TwoPhase::set_up() {
  for (std::size_t i = 0; i < plan_.domains.size(); ++i)
    if (plan_.domains[i].aggregator == group_.rank()) domain_ = static_cast<int>(i);
  if (known_.empty()) RETURN_IF_ERROR(exchange_patterns());
  if (!known_.empty() && domain_ >= 0) take_patterns(known_);
  {
    const Stopwatch watch(times_.waiting);
    ASSIGN_OR_RETURN(shared_, group_.shared(2 * plan_.window * static_cast<Bytes>(plan_.domains.size())));
  }
  if (domain_ >= 0 && status_) status_ = guarded([&] { return prepare_windows(); });
  return {};
}

Status TwoPhase::prepare_windows() {
  windows_.emplace(patterns_, plan_.window);
  if (shared_.length == 0) private_.resize(static_cast<std::size_t>(2 * plan_.window));
  return {};
}

Status TwoPhase::exchange_patterns() {
  const Stopwatch watch(times_.exchange);
  std::vector<Buffer> sends(static_cast<std::size_t>(group_.size()));
  for (const FileDomain& domain : plan_.domains) {
    const Pattern part = file_.clip(domain.range);
    if (!part.empty()) sends[static_cast<std::size_t>(domain.aggregator)] = part.encode();
  }
  ASSIGN_OR_RETURN(const std::vector<Buffer> received, alltoallv(group_, sends));
  if (domain_ >= 0) take_patterns(received);
  return {};
}

void TwoPhase::take_patterns(std::span<const Buffer> encoded) {
  const Extent domain = plan_.domains[static_cast<std::size_t>(domain_)].range;
  for (const Buffer& bytes : encoded) {
    auto pattern = bytes.empty() ? Pattern() : Pattern::decode(bytes);
    if (!pattern) status_ = fail(pattern.error());
    patterns_.push_back(pattern.value_or(Pattern()).clip(domain));
  }
}

std::byte* TwoPhase::slot(std::size_t domain, int parity) const {
  if (shared_.length == 0) return const_cast<std::byte*>(private_.data()) + parity * plan_.window;
  return shared_.data + (2 * static_cast<Bytes>(domain) + parity) * plan_.window;
}

Status TwoPhase::rounds() {
  std::vector<Round> rounds;
  for (;; ++round_) {
    if (domain_ >= 0 && status_) status_ = guarded([&] { return prepare(); });
    ASSIGN_OR_RETURN(const bool more, announce(rounds));
    if (more && shared_.length > 0) move_shared(rounds);
    if (more && shared_.length == 0) RETURN_IF_ERROR(move_by_messages(rounds));
    if (domain_ >= 0 && !reads_ && status_) status_ = guarded([&] { return flush(previous_, own_slot(1 - round_ % 2)); });
    previous_ = std::move(window_);
    window_ = {};
    if (!more) return {};
  }
}

// Finds this aggregator's next window and, for a read, fetches it with the small holes in it.
Status TwoPhase::prepare() {
  window_ = windows_->next();
  valid_end_ = window_.range.end();
  if (window_.empty() || !reads_) return {};
  std::vector<Extent> extents;
  for (const Extent& run : window_.runs) {
    if (!extents.empty() && run.offset - extents.back().end() <= plan_.largest_gap) {
      extents.back().length = run.end() - extents.back().offset;
    } else {
      extents.push_back(run);
    }
  }
  return fetch(window_.range, extents);
}

Status TwoPhase::fetch(const Extent& range, std::span<const Extent> extents) {
  const Stopwatch watch(times_.storage);
  std::byte* buffer = own_slot(round_ % 2);
  std::vector<Span> spans;
  spans.reserve(extents.size());
  for (const Extent& extent : extents)
    spans.push_back({buffer + (extent.offset - range.offset), extent.length});
  ASSIGN_OR_RETURN(const Transferred got,
                   transfer_deep(storage_, Direction::kRead, extents, spans, plan_.depth, plan_.unit));
  requests_ += got.requests;
  Bytes left = got.bytes;
  for (const Extent& extent : extents) {
    if (left < extent.length) {
      valid_end_ = extent.offset + left;
      break;
    }
    left -= extent.length;
  }
  return {};
}

Status TwoPhase::flush(const FileWindow& window, std::byte* buffer) {
  if (window.empty()) return {};
  const Stopwatch watch(times_.storage);
  std::unique_ptr<RangeLock> lock;
  if (plan_.lock_writes) {
    ASSIGN_OR_RETURN(lock, storage_.lock(window.range, LockMode::kExclusive));
  }
  const auto runs = static_cast<std::int64_t>(window.runs.size());
  requests_ += runs;
  if (!plan_.modify_holes(window.range.length, runs))
    return write_from(storage_, window.runs, buffer, window.range.offset, plan_.depth, plan_.unit);

  Buffer whole(static_cast<std::size_t>(window.range.length));  // zeros past the end of the file
  const Span all{whole.data(), window.range.length};
  RETURN_IF_ERROR(transfer_deep(storage_, Direction::kRead, {&window.range, 1}, {&all, 1}, plan_.depth, plan_.unit));
  for (const Extent& run : window.runs) {
    const Offset at = run.offset - window.range.offset;
    std::memcpy(whole.data() + at, buffer + at, static_cast<std::size_t>(run.length));
  }
  return write_from(storage_, {&window.range, 1}, whole.data(), window.range.offset, plan_.depth, plan_.unit);
}

// The agreement of a round. False when nobody has a window left or somebody failed.
Result<bool> TwoPhase::announce(std::vector<Round>& rounds) {
  const Stopwatch watch(times_.waiting);
  const Round mine{window_.range, valid_end_, status_ ? 0 : 1};
  ASSIGN_OR_RETURN(const std::vector<Round> all, allgather(group_, mine));
  rounds.clear();
  bool more = false;
  for (const Round& round : all)
    if (round.failed != 0) return false;
  for (const FileDomain& domain : plan_.domains) {
    const Round& round = all[static_cast<std::size_t>(domain.aggregator)];
    rounds.push_back(round);
    more = more || !round.window.empty();
    if (reads_ && round.valid_end < round.window.end())
      end_of_file_ = std::min(end_of_file_, round.valid_end);
  }
  return more;
}

Extent TwoPhase::positions(const Pattern& file, const Round& round) {
  if (round.window.empty()) return {};
  const Bytes begin = file.bytes_below(round.window.offset);
  return {begin, file.bytes_below(std::min(round.window.end(), round.valid_end)) - begin};
}

void TwoPhase::copy_range(Side& buffer, Side& memory, Bytes bytes) {
  const Stopwatch watch(times_.copy);
  reads_ ? copy(memory, buffer, bytes) : copy(buffer, memory, bytes);
}

void TwoPhase::move_shared(const std::vector<Round>& rounds) {
  // Ranks start at different windows, so that they do not all write one buffer's memory at once.
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::size_t domain = (i + static_cast<std::size_t>(group_.rank())) % rounds.size();
    const Extent mine = positions(file_, rounds[domain]);
    if (mine.empty()) continue;
    Side buffer{slot(domain, round_ % 2),
                Cursor(file_.shifted(-rounds[domain].window.offset), mine.offset)};
    user_.cursor.seek(mine.offset);
    copy_range(buffer, user_, mine.length);
  }
}

Status TwoPhase::move_by_messages(const std::vector<Round>& rounds) {
  // A message on the user's side for each window, one on the aggregator's side for each rank.
  std::vector<Buffer> near(rounds.size()), far(patterns_.size());
  std::vector<Message> near_messages, far_messages;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const Extent mine = positions(file_, rounds[i]);
    if (mine.empty()) continue;
    near[i].resize(static_cast<std::size_t>(mine.length));
    near_messages.push_back({plan_.domains[i].aggregator, {near[i].data(), mine.length}});
  }
  const auto each_rank = [&](auto body) {
    if (domain_ < 0) return;
    const Round& round = rounds[static_cast<std::size_t>(domain_)];
    for (std::size_t rank = 0; rank < patterns_.size(); ++rank) {
      const Extent theirs = positions(patterns_[rank], round);
      if (theirs.empty()) continue;
      Side window{own_slot(round_ % 2),
                  Cursor(patterns_[rank].shifted(-round.window.offset), theirs.offset)};
      body(rank, window, theirs.length);
    }
  };
  const auto move_far = [&](std::size_t rank, Side& window, Bytes bytes) {
    Side message{far[rank].data(), Cursor(Pattern::run(0, bytes))};
    copy_range(window, message, bytes);
  };
  const auto move_near = [&] {
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Extent mine = positions(file_, rounds[i]);
      if (mine.empty()) continue;
      Side message{near[i].data(), Cursor(Pattern::run(0, mine.length))};
      user_.cursor.seek(mine.offset);
      copy_range(message, user_, mine.length);
    }
  };
  each_rank([&](std::size_t rank, Side&, Bytes bytes) {
    far[rank].resize(static_cast<std::size_t>(bytes));
    far_messages.push_back({static_cast<int>(rank), {far[rank].data(), bytes}});
  });
  reads_ ? each_rank(move_far) : move_near();
  {
    const Stopwatch watch(times_.exchange);
    RETURN_IF_ERROR(reads_ ? group_.exchange(far_messages, near_messages)
                           : group_.exchange(near_messages, far_messages));
  }
  reads_ ? move_near() : each_rank(move_far);
  return {};
}

}  // namespace

Result<Transferred> two_phase(Group& group, Storage& storage, const CollectivePlan& plan,
                              Direction direction, const Pattern& file, const Memory& memory,
                              std::span<const Buffer> known, Times& times) {
  return TwoPhase(group, storage, plan, direction, file, memory, known, times).run();
}

}  // namespace stridio
