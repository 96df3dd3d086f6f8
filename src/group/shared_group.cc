// The segment holds a header, the persistent bytes, a card for each rank, two rows of agreement
// bytes, a channel for each ordered pair of ranks, and kSlots chunks for each sender. Only atomics
// of 32 or 64 bits synchronize; what they publish is plain.
//
// Agreement number g (barrier and allgather; `state` is 2 * the last completed number, + 1 once the
// group failed):
//  1. Each rank writes its bytes into row g % 2, then counts itself in `arrivals`. One row would
//  not do: a fast
//     rank would write g + 1 over what a slow one still reads of g. Two do: nobody writes g + 2
//     before all have arrived in g + 1, that is, have read g. So one wait an agreement suffices.
//  2. The last to arrive sets `arrivals` to 0 (all the others wait, nobody counts), and only then
//  moves `state`
//     from 2(g-1) to 2g, by compare-and-swap: an agreement is completed on all ranks, or failed on
//     all.
//  3. The others wait for `state`. Failing it means setting bit 0, which keeps the number: who
//  wakes late
//     still sees that g was completed, before the failure. Hence completion is looked at first,
//     everywhere.
//
// Exchange, a loop on each rank of: pull every chunk that has come, push into every slot that is
// free, sleep.
//  4. A sender owns its slots, and knows from the channel's `taken` count which of them have been
//  emptied: a slot
//     has one writer, and no free list is shared.
//  5. Chunk number n of a channel: fill the slot, write the slot's number at place n % kSlots, set
//  `sent` to n + 1.
//     A sender has kSlots slots, so places never run out. Messages of a pair follow each other in
//     one channel, and each chunk carries the length of its message, so that a disagreement is an
//     error, not a mix-up.
//  6. A rank rings the other's `bell` after a push and after a pull, and wakes it if it sleeps. A
//  sleeper samples its
//     bell before the pass that finds nothing: what comes later has changed the bell, and the futex
//     returns.
//  7. No deadlock: among blocked ranks take one in the earliest call c. Whoever it waits for is in
//  c or later.
//     One in a later call has pushed all of c. One in c holds slots only for ranks that have not
//     finished c, which are in c too, hence pull. So something moves. Memory: kSlots chunks a rank,
//     whatever the messages.
//
// Waiting: a short spin if every rank can have a core, then futex sleeps of at most 1 ms with the
// host's progress between; a wake-up lost to a dying process costs 1 ms. Ranks that left, or died,
// fail the group only if one more look finds nothing: what they did before they went counts.
//
// Cost: an agreement is one atomic add a rank and one wake by the last; a message is two copies.
#include "group/shared_group.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "group/futex.h"
#include "group/levels.h"
#include "group/overdue.h"
#include "group/process_id.h"

namespace stridio {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNap{1};        // where there is progress to drive
constexpr std::chrono::milliseconds kLongNap{100};  // else: every change comes with a wake
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr std::size_t kLine = 64;  // of the cache: what different ranks write stays on different lines
constexpr std::uint32_t kSlots = 4;
constexpr Bytes kAllSlotsBytes = 1 << 20;  // of the group together, within these bounds of a chunk
constexpr Bytes kLeastChunk = 4 << 10, kMostChunk = 64 << 10;
constexpr Bytes kSpaciousRanks = 64;  // to so many, every channel has a line of the cache for itself

constexpr std::uint32_t kFailed = 1;  // bit of Header::state

enum class Cause : std::uint32_t { kNone, kDied, kLeft, kLengths };

struct Header {
  alignas(kLine) SharedWord arrivals;
  alignas(kLine) SharedWord state;
  alignas(kLine) SharedWord sleepers;             // on `state`
  alignas(kLine) std::atomic<std::uint64_t> why;  // Cause in the high half, rank in the low; set
                                                  // before kFailed
  SharedWord left;                                // how many ranks have left
  SharedWord reported;                            // the last agreement that was said to take too long
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct alignas(kLine) Card {
  Bell bell;
  SharedWord left;
  SharedWord entered;  // the last agreement
  ProcessId process;   // this and the next are constant once the segment is agreed upon
  cpu_set_t cores;
};

struct Channel {
  SharedWord sent, taken;
  std::uint8_t slots[kSlots];
};

struct alignas(kLine) SlotHeader {
  Bytes message_length;
  Bytes chunk_length;
};

// Where things stand in a segment for so many ranks.
struct Layout {
  explicit Layout(int ranks) : n(ranks) {
    chunk = kMostChunk;
    while (chunk > kLeastChunk && chunk * kSlots * n > kAllSlotsBytes) chunk /= 2;
    channel_step = n <= kSpaciousRanks ? Bytes{kLine} : 16;
    persistent = sizeof(Header);
    cards = persistent + Group::kPersistentBytes;
    rows = cards + n * Bytes{sizeof(Card)};
    channels = rows + 2 * n * Group::kAgreementBytes;
    slots = (channels + n * n * channel_step + kLine - 1) / kLine * kLine;
    length = slots + n * kSlots * (Bytes{sizeof(SlotHeader)} + chunk);
  }
  Bytes n, chunk, channel_step, persistent, cards, rows, channels, slots, length;
};

// Typed access to the segment.
class Board {
 public:
  Board(std::byte* base, int ranks) : base_(base), layout_(ranks) {}

