// Decoding of interval files from any bytes: either refused, or what is read agrees with what the maps say, in bounded
// time and memory. The first byte says what the others are: a map, a root, or numbers of which a file is made, whose
// maps are the fuzzer's and whose checksums are right.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/crc32c.h"
#include "interval/check.h"
#include "interval/generation.h"
#include "storage/memory.h"

namespace {

using namespace stridio;
using Data = std::vector<std::byte>;

constexpr Bytes kMostStored = 1 << 16;
constexpr int kMostPieces = 2000;

void check(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
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
  (void)map->stored_within(std::vector<Extent>{{0, 1000}, {2000, 5}, {3000, Bytes{1} << 60}});
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

// A file of a few processes, with runs as drawn, and maps as the fuzzer makes them: refused, or read as they say.
void check_file(Input in) {
  const auto storage = open_memory(make_memory_file());
  static const Data stored = [] {
    Data data(kMostStored);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    return data;
  }();
  check(storage->write({0, kMostStored}, stored.data()).has_value(), "memory can be written");
  Root root{.generation = 1, .size = 0, .processes = 2, .parts = {}};
  Offset next = kFirstStored, end = kMostStored;
  std::vector<IntervalMap> maps;
  for (Bytes parts = 1 + in.number() % 3; parts > 0; --parts) {
    PartEntry entry;
    Part part;
    for (Bytes runs = in.number() % 4; runs >= 0; --runs) {
      const Extent run{next + in.number() % 4096, 1 + in.number() % 20000};
      if (run.end() > kMostStored) return;
      next = run.end() + 1;
      entry.runs.push_back(run);
      for (Offset at = run.offset; at < run.end(); at = cell_at(run, at).end()) {
        const Extent cell = cell_at(run, at);
        part.sums.push_back(crc32c({stored.data() + cell.offset, static_cast<std::size_t>(cell.length)}));
      }
    }
    const auto bytes = in.take(in.number());
    auto map = IntervalMap::decode({bytes.begin(), bytes.end()});
    if (!map || map->empty()) return;
    part.map = *map;
    maps.push_back(*map);
    entry.bounds = map->bounds();
    entry.bytes = map->size();
    root.size = std::max(root.size, entry.bounds.end());
    const Data metadata = encode(part);
    entry.metadata = {end, static_cast<Bytes>(metadata.size())};
    entry.sum = crc32c(metadata);
    end = entry.metadata.end();
    check(storage->write(entry.metadata, metadata.data()).has_value(), "memory can be written");
    root.parts.push_back(entry);
  }
  const Data bytes = encode(root);
  const Header header{.generation = 1, .root = {end, static_cast<Bytes>(bytes.size())}, .root_sum = crc32c(bytes)};
  check(storage->write(header.root, bytes.data()).has_value(), "memory can be written");
  check(storage->write({0, kHeaderBytes}, encode(header).data()).has_value(), "memory can be written");

  const auto generation = Generation::newest(*storage);
  if (!generation) return;
  const auto found = check_interval_file(*storage);
  check(found.has_value(), "it can be checked");
  const Intervals from{*generation, root.size, root.size, {}};
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const bool fits = maps[i].stored_within(root.parts[i].runs);
    check((*generation)->part(i, *storage).has_value() == fits, "metadata are read where they fit, and only there");
    check(fits || !found->damage.empty(), "what does not fit is damage");
    int left = 50;
    for (MapCursor cursor(maps[i]); !cursor.done() && left > 0; cursor.next(), --left) {
      const Piece piece = cursor.piece();
      const Extent wanted{piece.logical, std::min<Bytes>(piece.length, 1000)};
      Data read(static_cast<std::size_t>(wanted.length));
      const Span span{read.data(), wanted.length};
      const auto moved = read_intervals(*storage, from, {&wanted, 1}, {&span, 1});
      if (!found->damage.empty()) continue;
      check(moved && moved->bytes == wanted.length, "a whole file is read");
      check(std::equal(read.begin(), read.end(), stored.begin() + piece.stored), "what is read is what is stored");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 3) {
    case 0:
      check_map(bytes);
      break;
    case 1: {
      Data root = encode(Root{});
      root.resize(4);
      root.insert(root.end(), bytes.begin(), bytes.end());
      if (const auto decoded = decode_root(root)) check(encode(*decoded) == root, "a root is coded in one way");
      (void)decode_header(bytes);
      break;
    }
    case 2:
      check_file(Input(bytes));
      break;
  }
  return 0;
}
