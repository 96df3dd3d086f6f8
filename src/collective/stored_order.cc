// Nobody serves anybody. The ranks pass through the file window by window, and within a window through the blocks of what is stored,
// in ascending order: a block of a window has a number, the same for all. Slots in shared memory hold blocks, number n in slot
// n % slots. Each rank goes through the numbers of which it wants something; what nobody has fetched yet it fetches itself, what
// another is fetching it leaves for later, and what is there it copies to where it goes.
//
//  1. A rank's mark is the least number that it still wants something of, or behind all of them. It only grows.
//  2. A slot's state is the number in it, and whether that is being fetched or there. Number n is claimed, by compare-and-swap, when all
//     marks are beyond n - slots. So nobody wants what was in the slot, and nobody can claim it for a number that somebody has still to
//     get at: those lie less than `slots` apart. The rank with the least mark can always go on: its number is there, being fetched by
//     somebody who waits for nobody, or can be claimed.
//  3. Who can do nothing sleeps until the block that it wants first is there, if somebody fetches that, or else until the marks
//     have passed one more quarter of the slots: to be woken for a single block takes as long as to copy its pieces. The last mark to pass
//     a quarter's end rings. So nobody sleeps until it has the least mark itself: its block is `slots` or more beyond the
//     least mark that it saw, and a quarter ends between the two.
//  4. A block that cannot be fetched, or is damaged, is there all the same, and marked as failed: who wants some of it reads what it wants of
//     the window by itself, and finds out what the matter is. So do ranks with too many pieces in a window to be kept, or with so few of
//     so many blocks that these would be fetched for little. Who fails moves its mark behind everything, so that nobody waits for
//     it, and tells in the last agreement.
//
// So ranks wait for one that is `slots` blocks behind. Memory: a rank's pieces of one window, at most some megabytes.
#include "collective/stored_order.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "access/batch.h"
#include "base/copy_bytes.h"
#include "base/guarded.h"
#include "collective/aggregator.h"
#include "collective/agreement.h"
#include "storage/stored_read.h"

namespace stridio {
namespace {

constexpr std::size_t kLine = 64;             // of the cache: what different ranks write stays on different lines
constexpr std::size_t kMostRanges = 1 << 17;  // of file or memory at once
constexpr std::uint64_t kBehindAll = std::numeric_limits<std::uint64_t>::max();

enum class Phase : std::uint64_t { kNone, kFetching, kThere, kFailed };

struct alignas(kLine) Mark {
  std::atomic<std::uint64_t> number;
};

struct alignas(kLine) Slot {
  std::atomic<std::uint64_t> state;  // 4 * number + Phase
  Bell bell;                         // rings when its block has been fetched
};

constexpr std::uint64_t state_of(std::uint64_t number, Phase phase) {
  return 4 * number + static_cast<std::uint64_t>(phase);
}

// Where things stand in the shared memory.
class Board {
 public:
  Board(SharedMemory memory, int ranks, int slots) : base_(memory.data), ranks_(ranks), slots_(slots) {}

  // Blocks begin with pages, as they do in the file: so the kernel copies them fastest.
  static Bytes head_bytes(int ranks, int slots) {
    const auto head = static_cast<Bytes>(kLine + sizeof(Mark) * static_cast<std::size_t>(ranks) +
                                         sizeof(Slot) * static_cast<std::size_t>(slots));
    return (head + Profile::kPage - 1) / Profile::kPage * Profile::kPage;
  }
  static Bytes bytes(int ranks, int slots) { return head_bytes(ranks, slots) + slots * StoredRead::kBlock; }

  void clear() const { std::memset(base_, 0, static_cast<std::size_t>(head_bytes(ranks_, slots_))); }
  std::uint64_t slots() const { return static_cast<std::uint64_t>(slots_); }
  // Rings when all marks have passed one more quarter of the slots.
  Bell& bell() const { return *reinterpret_cast<Bell*>(base_); }
  Mark& mark(int rank) const { return reinterpret_cast<Mark*>(base_ + kLine)[rank]; }
  Slot& slot(std::uint64_t number) const { return reinterpret_cast<Slot*>(&mark(ranks_))[number % slots()]; }
  std::byte* block(std::uint64_t number) const {
    return base_ + head_bytes(ranks_, slots_) + static_cast<Bytes>(number % slots()) * StoredRead::kBlock;
  }
  std::uint64_t least_mark() const {
    std::uint64_t least = kBehindAll;
    for (int rank = 0; rank < ranks_; ++rank) least = std::min(least, mark(rank).number.load());
    return least;
  }

 private:
  std::byte* const base_;
  const int ranks_, slots_;
};

class StoredOrder {
 public:
  StoredOrder(Group& group, SharedMemory memory, Storage& storage, const CollectivePlan& plan, const Pattern& file,
              const Memory& to, Times& times)
      : group_(group),
        board_(memory, group.size(), plan.stored_blocks),
        storage_(storage),
        plan_(plan),
        file_(file),
        at_(file),
        to_(to),
        user_(to.pattern),
        times_(times),
        streaming_(static_cast<std::size_t>(file.size())) {}

