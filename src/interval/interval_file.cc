// The stored file: headers, a word from which space is taken, and then data, metadata and roots in any order, each
// process's together as far as its chunks reach. Nothing that the newest generation refers to is ever written again; what it
// no longer refers to is free once no reader holds the generation before.
#include "interval/interval_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <thread>

#include "access/deep.h"
#include "base/crc32c.h"
#include "base/guarded.h"
#include "collective/agreement.h"
#include "interval/lock.h"
#include "storage/request.h"

namespace stridio {
namespace {

// Locks that are no bytes of the file.
constexpr Offset kLocks = kWriterLock.offset;
Extent pin_of(std::uint64_t generation) { return {kLocks + 1 + static_cast<Offset>(generation), 1}; }
Extent pins_below(std::uint64_t generation) { return {kLocks + 1, static_cast<Offset>(generation)}; }

// Behind them: locks of the lock managers.
constexpr Extent kManagersLocks{kLocks + (Offset{1} << 60), kIntervalLocks.length};
static_assert(kLocks + 1 + static_cast<Offset>(kLastGeneration) < kManagersLocks.offset);

// Where ranks share no memory: how far space is taken, and what they tell each other. They mean something only while the file is
// open for writing.
constexpr Extent kTaken{kFirstStored - kHeaderStep / 2, 8};
constexpr Extent kLogHead{kTaken.offset + kTaken.length, kLogHeadBytes};

constexpr Bytes kLeastChunk = 4 * kCell, kLargestChunk = Bytes{16} << 20;
constexpr std::size_t kFew = 64;  // extents of a write that all ranks are told of
constexpr std::size_t kMostLayers = 256;

Extent bounds_of(std::span<const Extent> extents) {
  Offset begin = std::numeric_limits<Offset>::max(), end = 0;
  for (const Extent& each : extents) {
    if (each.empty()) continue;
    begin = std::min(begin, each.offset);
    end = std::max(end, each.end());
  }
  return end == 0 ? Extent{} : Extent{begin, end - begin};
}

IntervalMap bytes_of(std::span<const Extent> extents) {
  WriteLog bytes;
  for (const Extent& each : extents)
    if (!each.empty()) bytes.add({each.offset, each.length, each.offset});
  return bytes.merged();
}

tl::unexpected<Error> in_use(const Storage& storage) {
  return fail(Error{.code = Code::kFileInUse,
                    .what = "somebody has the interval file open for writing; one program at a time may",
                    .path = storage.path()});
}

// Who has closed the file just now may still be giving it back.
Result<std::unique_ptr<RangeLock>> lock_for_writing(Storage& storage) {
  constexpr std::chrono::milliseconds kLongest{256};
  for (std::chrono::milliseconds nap{1};; nap *= 2) {
    auto lock = storage.lock(kWriterLock, LockMode::kExclusiveNow);
    if (lock || lock.error().code != Code::kFileInUse || nap >= kLongest) return lock;
    std::this_thread::sleep_for(nap);
  }
}

Result<Head> write_birth(Storage& storage) {
  Head head{.bytes = birth_header(), .whole = true, .path = storage.path()};
  RETURN_IF_ERROR(storage.write({0, kHeaderBytes}, head.bytes.data()));
  return head;
}

enum Newborn : std::uint32_t { kKnown, kUnknown, kOthers };  // what others may have written to a new file
constexpr std::chrono::seconds kPatience{60};                // with who looks

}  // namespace

// ---- Opening

Result<Head> IntervalFile::format(Storage& storage) {
  auto head = write_birth(storage);
  if (!head) (void)storage.resize(0);
  return head;
}

Result<IntervalFile::Begun> IntervalFile::begin_writing(Storage& storage) {
  Begun begun{};
  auto lock = lock_for_writing(storage);
  if (!lock && lock.error().code != Code::kFileInUse && lock.error().code != Code::kUnsupportedOperation)
    return fail(lock.error());
  ASSIGN_OR_RETURN(begun.head, Head::read(storage));
  if (begun.head.content() == Head::Content::kOther) return begun;
  if (!lock && lock.error().code == Code::kFileInUse) return in_use(storage);
  if (lock) begun.writing = *std::move(lock);
  if (begun.head.content() == Head::Content::kNothing || begun.head.is_unfinished()) {
    ASSIGN_OR_RETURN(begun.head, format(storage));
  }
  return begun;
}

// Its birth harms no interval file, whoever has made it one and committed to it meanwhile; whether anybody has is seen later.
Result<IntervalFile::Begun> IntervalFile::begin_newborn(Storage& storage) {
  Result<Head> head = Head{};
  Result<std::unique_ptr<RangeLock>> lock = nullptr;
  {
    Worker beside;
    beside.post_or_run([&] { head = guarded([&] { return write_birth(storage); }); });
    lock = guarded([&] { return lock_for_writing(storage); });
  }
  if (!lock && lock.error().code == Code::kFileInUse) return in_use(storage);
  if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
  if (!head) return fail(head.error());
  return Begun{*std::move(head), lock ? *std::move(lock) : nullptr, true};
}

Result<std::unique_ptr<IntervalFile>> IntervalFile::open(Group& group, std::unique_ptr<Storage> storage, bool writes,
                                                         Begun begun, const SummedRequests& requests) {
  std::unique_ptr<IntervalFile> file(new IntervalFile(group, std::move(storage), writes, requests));
  RETURN_IF_ERROR(file->load(std::move(begun)));
  return file;
}

IntervalFile::~IntervalFile() {
  looking_.wait();
  lengthening_.wait();
  if (requests_.write.depth <= 1) return;
  shared_log_.reset();
  struct Rest {
    std::unique_ptr<Storage> storage;
    std::unique_ptr<RangeLock> writing, reading;  // end before it
  };
  (void)guarded([&]() -> Status {
    auto rest =
        std::make_shared<std::optional<Rest>>(Rest{std::move(storage_), std::move(writing_), std::move(reading_)});
    start_without_signals([rest] { rest->reset(); }).detach();
    return {};
  });
}

Status IntervalFile::load(Begun begun) {
  Status mine;
  std::vector<std::byte> bytes;
  Finished told;
  if (writes_) storage_->expect_sync();
  if (group_.rank() == 0) mine = guarded([&] { return begin(std::move(begun), bytes, told); });
  RETURN_IF_ERROR(agree(group_, mine));
  ASSIGN_OR_RETURN(const std::vector<Buffer> all, allgatherv(group_, bytes));
  ASSIGN_OR_RETURN(const std::vector<Finished> finished, allgather(group_, told));
  auto root = decode_root(all.front());
  RETURN_IF_ERROR(agree(group_, root ? Status() : fail(root.error())));
  if (writes_) {
    ASSIGN_OR_RETURN(shared_log_, make_memory_log(group_));
  }
  adopt(*std::move(root), {}, finished.front());
  for (std::size_t i = static_cast<std::size_t>(group_.rank()); i < seen_.generation->root().parts.size();
       i += static_cast<std::size_t>(group_.size()))
    own_parts_.push_back(i);
  return {};
}

// On rank 0: takes the locks, finds the newest generation's root, and where there is space.
Status IntervalFile::begin(Begun begun, std::vector<std::byte>& root, Finished& told) {
  if (writes_ && !begun.writing && !begun.newborn) {
    ASSIGN_OR_RETURN(begun, begin_writing(*storage_));
  }
  writing_ = std::move(begun.writing);
  Head head = std::move(begun.head);
  if (writes_ && !writing_ && group_.size() > 1 && head.content() != Head::Content::kOther)
    return refuse(Code::kUnsupportedOperation,
                  "the file system has no range locks, without which one rank alone may write an interval file");
  if (writes_) newborn() = begun.newborn ? kUnknown : kKnown;
  if (begun.newborn && group_.size() > 1 && !taken_on_node()) {
    RETURN_IF_ERROR(find_nobody());
    newborn() = kKnown;
  } else if (begun.newborn) {
    looking_.post_or_run([this] {
      newborn() = guarded([&] { return find_nobody(); }) ? kKnown : kOthers;
      futex_wake(newborn());
    });
  }
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0 || head.bytes.empty()) {
      ASSIGN_OR_RETURN(head, Head::read(*storage_));
    }
    ASSIGN_OR_RETURN(const Header header, head.newest());
    if (!writes_) {
      RETURN_IF_ERROR(pin(header.generation));
      ASSIGN_OR_RETURN(head, Head::read(*storage_));
      ASSIGN_OR_RETURN(const Header now, head.newest());
      if (now.generation != header.generation) continue;  // committed meanwhile, maybe before we held the pin
    }
    ASSIGN_OR_RETURN(StoredRoot stored, read_root(*storage_, head, header));
    root = std::move(stored.bytes);
    told.root = header.root;
    if (!writes_) return {};
    ASSIGN_OR_RETURN(const Root decoded, decode_root(root));
    told.reuse = nobody_reads_before(header.generation);
    stored_size_ = stored.size;
    return settle_space(decoded, told);
  }
  return fail(
      Error{.code = Code::kIo, .what = "the interval file is committed faster than it can be opened", .path = path()});
}

