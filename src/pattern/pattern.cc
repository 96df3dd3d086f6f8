// Construction, facts and algebra of patterns. Every constructor simplifies (one copy is its child, a dense stride
// is a run, evenly spaced displacements are a stride ...), so that equal shapes mostly get equal structures and the
// walk over them meets the longest blocks. All facts are computed once, at construction, from the children's.
#include "pattern/pattern.h"

#include <cassert>

#include "pattern/node.h"

namespace stridio {
namespace {

using Node = Pattern::Node;
using NodePtr = std::shared_ptr<const Node>;
using Kind = Node::Kind;

// The facts of copies of `child` moved by `moves` in turn; the moves' extremes suffice for all but the order.
void bound(Node& node, const Node& child, Offset lowest_move, Offset highest_move, Offset first_move,
           Offset last_move) {
  node.lower = lowest_move + child.lower;
  node.upper = highest_move + child.upper;
  node.first = first_move + child.first;
  node.last = last_move + child.last;
}

bool follows(const Node& child, Bytes step) { return step >= child.upper - child.lower; }
bool starts_after(const Node& child, Bytes step) { return step + child.first >= child.last; }

NodePtr make_strided(std::int64_t count, Bytes stride, const NodePtr& child) {
  if (count == 1) return child;
  auto node = std::make_shared<Node>();
  const Bytes reach = (count - 1) * stride;
  node->size = count * child->size;
  if (child->kind == Kind::kRun && stride == child->size) {
    node->upper = node->size;
    return node;
  }
  if (child->kind == Kind::kStrided && stride == child->count * child->stride)
    return make_strided(count * child->count, child->stride, child->child);
  node->kind = Kind::kStrided;
  node->count = count;
  node->stride = stride;
  node->child = child;
  node->levels = Node::levels_around(*child);
  node->runs = count * child->runs;
  bound(*node, *child, std::min<Offset>(0, reach), std::max<Offset>(0, reach), 0, reach);
  node->ascending = child->ascending && follows(*child, stride);
  node->nondecreasing = child->nondecreasing && starts_after(*child, stride);
  return node;
}

void bound_indexed(Node& node) {
  const Node& child = *node.child;
  const bool blocks = !node.before.empty();
  const Offset first = node.displacements.front();
  Offset lowest = first, highest = first, previous = first;
  Bytes least_step = Bytes{1} << 62;  // from the last copy of a block to the next block
  for (std::int64_t i = 0; i < node.blocks(); ++i) {
    const Offset move = node.displacements[i];
    const Offset last_move = blocks ? move + (node.copies(i) - 1) * node.stride : move;
    lowest = std::min({lowest, move, last_move});
    highest = std::max({highest, move, last_move});
    if (i > 0) least_step = std::min(least_step, move - previous);
    previous = last_move;
  }
  node.ascending = child.ascending && follows(child, least_step) && (!blocks || follows(child, node.stride));
  node.nondecreasing =
      child.nondecreasing && starts_after(child, least_step) && (!blocks || starts_after(child, node.stride));
  bound(node, child, lowest, highest, first, previous);
}

// Runs that the blocks of a dense child are, by touching each other. An empty `counts` means one copy each.
std::int64_t count_runs(const std::vector<Offset>& displacements, const std::vector<std::int64_t>& counts,
                        Bytes child_size) {
  std::int64_t runs = 1;
  for (std::size_t i = 1; i < displacements.size(); ++i) {
    const std::int64_t copies = counts.empty() ? 1 : counts[i - 1];
    runs += displacements[i - 1] + copies * child_size == displacements[i] ? 0 : 1;
  }
  return runs;
}

void join_dense_blocks(std::vector<Offset>& displacements, std::vector<std::int64_t>& counts, Bytes child_size) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < displacements.size(); ++i) {
    if (displacements[kept] + counts[kept] * child_size == displacements[i]) {
      counts[kept] += counts[i];
    } else {
      ++kept;
      displacements[kept] = displacements[i];
      counts[kept] = counts[i];
    }
  }
  displacements.resize(kept + 1);
  counts.resize(kept + 1);
}

