#include "access/deep.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/crew.h"
#include "base/guarded.h"
#include "base/of_process.h"
#include "storage/request.h"

namespace stridio {
namespace {

// A part of the request, for one call of the storage.
struct Part {
  Extent extent;
  std::size_t first = 0, count = 0;  // of the memory pieces
};

struct Parts {
  std::vector<Part> list;
  std::vector<Span> memory;
};

Parts cut(std::span<const Extent> extents, std::span<const Span> memory, Bytes unit) {
  Parts parts;
  MemoryCursor from(memory);
  RunCursor runs(extents);
  while (std::optional<Extent> run = runs.next()) {
    while (!run->empty()) {
      const Bytes length = std::min(unit, run->length);
      Part part{{run->offset, length}, parts.memory.size()};
      for (Bytes left = length; left > 0; left -= parts.memory.back().length) parts.memory.push_back(from.take(left));
      part.count = parts.memory.size() - part.first;
      parts.list.push_back(part);
      *run = {run->offset + length, run->length - length};
    }
  }
  return parts;
}

Result<Transferred> call(Storage& storage, Direction direction, std::span<const Extent> extents,
                         std::span<const Span> memory) {
  return direction == Direction::kRead ? storage.readv(extents, memory) : storage.writev(extents, memory);
}

// Whether what follows an extent that meets the end of the file lies past the end too.
bool ascend(std::span<const Extent> extents) {
  const auto overtakes = [](const Extent& a, const Extent& b) { return b.offset < a.end(); };
  return std::adjacent_find(extents.begin(), extents.end(), overtakes) == extents.end();
}

// What the calls moved together: of a read, up to the first part that met the end of the file.
Result<Transferred> sum(const std::vector<Result<Transferred>>& calls) {
  Transferred all;
  for (const auto& each : calls) {
    if (!each) return each;
    if (!all.eof) all.bytes += each->bytes;
    all.eof = all.eof || each->eof;
    all.requests += each->requests;
  }
  return all;
}

}  // namespace

void at_once(int depth, std::size_t count, const std::function<bool(std::size_t)>& each) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (std::size_t i; !failed && (i = next++) < count;)
      if (!each(i)) failed = true;
  };
  const auto threads = std::min(static_cast<std::size_t>(depth), count);
  threads > 1 ? of_process<Crew>().run(threads - 1, work) : work();
}

Result<Transferred> transfer_deep(Storage& storage, Direction direction, std::span<const Extent> extents,
                                  std::span<const Span> memory, const Deep& deep) {
  if (deep.depth <= 1 || extents.empty()) return call(storage, direction, extents, memory);
  RETURN_IF_ERROR(check_request(extents, memory));
  if (direction == Direction::kRead && !ascend(extents)) return call(storage, direction, extents, memory);
  Parts parts = cut(extents, memory, deep.unit);
  if (parts.list.empty()) return Transferred{};
  std::vector<Result<Transferred>> moved(parts.list.size());
  const auto move = [&](std::size_t i) {
    const Part& part = parts.list[i];
    moved[i] = guarded([&] {
      return call(storage, direction, {&part.extent, 1}, std::span(parts.memory).subspan(part.first, part.count));
    });
    return moved[i].has_value();
  };
  std::size_t first = 0;
  if (direction == Direction::kWrite && deep.extend_first) {
    const auto last = std::max_element(parts.list.begin(), parts.list.end(),
                                       [](const Part& a, const Part& b) { return a.extent.end() < b.extent.end(); });
    std::iter_swap(parts.list.begin(), last);
    if (!move(first++)) return moved.front();
  }
  at_once(deep.depth, parts.list.size() - first, [&](std::size_t i) { return move(first + i); });
  return sum(moved);
}

}  // namespace stridio
