// One agreement, and one exchange there and back:
//  1. All ranks agree on the range that describes the whole file: until all views repeat, and then one period, the least
//     common multiple of the extents. (Where that is too long, some tiles, and all that follows counts as shared by
//     all.) And on the managers: so many that each has its share of the views' structure, with equal parts of the range as
//     domains.
//  2. Each rank sends each manager its view cut to the manager's domain, encoded: structure, not lists.
//  3. The manager lays the views over each other, gives each set of sharers a lock, and tells each rank its shared parts.
#include "interval/sets.h"

#include <cstring>
#include <numeric>

#include "base/guarded.h"
#include "group/levels.h"
#include "group/parcels.h"
#include "pattern/overlay.h"

namespace stridio {
namespace {

constexpr Offset kFarthest = Offset{1} << 61;
constexpr Bytes kStructureOfAManager = 4 << 10;  // encoded: of a hundred regular views
constexpr int kMostTilesAPeriod = 64;            // of the longest extent; what repeats later counts as what never does
constexpr int kTilesWithoutPeriod = 4;

// A view of which each tile lies behind the one before.
struct Tiles {
  Offset start = 0;
  Pattern tile;  // from 0 on
  Bytes extent = 1;

  Pattern below(Offset end) const {
    if (tile.empty() || end <= start) return {};
    return Pattern::strided((end - start + extent - 1) / extent, extent, tile).shifted(start).clip({0, end});
  }
};

Tiles tiles_of(const TiledView& view) {
  if (view.tile.empty()) return {};
  const Offset lower = view.tile.lower();
  const Offset displacement = std::min(view.displacement, std::numeric_limits<Offset>::max() - lower);
  Tiles tiles{displacement + lower, view.tile.shifted(-lower), std::min(view.extent, kFarthest)};
  // Where tiles reach into each other, or a tile into itself, all that follows counts as the view's.
  if (!tiles.tile.ascending() || tiles.tile.upper() > tiles.extent || tiles.tile.size() == tiles.extent)
    return {tiles.start, Pattern::run(0, 1), 1};
  // A vector whose extent continues it repeats with its stride.
  const Pattern two = Pattern::strided(2, tiles.extent, tiles.tile);
  Cursor cursor(two);
  const Nest& nest = cursor.peek();
  if (nest.size == two.size() && nest.depth > 0 && !nest.outer().table &&
      nest.outer().count * nest.outer().stride == 2 * tiles.extent)
    return {tiles.start, two.slice(0, nest.outer().inside), nest.outer().stride};
  return tiles;
}

// What the ranks agree on; of several ranks together as of one.
struct Summary {
  bool any = false;  // has a view
  Offset first_start = 0;
  Offset repeats_from = 0;  // where what follows could follow a tile before the first
  Bytes period = 1;         // 0: none within reach
  Bytes longest_extent = 1;
  Bytes structure = 0;  // encoded

  void add(const Summary& other) {
    structure += other.structure;
    if (!other.any) return;
    first_start = any ? std::min(first_start, other.first_start) : other.first_start;
    repeats_from = std::max(repeats_from, other.repeats_from);
    longest_extent = std::max(longest_extent, other.longest_extent);
    any = true;
    if (period == 0 || other.period == 0) {
      period = 0;
    } else {
      const __int128 common = __int128{period} / std::gcd(period, other.period) * other.period;
      period = common < kFarthest ? static_cast<Bytes>(common) : 0;
    }
  }
};

Summary sum(std::span<const Summary> all) {
  Summary total;
  for (const Summary& each : all) total.add(each);
  return total;
}

// One value of all ranks', by way of their nodes.
template <typename T, typename Reduce>
Result<T> reduced(Group& group, const T& mine, Reduce reduce) {
  if (group.node_count() == 1) {
    ASSIGN_OR_RETURN(const std::vector<T> all, allgather(group, mine));
    return reduce(all);
  }
  ASSIGN_OR_RETURN(Levels* const levels, group.levels());
  ASSIGN_OR_RETURN(const std::vector<T> here, allgather(levels->node(), mine));
  ASSIGN_OR_RETURN(const std::vector<T> nodes, allgather(*levels, reduce(here)));
  return reduce(nodes);
}

Result<Summary> agree_on_summary(Group& group, const Summary& mine) {
  return reduced(group, mine, [](const std::vector<Summary>& all) { return sum(all); });
}

Status agree_on_success(Group& group, const Status& mine) {
  const auto first_failure = [](const std::vector<Code>& all) {
    const auto failed = std::find_if(all.begin(), all.end(), [](Code code) { return code != Code::kOk; });
    return failed == all.end() ? Code::kOk : *failed;
  };
  ASSIGN_OR_RETURN(const Code worst, reduced(group, mine ? Code::kOk : mine.error().code, first_failure));
  RETURN_IF_ERROR(mine);
  if (worst != Code::kOk) return fail(worst, "another rank could not find its interval sets");
  return {};
}

// The range that describes the file, and who manages what of it. The same on all ranks.
struct Division {
  Offset begin = 0;  // no view has bytes before it
  Offset repeats_from = 0;
  Bytes period = 0;         // 0: nothing follows
  bool dense_tail = false;  // no period was found: all that follows counts as everybody's
  int managers = 1;
  int ranks = 1;