void drop_empty_blocks(std::vector<Offset>& displacements, std::vector<std::int64_t>& counts) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    if (counts[i] <= 0) continue;
    displacements[kept] = displacements[i];
    counts[kept++] = counts[i];
  }
  displacements.resize(kept);
  counts.resize(kept);
}

std::optional<Bytes> even_spacing(const std::vector<Offset>& displacements) {
  const Bytes step = displacements[1] - displacements[0];
  for (std::size_t i = 2; i < displacements.size(); ++i)
    if (displacements[i] - displacements[i - 1] != step) return std::nullopt;
  return step;
}

}  // namespace

Pattern::Pattern() {
  static const NodePtr nothing = std::make_shared<Node>();
  node_ = nothing;
}

Pattern::Pattern(Offset offset, std::shared_ptr<const Node> node) : offset_(offset), node_(std::move(node)) {}

Pattern Pattern::run(Offset offset, Bytes length) {
  if (length <= 0) return {};
  auto node = std::make_shared<Node>();
  node->size = node->upper = length;
  return {offset, std::move(node)};
}

Pattern Pattern::strided(std::int64_t count, Bytes stride, const Pattern& child) {
  if (count <= 0 || child.empty()) return {};
  return {child.offset_, make_strided(count, stride, child.node_)};
}

Pattern Pattern::indexed(std::vector<Offset> displacements, std::vector<std::int64_t> counts, Bytes child_stride,
                         const Pattern& child) {
  assert(counts.empty() || counts.size() == displacements.size());
  const auto equal = [&] {
    return std::all_of(counts.begin(), counts.end(), [&](std::int64_t n) { return n == counts.front(); });
  };
  if (!counts.empty()) drop_empty_blocks(displacements, counts);
  if (displacements.empty() || child.empty()) return {};
  const bool single = counts.empty() || (counts.front() == 1 && equal());
  const bool dense = child.node_->kind == Kind::kRun && (single || child_stride == child.size());
  const std::int64_t runs = dense ? count_runs(displacements, counts, child.size()) : 0;
  // Equal blocks are walked faster by a table than by lengths: they are joined where that saves most of them.
  if (dense && (4 * runs <= static_cast<std::int64_t>(displacements.size()) || !equal())) {
    if (counts.empty()) counts.assign(displacements.size(), 1);
    join_dense_blocks(displacements, counts, child.size());
  }

  auto node = std::make_shared<Node>();
  node->child = child.node_;
  node->stride = dense ? child.size() : child_stride;
  if (counts.empty() || equal()) {
    node->child = counts.empty() ? child.node_ : make_strided(counts.front(), node->stride, child.node_);
    node->stride = 0;
    if (displacements.size() == 1) return {child.offset_ + displacements.front(), node->child};
    if (const auto step = even_spacing(displacements))
      return {child.offset_ + displacements.front(),
              make_strided(static_cast<std::int64_t>(displacements.size()), *step, node->child)};
  } else {
    node->before.reserve(counts.size() + 1);
    node->before.push_back(0);
    for (const std::int64_t n : counts) node->before.push_back(node->before.back() + n);
  }
  node->kind = Kind::kIndexed;
  node->displacements = std::move(displacements);
  const std::int64_t copies = node->before.empty() ? node->blocks() : node->before.back();
  node->size = copies * node->child->size;
  node->levels = node->before.empty() ? Node::levels_around(*node->child) : -1;
  node->runs = dense ? runs : copies * node->child->runs;
  bound_indexed(*node);
  return {child.offset_, std::move(node)};
}

Pattern Pattern::extents(std::span<const Extent> extents) {
  std::vector<Offset> displacements;
  std::vector<std::int64_t> lengths;
  displacements.reserve(extents.size());
  lengths.reserve(extents.size());
  for (const Extent& extent : extents) {
    displacements.push_back(extent.offset);
    lengths.push_back(extent.length);
  }
  return indexed(std::move(displacements), std::move(lengths), 1, run(0, 1));
}

