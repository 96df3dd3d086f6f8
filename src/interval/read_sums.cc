// That bytes make up a block is proven by the sum of h(end) - h(begin) of all pieces, h being a hash of the place in the block: it is
// h(length) - h(0) if each piece begins where another one ends. To count bytes is not enough: of zeros read twice, and others not at
// all, count and sum are right.
#include "interval/read_sums.h"

#include <algorithm>
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

std::uint32_t bit_of(Offset offset, Extent block) { return 1U << (offset / kCell - block.offset / kCell); }

}  // namespace

const Extent& ReadSums::meet_block(Extent run, std::span<const std::uint32_t> sums, Offset offset) {
  if (!told_.empty()) {
    const Extent& latest = told_.back().stored;
    if (offset >= latest.offset && offset < latest.end()) return latest;
  }
  Told& told = told_.emplace_back();
  told.stored = intersect(run, {offset / kBlock * kBlock, kBlock});
  const auto first = static_cast<std::size_t>(told.stored.offset / kCell - run.offset / kCell);
  for (std::size_t i = 0; i < static_cast<std::size_t>(cells_of(told.stored)); ++i) told.sums[i] = sums[first + i];
  return told.stored;
}

void ReadSums::add(Extent stored, std::uint32_t sum) {
  Told& told = told_.back();
  told.cover += cover_of({stored.offset - told.stored.offset, stored.length});
  told.sum ^= sum;
  told.left |= bit_of(stored.offset, told.stored);
}

void ReadSums::add_verified(Extent cell) {
  Told& told = told_.back();
  told.verified |= bit_of(cell.offset, told.stored);
}

void ReadSums::append(ReadSums others) {
  if (told_.empty()) {
    told_ = std::move(others.told_);
  } else {
    told_.insert(told_.end(), others.told_.begin(), others.told_.end());
  }
}

bool ReadSums::leaves_some() const {
  return std::any_of(told_.begin(), told_.end(), [](const Told& each) { return each.left != 0; });
}

std::vector<std::vector<std::byte>> ReadSums::by_rank(int ranks) const {
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(ranks));
  for (const Told& each : told_) {
    const auto group = static_cast<std::size_t>(each.stored.offset / (kTogether * kBlock));
    auto& to = all[group % all.size()];
    const auto bytes = std::as_bytes(std::span(&each, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// Others' pieces of cells that one reader has verified are not needed; but they are in the sum, which the cover tells.
void ReadSums::judge(const Told& told, Found& found) {
  std::uint64_t cover = 0;
  std::uint32_t sum = 0;
  std::vector<Cell> needed;
  Offset at = told.stored.offset;
  for (std::size_t i = 0; at < told.stored.end(); ++i) {
    const Extent cell = cell_at(told.stored, at);
    at = cell.end();
    if ((told.left & ~told.verified & 1U << i) == 0) continue;
    cover += cover_of({cell.offset - told.stored.offset, cell.length});
    sum ^= crc32c_as_part(told.sums[i], cell.length, told.stored.end() - at);
    needed.push_back({cell, told.sums[i]});
  }
  if (needed.empty()) return;
  if (told.cover != cover) {
    found.unknown.insert(found.unknown.end(), needed.begin(), needed.end());
  } else if (told.sum != sum) {
    found.wrong.push_back(told.stored);
  }
}

ReadSums::Found ReadSums::put_together(std::span<const std::vector<std::byte>> told) {
  std::vector<Told> all;
  for (const std::vector<std::byte>& each : told) {
    if (each.empty()) continue;
    const std::size_t before = all.size();
    all.resize(before + each.size() / sizeof(Told));
    std::memcpy(all.data() + before, each.data(), each.size());
  }
  const auto place = [](const Told& each) { return each.stored.offset; };
  std::sort(all.begin(), all.end(), [&](const Told& a, const Told& b) { return place(a) < place(b); });
  Found found;
  for (auto at = all.begin(); at != all.end();) {
    Told one = *at;
    for (++at; at != all.end() && place(*at) == place(one); ++at) {
      one.verified |= at->verified;
      one.left |= at->left;
      one.cover += at->cover;
      one.sum ^= at->sum;
    }
    judge(one, found);
  }
  return found;
}

}  // namespace stridio
