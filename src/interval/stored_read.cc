// Block by block: what a generation stores there, with the sums of all parts whose cells lie in it.
#include <algorithm>

#include "base/crc32c.h"
#include "interval/generation.h"

namespace stridio {
namespace {

class BlockReader final : public StoredRead {
 public:
  BlockReader(Storage& storage, std::shared_ptr<Generation> generation)
      : storage_(storage), generation_(std::move(generation)), runs_(generation_->stored_runs()) {}

  std::int64_t blocks() const override { return runs_.empty() ? 0 : (runs_.back().stored.end() + kBlock - 1) / kBlock; }

  Result<Transferred> find(std::span<const Extent> extents, std::span<const Span> memory,
                           std::vector<StoredPiece>& pieces) override {
    const Bytes size = generation_->root().size;
    return find_intervals(storage_, {generation_, size, size, {}}, extents, memory, pieces);
  }

  bool fetch(std::int64_t block, std::byte* to) override {
    const Extent all{block * kBlock, kBlock};
    const auto first = std::partition_point(runs_.begin(), runs_.end(),
                                            [&](const StoredRun& run) { return run.stored.end() <= all.offset; });
    const auto last =
        std::partition_point(first, runs_.end(), [&](const StoredRun& run) { return run.stored.offset < all.end(); });
    const Offset begin = intersect(first->stored, all).offset;
    const Extent stored{begin, intersect((last - 1)->stored, all).end() - begin};
    const auto got = storage_.read(stored, to + (begin - all.offset));
    if (!got || got->bytes < stored.length) return false;
    return std::all_of(first, last, [&](const StoredRun& run) { return is_right(run, all, to); });
  }

 private:
  bool is_right(const StoredRun& run, Extent block, const std::byte* bytes) {
    const auto part = generation_->part(run.part, storage_);
    if (!part) return false;
    const Extent here = intersect(run.stored, block);
    auto sum = (*part)->sums.begin() + static_cast<std::ptrdiff_t>(run.first_sum) +
               (here.offset / kCell - run.stored.offset / kCell);
    for (Offset at = here.offset; at < here.end(); ++sum) {
      const Extent cell = cell_at(here, at);
      const std::span stored(bytes + (cell.offset - block.offset), static_cast<std::size_t>(cell.length));
      if (crc32c(stored) != *sum) return false;
      at = cell.end();
    }
    return true;
  }

  Storage& storage_;
  const std::shared_ptr<Generation> generation_;
  const std::vector<StoredRun>& runs_;
};

}  // namespace

std::unique_ptr<StoredRead> read_blocks(Storage& storage, std::shared_ptr<Generation> generation) {
  return std::make_unique<BlockReader>(storage, std::move(generation));
}

}  // namespace stridio