Pattern Pattern::sequence(std::vector<Pattern> parts) {
  std::erase_if(parts, [](const Pattern& part) { return part.empty(); });
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts.front();
  const auto is_run = [](const Pattern& part) { return part.node_->kind == Kind::kRun; };
  if (std::all_of(parts.begin(), parts.end(), is_run)) {
    std::vector<Extent> runs;
    runs.reserve(parts.size());
    for (const Pattern& part : parts) runs.push_back({part.offset_, part.size()});
    return extents(runs);
  }
  const auto same_node = [&](const Pattern& part) { return part.node_ == parts.front().node_; };
  if (std::all_of(parts.begin(), parts.end(), same_node)) {
    std::vector<Offset> displacements;
    for (const Pattern& part : parts) displacements.push_back(part.offset_);
    return indexed(std::move(displacements), {}, 0, {0, parts.front().node_});
  }

  auto node = std::make_shared<Node>();
  node->kind = Kind::kSequence;
  node->levels = -1;
  node->runs = 0;
  node->before.push_back(0);
  node->lower = parts.front().lower();
  node->upper = parts.front().upper();
  node->first = parts.front().offset_ + parts.front().node_->first;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Pattern& part = parts[i];
    node->before.push_back(node->before.back() + part.size());
    node->runs += part.runs();
    node->ascending = node->ascending && part.ascending() && (i == 0 || part.lower() >= node->upper);
    node->nondecreasing =
        node->nondecreasing && part.nondecreasing() && (i == 0 || part.offset_ + part.node_->first >= node->last);
    node->lower = std::min(node->lower, part.lower());
    node->upper = std::max(node->upper, part.upper());
    node->last = part.offset_ + part.node_->last;
  }
  node->size = node->before.back();
  node->parts = std::move(parts);
  return {0, std::move(node)};
}

Pattern Pattern::shifted(Offset delta) const { return {offset_ + delta, node_}; }
Bytes Pattern::size() const { return node_->size; }
Offset Pattern::lower() const { return empty() ? 0 : offset_ + node_->lower; }
Offset Pattern::upper() const { return empty() ? 0 : offset_ + node_->upper; }
std::int64_t Pattern::runs() const { return empty() ? 0 : node_->runs; }
bool Pattern::ascending() const { return node_->ascending; }
bool Pattern::nondecreasing() const { return node_->nondecreasing; }

namespace {

Bytes node_footprint(const Node& node) {
  Bytes total = sizeof(Node);
  total += static_cast<Bytes>(node.displacements.size() * sizeof(Offset) + node.before.size() * sizeof(Bytes));
  if (node.child) total += node_footprint(*node.child);
  for (const Pattern& part : node.parts) total += part.footprint();
  return total;
}

// The bytes of copies of `child` at 0, stride, 2 stride ... that lie below `offset`.
template <typename Below>
Bytes strided_below(std::int64_t count, Bytes stride, const Node& child, Offset offset, Below below) {
  if (offset <= child.lower) return 0;
  const std::int64_t index = stride > 0 ? std::min(count - 1, (offset - child.lower) / stride) : 0;
  return index * child.size + below(child, offset - index * stride);
}

Bytes node_below(const Node& node, Offset offset) {
  if (offset <= node.lower) return 0;
  if (offset >= node.upper) return node.size;
  switch (node.kind) {
    case Kind::kRun: return offset;
    case Kind::kStrided: return strided_below(node.count, node.stride, *node.child, offset, node_below);
    case Kind::kIndexed: {
      const auto after =
          std::upper_bound(node.displacements.begin(), node.displacements.end(), offset - node.child->lower);
      if (after == node.displacements.begin()) return 0;
      const std::int64_t block = after - node.displacements.begin() - 1;
      const std::int64_t before = node.before.empty() ? block : node.before[block];
      return before * node.child->size + strided_below(node.copies(block), node.stride, *node.child,
                                                       offset - node.displacements[block], node_below);
    }
    case Kind::kSequence: {
      const auto after = std::partition_point(node.parts.begin(), node.parts.end(),
                                              [&](const Pattern& part) { return part.lower() < offset; });
      const std::int64_t part = after - node.parts.begin() - 1;
      return node.before[part] + node.parts[part].bytes_below(offset);
    }
  }
  return 0;
}

}  // namespace

