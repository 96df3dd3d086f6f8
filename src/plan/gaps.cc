// A pattern is walked by nests of loops; a level with `count` copies `stride` bytes apart has count - 1 equal holes for each
// copy of the levels around it.
#include "plan/gaps.h"

#include <bit>
#include <cmath>

namespace stridio {
namespace {

constexpr int kSteps = 512;  // of a walk that may end up with samples
constexpr int kSamples = 16;

class GapCounter {
 public:
  // Walks from `position` on at most `steps` nests or entries of tables; tells the bytes passed.
  Bytes walk(const Pattern& pattern, Bytes position, int steps) {
    Cursor cursor(pattern, position);
    bool first = true;
    Offset end = 0;
    double before = 0;
    while (!cursor.done() && steps > 0) {
      Nest nest = cursor.peek();
      steps -= take_part(nest, steps);
      if (!first) add(nest.offset + (nest.depth > 0 ? nest.outer().place(0) : 0) - end, 1, before);
      first = false;
      end = add_inside(nest, before);
      cursor.skip(nest.size);
    }
    return cursor.position() - position;
  }
  const Gaps& gaps() const { return gaps_; }

 private:
  // Only as many entries of a table as there are steps.
  static int take_part(Nest& nest, int steps) {
    if (nest.depth == 0 || !nest.outer().table) return 1;
    if (nest.outer().count > steps) nest.shorten(nest.outer().inside * steps);
    return static_cast<int>(nest.depth > 0 ? nest.outer().count : 1);
  }

  // The nest's last byte's end; `before`: the bytes of its last run.
  Offset add_inside(const Nest& nest, double& before) {
    std::array<double, Nest::kLevels + 1> around{};  // copies of the levels around
    around[static_cast<std::size_t>(nest.depth)] = 1;
    for (int level = nest.depth - 1; level >= 0; --level)
      around[static_cast<std::size_t>(level)] = around[static_cast<std::size_t>(level + 1)] *
                                                static_cast<double>(nest.levels[static_cast<std::size_t>(level)].count);
    Bytes extent = nest.length;
    before = static_cast<double>(nest.length);
    bool one_run = true;
    Offset start = nest.offset;
    for (int i = 0; i < nest.depth; ++i) {
      const Nest::Level& level = nest.levels[static_cast<std::size_t>(i)];
      const double times = around[static_cast<std::size_t>(i + 1)];
      if (level.table) {
        for (std::int64_t copy = 0; copy + 1 < level.count; ++copy)
          add(level.table[copy + 1] - level.table[copy] - extent, times, before);
        one_run = false;
      } else {
        add(level.stride - extent, times * static_cast<double>(level.count - 1), before);
        one_run = one_run && level.stride == extent;
        if (one_run) before *= static_cast<double>(level.count);
      }
      start += level.place(0);
      extent += level.place(level.count - 1) - level.place(0);
    }
    return start + extent;
  }

  void add(Bytes gap, double times, double before) { gaps_.add(static_cast<double>(gap), times, before); }

  Gaps gaps_;
};

Gaps scaled(Gaps gaps, double scale) {
  for (Gaps::Class& each : gaps.classes) each = {each.count * scale, each.bytes * scale, each.before * scale};
  return gaps;
}

Gaps joined(Gaps sum, const Gaps& more) {
  for (std::size_t i = 0; i < sum.classes.size(); ++i) {
    Gaps::Class& at = sum.classes[i];
    const Gaps::Class& each = more.classes[i];
    at = {at.count + each.count, at.bytes + each.bytes, at.before + each.before};
  }
  return sum;
}

}  // namespace

void Gaps::add(double gap, double count, double before) {
  if (gap < 1 || count <= 0) return;
  Class& at = classes[static_cast<std::size_t>(std::min(kClasses - 1, std::ilogb(gap)))];
  at.count += count;
  at.bytes += count * gap;
  at.before += count * before;
}

double Gaps::count() const { return below(kClasses).count; }

Gaps::Class Gaps::below(int classes_taken) const {
  Class sum;
  for (int i = 0; i < classes_taken; ++i) {
    const Class& each = classes[static_cast<std::size_t>(i)];
    sum = {sum.count + each.count, sum.bytes + each.bytes, sum.before + each.before};
  }
  return sum;
}

Gaps::Class Gaps::shorter_than(Bytes limit) const {
  return below(std::bit_width(static_cast<std::uint64_t>(limit)) - 1);
}

Gaps gaps_of(const Pattern& pattern) {
  GapCounter whole;
  if (whole.walk(pattern, 0, kSteps) == pattern.size()) return whole.gaps();
  GapCounter sampled;
  Bytes seen = 0;
  for (int i = 0; i < kSamples; ++i) seen += sampled.walk(pattern, pattern.size() / kSamples * i, kSteps / kSamples);
  return scaled(sampled.gaps(), static_cast<double>(pattern.size()) / static_cast<double>(seen));
}

Gaps union_gaps_of(std::span<const Pattern> patterns) {
  Offset lower = std::numeric_limits<Offset>::max(), upper = 0;
  for (const Pattern& pattern : patterns) {
    if (pattern.empty()) continue;
    lower = std::min(lower, pattern.lower());
    upper = std::max(upper, pattern.upper());
  }
  // By offset: `steps` runs from each of some offsets on stand for the part up to the next.
  const auto walk = [&](int parts, int steps) -> std::optional<Gaps> {
    Gaps sum;
    for (int part = 0; part < parts; ++part) {
      const Offset from = lower + (upper - lower) / parts * part;
      const Offset to = part + 1 < parts ? lower + (upper - lower) / parts * (part + 1) : upper;
      std::vector<Pattern> cut;
      for (const Pattern& pattern : patterns) cut.push_back(pattern.clip({from, to - from}));
      UnionReader reader(cut);
      Gaps gaps;
      Offset end = from;
      double before = 0;
      for (int step = 0; end < to; ++step) {
        const auto run = reader.next();
        if (run && step == steps) {
          if (parts == 1) return std::nullopt;
          sum = joined(sum, scaled(gaps, static_cast<double>(to - from) / static_cast<double>(run->offset - from)));
          break;
        }
        const Offset next = run ? run->offset : to;
        if (part > 0 || step > 0) gaps.add(static_cast<double>(next - end), 1, before);
        end = run ? run->end() : to;
        before = run ? static_cast<double>(run->length) : 0;
        if (end >= to) sum = joined(sum, gaps);
      }
    }
    return sum;
  };
  if (lower >= upper) return {};
  if (const auto exact = walk(1, kSteps)) return *exact;
  return *walk(kSamples, kSteps / kSamples);
}

}  // namespace stridio