  Header& header() const { return at<Header>(0); }
  std::byte* persistent() const { return base_ + layout_.persistent; }
  Card& card(int rank) const { return at<Card>(layout_.cards + rank * Bytes{sizeof(Card)}); }
  std::byte* row(std::uint32_t parity) const {
    return base_ + layout_.rows + parity * layout_.n * Group::kAgreementBytes;
  }
  Channel& channel(int from, int to) const {
    return at<Channel>(layout_.channels + (to * layout_.n + from) * layout_.channel_step);
  }
  SlotHeader& slot(int from, std::uint32_t number) const {
    const Bytes step = Bytes{sizeof(SlotHeader)} + layout_.chunk;
    return at<SlotHeader>(layout_.slots + (from * kSlots + number) * step);
  }
  Bytes chunk() const { return layout_.chunk; }

 private:
  template <typename T>
  T& at(Bytes offset) const {
    return *reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_;
  Layout layout_;
};

std::byte* bytes_of(SlotHeader& slot) { return reinterpret_cast<std::byte*>(&slot + 1); }

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// One wait: spins once, then sleeps, drives progress, and says when it is time to look whether
// peers live.
class Wait {
 public:
  Wait(const SharedGroupOptions& options, bool spin) : options_(options), spin_(spin) {}

  enum class Then { kLook, kLookAtPeersToo };
  // Until `word` no longer holds `seen`, or a nap later.
  Then nap(SharedWord& word, std::uint32_t seen, SharedWord& sleepers);
  // Calls `say`, once, when it has taken too long.
  template <typename Say>
  void complain(Say say) {
    if (patience_ && patience_->ends()) say(*patience_);
  }

 private:
  bool spun(const SharedWord& word, std::uint32_t seen);

  const SharedGroupOptions& options_;
  bool spin_;
  std::optional<steady_clock::time_point> watch_at_;
  std::optional<Patience> patience_;
};

bool Wait::spun(const SharedWord& word, std::uint32_t seen) {
  if (!std::exchange(spin_, false)) return false;
  const auto end = steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.load(std::memory_order_acquire) != seen) return true;
      pause();
    }
  } while (steady_clock::now() < end);
  return false;
}

Wait::Then Wait::nap(SharedWord& word, std::uint32_t seen, SharedWord& sleepers) {
  if (spun(word, seen)) return Then::kLook;
  sleepers.fetch_add(1);
  const Nap nap = futex_sleep(word, seen, options_.progress ? kNap : std::min(kLongNap, options_.watch_period));
  sleepers.fetch_sub(1);
  if (nap == Nap::kChanged) return Then::kLook;
  if (options_.progress) options_.progress();
  const auto now = steady_clock::now();
  if (!watch_at_) watch_at_ = now + options_.watch_period;
  if (!patience_) patience_.emplace();
  if (now < *watch_at_) return Then::kLook;
  watch_at_ = now + options_.watch_period;
  return Then::kLookAtPeersToo;
}

// What remains of one message.
struct Transfer {
  Ticket exchange;
  int peer;
  std::byte* at;
  Bytes left;
  Bytes length;
};

using Transfers = std::vector<Transfer>;

std::vector<int> peers(const Transfers& sends, const Transfers& receives) {
  std::set<int> ranks;
  for (const Transfer& send : sends) ranks.insert(send.peer);
  for (const Transfer& receive : receives) ranks.insert(receive.peer);
  return {ranks.begin(), ranks.end()};
}

