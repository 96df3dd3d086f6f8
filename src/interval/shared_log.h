// SharedLog: the small writes of all ranks of a node since the last commit, in the order in which they were made. Programs
// that order their accesses by messages alone, as parallel HDF5 does with its metadata, find what others wrote, and the
// later of two writes counts, before anybody commits; and so do accesses in atomic mode. It holds so many groups of pieces;
// what is more, ranks keep to themselves.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "group/group.h"
#include "group/segment.h"
#include "interval/map.h"

namespace stridio {

class SharedLog {
 public:
  // Collective. Null where there is nobody to share with, or no memory.
  static Result<std::unique_ptr<SharedLog>> make(Group& group);

  // Empties it: by one rank, between two agreements.
  void clear();
  // On every rank, after that; no two epochs have one number.
  void begin(std::uint64_t epoch);

  // False, and nothing happens, where there is no room. Pieces of equal length, equally far apart, take the room of one.
  bool publish(std::span<const Piece> pieces);
  // What has come since the last call, this rank's own too. Waits for a rank that is about to publish; not for one that is dead.
  Result<std::vector<PieceGroup>> news();

 private:
  struct Entry;
  struct Board;
  explicit SharedLog(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}
  Board& board() const;

  std::shared_ptr<Segment> segment_;
  std::uint64_t epoch_ = 0;
  std::int64_t seen_ = 0;
};

}  // namespace stridio
