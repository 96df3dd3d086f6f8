#include "interval/read_sums.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace stridio {
namespace {

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

void ReadSums::add(std::size_t part, std::int64_t cell, std::uint32_t sum, Bytes bytes) {
  Cell& known = parts[part][static_cast<std::size_t>(cell)];
  if (known.bytes == Cell::kVerified) return;
  known.sum ^= sum;
  known.bytes = static_cast<std::int32_t>(std::min(known.bytes + bytes, kCell + 1));
}

bool ReadSums::leaves_some() const {
  const auto is_some = [](const Cell& cell) { return cell.bytes > 0; };
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::vector<Cell>& cells) { return std::any_of(cells.begin(), cells.end(), is_some); });
}

std::vector<std::vector<std::byte>> ReadSums::by_rank(const Root& root, int ranks) const {
  const std::vector<std::int64_t> firsts = first_cells(root);
  std::vector<std::vector<std::byte>> told(static_cast<std::size_t>(ranks));
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (std::size_t i = 0; i < parts[part].size(); ++i) {
      const Cell& cell = parts[part][i];
      if (cell.bytes == 0) continue;
      const Told each{firsts[part] + static_cast<std::int64_t>(i), cell.sum, cell.bytes};
      const auto bytes = std::as_bytes(std::span(&each, 1));
      auto& to = told[static_cast<std::size_t>(each.cell * ranks / firsts.back())];
      to.insert(to.end(), bytes.begin(), bytes.end());
    }
  return told;
}

Result<std::vector<CellOfPart>> not_verified_by(std::span<const std::vector<std::byte>> told, Generation& generation,
                                                Storage& storage) {
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
      verified = verified || at->bytes == ReadSums::Cell::kVerified;
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
    const std::int64_t cell = number - firsts[part];
    const bool whole = bytes == intersect(runs[run], {begin, kCell}).length;
    if (!whole || crc32c_from_parts(sum, bytes) != known->sums[static_cast<std::size_t>(cell)])
      left.push_back({part, cell});
  }
  return left;
}

}  // namespace stridio