class SharedGroup final : public Group {
 public:
  SharedGroup(int rank, int size, SharedGroupOptions options, std::shared_ptr<Segment> segment);
  ~SharedGroup() override;
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_of(int) const override { return 0; }
  int node_count() const override { return 1; }

  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override;
  Status finish(Ticket ticket) override;
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes length) override;
  Result<std::shared_ptr<Segment>> segment(Bytes length, Bytes reserved) override;
  Result<std::shared_ptr<Segment>> lasting_segment(Bytes length, Bytes reserved) override;
  std::shared_ptr<Segment> lasting_segment() override { return lasting_; }
  bool runs_anywhere() const override { return true; }
  Status await(Bell& bell, std::uint32_t heard, const std::function<std::vector<int>()>& missing) override;
  SharedMemory persistent() override { return {board_.persistent(), kPersistentBytes}; }

 private:
  Header& header() const { return board_.header(); }
  bool has_failed() const { return header().state.load(std::memory_order_acquire) & kFailed; }
  Error failure() const;
  struct Doubt {
    Cause cause;
    int culprit;
  };
  std::optional<Doubt> find_left(const std::vector<int>& ranks) const;
  std::optional<Doubt> find_dead(const std::vector<int>& ranks) const;
  Error fail_for(Doubt doubt);
  std::vector<int> absent(std::vector<int> ranks) const;  // those of them that are not in this agreement's call yet
  void complain(const Patience& patience, std::vector<int> missing) const;

  Result<const std::byte*> agree(std::span<const std::byte> mine);
  bool complete(std::uint32_t number);
  Status await(std::uint32_t number);

  Result<std::unique_ptr<Levels>> make_levels(bool) override { return Levels::make(*this, {}); }

  void add(Transfers& list, std::span<const Message> messages) const;
  Result<bool> move();
  Result<bool> pull(Transfer& receive);
  bool push(Transfer& send, std::size_t allowed);
  std::optional<std::uint32_t> free_slot(int peer, std::size_t allowed);
  void ring(int peer);

  // What this rank last put into a slot of its own: it is emptied when the channel has `taken` so
  // many chunks.
  struct SlotUse {
    int peer = -1;
    std::uint32_t sent = 0;
  };

  const int rank_, size_;
  const SharedGroupOptions options_;
  const std::shared_ptr<Segment> segment_;
  const Board board_;
  bool spin_ = false;
  std::vector<int> others_;
  std::vector<bool> watched_;
  std::uint32_t agreements_ = 0;  // entered by this rank
  Ticket exchanges_ = 0;          // started by it
  Transfers sends_, receives_;    // under way
  SlotUse slots_[kSlots];
  std::shared_ptr<Segment> data_, lasting_;
  std::optional<Bytes> refused_;  // the least length that could not be had
};

SharedGroup::SharedGroup(int rank, int size, SharedGroupOptions options, std::shared_ptr<Segment> segment)
    : rank_(rank),
      size_(size),
      options_(std::move(options)),
      segment_(std::move(segment)),
      board_(segment_->data(), size) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int r = 0; r < size; ++r) {
    const Card& card = board_.card(r);
    CPU_OR(&cores, &cores, &card.cores);
    if (r != rank) others_.push_back(r);
    const bool here = card.process.pid == board_.card(rank).process.pid;
    watched_.push_back(!options_.one_address_space && !here && can_watch(card.process));
  }
  spin_ = CPU_COUNT(&cores) >= size;
}

SharedGroup::~SharedGroup() {
  board_.card(rank_).left.store(1);
  header().left.fetch_add(1);
  futex_wake(header().state);
  for (int r : others_) ring(r);
}

// --- Failure ---

Error SharedGroup::failure() const {
  const std::uint64_t why = header().why.load(std::memory_order_acquire);
  const int culprit = static_cast<int>(why & 0xFFFFFFFF);
  Error error{.code = Code::kOther, .what = "", .rank = culprit};
  switch (static_cast<Cause>(why >> 32)) {
    case Cause::kNone: break;
    case Cause::kDied:
      error.what = "a process of the group has died: pid " + std::to_string(board_.card(culprit).process.pid);
      break;
    case Cause::kLeft: error.what = "a rank left the group while others wait for it"; break;
    case Cause::kLengths: error.what = "a message is not as long as its receiver expects"; break;
  }
  return error;
}

