// A commit: all tell what they wrote; each takes from its own parts what anybody has overwritten (within a commit the
// higher rank's bytes count). The parts' metadata and the root become the tail of the next header where they are few; else
// each says where it will store its own, and they are stored, the root beside them by rank 0. The data, and what is stored so,
// are made durable; then rank 0 overwrites one header slot, the slots in turn, with two copies of a header. So
// at every moment one slot names a whole generation, and at rest two headers name the newest.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/guarded.h"
#include "base/worker.h"
#include "collective/agreement.h"
#include "interval/interval_file.h"

namespace stridio {
namespace {

constexpr Bytes kCopied = Bytes{4} << 20;         // at once, when a part is moved
constexpr Bytes kSlack = Bytes{384} << 10;        // of a process, beyond 2.5 times the live bytes
constexpr Bytes kShareOfTail = kMostTail - 1024;  // of all ranks' lines and metadata, beside the rest of the root

template <typename Fragments>
Sums sums_of(Fragments fragments) {
  std::sort(fragments.begin(), fragments.end(),
            [](const auto& a, const auto& b) { return a.stored.offset < b.stored.offset; });
  Sums sums;
  for (const auto& each : fragments) sums.add(each.stored, each.sum);
  return sums;
}

// A part of the given intervals, with the cells of `stored` in which any of them lies.
Part with_cells(IntervalMap map, const Sums& stored, std::vector<Extent>& runs) {
  std::vector<std::pair<Extent, std::uint32_t>> cells;
  each_cell(stored.runs, stored.sums, [&](Extent cell, std::uint32_t sum) { cells.emplace_back(cell, sum); });
  std::vector<bool> used(cells.size());
  const auto use = [&](Extent wanted) {
    auto cell = std::upper_bound(cells.begin(), cells.end(), wanted.offset,
                                 [](Offset offset, const auto& each) { return offset < each.first.end(); });
    for (; cell != cells.end() && cell->first.offset < wanted.end(); ++cell)
      used[static_cast<std::size_t>(cell - cells.begin())] = true;
  };
  for (MapCursor cursor(map); !cursor.done(); cursor.next_group()) {
    const PieceGroup& group = cursor.group();
    if (group.stored_stride == group.first.length)
      use({group.first.stored, group.count * group.first.length});
    else
      for (std::int64_t i = 0; i < group.count; ++i) use(group.at(i).stored_range());
  }
  Sums kept;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (used[i]) kept.add(cells[i].first, cells[i].second);
  runs = std::move(kept.runs);
  return {std::move(map), std::move(kept.sums)};
}

}  // namespace

// ---- What is to be committed

// What this process has written since the last commit, without what it has overwritten itself.
IntervalFile::Mine IntervalFile::as_written() {
  const IntervalMap published = written_.published.merged();
  const IntervalMap unshared = overlaid(written_.log.merged(), written_.telling);
  return {overlaid(published, unshared), without(written_.told, published)};
}

// And without what others are known to have.
IntervalFile::Mine IntervalFile::still_mine() {
  if (is_untouched()) return as_written();
  const IntervalMap shared = this->shared().merged(), latest = overlaid(written_.log.merged(), written_.telling);
  if (shared.empty()) return {latest, written_.told};
  const std::vector<Extent> own = sums_of(all_fragments()).runs;
  MapBuilder mine;
  for (MapCursor cursor(shared); !cursor.done(); cursor.next()) {
    const Piece piece = cursor.piece();
    auto run = std::upper_bound(own.begin(), own.end(), piece.stored,
                                [](Offset offset, const Extent& each) { return offset < each.end(); });
    for (; run != own.end() && run->offset < piece.stored + piece.length; ++run) {
      const Extent part = intersect(*run, piece.stored_range());
      mine.add({piece.logical + part.offset - piece.stored, part.length, part.offset});
    }
  }
  return {overlaid(mine.finish(), without(latest, shared)), without(written_.told, shared)};
}

std::vector<IntervalFile::Fragment> IntervalFile::all_fragments() const {
  std::vector<Fragment> all = written_.told_fragments;
  all.insert(all.end(), written_.fragments.begin(), written_.fragments.end());
  return all;
}

// Bytes that were overwritten before anybody else was told of them are nobody's: where they are many, their cells are free again.
// What others have overwritten is looked for only where this process has a quarter more that it has not overwritten itself than it
// had at the last look.
Status IntervalFile::reclaim(Bytes wanted) {
  if (written_.bytes + wanted < reclaim_at_) return {};
  const auto more_than = [](Bytes bytes) { return kLeastReclaimed + bytes + bytes / 4; };
  const bool knows_own = shared_log_ && !written_.lacks_published;
  if (knows_own) free_all_but(as_written());
  if (!knows_own || written_.bytes >= look_at_) {
    RETURN_IF_ERROR(look_around());
    if (!knows_own || !is_untouched()) free_all_but(still_mine());
    look_at_ = more_than(written_.bytes);
  }
  reclaim_at_ = std::min(more_than(written_.bytes), look_at_);
  return {};
}

void IntervalFile::free_all_but(const Mine& mine) {
  if (mine.latest.size() + mine.told.size() == written_.bytes) return;
  std::vector<Extent> kept, freed;
  const Sums stored = sums_of(written_.fragments);
  const Part part = with_cells(overlaid(mine.latest, mine.told), stored, kept);
  Bytes bytes = 0;
  for (const Fragment& each : written_.told_fragments) bytes += each.stored.length;
  const auto free_between = [&](Offset begin, Offset end) {
    const Extent whole = whole_cells({begin, end - begin});
    if (!whole.empty()) freed.push_back(whole);
  };
  Extent chunk = chunk_;
  auto next = kept.begin();
  for (const Extent& run : stored.runs) {
    Offset at = run.offset;
    for (; next != kept.end() && next->offset < run.end(); ++next) {
      free_between(at, next->offset);
      at = next->end();
      bytes += next->length;
    }
    // The rest of its last cell, in which nothing is stored.
    const bool before_chunk = run.end() == chunk_.offset && ends_in_cell() && at <= down_to_cell(run.end());
    if (before_chunk) chunk = whole_cells(chunk_);
    free_between(at, before_chunk || padded_.contains(run.end()) ? up_to_cell(run.end()) : run.end());
  }
  std::vector<Fragment> fragments;
  each_cell(kept, part.sums, [&](Extent cell, std::uint32_t sum) { fragments.push_back({cell, sum}); });
  add_free(freed, chunk);  // all of them or, for want of memory, none
  written_.bytes = bytes;
  written_.fragments = std::move(fragments);
}

// ---- Committing

Status IntervalFile::commit() {
  if (!writes_) return {};
  Flush flush;
  Status committed = commit(flush);
  flush.worker.wait();
  if (flush.done) return committed;
  const Status noted = guarded([&] { return note_lost(flush); });
  return committed ? noted : committed;
}

// The system tells it once, and may have forgotten the bytes: they are to be written again, and not into cells that have some of the
// lost ones, whose sums would be wrong.
Status IntervalFile::note_lost(const Flush& flush) {
  std::unique_lock turn(turnstile_);
  const std::unique_lock epoch(epoch_);
  turn.unlock();
  const std::scoped_lock lock(mutex_);
  ++era_;
  chunk_ = leave_cell();
  for (Extent& each : free_) each = whole_cells(each);
  std::erase_if(free_, [](const Extent& each) { return each.empty(); });
  const Mine lost = still_mine();
  failed_.note(overlaid(lost.latest, lost.told), flush.done.error());
  if (!flush.announced.empty()) failed_.tell(others_of(flush.announced));
  return {};
}

Status IntervalFile::commit(Flush& flush) {
  begin_flush(flush);
  // A rank may come late since it waits for what another's thread does with this file: till then nobody is held up.
  struct State {
    bool dirty, superseded;
  };
  ASSIGN_OR_RETURN(const std::vector<State> states, allgather(group_, State{is_dirty(), superseded_}));
  if (std::any_of(states.begin(), states.end(), [](const State& each) { return each.superseded; }))
    return refuse_broken();
  if (std::none_of(states.begin(), states.end(), [](const State& each) { return each.dirty; })) return keep_newborn();
  std::unique_lock turn(turnstile_);
  const std::unique_lock epoch(epoch_);
  turn.unlock();
  const Root& before = seen_.generation->root();
  if (shared_log_) {
    RETURN_IF_ERROR(group_.barrier());  // all have written
    RETURN_IF_ERROR(look_around_together());
  }
  ASSIGN_OR_RETURN(flush.announced, announce());
  const std::vector<Announcement>& all = flush.announced;
  Bytes size = 0;
  bool changed = false, failed = false;
  for (const Announcement& each : all) {
    size = std::max(size, each.size);
    changed = changed || !each.written.latest.empty() || !each.written.told.empty() || each.cut < before.size;
    failed = failed || each.failed;
  }
  if (failed) RETURN_IF_ERROR(agree(group_, guarded([&] { return nothing_failed(all); })));
  if (!changed && size == before.size) return keep_newborn();

  // Before the first header is written the file reaches beyond it, so that who cuts it off is told from who tears it.
  const bool may_be_tail = changed || before.generation != kBirth;
  RETURN_IF_ERROR(advance([&] { return prepare(all); }, size, may_be_tail, flush));
  Bytes written = 0;
  for (const Announcement& each : all) written += each.stored;
  return tighten(written);
}

// From the parts that this rank prepares to the next generation.
template <typename Prepare>
Status IntervalFile::advance(Prepare prepare, Bytes size, bool may_be_tail, Flush& flush) {
  std::vector<Own> own;
  const Status prepared = guarded([&]() -> Status {
    RETURN_IF_ERROR(looked());
    ASSIGN_OR_RETURN(own, prepare());
    encode_parts(own);
    return {};
  });
  ASSIGN_OR_RETURN(const std::vector<Lines> lines, tell_lines(prepared, own, may_be_tail));
  Next next;
  Finished mine;
  RETURN_IF_ERROR(agree(group_, guarded([&]() -> Status {
                          ASSIGN_OR_RETURN(next, next_of(lines, own, size));
                          return store(own, next, flush, mine.root);
                        })));
  bool again = false;  // and nobody knows whether it is the newest already
  {
    const std::scoped_lock lock(mutex_);
    again = std::exchange(broken_, true);  // until all have been told
  }
  Status finished;
  if (group_.rank() == 0) finished = guarded([&] { return finish(next, again, flush, mine); });
  mine.verdict = verdict_of(finished);
  ASSIGN_OR_RETURN(const std::vector<Finished> all_finished, allgather(group_, mine));
  const std::scoped_lock lock(mutex_);
  broken_ = all_finished.front().broken;
  RETURN_IF_ERROR(worst({&all_finished.front().verdict, 1}));
  adopt(std::make_shared<Generation>(std::move(next.root), std::move(next.tail)), own, all_finished.front());
  return {};
}

// Where ranks have written over one another's bytes, of which `written` were stored in this epoch, the new generation may lie far
// behind the end that a compact file would have. If nobody reads an older one there is space for it before: one more generation, of
// the same bytes.
Status IntervalFile::tighten(Bytes written) {
  const Root& root = seen_.generation->root();
  const auto is_stored = [](const PartEntry& part) { return !in_tail(part.metadata); };
  Bytes live = root.live();
  for (const PartEntry& part : root.parts)
    if (is_stored(part)) live += part.metadata.length;
  const bool has_holes = space_.size() > 1, overwritten = written > live * 3 / 2;
  if (!has_holes || !overwritten || space_.back().offset <= live * 5 / 2 + group_.size() * kSlack) return {};
  const Offset most = 2 * live + kLeastReclaimed;
  const auto data_are_far = [&](const PartEntry& part) { return part.runs.back().end() > most; };
  const auto metadata_are_far = [&](const PartEntry& part) { return is_stored(part) && part.metadata.end() > most; };
  if (std::none_of(root.parts.begin(), root.parts.end(), data_are_far)) return {};
  const auto prepare = [&]() -> Result<std::vector<Own>> {
    std::vector<Own> parts;
    for (const std::size_t i : own_parts_) {
      parts.push_back({root.parts[i], nullptr});
      const bool moves = data_are_far(root.parts[i]);
      if (!moves && !metadata_are_far(root.parts[i])) continue;
      ASSIGN_OR_RETURN(parts.back().part, seen_.generation->part(i, *storage_));
      parts.back().changed = true;
      if (moves) {
        ASSIGN_OR_RETURN(parts.back(), moved(parts.back().part->map));
      }
    }
    // Who has opened this generation meanwhile keeps its space from being given back.
    if (group_.rank() == 0 && !nobody_reads_before(root.generation + 1))
      return refuse(Code::kFileInUse, "the interval file is read");
    return parts;
  };
  Flush flush;
  const Status tightened = advance(prepare, root.size, true, flush);
  superseded_ = broken_;
  return broken_ ? tightened : Status();  // else all is in the generation before
}

// Where storage is far and nothing else is to be stored, as far as this rank can know.
void IntervalFile::begin_flush(Flush& flush) {
  const std::scoped_lock lock(mutex_);
  const Bytes sums = written_.bytes / kCell * static_cast<Bytes>(sizeof(std::uint32_t));
  if (!is_far() || written_.bytes == 0 || sums > kShareOfTail / group_.size()) return;
  flush.covers = appends_;
  flush.worker.post_or_run([&] { flush.done = guarded([&] { return storage_->sync(); }); });
}

// Whether this rank has done anything that is not committed.
bool IntervalFile::is_dirty() {
  const std::scoped_lock lock(mutex_);
  const Root& root = seen_.generation->root();
  return written_.bytes > 0 || !failed_.empty() || seen_.size != root.size || seen_.cut < root.size;
}

// Where there is nothing to commit. Of a new file it is durable that it is one.
Status IntervalFile::keep_newborn() {
  if (seen_.generation->root().generation != kBirth) return {};
  return agree(group_, group_.rank() == 0 ? storage_->sync() : Status());
}

// Each rank's lines of the next generation, if all have prepared theirs, and their metadata where all have few: else each gives its
// own a place. Rank 0 learns how far the stored file reaches.
Result<std::vector<IntervalFile::Lines>> IntervalFile::tell_lines(Status prepared, std::vector<Own>& own,
                                                                  bool may_be_tail) {
  struct Fixed {
    Verdict prepared;
    Offset reach = 0;
    Bytes entries = 0;  // bytes of them
    bool in_tail = false;
  };
  Buffer metadata;
  for (Own& each : own) {
    if (each.metadata.empty()) continue;
    each.entry.metadata = {kHeaderBytes + std::ssize(metadata), std::ssize(each.metadata)};
    metadata.insert(metadata.end(), each.metadata.begin(), each.metadata.end());
  }
  const auto encoded_entries = [&] {
    std::vector<PartEntry> entries;
    for (const Own& each : own) entries.push_back(each.entry);
    return encode(std::span(entries));
  };
  Buffer entries = encoded_entries();
  const Bytes wanted = std::ssize(entries) + std::ssize(metadata);
  for (bool in_tail = may_be_tail && wanted <= kShareOfTail / group_.size();; in_tail = false) {
    if (!in_tail && !metadata.empty()) {
      if (prepared) prepared = guarded([&] { return place(own); });
      entries = encoded_entries();
      metadata.clear();
    }
    const Fixed mine{verdict_of(prepared), reach_, std::ssize(entries), in_tail};
    const auto first = std::as_bytes(std::span(&mine, 1));
    Buffer all(first.begin(), first.end());
    all.insert(all.end(), entries.begin(), entries.end());
    all.insert(all.end(), metadata.begin(), metadata.end());
    ASSIGN_OR_RETURN(const std::vector<Buffer> told, allgatherv(group_, all));
    std::vector<Verdict> verdicts;
    std::vector<Lines> lines;
    bool mixed = false;
    for (const Buffer& each : told) {
      Fixed fixed;
      std::memcpy(&fixed, each.data(), sizeof fixed);
      verdicts.push_back(fixed.prepared);
      stored_size_ = std::max(stored_size_, fixed.reach);
      mixed = mixed || fixed.in_tail != in_tail;
      const auto behind = each.begin() + sizeof fixed + fixed.entries;
      lines.push_back({{each.begin() + sizeof fixed, behind}, {behind, each.end()}, fixed.in_tail});
    }
    RETURN_IF_ERROR(worst(verdicts));
    if (!mixed) return lines;
  }
}

// The next generation, of everybody's lines. The tail is all ranks' metadata, and the root.
Result<IntervalFile::Next> IntervalFile::next_of(const std::vector<Lines>& lines, std::vector<Own>& own, Bytes size) {
  if (seen_.generation->root().generation >= kLastGeneration)
    return refuse(Code::kNoSpace, "an interval file has 2^60 generations at most: copy it by stridio translate");
  Next next{.root = {.generation = seen_.generation->root().generation + 1,
                     .size = size,
                     .processes = static_cast<std::uint32_t>(group_.size()),
                     .parts = {}},
            .encoded = {}};
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const Bytes before = std::ssize(next.tail);
    const auto move = [&](PartEntry& entry) {
      if (in_tail(entry.metadata)) entry.metadata.offset += before;
    };
    const Buffer& metadata = lines[rank].metadata;
    ASSIGN_OR_RETURN(std::vector<PartEntry> parts, decode_entries(lines[rank].entries, std::ssize(metadata)));
    std::for_each(parts.begin(), parts.end(), move);
    if (static_cast<int>(rank) == group_.rank())
      for (Own& each : own) move(each.entry);
    next.root.parts.insert(next.root.parts.end(), parts.begin(), parts.end());
    next.tail.insert(next.tail.end(), metadata.begin(), metadata.end());
  }
  RETURN_IF_ERROR(stored_extents(next.root));
  next.encoded = encode(next.root);
  if (lines.front().in_tail) next.tail.insert(next.tail.end(), next.encoded.begin(), next.encoded.end());
  return next;
}

