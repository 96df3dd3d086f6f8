// Decoding of interval files from any bytes: either refused, or what is read agrees with what the maps say, in bounded
// time and memory. The first byte says what the others are: a map, a root, a log of a writer's ranks, or numbers of which is
// made, with checksums that are right: a root, a part, a head of any headers, or a file: one whose maps are the fuzzer's bytes, or
// a whole one, which is cut, or over which pieces are written that are not committed, and which is damaged then.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/crc32c.h"
#include "interval/check.h"
#include "interval/generation.h"
#include "interval/read_sums.h"
#include "storage/memory.h"

namespace {

using namespace stridio;
using Data = std::vector<std::byte>;

constexpr Offset kMostStored = kFirstStored + (1 << 16);  // what is committed lies before,
constexpr Offset kMostWritten = kMostStored + (1 << 16);  // and what is not, before this
constexpr int kMostPieces = 2000;
const SummedRequests kByCalls{.longest_read = 3 * kCell}, kByMappings{.least_mapped = 2 * kCell};

void check(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

std::vector<Piece> pieces_of(const IntervalMap& map) {
  std::vector<Piece> pieces;
  for (MapCursor cursor(map); !cursor.done(); cursor.next()) pieces.push_back(cursor.piece());
  return pieces;
}

// Its pieces again, by groups and in a list.
void check_groups(const IntervalMap& map) {
  const std::vector<Piece> pieces = pieces_of(map);
  MapBuilder builder, by_groups;
  WriteLog log;
  for (const Piece& piece : pieces) builder.add(piece);
  for (MapCursor cursor(map); !cursor.done(); cursor.next_group()) {
    by_groups.add_group(cursor.group());
    log.add_group(cursor.group());
  }
  const IntervalMap again = builder.finish();
  check(pieces_of(by_groups.finish()) == pieces_of(again), "groups are added as their pieces are");
  check(pieces_of(log.merged()) == pieces_of(again), "a log has the groups that it was told");
  PieceList list;
  for (const Piece& piece : pieces) list.add(piece);
  std::vector<Piece> listed;
  for (const PieceGroup& group : list.groups())
    for (std::int64_t i = 0; i < group.count; ++i) listed.push_back(group.at(i));
  check(listed == pieces && list.count() == std::ssize(pieces), "a list has the pieces in their order");
  check(list.bounds() == map.bounds(), "a list lies where its pieces do");
}

// Forth and back by one cursor.
void check_seeks(const IntervalMap& map) {
  const std::vector<Piece> pieces = pieces_of(map);
  MapCursor cursor(map);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t at = i * 7919 % pieces.size();
    cursor.seek(at > 0 ? pieces[at - 1].end() : 0);
    check(!cursor.done() && cursor.piece() == pieces[at], "the first piece that ends behind an offset is found");
  }
  cursor.seek(map.bounds().end());
  check(cursor.done(), "no piece ends behind the last");
}

// In the runs that its pieces make, and in no less.
void check_stored(const IntervalMap& map) {
  std::vector<Extent> stored, runs;
  for (const Piece& piece : pieces_of(map)) stored.push_back(piece.stored_range());
  std::ranges::sort(stored, {}, &Extent::offset);
  for (const Extent& each : stored) {
    if (runs.empty() || runs.back().end() < each.offset)
      runs.push_back(each);
    else
      runs.back().length = std::max(runs.back().end(), each.end()) - runs.back().offset;
  }
  check(map.stored_within(runs), "a map is stored where its pieces are");
  for (std::size_t i = 0; i < std::min<std::size_t>(runs.size(), 50); ++i) {
    auto less = runs;
    if (--less[i].length == 0) less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    check(!map.stored_within(less), "a piece that is stored outside the runs is seen");
  }
}

void check_map(std::span<const std::byte> bytes) {
  const auto map = IntervalMap::decode({bytes.begin(), bytes.end()});
  if (!map) return;
  Offset end = 0;
  Bytes size = 0;
  MapBuilder builder;
  MapCursor cursor(*map);
  int left = kMostPieces;
  for (; !cursor.done() && left > 0; cursor.next(), --left) {
    const Piece piece = cursor.piece();
    check(piece.length > 0 && piece.logical >= end && piece.stored >= 0, "pieces ascend and are disjoint");
    check(piece.end() <= map->bounds().end() && piece.logical >= map->bounds().offset, "pieces lie within the bounds");
    end = piece.end();
    size += piece.length;
    builder.add(piece);
    MapCursor found(*map);
    found.seek(piece.end() - 1);
    check(!found.done() && found.piece() == piece, "a piece is found by its last byte");
  }
  check(cursor.done() ? size == map->size() : size <= map->size(), "the size is that of the pieces");
  const IntervalMap again = builder.finish();
  check(again.size() == size, "a map can be made of what was read");
  if (!cursor.done()) return;
  check(without(*map, again).empty() && overlaid(*map, again).size() == size, "it is the same map");
  const Offset middle = map->bounds().offset + map->bounds().length / 2;
  check(below(*map, middle).size() + without(*map, below(*map, middle)).size() == size, "a map can be cut");
  check_groups(*map);
  check_seeks(*map);
  check_stored(*map);
}

// Little numbers out of the fuzzer's bytes; 0 when there are no more.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Bytes number() {
    const auto low = take(1), high = take(1);
    return (low.empty() ? 0 : static_cast<Bytes>(low[0])) | (high.empty() ? 0 : static_cast<Bytes>(high[0]) << 8);
  }
  std::span<const std::byte> take(Bytes length) {
    const auto taken = bytes_.first(std::min(bytes_.size(), static_cast<std::size_t>(length)));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

const Data& stored_bytes() {
  static const Data stored = [] {
    Data data(kMostWritten);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    return data;
  }();
  return stored;
}

// Pieces at or behind `at`, stored in these runs.
IntervalMap draw_map(Input& in, std::span<const Extent> runs, Offset& at) {
  MapBuilder builder;
  Bytes room = 0;  // a part maps no more than it stores
  for (const Extent& run : runs) room += run.length;
  for (Bytes pieces = 1 + in.number() % 20; pieces > 0; --pieces) {
    const Extent run = runs[static_cast<std::size_t>(in.number()) % runs.size()];
    const Offset from = in.number() % run.length;
    const Piece piece{at + in.number() % 2000, std::min<Bytes>(1 + in.number() % 20000, run.length - from),
                      run.offset + from};
    for (Bytes again = 1 + in.number() % 3; again > 0 && piece.length <= room; --again, room -= piece.length)
      builder.add({std::max(builder.empty() ? at : builder.end(), piece.logical), piece.length, piece.stored});
    if (!builder.empty()) at = builder.end();
  }
  return builder.finish();
}

const Offset kHeaderAt = slot_of(kBirth + 1);

struct File {
  std::unique_ptr<Storage> storage = open_memory(make_memory_file());
  Root root{.generation = kBirth + 1, .size = 0, .processes = 2, .parts = {}};
  std::vector<IntervalMap> maps;
  Extent header_place;
  Extent root_place;  // empty: in the header's tail, as the metadata are
};

// A file of a few processes, with runs as drawn; the maps are the fuzzer's bytes, or such as fit.
std::optional<File> make_file(Input& in, bool any_maps) {
  File file;
  check(file.storage->write({0, kMostWritten}, stored_bytes().data()).has_value(), "memory can be written");
  Data tail;
  bool has_tail = in.number() % 2 == 0;
  Offset next = kFirstStored, end = kMostWritten, logical = 0;
  for (Bytes parts = 1 + in.number() % 3; parts > 0; --parts) {
    PartEntry entry;
    Sums sums;
    for (Bytes runs = in.number() % 4; runs >= 0; --runs) {
      const Extent run{next + in.number() % 4096, 1 + in.number() % 20000};
      if (run.end() > kMostStored) return std::nullopt;
      next = run.end() + 1;
      for (Offset at = run.offset; at < run.end(); at = cell_at(run, at).end()) {
        const Extent cell = cell_at(run, at);
        const auto bytes = std::span(stored_bytes()).subspan(static_cast<std::size_t>(cell.offset));
        const Bytes half = cell.length / 2;  // sums of what writes put into a cell are joined
        if (half > 0) sums.add({cell.offset, half}, crc32c(bytes.first(static_cast<std::size_t>(half))));
        sums.add({cell.offset + half, cell.length - half},
                 crc32c(bytes.subspan(static_cast<std::size_t>(half), static_cast<std::size_t>(cell.length - half))));
      }
    }
    entry.runs = sums.runs;
    Part part{.map = {}, .sums = sums.sums};
    if (any_maps) {
      const auto bytes = in.take(in.number());
      auto map = IntervalMap::decode({bytes.begin(), bytes.end()});
      if (!map || map->empty()) return std::nullopt;
      part.map = *map;
    } else {
      part.map = draw_map(in, entry.runs, logical);
      if (part.map.empty()) return std::nullopt;
    }
    file.maps.push_back(part.map);
    entry.bounds = part.map.bounds();
    entry.bytes = part.map.size();
    file.root.size = std::max(file.root.size, entry.bounds.end());
    const Data metadata = encode(part);
    entry.metadata = {has_tail ? kHeaderBytes + std::ssize(tail) : end, std::ssize(metadata)};
    entry.sum = crc32c(metadata);
    if (has_tail) {
      tail.insert(tail.end(), metadata.begin(), metadata.end());
    } else {
      end = entry.metadata.end();
      check(file.storage->write(entry.metadata, metadata.data()).has_value(), "memory can be written");
    }
    file.root.parts.push_back(entry);
  }
  const Data bytes = encode(file.root);
  Header header{.generation = kBirth + 1,
                .root = {has_tail ? kHeaderBytes + std::ssize(tail) : end, std::ssize(bytes)},
                .root_sum = crc32c(bytes)};
  if (has_tail) {
    tail.insert(tail.end(), bytes.begin(), bytes.end());
    if (std::ssize(tail) > kMostTail) return std::nullopt;
    header.tail = std::move(tail);
  } else {
    check(file.storage->write(header.root, bytes.data()).has_value(), "memory can be written");
    file.root_place = header.root;
  }
  const Data head = encode(header);
  file.header_place = {kHeaderAt, std::ssize(head)};
  check(file.storage->write(file.header_place, head.data()).has_value(), "memory can be written");
  return file;
}

// Refused, or read as the maps say.
void check_any_maps(Input in) {
  const auto file = make_file(in, true);
  if (!file) return;
  const auto generation = Generation::newest(*file->storage);
  if (!generation) return;
  const auto found = check_interval_file(*file->storage);
  check(found.has_value(), "it can be checked");
  const Intervals from{*generation, file->root.size, file->root.size, {}};
  for (std::size_t i = 0; i < file->maps.size(); ++i) {
    const bool fits = file->maps[i].stored_within(file->root.parts[i].runs);
    check((*generation)->part(i, *file->storage).has_value() == fits,
          "metadata are read where they fit, and only there");
    check(fits || !found->damage.empty(), "what does not fit is damage");
    int left = 50;
    for (MapCursor cursor(file->maps[i]); !cursor.done() && left > 0; cursor.next(), --left) {
      const Piece piece = cursor.piece();
      const Extent wanted{piece.logical, std::min<Bytes>(piece.length, 1000)};
      Data read(static_cast<std::size_t>(wanted.length));
      const Span span{read.data(), wanted.length};
      const auto moved =
          read_intervals(*file->storage, from, {&wanted, 1}, {&span, 1}, i % 2 == 0 ? kByCalls : kByMappings);
      if (!found->damage.empty()) continue;
      check(moved && moved->bytes == wanted.length, "a whole file is read");
      check(std::equal(read.begin(), read.end(), stored_bytes().begin() + piece.stored),
            "what is read is what is stored");
    }
  }
}

void put(const Piece& piece, Data& logical) {
  const Extent part = intersect(piece.range(), {0, static_cast<Bytes>(logical.size())});
  std::copy_n(stored_bytes().begin() + piece.stored + (part.offset - piece.logical), part.length,
              logical.begin() + part.offset);
}

Data logical_file(const File& file) {
  Data bytes(static_cast<std::size_t>(file.root.size));
  for (const IntervalMap& map : file.maps)
    for (MapCursor cursor(map); !cursor.done(); cursor.next()) put(cursor.piece(), bytes);
  return bytes;
}

Result<Data> read_all(Storage& storage, const Intervals& from, const SummedRequests& requests) {
  Data bytes(static_cast<std::size_t>(from.size));
  const Extent all{0, from.size + 10};
  Data beyond(10);
  const std::array<Span, 2> spans{Span{bytes.data(), from.size}, Span{beyond.data(), 10}};
  ASSIGN_OR_RETURN(const Transferred moved, read_intervals(storage, from, {&all, 1}, spans, requests));
  check(moved.bytes == from.size && moved.eof, "the file ends where it says");
  return bytes;
}

// By two, who take turns and verify together.
Result<Data> read_in_turns(Storage& storage, const Intervals& from, Bytes turn, const SummedRequests& requests) {
  Data bytes(static_cast<std::size_t>(from.size));
  std::array<ReadSums, 2> sums;
  for (Offset at = 0; at < from.size; at += turn) {
    const Extent wanted{at, std::min(turn, from.size - at)};
    const Span span{bytes.data() + at, wanted.length};
    ReadSums& own = sums[static_cast<std::size_t>(at / turn % 2)];
    RETURN_IF_ERROR(read_intervals(storage, from, {&wanted, 1}, {&span, 1}, requests, &own));
  }
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    const std::array<Data, 2> told{sums[0].by_rank(2)[rank], sums[1].by_rank(2)[rank]};
    RETURN_IF_ERROR(verify_told(storage, told, requests));
  }
  return bytes;
}

