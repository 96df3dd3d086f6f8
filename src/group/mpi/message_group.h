// A group over messages of the host MPI: across nodes, or where shared memory cannot be had.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/group.h"

namespace stridio {

// The error of a host call's return code: kOther, with the host's own text.
Status host_status(int rc, const char* what);

class MessageGroup final : public Group {
 public:
  static constexpr Bytes kLongestPiece = Bytes{1} << 30;  // counts are int in MPI-3.1

  // Takes a communicator that nobody else uses, freed with the group unless MPI is finalized by
  // then; by rank, the nodes, numbered from 0. Longer messages are cut into pieces of
  // `longest_piece`. Local.
  static Result<std::unique_ptr<Group>> make(MPI_Comm owned, std::vector<int> nodes,
                                             Bytes longest_piece = kLongestPiece);
  ~MessageGroup() override;
  MessageGroup(const MessageGroup&) = delete;
  MessageGroup& operator=(const MessageGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(nodes_.size()); }
  int node_of(int rank) const override { return nodes_[static_cast<std::size_t>(rank)]; }
  int node_count() const override { return node_count_; }

  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override;
  Status finish(Ticket ticket) override;
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

 private:
  struct Request {
    MPI_Request host;
    int peer;  // -1: all ranks
  };
  using Requests = std::vector<Request>;

  MessageGroup(MPI_Comm owned, int rank, std::vector<int> nodes, Bytes longest_piece);
  Result<std::unique_ptr<Levels>> make_levels(bool share) override;
  template <typename Post>
  void post_pieces(std::span<const Message> messages, Requests& requests, Post post);
  void note(int rc, const char* what);
  void settle(Requests& requests);

  const MPI_Comm comm_;
  const int rank_;
  const std::vector<int> nodes_;
  const int node_count_;
  const Bytes longest_piece_;
  std::map<Ticket, Requests> exchanges_;  // under way
  Ticket last_ = 0;
  std::optional<Error> failure_;  // this rank's, or one that another told of
  bool failure_is_agreed_ = false;
};

}  // namespace stridio
