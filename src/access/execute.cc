// mapped: windows of the file as memory, copied in place; what cannot be mapped goes as a list.
// list: walks file and memory in step and hands batches of a bounded number of ranges to the storage; with staging, the
// batch's memory goes through a buffer of one window. sieve: clusters from a needed byte to a needed one with no hole in
// them that is larger than the plan says, at most one window long; as many clusters as fill the window's buffer are one
// batch to the storage. Clusters without holes are written without reading them first, and moved straight from or to the
// user's memory where the plan stages nothing.
#include "access/execute.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "access/batch.h"
#include "access/deep.h"
#include "base/guarded.h"
#include "base/page_buffer.h"
#include "base/worker.h"
#include "storage/request.h"

namespace stridio {
namespace {

Result<Transferred> move(const AccessPlan& plan, Storage& storage, Direction direction, const Batch& batch) {
  std::unique_ptr<RangeLock> lock;
  if (plan.locked) {
    ASSIGN_OR_RETURN(lock, storage.lock(bounds_of(batch.extents), LockMode::kExclusive));
  }
  return transfer_deep(storage, direction, batch.extents, batch.spans, plan.deep);
}

void fill_staged(Batch& batch, Cursor& file, std::byte* buffer, Bytes room) {
  batch.clear();
  while (!batch.full() && batch.bytes < room && !file.done()) {
    const Extent range = file.next_range(room - batch.bytes);
    batch.add(range.offset, range.length);
  }
  batch.add(buffer, batch.bytes);
}

Result<Transferred> run_direct_list(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                                    const Memory& memory, Times& times, Bytes from, Bytes to) {
  Transferred done;
  Batch batch;
  batch.most = plan.ranges;
  Cursor at(file, from), user(memory.pattern, from);
  const Stopwatch watch(times.storage);
  while (at.position() < to) {
    fill_direct(batch, at, user, memory.base, to);
    ASSIGN_OR_RETURN(const Transferred moved, move(plan, storage, direction, batch));
    done += moved;
    if (moved.bytes < batch.bytes) break;
  }
  return done;
}

// Of a staging buffer.
struct Half {
  std::byte* data;
  Batch batch = {};
  Result<Transferred> moved = {};
  Worker beside = {};  // ends before what its task uses
};

// Stages windows and writes them, while there are `more`. Where the storage is waited for there are two halves, each with a thread,
// which itself writes what it has staged: one that had to be woken for that might find no core. `alone`: one waits for the other's
// write. After an error no window begins.
template <typename More, typename Stage, typename Write>
Result<Transferred> write_windows(std::span<Half> halves, bool alone, Times& times, More more, Stage stage,
                                  Write write) {
  std::mutex mutex;    // of what follows, and of staging
  std::mutex writing;  // where one writes alone
  Transferred done;
  Status intact;
  const auto fails = [&](const Error& error) {
    if (intact) intact = fail(error);
  };
  const auto staged = [&](Half& half) {
    const std::scoped_lock lock(mutex);
    if (!intact || !more()) return false;
    const Status whole = guarded([&]() -> Status {
      stage(half);
      return {};
    });
    if (!whole) fails(whole.error());
    return whole.has_value();
  };
  const auto write_staged = [&](Half& half) {
    std::unique_lock turn(writing, std::defer_lock);
    if (alone) turn.lock();
    {
      const std::scoped_lock lock(mutex);
      if (!intact) return;
    }
    const Result<Transferred> moved = guarded([&] { return write(half); });
    const std::scoped_lock lock(mutex);
    if (moved)
      done += *moved;
    else
      fails(moved.error());
  };
  Worker beside;
  for (bool first = true;; first = false) {
    {
      const Stopwatch watch(times.copy);
      if (!staged(halves.front())) break;
    }
    const Stopwatch watch(times.storage);
    if (first && halves.size() > 1 && more())
      beside.post_or_run([&] {
        while (staged(halves.back())) write_staged(halves.back());
      });
    write_staged(halves.front());
  }
  const Stopwatch watch(times.storage);
  beside.wait();
  RETURN_IF_ERROR(intact);
  return done;
}

// Windows one after the other. Where the storage is waited for, they take turns in the two halves of a buffer, and both are
// under way while one is copied; two that lock would wait for each other. Writes may begin with short ones, each four times as
// long as the one before.
Result<Transferred> run_staged_list(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                                    const Memory& memory, Times& times, Bytes from, Bytes to) {
  const Bytes room = std::min(std::max<Bytes>(1, plan.window / 2), to - from);
  const PageBuffer buffer = page_buffer((plan.pipelined ? 2 : 1) * room);
  std::array<Half, 2> halves{{{buffer.get()}, {plan.pipelined ? buffer.get() + room : buffer.get()}}};
  for (Half& half : halves) half.batch.most = plan.ranges;
  Cursor at(file, from);
  Side user{memory.base, Cursor(memory.pattern, from)};
  const auto stage = [&](const Half& half, Bytes bytes) {
    Side staged{half.data, Cursor(Pattern::run(0, bytes))};
    direction == Direction::kRead ? copy(user, staged, bytes) : copy(staged, user, bytes);
  };
  const auto move_half = [&](Half& half) { return move(plan, storage, direction, half.batch); };
  const bool both = plan.pipelined && !plan.locked;  // under way at once; else an error ends the access before the next
  if (direction == Direction::kWrite) {
    Bytes window = std::min(room, plan.first_window);
    const auto stage_next = [&](Half& half) {
      fill_staged(half.batch, at, half.data, std::min(window, to - at.position()));
      stage(half, half.batch.bytes);
      window = std::min(room, 4 * window);
    };
    return write_windows(
        std::span(halves).first(plan.pipelined ? 2 : 1), !both, times, [&] { return at.position() < to; }, stage_next,
        move_half);
  }
  Transferred done;
  const auto begin = [&](Half& half) {
    const Stopwatch watch(times.storage);
    const auto task = [&] { half.moved = guarded([&] { return move_half(half); }); };
    if (!plan.pipelined) return task();
    half.beside.post_or_run(task);
  };
  const auto end = [&](Half& half) -> Result<Bytes> {
    const Stopwatch watch(times.storage);
    half.beside.wait();
    ASSIGN_OR_RETURN(const Transferred moved, std::exchange(half.moved, Transferred{}));
    done += moved;
    return moved.bytes;
  };
  const auto take = [&](Half& half) -> Status {
    ASSIGN_OR_RETURN(const Bytes arrived, end(half));
    const Stopwatch watch(times.copy);
    stage(half, arrived);
    return {};
  };
  Half *next = &halves[0], *last = &halves[1];
  for (bool more = true; more && !done.eof; std::swap(next, last)) {
    if (!both) RETURN_IF_ERROR(take(*last));
    more = at.position() < to && !done.eof;
    if (more) {
      fill_staged(next->batch, at, next->data, std::min(room, to - at.position()));
      begin(*next);
    }
    if (both) RETURN_IF_ERROR(take(*last));
  }
  const Transferred all = done;
  RETURN_IF_ERROR(end(*last));  // asked for before the end of the file was met
  return all;
}

// Of several columns parts that are equally long.
struct ColumnWindow {
  Bytes position = 0;  // of the first part, in the data; the others lie `inside` behind one another
  std::int64_t count = 0;
  Bytes part = 0;
};

Result<Transferred> move_columns(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                                 const ColumnWindow& window, Half& half) {
  Transferred all;
  Bytes moved = 0;
  Cursor at(file);
  const auto move_batch = [&]() -> Status {
    half.batch.add(half.data + moved, half.batch.bytes);
    ASSIGN_OR_RETURN(const Transferred now, move(plan, storage, direction, half.batch));
    all += now;
    moved += half.batch.bytes;
    half.batch.clear();
    return {};
  };
  for (std::int64_t i = 0; i < window.count; ++i) {
    at.seek(window.position + i * plan.columns.inside);
    for (Bytes left = window.part; left > 0 && !all.eof;) {
      const Extent range = at.next_range(left);
      half.batch.add(range.offset, range.length);
      left -= range.length;
      if (half.batch.full()) RETURN_IF_ERROR(move_batch());
    }
  }
  if (half.batch.bytes > 0) RETURN_IF_ERROR(move_batch());
  return all;
}

// Windows of equal parts of several columns of the memory: in the file these lie apart. Where the storage is waited for, one
// window of a write is under way while the next is copied.
Result<Transferred> run_columns(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                                const Memory& memory, Times& times) {
  const bool reads = direction == Direction::kRead, pipelined = plan.pipelined && !reads && !plan.locked;
  const Columns& columns = plan.columns;
  const Bytes room = columns.together * columns.part;
  const PageBuffer buffer = page_buffer((pipelined ? 2 : 1) * room);
  std::array<Half, 2> halves{{{buffer.get()}, {buffer.get() + (pipelined ? room : 0)}}};
  for (Half& half : halves) half.batch.most = plan.ranges;
  std::int64_t column = 0;  // the first of those whose parts come next,
  Bytes at = 0;             // which begin there
  const auto more = [&] { return column < columns.count; };
  const auto next_window = [&] {
    ColumnWindow window{column * columns.inside + at, std::min(columns.together, columns.count - column),
                        std::min(columns.part, columns.inside - at)};
    const bool nothing_moves = pipelined && window.position == 0;  // beside its copy
    if (nothing_moves)
      window.part = std::min(window.part, columns.part_of(std::max<Bytes>(1, plan.first_window / window.count)));
    at += window.part;
    if (at == columns.inside) {
      at = 0;
      column += window.count;
    }
    return window;
  };
  const auto stage = [&](const ColumnWindow& window, Half& half) {
    const Pattern of_one = memory.pattern.slice(window.position, window.position + window.part);
    const Bytes bytes = window.count * window.part;
    Side user{memory.base, Cursor(Pattern::strided(window.count, columns.stride, of_one))};
    Side staged{half.data, Cursor(Pattern::run(0, bytes))};
    reads ? copy(user, staged, bytes) : copy(staged, user, bytes);
  };
  std::array<ColumnWindow, 2> windows;  // of the halves
  const auto window_of = [&](const Half& half) -> ColumnWindow& { return windows[&half == &halves[1]]; };
  if (!reads)
    return write_windows(
        std::span(halves).first(pipelined ? 2 : 1), false, times, more,
        [&](Half& half) { stage(window_of(half) = next_window(), half); },
        [&](Half& half) { return move_columns(plan, storage, direction, file, window_of(half), half); });
  Transferred done;
  while (more() && !done.eof) {
    const ColumnWindow window = next_window();
    {
      const Stopwatch watch(times.storage);
      ASSIGN_OR_RETURN(const Transferred moved, move_columns(plan, storage, direction, file, window, halves[0]));
      done += moved;
    }
    const Stopwatch watch(times.copy);
    if (!done.eof) stage(window, halves[0]);
  }
  return done;
}

Result<Transferred> run_list(AccessPlan plan, Storage& storage, Direction direction, const Pattern& file,
                             const Memory& memory, Times& times, Bytes from = 0) {
  if (direction == Direction::kWrite) storage.expect_write(file.size() - from);
  if (plan.columns.together > 0) {
    ASSIGN_OR_RETURN(const Transferred done, run_columns(plan, storage, direction, file, memory, times));
    if (!done.eof) return done;  // else of how many bytes there are only the data order tells
    plan.columns = {};
  }
  const auto run = plan.staged ? run_staged_list : run_direct_list;
  const bool several = file.runs() > 2 || file.size() > 2 * plan.deep.unit;  // of two requests nothing would overlap
  if (direction == Direction::kRead || !std::exchange(plan.deep.extend_first, false) || !several)
    return run(plan, storage, direction, file, memory, times, from, file.size());
  const Bytes end = file.size() - std::min(Profile::kPage, file.size() - from);
  ASSIGN_OR_RETURN(Transferred done, run(plan, storage, direction, file, memory, times, end, file.size()));
  ASSIGN_OR_RETURN(const Transferred rest, run(plan, storage, direction, file, memory, times, from, end));
  return done += rest;
}

// One window of a mapped access.
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
    std::optional<Stopwatch> mapping(std::in_place, times.storage);  // stands still while bytes are copied
    const auto move_in_place = [&](std::byte* data, Bytes present) {
      mapping.reset();
      const Bytes bytes = file.bytes_below(window.range.offset + present) - window.position;
      {
        const Stopwatch watch(times.copy);
        Side mapped{data, Cursor(file.shifted(-window.range.offset), window.position)};
        user.cursor.seek(window.position);
        reads ? copy(user, mapped, bytes) : copy(mapped, user, bytes);
      }
      mapping.emplace(times.storage);
      return bytes;
    };
    const auto moved = storage.map(window.range, !reads, move_in_place);
    mapping.reset();
    if (!moved && moved.error().code == Code::kUnsupportedOperation) {
      lock.reset();
      ASSIGN_OR_RETURN(const Transferred rest,
                       run_list(plan, storage, direction, file, memory, times, window.position));
      return Transferred{done.bytes + rest.bytes, rest.eof, done.requests + rest.requests};
    }
    if (!moved) return fail(moved.error());
    done += *moved;
    done.eof = moved->bytes < window.needed;
  }
  return done;
}

