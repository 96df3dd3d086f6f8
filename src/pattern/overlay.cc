// A window of the file and the patterns that have bytes in it are cut until every piece is simple:
//  1. A pattern that covers the window is set aside: it owns whatever else is found there.
//  2. Patterns whose bounds do not meet are looked at apart; one that is alone is a result as it stands.
//  3. Where the runs are no more than the patterns' structure, they are merged.
//  4. Where all are strided, the part of the window in which all recur with the least common multiple of their strides is
//     worked out for one such period, and the results repeat.
//  5. Else the window is cut in two: in the middle of the places where patterns begin or end, or in the middle of the
//     coarsest one's copies, blocks or parts.
// Cutting costs a logarithm; what is found lies in ascending order.
#include "pattern/overlay.h"

#include <map>
#include <numeric>

#include "pattern/node.h"

namespace stridio {

using Node = Pattern::Node;
using Kind = Node::Kind;

// The structure of a pattern at its top.
struct PatternTop {
  static const Node& node(const Pattern& pattern) { return *pattern.node_; }
  // Where the copy or part that holds the middle byte starts, and how long one is on average. A part that holds most bytes
  // stands for the whole. Of a pattern that is no run.
  struct Middle {
    Offset offset;
    Bytes unit;
  };
  static Middle middle(const Pattern& pattern) {
    const Node& node = *pattern.node_;
    const auto copy_at = [&](std::int64_t copies, Bytes unit, Offset at) {
      return Middle{pattern.offset_ + at + node.child->lower, std::max<Bytes>(1, unit / copies)};
    };
    switch (node.kind) {
      case Kind::kStrided: return {pattern.lower() + node.count / 2 * node.stride, node.stride};
      case Kind::kIndexed: {
        const std::int64_t copies = node.before.empty() ? node.blocks() : node.before.back();
        const auto block = node.before.empty() ? copies / 2 : index_of(node.before, copies / 2);
        const std::int64_t copy = node.before.empty() ? 0 : copies / 2 - node.before[static_cast<std::size_t>(block)];
        return copy_at(copies, pattern.upper() - pattern.lower(),
                       node.displacements[static_cast<std::size_t>(block)] + copy * node.stride);
      }
      case Kind::kSequence: {
        const auto index = static_cast<std::size_t>(index_of(node.before, node.size / 2));
        const Pattern part = node.parts[index].shifted(pattern.offset_);
        if (2 * part.size() > node.size && part.node_->kind != Kind::kRun) return middle(part);
        const Offset offset = index > 0 || part.node_->kind != Kind::kRun ? part.lower() : part.upper();
        return {offset, (pattern.upper() - pattern.lower()) / static_cast<Bytes>(node.parts.size())};
      }
      case Kind::kRun: break;
    }
    return {pattern.lower(), 0};
  }

 private:
  static std::int64_t index_of(const std::vector<std::int64_t>& before, std::int64_t position) {
    return std::upper_bound(before.begin(), before.end(), position) - before.begin() - 1;
  }
};

namespace {

using Owners = std::vector<int>;

struct Item {
  int owner;
  Pattern pattern;
};
using Items = std::vector<Item>;

Owners with(const Owners& owners, int more) {
  Owners all = owners;
  all.insert(std::upper_bound(all.begin(), all.end(), more), more);
  return all;
}

// What one set of owners covers, as it is found.
class Collected {
 public:
  void add(Extent range) {
    if (!ranges_.empty() && ranges_.back().end() == range.offset) {
      ranges_.back().length += range.length;
    } else {
      ranges_.push_back(range);
    }
  }
  void add(const Pattern& pattern) {
    if (pattern.contiguous()) return add(pattern.bounds());
    flush();
    parts_.push_back(pattern);
  }
  Pattern take() {
    flush();
    return Pattern::sequence(std::move(parts_));
  }

 private:
  void flush() {
    if (!ranges_.empty()) parts_.push_back(Pattern::extents(ranges_));
    ranges_.clear();
  }
  std::vector<Pattern> parts_;
  std::vector<Extent> ranges_;  // behind the parts
};

class Cutter {
 public:
  explicit Cutter(Bytes& budget) : budget_(budget) {}

  // Finds what is in the window; `base` covers all of it.
  void cut(Extent window, Items items, const Owners& base);
  std::vector<Overlap> take();