// On rank 0, which holds the lock by now. Whoever has committed has written the slot whose turn comes first.
Status IntervalFile::find_nobody() {
  std::byte first{};
  RETURN_IF_ERROR(storage_->read({slot_of(kBirth + 1), 1}, &first));
  return first == std::byte{0} ? Status() : fail(Code::kFileInUse, "a generation was committed");
}

// The last but one of the group's persistent words.
SharedWord& IntervalFile::newborn() {
  std::atomic<Bytes>* const taken = taken_on_node();
  return taken ? *reinterpret_cast<SharedWord*>(taken - 1) : newborn_;
}

// Until it is known nobody writes data, which might fall on what others have committed.
Status IntervalFile::await_newborn() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::uint32_t state = newborn().load();
  for (; state == kUnknown; state = newborn().load()) {
    if (std::chrono::steady_clock::now() > deadline)
      return refuse(Code::kOther, "the first rank, which has made the file, does not come to look at it");
    (void)futex_sleep(newborn(), kUnknown, std::chrono::seconds(1));
  }
  if (state == kKnown) return {};
  return refuse(Code::kFileInUse,
                "somebody else has written the interval file while it was made, or it cannot be read; nothing is "
                "written: open it again");
}

Status IntervalFile::pin(std::uint64_t generation) {
  auto lock = storage_->lock(pin_of(generation), LockMode::kShared);
  if (!lock && lock.error().code != Code::kUnsupportedOperation) return fail(lock.error());
  reading_ = lock ? *std::move(lock) : nullptr;
  return {};
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
    constexpr std::array<std::byte, kTaken.length + kLogHead.length> kNothing = {};
    RETURN_IF_ERROR(storage_->write({kTaken.offset, kNothing.size()}, kNothing.data()));
  }
  return {};
}

