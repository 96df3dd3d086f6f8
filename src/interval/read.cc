// Reading: the requested extents, slice by slice, become pieces of what is stored; these are sorted by where they are
// stored and fetched cell by cell, many cells in one mapping or request, since a cell is what a checksum can be verified of.
// From a mapping only the pieces are copied. By a request, a cell of few pieces goes straight to where they belong in the
// user's memory, and only what is between them to a buffer; of so much that it is streamed all goes to a buffer that stays in the
// caches. Who reads together with others has all of few cells: then pieces are read alone where that takes less, and each is summed
// for itself (read_sums.h). Where storage is far, cells that lie together are a request, and of many that are under way at once
// each is verified and copied as it comes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "access/deep.h"
#include "base/copy_bytes.h"
#include "base/crc32c.h"
#include "base/guarded.h"
#include "base/page_buffer.h"
#include "interval/generation.h"
#include "interval/read_sums.h"
#include "storage/request.h"

namespace stridio {
namespace {

// Of a request so much is looked up at once, and no more pieces.
constexpr Bytes kLongestSlice = Bytes{8} << 20;
constexpr std::size_t kMostWanted = 1 << 17;
constexpr std::size_t kMostFound = 2 * kMostWanted;  // in stored order
constexpr std::size_t kMostCells = 4096;             // at once
constexpr Bytes kLeastInPlace = 512;  // pieces so long on average are read to where they belong, shorter ones copied
constexpr Bytes kLeastInPlaceFar = 8192;  // a request has some number of pages (FUSE: 256), a short piece takes two
constexpr double kWellUsed = 0.75;        // of cells: so much of their bytes are wanted
constexpr Bytes kLongestUnwanted = 4 * kCell;  // between pieces that are near each other
constexpr Bytes kSparsest =
    16;  // times as long as its cells is a mapping at most: some have all of it brought in (mapping.h)

using Wanted = StoredPiece;

struct Source {
  MapCursor cursor;
  const PartEntry* entry = nullptr;  // null: not committed yet, and not summed
  std::shared_ptr<const Part> part = nullptr;
  std::vector<std::int64_t> first_sum = {};  // of each of the entry's runs
  std::vector<Wanted> wanted = {};           // what is to be fetched, as a rule in the order in which it is stored
};

tl::unexpected<Error> truncated(const Storage& storage) {
  return fail(Error{.code = Code::kIo,
                    .what = "the interval file is truncated: data are missing at its end",
                    .path = storage.path()});
}

tl::unexpected<Error> damaged(const Storage& storage, Extent cell) {
  return fail(
      Error{.code = Code::kIo,
            .what = fmt::format("the interval file is damaged: the data stored at {} .. {} have a wrong checksum",
                                cell.offset, cell.end()),
            .path = storage.path()});
}

class Reader {
 public:
  // `sums`: null: all that is met is verified.
  Reader(Storage& storage, const Intervals& from, const SummedRequests& requests, ReadSums* sums)
      : storage_(storage),
        from_(from),
        longest_(requests.longest_read),
        deep_(requests.read),
        waits_(requests.waits),
        least_mapped_(requests.least_mapped),
        least_mapped_run_(requests.least_mapped_run),
        calls_a_page_(requests.calls_a_page),
        sums_(sums) {
    for (const IntervalMap& layer : from.layers) sources_.push_back({MapCursor(layer)});
    layers_ = sources_.size();
    used_.resize(from.generation->root().parts.size());
  }

  Result<StoredAs> look_up(std::span<const Extent> extents) {
    std::vector<std::byte> nowhere;
    RunCursor runs(extents);
    while (const std::optional<Extent> run = runs.next()) {
      const Extent present = intersect(*run, {0, from_.size});
      nowhere.resize(std::max(nowhere.size(), static_cast<std::size_t>(present.length)));
      RETURN_IF_ERROR(use_parts(present));
      find(0, present, nowhere.data());
    }
    StoredAs found;
    for (Source& source : sources_) {
      std::sort(source.wanted.begin(), source.wanted.end(), before);
      found.pieces += std::ssize(source.wanted);
      Offset touched = 0;  // up to here
      for (const Wanted& wanted : source.wanted) {
        const Offset end = wanted.stored + wanted.length;
        const bool near = touched > 0 && wanted.stored - touched <= kLongestUnwanted;
        found.touched += std::max<Bytes>(0, end - (near ? touched : wanted.stored));
        touched = std::max(touched, end);
      }
    }
    return found;
  }

