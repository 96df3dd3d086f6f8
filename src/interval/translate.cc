#include "interval/translate.h"

#include <algorithm>
#include <optional>

#include "access/deep.h"
#include "base/guarded.h"
#include "collective/agreement.h"

namespace stridio {
namespace {

constexpr Bytes kWindow = Bytes{4} << 20;
constexpr std::size_t kTurns = 8;  // windows that a rank moves by itself before all agree to go on

// A set of bytes stores each where it is, so that neighbours are one piece.
void add_bytes(WriteLog& bytes, const IntervalMap& map) {
  for (MapCursor cursor(map); !cursor.done(); cursor.next()) {
    const Piece piece = cursor.piece();
    bytes.add({piece.logical, piece.length, piece.logical});
  }
}

IntervalMap common(const IntervalMap& a, const IntervalMap& b) { return without(a, without(a, b)); }

bool has(const Root& root, const PartEntry& part) {
  return std::any_of(root.parts.begin(), root.parts.end(), [&](const PartEntry& each) {
    return each.sum == part.sum && each.bounds == part.bounds && each.bytes == part.bytes && each.runs == part.runs;
  });
}

// What some parts map, and the cells that they store it in.
class Stored {
 public:
  // The parts of `file` that `other` does not have.
  static Result<Stored> beyond(IntervalFile& file, const Root& other) {
    Stored stored;
    WriteLog pieces;
    for (std::size_t i = 0; i < file.root().parts.size(); ++i) {
      const PartEntry& entry = file.root().parts[i];
      if (has(other, entry)) continue;
      ASSIGN_OR_RETURN(const auto part, file.part(i));
      for (MapCursor cursor(part->map); !cursor.done(); cursor.next()) pieces.add(cursor.piece());
      std::size_t first_sum = 0;
      for (const Extent& run : entry.runs) {
        stored.runs_.push_back({run, part, first_sum});
        first_sum += static_cast<std::size_t>(cells_of(run));
      }
    }
    std::sort(stored.runs_.begin(), stored.runs_.end(),
              [](const Run& a, const Run& b) { return a.stored.offset < b.stored.offset; });
    stored.map = pieces.merged();
    return stored;
  }

  struct Cell {
    Extent stored;
    std::uint32_t sum;
    bool operator==(const Cell&) const = default;
  };
  // Of what is mapped.
  Cell cell(Offset at) const {
    const auto behind = std::upper_bound(runs_.begin(), runs_.end(), at,
                                         [](Offset offset, const Run& run) { return offset < run.stored.offset; });
    const Run& run = *std::prev(behind);
    return {cell_at(run.stored, at),
            run.part->sums[run.first_sum + static_cast<std::size_t>(at / kCell - run.stored.offset / kCell)]};
  }

  IntervalMap map;

 private:
  struct Run {
    Extent stored;
    std::shared_ptr<const Part> part;
    std::size_t first_sum;
  };
  std::vector<Run> runs_;  // ascending
};

// What both have at the same place, in equal cells.
IntervalMap unchanged(const Stored& now, const Stored& before) {
  MapBuilder same;
  for (MapCursor cursor(stored_alike(now.map, before.map)); !cursor.done(); cursor.next())
    for (Piece left = cursor.piece(); left.length > 0;) {
      const auto is = now.cell(left.stored), was = before.cell(left.stored);
      const Offset cells_end = std::min(is.stored.end(), was.stored.end());
      const Piece part = left.clipped({left.logical, std::min(left.length, cells_end - left.stored)});
      if (is == was) same.add(part);
      left = left.clipped({part.end(), left.end() - part.end()});
    }
  return same.finish();
}

// The windows of the file that have any of the content, in order.
class Windows {
 public:
  explicit Windows(const IntervalMap& content) : cursor_(content), bounds_(content.bounds()) {}

  std::optional<Extent> next() {
    cursor_.seek(at_);
    if (cursor_.done()) return std::nullopt;
    const Offset begin = std::max(at_, cursor_.piece().logical) / kWindow * kWindow;
    at_ = begin + kWindow;
    return Extent{begin, kWindow};
  }
  double share() const {
    return std::clamp(static_cast<double>(at_ - bounds_.offset) / static_cast<double>(bounds_.length), 0.0, 1.0);
  }