// Every rank goes on from the generation `root`. `own` are this rank's lines of it, known already.
void IntervalFile::adopt(Root root, const std::vector<Own>& own, const Finished& told) {
  auto generation = std::make_shared<Generation>(std::move(root));
  own_parts_.clear();
  const auto& parts = generation->root().parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (seen_.generation) generation->keep_from(*seen_.generation, i);
    for (const Own& each : own) {
      if (each.entry.metadata != parts[i].metadata) continue;
      own_parts_.push_back(i);
      if (each.part) generation->keep(i, each.part);
    }
  }
  written_ = {};
  shared_ = {};
  others_.clear();
  failed_ = {};
  if (shared_log_ && shared_log_->asks_storage() && !shown_) shared_log_.reset();
  if (shared_log_) shared_log_->begin(generation->root().generation);
  published_ = false;
  reclaim_at_ = kLeastReclaimed;
  seen_.size = seen_.cut = generation->root().size;
  seen_.generation = std::move(generation);
  chunk_ = {};
  free_.clear();
  taken_ = 0;
  expected_ = 0;
  reach_ = 0;
  lengthened_ = promised_ = told.end;
  find_space(told);
}

// ---- Space
//
// All ranks know the holes of a generation, and see them and what lies behind its end as one sequence of bytes to take
// from. How far it is taken is a word in the group's memory; where it has none, in the stored file, under a lock.

