// The bytes of an interval file, as docs/interval-file-format.md has them. Everything here may be handed bytes from
// outside: what is not exactly right is refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interval/map.h"

namespace stridio {

inline constexpr std::uint32_t kIntervalVersion = 4;
// Headers stand at the beginning, one every kHeaderStep bytes: that of the birth, and kSlots slots, each of kCopies that are
// written together.
inline constexpr Bytes kHeaderStep = 32768;
inline constexpr int kSlots = 2, kCopies = 2, kHeaders = 1 + kSlots * kCopies;
inline constexpr Bytes kHeaderBytes = 64;
inline constexpr Bytes kCell = 16384;                        // stored bytes are summed by cells of this grid
inline constexpr Offset kMostBytes = (Offset{1} << 62) - 1;  // of the logical file
inline constexpr Offset kFirstStored = kHeaders * kHeaderStep;
// A writer's own, where its ranks share no memory: how far space is taken, and what they tell each other (LogHead). They mean
// something only while the file is open for writing.
inline constexpr Bytes kLogHeadBytes = 128;
inline constexpr Extent kTaken{kFirstStored - 2048, 8};
inline constexpr Extent kLogHead{kTaken.offset + kTaken.length, kLogHeadBytes};
inline constexpr Extent kWriterLock{Offset{1} << 62, 1};  // no byte of the file: who writes has it locked

// Bytes behind the writer's lock are locks of generations, and behind all those are locks of other kinds.
inline constexpr std::uint64_t kLastGeneration = (std::uint64_t{1} << 60) - 2;
constexpr Extent pin_of(std::uint64_t generation) {
  return {kWriterLock.offset + 1 + static_cast<Offset>(generation), 1};
}
constexpr Extent pins_below(std::uint64_t generation) {
  return {kWriterLock.offset + 1, static_cast<Offset>(generation)};
}

// What a header says: where a generation's root lies. The first generation has none: it is empty. Root and metadata of a small one
// are the header's tail: they stand right behind it, are written and summed with it, and their extents count from it.
struct Header {
  std::uint64_t generation = 0;
  Extent root;
  std::uint32_t root_sum = 0;
  std::vector<std::byte> tail = {};  // the root is in it, or there is none
};
inline constexpr std::uint64_t kBirth = 1;
inline constexpr Bytes kMostTail = kHeaderStep - kHeaderBytes - 2048;
inline bool in_tail(const Extent& extent) { return extent.offset < kFirstStored; }
// It has been checked that it has them.
inline std::span<const std::byte> tail_part(std::span<const std::byte> tail, const Extent& extent) {
  return tail.subspan(static_cast<std::size_t>(extent.offset - kHeaderBytes), static_cast<std::size_t>(extent.length));
}
std::vector<std::byte> encode(const Header& header);
// The one at the beginning, which is the same in all files, for ever.
std::vector<std::byte> birth_header();
// A slot: its copies, and zeros between them.
std::vector<std::byte> encode_slot(const Header& header);
// The one that a generation is written to.
constexpr Offset slot_of(std::uint64_t generation) {
  return (1 + static_cast<Offset>(generation % kSlots) * kCopies) * kHeaderStep;
}
// From the bytes at a header's place, up to kHeaderStep of them. kBadFileName where they do not begin as an interval file's,
// kUnsupportedOperation for a version that is not known, kIo for a damaged header or tail.
Result<Header> decode_header(std::span<const std::byte> bytes);
// How many bytes a header's tail has, as its first kHeaderBytes say, which have not been checked; 0 where they say more than kMostTail.
Bytes tail_behind(std::span<const std::byte> bytes);
// Whether the bytes are those with which a header begins.
bool begins_interval_file(std::span<const std::byte> bytes);

// One line of the process table: intervals of one process, all of them disjoint from those of all other lines.
struct PartEntry {
  std::uint32_t process = 0;
  Extent metadata;  // where the Part lies, which may be the header's tail,
  std::uint32_t sum = 0;
  Extent bounds;             // of its intervals in the logical file
  Bytes bytes = 0;           // in them
  std::vector<Extent> runs;  // where it is stored: ascending, not touching
};

// A generation.
struct Root {
  std::uint64_t generation = 0;
  Bytes size = 0;               // of the logical file
  std::uint32_t processes = 0;  // of the group that wrote it
  std::vector<PartEntry> parts;

  Bytes live() const;  // bytes that it maps
  Offset end() const;  // of what the entries refer to
};
std::vector<std::byte> encode(const Root& root);
// Entries are checked against each other: nothing stored overlaps. `tail`: so many bytes has the header's.
Result<Root> decode_root(std::span<const std::byte> bytes, Bytes tail);
// The entries alone, as processes tell them to each other.
std::vector<std::byte> encode(std::span<const PartEntry> parts);
Result<std::vector<PartEntry>> decode_entries(std::span<const std::byte> bytes, Bytes tail);
// Everything that a root refers to outside the tail, ascending; kIo where any of it overlaps.
Result<std::vector<Extent>> stored_extents(const Root& root);

// The intervals of a PartEntry, and the sums of what is stored: of each run those of its cells, run after run.
struct Part {
  IntervalMap map;
  std::vector<std::uint32_t> sums;
};
std::vector<std::byte> encode(const Part& part);
Result<Part> decode_part(std::span<const std::byte> bytes, const PartEntry& entry);

// The part of `run` that lies in the cell of `offset`, which lies in it.
inline Offset down_to_cell(Offset offset) { return offset / kCell * kCell; }
inline Offset up_to_cell(Offset offset) { return down_to_cell(offset + kCell - 1); }
inline Extent whole_cells(Extent extent) {
  const Offset begin = up_to_cell(extent.offset);
  return {begin, std::max<Bytes>(0, down_to_cell(extent.end()) - begin)};
}
inline Extent cell_at(Extent run, Offset offset) { return intersect(run, {down_to_cell(offset), kCell}); }
inline std::int64_t cells_of(Extent run) { return run.empty() ? 0 : (run.end() - 1) / kCell - run.offset / kCell + 1; }

// What the ranks of a writer that share no memory tell each other between two commits (shared_log.h): records in areas of the
// stored file, and a head beside the header slots that says where.
struct LogHead {
  Bytes used = 0;             // of the areas, one after the other
  std::vector<Offset> areas;  // where they begin
};
inline constexpr std::size_t kMostLogAreas = 7;
std::vector<std::byte> encode(const LogHead& head);
// Zeros are a head of nothing.
Result<LogHead> decode_log_head(std::span<const std::byte> bytes);
// One write, or only that the file is so long now.
struct LogRecord {
  Bytes size = 0;
  IntervalMap written = {};
};
std::vector<std::byte> encode(const LogRecord& record);
Result<std::vector<LogRecord>> decode_log(std::span<const std::byte> bytes);

// What is stored of a part, with its sums.
struct Sums {
  std::vector<Extent> runs;
  std::vector<std::uint32_t> sums;

  // At or behind what was added before; within a cell.
  void add(Extent stored, std::uint32_t sum);
};

// Calls visit(cell, sum) for each cell, ascending.
template <typename Visit>
void each_cell(std::span<const Extent> runs, std::span<const std::uint32_t> sums, Visit visit) {
  std::size_t next = 0;
  for (const Extent& run : runs)
    for (Offset at = run.offset; at < run.end(); at = cell_at(run, at).end()) visit(cell_at(run, at), sums[next++]);
}

}  // namespace stridio
