// mapped: windows of the file as memory, copied in place; what cannot be mapped goes as a list.
// list: walks file and memory in step and hands batches of at most kBatch ranges to the storage; with staging, the
// batch's memory goes through a buffer of one window. sieve: windows from the next needed byte to the last needed
// one within reach, so that large holes between windows are never touched; a window that the request covers
// wholly is written without reading it first.
#include "access/execute.h"

#include <cstring>
#include <vector>

#include "access/deep.h"
#include "base/guarded.h"

namespace stridio {
namespace {

constexpr std::size_t kBatch = 1024;

struct Batch {
  std::vector<Extent> extents;
  std::vector<Span> spans;
  Bytes bytes = 0;

  void clear() {
    extents.clear();
    spans.clear();
    bytes = 0;
  }
  void add(Offset offset, Bytes length) {
    if (!extents.empty() && extents.back().end() == offset) {
      extents.back().length += length;
    } else {
      extents.push_back({offset, length});
    }
    bytes += length;
  }
  void add(std::byte* data, Bytes length) {
    if (!spans.empty() && spans.back().data + spans.back().length == data) {
      spans.back().length += length;
    } else {
      spans.push_back({data, length});
    }
  }
  bool full() const { return extents.size() >= kBatch || spans.size() >= kBatch; }
};

// The smallest range that holds all of the batch.
Extent bounds_of(const Batch& batch) {
  Offset begin = batch.extents.front().offset, end = begin;
  for (const Extent& extent : batch.extents) {
    begin = std::min(begin, extent.offset);
    end = std::max(end, extent.end());
  }
  return {begin, end - begin};
}

Result<Transferred> move(const AccessPlan& plan, Storage& storage, Direction direction,
                         const Batch& batch, Times& times) {
  std::unique_ptr<RangeLock> lock;
  if (plan.locked) {
    ASSIGN_OR_RETURN(lock, storage.lock(bounds_of(batch), LockMode::kExclusive));
  }
  const Stopwatch watch(times.storage);
  return transfer_deep(storage, direction, batch.extents, batch.spans, plan.depth, plan.unit);
}

// The next ranges of file and memory side by side, straight from the user's memory.
void fill_direct(Batch& batch, Cursor& file, Cursor& memory, std::byte* base) {
  batch.clear();
  Extent at, in;
  while (!batch.full() && !(at.empty() && file.done())) {
    if (at.empty()) at = file.next_range();
    if (in.empty()) in = memory.next_range();
    const Bytes length = std::min(at.length, in.length);
    batch.add(at.offset, length);
    batch.add(base + in.offset, length);
    at = {at.offset + length, at.length - length};
    in = {in.offset + length, in.length - length};
  }
  if (!at.empty()) file.seek(file.position() - at.length);
  if (!in.empty()) memory.seek(memory.position() - in.length);
}

void fill_staged(Batch& batch, Cursor& file, std::vector<std::byte>& buffer) {
  batch.clear();
  const auto room = static_cast<Bytes>(buffer.size());
  while (!batch.full() && batch.bytes < room && !file.done()) {
    const Extent range = file.next_range(room - batch.bytes);
    batch.add(range.offset, range.length);
  }
  batch.add(buffer.data(), batch.bytes);
}

Result<Transferred> run_list(const AccessPlan& plan, Storage& storage, Direction direction,
                             const Pattern& file, const Memory& memory, Times& times, Bytes from = 0) {
  Transferred done;
  Batch batch;
  Cursor at(file, from);
  Side user{memory.base, Cursor(memory.pattern, from)};
  std::vector<std::byte> buffer(
      plan.staged ? static_cast<std::size_t>(std::min(plan.window, file.size() - from)) : 0);
  const auto stage = [&](Bytes bytes) {
    const Stopwatch watch(times.copy);
    Side staged{buffer.data(), Cursor(Pattern::run(0, bytes))};
    direction == Direction::kRead ? copy(user, staged, bytes) : copy(staged, user, bytes);
  };
  while (!at.done()) {
    if (plan.staged) {
      fill_staged(batch, at, buffer);
      if (direction == Direction::kWrite) stage(batch.bytes);
    } else {
      fill_direct(batch, at, user.cursor, memory.base);
    }
    ASSIGN_OR_RETURN(const Transferred moved, move(plan, storage, direction, batch, times));
    if (plan.staged && direction == Direction::kRead) stage(moved.bytes);
    done.bytes += moved.bytes;
    done.requests += moved.requests;
    done.eof = moved.eof;
    if (moved.bytes < batch.bytes) break;
  }
  return done;
}

// One window of a sieving access.
struct Window {
  Extent range;        // of the file, from a needed byte to one past a needed byte
  Bytes position = 0;  // in the data, of its first byte
  Bytes needed = 0;    // bytes of the request in it
};

Window window_at(const Pattern& file, Bytes position, Bytes length) {
  const Offset begin = Cursor(file, position).next_range(1).offset;
  const Bytes end_position = file.bytes_below(begin + length);
  const Offset end = Cursor(file, end_position - 1).next_range(1).end();
  return {{begin, end - begin}, position, end_position - position};
}

Result<Transferred> move_window(const AccessPlan& plan, Storage& storage, Direction direction, const Extent& range,
                                std::byte* buffer) {
  const Span span{buffer, range.length};
  return transfer_deep(storage, direction, {&range, 1}, {&span, 1}, plan.depth, plan.unit);
}

Result<Transferred> run_mapped(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                               const Memory& memory, Times& times) {
  const bool reads = direction == Direction::kRead;
  Transferred done;
  Side user{memory.base, Cursor(memory.pattern)};
  while (done.bytes < file.size() && !done.eof) {
    const Window window = window_at(file, done.bytes, plan.window);
    std::unique_ptr<RangeLock> lock;
    if (plan.locked) {
      ASSIGN_OR_RETURN(lock, storage.lock(window.range, LockMode::kExclusive));
    }
    const auto move_in_place = [&](std::byte* data, Bytes present) {
      const Stopwatch watch(times.copy);
      const Bytes bytes = file.bytes_below(window.range.offset + present) - window.position;
      Side mapped{data, Cursor(file.shifted(-window.range.offset), window.position)};
      user.cursor.seek(window.position);
      reads ? copy(user, mapped, bytes) : copy(mapped, user, bytes);
      return bytes;
    };
    const auto moved = storage.map(window.range, !reads, move_in_place);
    if (!moved && moved.error().code == Code::kUnsupportedOperation) {
      lock.reset();
      ASSIGN_OR_RETURN(const Transferred rest, run_list(plan, storage, direction, file, memory, times, window.position));
      return Transferred{done.bytes + rest.bytes, rest.eof, done.requests + rest.requests};
    }
    if (!moved) return fail(moved.error());
    done.bytes += moved->bytes;
    done.requests += moved->requests;
    done.eof = moved->bytes < window.needed;
  }
  return done;
}

Result<Transferred> sieve_read(const AccessPlan& plan, Storage& storage, const Pattern& file,
                               const Memory& memory, Times& times) {
  Transferred done;
  Side user{memory.base, Cursor(memory.pattern)};
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(plan.window, file.bounds().length)));
  while (done.bytes < file.size()) {
    const Window window = window_at(file, done.bytes, plan.window);
    Transferred got;
    {
      const Stopwatch watch(times.storage);
      ASSIGN_OR_RETURN(got, move_window(plan, storage, Direction::kRead, window.range, buffer.data()));
    }
    const Bytes arrived = file.bytes_below(window.range.offset + got.bytes) - window.position;
    const Stopwatch watch(times.copy);
    Side sieve{buffer.data(), Cursor(file.shifted(-window.range.offset), window.position)};
    copy(user, sieve, arrived);
    done.bytes += arrived;
    done.requests += got.requests;
    if (arrived < window.needed) {
      done.eof = true;
      break;
    }
  }
  return done;
}