Result<std::vector<IntervalFile::Announcement>> IntervalFile::announce() {
  struct Fixed {
    Verdict ready;
    Bytes size = 0, cut = 0;
    Bytes stored = 0;
    bool failed = false;
    Bytes latest = 0;  // of the maps' bytes
  };
  Fixed fixed;
  Buffer mine(sizeof fixed);
  fixed.ready = verdict_of(guarded([&]() -> Status {
    const std::scoped_lock lock(mutex_);
    expected_ = 0;
    expected_end_ = 0;
    fixed.size = seen_.size;
    fixed.cut = seen_.cut;
    fixed.stored = written_.bytes;
    fixed.failed = !failed_.empty();
    const Mine written = still_mine();
    for (const IntervalMap* map : {&written.latest, &written.told})
      mine.insert(mine.end(), map->encoded().begin(), map->encoded().end());
    fixed.latest = std::ssize(written.latest.encoded());
    return {};
  }));
  std::memcpy(mine.data(), &fixed, sizeof fixed);
  ASSIGN_OR_RETURN(const std::vector<Buffer> told, allgatherv(group_, mine));
  std::vector<Fixed> fixed_of_all(told.size());
  std::vector<Verdict> verdicts;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    std::memcpy(&fixed_of_all[rank], told[rank].data(), sizeof fixed);
    verdicts.push_back(fixed_of_all[rank].ready);
  }
  RETURN_IF_ERROR(worst(verdicts));
  std::vector<Announcement> all;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const Fixed& theirs = fixed_of_all[rank];
    const auto maps = told[rank].begin() + sizeof fixed, behind = maps + theirs.latest;
    Mine written;
    ASSIGN_OR_RETURN(written.latest, IntervalMap::decode({maps, behind}));
    ASSIGN_OR_RETURN(written.told, IntervalMap::decode({behind, told[rank].end()}));
    all.push_back({theirs.size, theirs.cut, theirs.stored, theirs.failed, std::move(written)});
  }
  return all;
}