  Result<Transferred> read(std::span<const Extent> extents, std::span<const Span> memory) {
    const Streaming streaming(static_cast<std::size_t>(size_of(extents)));
    stores_ = streaming.stores();
    auto moved = by_slices(extents, memory, kLongestSlice, [&] { return fetch(); });
    if (moved) moved->requests = requests_;
    return moved;
  }

  // All that is wanted, without layers.
  Result<Transferred> find_all(std::span<const Extent> extents, std::span<const Span> memory,
                               std::vector<StoredPiece>& pieces) {
    pieces.clear();
    const auto moved = by_slices(extents, memory, std::numeric_limits<Bytes>::max(), [&]() -> Status {
      if (pieces.size() + wanted_ > kMostFound) return fail(Code::kNoMemory, "too many pieces of a file at once");
      std::vector<Source*> in_order;
      for (Source& source : sources_)
        if (!source.wanted.empty()) in_order.push_back(&source);
      std::sort(in_order.begin(), in_order.end(),
                [](const Source* a, const Source* b) { return before(a->wanted.front(), b->wanted.front()); });
      for (Source* source : in_order) {
        pieces.insert(pieces.end(), source->wanted.begin(), source->wanted.end());
        source->wanted.clear();
      }
      wanted_ = 0;
      return {};
    });
    if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
    return moved;
  }

 private:
  // Calls `found` when there are many pieces, or `slice` bytes, and at the end.
  template <typename Found>
  Result<Transferred> by_slices(std::span<const Extent> extents, std::span<const Span> memory, Bytes slice,
                                Found found) {
    Transferred moved;
    MemoryCursor to(memory);
    RunCursor runs(extents);
    Bytes in_slice = 0;
    while (const std::optional<Extent> run = runs.next()) {
      const Extent present = intersect(*run, {0, from_.size});
      for (Offset at = present.offset; at < present.offset + present.length;) {
        const Span piece = to.take(std::min(present.end() - at, kLongestSlice));
        const Offset begin = at, end = at + piece.length;
        while (at < end) {
          const Extent range{at, end - at};
          RETURN_IF_ERROR(use_parts(range));
          at = find(0, range, piece.data + (at - begin));
          in_slice += at - range.offset;
          if (in_slice < slice && !is_full()) continue;
          RETURN_IF_ERROR(found());
          in_slice = 0;
        }
      }
      moved.bytes += present.length;
      moved.eof = present.length < run->length;
      if (moved.eof) break;
    }
    RETURN_IF_ERROR(found());
    return moved;
  }

  // Parts in the order of their first bytes, and sources in that of the pieces that come next: what is asked for in ascending order
  // costs what its pieces cost, however many processes have written the file.
  void begin_at(Offset offset) {
    next_part_ = 0;
    ahead_.clear();
    for (std::size_t i = layers_; i < sources_.size(); ++i) put_ahead(i, offset);
    position_ = offset;
  }

  void put_ahead(std::size_t source, Offset offset) {
    MapCursor& cursor = sources_[source].cursor;
    cursor.seek(offset);
    if (cursor.done()) return;
    ahead_.push_back({cursor.piece().logical, source});
    std::push_heap(ahead_.begin(), ahead_.end(), std::greater<>());
  }

