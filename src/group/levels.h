// A group on several nodes, as nodes: the ranks of one share memory, and its first rank, the leader, speaks for it to
// the other nodes'. What all ranks have to know then costs messages by nodes, not by ranks.
#pragma once

#include <optional>

#include "group/group.h"
#include "group/shared_group.h"

namespace stridio {

class Levels {
 public:
  // Collective over `whole`, which must outlive it. Every rank is a node of its own without `sharing`, or where any node
  // cannot share memory.
  static Result<std::unique_ptr<Levels>> make(Group& whole, const std::optional<SharedGroupOptions>& sharing);

  int count() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  // Ascending; the first is the leader.
  const std::vector<int>& members(int node) const { return members_[static_cast<std::size_t>(node)]; }

  // This rank's node, and its members as a group, in their order.
  int own() const { return own_; }
  Group& node() { return *node_; }
  // The leaders as a group, by node; null but on leaders.
  Group* leaders() { return leaders_.get(); }

  // Collective over all ranks, like the members of Group.
  // Each node's bytes (its leader's `mine`; of equal length on all ranks, and any), by node, in `all`. Where a leader fails, so
  // do all ranks of its node, and with the next call at the latest all.
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all);
  // As Group::shared(), a segment for each node.
  Result<SharedMemory> shared(Bytes length);

 private:
  Levels(Group& whole, std::vector<std::vector<int>> members);
  Status make_node(const std::optional<SharedGroupOptions>& sharing);
  std::size_t half_of_board() const;

  Group& whole_;
  const std::vector<std::vector<int>> members_;
  std::vector<int> node_of_;
  int own_ = 0;
  std::unique_ptr<Group> node_;
  std::unique_ptr<Group> leaders_;  // on leaders
  SharedMemory board_;              // where a leader shows what it gathered
  SharedMemory memory_;             // behind it
  std::optional<Bytes> refused_;    // the least length that some node could not have
  int turn_ = 0;                    // of the board's two halves
};

// Of one trivially copyable value a node.
template <typename T>
Result<std::vector<T>> allgather(Levels& levels, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(levels.count()));
  RETURN_IF_ERROR(levels.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all))));
  return all;
}

}  // namespace stridio