 private:
  void cut_group(Extent window, Items items, Owners base);
  bool cut_periods(Extent window, const Items& items, const Owners& base);
  static std::optional<Offset> middle_of(Extent window, const Items& items);
  void merge(Extent window, const Items& items, const Owners& base);
  void give_up(Extent window, const Items& items, const Owners& base);

  Collected& found(const Owners& owners, bool exact) { return found_[{owners, exact}]; }
  void emit(const Owners& owners, Extent range) {
    if (owners.empty() || range.empty()) return;
    budget_ -= static_cast<Bytes>(sizeof range);
    found(owners, true).add(range);
  }
  void emit(const Owners& owners, const Pattern& bytes) {
    if (bytes.contiguous()) return emit(owners, bytes.bounds());
    budget_ -= bytes.footprint();
    found(owners, true).add(bytes);
  }

  Bytes& budget_;
  std::map<std::pair<Owners, bool>, Collected> found_;
};

Items clipped(const Items& items, Extent window) {
  Items inside;
  for (const Item& item : items) {
    if (intersect(item.pattern.bounds(), window).empty()) continue;
    Pattern part = item.pattern.clip(window);
    if (!part.empty()) inside.push_back({item.owner, std::move(part)});
  }
  return inside;
}

void Cutter::give_up(Extent window, const Items& items, const Owners& base) {
  Owners all = base;
  for (const Item& item : items) all = with(all, item.owner);
  found(all, false).add(window);
}

void Cutter::cut(Extent window, Items items, const Owners& base) {
  if (items.empty()) return emit(base, window);
  if (budget_ <= 0 && (items.size() > 1 || !base.empty())) return give_up(window, items, base);
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.pattern.lower() < b.pattern.lower(); });
  Offset at = window.offset;
  for (std::size_t i = 0, next; i < items.size(); i = next) {
    Extent bounds = items[i].pattern.bounds();
    for (next = i + 1; next < items.size() && items[next].pattern.lower() < bounds.end(); ++next)
      bounds.length = std::max(bounds.end(), items[next].pattern.upper()) - bounds.offset;
    emit(base, Extent{at, bounds.offset - at});
    cut_group(bounds,
              {items.begin() + static_cast<std::ptrdiff_t>(i), items.begin() + static_cast<std::ptrdiff_t>(next)},
              base);
    at = bounds.end();
  }
  emit(base, Extent{at, window.end() - at});
}

// Items whose bounds hang together, and make the window.
void Cutter::cut_group(Extent window, Items items, Owners base) {
  std::erase_if(items, [&](const Item& item) {
    const bool covers = item.pattern.size() == window.length;
    if (covers) base = with(base, item.owner);
    return covers;
  });
  if (items.empty()) return emit(base, window);
  if (items.size() == 1 && base.empty()) return emit({items.front().owner}, items.front().pattern);
  if (budget_ <= 0) return give_up(window, items, base);

  std::int64_t runs = 0;
  Bytes structure = 0;
  for (const Item& item : items) {
    runs += item.pattern.runs();
    structure += item.pattern.footprint();
  }
  if (runs <= structure / static_cast<Bytes>(sizeof(Offset))) return merge(window, items, base);
  if (cut_periods(window, items, base)) return;
  const auto middle = middle_of(window, items);
  if (!middle) return merge(window, items, base);
  for (const Extent half : {Extent{window.offset, *middle - window.offset}, Extent{*middle, window.end() - *middle}})
    cut(half, clipped(items, half), base);
}

bool Cutter::cut_periods(Extent window, const Items& items, const Owners& base) {
  Bytes period = 1;
  Offset from = window.offset, to = window.end();
  for (const Item& item : items) {
    const Node& node = PatternTop::node(item.pattern);
    Offset end = item.pattern.upper();
    if (node.kind == Kind::kStrided) {
      const __int128 common = __int128{period} / std::gcd(period, node.stride) * node.stride;
      if (common > window.length / 2) return false;
      period = static_cast<Bytes>(common);
      end = item.pattern.lower() + node.count * node.stride;
    } else if (node.kind != Kind::kRun) {
      return false;
    }
    from = std::max(from, item.pattern.lower());
    to = std::min(to, end);
  }
  const std::int64_t count = (to - from) / period;
  if (count < 2) return false;
  const Extent before{window.offset, from - window.offset}, one{from, period};
  const Extent after{from + count * period, window.end() - from - count * period};
  if (!before.empty()) cut(before, clipped(items, before), base);
  Cutter inner(budget_);
  inner.cut(one, clipped(items, one), base);
  for (const Overlap& each : inner.take()) {
    const Pattern all = Pattern::strided(count, period, each.bytes);
    if (each.exact) {
      emit(each.owners, all);
    } else {
      found(each.owners, false).add(all);
    }
  }
  if (!after.empty()) cut(after, clipped(items, after), base);
  return true;
}