  // The first of them has moved on: to its place, from the top of the heap down.
  void sort_ahead() {
    const MapCursor& cursor = sources_[ahead_.front().source].cursor;
    if (cursor.done()) {
      ahead_.front() = ahead_.back();
      ahead_.pop_back();
    } else {
      ahead_.front().begin = cursor.piece().logical;
    }
    for (std::size_t at = 0, next = 1; next < ahead_.size(); at = next, next = 2 * at + 1) {
      if (next + 1 < ahead_.size() && ahead_[next + 1] < ahead_[next]) ++next;
      if (ahead_[at] < ahead_[next]) return;
      std::swap(ahead_[at], ahead_[next]);
    }
  }

  // The parts that have intervals in the range become sources.
  Status use_parts(Extent range) {
    const auto& parts = from_.generation->root().parts;
    const auto& order = from_.generation->by_offset();
    if (range.offset < position_) begin_at(range.offset);
    position_ = range.offset;
    range = intersect(range, {0, from_.cut});
    for (; next_part_ < order.size() && parts[order[next_part_]].bounds.offset < range.end(); ++next_part_) {
      const std::size_t i = order[next_part_];
      if (used_[i] || intersect(parts[i].bounds, range).empty()) continue;
      used_[i] = true;
      ASSIGN_OR_RETURN(auto part, from_.generation->part(i, storage_));
      Source source{MapCursor(part->map), &parts[i], part};
      std::int64_t sums = 0;
      for (const Extent& run : parts[i].runs) {
        source.first_sum.push_back(sums);
        sums += cells_of(run);
      }
      sources_.push_back(std::move(source));
      put_ahead(sources_.size() - 1, range.offset);
    }
    return {};
  }

  bool is_full() const { return wanted_ >= kMostWanted; }

  // What the layers from `layer` on have of the range, and the generation behind them: up to what is returned, its end or
  // where there were enough pieces.
  Offset find(std::size_t layer, Extent range, std::byte* data) {
    if (range.empty() || is_full()) return range.offset;
    if (layer == layers_) return find_committed(range, data);
    Offset at = range.offset;
    MapCursor& cursor = sources_[layer].cursor;
    for (cursor.seek(at); !cursor.done(); cursor.next()) {
      const Piece piece = cursor.piece().clipped(range);
      if (piece.length == 0) break;
      at = find(layer + 1, {at, piece.logical - at}, data + (at - range.offset));
      if (at < piece.logical || is_full()) return at;
      want(layer, piece, data + (piece.logical - range.offset));
      at = piece.end();
    }
    return find(layer + 1, {at, range.end() - at}, data + (at - range.offset));
  }

  Offset find_committed(Extent range, std::byte* data) {
    const Extent present = intersect(range, {0, from_.cut});
    Offset at = range.offset;
    const auto fill_to = [&](Offset end) {
      if (end > at) std::memset(data + (at - range.offset), 0, static_cast<std::size_t>(end - at));
      at = end;
    };
    while (at < present.end() && !ahead_.empty() && ahead_.front().begin < present.end() && !is_full()) {
      const std::size_t source = ahead_.front().source;
      MapCursor& cursor = sources_[source].cursor;
      const Piece whole = cursor.piece(), piece = whole.clipped({at, present.end() - at});
      if (piece.length > 0) {
        fill_to(piece.logical);
        want(source, piece, data + (at - range.offset));
        at = piece.end();
      }
      if (at == whole.end()) {
        cursor.next();
      } else if (at > whole.end()) {
        cursor.seek(at);
      } else {
        break;  // it goes on behind the range
      }
      sort_ahead();
    }
    if (!is_full()) fill_to(range.end());
    return position_ = at;
  }

  // Cell by cell.
  void want(std::size_t source, Piece piece, std::byte* data) {
    while (piece.length > 0) {
      const Bytes length = std::min(piece.length, kCell - piece.stored % kCell);
      sources_[source].wanted.push_back({piece.stored, length, data});
      ++wanted_;
      piece = {piece.logical + length, piece.length - length, piece.stored + length};
      data += length;
    }
  }