// `reuse`: the holes too.
void IntervalFile::find_space(const Finished& told) {
  space_.clear();
  if (told.reuse) {
    auto used = stored_extents(seen_.generation->root()).value_or(std::vector<Extent>{});
    used.push_back(told.root);
    std::sort(used.begin(), used.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    Offset at = kFirstStored;
    for (const Extent& extent : used) {
      const Extent hole{up_to_cell(at), down_to_cell(extent.offset) - up_to_cell(at)};
      if (!hole.empty()) space_.push_back(hole);
      at = std::max(at, extent.end());
    }
  }
  space_.push_back({told.end, kLocks - told.end});
}

// The last word of the group's persistent bytes; the others are those of a file's shared state.
std::atomic<Bytes>* IntervalFile::taken_on_node() const {
  static_assert(sizeof(std::atomic<Bytes>) == sizeof(Bytes) && std::atomic<Bytes>::is_always_lock_free);
  const SharedMemory memory = group_.persistent();
  if (memory.length < Group::kPersistentBytes) return nullptr;
  return reinterpret_cast<std::atomic<Bytes>*>(memory.data + Group::kPersistentBytes - sizeof(Bytes));
}

Result<Offset> IntervalFile::take_space(Bytes bytes) {
  if (std::atomic<Bytes>* const taken = taken_on_node()) return taken->fetch_add(bytes);
  if (group_.size() == 1) return std::exchange(taken_, taken_ + bytes);
  ASSIGN_OR_RETURN(const auto lock, storage_->lock(kTaken, LockMode::kExclusive));
  Bytes taken = 0;
  ASSIGN_OR_RETURN(const Transferred got, storage_->read(kTaken, reinterpret_cast<std::byte*>(&taken)));
  if (got.eof || taken < 0 || taken % kCell != 0)
    return refuse(Code::kIo, "somebody else has written to the interval file");
  const Bytes next = taken + bytes;
  RETURN_IF_ERROR(storage_->write(kTaken, reinterpret_cast<const std::byte*>(&next)));
  return taken;
}

// Where what take_space() gave lies.
std::vector<Extent> IntervalFile::stored_space(Extent taken) const {
  std::vector<Extent> places;
  Offset before = 0;  // of the sequence
  for (const Extent& extent : space_) {
    const Extent part = intersect({taken.offset - before, taken.length}, {0, extent.length});
    if (!part.empty()) places.push_back({extent.offset + part.offset, part.length});
    before += extent.length;
    if (before >= taken.end()) break;
  }
  return places;
}

// Makes the next `bytes` bytes or more this process's.
Status IntervalFile::take_extents(Bytes bytes) {
  const Bytes length = up_to_cell(bytes);
  ASSIGN_OR_RETURN(const Offset first, take_space(length));
  const std::vector<Extent> mine = stored_space({first, length});
  free_.insert(free_.begin(), mine.rbegin(), mine.rend());  // the lowest is taken first
  return {};
}

// For `bytes` bytes, and all that is expected besides. But where much was written in this epoch, that may be what is written over:
// its space is free again then, and no more is taken than a part of it.
Status IntervalFile::take_chunk(Bytes bytes) {
  const Bytes wanted = expected_ / 4 >= written_.bytes ? std::max(bytes, expected_) : bytes;
  return take_extents(std::max(wanted, std::clamp(written_.bytes / 8, kLeastChunk, kLargestChunk)));
}

// One extent at least; as few as can be.
Result<std::vector<Extent>> IntervalFile::allocate(Bytes bytes) {
  std::vector<Extent> taken;
  while (bytes > 0) {
    if (chunk_.empty()) {
      if (free_.empty()) RETURN_IF_ERROR(take_chunk(bytes));
      chunk_ = free_.back();
      free_.pop_back();
    }
    const Extent part{chunk_.offset, std::min(bytes, chunk_.length)};
    chunk_ = {part.end(), chunk_.length - part.length};
    reach_ = std::max(reach_, part.end());
    expected_ = std::max<Bytes>(0, expected_ - part.length);
    if (!taken.empty() && taken.back().end() == part.offset) {
      taken.back().length += part.length;
    } else {
      taken.push_back(part);
    }
    bytes -= part.length;
  }
  return taken;
}

// Metadata are one run.
Result<Extent> IntervalFile::allocate_whole(Bytes bytes) {
  while (chunk_.length < bytes) {
    const auto enough =
        std::find_if(free_.rbegin(), free_.rend(), [&](const Extent& each) { return each.length >= bytes; });
    if (enough == free_.rend()) {
      RETURN_IF_ERROR(take_extents(bytes));
      continue;
    }
    const Extent rest{up_to_cell(chunk_.offset), down_to_cell(chunk_.end()) - up_to_cell(chunk_.offset)};
    chunk_ = *enough;
    free_.erase(std::next(enough).base());
    if (!rest.empty()) free_.push_back(rest);
  }
  const Extent taken{chunk_.offset, bytes};
  chunk_ = {taken.end(), chunk_.length - bytes};
  reach_ = std::max(reach_, taken.end());
  return taken;
}

// ---- Reading and writing

// While it is held no commit begins or ends on this rank: what others log is of this epoch, and what a generation has stored
// is not written over.
std::shared_lock<std::shared_mutex> IntervalFile::stay_in_epoch() {
  const std::scoped_lock turn(turnstile_);
  return std::shared_lock(epoch_);
}

Result<Transferred> IntervalFile::readv(std::span<const Extent> extents, std::span<const Span> memory) {
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  const auto epoch = stay_in_epoch();
  Intervals from;
  {
    const std::scoped_lock lock(mutex_);
    if (!is_mine(bounds_of(extents))) RETURN_IF_ERROR(look_around());
    from = seen_;
    for (WriteLog* log : {&shared_, &written_.log})
      for (const IntervalMap& layer : log->layers()) from.layers.push_back(layer);
    for (const IntervalMap* layer : {&written_.telling, &written_.told})
      if (!layer->empty()) from.layers.push_back(*layer);
    from.layers.insert(from.layers.end(), others_.begin(), others_.end());
  }
  return guarded([&] { return read_intervals(*storage_, from, extents, memory, requests_.longest); });
}

Result<Transferred> IntervalFile::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  return write(extents, memory,
               [&](const Appended& appended) { return count(extents, note(extents, appended, written_)); });
}