std::vector<int> SharedGroup::absent(std::vector<int> ranks) const {
  std::erase_if(ranks, [&](int r) { return board_.card(r).entered.load(std::memory_order_acquire) == agreements_; });
  return ranks;
}

// One rank for all that wait in this agreement.
void SharedGroup::complain(const Patience& patience, std::vector<int> missing) const {
  if (missing.empty() || header().reported.exchange(agreements_) == agreements_) return;
  const auto known_as = [&](int r) {
    return options_.known_as.empty() ? r : options_.known_as[static_cast<std::size_t>(r)];
  };
  for (int& each : missing) each = known_as(each);
  warn(fmt::format("rank {} of {} {}: {} {} missing: not in the call yet, or held up by their storage", known_as(rank_),
                   options_.known_as.empty() ? size_ : options_.known_size, patience.text(), list_of(missing),
                   missing.size() == 1 ? "is" : "are"));
}

// Fails the group, unless it has failed before; its first failure.
Error SharedGroup::fail_for(Doubt doubt) {
  std::uint64_t none = 0;
  header().why.compare_exchange_strong(
      none, static_cast<std::uint64_t>(doubt.cause) << 32 | static_cast<std::uint32_t>(doubt.culprit));
  header().state.fetch_or(kFailed);
  futex_wake(header().state);
  for (int r : others_) ring(r);
  return failure();
}

std::optional<SharedGroup::Doubt> SharedGroup::find_left(const std::vector<int>& ranks) const {
  if (header().left.load(std::memory_order_acquire) == 0) return {};
  for (int r : ranks)
    if (board_.card(r).left.load(std::memory_order_acquire) != 0) return Doubt{Cause::kLeft, r};
  return {};
}

std::optional<SharedGroup::Doubt> SharedGroup::find_dead(const std::vector<int>& ranks) const {
  for (int r : ranks)
    if (watched_[static_cast<std::size_t>(r)] && has_died(board_.card(r).process)) return Doubt{Cause::kDied, r};
  return {};
}

// --- Agreements ---

Status SharedGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (std::ssize(mine) > kAgreementBytes || all.size() != mine.size() * others_.size() + mine.size())
    return fail(Code::kArgument, "an agreement takes at most 4096 bytes a rank, and room for all ranks'");
  ASSIGN_OR_RETURN(const std::byte* row, agree(mine));
  for (std::size_t r = 0; r <= others_.size() && !mine.empty(); ++r)
    std::memcpy(all.data() + r * mine.size(), row + r * kAgreementBytes, mine.size());
  return {};
}

// The row of all ranks' bytes; it stands until this rank enters the agreement after the next.
Result<const std::byte*> SharedGroup::agree(std::span<const std::byte> mine) {
  if (has_failed()) return fail(failure());
  const std::uint32_t number = ++agreements_;
  std::byte* const row = board_.row(number % 2);
  if (!mine.empty()) std::memcpy(row + rank_ * kAgreementBytes, mine.data(), mine.size());
  board_.card(rank_).entered.store(number, std::memory_order_release);
  const auto arrived = header().arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived == static_cast<std::uint32_t>(size_)) {
    if (!complete(number)) return fail(failure());
  } else {
    RETURN_IF_ERROR(await(number));
  }
  return row;
}

// False: the group failed first.
bool SharedGroup::complete(std::uint32_t number) {
  header().arrivals.store(0, std::memory_order_relaxed);
  std::uint32_t before = (number - 1) * 2;
  if (!header().state.compare_exchange_strong(before, number * 2)) return false;
  if (header().sleepers.load() > 0) futex_wake(header().state);
  return true;
}

Status SharedGroup::await(std::uint32_t number) {
  Wait wait(options_, spin_);
  const auto completed = [&](std::uint32_t state) { return (state & ~kFailed) == number * 2; };
  std::optional<Doubt> doubt;
  for (;;) {
    const std::uint32_t state = header().state.load(std::memory_order_acquire);
    if (completed(state)) return {};
    if (state & kFailed) return fail(failure());
    if (doubt) {
      const Error error = fail_for(*doubt);
      return completed(header().state.load()) ? Status{} : fail(error);
    }
    doubt = find_left(others_);
    if (doubt) continue;
    if (wait.nap(header().state, state, header().sleepers) == Wait::Then::kLookAtPeersToo) {
      doubt = find_dead(others_);
      if (!doubt) wait.complain([&](const Patience& patience) { complain(patience, absent(others_)); });
    }
  }
}