  struct Cell {
    Extent stored;
    const Extent* run = nullptr;          // null: not committed, and without a sum
    const std::uint32_t* sums = nullptr;  // of the run's cells
    bool verify = true;                   // whole; else what is wanted of it is summed for itself
    std::span<const Wanted> wanted = {};
    Bytes bytes = 0;        // of them; what is wanted twice counts twice
    bool in_place = false;  // its pieces are read to where they belong, and only what is between them is staged
    std::byte* staging = nullptr;

    std::uint32_t sum() const { return sums[stored.offset / kCell - run->offset / kCell]; }
  };

  static bool before(const Wanted& a, const Wanted& b) { return a.stored < b.stored; }
  static bool before_cell(const Cell& a, const Cell& b) { return a.stored.offset < b.stored.offset; }

  Status fetch() {
    for (Source& source : sources_) {
      std::vector<Wanted>& wanted = source.wanted;
      if (!std::is_sorted(wanted.begin(), wanted.end(), before)) std::sort(wanted.begin(), wanted.end(), before);
      for (std::size_t next = 0; next < wanted.size();) RETURN_IF_ERROR(fetch_cells(source, next));
    }
    if (!batch_.empty()) RETURN_IF_ERROR(fetch_batch());
    if (!singles_.empty()) RETURN_IF_ERROR(fetch_singles());
    for (Source& source : sources_) source.wanted.clear();
    wanted_ = 0;
    return {};
  }

  // Of what is wanted of the source from `next` on, which moves on.
  Status fetch_cells(Source& source, std::size_t& next) {
    take_cells(source, next);
    for (std::span<const Cell> left = cells_; !left.empty();) {
      const std::span<const Cell> group = left.first(count_near(left));
      left = left.subspan(group.size());
      if (is_worth_calls(group)) {
        for (const Cell& cell : group) RETURN_IF_ERROR(fetch_singly(cell));
        continue;
      }
      ASSIGN_OR_RETURN(const bool mapped, fetch_mapped(group));
      for (std::size_t i = 0; !mapped && i < group.size(); ++i) {
        batch_.push_back(group[i]);
        batch_.back().verify = group[i].run;
        if (std::ssize(batch_) >= (is_deep() ? kLongestSlice : longest_) / kCell) RETURN_IF_ERROR(fetch_batch());
      }
    }
    return {};
  }

  void take_cells(Source& source, std::size_t& next) {
    cells_.clear();
    const std::vector<Wanted>& wanted = source.wanted;
    Cell cell;
    while (next < wanted.size() && cells_.size() < kMostCells) {
      const std::size_t first = next++;
      cell.stored = {wanted[first].stored, wanted[first].length};
      cell.verify = source.entry;
      if (source.entry) find_cell(source, wanted[first].stored, cell);
      cell.bytes = wanted[first].length;
      for (; next < wanted.size() && wanted[next].stored < cell.stored.end(); ++next) {
        const Offset end = wanted[next].stored + wanted[next].length;
        if (!cell.run) cell.stored.length = std::max(cell.stored.end(), end) - cell.stored.offset;
        cell.bytes += wanted[next].length;
      }
      cell.wanted = std::span(wanted).subspan(first, next - first);
      cells_.push_back(cell);
    }
    if (sums_ && source.entry) choose_verified(cells_);
  }

  // From that of an earlier one on.
  static void find_cell(const Source& source, Offset stored, Cell& cell) {
    if (!cell.run || stored >= cell.run->end()) {
      const auto& runs = source.entry->runs;
      const auto run = std::upper_bound(runs.begin(), runs.end(), stored,
                                        [](Offset offset, const Extent& each) { return offset < each.end(); });
      cell.run = &*run;
      cell.sums = source.part->sums.data() + source.first_sum[static_cast<std::size_t>(run - runs.begin())];
    }
    cell.stored = cell_at(*cell.run, stored);
  }

  // Who wants little more than bytes of whole cells verifies these, while they are in the caches.
  void choose_verified(std::vector<Cell>& cells) const {
    const bool whole = are_well_used(cells);
    for (Cell& cell : cells) cell.verify = whole;
  }

