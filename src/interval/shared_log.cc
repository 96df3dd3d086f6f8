#include "interval/shared_log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "group/segment.h"
#include "interval/format.h"

namespace stridio {
namespace {

constexpr std::int64_t kEntries = std::int64_t{1} << 16;
constexpr Bytes kReserved = Bytes{1} << 16;    // at a time
constexpr std::chrono::seconds kPatience{10};  // with a rank that is between two stores

// ---- In memory

class MemoryLog final : public SharedLog {
 public:
  struct Entry {
    std::atomic<std::uint64_t> epoch;  // in which the rest is true
    PieceGroup group;
  };
  struct Board {
    std::atomic<std::int64_t> taken;  // entries
    std::int64_t most;                // that were taken between two times when it was cleared
    std::array<Entry, kEntries> entries;
  };

  explicit MemoryLog(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}

  void clear() override { board().most = std::max(board().most, board().taken.exchange(0)); }
  void wipe() {
    clear();
    const auto used = static_cast<std::size_t>(std::exchange(board().most, 0));
    for (Entry& entry : std::span(board().entries).first(used)) entry.epoch.store(0);
  }
  void begin(std::uint64_t epoch) override {
    epoch_ = epoch;
    seen_ = 0;
  }
  Result<bool> publish(std::span<const PieceGroup> groups) override;
  Result<std::vector<PieceGroup>> news() override;
  void heard() override { seen_ = told_; }
  bool asks_storage() const override { return false; }

 private:
  Board& board() const { return *reinterpret_cast<Board*>(segment_->data()); }

  std::shared_ptr<Segment> segment_;
  std::uint64_t epoch_ = 0;
  std::int64_t seen_ = 0, told_ = 0;
};

Result<bool> MemoryLog::publish(std::span<const PieceGroup> groups) {
  const auto count = std::ssize(groups);
  std::int64_t first = board().taken.load();
  do {
    if (count > kEntries - first) return false;
    const auto used =
        static_cast<Bytes>(offsetof(Board, entries) + sizeof(Entry) * static_cast<std::size_t>(first + count));
    if (!segment_->reserve(std::min((used + kReserved - 1) / kReserved * kReserved, segment_->length()))) return false;
  } while (!board().taken.compare_exchange_weak(first, first + count));
  for (const PieceGroup& group : groups) {
    Entry& entry = board().entries[static_cast<std::size_t>(first++)];
    entry.group = group;
    entry.epoch.store(epoch_);
  }
  return true;
}

Result<std::vector<PieceGroup>> MemoryLog::news() {
  std::vector<PieceGroup> groups;
  const std::int64_t taken = board().taken.load();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::int64_t i = seen_; i < taken; ++i) {
    const Entry& entry = board().entries[static_cast<std::size_t>(i)];
    while (entry.epoch.load() != epoch_) {
      if (std::chrono::steady_clock::now() > deadline)
        return fail(Code::kOther, "a rank has died while it wrote to the interval file");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    groups.push_back(entry.group);
  }
  told_ = taken;
  return groups;
}

// ---- In the stored file

// Of areas, each of which is twice as long as the one before.
constexpr Bytes kFirstArea = 4 * kCell;
constexpr Bytes before_area(std::size_t i) { return kFirstArea * ((Bytes{1} << i) - 1); }
static_assert(before_area(kMostLogAreas) > 100 * kEntries);

class StorageLog final : public SharedLog {
 public:
  StorageLog(Storage& storage, LogSpace space) : storage_(storage), space_(std::move(space)) {}

  void clear() override {}
  void begin(std::uint64_t) override { seen_ = told_ = 0; }
  Result<bool> publish(std::span<const PieceGroup> groups) override;
  Result<std::vector<PieceGroup>> news() override;
  void heard() override { seen_ = told_; }
  bool asks_storage() const override { return true; }

 private:
  Result<LogHead> head();
  // Where `range` of the log lies.
  std::vector<Extent> stored(const LogHead& head, Extent range) const;