// --- Between agreements ---

Status SharedGroup::await(Bell& bell, std::uint32_t heard, const std::function<std::vector<int>()>& missing) {
  Wait wait(options_, spin_);
  while (bell.rings.load(std::memory_order_acquire) == heard) {
    if (has_failed()) return fail(failure());
    std::optional<Doubt> doubt = find_left(others_);
    if (!doubt && wait.nap(bell.rings, heard, bell.sleepers) == Wait::Then::kLookAtPeersToo) {
      doubt = find_dead(others_);
      if (!doubt) wait.complain([&](const Patience& patience) { complain(patience, missing()); });
    }
    if (doubt && bell.rings.load() == heard) return fail(fail_for(*doubt));
  }
  return {};
}

// --- Exchange ---

void SharedGroup::ring(int peer) { board_.card(peer).bell.ring(); }

// In the order of ranks after this one's, so that not everybody sends to rank 0 first.
void SharedGroup::add(Transfers& list, std::span<const Message> messages) const {
  const auto before = static_cast<std::ptrdiff_t>(list.size());
  for (const Message& message : messages)
    if (message.bytes.length > 0)
      list.push_back({exchanges_, message.peer, message.bytes.data, message.bytes.length, message.bytes.length});
  const auto turn = [&](const Transfer& t) { return (t.peer - rank_ + size_) % size_; };
  std::sort(list.begin() + before, list.end(), [&](const Transfer& a, const Transfer& b) { return turn(a) < turn(b); });
}

Ticket SharedGroup::start(std::span<const Message> sends, std::span<const Message> receives) {
  ++exchanges_;
  add(sends_, sends);
  add(receives_, receives);
  if (!has_failed()) (void)move();  // a failure shows again in finish()
  return exchanges_;
}

Status SharedGroup::finish(Ticket ticket) {
  Card& card = board_.card(rank_);
  Wait wait(options_, spin_);
  std::optional<Doubt> doubt;
  const auto of_this = [ticket](const Transfer& transfer) { return transfer.exchange == ticket; };
  const auto give_up = [&](Error error) {
    std::erase_if(sends_, of_this);
    std::erase_if(receives_, of_this);
    return fail(std::move(error));
  };
  if (has_failed()) return give_up(failure());
  for (;;) {
    const std::uint32_t bell = card.bell.rings.load(std::memory_order_acquire);
    const auto moved = move();
    if (!moved) return give_up(moved.error());
    if (std::none_of(sends_.begin(), sends_.end(), of_this) &&
        std::none_of(receives_.begin(), receives_.end(), of_this))
      return {};
    if (*moved) {
      doubt.reset();
      continue;
    }
    if (has_failed()) return give_up(failure());
    if (doubt) return give_up(fail_for(*doubt));
    doubt = find_left(peers(sends_, receives_));
    if (doubt) continue;
    if (wait.nap(card.bell.rings, bell, card.bell.sleepers) == Wait::Then::kLookAtPeersToo) {
      doubt = find_dead(peers(sends_, receives_));
      if (!doubt)
        wait.complain([&](const Patience& patience) { complain(patience, absent(peers(sends_, receives_))); });
    }
  }
}

// One chunk of each message where there is one; whether there was any.
Result<bool> SharedGroup::move() {
  bool moved = false;
  for (Transfer& receive : receives_) {
    ASSIGN_OR_RETURN(const bool pulled, pull(receive));
    moved |= pulled;
  }
  const std::size_t allowed = std::max<std::size_t>(1, kSlots / std::max<std::size_t>(1, sends_.size()));
  for (Transfer& send : sends_) moved |= push(send, allowed);
  const auto done = [](const Transfer& transfer) { return transfer.left == 0; };
  std::erase_if(receives_, done);
  std::erase_if(sends_, done);
  return moved;
}