// What a sieving access moves as one extent of the file.
struct Cluster {
  Extent range;        // from a needed byte to one past a needed byte
  Bytes position = 0;  // in the data, of its first byte
  Bytes needed = 0;    // bytes of the request in it

  bool whole() const { return needed == range.length; }
};

// The clusters of an ascending pattern in order; O(1) for each nest of loops with small holes only.
class ClusterReader {
 public:
  ClusterReader(const Pattern& file, Bytes largest_gap, Bytes longest)
      : file_(file), cursor_(file), gap_(largest_gap), longest_(longest) {}

  // Nothing needed at the end.
  Cluster next() {
    Cluster cluster{.range = {}, .position = cursor_.position()};
    Offset end = 0, limit = 0;
    while (!cursor_.done()) {
      Nest nest = cursor_.peek();
      const Offset start = nest.offset + (nest.depth > 0 ? nest.outer().place(0) : 0);
      if (cluster.needed == 0) {
        cluster.range.offset = start;
        limit = start + longest_;
      } else if (start - end > gap_ || start >= limit) {
        break;
      }
      const Offset nest_end = take_dense(nest, limit);
      if (nest_end > limit) {
        const Bytes inside = file_.bytes_below(limit) - cursor_.position();
        cursor_.skip(inside);
        cluster.needed += inside;
        end = Cursor(file_, cursor_.position() - 1).next_range(1).end();
        break;
      }
      end = nest_end;
      cluster.needed += nest.size;
      cursor_.skip(nest.size);
    }
    cluster.range.length = end - cluster.range.offset;
    return cluster;
  }

