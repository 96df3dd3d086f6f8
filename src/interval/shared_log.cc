#include "interval/shared_log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

namespace stridio {
namespace {

constexpr std::int64_t kEntries = std::int64_t{1} << 16;
constexpr Bytes kReserved = Bytes{1} << 16;    // at a time
constexpr std::chrono::seconds kPatience{10};  // with a rank that is between two stores

std::vector<PieceGroup> grouped(std::span<const Piece> pieces) {
  std::vector<PieceGroup> groups;
  for (const Piece& piece : pieces) {
    if (!groups.empty()) {
      PieceGroup& last = groups.back();
      if (last.count == 1 && piece.length == last.first.length) {
        last.stride = piece.logical - last.first.logical;
        last.stored_stride = piece.stored - last.first.stored;
      }
      if (piece == last.at(last.count)) {
        ++last.count;
        continue;
      }
    }
    groups.push_back({.first = piece});
  }
  return groups;
}

}  // namespace

struct SharedLog::Entry {
  std::atomic<std::uint64_t> epoch;  // in which the rest is true
  PieceGroup group;
};

struct SharedLog::Board {
  std::atomic<std::int64_t> taken;  // entries; the last ones may be beyond the end
  std::array<Entry, kEntries> entries;
};

Result<std::unique_ptr<SharedLog>> SharedLog::make(Group& group) {
  if (group.size() == 1 || group.node_count() > 1) return nullptr;
  ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, group.segment(sizeof(Board), kReserved));
  if (!segment) return nullptr;
  return std::unique_ptr<SharedLog>(new SharedLog(std::move(segment)));
}

SharedLog::Board& SharedLog::board() const { return *reinterpret_cast<Board*>(segment_->data()); }

void SharedLog::clear() { board().taken.store(0); }

void SharedLog::begin(std::uint64_t epoch) {
  epoch_ = epoch;
  seen_ = 0;
}

bool SharedLog::publish(std::span<const Piece> pieces) {
  const std::vector<PieceGroup> groups = grouped(pieces);
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

Result<std::vector<PieceGroup>> SharedLog::news() {
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
  seen_ = taken;
  return groups;
}

}  // namespace stridio