// What the other ranks have written in this epoch.
IntervalMap IntervalFile::others_of(const std::vector<Announcement>& all) const {
  IntervalMap latest, told;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == group_.rank()) continue;
    latest = overlaid(all[rank].written.latest, latest);
    told = overlaid(all[rank].written.told, told);
  }
  return overlaid(latest, told);
}

// A generation is whole: it has all that was to be written. What this rank could not write, another one may have written.
Status IntervalFile::nothing_failed(const std::vector<Announcement>& all) {
  const std::scoped_lock lock(mutex_);
  if (failed_.empty()) return {};
  IntervalMap others = others_of(all);
  failed_.told = without(failed_.told, without(others, stored_alike(others, failed_.others)));
  if (failed_.empty()) return {};
  failed_.tell(std::move(others));
  const Extent bounds = failed_.told.bounds();
  Error error = failed_.why;
  error.what =
      fmt::format("nothing is committed, since a write between bytes {} and {} has failed ({}); it can be repeated",
                  bounds.offset, bounds.end() - 1, error.what);
  return fail(std::move(error));
}

void IntervalFile::give_up() {
  if (!writes_ || !group_.barrier() || group_.rank() != 0 || broken_ || !looked()) return;
  const Offset end = space_.back().offset;
  if (const auto size = storage_->size(); size && *size > end) (void)storage_->resize(end);
}