Bytes Pattern::footprint() const { return static_cast<Bytes>(sizeof(Pattern)) + node_footprint(*node_); }

Bytes Pattern::bytes_below(Offset offset) const {
  assert(ascending());
  return empty() ? 0 : node_below(*node_, offset - offset_);
}

Pattern Pattern::clip(Extent window) const { return slice(bytes_below(window.offset), bytes_below(window.end())); }

Pattern Pattern::slice(Bytes begin, Bytes end) const {
  begin = std::max<Bytes>(begin, 0);
  end = std::min(end, size());
  if (begin >= end) return {};
  if (begin == 0 && end == size()) return *this;
  const Node& node = *node_;
  if (node.kind == Kind::kRun) return run(offset_ + begin, end - begin);
  if (node.kind == Kind::kSequence) {
    const auto at = [&](Bytes position) {
      return std::upper_bound(node.before.begin(), node.before.end(), position) - node.before.begin() - 1;
    };
    const std::int64_t from = at(begin), to = at(end - 1);
    std::vector<Pattern> parts;
    for (std::int64_t i = from; i <= to; ++i)
      parts.push_back(node.parts[i].slice(begin - node.before[i], end - node.before[i]));
    return sequence(std::move(parts)).shifted(offset_);
  }

  // Whole copies of the child between two cut ones.
  const Pattern child{0, node.child};
  const Bytes unit = child.size();
  const auto copy_at = [&](std::int64_t index) {
    if (node.kind == Kind::kStrided) return child.shifted(index * node.stride);
    if (node.before.empty()) return child.shifted(node.displacements[index]);
    const auto after = std::upper_bound(node.before.begin(), node.before.end(), index);
    const std::int64_t block = after - node.before.begin() - 1;
    return child.shifted(node.displacements[block] + (index - node.before[block]) * node.stride);
  };
  const auto whole = [&](std::int64_t from, std::int64_t to) {
    if (from >= to) return Pattern();
    if (node.kind == Kind::kStrided) return strided(to - from, node.stride, child).shifted(from * node.stride);
    if (node.before.empty())
      return indexed({node.displacements.begin() + from, node.displacements.begin() + to}, {}, 0, child);
    const auto block_of = [&](std::int64_t index) {
      return std::upper_bound(node.before.begin(), node.before.end(), index) - node.before.begin() - 1;
    };
    const std::int64_t first = block_of(from), last = block_of(to - 1);
    std::vector<Offset> displacements(node.displacements.begin() + first, node.displacements.begin() + last + 1);
    std::vector<std::int64_t> counts;
    for (std::int64_t i = first; i <= last; ++i)
      counts.push_back(std::min(to, node.before[i + 1]) - std::max(from, node.before[i]));
    displacements.front() += (from - node.before[first]) * node.stride;
    return indexed(std::move(displacements), std::move(counts), node.stride, child);
  };

  const std::int64_t from = begin / unit, to = end / unit;
  const Bytes head = begin % unit, tail = end % unit;
  if (from == to) return copy_at(from).slice(head, tail).shifted(offset_);
  std::vector<Pattern> parts;
  if (head > 0) parts.push_back(copy_at(from).slice(head, unit));
  parts.push_back(whole(from + (head > 0), to));
  if (tail > 0) parts.push_back(copy_at(to).slice(0, tail));
  return sequence(std::move(parts)).shifted(offset_);
}

}  // namespace stridio