 private:
  // Shortens the nest to its first part that has only small holes, and looks no further than `limit`; returns its end.
  Offset take_dense(Nest& nest, Offset limit) const {
    for (;;) {
      if (nest.depth == 0) return nest.offset + nest.length;
      bool dense = true;
      Bytes extent = nest.length;
      for (int i = 0; i + 1 < nest.depth; ++i) {
        const Nest::Level& level = nest.levels[static_cast<std::size_t>(i)];
        dense = dense && level.stride - extent <= gap_;
        extent += level.place(level.count - 1);
      }
      const Nest::Level& outer = nest.outer();
      std::int64_t copies = outer.count;
      if (!dense || (!outer.table && outer.stride - extent > gap_)) copies = 1;
      if (outer.table && copies > 1) {
        copies = 1;
        while (copies < outer.count && outer.table[copies] - outer.table[copies - 1] - extent <= gap_ &&
               nest.offset + outer.table[copies] < limit)
          ++copies;
      }
      if (copies > 1) {
        const Offset end = nest.offset + outer.place(copies - 1) + extent;
        nest.shorten(copies * outer.inside);
        return end;
      }
      nest = nest.first();
      if (dense) return nest.offset + extent;
    }
  }

  const Pattern file_;
  Cursor cursor_;
  const Bytes gap_, longest_;
};

