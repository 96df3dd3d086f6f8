#include "file/conflicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>

#include "base/log.h"
#include "base/text.h"
#include "group/overdue.h"

namespace stridio {
namespace {

constexpr std::size_t kMostTouches = std::size_t{3} << 20;
constexpr std::size_t kMostLines = 10;

}  // namespace

bool Conflicts::wanted() {
  const char* const text = std::getenv("STRIDIO_CHECK");
  return text != nullptr && *text == '1';
}

std::uint16_t Conflicts::number_of(const std::string& call) {
  const auto found = std::find(calls_.begin(), calls_.end(), call);
  const auto number = static_cast<std::uint16_t>(found - calls_.begin());
  if (found == calls_.end()) calls_.push_back(call);
  return number;
}

void Conflicts::note(Direction direction, const Pattern& file) {
  const std::scoped_lock lock(mutex_);
  const std::uint16_t call = number_of(InCall::name());
  RunReader runs{Cursor(file)};
  while (const auto run = runs.next()) {
    if (touches_.size() == kMostTouches) {
      compact();
      full_ = touches_.size() > kMostTouches / 4 * 3;  // or it would be compacted again after few
    }
    if (full_) return;
    touches_.push_back({.extent = *run, .call = call, .writes = direction == Direction::kWrite});
  }
}

// What one call has accessed, in order and without repetition.
void Conflicts::compact() {
  const auto kind = [](const Touch& each) { return std::tuple(each.writes, each.call); };
  std::sort(touches_.begin(), touches_.end(), [&](const Touch& a, const Touch& b) {
    return std::tuple(kind(a), a.extent.offset) < std::tuple(kind(b), b.extent.offset);
  });
  std::size_t kept = 0;
  for (const Touch& each : touches_) {
    Touch* const last = kept > 0 ? &touches_[kept - 1] : nullptr;
    if (last && kind(*last) == kind(each) && each.extent.offset <= last->extent.end()) {
      last->extent.length = std::max(last->extent.end(), each.extent.end()) - last->extent.offset;
    } else {
      touches_[kept++] = each;
    }
  }
  touches_.resize(kept);
}

// What a rank tells: how many touches, these, whether there were more, and its calls' names.
struct Conflicts::Told {
  std::vector<Touch> touches;
  std::vector<std::string> calls;
  bool full = false;
};

Buffer Conflicts::told(int rank) {
  const std::scoped_lock lock(mutex_);
  compact();
  for (Touch& each : touches_) each.rank = rank;
  const std::uint64_t counts[] = {touches_.size(), full_};
  Buffer bytes(sizeof counts + touches_.size() * sizeof(Touch));
  std::memcpy(bytes.data(), counts, sizeof counts);
  if (!touches_.empty()) std::memcpy(bytes.data() + sizeof counts, touches_.data(), touches_.size() * sizeof(Touch));
  for (const std::string& call : calls_)
    for (const char* letter = call.c_str(); letter <= call.c_str() + call.size(); ++letter)
      bytes.push_back(static_cast<std::byte>(*letter));
  touches_.clear();
  calls_.clear();
  full_ = false;
  return bytes;
}

Status Conflicts::check(Group& group, const std::string& path) {
  std::vector<Buffer> sends(static_cast<std::size_t>(group.size()));
  sends.front() = told(group.rank());
  ASSIGN_OR_RETURN(const std::vector<Buffer> received, alltoallv(group, sends));
  if (group.rank() != 0) return {};
  std::vector<Told> all;
  for (const Buffer& bytes : received) {
    Told& each = all.emplace_back();
    std::uint64_t counts[2];
    std::memcpy(counts, bytes.data(), sizeof counts);
    each.touches.resize(counts[0]);
    each.full = counts[1] != 0;
    if (counts[0] > 0) std::memcpy(each.touches.data(), bytes.data() + sizeof counts, counts[0] * sizeof(Touch));
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    for (std::size_t at = sizeof counts + counts[0] * sizeof(Touch); at < bytes.size();
         at += each.calls.back().size() + 1)
      each.calls.emplace_back(text + at);
    if (each.full)
      warn(fmt::format("{}: rank {} accessed more pieces than STRIDIO_CHECK looks at; the last ones are not checked",
                       path, all.size() - 1));
  }
  name_conflicts(all, path);
  return {};
}

namespace {

// The two that reach farthest, of different ranks.
template <typename Touch>
class Farthest {
 public:
  void add(const Touch& touch) {
    if (const Touch* const same = of(touch.rank); same && same->extent.end() >= touch.extent.end()) return;
    if (two_[0] && two_[0]->rank != touch.rank) {
      if (two_[0]->extent.end() >= touch.extent.end()) {
        if (!two_[1] || two_[1]->rank == touch.rank || two_[1]->extent.end() < touch.extent.end()) two_[1] = &touch;
        return;
      }
      two_[1] = two_[0];
    }
    two_[0] = &touch;
  }
  // Of another rank, and behind `offset`.
  const Touch* beyond(Offset offset, std::int32_t rank) const {
    for (const Touch* each : two_)
      if (each && each->rank != rank && each->extent.end() > offset) return each;
    return nullptr;
  }

 private:
  const Touch* of(std::int32_t rank) const {
    for (const Touch* each : two_)
      if (each && each->rank == rank) return each;
    return nullptr;
  }
  std::array<const Touch*, 2> two_{};
};

}  // namespace

void Conflicts::name_conflicts(std::vector<Told>& all, const std::string& path) {
  std::vector<Touch> touches;
  for (const Told& each : all) touches.insert(touches.end(), each.touches.begin(), each.touches.end());
  std::sort(touches.begin(), touches.end(),
            [](const Touch& a, const Touch& b) { return a.extent.offset < b.extent.offset; });
  struct Found {
    Extent first;
    std::int64_t places = 0;
  };
  using Side = std::tuple<std::int32_t, std::uint16_t, bool>;
  std::map<std::pair<Side, Side>, Found> found;
  Farthest<Touch> writers, readers;
  for (const Touch& each : touches) {
    const Touch* other = writers.beyond(each.extent.offset, each.rank);
    if (!other && each.writes) other = readers.beyond(each.extent.offset, each.rank);
    if (other) {
      const auto side = [](const Touch& touch) { return Side{touch.rank, touch.call, touch.writes}; };
      Found& place = found[std::minmax(side(*other), side(each))];
      if (place.places++ == 0) place.first = intersect(each.extent, other->extent);
    }
    (each.writes ? writers : readers).add(each);
  }
  const auto text_of = [&](const Side& side) {
    const auto& [rank, call, writes] = side;
    return fmt::format("rank {} {} them in {}", rank, writes ? "writes" : "reads",
                       all[static_cast<std::size_t>(rank)].calls[call]);
  };
  std::size_t lines = 0;
  for (const auto& [sides, place] : found) {
    if (lines++ == kMostLines) {
      warn(fmt::format("{}: {} more pairs of calls conflict", path, found.size() - kMostLines));
      break;
    }
    warn(fmt::format("{}: conflict in bytes {} to {}{}: {}, {}, and no MPI_File_sync is between", path,
                     place.first.offset, place.first.end() - 1,
                     place.places > 1 ? fmt::format(" and at {}", counted(place.places - 1, "more place")) : "",
                     text_of(sides.first), text_of(sides.second)));
  }
}

}  // namespace stridio