// `stored` is called when the bytes are, under the lock.
Result<Transferred> IntervalFile::write(std::span<const Extent> extents, std::span<const Span> memory,
                                        const std::function<Status(const Appended&)>& stored) {
  RETURN_IF_ERROR(check_writable());
  if (auto valid = check_request(extents, memory); !valid) return refuse(valid.error().code, valid.error().what);
  RETURN_IF_ERROR(check_end(bounds_of(extents).end(), "writing"));
  Bytes bytes = 0;
  for (const Extent& extent : extents) bytes += extent.length;
  if (bytes == 0) return Transferred{};
  return guarded([&]() -> Result<Transferred> {
    const auto epoch = stay_in_epoch();
    {
      const std::scoped_lock lock(mutex_);
      RETURN_IF_ERROR(check_whole());
      RETURN_IF_ERROR(reclaim(bytes));
    }
    const auto appended = guarded([&] { return append(bytes, memory); });
    const std::scoped_lock lock(mutex_);
    if (!appended) {
      note_failed(extents, appended.error());
      return fail(appended.error());
    }
    RETURN_IF_ERROR(stored(*appended));
    return appended->moved;
  });
}

// These bytes are part of the file from now on.
Status IntervalFile::count(std::span<const Extent> extents, std::span<const Piece> pieces) {
  RETURN_IF_ERROR(log(extents, pieces));
  note_repeated(extents);
  for (const Extent& extent : extents)
    if (!extent.empty()) seen_.size = std::max(seen_.size, extent.end());
  return {};
}

std::unique_ptr<IntervalFile::Whole> IntervalFile::begin_whole() {
  const std::scoped_lock lock(mutex_);
  return std::make_unique<Whole>(*this);
}

Result<Transferred> IntervalFile::Whole::writev(std::span<const Extent> extents, std::span<const Span> memory) {
  return file_.write(extents, memory, [&](const Appended& appended) -> Status {
    if (file_.seen_.generation != since_) return {};  // of two epochs: count() will tell
    const std::vector<Piece> pieces = note(extents, appended, written_);
    extents_.insert(extents_.end(), extents.begin(), extents.end());
    pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    return {};
  });
}

Result<bool> IntervalFile::Whole::count() {
  return guarded([&]() -> Result<bool> {
    const auto epoch = file_.stay_in_epoch();
    const std::scoped_lock lock(file_.mutex_);
    RETURN_IF_ERROR(file_.check_whole());
    const std::vector<Extent> extents = std::exchange(extents_, {});
    if (file_.seen_.generation != since_) return false;
    auto& fragments = file_.written_.fragments;
    fragments.insert(fragments.end(), written_.fragments.begin(), written_.fragments.end());
    file_.written_.bytes += written_.bytes;
    RETURN_IF_ERROR(file_.count(extents, pieces_));
    return true;
  });
}

IntervalFile::Whole::~Whole() {
  if (extents_.empty()) return;
  (void)guarded([&]() -> Status {
    const std::scoped_lock lock(file_.mutex_);
    file_.note_failed(extents_, Error{.code = Code::kIo, .what = "it did not come to its end"});
    return {};
  });
}

void IntervalFile::note_failed(std::span<const Extent> extents, const Error& why) {
  failed_ = overlaid(bytes_of(extents), failed_);
  why_failed_ = why;
}

void IntervalFile::note_repeated(std::span<const Extent> extents) {
  if (!failed_.empty()) failed_ = without(failed_, bytes_of(extents));
}