// In the order in which it is stored. Nothing where a block is not right.
Result<std::optional<Data>> read_by_blocks(Storage& storage, std::shared_ptr<Generation> generation) {
  const Bytes size = generation->root().size;
  Data bytes(static_cast<std::size_t>(size));
  const Extent all{0, size};
  const Span span{bytes.data(), size};
  const auto stored = read_blocks(storage, std::move(generation));
  std::vector<StoredPiece> pieces;
  ASSIGN_OR_RETURN(const Transferred found, stored->find({&all, 1}, {&span, 1}, pieces));
  check(found.bytes == size && !found.eof, "all of the file is found");
  Data block(static_cast<std::size_t>(StoredRead::kBlock));
  std::int64_t there = -1;
  for (const StoredPiece& piece : pieces) {
    const std::int64_t number = piece.stored / StoredRead::kBlock;
    check(number < stored->blocks() && (piece.end() - 1) / StoredRead::kBlock == number, "a piece lies in one block");
    check(number >= there, "pieces ascend");
    if (number > there && !stored->fetch(number, block.data())) return std::nullopt;
    there = number;
    std::copy_n(block.begin() + piece.stored % StoredRead::kBlock, piece.length, piece.data);
  }
  return bytes;
}

// Whatever it says, its checksums are right; until a bit of it is wrong.
void check_header(Input in) {
  Header header{.generation = static_cast<std::uint64_t>(in.number()),
                .root = {in.number() % 2 == 0 ? in.number() : kFirstStored + in.number(), in.number()},
                .root_sum = static_cast<std::uint32_t>(in.number())};
  const auto tail = in.take(in.number());
  header.tail.assign(tail.begin(), tail.end());
  const Data bytes = encode(header);
  const auto decoded = decode_header(bytes);
  if (!decoded) return;
  check(encode(*decoded) == bytes, "a header is coded in one way");
  check(in_tail(decoded->root) == !decoded->tail.empty(), "a root is in the tail, or there is none");
  if (in_tail(decoded->root))
    check(std::ssize(tail_part(decoded->tail, decoded->root)) == decoded->root.length, "the tail has all of the root");
  check(tail_behind(bytes) == std::ssize(decoded->tail), "a header says how long its tail is");
  const auto at = static_cast<std::size_t>(in.number()) % bytes.size();
  check(!decode_header(Data(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at))),
        "a cut header is refused");
  Data wrong = bytes;
  wrong[at] ^= static_cast<std::byte>(1 << in.number() % 8);
  check(!decode_header(wrong), "a header with a wrong bit is refused, and so is its tail");
}