  // Of a whole cell.
  bool is_right(const Cell& cell, std::uint32_t sum) {
    if (sum != cell.sum()) return false;
    if (sums_) {
      meet_block(cell);
      sums_->add_verified(cell.stored);
    }
    return true;
  }

  const Extent& meet_block(const Cell& cell) {
    return sums_->meet_block(*cell.run, {cell.sums, static_cast<std::size_t>(cells_of(*cell.run))}, cell.stored.offset);
  }

  static std::span<const std::byte> bytes_at(const std::byte* at, Bytes length) {
    return {at, static_cast<std::size_t>(length)};
  }

  // Cells that are mapped, or in a buffer, from `origin` on; `end` is behind the last piece that is wanted of them.
  struct Mapped {
    const std::byte* data;
    Offset origin;
    const Wanted* end;

    std::span<const std::byte> at(Offset stored, Bytes length) const {
      return bytes_at(data + (stored - origin), length);
    }
    // While a piece is copied; what goes on without a break the processor foresees.
    [[gnu::always_inline]] void prefetch_after(const Wanted& wanted, Stores stores) const {
      const Wanted* const next = &wanted + 1;
      if (next == end) return;
      if (next->stored == wanted.stored + wanted.length && next->data == wanted.data + wanted.length) return;
      prefetch_copy(next->data, data + (next->stored - origin), static_cast<std::size_t>(next->length), stores);
    }
  };

  // Of the cell only this is verified, with what others have read of its block.
  void copy_part(const Cell& cell, const Wanted& wanted, const Mapped& mapped) {
    const auto from = mapped.at(wanted.stored, wanted.length);
    mapped.prefetch_after(wanted, stores_);
    if (!sums_ || !cell.run) return copy(wanted, from.data());
    const Extent& block = meet_block(cell);
    const Bytes behind = block.end() - wanted.stored - wanted.length;
    sums_->add({wanted.stored, wanted.length}, copy_crc32c_of_part(wanted.data, from, behind, stores_));
  }

  // What is wanted of a cell; whether the cell is right. Short pieces are sooner copied, then all is summed.
  bool copy_whole(const Cell& cell, const Mapped& mapped) {
    if (!in_place(cell)) {
      for (const Wanted& wanted : cell.wanted) copy(wanted, mapped.at(wanted.stored, wanted.length).data());
      return is_right(cell, crc32c(mapped.at(cell.stored.offset, cell.stored.length)));
    }
    std::uint32_t sum = 0;
    Offset done = cell.stored.offset;
    for (const Wanted& wanted : cell.wanted) {
      mapped.prefetch_after(wanted, stores_);
      if (wanted.stored > done) sum = crc32c(mapped.at(done, wanted.stored - done), sum);
      sum = copy_crc32c(wanted.data, mapped.at(wanted.stored, wanted.length), sum, stores_);
      done = wanted.stored + wanted.length;
    }
    return is_right(cell, crc32c(mapped.at(done, cell.stored.end() - done), sum));
  }

  // How many of them, from the first on, go into one mapping. Pages come as they are touched, so that those between cells cost nothing.
  static std::size_t count_near(std::span<const Cell> cells) {
    std::size_t count = 1;
    for (Bytes bytes = cells[0].stored.length; count < cells.size(); ++count) {
      const Cell& next = cells[count];
      bytes += next.stored.length;
      const Bytes length = next.stored.end() - cells[0].stored.offset;
      if (length > SummedRequests::kMostMapped || length > kSparsest * bytes || next.verify != cells[0].verify) break;
    }
    return count;
  }

  static std::int64_t count_runs(std::span<const Cell> cells) {
    std::int64_t runs = 1;
    for (std::size_t i = 1; i < cells.size(); ++i)
      if (cells[i].stored.offset != cells[i - 1].stored.end()) ++runs;
    return runs;
  }

  static Bytes stored_bytes(std::span<const Cell> cells) {
    Bytes bytes = 0;
    for (const Cell& cell : cells) bytes += cell.stored.length;
    return bytes;
  }