IntervalFile::Own IntervalFile::make_own(IntervalMap map, const Sums& stored) const {
  Own own;
  own.part = std::make_shared<const Part>(with_cells(std::move(map), stored, own.entry.runs));
  own.changed = true;
  own.entry.process = static_cast<std::uint32_t>(group_.rank());
  own.entry.bounds = own.part->map.bounds();
  own.entry.bytes = own.part->map.size();
  return own;
}

// This rank's lines of the next generation.
Result<std::vector<IntervalFile::Own>> IntervalFile::prepare(const std::vector<Announcement>& all) {
  Bytes cut = seen_.cut;
  for (const Announcement& each : all) cut = std::min(cut, each.cut);
  std::vector<Own> parts;
  for (const std::size_t i : own_parts_) {
    const PartEntry& entry = seen_.generation->root().parts[i];
    const bool touched = std::any_of(all.begin(), all.end(), [&](const Announcement& each) {
      return !intersect(each.written.latest.bounds(), entry.bounds).empty() ||
             !intersect(each.written.told.bounds(), entry.bounds).empty();
    });
    if (!touched && entry.bounds.end() <= cut) {
      parts.push_back({entry, nullptr});
      continue;
    }
    ASSIGN_OR_RETURN(const auto part, seen_.generation->part(i, *storage_));
    IntervalMap left = below(part->map, cut);
    for (const Announcement& each : all) left = without(without(left, each.written.latest), each.written.told);
    if (left.size() == entry.bytes) {
      parts.push_back({entry, part});
    } else if (!left.empty()) {
      parts.push_back(make_own(std::move(left), {entry.runs, part->sums}));
    }
  }
  compact(parts);
  const auto self = static_cast<std::size_t>(group_.rank());
  auto [latest, told] = all[self].written;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank > self) latest = without(latest, all[rank].written.latest);
    if (rank != self) told = without(told, all[rank].written.latest);
  }
  if (IntervalMap written = overlaid(latest, told); !written.empty())
    parts.push_back(make_own(std::move(written), sums_of(all_fragments())));
  RETURN_IF_ERROR(merge_small(parts));
  return parts;
}

