// Opening an interval file: who writes it takes the writer's lock, and makes an empty file one; who reads it pins a generation.
// And what it holds as long as it is open: locks beyond all bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "base/guarded.h"
#include "base/of_process.h"
#include "collective/agreement.h"
#include "interval/interval_file.h"
#include "interval/lock.h"

namespace stridio {
namespace {

// Behind the pins: locks of the lock managers.
constexpr Extent kManagersLocks{kWriterLock.offset + (Offset{1} << 60), kIntervalLocks.length};
static_assert(pin_of(kLastGeneration).offset < kManagersLocks.offset);

tl::unexpected<Error> in_use(const Storage& storage) {
  return fail(Error{.code = Code::kFileInUse,
                    .what = "somebody has the interval file open for writing; one program at a time may",
                    .path = storage.path()});
}

// Who finds a file that has nothing but its birth, and has not made it, holds the lock so long before writing data: so nobody else
// has written to a file which the one that made it has locked sooner.
constexpr std::chrono::milliseconds kGrace{100}, kSoon = kGrace / 2;
constexpr std::chrono::seconds kPatience{60};  // with a storage that is given back

// Who has closed the file just now, here or elsewhere, may still be giving it back.
Result<std::unique_ptr<RangeLock>> lock_for_writing(Storage& storage) {
  constexpr std::chrono::milliseconds kFirstNap{1}, kLongest{256};
  for (std::chrono::milliseconds nap = kFirstNap;; nap *= 2) {
    auto lock = storage.lock(kWriterLock, LockMode::kExclusiveNow);
    if (lock || lock.error().code != Code::kFileInUse || nap >= kLongest) return lock;
    if (nap == kFirstNap) IntervalFile::await_closed();
    std::this_thread::sleep_for(nap);
  }
}

Result<Head> write_birth(Storage& storage) {
  Head head{.bytes = birth_header(), .whole = true, .path = storage.path()};
  RETURN_IF_ERROR(storage.write({0, kHeaderBytes}, head.bytes.data()));
  return head;
}

// Nobody has committed to it.
bool has_nothing(const Head& head) {
  if (head.content() == Head::Content::kNothing || head.is_unfinished()) return true;
  const auto newest = head.newest();
  return newest && newest->generation == kBirth;
}

// By who holds the lock, of a file that has its birth: whoever has committed has written the slot whose turn comes first, and who
// writes a flat file begins before that.
Status find_nobody(Storage& storage) {
  constexpr Extent kNext{kHeaderBytes, slot_of(kBirth + 1) + 1 - kHeaderBytes};
  std::vector<std::byte> next(static_cast<std::size_t>(kNext.length));
  RETURN_IF_ERROR(storage.read(kNext, next.data()));
  if (std::all_of(next.begin(), next.end(), [](std::byte each) { return each == std::byte{0}; })) return {};
  return fail(
      Error{.code = Code::kFileInUse,
            .what = "somebody else has written to the file while it was made; nothing is written: open it again",
            .path = storage.path()});
}

}  // namespace

struct IntervalFile::Look {
  Status found = {};
  Worker worker = {};  // ends before it
};

Result<Head> IntervalFile::format(Storage& storage) {
  auto head = write_birth(storage);
  if (!head) (void)storage.resize(0);
  return head;
}

Result<IntervalFile::Begun> IntervalFile::begin_writing(Storage& storage, bool is_new) {
  Begun begun{};
  auto lock = lock_for_writing(storage);
  if (!lock && lock.error().code != Code::kFileInUse && lock.error().code != Code::kUnsupportedOperation)
    return fail(lock.error());
  ASSIGN_OR_RETURN(begun.head, Head::read(storage));
  if (begun.head.content() == Head::Content::kOther) return begun;
  if (!lock && lock.error().code == Code::kFileInUse) return in_use(storage);
  if (lock) begun.writing = *std::move(lock);
  if (begun.writing && !is_new && has_nothing(begun.head)) std::this_thread::sleep_for(kGrace);
  if (begun.head.content() == Head::Content::kNothing || begun.head.is_unfinished()) {
    if (std::ssize(begun.head.bytes) > kHeaderBytes) RETURN_IF_ERROR(storage.resize(kHeaderBytes));
    ASSIGN_OR_RETURN(begun.head, format(storage));
  }
  return begun;
}

// Its birth harms no interval file, whoever has made it one and committed to it meanwhile.
Result<IntervalFile::Begun> IntervalFile::begin_newborn(Storage& storage, SinceBoot began) {
  Result<Head> born = Head{};
  const auto look = std::make_shared<Look>();  // ends before it
  look->worker.post_or_run([&] { born = guarded([&] { return write_birth(storage); }); });
  auto lock = lock_for_writing(storage);
  const bool soon = lock && since_boot() - began <= kSoon;
  look->worker.wait();
  if (!lock && lock.error().code == Code::kFileInUse) return in_use(storage);
  if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
  if (!born) return fail(born.error());
  look->worker.post_or_run([&found = look->found, &storage] { found = guarded([&] { return find_nobody(storage); }); });
  if (!soon) {
    look->worker.wait();
    RETURN_IF_ERROR(look->found);
  }
  return Begun{*std::move(born), lock ? *std::move(lock) : nullptr, look};
}

std::unique_ptr<IntervalFile> IntervalFile::make(Group& group, std::unique_ptr<Storage> storage, bool writes,
                                                 const SummedRequests& requests) {
  return std::unique_ptr<IntervalFile>(new IntervalFile(group, std::move(storage), writes, requests));
}

Result<std::unique_ptr<IntervalFile>> IntervalFile::open(Group& group, std::unique_ptr<Storage> storage, bool writes,
                                                         Begun begun, const SummedRequests& requests) {
  auto file = make(group, std::move(storage), writes, requests);
  Result<Buffer> told = Buffer();
  if (group.rank() == 0) told = guarded([&] { return file->begin(std::move(begun)); });
  RETURN_IF_ERROR(agree(group, told ? Status() : fail(told.error())));
  ASSIGN_OR_RETURN(const std::vector<Buffer> all, allgatherv(group, *told));
  RETURN_IF_ERROR(file->join(all.front()));
  return file;
}

IntervalFile::~IntervalFile() {
  look_.reset();
  if (!is_far()) return;
  shared_log_.reset();
  struct Rest {
    std::unique_ptr<Storage> storage;
    std::unique_ptr<RangeLock> writing, reading;  // end before it
  };
  (void)guarded([&]() -> Status {
    auto rest =
        std::make_shared<std::optional<Rest>>(Rest{std::move(storage_), std::move(writing_), std::move(reading_)});
    of_process<Worker>().post([rest] { rest->reset(); });
    return {};
  });
}

void IntervalFile::await_closed() { (void)of_process<Worker>().idle_within(kPatience); }

Result<Buffer> IntervalFile::begin(Begun begun) {
  if (writes_) wipe_memory_log(group_);
  Finished told;
  ASSIGN_OR_RETURN(const std::vector<std::byte> content, begin(std::move(begun), told));
  const auto first = std::as_bytes(std::span(&told, 1));
  Buffer all(first.begin(), first.end());
  all.insert(all.end(), content.begin(), content.end());
  return all;
}

Status IntervalFile::join(std::span<const std::byte> told) {
  if (writes_) {
    storage_->expect_sync();
    ASSIGN_OR_RETURN(shared_log_, make_memory_log(group_));
  }
  Finished finished;
  std::memcpy(&finished, told.data(), sizeof finished);
  const auto content = told.subspan(sizeof finished);
  Buffer tail;
  if (in_tail(finished.root)) tail.assign(content.begin(), content.end());
  const auto root_bytes = tail.empty() ? content : tail_part(tail, finished.root);
  ASSIGN_OR_RETURN(Root root, decode_root(root_bytes, std::ssize(tail)));  // as rank 0 has decoded it
  adopt(std::make_shared<Generation>(std::move(root), std::move(tail)), {}, finished);
  for (std::size_t i = static_cast<std::size_t>(group_.rank()); i < seen_.generation->root().parts.size();
       i += static_cast<std::size_t>(group_.size()))
    own_parts_.push_back(i);
  return {};
}

// Takes the locks, finds the newest generation's root, or the tail that has it, and where there is space.
Result<std::vector<std::byte>> IntervalFile::begin(Begun begun, Finished& told) {
  if (writes_ && begun.head.bytes.empty()) {
    ASSIGN_OR_RETURN(begun, begin_writing(*storage_, true));
  }
  writing_ = std::move(begun.writing);
  Head head = std::move(begun.head);
  if (!writes_) {
    ASSIGN_OR_RETURN(PinnedRoot found, pin_newest(*storage_, std::move(head), {.by_one_request = is_far()}));
    reading_ = std::move(found.pin);
    told.root = found.header.root;
    return std::move(in_tail(told.root) ? found.header.tail : found.root.bytes);
  }
  if (!writing_ && group_.size() > 1 && head.content() != Head::Content::kOther)
    return refuse(Code::kUnsupportedOperation,
                  "the file system has no range locks, without which one rank alone may write an interval file");
  look_ = std::move(begun.look);
  ASSIGN_OR_RETURN(Header header, head.newest());
  ASSIGN_OR_RETURN(StoredRoot stored, read_root(*storage_, head, header));
  ASSIGN_OR_RETURN(const Root decoded, decode_root(stored.bytes, std::ssize(header.tail)));
  told.root = header.root;
  // Who committed it may have been killed before it was durable, and what is before it is given away now.
  if (header.generation != kBirth) RETURN_IF_ERROR(storage_->sync());
  told.reuse = nobody_reads_before(header.generation);
  stored_size_ = stored.size;
  RETURN_IF_ERROR(settle_space(decoded, told));
  return std::move(in_tail(header.root) ? header.tail : stored.bytes);
}

// On rank 0, of a new file: whether anybody who takes no locks has written to it while it was made.
Status IntervalFile::looked() {
  if (!look_) return {};
  look_->worker.wait();
  return look_->found;
}

// On rank 0, once `generation` is the newest: then nobody comes to read an older one.
bool IntervalFile::nobody_reads_before(std::uint64_t generation) {
  return generation == kBirth ||
         guarded([&] { return storage_->lock(pins_below(generation), LockMode::kAsk); }).has_value();
}

// On rank 0, of the generation that is the newest from now on, durably: where space is.
Status IntervalFile::settle_space(const Root& root, Finished& told) {
  const Offset end = up_to_cell(std::max(root.end(), told.root.end()));
  if (told.reuse && stored_size_ > end) {
    RETURN_IF_ERROR(storage_->resize(end));
    stored_size_ = end;
  }
  told.end = told.reuse ? end : std::max(end, up_to_cell(stored_size_));
  if (shared_log_) shared_log_->clear();
  if (std::atomic<Bytes>* const taken = taken_on_node()) {
    taken->store(0);
  } else if (group_.size() > 1) {
    constexpr std::array<std::byte, kFirstStored - kTaken.offset> kNothing = {};
    RETURN_IF_ERROR(storage_->write({kTaken.offset, kNothing.size()}, kNothing.data()));
  }
  return {};
}

// Every rank goes on from the generation. `own` are this rank's lines of it, known already.
void IntervalFile::adopt(std::shared_ptr<Generation> generation, const std::vector<Own>& own, const Finished& told) {
  own_parts_.clear();
  if (seen_.generation) generation->keep_from(*seen_.generation);
  const auto& parts = generation->root().parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const Own& each : own) {
      if (each.entry.metadata != parts[i].metadata) continue;
      own_parts_.push_back(i);
      if (each.part) generation->keep(i, each.part);
    }
  }
  written_ = {};
  shared_ = {};
  heard_.clear();
  others_.clear();
  failed_ = {};
  if (shared_log_ && shared_log_->asks_storage() && !shown_) shared_log_.reset();
  if (shared_log_) shared_log_->begin(generation->root().generation);
  published_ = false;
  reclaim_at_ = look_at_ = kLeastReclaimed;
  seen_.size = seen_.cut = generation->root().size;
  seen_.generation = std::move(generation);
  ++era_;
  chunk_ = {};
  free_.clear();
  padded_.clear();
  reuses_ = false;
  taken_ = 0;
  expected_ = 0;
  reach_ = 0;
  lengthened_ = told.end;
  expected_end_ = 0;
  find_space(told);
}

Result<std::unique_ptr<RangeLock>> IntervalFile::lock(Extent range, LockMode mode) {
  if (range.empty() || intersect(range, kIntervalLocks).length < range.length)
    return refuse(Code::kUnsupportedOperation, "locking a range of an interval file");
  return storage_->lock({kManagersLocks.offset + (range.offset - kIntervalLocks.offset), range.length}, mode);
}

}  // namespace stridio