  static Bytes wanted_bytes(std::span<const Cell> cells) {
    Bytes bytes = 0;
    for (const Cell& cell : cells) bytes += cell.bytes;
    return bytes;
  }

  // Whether not all of them is needed, and to read each piece by itself takes less than to map them, or to read them whole.
  bool is_worth_calls(std::span<const Cell> cells) const {
    if (!sums_ || cells[0].verify) return false;
    std::int64_t pieces = 0;
    for (const Cell& cell : cells) pieces += std::ssize(cell.wanted);
    const Bytes length = stored_bytes(cells);
    if (length < least_mapped_)
      return pieces * Profile::kPage <= length - wanted_bytes(cells);  // a call takes no longer than copying a page
    return static_cast<double>(pieces) < static_cast<double>(length / Profile::kPage) * calls_a_page_;
  }

  static bool are_well_used(std::span<const Cell> cells) {
    return kWellUsed * static_cast<double>(stored_bytes(cells)) <= static_cast<double>(wanted_bytes(cells));
  }

  // From a mapping only what is wanted is copied, by calls whole cells.
  bool is_worth_mapping(std::span<const Cell> cells) const {
    const Bytes bytes = stored_bytes(cells);
    if (bytes < least_mapped_) return false;
    return !stages() || !are_well_used(cells) || bytes >= count_runs(cells) * least_mapped_run_;
  }

  // False where they are not worth a mapping, or cannot be mapped.
  Result<bool> fetch_mapped(std::span<const Cell> cells) {
    const Extent range{cells.front().stored.offset, cells.back().stored.end() - cells.front().stored.offset};
    if (!is_worth_mapping(cells)) return false;
    const Cell* wrong = nullptr;
    const Wanted* const end = cells.back().wanted.data() + cells.back().wanted.size();
    const auto mapped = storage_.map(range, false, [&](const std::byte* data, Bytes present) {
      const Mapped here{data, range.offset, end};
      for (const Cell& cell : cells) {
        if (cell.stored.end() > range.offset + present) break;
        if (cell.verify) {
          if (!copy_whole(cell, here) && !wrong) wrong = &cell;
        } else {
          for (const Wanted& wanted : cell.wanted) copy_part(cell, wanted, here);
        }
      }
      return present;
    });
    if (!mapped && mapped.error().code == Code::kUnsupportedOperation) return false;
    if (!mapped) return fail(mapped.error());
    requests_ += mapped->requests;
    if (mapped->eof) return truncated(storage_);
    if (wrong) return damaged(storage_, wrong->stored);
    return true;
  }

  void copy(const Wanted& to, const std::byte* from) const {
    copy_bytes(to.data, from, static_cast<std::size_t>(to.length), stores_);
  }

  // No more at once than are in the caches when they are summed.
  Status fetch_singly(const Cell& cell) {
    for (const Wanted& piece : cell.wanted) {
      singles_.push_back({piece, cell});
      single_bytes_ += piece.length;
      if (single_bytes_ >= longest_) RETURN_IF_ERROR(fetch_singles());
    }
    return {};
  }

  Status fetch_singles() {
    std::vector<Extent> extents;
    std::vector<Span> spans;
    for (const auto& [piece, cell] : singles_) {
      extents.push_back({piece.stored, piece.length});
      spans.push_back({piece.data, piece.length});
    }
    ASSIGN_OR_RETURN(const Transferred got, storage_.readv(extents, spans));
    requests_ += got.requests;
    if (got.bytes < single_bytes_) return truncated(storage_);
    for (const auto& [piece, cell] : singles_) {
      if (!cell.run) continue;
      const Extent& block = meet_block(cell);
      const Bytes behind = block.end() - piece.stored - piece.length;
      sums_->add({piece.stored, piece.length}, crc32c_of_part(bytes_at(piece.data, piece.length), behind));
    }
    singles_.clear();
    single_bytes_ = 0;
    return {};
  }