std::optional<Offset> Cutter::middle_of(Extent window, const Items& items) {
  std::vector<Offset> ends;
  for (const Item& item : items)
    for (const Offset end : {item.pattern.lower(), item.pattern.upper()})
      if (end > window.offset && end < window.end()) ends.push_back(end);
  if (!ends.empty()) {
    const auto median = ends.begin() + std::ssize(ends) / 2;
    std::nth_element(ends.begin(), median, ends.end());
    // One near the window's border would take off a copy at a time from strides that do not fit.
    const Bytes border = window.length / 8;
    if (*median >= window.offset + border && *median <= window.end() - border) return *median;
  }
  PatternTop::Middle coarsest{0, 0};
  for (const Item& item : items) {
    const auto middle = PatternTop::middle(item.pattern);
    if (middle.unit > coarsest.unit && middle.offset > window.offset && middle.offset < window.end()) coarsest = middle;
  }
  if (coarsest.unit == 0) return std::nullopt;
  return coarsest.offset;
}

// Run by run.
void Cutter::merge(Extent window, const Items& items, const Owners& base) {
  struct Source {
    int owner;
    RunReader runs;
    Extent run;
    bool inside = false;
    Offset next() const { return inside ? run.end() : run.offset; }
  };
  std::vector<Source> sources;
  sources.reserve(items.size());
  std::vector<Source*> heap;
  for (const Item& item : items) {
    Source& source = sources.emplace_back(Source{item.owner, RunReader(Cursor(item.pattern)), {}});
    source.run = *source.runs.next();
    heap.push_back(&source);
  }
  const auto later = [](const Source* a, const Source* b) { return a->next() > b->next(); };
  std::make_heap(heap.begin(), heap.end(), later);

  Owners owners = base;
  Offset at = window.offset;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Source& source = *heap.back();
    const Offset next = source.next();
    if (budget_ <= 0) return give_up({at, window.end() - at}, items, base);
    emit(owners, Extent{at, next - at});
    at = next;
    if (!source.inside) {
      owners = with(owners, source.owner);
      source.inside = true;
    } else {
      owners.erase(std::lower_bound(owners.begin(), owners.end(), source.owner));
      const auto run = source.runs.next();
      if (!run) {
        heap.pop_back();
        continue;
      }
      source.run = *run;
      source.inside = false;
    }
    std::push_heap(heap.begin(), heap.end(), later);
  }
  emit(base, Extent{at, window.end() - at});
}

std::vector<Overlap> Cutter::take() {
  std::vector<Overlap> all;
  for (auto& [key, collected] : found_) all.push_back({key.first, collected.take(), key.second});
  return all;
}

}  // namespace

std::vector<Overlap> overlay(std::span<const Pattern> patterns, Bytes budget) {
  Items items;
  Extent window;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const Pattern& pattern = patterns[i];
    if (pattern.empty()) continue;
    const Offset begin = items.empty() ? pattern.lower() : std::min(window.offset, pattern.lower());
    const Offset end = items.empty() ? pattern.upper() : std::max(window.end(), pattern.upper());
    window = {begin, end - begin};
    items.push_back({static_cast<int>(i), pattern});
  }
  Cutter cutter(budget);
  cutter.cut(window, std::move(items), {});
  return cutter.take();
}

namespace {

Pattern owned_by(const std::vector<Overlap>& all, const Owners& owners) {
  for (const Overlap& each : all)
    if (each.owners == owners) return each.bytes;
  return {};
}

}  // namespace

Pattern intersect(const Pattern& a, const Pattern& b) {
  const Pattern both[] = {a, b};
  return owned_by(overlay(both), {0, 1});
}

Pattern subtract(const Pattern& from, const Pattern& what) {
  const Pattern both[] = {from, what};
  return owned_by(overlay(both), {0});
}

}  // namespace stridio