// Fills the buffer with what the file holds; zeros past its end, as a hole there would read.
Status read_old(const AccessPlan& plan, Storage& storage, const Window& window, std::vector<std::byte>& buffer,
                Transferred& done) {
  ASSIGN_OR_RETURN(const Transferred got, move_window(plan, storage, Direction::kRead, window.range, buffer.data()));
  std::memset(buffer.data() + got.bytes, 0, static_cast<std::size_t>(window.range.length - got.bytes));
  done.requests += got.requests;
  return {};
}

Result<Transferred> sieve_write(const AccessPlan& plan, Storage& storage, const Pattern& file,
                                const Memory& memory, Times& times) {
  Transferred done;
  Side user{memory.base, Cursor(memory.pattern)};
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(plan.window, file.bounds().length)));
  while (done.bytes < file.size()) {
    const Window window = window_at(file, done.bytes, plan.window);
    std::unique_ptr<RangeLock> lock;
    if (plan.locked) {
      ASSIGN_OR_RETURN(lock, storage.lock(window.range, LockMode::kExclusive));
    }
    if (window.needed < window.range.length) {
      const Stopwatch watch(times.storage);
      RETURN_IF_ERROR(read_old(plan, storage, window, buffer, done));
    }
    {
      const Stopwatch watch(times.copy);
      Side sieve{buffer.data(), Cursor(file.shifted(-window.range.offset), window.position)};
      copy(sieve, user, window.needed);
    }
    const Stopwatch watch(times.storage);
    ASSIGN_OR_RETURN(const Transferred put, move_window(plan, storage, Direction::kWrite, window.range, buffer.data()));
    done.bytes += window.needed;
    done.requests += put.requests;
  }
  return done;
}

}  // namespace

Result<Transferred> execute(const AccessPlan& plan, Storage& storage, Direction direction,
                            const Pattern& file, const Memory& memory, Times& times) {
  return guarded([&]() -> Result<Transferred> {
    switch (plan.method) {
      case Method::kNothing: return Transferred{};
      case Method::kDirect:
      case Method::kList: return run_list(plan, storage, direction, file, memory, times);
      case Method::kMapped: return run_mapped(plan, storage, direction, file, memory, times);
      case Method::kSieve:
        return direction == Direction::kRead ? sieve_read(plan, storage, file, memory, times)
                                             : sieve_write(plan, storage, file, memory, times);
    }
    return fail(Code::kOther, "no such access method");
  });
}

Status write_from(Storage& storage, std::span<const Extent> extents, std::byte* buffer, Offset origin, int depth,
                  Bytes unit) {
  Batch batch;
  for (std::size_t i = 0; i < extents.size();) {
    batch.clear();
    for (; i < extents.size() && !batch.full(); ++i) {
      batch.add(extents[i].offset, extents[i].length);
      batch.add(buffer + (extents[i].offset - origin), extents[i].length);
    }
    RETURN_IF_ERROR(transfer_deep(storage, Direction::kWrite, batch.extents, batch.spans, depth, unit));
  }
  return {};
}

}  // namespace stridio
