#include "collective/aggregator.h"

#include <cstring>

#include "access/deep.h"
#include "access/execute.h"

namespace stridio {
namespace {

// Leaves the window what lies below `offset`, and returns the rest. Both hold something.
FileWindow split(FileWindow& window, Offset offset) {
  FileWindow low, high;
  const auto add = [](FileWindow& to, const Extent& run) {
    if (run.empty()) return;
    if (to.empty()) to.range.offset = run.offset;
    to.range.length = run.end() - to.range.offset;
    to.runs.push_back(run);
  };
  for (const Extent& run : window.runs) {
    const Offset cut = std::clamp(offset, run.offset, run.end());
    add(low, {run.offset, cut - run.offset});
    add(high, {cut, run.end() - cut});
  }
  window = std::move(low);
  return high;
}

}  // namespace

Extent positions(const Pattern& file, const Round& round) {
  if (round.window.empty() || file.empty()) return {};
  const Bytes begin = file.bytes_below(round.window.offset);
  return {begin, file.bytes_below(std::min(round.window.end(), round.valid_end)) - begin};
}

Bytes Aggregator::count(const Extent& range) const {
  Bytes bytes = 0;
  for (const Pattern& pattern : counted_) bytes += positions(pattern, {range, range.end()}).length;
  return bytes;
}

FileWindow Aggregator::find() {
  FileWindow window = rest_.empty() ? windows_.next() : std::exchange(rest_, {});
  if (window.empty() || counted_.empty() || count(window.range) <= most_) return window;
  Offset enough = window.range.offset + 1, too_much = window.range.end();
  while (too_much - enough > 1) {
    const Offset middle = enough + (too_much - enough) / 2;
    (count({window.range.offset, middle - window.range.offset}) <= most_ ? enough : too_much) = middle;
  }
  rest_ = split(window, enough);
  return window;
}

Status Aggregator::next(std::byte* buffer) {
  previous_ = std::exchange(window_, {});
  window_ = find();
  valid_end_ = window_.range.end();
  return window_.empty() || !reads_ ? Status() : fetch(buffer);
}

Status Aggregator::fetch(std::byte* buffer) {
  const Stopwatch watch(times_.storage);
  std::vector<Extent> extents;
  for (const Extent& run : window_.runs) {
    if (!extents.empty() && run.offset - extents.back().end() <= plan_.largest_gap) {
      extents.back().length = run.end() - extents.back().offset;
    } else {
      extents.push_back(run);
    }
  }
  std::vector<Span> spans;
  spans.reserve(extents.size());
  for (const Extent& extent : extents)
    spans.push_back({buffer + (extent.offset - window_.range.offset), extent.length});
  ASSIGN_OR_RETURN(const Transferred got, transfer_deep(storage_, Direction::kRead, extents, spans, plan_.deep));
  requests_ += got.requests;
  Bytes left = got.bytes;
  for (const Extent& extent : extents) {
    if (left < extent.length) {
      valid_end_ = extent.offset + left;
      break;
    }
    left -= extent.length;
  }
  return {};
}

FileWindow Aggregator::take_previous() {
  requests_ += static_cast<std::int64_t>(previous_.runs.size());
  return std::exchange(previous_, {});
}

Status Aggregator::flush_previous(std::byte* buffer) {
  const Stopwatch watch(times_.storage);
  return write(take_previous(), buffer);
}

// Null where writes do not lock.
Result<std::unique_ptr<RangeLock>> Aggregator::lock_of(Extent range) const {
  if (!plan_.lock_writes) return nullptr;
  return storage_.lock(range, LockMode::kExclusive);
}

Status Aggregator::write(const FileWindow& window, std::byte* buffer) const {
  if (window.empty()) return {};
  const Extent range = window.range;
  ASSIGN_OR_RETURN(const auto lock, lock_of(range));
  Bytes bytes = 0;
  for (const Extent& run : window.runs) bytes += run.length;
  // Many runs beyond the end of the file would wait for each other; one need not be cut for that.
  Deep deep = plan_.deep;
  deep.extend_first = deep.extend_first && window.runs.size() > 2;
  if (!plan_.modify_holes(range.length, bytes, std::ssize(window.runs)))
    return write_from(storage_, window.runs, buffer, range.offset, deep);

  std::vector<std::byte> whole(static_cast<std::size_t>(range.length));  // zeros past the end of the file
  const Span all{whole.data(), range.length};
  RETURN_IF_ERROR(transfer_deep(storage_, Direction::kRead, {&range, 1}, {&all, 1}, plan_.deep));
  for (const Extent& run : window.runs) {
    const Offset at = run.offset - range.offset;
    std::memcpy(whole.data() + at, buffer + at, static_cast<std::size_t>(run.length));
  }
  return write_from(storage_, {&range, 1}, whole.data(), range.offset, deep);
}

}  // namespace stridio