  // Few pieces, and no byte is wanted twice.
  bool in_place(const Cell& cell) const {
    const auto pieces = std::ssize(cell.wanted);
    if (pieces > 1 && pieces * (is_deep() ? kLeastInPlaceFar : kLeastInPlace) > cell.stored.length) return false;
    for (std::size_t i = 1; i < cell.wanted.size(); ++i)
      if (cell.wanted[i].stored < cell.wanted[i - 1].stored + cell.wanted[i - 1].length) return false;
    return true;
  }

  static Bytes staged_of(const Cell& cell) { return cell.stored.length - (cell.in_place ? cell.bytes : 0); }

  // Calls visit(data, length) for each place where bytes of the cell are read to, as they are stored.
  template <typename Visit>
  static void each_place(const Cell& cell, Visit visit) {
    std::byte* staging = cell.staging;
    Offset at = cell.stored.offset;
    const auto stage_to = [&](Offset end) {
      if (end > at) visit(staging, end - at);
      staging += end - at;
    };
    for (std::size_t i = 0; cell.in_place && i < cell.wanted.size(); ++i) {
      const Wanted& wanted = cell.wanted[i];
      stage_to(wanted.stored);
      visit(wanted.data, wanted.length);
      at = wanted.stored + wanted.length;
    }
    stage_to(cell.stored.end());
  }

  Status fetch_batch() {
    Bytes staged = 0;
    if (!std::is_sorted(batch_.begin(), batch_.end(), before_cell))
      std::sort(batch_.begin(), batch_.end(), before_cell);
    for (Cell& cell : batch_) {
      cell.in_place = !stages() && in_place(cell);
      staged += staged_of(cell);
    }
    if (staging_size_ < staged) {
      staging_ = page_buffer(staged);
      staging_size_ = staged;
    }
    std::byte* staging = staging_.get();
    for (Cell& cell : batch_) {
      cell.staging = staging;
      staging += staged_of(cell);
    }
    RETURN_IF_ERROR(fetch_groups(groups()));
    batch_.clear();
    return {};
  }

  using Group = std::span<const Cell>;

  // Cells that lie together, each group for a request; all in one where requests go one by one.
  std::vector<Group> groups() const {
    const Group all = batch_;
    if (!is_deep()) return {all};
    std::vector<Group> groups;
    for (std::size_t first = 0, next = 1; first < all.size(); first = next++) {
      while (next < all.size() && all[next].stored.offset == all[next - 1].stored.end() &&
             all[next].stored.end() - all[first].stored.offset <= deep_.unit)
        ++next;
      groups.push_back(all.subspan(first, next - first));
    }
    return groups;
  }

  // Who has one verifies and copies it while others are under way.
  Status fetch_groups(const std::vector<Group>& groups) {
    std::vector<Result<std::int64_t>> fetched(groups.size(), 0);
    at_once(is_deep() ? deep_.depth : 1, groups.size(), [&](std::size_t i) {
      fetched[i] = guarded([&] { return fetch_group(groups[i]); });
      return fetched[i].has_value();
    });
    for (const Result<std::int64_t>& each : fetched) {
      if (!each) return fail(each.error());
      requests_ += *each;
    }
    return {};
  }

  // Returns how many requests it took.
  Result<std::int64_t> fetch_group(Group cells) {
    std::vector<Extent> extents;
    std::vector<Span> spans;
    Bytes all = 0;
    const auto read_to = [&](std::byte* data, Bytes length) {
      if (!spans.empty() && spans.back().data + spans.back().length == data)
        spans.back().length += length;
      else
        spans.push_back({data, length});
    };
    for (const Cell& cell : cells) {
      if (!extents.empty() && extents.back().end() == cell.stored.offset)
        extents.back().length += cell.stored.length;
      else
        extents.push_back(cell.stored);
      all += cell.stored.length;
      each_place(cell, read_to);
    }
    ASSIGN_OR_RETURN(const Transferred got, storage_.readv(extents, spans));
    if (got.bytes < all) return truncated(storage_);
    for (const Cell& cell : cells)
      if (!finish(cell)) return damaged(storage_, cell.stored);
    return got.requests;
  }