 private:
  MapCursor cursor_;
  const Extent bounds_;
  Offset at_ = 0;
};

// Calls visit(extent) for what `cursor` has in the window.
template <typename Visit>
void each_in(MapCursor& cursor, Extent window, Visit visit) {
  for (cursor.seek(window.offset); !cursor.done(); cursor.next()) {
    const Extent part = cursor.piece().clipped(window).range();
    if (part.empty()) break;
    visit(part);
  }
}

Status check_whole(const Transferred& got, Bytes wanted) {
  if (got.bytes == wanted) return {};
  return fail(Code::kIo, "the file has become shorter while it was read");
}

// What `bytes` has in the window, read to where it lies in `buffer`, which is the window's.
Status read_window(Storage& source, MapCursor& bytes, Extent window, std::byte* buffer) {
  std::vector<Extent> extents;
  std::vector<Span> spans;
  Bytes wanted = 0;
  each_in(bytes, window, [&](Extent part) {
    extents.push_back(part);
    spans.push_back({buffer + (part.offset - window.offset), part.length});
    wanted += part.length;
  });
  ASSIGN_OR_RETURN(const Transferred got, source.readv(extents, spans));
  return check_whole(got, wanted);
}

// The ranks that read: evenly among all, since neighbours are of one process.
struct Readers {
  std::size_t count, ranks;