  Division(const Summary& all, int group_size, const IntervalOptions& options) : ranks(group_size) {
    begin = all.first_start;
    repeats_from = all.repeats_from;
    period = all.period;
    const bool too_far = all.period == 0 || all.longest_extent == kFarthest ||
                         all.period / kMostTilesAPeriod > all.longest_extent || repeats_from > kFarthest - all.period;
    if (options.end) {
      repeats_from = std::max(*options.end, begin);
      period = 0;
    } else if (too_far) {
      const __int128 known = __int128{repeats_from} + __int128{kTilesWithoutPeriod} * all.longest_extent;
      repeats_from = static_cast<Offset>(std::min<__int128>(known, kFarthest));
      begin = std::min(begin, repeats_from);
      period = 1;
      dense_tail = true;
    }
    const Bytes by_structure = std::min<Bytes>(all.structure / kStructureOfAManager + 1, end() - begin);
    managers = static_cast<int>(std::clamp<Bytes>(options.managers > 0 ? options.managers : by_structure, 1, ranks));
  }

  Offset end() const { return repeats_from + period; }
  Extent domain(int manager) const {
    const auto cut = [&](int i) { return begin + static_cast<Offset>(__int128{end() - begin} * i / managers); };
    return {cut(manager), cut(manager + 1) - cut(manager)};
  }
  int rank_of(int manager) const { return static_cast<int>(std::int64_t{manager} * ranks / managers); }