// Stores the memory's bytes somewhere: as many at a time as are still in the caches once they are summed.
Result<IntervalFile::Appended> IntervalFile::append(Bytes bytes, std::span<const Span> memory) {
  Appended appended;
  Deep deep = requests_.write;
  deep.extend_first = false;
  const auto beyond = [&] {
    const auto is_beyond = [&](const Extent& each) { return each.end() > lengthened_; };
    return requests_.write.extend_first && std::any_of(appended.stored.begin(), appended.stored.end(), is_beyond);
  };
  bool waits = false;
  {
    const std::scoped_lock lock(mutex_);
    ASSIGN_OR_RETURN(appended.stored, allocate(bytes));
    waits = beyond();
  }
  MemoryCursor from(memory);
  std::vector<Extent> extents;
  std::vector<Span> spans;
  Bytes summed = 0;  // of them
  const auto store = [&]() -> Status {
    RETURN_IF_ERROR(await_newborn());
    if (std::exchange(waits, false)) {
      lengthening_.wait();
      const std::scoped_lock lock(mutex_);
      if (beyond()) deep = {};
    }
    ASSIGN_OR_RETURN(const Transferred moved, transfer_deep(*storage_, Direction::kWrite, extents, spans, deep));
    appended.moved += moved;
    extents.clear();
    spans.clear();
    summed = 0;
    return {};
  };
  for (const Extent& run : appended.stored)
    for (Offset at = run.offset; at < run.end(); at = appended.fragments.back().stored.end()) {
      Fragment fragment{cell_at(run, at), 0};
      for (Bytes left = fragment.stored.length; left > 0;) {
        const Span piece = from.take(left);
        fragment.sum = crc32c({piece.data, static_cast<std::size_t>(piece.length)}, fragment.sum);
        if (!spans.empty() && spans.back().data + spans.back().length == piece.data)
          spans.back().length += piece.length;
        else
          spans.push_back(piece);
        left -= piece.length;
      }
      appended.fragments.push_back(fragment);
      extents.push_back(fragment.stored);
      summed += fragment.stored.length;
      if (summed >= requests_.longest) RETURN_IF_ERROR(store());
    }
  if (summed > 0) RETURN_IF_ERROR(store());
  return appended;
}

// The sums of what was appended; returns which bytes of `extents` it is.
std::vector<Piece> IntervalFile::note(std::span<const Extent> extents, const Appended& appended, Written& written) {
  for (const Fragment& fragment : appended.fragments) {
    Fragment* const last = written.fragments.empty() ? nullptr : &written.fragments.back();
    if (last && last->stored.end() == fragment.stored.offset && fragment.stored.offset % kCell != 0) {
      last->sum = crc32c_joined(last->sum, fragment.sum, fragment.stored.length);
      last->stored.length += fragment.stored.length;
    } else {
      written.fragments.push_back(fragment);
    }
    written.bytes += fragment.stored.length;
  }
  std::vector<Piece> pieces;
  auto run = appended.stored.begin();
  Bytes used = 0;  // of the run
  for (Extent extent : extents) {
    while (!extent.empty()) {
      if (used == run->length) {
        ++run;
        used = 0;
      }
      const Bytes length = std::min(extent.length, run->length - used);
      pieces.push_back({extent.offset, length, run->offset + used});
      extent = {extent.offset + length, extent.length - length};
      used += length;
    }
  }
  return pieces;
}

// That the newest bytes of `extents` are in these pieces: with all ranks where they must be shown, or are few and need no request
// for it, else with this one; but of what all know, all are told. Where that cannot be, nothing is noted.
Status IntervalFile::log(std::span<const Extent> extents, std::span<const Piece> pieces) {
  const Extent bounds = bounds_of(extents);
  const bool shown = shared_log_ && shown_ && shown_(bounds);
  if (shown || (shared_log_ && !shared_log_->asks_storage() && extents.size() <= kFew)) {
    ASSIGN_OR_RETURN(const bool published, publish(pieces));
    if (published) return {};
    if (shown) return too_many();
  }
  if (shared_log_) {
    if (!is_mine(bounds)) RETURN_IF_ERROR(look_around());
    WriteLog mine;
    for (const Piece& piece : pieces) mine.add(piece);
    const IntervalMap map = mine.merged();
    IntervalMap unknown = without(map, shared_.merged());
    // In atomic mode views may have changed: what was another's alone can be this one's, and that one's again.
    for (std::size_t i = 0; shown_ && i < others_.size(); ++i) unknown = without(unknown, others_[i]);
    const IntervalMap known = without(map, unknown);
    std::vector<Piece> newer;
    for (MapCursor cursor(known); !cursor.done(); cursor.next()) newer.push_back(cursor.piece());
    if (shown_ && bounds.end() > seen_.size) newer.push_back({bounds.end(), 0, 0});  // the size is everybody's
    if (!newer.empty()) {
      ASSIGN_OR_RETURN(const bool published, publish(newer));
      if (!published) return too_many();
    }
  }
  for (const Piece& piece : pieces) written_.log.add(piece);
  return {};
}

