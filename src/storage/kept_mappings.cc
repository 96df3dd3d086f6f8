#include "storage/kept_mappings.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/copy_bytes.h"
#include "base/guarded.h"
#include "storage/mapping.h"
#include "storage/request.h"

namespace stridio {
namespace {

constexpr std::size_t kMostKept = 64;
// A page of a page table maps so much, and is worth an eighth as many bytes as are written there.
constexpr Bytes kTablePage = Bytes{4} << 10, kTableMaps = Bytes{2} << 20, kLeastOfTable = 8;

bool is_worth_tables(std::span<const Extent> extents, Extent bounds) {
  const Bytes size = size_of(extents);
  const Bytes tables = std::min(std::ssize(extents) + size / kTableMaps, 1 + bounds.length / kTableMaps);
  return bounds.length <= KeptMappings::kMost && tables * kTablePage * kLeastOfTable <= size;
}

// Streamed as what is long: nobody here reads what is stored, as a rule, and 64 KiB take as long so, 1 MiB a tenth to a quarter less.
void copy(std::span<const Extent> extents, std::span<const Span> memory, std::byte* file) {
  const Streaming streaming(Streaming::kLeast);
  MemoryCursor from(memory);
  for (const Extent& extent : extents) {
    for (Bytes done = 0; done < extent.length;) {
      const Span piece = from.take(extent.length - done);
      copy_bytes(file + extent.offset + done, piece.data, static_cast<std::size_t>(piece.length), streaming.stores());
      done += piece.length;
    }
  }
}

}  // namespace

struct KeptMappings::Kept {
  std::vector<Extent> extents;
  Extent bounds;
  std::mutex in_use;  // of what follows
  std::unique_ptr<Mapping> mapping;
  bool lost = false;  // cannot be mapped, or no longer shows the file
};

// What has been written before; else it is remembered.
std::shared_ptr<KeptMappings::Kept> KeptMappings::find(std::span<const Extent> extents) {
  const std::scoped_lock lock(mutex_);
  for (const auto& kept : kept_)
    if (std::ranges::equal(kept->extents, extents)) return kept;
  const Extent bounds = bounds_of(extents);
  if (!is_worth_tables(extents, bounds)) return nullptr;
  auto kept = std::make_shared<Kept>();
  kept->extents.assign(extents.begin(), extents.end());
  kept->bounds = bounds;
  kept_.push_back(std::move(kept));
  for (length_ += bounds.length; kept_.size() > kMostKept || length_ > kMost; kept_.pop_front())
    length_ -= kept_.front()->bounds.length;
  return nullptr;
}

bool KeptMappings::store(std::span<const Extent> extents, std::span<const Span> memory,
                         const std::function<bool(Extent)>& has) {
  if (size_of(extents) < kLeast) return false;
  const auto stored = guarded([&]() -> Result<bool> {
    const std::shared_ptr<Kept> kept = find(extents);
    if (!kept) return false;
    const std::unique_lock use(kept->in_use, std::try_to_lock);
    if (!use || kept->lost || !Mapping::Watch::sees_errors() || !has(kept->bounds)) return false;
    if (!kept->mapping) {
      kept->lost = true;
      ASSIGN_OR_RETURN(kept->mapping, Mapping::make(fd_, kept->bounds, true, false));
    }
    Mapping::Watch watch(*kept->mapping);
    copy(extents, memory, kept->mapping->data() - kept->bounds.offset);
    kept->lost = !watch.whole();
    if (kept->lost) kept->mapping.reset();
    return !kept->lost;
  });
  return stored.value_or(false);
}

void KeptMappings::clear() {
  const std::scoped_lock lock(mutex_);
  kept_.clear();
  length_ = 0;
}

}  // namespace stridio