class Sieve {
 public:
  Sieve(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file, const Memory& memory,
        Times& times)
      : plan_(plan),
        storage_(storage),
        reads_(direction == Direction::kRead),
        file_(file),
        user_{memory.base, Cursor(memory.pattern)},
        times_(times),
        reader_(file, plan.largest_gap, plan.window),
        room_(std::min(plan.window, file.bounds().length)),
        buffer_(page_buffer(room_)) {}

  Result<Transferred> run() {
    for (ahead_ = reader_.next(); ahead_.needed > 0 && !done_.eof;) {
      fill();
      RETURN_IF_ERROR(reads_ ? read() : write());
    }
    return done_;
  }

 private:
  struct Item {
    Cluster cluster;
    std::byte* data = nullptr;  // in the buffer; null: straight from or to the user's memory
  };

  // The next clusters, as many as the buffer takes.
  void fill() {
    items_.clear();
    batch_.clear();
    Bytes used = 0;
    while (ahead_.needed > 0 && !batch_.full()) {
      const bool direct = ahead_.whole() && !plan_.staged;
      if (!direct && used + ahead_.range.length > room_) break;
      items_.push_back({ahead_, direct ? nullptr : buffer_.get() + used});
      batch_.extents.push_back(ahead_.range);
      if (direct) {
        add_user_memory(ahead_);
      } else {
        batch_.add(items_.back().data, ahead_.range.length);
        used += ahead_.range.length;
      }
      ahead_ = reader_.next();
    }
  }

