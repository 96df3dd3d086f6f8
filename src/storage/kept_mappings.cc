#include "storage/kept_mappings.h"

#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "storage/mapping.h"
#include "storage/request.h"

namespace stridio {
namespace {

// A page of a page table maps so much, and is worth an eighth as many bytes as are written there.
constexpr Bytes kTablePage = Bytes{4} << 10, kTableMaps = Bytes{2} << 20, kLeastOfTable = 8;
constexpr Bytes kLongest = Bytes{1} << 40;  // addresses are not for nothing either

Extent bounds_of(std::span<const Extent> extents) {
  Offset begin = extents.front().offset, end = begin;
  for (const Extent& extent : extents) {
    if (extent.empty()) continue;
    begin = std::min(begin, extent.offset);
    end = std::max(end, extent.end());
  }
  return {begin, end - begin};
}

Bytes size_of(std::span<const Extent> extents) {
  Bytes size = 0;
  for (const Extent& extent : extents) size += extent.length;
  return size;
}

bool is_worth_tables(std::span<const Extent> extents, Extent bounds) {
  const Bytes size = size_of(extents);
  const Bytes tables = std::min(std::ssize(extents) + size / kTableMaps, 1 + bounds.length / kTableMaps);
  return bounds.length <= kLongest && tables * kTablePage * kLeastOfTable <= size;
}

void copy(std::span<const Extent> extents, std::span<const Span> memory, std::byte* file) {
  MemoryCursor from(memory);
  for (const Extent& extent : extents) {
    for (Bytes done = 0; done < extent.length;) {
      const Span piece = from.take(extent.length - done);
      std::memcpy(file + extent.offset + done, piece.data, static_cast<std::size_t>(piece.length));
      done += piece.length;
    }
  }
}

}  // namespace

struct KeptMappings::Kept {
  std::vector<Extent> extents;
  Extent bounds;
  std::mutex in_use;
  std::unique_ptr<Mapping> mapping;
  bool lost = false;  // cannot be mapped, or no longer shows the file
};

std::shared_ptr<KeptMappings::Kept> KeptMappings::find(std::span<const Extent> extents) {
  const std::scoped_lock lock(mutex_);
  for (const auto& kept : kept_)
    if (kept && std::ranges::equal(kept->extents, extents)) return kept;
  const Extent bounds = bounds_of(extents);
  if (!is_worth_tables(extents, bounds)) return nullptr;
  (void)guarded([&]() -> Status {
    auto kept = std::make_shared<Kept>();
    kept->extents.assign(extents.begin(), extents.end());
    kept->bounds = bounds;
    kept_[oldest_] = std::move(kept);
    oldest_ = (oldest_ + 1) % kept_.size();
    return {};
  });
  return nullptr;
}

bool KeptMappings::store(std::span<const Extent> extents, std::span<const Span> memory,
                         const std::function<bool(Extent)>& settled) {
  if (size_of(extents) < kLeast) return false;
  const std::shared_ptr<Kept> kept = find(extents);
  if (!kept) return false;
  const std::unique_lock use(kept->in_use, std::try_to_lock);
  if (!use || kept->lost || !settled(kept->bounds)) return false;
  if (!kept->mapping) {
    auto made = Mapping::make(fd_, kept->bounds, true, false);
    kept->lost = !made;
    if (!made) return false;
    kept->mapping = std::move(*made);
  }
  const Mapping::Watch watch(*kept->mapping);
  copy(extents, memory, kept->mapping->data() - kept->bounds.offset);
  kept->lost = !watch.whole();
  if (kept->lost) kept->mapping.reset();
  return !kept->lost;
}

void KeptMappings::clear() {
  const std::scoped_lock lock(mutex_);
  kept_.fill(nullptr);
}

}  // namespace stridio
