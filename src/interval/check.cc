#include "interval/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <set>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/guarded.h"
#include "base/text.h"
#include "interval/generation.h"

namespace stridio {
namespace {

constexpr std::size_t kShown = 3;  // of places and of ranges; others are counted only

// Stored bytes, ascending, of which neighbours are one.
void append(std::vector<Extent>& places, Extent next) {
  if (!places.empty() && places.back().end() == next.offset)
    places.back().length += next.length;
  else
    places.push_back(next);
}

// "3 .. 5, 7 .. 9 and others up to 20"
std::string listed(std::span<const Extent> ranges, Offset end) {
  const auto shown = ranges.first(std::min(ranges.size(), kShown));
  std::vector<std::string> texts;
  for (const Extent& each : shown) texts.push_back(fmt::format("{} .. {}", each.offset, each.end()));
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     shown.back().end() < end ? fmt::format(" and others up to {}", end) : "");
}

// Which bytes of the user's file are stored at some places: found group by group of a map, as its pieces may be very many.
class Concerned {
 public:
  Concerned(const IntervalMap& map, const std::vector<Extent>& places) {
    for (MapCursor cursor(map); !cursor.done(); cursor.next_group()) add(cursor.group(), places);
  }

  // "20 bytes of the file: 3 .. 5, 7 .. 9 and others up to 40"
  std::string text() const {
    if (bytes_ == 0) return "no bytes of the file";
    return fmt::format("{} of the file: {}", counted(bytes_, "byte"), listed(first_, end_));
  }

 private:
  void add(const PieceGroup& group, const std::vector<Extent>& places) {
    const Bytes length = group.first.length,
                step = group.stored_stride < 0 ? -group.stored_stride : group.stored_stride;
    const bool falls = group.stored_stride < 0;
    const Offset begin = falls ? group.last().stored : group.first.stored,
                 end = begin + (group.count - 1) * step + length;
    auto place = std::upper_bound(places.begin(), places.end(), begin,
                                  [](Offset offset, const Extent& each) { return offset < each.end(); });
    std::vector<Extent> found;
    for (; place != places.end() && place->offset < end; ++place) {
      // The pieces that have some of it, as they are stored.
      std::int64_t low = 0, high = group.count - 1;
      if (step > 0) {
        if (place->offset - begin >= length) low = (place->offset - begin - length) / step + 1;
        high = std::min(high, (place->end() - 1 - begin) / step);
      }
      if (low > high) continue;
      const std::int64_t first = falls ? group.count - 1 - high : low, last = falls ? group.count - 1 - low : high;
      const auto part = [&](std::int64_t i) {
        const Piece piece = group.at(i);
        const Extent stored = intersect(piece.stored_range(), *place);
        return Extent{piece.logical + (stored.offset - piece.stored), stored.length};
      };
      bytes_ += part(first).length + (first < last ? (last - first - 1) * length + part(last).length : 0);
      end_ = std::max(end_, part(last).end());
      if (!falls && group.stride == length)
        found.push_back({part(first).offset, part(last).end() - part(first).offset});
      else if (falls || found.size() <= kShown)
        for (std::int64_t i = first; i <= last && i <= first + static_cast<std::int64_t>(kShown); ++i)
          found.push_back(part(i));
    }
    std::sort(found.begin(), found.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    for (const Extent& each : found)
      if (first_.size() <= kShown) append(first_, each);
  }

  Bytes bytes_ = 0;
  Offset end_ = 0;  // of the last of them
  std::vector<Extent> first_;
};

class Checker {
 public:
  explicit Checker(Storage& storage) : storage_(storage) {}

  // Whether others, who see no pin, have committed since.
  bool is_overtaken() const {
    if (pin_ || generation_ == 0) return false;
    const auto head = Head::read(storage_);
    const auto header = head ? head->newest() : fail(head.error());
    return header && header->generation != generation_;
  }