  Storage& storage_;
  const LogSpace space_;
  Bytes seen_ = 0, told_ = 0;
};

Result<LogHead> StorageLog::head() {
  std::array<std::byte, kLogHeadBytes> bytes = {};
  RETURN_IF_ERROR(storage_.read(space_.head, bytes.data()));
  ASSIGN_OR_RETURN(LogHead head, decode_log_head(bytes));
  if (head.used < seen_ || head.used > before_area(head.areas.size()))
    return fail(Code::kIo, "somebody else has written to the interval file");
  return head;
}

std::vector<Extent> StorageLog::stored(const LogHead& head, Extent range) const {
  std::vector<Extent> all;
  for (std::size_t i = 0; i < head.areas.size(); ++i) {
    const Extent area{before_area(i), before_area(i + 1) - before_area(i)}, part = intersect(range, area);
    if (part.empty()) continue;
    const auto places = space_.stored({head.areas[i] + part.offset - area.offset, part.length});
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

// Records first: a head never tells of what is not there.
Result<bool> StorageLog::publish(std::span<const PieceGroup> groups) {
  LogRecord record;
  WriteLog log;
  for (const PieceGroup& group : groups) {
    record.size = std::max({record.size, group.first.end(), group.last().end()});
    if (group.first.length > 0) log.add_group(group);
  }
  record.written = log.merged();
  std::vector<std::byte> bytes = encode(record);
  ASSIGN_OR_RETURN(const auto lock, storage_.lock(space_.head, LockMode::kExclusive));
  ASSIGN_OR_RETURN(LogHead head, this->head());
  const Extent place{head.used, std::ssize(bytes)};
  if (place.end() > before_area(kMostLogAreas)) return false;
  while (place.end() > before_area(head.areas.size())) {
    const std::size_t i = head.areas.size();
    ASSIGN_OR_RETURN(head.areas.emplace_back(), space_.take(before_area(i + 1) - before_area(i)));
  }
  const std::vector<Extent> extents = stored(head, place);
  const Span span{bytes.data(), place.length};
  RETURN_IF_ERROR(storage_.writev(extents, {&span, 1}));
  head.used = place.end();
  RETURN_IF_ERROR(storage_.write(space_.head, encode(head).data()));
  return true;
}

Result<std::vector<PieceGroup>> StorageLog::news() {
  ASSIGN_OR_RETURN(const auto lock, storage_.lock(space_.head, LockMode::kShared));
  ASSIGN_OR_RETURN(const LogHead head, this->head());
  const Extent unseen{seen_, head.used - seen_};
  std::vector<std::byte> bytes(static_cast<std::size_t>(unseen.length));
  const std::vector<Extent> extents = stored(head, unseen);
  const Span span{bytes.data(), unseen.length};
  if (!unseen.empty()) RETURN_IF_ERROR(storage_.readv(extents, {&span, 1}));
  ASSIGN_OR_RETURN(const std::vector<LogRecord> records, decode_log(bytes));
  told_ = head.used;
  std::vector<PieceGroup> groups;
  for (const LogRecord& record : records) {
    for (MapCursor cursor(record.written); !cursor.done(); cursor.next_group()) groups.push_back(cursor.group());
    groups.push_back({.first = {record.size, 0, 0}});
  }
  return groups;
}

}  // namespace

Result<std::unique_ptr<SharedLog>> make_memory_log(Group& group) {
  if (group.size() == 1 || group.node_count() > 1) return nullptr;
  ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, group.lasting_segment(sizeof(MemoryLog::Board), kReserved));
  if (!segment) return nullptr;
  return std::make_unique<MemoryLog>(std::move(segment));
}

void wipe_memory_log(Group& group) {
  if (auto segment = group.lasting_segment()) MemoryLog(std::move(segment)).wipe();
}

std::unique_ptr<SharedLog> make_storage_log(Storage& storage, LogSpace space) {
  return std::make_unique<StorageLog>(storage, std::move(space));
}

}  // namespace stridio
