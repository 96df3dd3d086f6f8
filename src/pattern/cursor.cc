// The walk. `frames_` holds the path from the root to the node whose ranges are pending, with the copy, block or part
// that each level is at; the pending block itself is already counted as passed in the innermost frame. Invariant:
// position_ + |pending_| + |after_| is the data position at which the innermost frame's next sibling starts.
#include <algorithm>
#include <cassert>

#include "pattern/node.h"
#include "pattern/pattern.h"

namespace stridio {

using Node = Pattern::Node;
using Kind = Node::Kind;

namespace {

std::int64_t index_before(const std::vector<std::int64_t>& before, std::int64_t position) {
  return std::upper_bound(before.begin(), before.end(), position) - before.begin() - 1;
}

// `count` ranges of `length` bytes, `stride` apart from `offset` on, of which `skip` bytes are passed: the rest of a
// cut range in `pending`, the whole ones in `after`.
void cut(Block ranges, Bytes skip, Block& pending, Block& after) {
  if (skip == 0) {  // what every step of a walk but the first meets; divisions are slow
    pending = ranges;
    after = {};
    return;
  }
  const std::int64_t whole = skip / ranges.length;
  const Bytes part = skip % ranges.length;
  ranges.offset += whole * ranges.stride;
  ranges.count -= whole;
  after = {};
  if (part == 0) {
    pending = ranges;
    return;
  }
  pending = {ranges.offset + part, ranges.length - part, 1, 0};
  if (ranges.count > 1)
    after = {ranges.offset + ranges.stride, ranges.length, ranges.count - 1, ranges.stride};
}

// The ranges of block `index` of an indexed node over a run.
Block leaf_block(const Node& node, Offset base, std::int64_t index) {
  const std::int64_t copies = node.copies(index);
  const Bytes length = node.child->size;
  const Offset offset = base + node.displacements[index];
  if (copies == 1 || node.stride == length) return {offset, copies * length, 1, 0};
  return {offset, length, copies, node.stride};
}

}  // namespace

Cursor::Cursor(Pattern pattern, Bytes position) : pattern_(std::move(pattern)) { seek(position); }

void Cursor::seek(Bytes position) {
  position_ = position;
  frames_.clear();
  pending_ = after_ = {};
  if (!done()) descend(pattern_.node_.get(), pattern_.offset_, position);
}

void Cursor::descend(const Node* node, Offset base, Bytes position) {
  for (;;) {
    switch (node->kind) {
      case Kind::kRun:
        pending_ = {base + position, node->size - position, 1, 0};
        return;
      case Kind::kStrided: {
        if (node->leaf()) {
          frames_.push_back({node, base, node->count - 1, 0});
          cut({base, node->child->size, node->count, node->stride}, position, pending_, after_);
          return;
        }
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
        if (node->leaf()) {
          frames_.push_back({node, base, block, node->copies(block) - 1});
          cut(leaf_block(*node, base, block), position - first * node->child->size, pending_, after_);
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
  Offset base = frame.base;
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
  if (node.leaf()) {
    pending_ = leaf_block(node, base, frame.index);
    frame.copy = node.copies(frame.index) - 1;
    return true;
  }
  const Offset move = node.displacements[frame.index] + frame.copy * node.stride;
  descend(node.child.get(), base + move, 0);
  return true;
}

void Cursor::advance() {
  if (after_.count > 0) {
    pending_ = after_;
    after_ = {};
    return;
  }
  while (!enter_sibling(frames_.back())) frames_.pop_back();
}

Block Cursor::take(Bytes limit) {
  Block taken = pending_;
  if (taken.size() <= limit) {
    pending_.count = 0;
  } else if (taken.length <= limit) {
    taken.count = limit / taken.length;
    pending_.offset += taken.count * taken.stride;
    pending_.count -= taken.count;
  } else {
    taken.length = limit;
    taken.count = 1;
    const Block rest = pending_;
    pending_ = {rest.offset + limit, rest.length - limit, 1, 0};
    if (rest.count > 1) after_ = {rest.offset + rest.stride, rest.length, rest.count - 1, rest.stride};
  }
  position_ += taken.size();
  return taken;
}

Block Cursor::next(Bytes limit) {
  assert(!done() && limit > 0);
  if (pending_.count == 0) advance();
  return take(limit);
}

Extent Cursor::next_range(Bytes limit) {
  assert(!done() && limit > 0);
  if (pending_.count == 0) advance();
  const Block range = take(std::min(limit, pending_.length));
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