  Result<Check> run() {
    Bytes size = 0;
    const auto generation = newest(size);
    RETURN_IF_ERROR(headers());
    if (!generation) {
      if (cannot_be_read(generation.error())) return fail(generation.error());
      check_.damage.push_back(generation.error().what);
      return check_;
    }
    const Root& root = (*generation)->root();
    const bool cut = root.generation != kBirth && root.end() > size;
    if (cut)
      check_.damage.push_back(
          fmt::format("the interval file is truncated: it has {} bytes, but data lie up to {}", size, root.end()));
    std::vector<std::shared_ptr<const Part>> parts;
    for (std::size_t i = 0; i < root.parts.size(); ++i) {
      const PartEntry& entry = root.parts[i];
      parts.push_back(nullptr);
      if (!in_tail(entry.metadata) && entry.metadata.end() > size) {
        check_.damage.push_back(fmt::format(
            "of process {}, the map stored at {} .. {} is missing: where its {} between {} and {} are stored is not "
            "known any more",
            entry.process, entry.metadata.offset, entry.metadata.end(), counted(entry.bytes, "byte"),
            entry.bounds.offset, entry.bounds.end()));
        continue;
      }
      auto part = (*generation)->part(i, storage_);
      if (!part && cannot_be_read(part.error())) return fail(part.error());
      if (!part)
        check_.damage.push_back(fmt::format("{}: where its {} between {} and {} are stored is not known any more",
                                            part.error().what, counted(entry.bytes, "byte"), entry.bounds.offset,
                                            entry.bounds.end()));
      if (!part) continue;
      parts.back() = *part;
      RETURN_IF_ERROR(data(entry, **part));
    }
    if (!cut) disjoint(root, parts);
    return check_;
  }

 private:
  static Offset header_at(std::size_t i) { return static_cast<Offset>(i) * kHeaderStep; }

  // Of what is found in the bytes, no system call tells; and what another version has stored is not known.
  static bool cannot_be_read(const Error& error) {
    return error.sys_errno != 0 || error.code == Code::kAccess || error.code == Code::kUnsupportedOperation;
  }

  // The newest generation, be it cut, and the size of what is stored.
  Result<std::shared_ptr<Generation>> newest(Bytes& size) {
    ASSIGN_OR_RETURN(PinnedRoot found, pin_newest(storage_, {}, {.even_if_cut = true}));
    pin_ = std::move(found.pin);
    generation_ = found.header.generation;
    size = found.root.size;
    return Generation::of(std::move(found.header), found.root);
  }

  Status headers() {
    std::array<std::string, kHeaders> wrong;
    std::array<bool, kHeaders> written{};
    std::uint64_t newest = kBirth;
    for (std::size_t i = 0; i < kHeaders; ++i) {
      std::vector<std::byte> bytes(kHeaderStep);
      ASSIGN_OR_RETURN(const Transferred got, storage_.read({header_at(i), kHeaderStep}, bytes.data()));
      bytes.resize(static_cast<std::size_t>(got.bytes));
      const auto head = std::span(bytes).first(std::min<std::size_t>(bytes.size(), kHeaderBytes));
      written[i] = std::any_of(head.begin(), head.end(), [](std::byte byte) { return byte != std::byte{0}; });
      const auto header = decode_header(bytes);
      if (header)
        newest = std::max(newest, header->generation);
      else
        wrong[i] = begins_interval_file(bytes) ? header.error().what : "it does not begin as one";
    }
    const auto note = [&](std::size_t i) {
      if (!wrong[i].empty()) check_.notes.push_back(fmt::format("the header at {}: {}", header_at(i), wrong[i]));
    };
    note(0);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const std::size_t first = 1 + slot * kCopies, second = first + 1;
      static_assert(kCopies == 2);
      if (newest <= kBirth + slot && !written[first] && !written[second]) continue;  // its turn has not come
      note(first);
      note(second);
      if (!wrong[first].empty() && !wrong[second].empty())
        check_.notes.push_back(
            fmt::format("no copy of header slot {} is whole: a commit was cut off, or what it had "
                        "committed is lost and this is the generation before",
                        slot));
    }
    return {};
  }

