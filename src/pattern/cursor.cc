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
      case Kind::kRun:
        return;  // a nest
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
  while (pending_.back().depth > 1 || (pending_.back().depth == 1 && pending_.back().outer().table)) split();
  const Nest& nest = pending_.back();
  Block block{nest.offset, nest.length, 1, 0};
  if (nest.depth == 1) {
    block.count = nest.outer().count;
    block.stride = nest.outer().stride;
  }
  if (block.length > limit) {
    block.length = limit;
    block.count = 1;
  } else if (block.size() > limit) {
    block.count = limit / block.length;
  }
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
  const Extent run{block_.offset, block_.length};
  block_.offset += block_.stride;
  --block_.count;
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

UnionReader::UnionReader(std::span<const Pattern> patterns) {
  readers_.reserve(patterns.size());
  for (const Pattern& pattern : patterns) {
    assert(pattern.ascending());
    readers_.emplace_back(Cursor(pattern));
    refill(readers_.size() - 1);
  }
}

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) { return a.run.offset > b.run.offset; };
}

void UnionReader::refill(std::size_t source) {
  if (const auto run = readers_[source].next()) {
    heap_.push_back({*run, source});
    std::push_heap(heap_.begin(), heap_.end(), kLater);
  }
}

std::optional<Extent> UnionReader::next() {
  if (heap_.empty()) return std::nullopt;
  Extent run = heap_.front().run;
  while (!heap_.empty() && heap_.front().run.offset <= run.end()) {
    run.length = std::max(run.end(), heap_.front().run.end()) - run.offset;
    const std::size_t source = heap_.front().source;
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    heap_.pop_back();
    refill(source);
  }
  return run;
}

}  // namespace stridio