bool disjoint(std::span<const Extent> extents) {
  for (std::size_t i = 0; i < extents.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (!intersect(extents[i], extents[k]).empty()) return false;
  return true;
}

// As docs/interval-file-format.md has it.
bool is_right(const Root& root, Bytes tail) {
  std::vector<Extent> stored;
  for (const PartEntry& part : root.parts) {
    const Extent& metadata = part.metadata;
    if (in_tail(metadata) && (metadata.offset < kHeaderBytes || metadata.end() > kHeaderBytes + tail)) return false;
    stored.push_back(metadata);
    Bytes bytes = 0;
    Offset end = kFirstStored - 1;
    for (const Extent& run : part.runs) {
      if (run.empty() || run.offset <= end) return false;
      end = run.end();
      bytes += run.length;
      stored.push_back(run);
    }
    if (part.bytes < 1 || part.bytes > part.bounds.length || part.bytes > bytes) return false;
    if (part.bounds.end() > root.size) return false;
  }
  return disjoint(stored);
}

// A root that is right, or wrong in one way.
Root draw_root(Input& in, Bytes tail) {
  Root root{.generation = static_cast<std::uint64_t>(in.number()), .size = 0, .processes = 2, .parts = {}};
  const Bytes wrong = in.number() % 12;
  Offset next = kFirstStored, next_in_tail = kHeaderBytes;
  for (Bytes parts = in.number() % 4; parts >= 0; --parts) {
    PartEntry entry;
    for (Bytes runs = in.number() % 3; runs >= 0; --runs, next = entry.runs.back().end() + 1) {
      entry.runs.push_back({next + in.number() % 300, 1 + in.number() % 300});
      entry.bytes += entry.runs.back().length;
    }
    entry.bounds = {in.number(), entry.bytes + in.number()};
    entry.bytes -= in.number() % entry.bytes;
    const Bytes length = 1 + in.number() % 300;
    Offset& place = next_in_tail + length <= kHeaderBytes + tail ? next_in_tail : next;
    entry.metadata = {place, length};
    place += length;
    root.size = std::max(root.size, entry.bounds.end());
    root.parts.push_back(entry);
  }
  const auto any = [&]() -> PartEntry& {
    return root.parts[static_cast<std::size_t>(in.number()) % root.parts.size()];
  };
  PartEntry &part = any(), &other = any();
  Extent& run = part.runs[static_cast<std::size_t>(in.number()) % part.runs.size()];
  switch (wrong) {
    case 0: part.metadata.offset = kHeaderBytes + tail - part.metadata.length + in.number() % 300; break;
    case 1: part.metadata.offset = kHeaderBytes - in.number() % 64; break;
    case 2: part.metadata.offset = other.runs.front().end() - 1 + in.number() % 3; break;
    case 3: part.metadata.offset = other.metadata.offset; break;
    case 4: run.offset = other.runs.back().end() - in.number() % 3; break;
    case 5: run.offset -= in.number() % 600; break;
    case 6: run.length = 0; break;
    case 7: part.bytes += in.number(); break;
    case 8: part.bytes = 0; break;
    case 9: root.size -= std::min(root.size, 1 + in.number()); break;
    default: break;
  }
  return root;
}

// Decoded where it is right, and only there.
void check_root(Input in) {
  const Bytes tail = in.number() % (kMostTail + 1);
  const Root root = draw_root(in, tail);
  Data bytes = encode(root);
  const auto decoded = decode_root(bytes, tail);
  check(decoded.has_value() == is_right(root, tail), "a root is decoded where it is right");
  if (!decoded) return;
  check(encode(*decoded) == bytes, "a root is coded in one way");
  Root overlapping = root;
  overlapping.parts.back().metadata.offset = overlapping.parts.back().runs.back().offset;
  check(!decode_root(encode(overlapping), tail), "what is stored does not overlap");
  const auto outside = stored_extents(*decoded);
  check(outside && disjoint(*outside) && std::ranges::is_sorted(*outside, {}, &Extent::offset), "extents ascend");
  check(std::ranges::none_of(*outside, in_tail), "they lie outside the tail");
  for (const Extent& each : *outside) check(each.end() <= decoded->end(), "the file reaches to their end");
  check(!decode_root(Data(bytes.begin(), bytes.end() - 1 - in.number() % std::ssize(bytes)), tail),
        "a cut root is refused");
  constexpr std::size_t kPartsField = 24;
  bytes[kPartsField] ^= static_cast<std::byte>(1 + in.number() % 255);
  check(!decode_root(bytes, tail), "a root has as many parts as it says");
}

// Decoded with the line of the process table that is its own, and with no other.
void check_part(Input in) {
  PartEntry entry;
  for (Bytes runs = in.number() % 3; runs >= 0; --runs) {
    const Offset from = entry.runs.empty() ? kFirstStored : entry.runs.back().end() + 1;
    entry.runs.push_back({from + in.number(), 1 + in.number()});
  }
  Offset at = in.number();
  Part part{.map = draw_map(in, entry.runs, at), .sums = {}};
  if (part.map.empty()) return;
  entry.bounds = part.map.bounds();
  entry.bytes = part.map.size();
  for (const Extent& run : entry.runs)
    for (auto cells = cells_of(run); cells > 0; --cells) part.sums.push_back(static_cast<std::uint32_t>(in.number()));
  Data bytes = encode(part);
  const auto decoded = decode_part(bytes, entry);
  check(decoded && decoded->sums == part.sums && encode(*decoded) == bytes, "a part is read as it was written");
  switch (in.number() % 7) {
    case 0: ++entry.bytes; break;
    case 1: ++entry.bounds.length; break;
    case 2: ++entry.bounds.offset; break;
    case 3:
      for (Extent& run : entry.runs) run.offset += 1024 * kCell;
      break;
    case 4:
      part.sums.pop_back();
      bytes = encode(part);
      break;
    case 5: bytes.resize(static_cast<std::size_t>(in.number()) % bytes.size()); break;
    case 6: bytes[static_cast<std::size_t>(in.number()) % 4] ^= std::byte{1}; break;
  }
  bytes.shrink_to_fit();
  check(!decode_part(bytes, entry), "a part that is not that of its line is refused");
}

constexpr std::array<unsigned char, 8> kMagic = {0x89, 'S', 'I', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kVersionField = 8, kSumField = 60;

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::ranges::equal(bytes.first(kMagic.size()), std::as_bytes(std::span(kMagic)));
}

std::uint32_t u32_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

// What may stand at a header's place.
Data draw_header(Input& in) {
  Data bytes;
  const Bytes kind = in.number() % 7;
  if (kind == 0) return birth_header();
  if (kind == 1 || kind == 2) {
    Header header{.generation = static_cast<std::uint64_t>(1 + in.number() % 6),
                  .root = {kFirstStored + in.number(), 1 + in.number() % 300},
                  .root_sum = static_cast<std::uint32_t>(in.number())};
    if (kind == 1) return encode(header);
    const auto tail = in.take(1 + in.number() % 300);
    header.tail.assign(tail.begin(), tail.end());
    header.root = {kHeaderBytes, std::ssize(tail)};
    return encode(header);
  }
  if (kind == 3 || kind == 4) bytes = birth_header();  // of which is left the magic, and the place of the sum
  if (kind == 5) bytes.assign(std::as_bytes(std::span(kMagic)).begin(), std::as_bytes(std::span(kMagic)).end());
  const auto drawn = in.take(in.number() % (kHeaderBytes - 12));
  if (kind >= 5) {
    bytes.insert(bytes.end(), drawn.begin(), drawn.end());
    return bytes;
  }
  std::ranges::copy(drawn, bytes.begin() + kVersionField);
  const std::uint32_t sum = crc32c(std::span(bytes).first(kSumField));
  for (std::size_t i = 0; i < 4; ++i) bytes[kSumField + i] = static_cast<std::byte>(sum >> (8 * i));
  return bytes;
}

std::string told_by(const Head& head) {
  const auto newest = head.newest();
  std::string told = std::to_string(static_cast<int>(head.content())) + std::to_string(head.is_unfinished());
  if (!newest) return told + newest.error().text();
  const Data bytes = encode(*newest);
  return told.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Head head_of(Storage& storage, bool near) {
  auto head = Head::read(storage, near);
  check(head.has_value(), "a head can be read, whatever it is");
  return *std::move(head);
}

// A head of any headers, in a file that may be cut.
void check_head(Input in) {
  Data file;
  const auto put_header = [&](const Data& header, Bytes place) {
    const auto at = static_cast<std::size_t>(place * kHeaderStep);
    file.resize(std::max(file.size(), at + header.size()));
    std::ranges::copy(header, file.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (Bytes headers = in.number() % (kHeaders + 1), place = 0; place < headers; ++place)
    if (in.number() % 4 != 3) put_header(draw_header(in), place);
  switch (in.number() % 4) {
    case 0: break;
    case 1: file.resize(static_cast<std::size_t>(kFirstStored + in.number())); break;
    case 2: file.resize(static_cast<std::size_t>(in.number() * 3)); break;
    case 3: file.resize(static_cast<std::size_t>(in.number() % 70)); break;
  }
  if (in.number() % 4 == 3 && !file.empty())
    file[static_cast<std::size_t>(in.number() * 3) % file.size()] ^= static_cast<std::byte>(in.number());
  const auto storage = open_memory(make_memory_file());
  check(storage->write({0, std::ssize(file)}, file.data()).has_value(), "memory can be written");

  const Head head = head_of(*storage, false);
  bool begins = false, unknown = false;
  std::uint64_t newest = 0;
  for (std::size_t i = 0; i < kHeaders; ++i) {
    auto place = std::span<const std::byte>(file).subspan(std::min(file.size(), i * kHeaderStep));
    place = place.first(std::min<std::size_t>(place.size(), kHeaderStep));
    if (!has_magic(place)) continue;
    begins = true;
    unknown = unknown || (std::ssize(place) >= kHeaderBytes && u32_at(place, kVersionField) != kIntervalVersion &&
                          u32_at(place, kSumField) == crc32c(place.first(kSumField)));
    if (const auto header = decode_header(place)) newest = std::max(newest, header->generation);
  }
  using enum Head::Content;
  check(head.content() == (file.empty() ? kNothing : begins ? kIntervals : kOther), "a file is known by its magic");
  const auto found = head.newest();
  check(unknown == (!found && found.error().code == Code::kUnsupportedOperation),
        "a version that is not known is refused, and is not taken for damage");
  const Bytes size = std::ssize(file);
  Data born = birth_header();
  born.resize(file.size());
  const bool is_short = size != kHeaderBytes && size < kFirstStored;
  check(head.is_unfinished() == (begins && is_short && (size < kHeaderBytes || file == born)),
        "a file whose making has failed is its birth and zeros, or shorter");
  if (found) {
    check(found->generation == newest, "the newest header counts");
    check(newest > kBirth || !is_short, "a file that is cut is not taken for a new one");
  } else if (!unknown) {
    check(newest <= kBirth, "a valid header is enough");
    check(found.error().code == (begins ? Code::kIo : Code::kBadFileName), "damage is told from another kind of file");
  }

  Head near = head_of(*storage, true);
  check(told_by(near) == told_by(head), "a head that is read in parts tells the same");
  auto again = std::move(near).read_again(*storage);
  check(again && told_by(*again) == told_by(head), "what has not changed tells the same again");
  const Data header = draw_header(in);
  if (begins && has_magic(header)) {
    put_header(header, in.number() % kHeaders);
    check(storage->write({0, std::ssize(file)}, file.data()).has_value(), "memory can be written");
    again = (*std::move(again)).read_again(*storage);
    check(again && told_by(*again) == told_by(head_of(*storage, false)), "a header that comes is seen");
  }
  const auto generation = Generation::newest(*storage);
  check(!generation || (*generation)->root().generation == kBirth || (*generation)->root().end() <= std::ssize(file),
        "a file reaches as far as its root says");
}

// A whole file, cut.
void check_cut(Input in) {
  const auto file = make_file(in, false);
  if (!file) return;
  Storage& storage = *file->storage;
  const Data birth = birth_header();
  if (in.number() % 2 == 0)
    check(storage.write({0, std::ssize(birth)}, birth.data()).has_value(), "memory can be written");
  const Bytes at = (in.number() << 16 | in.number()) % (*storage.size() + 1);
  check(storage.resize(at).has_value(), "memory can be cut");
  check(told_by(head_of(storage, true)) == told_by(head_of(storage, false)), "a cut head tells the same in parts");
  const auto generation = Generation::newest(storage);
  const auto found = check_interval_file(storage);
  check(found && found->damage.empty() == generation.has_value(), "a cut file is refused, or whole");
  const Bytes needed = std::max({file->header_place.end(), file->root.end(), file->root_place.end()});
  check(at < needed || generation, "a file needs no more than it refers to");
  if (!generation) return;
  if ((*generation)->root().generation == kBirth) return check(at == kHeaderBytes, "a new file is its birth alone");
  const Intervals from{*generation, file->root.size, file->root.size, {}};
  const auto read = read_all(storage, from, kByCalls);
  check(read && *read == logical_file(*file), "a cut file reads as it was committed");
}

// The head and the records of a log whose checksums are right.
void check_log(Input in) {
  Data log;
  const auto add = [&](const Data& bytes) { log.insert(log.end(), bytes.begin(), bytes.end()); };
  const auto check_records = [&] {
    const auto records = decode_log(log);
    Data again;
    if (!records) return false;
    for (const LogRecord& each : *records) {
      check(each.written.bounds().end() <= each.size, "what was written lies below the size that it tells");
      const Data bytes = encode(each);
      again.insert(again.end(), bytes.begin(), bytes.end());
    }
    check(again == log, "a record is coded in one way");
    return true;
  };
  for (Bytes records = in.number() % 4; records > 0; --records) {
    const auto bytes = in.take(in.number() % 100);
    const auto map = IntervalMap::decode({bytes.begin(), bytes.end()});
    if (map) add(encode(LogRecord{.size = map->bounds().end() + in.number(), .written = *map}));
  }
  check(check_records(), "records are read as they were written");
  if (!log.empty()) {
    Data wrong = log;
    wrong[static_cast<std::size_t>(in.number()) % wrong.size()] ^= static_cast<std::byte>(1 << in.number() % 8);
    check(!decode_log(wrong), "a record with a wrong bit is refused");
  }
  const auto record = in.take(in.number());
  log.assign(record.begin(), record.end());
  const std::uint32_t sum = crc32c(log);
  for (int i = 0; i < 4; ++i) log.push_back(static_cast<std::byte>(sum >> (8 * i)));
  (void)check_records();
  LogHead wanted{.used = in.number(), .areas = {}};
  for (Bytes areas = in.number() % kMostLogAreas; areas > 0; --areas) wanted.areas.push_back(in.number());
  Data head = encode(wanted);
  const auto decoded = decode_log_head(head);
  check(decoded && decoded->used == wanted.used && decoded->areas == wanted.areas, "a head is read as it was written");
  head[static_cast<std::size_t>(in.number()) % head.size()] ^= std::byte{1};
  check(!decode_log_head(head), "a damaged head is refused");
  (void)decode_log_head(in.take(kLogHeadBytes));
}

std::byte stored_byte(Storage& storage, Offset at) {
  std::byte byte{};
  check(storage.read({at, 1}, &byte).has_value(), "memory can be read");
  return byte;
}

// A bit of its header, its tail or its root is wrong, and right again.
void check_wrong_bits(Input& in, const File& file) {
  for (const Extent& place : {file.header_place, file.root_place}) {
    if (place.empty()) continue;
    const Offset at = place.offset + in.number() % place.length;
    const std::byte right = stored_byte(*file.storage, at),
                    wrong = right ^ static_cast<std::byte>(1 << in.number() % 8);
    check(file.storage->write({at, 1}, &wrong).has_value(), "memory can be written");
    check(!Generation::newest(*file.storage), "a generation with a wrong bit is refused");
    check(file.storage->write({at, 1}, &right).has_value(), "memory can be written");
  }
}

// Cut, and written over.
void check_logs(Input& in, const File& file, Intervals from, const Data& committed) {
  from.cut = from.size = std::min<Bytes>(from.size, in.number() * 4);
  Data seen = committed;
  seen.resize(static_cast<std::size_t>(from.cut));
  WriteLog log;
  for (Bytes writes = in.number() % 30; writes > 0; --writes) {
    const Offset stored = kMostStored + in.number();
    const Piece piece{in.number(), std::min<Bytes>(1 + in.number() % 5000, kMostWritten - stored), stored};
    const PieceGroup group{piece, 1 + in.number() % 3, in.number() % 8000, 0};
    group.count > 1 ? log.add_group(group) : log.add(piece);
    if (group.last().end() > std::ssize(seen)) seen.resize(static_cast<std::size_t>(group.last().end()));
    for (std::int64_t i = 0; i < group.count; ++i) put(group.at(i), seen);
    if (writes % 8 == 3) {
      const Bytes size = std::min<Bytes>(in.number() * 2, static_cast<Bytes>(seen.size()));
      log.cut(size);
      from.cut = std::min(from.cut, size);
      seen.resize(static_cast<std::size_t>(size));
    }
  }
  from.size = static_cast<Bytes>(seen.size());
  const auto layers = log.layers();
  from.layers.assign(layers.begin(), layers.end());
  auto read = read_all(*file.storage, from, kByMappings);
  check(read && *read == seen, "what was written later is read");
  from.layers = {log.merged()};
  read = read_all(*file.storage, from, kByMappings);
  check(read && *read == seen, "a log can be made one map");
  log.clear();
  check(log.empty(), "a log can be emptied");
}

// Another generation takes over what is known of this one; then there is damage.
void check_damage(Input& in, const File& file, Generation& before, const Data& committed) {
  std::vector<Extent> places = {file.header_place};
  if (!file.root_place.empty()) places.push_back(file.root_place);
  for (const PartEntry& part : file.root.parts) {
    if (!in_tail(part.metadata)) places.push_back(part.metadata);
    places.insert(places.end(), part.runs.begin(), part.runs.end());
  }
  for (Bytes changes = 1 + in.number() % 3; changes > 0; --changes) {
    const Extent place = places[static_cast<std::size_t>(in.number()) % places.size()];
    const Offset at = place.offset + in.number() % place.length;
    std::byte byte{};
    if (changes == 3) {
      check(file.storage->resize(at).has_value(), "memory can be cut");
    } else if (file.storage->read({at, 1}, &byte)->bytes == 1) {
      byte ^= static_cast<std::byte>(in.number());
      check(file.storage->write({at, 1}, &byte).has_value(), "memory can be written");
    }
  }
  const auto damaged = Generation::newest(*file.storage);
  if (!damaged) return;
  if (in.number() % 2 == 0) (*damaged)->keep_from(before);
  const Intervals rest{*damaged, file.root.size, file.root.size, {}};
  const auto after = read_all(*file.storage, rest, kByMappings);
  check(!after || *after == committed, "damage is told, or harmless");
  const auto turn = std::max<Bytes>(file.root.size / 50, 1 + in.number() % 5000);
  const auto together = read_in_turns(*file.storage, rest, turn, in.number() % 2 == 0 ? kByCalls : kByMappings);
  check(!together || *together == committed, "damage is told to those who read together, or harmless");
  const auto of_blocks = read_by_blocks(*file.storage, *damaged);
  check(!of_blocks || !*of_blocks || **of_blocks == committed, "damage makes a block wrong, or is harmless");
}

void check_whole(Input in) {
  const auto file = make_file(in, false);
  if (!file) return;
  const auto generation = Generation::newest(*file->storage);
  check(generation.has_value(), "a whole file is opened");
  check(check_interval_file(*file->storage)->damage.empty(), "a whole file is whole");
  const Data committed = logical_file(*file);
  const Intervals from{*generation, file->root.size, file->root.size, {}};
  const auto whole = read_all(*file->storage, from, kByCalls);
  check(whole && *whole == committed, "what is read is what is stored");
  const auto in_turns = read_in_turns(*file->storage, from, std::max<Bytes>(1000, file->root.size / 50), kByMappings);
  check(in_turns && *in_turns == committed, "it is what those read who read together");
  const auto by_blocks = read_by_blocks(*file->storage, *generation);
  check(by_blocks && *by_blocks == committed, "it is what those read who read by blocks");
  check(file->root.live() <= static_cast<Bytes>(committed.size()), "no byte has two places");
  check_wrong_bits(in, *file);
  check_logs(in, *file, from, committed);
  check_damage(in, *file, **generation, committed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 9) {
    case 0: check_map(bytes); break;
    case 1: {
      Data root = encode(Root{});
      root.resize(4);
      root.insert(root.end(), bytes.begin(), bytes.end());
      for (const Bytes tail : {Bytes{0}, kMostTail})
        if (const auto decoded = decode_root(root, tail)) check(encode(*decoded) == root, "a root is coded in one way");
      (void)decode_header(bytes);
      check_header(Input(bytes));
      break;
    }
    case 2: check_any_maps(Input(bytes)); break;
    case 3: check_whole(Input(bytes)); break;
    case 4: check_log(Input(bytes)); break;
    case 5: check_root(Input(bytes)); break;
    case 6: check_part(Input(bytes)); break;
    case 7: check_head(Input(bytes)); break;
    case 8: check_cut(Input(bytes)); break;
  }
  return 0;
}
