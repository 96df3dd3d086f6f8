// The walk. A node that is a nest is pending as a whole; only what is none (a sequence, an indexed node with counts, too
// deep nesting) is walked by `frames_`, the path to the node whose parts are pending, with the copy, block or part that each
// level is at. `pending_` holds what is left of the last such part: cutting a nest leaves its rest behind its head.
// Invariant: position_ + |pending_| is the data position at which the innermost frame's next sibling starts.
#include <algorithm>
#include <cassert>

#include "pattern/node.h"
#include "pattern/pattern.h"

namespace stridio {

using Node = Pattern::Node;
using Kind = Node::Kind;

Nest Nest::first() const {
  Nest head;
  head.offset = offset + outer().place(0);
  head.length = length;
  head.size = outer().inside;
  head.depth = depth - 1;
  std::copy_n(levels.begin(), head.depth, head.levels.begin());
  return head;
}

void Nest::drop(std::int64_t copies) {
  Level& level = outer();
  if (level.table) {
    level.table += copies;
  } else {
    offset += copies * level.stride;
  }
  level.count -= copies;
  size -= copies * level.inside;
  simplify();
}

void Nest::shorten(Bytes limit) {
  while (size > limit) {
    if (depth == 0) {
      size = length = limit;
      return;
    }
    Level& level = outer();
    level.count = std::max<std::int64_t>(limit / level.inside, 1);
    size = level.count * level.inside;
    simplify();
  }
}

namespace {

std::int64_t index_before(const std::vector<std::int64_t>& before, std::int64_t position) {
  return std::upper_bound(before.begin(), before.end(), position) - before.begin() - 1;
}

void set_nest(Nest& nest, const Node& node) {
  nest.depth = node.levels;
  nest.size = node.size;
  const Node* at = &node;
  for (int level = node.levels - 1; level >= 0; --level, at = at->child.get()) {
    const bool table = at->kind == Kind::kIndexed;
    nest.levels[static_cast<std::size_t>(level)] = {.count = table ? at->blocks() : at->count,
                                                    .stride = at->stride,
                                                    .inside = at->child->size,
                                                    .table = table ? at->displacements.data() : nullptr};
  }
  nest.length = at->size;
}

}  // namespace

Cursor::Cursor(Pattern pattern, Bytes position) : pattern_(std::move(pattern)) { seek(position); }

void Cursor::seek(Bytes position) {
  position_ = position;
  frames_.clear();
  pending_.clear();
  if (!done()) descend(pattern_.node_.get(), pattern_.offset_, position);
}

void Cursor::push(const Node& node, Offset base) {
  Nest& nest = pending_.emplace_back();
  nest.offset = base;
  set_nest(nest, node);
}

// The copies of an indexed node's child that make block `index`, as one nest.
static void set_block(Nest& nest, const Node& node, std::int64_t index) {
  set_nest(nest, *node.child);
  const std::int64_t copies = node.copies(index);
  if (copies == 1) return;
  nest.size = copies * node.child->size;
  if (nest.depth == 0 && node.stride == nest.length) {
    nest.length = nest.size;
  } else {
    nest.levels[static_cast<std::size_t>(nest.depth++)] = {copies, node.stride, node.child->size, nullptr};
  }
}

void Cursor::descend(const Node* node, Offset base, Bytes position) {
  for (;;) {
    if (node->levels >= 0) {
      push(*node, base);
      if (position > 0) {
        position_ -= position;
        skip(position);
      }
      return;
    }
    switch (node->kind) {
      case Kind::kRun: return;  // a nest
      case Kind::kStrided: {
        const std::int64_t index = position == 0 ? 0 : position / node->child->size;
        frames_.push_back({node, base, index, 0});
        base += index * node->stride;
        position -= index * node->child->size;
        node = node->child.get();
        break;
      }
      case Kind::kIndexed: {
        const std::int64_t copy = position / node->child->size;
        const std::int64_t block = node->before.empty() ? copy : index_before(node->before, copy);
        const std::int64_t first = node->before.empty() ? block : node->before[block];
        if (Node::levels_around(*node->child) >= 0) {
          frames_.push_back({node, base, block, node->copies(block) - 1});
          Nest& nest = pending_.emplace_back();
          set_block(nest, *node, block);
          nest.offset = base + node->displacements[block];
          position -= first * node->child->size;
          if (position > 0) {
            position_ -= position;
            skip(position);
          }
          return;
        }
        frames_.push_back({node, base, block, copy - first});
        base += node->displacements[block] + (copy - first) * node->stride;
        position -= copy * node->child->size;
        node = node->child.get();
        break;
      }
      case Kind::kSequence: {
        const std::int64_t part = index_before(node->before, position);
        frames_.push_back({node, base, part, 0});
        position -= node->before[part];
        base += node->parts[part].offset_;
        node = node->parts[part].node_.get();
        break;
      }
    }
  }
}

// Moves a frame on to its next copy, block or part and goes down into it; false at its end.
bool Cursor::enter_sibling(Frame& frame) {
  const Node& node = *frame.node;
  const Offset base = frame.base;
  if (node.kind == Kind::kStrided) {
    if (++frame.index >= node.count) return false;
    descend(node.child.get(), base + frame.index * node.stride, 0);
    return true;
  }
  if (node.kind == Kind::kSequence) {
    if (++frame.index >= static_cast<std::int64_t>(node.parts.size())) return false;
    const Pattern& part = node.parts[frame.index];
    descend(part.node_.get(), base + part.offset_, 0);
    return true;
  }
  if (++frame.copy >= node.copies(frame.index)) {
    if (++frame.index >= node.blocks()) return false;
    frame.copy = 0;
  }
  if (Node::levels_around(*node.child) >= 0) {
    frame.copy = node.copies(frame.index) - 1;
    Nest& nest = pending_.emplace_back();
    set_block(nest, node, frame.index);
    nest.offset = base + node.displacements[frame.index];
    return true;
  }
  const Offset move = node.displacements[frame.index] + frame.copy * node.stride;
  descend(node.child.get(), base + move, 0);
  return true;
}

const Nest& Cursor::peek() {
  assert(!done());
  if (pending_.empty()) {
    while (!enter_sibling(frames_.back())) frames_.pop_back();
  }
  return pending_.back();
}

// Takes the first outermost copy of the next nest apart from the others.
void Cursor::split() {
  const Nest head = pending_.back().first();
  pending_.back().drop(1);
  pending_.push_back(head);
}

void Cursor::skip(Bytes bytes) {
  position_ += bytes;
  while (bytes > 0) {
    Nest& nest = pending_.back();
    if (bytes == nest.size) {
      pending_.pop_back();
      return;
    }
    if (nest.depth == 0) {
      nest.offset += bytes;
      nest.length = nest.size -= bytes;
      return;
    }
    const std::int64_t copies = bytes / nest.outer().inside;
    bytes -= copies * nest.outer().inside;
    if (copies > 0) nest.drop(copies);
    if (bytes > 0 && nest.depth > 0 && bytes < nest.outer().inside) split();
  }
}

Block Cursor::next(Bytes limit) {
  assert(limit > 0);
  peek();
  while (pending_.back().depth > 1) split();
  const Nest& nest = pending_.back();
  Block block{nest.offset, nest.length, 1, 0, nullptr};
  if (nest.depth == 1) {
    block.count = nest.outer().count;
    block.stride = nest.outer().stride;
    block.table = nest.outer().table;
  }
  if (block.size() > limit) {
    block.count = std::max<std::int64_t>(limit / block.length, 1);
    block.length = std::min(block.length, limit);
  }
  if (block.count == 1) block = {block.first().offset, block.length, 1, 0, nullptr};
  skip(block.size());
  return block;
}

Extent Cursor::next_range(Bytes limit) {
  const Nest& nest = peek();
  const Block range = next(std::min(limit, nest.length));
  return {range.offset, range.length};
}

std::optional<Extent> RunReader::fetch() {
  if (block_.count == 0) {
    if (cursor_.done()) return std::nullopt;
    block_ = cursor_.next();
  }
  const Extent run = block_.first();
  block_.drop_first();
  return run;
}

std::optional<Extent> RunReader::next() {
  if (ahead_.empty()) {
    const auto first = fetch();
    if (!first) return std::nullopt;
    ahead_ = *first;
  }
  Extent run = ahead_;
  ahead_ = {};
  while (const auto more = fetch()) {
    if (more->offset != run.end()) {
      ahead_ = *more;
      break;
    }
    run.length += more->length;
  }
  return run;
}

namespace {
constexpr auto kLater = [](const auto* a, const auto* b) { return a->next > b->next; };
}

UnionReader::UnionReader(std::span<const Pattern> patterns) {
  sources_.reserve(patterns.size());
  for (const Pattern& pattern : patterns) {
    assert(pattern.ascending());
    if (pattern.empty()) continue;
    Source& source = sources_.emplace_back(Source{Cursor(pattern), {}});
    source.block = source.cursor.next();
    source.next = source.block.first().offset;
    heap_.push_back(&source);
  }
  std::make_heap(heap_.begin(), heap_.end(), kLater);
}

// After ranges of its block were passed.
void UnionReader::moved(Source& source) {
  if (source.block.count == 0) {
    if (source.cursor.done()) {
      source.next = std::numeric_limits<Offset>::max();
      return;
    }
    source.block = source.cursor.next();
  }
  source.next = source.block.first().offset;
}

// The heap's top has moved on: to its place, or out.
void UnionReader::sink() {
  if (heap_.front()->next == std::numeric_limits<Offset>::max()) {
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
  }
  std::size_t parent = 0;
  Source* const top = heap_.front();
  for (;;) {
    std::size_t child = 2 * parent + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1]->next < heap_[child]->next) ++child;
    if (heap_[child]->next >= top->next) break;
    heap_[parent] = heap_[child];
    parent = child;
  }
  heap_[parent] = top;
}