// Moves parts of which much has been overwritten, so that their space is free with the next generation; and parts that lie
// far behind the end that a compact file would have, where there is space before. A whole commit that writes everything
// anew needs as much again as is live: with a quarter more overwritten, the file stays below 2.5 times that. What cannot be moved,
// for want of space or since it is damaged, stays where it is: what is to be committed has nothing to do with it.
void IntervalFile::compact(std::vector<Own>& parts) {
  const Bytes live = seen_.generation->root().live() + written_.bytes;
  Bytes room = -written_.bytes;
  for (std::size_t i = 0; i + 1 < space_.size(); ++i) room += space_[i].length / group_.size();
  for (Own& own : parts) {
    Bytes stored = 0;
    for (const Extent& run : own.entry.runs) stored += run.length;
    const bool sparse = stored - own.entry.bytes > own.entry.bytes / 4 + kCell;
    const bool far = own.entry.runs.back().end() > 2 * live + kLeastReclaimed && room > own.entry.bytes;
    if (!sparse && !far) continue;
    (void)guarded([&]() -> Status {
      if (!own.part) {
        ASSIGN_OR_RETURN(own.part, known_part(own.entry));
      }
      ASSIGN_OR_RETURN(own, moved(own.part->map));
      room -= own.entry.bytes;
      return {};
    });
  }
}

