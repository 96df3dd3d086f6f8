// That bytes make up a cell is proven by the sum of h(end) - h(begin) of all pieces, h being a hash of the place in the cell: it is
// h(length) - h(0) if each piece begins where another one ends. To count bytes is not enough: of zeros read twice, and others not at
// all, count and sum are right.
#include "interval/read_sums.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace stridio {
namespace {

constexpr std::int64_t kTogether = 16;  // cells, one after the other, that one rank puts together

// SplitMix64.
std::uint64_t hash(Offset place) {
  std::uint64_t x = (static_cast<std::uint64_t>(place) + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
std::uint64_t cover_of(Extent inside) { return hash(inside.end()) - hash(inside.offset); }

}  // namespace

void ReadSums::add(const Cell& cell, Extent inside, std::uint32_t sum) {
  if (told_.empty() || told_.back().cell.stored != cell.stored || told_.back().verified)
    told_.push_back({cell, 0, 0, false});
  told_.back().cover += cover_of(inside);
  told_.back().sum ^= sum;
}

void ReadSums::add_verified(Extent stored) { told_.push_back({{stored}, 0, 0, true}); }

bool ReadSums::leaves_some() const {
  return std::any_of(told_.begin(), told_.end(), [](const Told& each) { return !each.verified; });
}

std::vector<std::vector<std::byte>> ReadSums::by_rank(int ranks) const {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(ranks));
  for (const Told& each : told_) {
    const auto group = static_cast<std::size_t>(each.cell.stored.offset / (kTogether * kCell));
    auto& to = all[group % all.size()];
    const auto bytes = std::as_bytes(std::span(&each, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  return all;
}

ReadSums::Found ReadSums::put_together(std::span<const std::vector<std::byte>> told) {
  std::vector<Told> all;
  for (const std::vector<std::byte>& each : told) {
    if (each.empty()) continue;
    const std::size_t before = all.size();
    all.resize(before + each.size() / sizeof(Told));
    std::memcpy(all.data() + before, each.data(), each.size());
  }
  const auto place = [](const Told& each) { return each.cell.stored.offset; };
  std::sort(all.begin(), all.end(), [&](const Told& a, const Told& b) { return place(a) < place(b); });
  Found found;
  for (auto at = all.begin(); at != all.end();) {
    Told one = *at;
    for (++at; at != all.end() && place(*at) == place(one); ++at) {
      one.verified = one.verified || at->verified;
      one.cover += at->cover;
      one.sum ^= at->sum;
    }
    if (one.verified) continue;
    if (one.cover != cover_of({0, one.cell.stored.length})) {
      found.unknown.push_back(one.cell);
    } else if (crc32c_from_parts(one.sum, one.cell.stored.length) != one.cell.sum) {
      found.wrong.push_back(one.cell);
    }
  }
  return found;
}

}  // namespace stridio