  Result<Transferred> run();

 private:
  // What this rank wants of one block.
  struct Wanted {
    std::uint64_t number;
    std::span<const StoredPiece> pieces;
    bool taken = false;
  };

  Status read_all();
  Status read_window(Extent window, std::uint64_t first_number, std::uint64_t end_number);
  bool gather(Bytes end);
  Status read_together(std::uint64_t first_number, std::uint64_t end_number);
  Status read_alone();
  void cut(std::uint64_t first_number);
  bool is_sparse() const;
  bool take_one();
  bool fetch_one();
  void take(Wanted& wanted);
  void move_mark(std::uint64_t number);
  std::vector<int> late() const;

  Group& group_;
  const Board board_;
  Storage& storage_;
  const CollectivePlan& plan_;
  const Pattern file_;
  Cursor at_;
  const Memory to_;
  Cursor user_;
  Times& times_;
  const Streaming streaming_;

  std::unique_ptr<StoredRead> stored_;
  Transferred moved_;
  Batch batch_{.most = kMostRanges};  // what is read at once
  std::vector<StoredPiece> pieces_;
  std::vector<Wanted> wanted_;
  std::size_t next_ = 0;  // of them: the first that is not taken
  bool failed_ = false;   // a block of the window
};

Result<Transferred> StoredOrder::run() {
  if (group_.rank() == 0) board_.clear();
  RETURN_IF_ERROR(group_.barrier());
  const Status read = guarded([&] { return read_all(); });
  move_mark(kBehindAll);
  const Stopwatch watch(times_.waiting);
  RETURN_IF_ERROR(agree(group_, read));
  return moved_;
}

Status StoredOrder::read_all() {
  ASSIGN_OR_RETURN(stored_, storage_.read_stored());
  const auto step = static_cast<std::uint64_t>(stored_->blocks());
  std::uint64_t first_number = board_.slots();  // so that none is before number 0
  for (Extent left = plan_.in_stored_order; !left.empty() && !moved_.eof; first_number += step) {
    const Extent window{left.offset, std::min(left.length, plan_.stored_window)};
    RETURN_IF_ERROR(read_window(window, first_number, first_number + step));
    left = {window.end(), left.length - window.length};
  }
  return {};
}

Status StoredOrder::read_window(Extent window, std::uint64_t first_number, std::uint64_t end_number) {
  move_mark(first_number);
  const Extent mine = positions(file_, {window, window.end()});
  for (bool whole = true; at_.position() < mine.end() && !moved_.eof;) {
    whole = gather(mine.end()) && whole;
    if (!whole) move_mark(end_number);
    RETURN_IF_ERROR(whole ? read_together(first_number, end_number) : read_alone());
  }
  return {};
}

// What comes next of file and memory, up to the data position `end`; whether it is all.
bool StoredOrder::gather(Bytes end) {
  fill_direct(batch_, at_, user_, to_.base, end);
  return at_.position() == end;
}

Status StoredOrder::read_alone() {
  const Stopwatch watch(times_.storage);
  ASSIGN_OR_RETURN(const Transferred moved, storage_.readv(batch_.extents, batch_.spans));
  moved_ += moved;
  return {};
}

Status StoredOrder::read_together(std::uint64_t first_number, std::uint64_t end_number) {
  const auto found = guarded([&]() -> Result<Transferred> {
    ASSIGN_OR_RETURN(const Transferred all, stored_->find(batch_.extents, batch_.spans, pieces_));
    cut(first_number);
    return all;
  });
  if (!found && found.error().code != Code::kNoMemory) return fail(found.error());
  if (!found || is_sparse()) {
    move_mark(end_number);
    return read_alone();
  }
  failed_ = false;
  while (next_ < wanted_.size()) {
    move_mark(wanted_[next_].number);
    Slot& slot = board_.slot(wanted_[next_].number);
    const std::uint32_t fetched = slot.bell.rings.load(), freed = board_.bell().rings.load();
    if (take_one() || fetch_one()) continue;
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    const std::uint64_t fetching = state_of(wanted_[next_].number, Phase::kFetching);
    if (state > fetching) continue;
    const Stopwatch watch(times_.waiting);
    const auto missing = [&] { return late(); };
    RETURN_IF_ERROR(state == fetching ? group_.await(slot.bell, fetched, missing)
                                      : group_.await(board_.bell(), freed, missing));
  }
  move_mark(end_number);
  if (failed_) return read_alone();
  moved_ += *found;
  return {};
}

// Whether the blocks have much more than all ranks want of them, if the others want as much as this one.
bool StoredOrder::is_sparse() const {
  constexpr double kMostFetched = 1.5;
  Bytes bytes = 0;
  for (const StoredPiece& piece : pieces_) bytes += piece.length;
  return static_cast<double>(std::ssize(wanted_) * StoredRead::kBlock) >
         kMostFetched * static_cast<double>(bytes) * group_.size() + static_cast<double>(2 * StoredRead::kBlock);
}

void StoredOrder::cut(std::uint64_t first_number) {
  wanted_.clear();
  next_ = 0;
  for (std::span<const StoredPiece> left = pieces_; !left.empty();) {
    const std::int64_t block = left.front().stored / StoredRead::kBlock;
    std::size_t count = 1;
    while (count < left.size() && left[count].stored / StoredRead::kBlock == block) ++count;
    wanted_.push_back({first_number + static_cast<std::uint64_t>(block), left.first(count)});
    left = left.subspan(count);
  }
}

// A block that is there; whether there was one.
bool StoredOrder::take_one() {
  bool taken = false;
  for (std::size_t i = next_; i < wanted_.size() && wanted_[i].number < wanted_[next_].number + board_.slots(); ++i) {
    Wanted& wanted = wanted_[i];
    if (wanted.taken) continue;
    const std::uint64_t state = board_.slot(wanted.number).state.load(std::memory_order_acquire);
    if (state == state_of(wanted.number, Phase::kThere)) {
      take(wanted);
    } else if (state == state_of(wanted.number, Phase::kFailed)) {
      failed_ = wanted.taken = true;
    } else {
      continue;
    }
    taken = true;
  }
  while (next_ < wanted_.size() && wanted_[next_].taken) ++next_;
  return taken;
}

// The first that nobody has begun to fetch; whether there was one.
bool StoredOrder::fetch_one() {
  const std::uint64_t least = board_.least_mark();
  for (std::size_t i = next_; i < wanted_.size() && wanted_[i].number < least + board_.slots(); ++i) {
    Wanted& wanted = wanted_[i];
    if (wanted.taken) continue;
    std::atomic<std::uint64_t>& state = board_.slot(wanted.number).state;
    std::uint64_t before = state.load(std::memory_order_acquire);
    if (before >= state_of(wanted.number, Phase::kNone)) continue;
    if (!state.compare_exchange_strong(before, state_of(wanted.number, Phase::kFetching))) continue;
    const Stopwatch watch(times_.storage);
    const auto block = wanted.pieces.front().stored / StoredRead::kBlock;
    bool right = false;  // also where there is no memory
    (void)guarded([&]() -> Status {
      right = stored_->fetch(block, board_.block(wanted.number));
      return {};
    });
    ++moved_.requests;
    state.store(state_of(wanted.number, right ? Phase::kThere : Phase::kFailed), std::memory_order_release);
    board_.slot(wanted.number).bell.ring();
    return true;
  }
  return false;
}

void StoredOrder::take(Wanted& wanted) {
  const Stopwatch watch(times_.copy);
  const std::byte* const block = board_.block(wanted.number);
  const auto length = [](const StoredPiece& piece) { return static_cast<std::size_t>(piece.length); };
  for (std::size_t i = 0; i < wanted.pieces.size(); ++i) {
    const StoredPiece& piece = wanted.pieces[i];
    if (i + 1 < wanted.pieces.size()) {
      const StoredPiece& next = wanted.pieces[i + 1];
      prefetch_copy(next.data, block + next.stored % StoredRead::kBlock, length(next), streaming_.stores());
    }
    copy_bytes(piece.data, block + piece.stored % StoredRead::kBlock, length(piece), streaming_.stores());
  }
  wanted.taken = true;
}

void StoredOrder::move_mark(std::uint64_t number) {
  std::atomic<std::uint64_t>& mine = board_.mark(group_.rank()).number;
  const std::uint64_t before = mine.load(std::memory_order_relaxed);
  if (before == number) return;
  mine.store(number);
  const std::uint64_t quarter = std::max<std::uint64_t>(board_.slots() / 4, 1);
  const std::uint64_t next = (before / quarter + 1) * quarter;
  if (number >= next && board_.least_mark() >= next) board_.bell().ring();
}

// The others with the least mark.
std::vector<int> StoredOrder::late() const {
  std::vector<int> ranks;
  const std::uint64_t least = board_.least_mark();
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.rank() && board_.mark(rank).number.load() == least) ranks.push_back(rank);
  return ranks;
}

}  // namespace

Result<Transferred> in_stored_order(Group& group, SharedMemory memory, Storage& storage, const CollectivePlan& plan,
                                    const Pattern& file, const Memory& to, Times& times) {
  return StoredOrder(group, memory, storage, plan, file, to, times).run();
}

Bytes shared_for_stored_order(const CollectivePlan& plan, int ranks) { return Board::bytes(ranks, plan.stored_blocks); }

}  // namespace stridio
