// That bytes make up a block is proven by the sum of h(end) - h(begin) of all pieces, h being a hash of the place in the block: it is
// h(length) - h(0) if each piece begins where another one ends. To count bytes is not enough: of zeros read twice, and others not at
// all, count and sum are right.
#include "interval/read_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace stridio {
namespace {

constexpr std::int64_t kTogether = 4;  // blocks, one after the other, that one rank puts together

// SplitMix64.
std::uint64_t hash(Offset place) {
  std::uint64_t x = (static_cast<std::uint64_t>(place) + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
std::uint64_t cover_of(Extent inside) { return hash(inside.end()) - hash(inside.offset); }

}  // namespace

const Extent& ReadSums::meet_block(Extent run, std::span<const std::uint32_t> sums, Offset offset) {
  if (!told_.empty()) {
    const Extent& latest = told_.back().block.stored;
    if (offset >= latest.offset && offset < latest.end()) return latest;
  }
  Block& block = told_.emplace_back().block;
  block.stored = intersect(run, {offset / kBlock * kBlock, kBlock});
  const Extent stored = block.stored;
  auto next = static_cast<std::size_t>(stored.offset / kCell - run.offset / kCell);
  for (Offset at = stored.offset; at < stored.end(); ++next) {
    const Extent cell = cell_at(run, at);
    block.sum ^= crc32c_as_part(sums[next], cell.length, stored.end() - cell.end());
    at = cell.end();
  }
  return block.stored;
}

void ReadSums::add(Extent stored, std::uint32_t sum) {
  Told& told = told_.back();
  told.cover += cover_of({stored.offset - told.block.stored.offset, stored.length});
  told.sum ^= sum;
  told.leaves_some = true;
}

void ReadSums::add_verified(Extent cell) {
  Told& told = told_.back();
  told.verified |= 1U << (cell.offset / kCell - told.block.stored.offset / kCell);
}

void ReadSums::append(ReadSums others) {
  if (told_.empty()) {
    told_ = std::move(others.told_);
  } else {
    told_.insert(told_.end(), others.told_.begin(), others.told_.end());
  }
}

bool ReadSums::leaves_some() const {
  return std::any_of(told_.begin(), told_.end(), [](const Told& each) { return each.leaves_some; });
}

std::vector<std::vector<std::byte>> ReadSums::by_rank(int ranks) const {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(ranks));
  for (const Told& each : told_) {
    const auto group = static_cast<std::size_t>(each.block.stored.offset / (kTogether * kBlock));
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
  const auto place = [](const Told& each) { return each.block.stored.offset; };
  std::sort(all.begin(), all.end(), [&](const Told& a, const Told& b) { return place(a) < place(b); });
  Found found;
  for (auto at = all.begin(); at != all.end();) {
    Told one = *at;
    for (++at; at != all.end() && place(*at) == place(one); ++at) {
      one.verified |= at->verified;
      one.leaves_some = one.leaves_some || at->leaves_some;
      one.cover += at->cover;
      one.sum ^= at->sum;
    }
    const Extent stored = one.block.stored;
    const bool is_verified = std::popcount(one.verified) == cells_of(stored);
    if (!one.leaves_some || is_verified) continue;
    if (one.cover != cover_of({0, stored.length})) {
      found.unknown.push_back(one.block);
    } else if (one.sum != one.block.sum) {
      found.wrong.push_back(one.block);
    }
  }
  return found;
}

}  // namespace stridio