Result<bool> IntervalFile::publish(std::span<const Piece> pieces) {
  published_ = true;  // what fails may have come so far
  return shared_log_->publish(pieces);
}

// Whether there can be no news about the bytes in `range`, in atomic mode: by the views they are no other rank's, and when the views
// were set all looked around. Where looking costs a request, that saves it.
bool IntervalFile::is_mine(Extent range) const {
  return shared_log_ && shared_log_->asks_storage() && shown_ && !published_ && range.end() <= seen_.size &&
         !shown_(range);
}

// What others have told.
Status IntervalFile::look_around() {
  if (!shared_log_) return {};
  ASSIGN_OR_RETURN(const std::vector<PieceGroup> news, shared_log_->news());
  for (const PieceGroup& group : news) {
    for (std::int64_t i = 0; group.first.length > 0 && i < group.count; ++i) shared_.add(group.at(i));
    seen_.size = std::max(seen_.size, group.last().end());
  }
  published_ = false;
  return {};
}

// Whom the storage fails is not alone with that.
Status IntervalFile::look_around_together() {
  const Status looked = guarded([&] {
    const std::scoped_lock lock(mutex_);
    return look_around();
  });
  return shared_log_ && shared_log_->asks_storage() ? agree(group_, looked) : looked;
}

Status IntervalFile::show_at_once(std::function<bool(Extent)> where) {
  const std::scoped_lock lock(mutex_);
  if (where && writes_ && group_.size() > 1 && !shared_log_) {
    if (taken_on_node())
      return refuse(
          Code::kUnsupportedOperation,
          "atomic mode of an interval file, or stridio_visibility=immediate: no memory to share, /dev/shm is full");
    shared_log_ = make_storage_log(*storage_, {.head = kLogHead,
                                               .take = [this](Bytes bytes) -> Result<Offset> {
                                                 ASSIGN_OR_RETURN(const Offset first, take_space(bytes));
                                                 reach_ = std::max(reach_, stored_space({first, bytes}).back().end());
                                                 return first;
                                               },
                                               .stored = [this](Extent taken) { return stored_space(taken); }});
    shared_log_->begin(seen_.generation->root().generation);
  }
  shown_ = std::move(where);
  return {};
}

Status IntervalFile::share() {
  if (!writes_ || group_.size() == 1) return {};
  struct State {
    Verdict looked;
    Bytes size = 0;
    bool told = false;
  };
  Buffer mine;
  State state;
  state.looked = verdict_of(guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    RETURN_IF_ERROR(look_around());
    state.size = seen_.size;
    Written& own = written_;
    own.telling = overlaid(own.log.merged(), own.telling);
    own.log.clear();
    state.told = own.telling.empty();
    if (!state.told) {
      own.told_fragments.insert(own.told_fragments.end(), own.fragments.begin(), own.fragments.end());
      own.fragments.clear();
    }
    mine.assign(own.telling.encoded().begin(), own.telling.encoded().end());
    return {};
  }));
  ASSIGN_OR_RETURN(const std::vector<State> states, allgather(group_, state));
  std::vector<Verdict> verdicts;
  for (const State& each : states) verdicts.push_back(each.looked);
  RETURN_IF_ERROR(worst(verdicts));
  const bool news = std::any_of(states.begin(), states.end(), [](const State& each) { return !each.told; });
  std::vector<Buffer> maps;
  if (news) {
    ASSIGN_OR_RETURN(maps, allgatherv(group_, mine));
  }
  const std::scoped_lock lock(mutex_);
  for (const State& each : states) seen_.size = std::max(seen_.size, each.size);
  if (!news) return {};
  std::vector<IntervalMap> theirs;  // the higher ranks' first, which count
  for (std::size_t rank = maps.size(); rank-- > 0;) {
    if (static_cast<int>(rank) == group_.rank() || maps[rank].empty()) continue;
    ASSIGN_OR_RETURN(IntervalMap map, IntervalMap::decode(std::move(maps[rank])));
    if (static_cast<int>(rank) > group_.rank()) written_.telling = without(written_.telling, map);
    written_.told = without(written_.told, map);
    theirs.push_back(std::move(map));
  }
  written_.told = overlaid(written_.telling, written_.told);
  written_.telling = {};
  others_.insert(others_.begin(), theirs.begin(), theirs.end());
  if (others_.size() > kMostLayers) {
    IntervalMap all;
    for (const IntervalMap& layer : others_) all = overlaid(all, layer);
    others_ = {std::move(all)};
  }
  return {};
}

Result<Transferred> IntervalFile::map(Extent, bool, const MapBody&) {
  return refuse(Code::kUnsupportedOperation, "mapping an interval file");
}