  Pattern own(const Tiles& tiles) const {
    if (!dense_tail || tiles.tile.empty()) return tiles.below(end());
    return Pattern::sequence({tiles.below(repeats_from), Pattern::run(repeats_from, period)});
  }
};

// ---- What a manager tells a rank: heads, each with two encoded patterns behind it

struct Head {
  std::uint32_t lock;
  std::uint32_t exact;
  std::uint64_t sharers, bytes;  // lengths
};

void append(Buffer& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Buffer written(std::uint32_t lock, const Overlap& intervals, const Pattern& sharers) {
  const std::vector<std::byte> ranks = sharers.encode(), bytes = intervals.bytes.encode();
  const Head head{lock, intervals.exact, ranks.size(), bytes.size()};
  Buffer all;
  append(all, std::as_bytes(std::span(&head, 1)));
  append(all, ranks);
  append(all, bytes);
  return all;
}

Status read(const Parcel& parcel, std::vector<SharedIntervals>& shared) {
  std::span<const std::byte> left = parcel.bytes;
  const auto take = [&](std::size_t length) {
    const auto part = left.first(std::min(length, left.size()));
    left = left.subspan(part.size());
    return part;
  };
  while (left.size() >= sizeof(Head)) {
    Head head;
    std::memcpy(&head, take(sizeof head).data(), sizeof head);
    ASSIGN_OR_RETURN(Pattern sharers, Pattern::decode(take(head.sharers)));
    ASSIGN_OR_RETURN(Pattern bytes, Pattern::decode(take(head.bytes)));
    shared.push_back({std::move(bytes), std::move(sharers), parcel.peer, head.lock, head.exact != 0});
  }
  return {};
}

Pattern ranks_pattern(std::span<const int> ranks) {
  std::vector<Extent> each;
  for (const int rank : ranks) each.push_back({rank, 1});
  return Pattern::extents(each);
}

// The answers to all ranks whose views came, as many as have shared bytes.
Result<std::vector<Parcel>> classify(std::span<const Parcel> views, Bytes budget) {
  std::vector<Pattern> patterns;
  std::vector<Parcel> answers;
  for (const Parcel& view : views) {
    ASSIGN_OR_RETURN(Pattern pattern, Pattern::decode(view.bytes));
    patterns.push_back(std::move(pattern));
    answers.push_back({view.peer, {}});
  }
  std::uint32_t locks = 0;
  for (const Overlap& intervals : overlay(patterns, budget)) {
    if (intervals.owners.size() < 2) continue;
    std::vector<int> ranks;
    for (const int owner : intervals.owners) ranks.push_back(views[static_cast<std::size_t>(owner)].peer);
    const Buffer answer = written(locks++, intervals, ranks_pattern(ranks));
    for (const int owner : intervals.owners) append(answers[static_cast<std::size_t>(owner)].bytes, answer);
  }
  return answers;
}

}  // namespace

Pattern IntervalSets::private_bytes() const {
  std::vector<Pattern> all = {own_};
  for (const SharedIntervals& each : shared_) all.push_back(each.bytes);
  for (Overlap& each : overlay(all))
    if (each.owners == std::vector<int>{0}) return std::move(each.bytes);
  return {};
}

// A range of the file as ranges of [0, end()).
std::vector<Extent> IntervalSets::folded(Extent range) const {
  std::vector<Extent> parts = {intersect(range, {0, period_ > 0 ? repeats_from_ : end()})};
  const Extent tail = intersect(range, {repeats_from_, std::numeric_limits<Offset>::max() - repeats_from_});
  if (tail.empty() || period_ == 0) return parts;
  const Offset at = (tail.offset - repeats_from_) % period_;
  if (tail.length >= period_) {
    parts.push_back({repeats_from_, period_});
  } else {
    parts.push_back(intersect({repeats_from_ + at, tail.length}, {repeats_from_, period_}));
    parts.push_back({repeats_from_, std::max<Bytes>(0, at + tail.length - period_)});
  }
  return parts;
}

// A rank that fails takes part in all that follows, with nothing.
Result<IntervalSets> cut_intervals(Group& group, const TiledView& view, const IntervalOptions& options) {
  Status status;
  const auto attempt = [&](auto body) {
    auto done = guarded(body);
    if (!done && status) status = fail(done.error());
    return done ? *std::move(done) : typename decltype(done)::value_type();
  };
  Summary mine;
  const Tiles tiles = attempt([&]() -> Result<Tiles> {
    Tiles made = tiles_of(view);
    if (made.tile.empty()) return made;
    const Offset repeats_from = std::max<Offset>(0, made.start - (made.extent - made.tile.upper()));
    mine = {true, made.start, repeats_from, made.extent, made.extent, std::ssize(made.tile.encode())};
    return made;
  });
  ASSIGN_OR_RETURN(const Summary all, agree_on_summary(group, mine));
  const Division division(all, group.size(), options);
  Pattern own;
  const auto views = attempt([&]() -> Result<std::vector<Parcel>> {
    own = division.own(tiles);
    std::vector<Parcel> parts;
    for (int manager = 0; manager < division.managers; ++manager)
      if (const Pattern part = own.clip(division.domain(manager)); !part.empty())
        parts.push_back({division.rank_of(manager), part.encode()});
    return parts;
  });
  ASSIGN_OR_RETURN(const std::vector<Parcel> managed, exchange_parcels(group, views));
  const auto answers = attempt([&] { return classify(managed, options.budget); });
  ASSIGN_OR_RETURN(const std::vector<Parcel> answered, exchange_parcels(group, answers));
  const auto shared = attempt([&]() -> Result<std::vector<SharedIntervals>> {
    std::vector<SharedIntervals> parts;
    for (const Parcel& answer : answered) RETURN_IF_ERROR(read(answer, parts));
    return parts;
  });
  RETURN_IF_ERROR(agree_on_success(group, status));
  return IntervalSets(std::move(own), division.repeats_from, division.period, shared);
}

}  // namespace stridio