  // What has been read of it; whether it is right.
  bool finish(const Cell& cell) {
    if (cell.in_place) return !cell.verify || is_right(cell, sum_of(cell));
    const Mapped here{cell.staging, cell.stored.offset, cell.wanted.data() + cell.wanted.size()};
    if (cell.verify) return copy_whole(cell, here);
    for (const Wanted& wanted : cell.wanted) copy(wanted, here.at(wanted.stored, wanted.length).data());
    return true;
  }

  // What is streamed to where it belongs, and not read there first, comes by way of a buffer in the caches: where requests are short.
  bool stages() const { return stores_ != Stores::kCached && !waits_ && !is_deep(); }
  // Sums are of one thread.
  bool is_deep() const { return deep_.depth > 1 && !sums_; }

  static std::uint32_t sum_of(const Cell& cell) {
    std::uint32_t sum = 0;
    each_place(cell, [&](const std::byte* data, Bytes length) { sum = crc32c(bytes_at(data, length), sum); });
    return sum;
  }

  Storage& storage_;
  const Intervals& from_;
  const Bytes longest_;  // request
  const Deep deep_;
  const bool waits_;
  const Bytes least_mapped_, least_mapped_run_;
  const double calls_a_page_;
  Stores stores_ = Stores::kCached;
  ReadSums* const sums_;
  std::int64_t requests_ = 0;
  std::vector<Source> sources_;  // the layers first
  std::size_t layers_ = 0;
  std::vector<bool> used_;     // of the generation's parts
  std::size_t next_part_ = 0;  // ... in the order in which they begin
  struct Ahead {
    Offset begin;  // of its next piece
    std::size_t source;
    auto operator<=>(const Ahead&) const = default;
  };
  std::vector<Ahead> ahead_;  // a heap
  Offset position_ = 0;       // what has been asked for lies before
  std::size_t wanted_ = 0;    // of all sources
  std::vector<Cell> cells_;
  std::vector<Cell> batch_;  // to be read by one request
  struct Single {
    Wanted piece;
    Cell cell;
  };
  std::vector<Single> singles_;  // to be read each by itself
  Bytes single_bytes_ = 0;
  PageBuffer staging_;
  Bytes staging_size_ = 0;
};

}  // namespace

Result<Transferred> read_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents,
                                   std::span<const Span> memory, const SummedRequests& requests, ReadSums* sums) {
  return Reader(storage, from, requests, sums).read(extents, memory);
}

Result<StoredAs> look_up_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents) {
  return Reader(storage, from, {}, nullptr).look_up(extents);
}

Result<Transferred> find_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents,
                                   std::span<const Span> memory, std::vector<StoredPiece>& pieces) {
  return Reader(storage, from, {}, nullptr).find_all(extents, memory, pieces);
}

Status verify_told(Storage& storage, std::span<const std::vector<std::byte>> told, const SummedRequests& requests) {
  const ReadSums::Found found = ReadSums::put_together(told);
  if (!found.wrong.empty()) return damaged(storage, found.wrong.front());
  for (std::span<const ReadSums::Cell> left = found.unknown; !left.empty();) {
    std::vector<Extent> stored;
    Bytes all = 0;
    for (; stored.size() < left.size() && (all == 0 || all < requests.longest_read); all += stored.back().length)
      stored.push_back(left[stored.size()].stored);
    std::vector<std::byte> bytes(static_cast<std::size_t>(all));
    const Span span{bytes.data(), all};
    ASSIGN_OR_RETURN(const Transferred got, storage.readv(stored, {&span, 1}));
    if (got.bytes < all) return truncated(storage);
    const std::byte* at = bytes.data();
    for (std::size_t i = 0; i < stored.size(); at += stored[i++].length)
      if (crc32c({at, static_cast<std::size_t>(stored[i].length)}) != left[i].sum) return damaged(storage, stored[i]);
    left = left.subspan(stored.size());
  }
  return {};
}

}  // namespace stridio