  void seek_user(Bytes position) {
    if (user_.cursor.position() != position) user_.cursor.seek(position);
  }

  void add_user_memory(const Cluster& cluster) {
    seek_user(cluster.position);
    for (Bytes left = cluster.needed; left > 0;) {
      const Extent piece = user_.cursor.next_range(left);
      batch_.add(user_.base + piece.offset, piece.length);
      left -= piece.length;
    }
  }

  // The first `bytes` bytes of the request in a cluster, between buffer and user; those of clusters without holes that
  // follow one another are one run in both, and wait for each other in `run_`.
  void move(const Item& item, Bytes bytes) {
    if (!item.data) return;
    if (!item.cluster.whole()) {
      move_run();
      Side sieve{item.data, Cursor(file_.shifted(-item.cluster.range.offset), item.cluster.position)};
      move(sieve, item.cluster.position, bytes);
      return;
    }
    if (run_.length > 0 && (run_data_ + run_.length != item.data || run_.end() != item.cluster.position)) move_run();
    if (run_.length == 0) {
      run_ = {item.cluster.position, 0};
      run_data_ = item.data;
    }
    run_.length += bytes;
  }
  void move_run() {
    if (run_.length == 0) return;
    Side run{run_data_, Cursor(Pattern::run(0, run_.length))};
    move(run, run_.offset, run_.length);
    run_ = {};
  }
  void move(Side& buffer, Bytes position, Bytes bytes) {
    seek_user(position);
    reads_ ? copy(user_, buffer, bytes) : copy(buffer, user_, bytes);
  }

  Result<Transferred> transfer(Direction direction, std::span<const Extent> extents, std::span<const Span> memory) {
    return transfer_deep(storage_, direction, extents, memory, plan_.deep);
  }

  Status read() {
    Transferred got;
    {
      const Stopwatch watch(times_.storage);
      ASSIGN_OR_RETURN(got, transfer(Direction::kRead, batch_.extents, batch_.spans));
    }
    const Stopwatch watch(times_.copy);
    done_.requests += got.requests;
    Bytes left = got.bytes;
    for (const Item& item : items_) {
      const Cluster& cluster = item.cluster;
      const Bytes present = std::min(left, cluster.range.length);
      const Bytes arrived = present == cluster.range.length
                                ? cluster.needed
                                : file_.bytes_below(cluster.range.offset + present) - cluster.position;
      move(item, arrived);
      left -= present;
      done_.bytes += arrived;
      done_.eof = arrived < cluster.needed;
      if (done_.eof) break;
    }
    move_run();
    return {};
  }

  Status write() {
    std::unique_ptr<RangeLock> lock;
    if (plan_.locked) {
      ASSIGN_OR_RETURN(lock, storage_.lock(bounds_of(batch_.extents), LockMode::kExclusive));
    }
    RETURN_IF_ERROR(read_holes());
    {
      const Stopwatch watch(times_.copy);
      for (const Item& item : items_) move(item, item.cluster.needed);
      move_run();
    }
    const Stopwatch watch(times_.storage);
    ASSIGN_OR_RETURN(const Transferred put, transfer(Direction::kWrite, batch_.extents, batch_.spans));
    for (const Item& item : items_) done_.bytes += item.cluster.needed;
    done_.requests += put.requests;
    return {};
  }