// Intervals of this generation, stored anew.
Result<IntervalFile::Own> IntervalFile::moved(const IntervalMap& map) {
  Written written;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kCopied, map.size())));
  std::vector<Extent> extents;
  Bytes bytes = 0;
  const auto copy = [&]() -> Status {
    const Span span{buffer.data(), bytes};
    ASSIGN_OR_RETURN(const Transferred got, read_intervals(*storage_, seen_, extents, {&span, 1}, requests_));
    if (got.bytes < bytes) return refuse(Code::kIo, "the interval file is damaged: intervals behind its end");
    ASSIGN_OR_RETURN(const Appended appended, append(bytes, {&span, 1}));
    PieceList pieces;
    note(extents, appended, written, pieces);
    for (const PieceGroup& group : pieces.groups()) written.log.add_group(group);
    extents.clear();
    bytes = 0;
    return {};
  };
  for (MapCursor cursor(map); !cursor.done(); cursor.next())
    for (Extent left = cursor.piece().range(); !left.empty();) {
      const Bytes length = std::min(left.length, static_cast<Bytes>(buffer.size()) - bytes);
      extents.push_back({left.offset, length});
      left = {left.offset + length, left.length - length};
      bytes += length;
      if (bytes == static_cast<Bytes>(buffer.size())) RETURN_IF_ERROR(copy());
    }
  if (bytes > 0) RETURN_IF_ERROR(copy());
  return make_own(written.log.merged(), sums_of(written.fragments));
}