  Status data(const PartEntry& entry, const Part& part) {
    std::vector<std::byte> buffer(static_cast<std::size_t>(kBuffer));
    std::vector<Extent> missing, wrong;
    std::size_t sum = 0;
    for (const Extent& run : entry.runs) {
      if (!missing.empty()) missing.push_back(run);  // behind what is missing already
      for (Offset at = run.offset; at < run.end() && missing.empty();) {
        const Extent window = intersect(run, {at / kCell * kCell, kBuffer});
        ASSIGN_OR_RETURN(const Transferred got, storage_.read({at, window.end() - at}, buffer.data()));
        for (const Offset begin = at; at < window.end(); ++sum) {
          const Extent cell = cell_at(run, at);
          if (cell.end() - begin > got.bytes) {
            missing.push_back({cell.offset, run.end() - cell.offset});
            break;
          }
          if (crc32c({buffer.data() + (at - begin), static_cast<std::size_t>(cell.length)}) != part.sums[sum])
            append(wrong, cell);
          at = cell.end();
        }
      }
    }
    const auto tell = [&](const std::vector<Extent>& places, const char* what) {
      if (places.empty()) return;
      check_.damage.push_back(fmt::format("of process {}, the data stored at {} {}; they are {}", entry.process,
                                          listed(places, places.back().end()), what,
                                          Concerned(part.map, places).text()));
    };
    tell(missing, "are missing");
    tell(wrong, "have a wrong checksum");
    return {};
  }

  // The pieces of all parts, by where they begin: each with those before it that reach so far.
  void disjoint(const Root& root, const std::vector<std::shared_ptr<const Part>>& parts) {
    using Begin = std::pair<Offset, std::size_t>;  // of the part's next piece
    struct Reach {
      Offset end;
      std::size_t part;
    };
    std::vector<MapCursor> cursors;
    std::priority_queue<Begin, std::vector<Begin>, std::greater<>> next;
    const auto put = [&](std::size_t part) {
      if (!cursors[part].done()) next.emplace(cursors[part].piece().logical, part);
    };
    for (std::size_t i = 0; i < parts.size(); ++i) {
      cursors.emplace_back(parts[i] ? parts[i]->map : IntervalMap());
      put(i);
    }
    std::vector<Reach> open;
    std::set<std::pair<std::size_t, std::size_t>> overlapping;
    while (!next.empty()) {
      const Offset begin = next.top().first;
      const std::size_t part = next.top().second;
      next.pop();
      std::erase_if(open, [&](const Reach& each) { return each.end <= begin; });
      for (const Reach& each : open) overlapping.insert(std::minmax(each.part, part));
      MapCursor& cursor = cursors[part];
      open.push_back({cursor.piece().end(), part});
      cursor.next();
      if (open.size() == 1 && !cursor.done()) {  // what ends before any other part's next piece meets nothing
        if (next.empty()) break;
        if (cursor.piece().logical < next.top().first) cursor.seek(next.top().first);
      }
      put(part);
    }
    for (const auto& [i, k] : overlapping)
      check_.damage.push_back(
          fmt::format("intervals of processes {} and {} overlap", root.parts[i].process, root.parts[k].process));
  }

  static constexpr Bytes kBuffer = 256 * kCell;
  Storage& storage_;
  std::unique_ptr<RangeLock> pin_;
  std::uint64_t generation_ = 0;  // that is checked
  Check check_;
};

}  // namespace

Result<Check> check_interval_file(Storage& storage) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    Checker checker(storage);
    auto check = guarded([&] { return checker.run(); });
    if (!checker.is_overtaken()) return check;
  }
  return fail(
      Error{.code = Code::kIo,
            .what = "the interval file is committed faster than it can be checked, and the file system has no range "
                    "locks by which it could be kept: check it once the program has closed it",
            .path = storage.path()});
}

}  // namespace stridio
