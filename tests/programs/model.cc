#include "programs/model.h"

#include <algorithm>

namespace stridio::testing {

void Phase::begin(std::int64_t size) {
  start_size_ = size;
  written_by_.fill(0);
  read_by_.fill(0);
  grown_by_ = size_read_by_ = 0;
}

bool Phase::passes_end(const Places& places) const {
  return std::any_of(places.begin(), places.end(), [this](std::int64_t place) { return place >= start_size_; });
}

bool Phase::may_read(Accessor who, const Places& places) const {
  if (passes_end(places) && !may_read_size(who)) return false;
  return std::all_of(places.begin(), places.end(),
                     [&](std::int64_t place) { return only(written_by_[static_cast<std::size_t>(place)], who); });
}

bool Phase::may_write(Accessor who, const Places& places) const {
  if (passes_end(places) && !only(size_read_by_, who)) return false;
  return std::all_of(places.begin(), places.end(), [&](std::int64_t place) {
    const auto at = static_cast<std::size_t>(place);
    return only(written_by_[at], who) && only(read_by_[at], who);
  });
}

void Phase::note_read(Accessor who, const Places& places) {
  for (const std::int64_t place : places) read_by_[static_cast<std::size_t>(place)] |= 1u << who;
  if (passes_end(places)) note_size_read(who);
}

void Phase::note_write(Accessor who, const Places& places) {
  for (const std::int64_t place : places) written_by_[static_cast<std::size_t>(place)] |= 1u << who;
  if (passes_end(places)) grown_by_ |= 1u << who;
}

void FileModel::write(const Places& places, const Bytes& data) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<std::size_t>(places[i]);
    if (place >= bytes.size()) bytes.resize(place + 1);
    bytes[place] = data[i];
  }
}

std::int64_t FileModel::available(const Places& places) const {
  const auto past = std::find_if(places.begin(), places.end(), [this](std::int64_t place) { return place >= size(); });
  return past - places.begin();
}

namespace {

// Depth first over the orders; a read that does not fit ends a branch.
struct OrderSearch {
  const std::vector<std::vector<Observed>>& ranks;
  const Bytes& after;
  std::vector<std::size_t> next;  // of each rank

  bool fits(const Observed& read, const Bytes& now) const {
    for (std::size_t i = 0; i < read.places.size(); ++i)
      if (now[static_cast<std::size_t>(read.places[i])] != read.data[i]) return false;
    return true;
  }

  bool from(const Bytes& now) {
    bool all_done = true;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (next[r] == ranks[r].size()) continue;
      all_done = false;
      const Observed& operation = ranks[r][next[r]];
      ++next[r];
      bool found = false;
      if (operation.writes) {
        Bytes then = now;
        for (std::size_t i = 0; i < operation.places.size(); ++i)
          then[static_cast<std::size_t>(operation.places[i])] = operation.data[i];
        found = from(then);
      } else if (fits(operation, now)) {
        found = from(now);
      }
      --next[r];
      if (found) return true;
    }
    return all_done && now == after;
  }
};

}  // namespace

bool some_serial_order(const std::vector<std::vector<Observed>>& ranks, const Bytes& before, const Bytes& after) {
  // Only the bytes that are touched, so that a state is small.
  Places touched;
  for (const auto& rank : ranks)
    for (const Observed& operation : rank)
      touched.insert(touched.end(), operation.places.begin(), operation.places.end());
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  auto small = ranks;
  for (auto& rank : small)
    for (Observed& operation : rank)
      for (std::int64_t& place : operation.places)
        place = std::lower_bound(touched.begin(), touched.end(), place) - touched.begin();
  const auto only_touched = [&](const Bytes& all) {
    Bytes some;
    for (const std::int64_t place : touched)
      some.push_back(static_cast<std::size_t>(place) < all.size() ? all[static_cast<std::size_t>(place)] : 0);
    return some;
  };
  const Bytes wanted = only_touched(after);
  OrderSearch search{small, wanted, std::vector<std::size_t>(ranks.size(), 0)};
  return search.from(only_touched(before));
}

}  // namespace stridio::testing