// Of a line that is this rank's.
Result<std::shared_ptr<const Part>> IntervalFile::known_part(const PartEntry& entry) {
  for (const std::size_t i : own_parts_)
    if (seen_.generation->root().parts[i].metadata == entry.metadata) return seen_.generation->part(i, *storage_);
  return refuse(Code::kOther, "a part of an interval file is not this process's");
}

// A part is merged into the one before it where it is not much smaller, so that a process's parts are few, and a piece
// of metadata is written again only a few times, however often is committed.
Status IntervalFile::merge_small(std::vector<Own>& parts) {
  const auto bytes_of = [](const Own& own) {
    return own.changed ? static_cast<Bytes>(own.part->map.encoded().size() + 4 * own.part->sums.size())
                       : own.entry.metadata.length;
  };
  while (parts.size() > 1 && parts.back().changed && 2 * bytes_of(parts.back()) >= bytes_of(parts[parts.size() - 2])) {
    Own last = std::move(parts.back());
    parts.pop_back();
    Own& before = parts.back();
    if (!before.part) {
      ASSIGN_OR_RETURN(before.part, known_part(before.entry));
    }
    std::vector<Fragment> cells;
    for (const Own* own : {&before, &last})
      each_cell(own->entry.runs, own->part->sums, [&](Extent cell, std::uint32_t sum) {
        cells.push_back({cell, sum});
      });
    before = make_own(overlaid(last.part->map, before.part->map), sums_of(std::move(cells)));
  }
  return {};
}