Result<bool> SharedGroup::pull(Transfer& receive) {
  Channel& channel = board_.channel(receive.peer, rank_);
  const std::uint32_t number = channel.taken.load(std::memory_order_relaxed);
  if (channel.sent.load(std::memory_order_acquire) == number) return false;
  SlotHeader& slot = board_.slot(receive.peer, channel.slots[number % kSlots]);
  if (slot.message_length != receive.length || slot.chunk_length > receive.left)
    return fail(fail_for({Cause::kLengths, receive.peer}));
  std::memcpy(receive.at, bytes_of(slot), static_cast<std::size_t>(slot.chunk_length));
  receive.at += slot.chunk_length;
  receive.left -= slot.chunk_length;
  channel.taken.store(number + 1, std::memory_order_release);
  ring(receive.peer);
  return true;
}

// `allowed`: how many slots may hold chunks for this peer, so that a late one leaves some to the
// others.
bool SharedGroup::push(Transfer& send, std::size_t allowed) {
  const auto free = free_slot(send.peer, allowed);
  if (!free) return false;
  Channel& channel = board_.channel(rank_, send.peer);
  const std::uint32_t number = channel.sent.load(std::memory_order_relaxed);
  SlotHeader& slot = board_.slot(rank_, *free);
  slot.message_length = send.length;
  slot.chunk_length = std::min(send.left, board_.chunk());
  std::memcpy(bytes_of(slot), send.at, static_cast<std::size_t>(slot.chunk_length));
  send.at += slot.chunk_length;
  send.left -= slot.chunk_length;
  slots_[*free] = {send.peer, number + 1};
  channel.slots[number % kSlots] = static_cast<std::uint8_t>(*free);
  channel.sent.store(number + 1, std::memory_order_release);
  ring(send.peer);
  return true;
}

// What is seen emptied is forgotten: 2^31 chunks later the count would tell the opposite.
std::optional<std::uint32_t> SharedGroup::free_slot(int peer, std::size_t allowed) {
  std::optional<std::uint32_t> free;
  std::size_t held = 0;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    SlotUse& use = slots_[i];
    const auto emptied = [&] {
      const std::uint32_t taken = board_.channel(rank_, use.peer).taken.load(std::memory_order_acquire);
      return static_cast<std::int32_t>(taken - use.sent) >= 0;
    };
    if (use.peer >= 0 && emptied()) use = {};
    if (use.peer < 0)
      free = i;
    else if (use.peer == peer)
      ++held;
  }
  return held < allowed ? free : std::nullopt;
}

// --- The data segment ---

Result<SharedMemory> SharedGroup::shared(Bytes length) {
  const bool enough = data_ && length <= data_->length();
  if (!enough && !(refused_ && length >= *refused_)) {
    auto agreed = agree_on_segment(bootstrap_over(*this), length, length, options_.one_address_space);
    if (!agreed && agreed.error().code != Code::kNoMemory) return fail(agreed.error());
    if (agreed)
      data_ = std::move(*agreed);
    else
      refused_ = length;
  }
  if (!data_ || length > data_->length()) return SharedMemory{};
  return SharedMemory{data_->data(), data_->length()};
}

Result<std::shared_ptr<Segment>> SharedGroup::segment(Bytes length, Bytes reserved) {
  auto agreed = agree_on_segment(bootstrap_over(*this), length, reserved, options_.one_address_space);
  if (!agreed && agreed.error().code == Code::kNoMemory) return nullptr;
  return agreed;
}

Result<std::shared_ptr<Segment>> SharedGroup::lasting_segment(Bytes length, Bytes reserved) {
  if (!lasting_) {
    ASSIGN_OR_RETURN(lasting_, segment(length, reserved));
  }
  return lasting_;
}

}  // namespace

Result<std::unique_ptr<Group>> make_shared_group(const Bootstrap& bootstrap, SharedGroupOptions options) {
  const auto write_card = [&](Segment& segment) {
    Card& card = Board(segment.data(), bootstrap.size).card(bootstrap.rank);
    card.process = this_process();
    if (sched_getaffinity(0, sizeof card.cores, &card.cores) != 0) CPU_ZERO(&card.cores);
  };
  const auto length = Layout(bootstrap.size).length;
  ASSIGN_OR_RETURN(auto segment, agree_on_segment(bootstrap, length, length, options.one_address_space, write_card));
  return std::make_unique<SharedGroup>(bootstrap.rank, bootstrap.size, std::move(options), std::move(segment));
}

}  // namespace stridio