// Where the sources that have ranges in the next `stride` bytes all recur with that stride, what they have there recurs
// until another source begins or one comes to the last range of its block: what follows that may begin within a stride
// of it. False where that is less than two periods.
bool UnionReader::start_periods() {
  const Block& lead = heap_.front()->block;
  if (lead.count < 3 || lead.table) return false;
  const Offset begin = heap_.front()->next;
  stride_ = lead.stride;
  periods_ = lead.count - 1;
  period_.clear();
  for (const Source* source : heap_) {
    const Block& block = source->block;
    if (source->next - begin >= stride_) {
      periods_ = std::min(periods_, (source->next - begin) / stride_);
    } else {
      if (block.count < 3 || block.table || block.stride != stride_) return false;
      periods_ = std::min(periods_, block.count - 1);
      period_.push_back(block.first());
    }
    if (periods_ < 2) return false;
  }
  for (Source* source : heap_) {
    if (source->next - begin >= stride_) continue;
    source->block.offset += periods_ * stride_;
    source->block.count -= periods_;
    source->next = source->block.offset;
  }
  std::make_heap(heap_.begin(), heap_.end(), kLater);

  std::sort(period_.begin(), period_.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < period_.size(); ++i) {
    Extent& before = period_[last];
    if (period_[i].offset <= before.end()) {
      before.length = std::max(before.end(), period_[i].end()) - before.offset;
    } else {
      period_[++last] = period_[i];
    }
  }
  period_.resize(last + 1);
  at_ = 0;
  if (period_.size() == 1 && period_.front().length >= stride_) {
    period_.front().length += (periods_ - 1) * stride_;
    periods_ = 1;
  }
  return true;
}

// The next range of any source, in ascending order of their starts.
std::optional<Extent> UnionReader::fetch() {
  if (periods_ == 0) {
    if (heap_.empty()) return std::nullopt;
    if (!start_periods()) {
      periods_ = 0;
      Source& source = *heap_.front();
      const Extent range = source.block.first();
      source.block.drop_first();
      moved(source);
      sink();
      return range;
    }
  }
  Extent& range = period_[at_];
  const Extent now = range;
  range.offset += stride_;
  if (++at_ == period_.size()) {
    at_ = 0;
    --periods_;
  }
  return now;
}

std::optional<Extent> UnionReader::next() {
  if (ahead_.empty()) ahead_ = fetch().value_or(Extent{});
  if (ahead_.empty()) return std::nullopt;
  Extent run = ahead_;
  ahead_ = {};
  while (const auto more = fetch()) {
    if (more->offset > run.end()) {
      ahead_ = *more;
      break;
    }
    run.length = std::max(run.end(), more->end()) - run.offset;
  }
  return run;
}

}  // namespace stridio
