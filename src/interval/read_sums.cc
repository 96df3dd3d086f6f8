#include "interval/read_sums.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace stridio {
namespace {

constexpr std::int64_t kTogether = 16;  // cells, one after the other, that one rank puts together

struct Told {
  std::int64_t cell;  // of all parts', one after the other
  std::uint32_t sum;
  std::int32_t bytes;
};

// The first cell of each part, and behind them the number of all.
std::vector<std::int64_t> first_cells(const Root& root) {
  std::vector<std::int64_t> firsts{0};
  for (const PartEntry& part : root.parts) {
    std::int64_t cells = 0;
    for (const Extent& run : part.runs) cells += cells_of(run);
    firsts.push_back(firsts.back() + cells);
  }
  return firsts;
}

}  // namespace

void ReadSums::add(CellOfPart cell, std::uint32_t sum, Bytes bytes) {
  Cell* const last = cells_.empty() ? nullptr : &cells_.back();
  if (!last || last->cell != cell || last->bytes == kVerified) {
    cells_.push_back({cell, sum, static_cast<std::int32_t>(bytes)});
    return;
  }
  last->sum ^= sum;
  last->bytes = static_cast<std::int32_t>(std::min(last->bytes + bytes, kCell + 1));
}

bool ReadSums::leaves_some() const {
  return std::any_of(cells_.begin(), cells_.end(), [](const Cell& cell) { return cell.bytes != kVerified; });
}

std::vector<std::vector<std::byte>> ReadSums::by_rank(const Root& root, int ranks) const {
  const std::vector<std::int64_t> firsts = first_cells(root);
  std::vector<std::vector<std::byte>> told(static_cast<std::size_t>(ranks));
  for (const Cell& cell : cells_) {
    const Told each{firsts[cell.cell.part] + cell.cell.number, cell.sum, cell.bytes};
    const auto bytes = std::as_bytes(std::span(&each, 1));
    auto& to = told[static_cast<std::size_t>(each.cell / kTogether % ranks)];
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  return told;
}

Result<std::vector<CellOfPart>> ReadSums::not_verified(std::span<const std::vector<std::byte>> told,
                                                       Generation& generation, Storage& storage) {
  std::vector<Told> all;
  for (const std::vector<std::byte>& each : told) {
    if (each.empty()) continue;
    const std::size_t before = all.size();
    all.resize(before + each.size() / sizeof(Told));
    std::memcpy(all.data() + before, each.data(), each.size());
  }
  std::sort(all.begin(), all.end(), [](const Told& a, const Told& b) { return a.cell < b.cell; });
  const Root& root = generation.root();
  const std::vector<std::int64_t> firsts = first_cells(root);
  std::vector<CellOfPart> left;
  std::size_t part = 0;
  std::shared_ptr<const Part> known;
  std::size_t run = 0;        // of the part
  std::int64_t run_cell = 0;  // its first
  for (auto at = all.begin(); at != all.end();) {
    const std::int64_t number = at->cell;
    std::uint32_t sum = 0;
    Bytes bytes = 0;
    bool verified = false;
    for (; at != all.end() && at->cell == number; ++at) {
      verified = verified || at->bytes == kVerified;
      sum ^= at->sum;
      bytes += at->bytes;
    }
    if (verified) continue;
    if (!known || number >= firsts[part + 1]) {
      while (number >= firsts[part + 1]) ++part;
      ASSIGN_OR_RETURN(known, generation.part(part, storage));
      run = 0;
      run_cell = firsts[part];
    }
    const auto& runs = root.parts[part].runs;
    for (; number >= run_cell + cells_of(runs[run]); ++run) run_cell += cells_of(runs[run]);
    const Offset begin = down_to_cell(runs[run].offset) + (number - run_cell) * kCell;
    const CellOfPart cell{part, number - firsts[part]};
    const bool whole = bytes == intersect(runs[run], {begin, kCell}).length;
    if (!whole || crc32c_from_parts(sum, bytes) != known->sums[static_cast<std::size_t>(cell.number)])
      left.push_back(cell);
  }
  return left;
}

}  // namespace stridio