// The metadata that are to be stored.
void IntervalFile::encode_parts(std::vector<Own>& parts) const {
  for (Own& own : parts) {
    if (own.changed) {
      own.metadata = encode(*own.part);
      own.entry.sum = crc32c(own.metadata);
    } else if (in_tail(own.entry.metadata)) {
      const auto stored = tail_part(seen_.generation->tail(), own.entry.metadata);
      own.metadata.assign(stored.begin(), stored.end());
    }
  }
}

// Gives them their places.
Status IntervalFile::place(std::vector<Own>& parts) {
  for (Own& own : parts) {
    if (own.metadata.empty()) continue;
    ASSIGN_OR_RETURN(own.entry.metadata, allocate_whole(std::ssize(own.metadata)));
  }
  return {};
}

// Writes the metadata, and rank 0 the root, where they are not the header's tail; then they and the data are durable.
Status IntervalFile::store(const std::vector<Own>& parts, const Next& next, Flush& flush, Extent& root_place) {
  std::vector<Extent> extents;
  std::vector<Span> memory;
  const auto add = [&](Extent extent, const std::vector<std::byte>& bytes) {
    extents.push_back(extent);
    memory.push_back({const_cast<std::byte*>(bytes.data()), extent.length});
  };
  if (!next.tail.empty()) {
    const Bytes length = std::ssize(next.encoded);
    root_place = {kHeaderBytes + std::ssize(next.tail) - length, length};
  } else {
    for (const Own& own : parts)
      if (!own.metadata.empty()) add(own.entry.metadata, own.metadata);
    if (group_.rank() == 0) {
      ASSIGN_OR_RETURN(root_place, allocate_whole(std::ssize(next.encoded)));
      stored_size_ = std::max(stored_size_, root_place.end());
      add(root_place, next.encoded);
    }
  }
  if (!extents.empty()) RETURN_IF_ERROR(storage_->writev(extents, memory));
  flush.worker.wait();
  RETURN_IF_ERROR(flush.done);
  durable_ = flush.covers.value_or(durable_);
  const bool more = appends_ != durable_ || !extents.empty();
  if (more) flush.done = storage_->sync();
  if (flush.done) durable_ = appends_;
  return flush.done;
}

// On rank 0: makes `next` the newest generation. While that becomes durable it asks beside whether anybody reads an older one:
// nobody comes to do so any more. `again`: an earlier try may have made one of this number the newest, which somebody may read.
Status IntervalFile::finish(const Next& next, bool again, Flush& flush, Finished& told) {
  const Root& root = next.root;
  const std::vector<std::byte> slot = encode_slot(
      {.generation = root.generation, .root = told.root, .root_sum = crc32c(next.encoded), .tail = next.tail});
  told.broken = true;
  if (const auto written = storage_->write({slot_of(root.generation), std::ssize(slot)}, slot.data()); !written) {
    // Of what a full disk has of it, a first copy may be whole.
    const auto newest = guarded([&]() -> Result<Header> {
      ASSIGN_OR_RETURN(const Head head, Head::read(*storage_));
      return head.newest();
    });
    told.broken = !newest || newest->generation >= root.generation;
    return fail(written.error());
  }
  const std::uint64_t first = root.generation + (again ? 1 : 0);
  const auto ask = [this, &flush, first] { flush.unread = nobody_reads_before(first); };
  is_far() ? flush.worker.post_or_run(ask) : ask();
  const Status durable = storage_->sync();
  flush.worker.wait();
  RETURN_IF_ERROR(durable);
  told.reuse = flush.unread;
  RETURN_IF_ERROR(settle_space(root, told));
  told.broken = false;
  return {};
}

}  // namespace stridio