  std::size_t rank(std::size_t reader) const { return reader * ranks / count; }
  std::optional<std::size_t> reader(std::size_t rank) const {
    for (std::size_t i = 0; i < count; ++i)
      if (this->rank(i) == rank) return i;
    return std::nullopt;
  }
};

// Reader by reader a window, `turns` times a round; read(window) by the rank whose it is, then write(windows) by all. A
// failure anywhere ends it on all ranks with the round.
template <typename Read, typename Write>
Status by_windows(Group& group, const IntervalMap& content, const Readers& readers, std::size_t turns,
                  const Progress& progress, Read read, Write write) {
  const auto reader = readers.reader(static_cast<std::size_t>(group.rank()));
  Windows windows(content);
  Status mine;
  for (;;) {
    std::vector<Extent> round;
    while (round.size() < readers.count * turns) {
      const auto next = windows.next();
      if (!next) break;
      round.push_back(*next);
    }
    if (round.empty()) return agree(group, mine);
    if (reader)
      for (std::size_t i = *reader; i < round.size() && mine; i += readers.count)
        mine = guarded([&] { return read(round[i]); });
    RETURN_IF_ERROR(agree(group, mine));
    RETURN_IF_ERROR(write(round, mine));
    if (group.rank() == 0 && progress) progress(windows.share());
  }
}

}  // namespace

// ---- Sets of bytes

IntervalMap all_bytes(Bytes size) {
  MapBuilder bytes;
  bytes.add({0, size, 0});
  return bytes.finish();
}

IntervalMap bytes_of(const TiledView& view, Bytes end) {
  const Bytes reach = end - view.displacement - view.tile.lower();
  if (view.tile.empty() || reach <= 0) return {};
  const std::int64_t tiles = (reach + view.extent - 1) / view.extent;
  WriteLog bytes;  // tiles may interleave
  const auto add = [&](const Pattern& pattern) {
    RunReader runs{Cursor(pattern.ascending() ? pattern.clip({0, end}) : pattern)};
    for (auto run = runs.next(); run && run->offset < end; run = runs.next()) {  // none begins before the one before it
      const Extent part = intersect(*run, {0, end});
      bytes.add({part.offset, part.length, part.offset});
    }
  };
  const Pattern first = view.tile.shifted(view.displacement);
  if (tiles == 1 || (first.ascending() && first.bounds().length <= view.extent)) {
    add(Pattern::strided(tiles, view.extent, first));
  } else {
    for (std::int64_t tile = 0; tile < tiles; ++tile) add(first.shifted(tile * view.extent));
  }
  return bytes.merged();
}

Result<IntervalMap> content_of(IntervalFile& file) {
  WriteLog bytes;
  for (std::size_t i = 0; i < file.root().parts.size(); ++i) {
    ASSIGN_OR_RETURN(const auto part, file.part(i));
    add_bytes(bytes, part->map);
  }
  return below(bytes.merged(), file.root().size);
}

Result<std::vector<IntervalMap>> content_by_process(IntervalFile& file) {
  const Root& root = file.root();
  std::vector<WriteLog> bytes(std::max<std::size_t>(root.processes, 1));
  for (std::size_t i = 0; i < root.parts.size(); ++i) {
    const std::size_t process = root.parts[i].process;
    if (process >= bytes.size())
      return fail(Error{.code = Code::kIo,
                        .what = "the interval file is damaged: a part belongs to a process that it does not have",
                        .path = file.path()});
    ASSIGN_OR_RETURN(const auto part, file.part(i));
    add_bytes(bytes[process], part->map);
  }
  std::vector<IntervalMap> all;
  for (WriteLog& each : bytes) all.push_back(each.merged());
  return all;
}

Result<IntervalMap> changed_between(IntervalFile& before, IntervalFile& now) {
  ASSIGN_OR_RETURN(const Stored fresh, Stored::beyond(now, before.root()));
  ASSIGN_OR_RETURN(const Stored stale, Stored::beyond(before, now.root()));
  WriteLog changed;
  add_bytes(changed, without(fresh.map, unchanged(fresh, stale)));
  add_bytes(changed, without(stale.map, fresh.map));  // what was cut off, and is zeros where the file has grown again
  return below(changed.merged(), now.root().size);
}

Owners assign(std::span<const IntervalMap> views, const IntervalMap& content) {
  Owners owners;
  owners.bytes.resize(std::max<std::size_t>(views.size(), 1));
  IntervalMap taken;
  for (std::size_t process = views.size(); process-- > 0;) {
    owners.bytes[process] = common(without(views[process], taken), content);
    taken = overlaid(views[process], taken);
  }
  const IntervalMap rest = without(content, taken);
  owners.unclaimed = rest.size();
  owners.bytes.front() = overlaid(rest, owners.bytes.front());
  return owners;
}

// ---- Moving

Status move_to_owners(Group& group, Storage& source, const IntervalMap& content, const Owners& owners, Storage& target,
                      int readers, const Progress& progress) {
  const auto ranks = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
  const Readers reading{std::clamp<std::size_t>(static_cast<std::size_t>(readers), 1, ranks), ranks};
  MapCursor wanted(content), own(owners.bytes[rank]);
  std::vector<MapCursor> of_owners;
  std::vector<std::byte> buffer;
  std::vector<Buffer> sends(ranks);
  if (reading.reader(rank)) {
    for (const IntervalMap& each : owners.bytes) of_owners.emplace_back(each);
    buffer.resize(static_cast<std::size_t>(kWindow));
  }
  const auto read = [&](Extent window) -> Status {
    RETURN_IF_ERROR(read_window(source, wanted, window, buffer.data()));
    for (std::size_t owner = 0; owner < ranks; ++owner)
      each_in(of_owners[owner], window, [&](Extent part) {
        const std::byte* const from = buffer.data() + (part.offset - window.offset);
        sends[owner].insert(sends[owner].end(), from, from + part.length);
      });
    return {};
  };
  const auto write = [&](const std::vector<Extent>& windows, Status& mine) -> Status {
    ASSIGN_OR_RETURN(std::vector<Buffer> received, alltoallv(group, sends));
    for (Buffer& sent : sends) sent.clear();
    mine = guarded([&]() -> Status {
      std::vector<Extent> extents;
      std::vector<Span> spans;
      for (std::size_t i = 0; i < windows.size(); ++i) {
        each_in(own, windows[i], [&](Extent part) { extents.push_back(part); });
        Buffer& share = received[reading.rank(i)];
        spans.push_back({share.data(), static_cast<Bytes>(share.size())});
      }
      RETURN_IF_ERROR(target.writev(extents, spans));
      return {};
    });
    return {};
  };
  return by_windows(group, content, reading, 1, progress, read, write);
}

Status move_to_flat(Group& group, Storage& source, const IntervalMap& content, Storage& target, const Deep& writes,
                    const Earlier* earlier, const Progress& progress) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(kWindow));
  MapCursor changed(earlier ? earlier->changed : IntervalMap());
  const auto copied = [&](Extent window) {
    if (!earlier) return false;
    changed.seek(window.offset);
    return changed.done() || changed.piece().logical >= window.end();
  };
  ASSIGN_OR_RETURN(const Bytes size, source.size());
  const auto move = [&](Extent window) -> Status {
    window = intersect(window, {0, size});
    if (copied(window)) {
      ASSIGN_OR_RETURN(const Transferred got, earlier->file.read(window, buffer.data()));
      window.length = got.bytes;  // the earlier one may have been shorter; zeros follow
    } else {
      ASSIGN_OR_RETURN(const Transferred got, source.read(window, buffer.data()));
      RETURN_IF_ERROR(check_whole(got, window.length));
    }
    const Span span{buffer.data(), window.length};
    RETURN_IF_ERROR(transfer_deep(target, Direction::kWrite, {&window, 1}, {&span, 1}, writes));
    return {};
  };
  const auto ranks = static_cast<std::size_t>(group.size());
  return by_windows(group, content, {ranks, ranks}, kTurns, progress, move,
                    [](const auto&, const Status&) { return Status(); });
}

}  // namespace stridio