Result<Bytes> IntervalFile::size() {
  const auto epoch = stay_in_epoch();
  const std::scoped_lock lock(mutex_);
  RETURN_IF_ERROR(look_around());
  return seen_.size;
}

Status IntervalFile::resize(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "resizing to a negative size");
  RETURN_IF_ERROR(check_end(size, "resizing"));
  RETURN_IF_ERROR(look_around_together());
  return guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    seen_.size = size;
    seen_.cut = std::min(seen_.cut, size);
    written_.log.cut(size);
    for (IntervalMap* map : {&written_.telling, &written_.told}) *map = below(*map, size);
    shared_.cut(size);
    failed_ = below(failed_, size);
    for (IntervalMap& layer : others_) layer = below(layer, size);
    return {};
  });
}

// Where writes overlap within the file only, it is made to reach that far while the first bytes are made ready.
void IntervalFile::expect_write(Bytes bytes) {
  if (!writes_) return;
  const auto epoch = stay_in_epoch();
  const std::scoped_lock lock(mutex_);
  expected_ = bytes;
  if (!requests_.write.extend_first || bytes < requests_.worth_lengthening) return;
  const Offset end = end_of_expected();
  if (end <= std::max(lengthened_, promised_)) return;
  promised_ = end;
  reach_ = std::max(reach_, end);
  (void)guarded([&]() -> Status {
    lengthening_.post([this, end] {
      const std::byte zero{};
      if (!await_newborn() || !storage_->write({end - 1, 1}, &zero)) return;  // who writes there is told
      const std::scoped_lock now(mutex_);
      lengthened_ = std::max(lengthened_, end);
    });
    return {};
  });
}

// Where the last of the bytes will lie that are expected, whose space is taken; 0: that is not known.
Offset IntervalFile::end_of_expected() {
  Bytes left = expected_ - chunk_.length;
  for (const Extent& each : free_) left -= each.length;
  if (left > 0 && (expected_ / 4 < written_.bytes || !guarded([&] { return take_extents(left); }))) return 0;
  Offset end = chunk_.end();
  left = expected_ - chunk_.length;
  for (auto each = free_.rbegin(); each != free_.rend() && left > 0; ++each) {
    end = std::max(end, each->offset + std::min(left, each->length));
    left -= each->length;
  }
  return end;
}

// Space cannot be reserved where every write goes to a new place: only the size is seen to.
Status IntervalFile::reserve(Bytes size) {
  RETURN_IF_ERROR(check_writable());
  if (size < 0) return refuse(Code::kArgument, "reserving a negative size");
  RETURN_IF_ERROR(check_end(size, "reserving"));
  const std::scoped_lock lock(mutex_);
  seen_.size = std::max(seen_.size, size);
  return {};
}

Result<std::unique_ptr<RangeLock>> IntervalFile::lock(Extent range, LockMode mode) {
  if (range.empty() || intersect(range, kIntervalLocks).length < range.length)
    return refuse(Code::kUnsupportedOperation, "locking a range of an interval file");
  return storage_->lock({kManagersLocks.offset + (range.offset - kIntervalLocks.offset), range.length}, mode);
}

Caps IntervalFile::caps() const { return {.appends = true, .alignment = 1, .preferred = storage_->caps().preferred}; }

tl::unexpected<Error> IntervalFile::too_many() const {
  return refuse(Code::kNoMemory,
                "too many writes to an interval file that all ranks see before the next MPI_File_sync: of small ones, "
                "or in atomic mode or with stridio_visibility=immediate, all ranks together may have 65,536 between "
                "two commits (across nodes 8 MB of maps of them), or fewer where /dev/shm is full");
}

tl::unexpected<Error> IntervalFile::refuse(Code code, std::string what) const {
  return fail(Error{.code = code, .what = std::move(what), .path = path()});
}

Status IntervalFile::check_end(Offset end, const char* what) const {
  if (end <= kMostBytes) return {};
  return fail(Error{.code = Code::kNoSpace,
                    .what = fmt::format("{} up to byte {}: an interval file has at most 2^62 bytes", what, end),
                    .sys_errno = EFBIG,
                    .path = path()});
}

Status IntervalFile::check_whole() const {
  if (!broken_) return {};
  return refuse(Code::kIo, "a commit has failed at its last step: open the interval file anew");
}

Status IntervalFile::check_writable() const {
  if (writes_) return {};
  return refuse(Code::kReadOnly, "changing an interval file opened for reading only");
}

}  // namespace stridio