  // Fills clusters that have holes with what the file holds; zeros past its end, as a hole there would read.
  Status read_holes() {
    std::vector<Extent> extents;
    std::vector<Span> spans;
    for (const Item& item : items_) {
      if (item.cluster.whole()) continue;
      extents.push_back(item.cluster.range);
      spans.push_back({item.data, item.cluster.range.length});
    }
    if (extents.empty()) return {};
    const Stopwatch watch(times_.storage);
    ASSIGN_OR_RETURN(const Transferred got, transfer(Direction::kRead, extents, spans));
    done_.requests += got.requests;
    Bytes left = got.bytes;
    for (const Span& span : spans) {
      const Bytes present = std::min(left, span.length);
      std::memset(span.data + present, 0, static_cast<std::size_t>(span.length - present));
      left -= present;
    }
    return {};
  }

  const AccessPlan& plan_;
  Storage& storage_;
  const bool reads_;
  const Pattern file_;
  Side user_;
  Times& times_;
  ClusterReader reader_;
  const Bytes room_;
  const PageBuffer buffer_;

  Cluster ahead_;  // the next one
  std::vector<Item> items_;
  Batch batch_;
  Extent run_;  // of data positions
  std::byte* run_data_ = nullptr;
  Transferred done_;
};

}  // namespace

Result<RequestShape> shape_on(Storage& storage, const Profile& profile, Direction direction, const Pattern& file,
                              const Memory& memory) {
  const bool matters =
      direction == Direction::kWrite && file.size() > 0 && storage.caps().maps && !profile.write.waits();
  if (!matters) return shape_of(direction, file, memory.pattern);
  ASSIGN_OR_RETURN(const Bytes size, storage.size());
  return shape_of(direction, file, memory.pattern, size);
}

void note_stored(Storage& storage, const Profile& profile, const Pattern& file, RequestShape& shape) {
  constexpr int kPlaces = 4;
  constexpr Bytes kOfPlace = Bytes{64} << 10, kLeast = 8 * kPlaces * kOfPlace;
  constexpr int kMostRanges = 64;
  if (!storage.caps().shares_reads || profile.read.waits() || file.size() < kLeast || !file.ascending()) return;
  std::vector<Extent> asked, together;
  Bytes bytes = 0;  // of what is asked for
  for (int place = 0; place < kPlaces; ++place) {
    Cursor cursor(file, file.size() / (2 * kPlaces) * (2 * place + 1));
    Bytes left = kOfPlace;
    for (int i = 0; left > 0 && i < kMostRanges; ++i) {
      asked.push_back(cursor.next_range(left));
      left -= asked.back().length;
      if (i == 0) together.push_back({asked.back().offset, kOfPlace});
    }
    bytes += kOfPlace - left;
  }
  const auto of_asked = storage.look_up(asked), of_together = storage.look_up(together);
  if (!of_asked || !of_together) return;  // who reads that will tell
  const auto of_all = [&](std::int64_t sampled, Bytes of) {
    return std::llround(static_cast<double>(sampled) * static_cast<double>(file.size()) / static_cast<double>(of));
  };
  shape.stored = {.pieces = of_all(of_asked->pieces, bytes), .touched = of_all(of_asked->touched, bytes)};
  shape.pieces_together = of_all(of_together->pieces, kPlaces * kOfPlace);
}

Result<Transferred> execute(const AccessPlan& plan, Storage& storage, Direction direction, const Pattern& file,
                            const Memory& memory, Times& times) {
  return guarded([&]() -> Result<Transferred> {
    switch (plan.method) {
      case Method::kNothing: return Transferred{};
      case Method::kDirect:
      case Method::kList: return run_list(plan, storage, direction, file, memory, times);
      case Method::kMapped: return run_mapped(plan, storage, direction, file, memory, times);
      case Method::kSieve: return Sieve(plan, storage, direction, file, memory, times).run();
    }
    return fail(Code::kOther, "no such access method");
  });
}

Status write_from(Storage& storage, std::span<const Extent> extents, std::byte* buffer, Offset origin,
                  const Deep& deep) {
  Batch batch;
  for (std::size_t i = 0; i < extents.size();) {
    batch.clear();
    for (; i < extents.size() && !batch.full(); ++i) {
      batch.add(extents[i].offset, extents[i].length);
      batch.add(buffer + (extents[i].offset - origin), extents[i].length);
    }
    RETURN_IF_ERROR(transfer_deep(storage, Direction::kWrite, batch.extents, batch.spans, deep));
  }
  return {};
}

}  // namespace stridio
