// Everything is nonblocking and waited for in one loop of tests and sleeps, since jobs
// oversubscribe their cores and the host's own waits would spin. Messages of a pair match in order,
// as all use one tag of a communicator of their own: pieces of a long message, and messages of
// successive exchanges, need nothing to tell them apart.
//
// Failure: a rank whose host call failed still takes part in what follows, lest others wait for it.
// Each agreement carries, before the bytes, whether its rank has failed; so the next agreement
// after a failure fails on all ranks, and then every later call does, at once. A dead process is
// the launcher's to notice: no MPI tells here.
//
// Cost: an agreement is one MPI_Iallgather; an exchange is its messages.
#include "group/mpi/message_group.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "group/levels.h"
#include "group/mpi/host_driver.h"
#include "group/overdue.h"

namespace stridio {
namespace {

using std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kShortestNap = std::chrono::microseconds(10);
constexpr auto kLongestNap = std::chrono::microseconds(1000);
constexpr int kTag = 0;

// Between two tests: nothing at first, then naps in proportion to the wait so far, so that a wait
// is longer than it must be by an eighth at most. (A host's collective takes several tests to
// advance, on each rank in turn: naps that double each time made four ranks on two cores take ten
// times as long.)
class Backoff {
 public:
  void pause() {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin_);
    if (waited < kSpin) return;
    std::this_thread::sleep_for(std::clamp(waited / 8, kShortestNap, kLongestNap));
  }

 private:
  const steady_clock::time_point begin_ = steady_clock::now();
};

std::vector<int> peers_of(const auto& requests) {
  std::set<int> peers;
  for (const auto& request : requests)
    if (request.peer >= 0) peers.insert(request.peer);
  return {peers.begin(), peers.end()};
}

// What precedes a rank's bytes in an agreement.
struct Standing {
  std::int32_t failed = 0;
  std::int32_t code = 0;
};

}  // namespace

Status host_status(int rc, const char* what) {
  if (rc == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(rc, text, &length);
  return fail(Code::kOther, std::string(what) + " failed: " + text);
}

Result<std::unique_ptr<Group>> MessageGroup::make(MPI_Comm owned, std::vector<int> nodes, Bytes longest_piece) {
  int rank = 0;
  RETURN_IF_ERROR(host_status(PMPI_Comm_set_errhandler(owned, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  RETURN_IF_ERROR(host_status(PMPI_Comm_rank(owned, &rank), "MPI_Comm_rank"));
  return std::unique_ptr<Group>(new MessageGroup(owned, rank, std::move(nodes), longest_piece));
}

MessageGroup::MessageGroup(MPI_Comm owned, int rank, std::vector<int> nodes, Bytes longest_piece)
    : comm_(owned),
      rank_(rank),
      nodes_(std::move(nodes)),
      node_count_(*std::max_element(nodes_.begin(), nodes_.end()) + 1),
      longest_piece_(longest_piece) {}

MessageGroup::~MessageGroup() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  MPI_Comm comm = comm_;
  if (!finalized) PMPI_Comm_free(&comm);
}

void MessageGroup::note(int rc, const char* what) {
  if (Status status = host_status(rc, what); !status && !failure_) {
    failure_ = std::move(status).error();
    failure_->rank = rank_;
  }
}

Status MessageGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (std::ssize(mine) > kAgreementBytes || all.size() != mine.size() * nodes_.size())
    return fail(Code::kArgument, "an agreement takes at most 4096 bytes a rank, and room for all ranks'");
  if (failure_is_agreed_) return fail(*failure_);
  const Standing standing{failure_.has_value(), failure_ ? static_cast<std::int32_t>(failure_->code) : 0};
  const std::size_t step = sizeof standing + mine.size();
  Buffer out(step), in(step * nodes_.size());
  std::memcpy(out.data(), &standing, sizeof standing);
  std::copy(mine.begin(), mine.end(), out.begin() + sizeof standing);
  Requests requests{{MPI_REQUEST_NULL, -1}};
  note(PMPI_Iallgather(out.data(), static_cast<int>(step), MPI_BYTE, in.data(), static_cast<int>(step), MPI_BYTE, comm_,
                       &requests.front().host),
       "MPI_Iallgather");
  settle(requests);
  for (std::size_t r = 0; r < nodes_.size(); ++r) {
    Standing theirs;
    std::memcpy(&theirs, in.data() + r * step, sizeof theirs);
    std::copy_n(in.data() + r * step + sizeof theirs, mine.size(), all.data() + r * mine.size());
    failure_is_agreed_ |= theirs.failed != 0;
    if (theirs.failed && !failure_)
      failure_ = Error{.code = static_cast<Code>(theirs.code),
                       .what = "a host MPI call failed on a rank of the group",
                       .rank = static_cast<int>(r)};
  }
  if (failure_) return fail(*failure_);
  return {};
}

template <typename Post>
void MessageGroup::post_pieces(std::span<const Message> messages, Requests& requests, Post post) {
  for (const Message& message : messages) {
    for (Bytes at = 0; at < message.bytes.length; at += longest_piece_) {
      const int length = static_cast<int>(std::min(longest_piece_, message.bytes.length - at));
      Request request{MPI_REQUEST_NULL, message.peer};
      note(post(message.bytes.data + at, length, message.peer, &request.host), "posting a message");
      requests.push_back(request);
    }
  }
}

Ticket MessageGroup::start(std::span<const Message> sends, std::span<const Message> receives) {
  Requests& requests = exchanges_[++last_];
  if (failure_is_agreed_) return last_;
  post_pieces(receives, requests, [this](void* data, int length, int peer, MPI_Request* request) {
    return PMPI_Irecv(data, length, MPI_BYTE, peer, kTag, comm_, request);
  });
  post_pieces(sends, requests, [this](void* data, int length, int peer, MPI_Request* request) {
    return PMPI_Isend(data, length, MPI_BYTE, peer, kTag, comm_, request);
  });
  return last_;
}

Status MessageGroup::finish(Ticket ticket) {
  Requests requests = std::move(exchanges_.extract(ticket).mapped());
  settle(requests);
  if (failure_) return fail(*failure_);
  return {};
}

Result<std::unique_ptr<Levels>> MessageGroup::make_levels(bool share) {
  if (!share) return Levels::make(*this, {});
  const auto driver = std::make_shared<HostDriver>();
  return Levels::make(*this, SharedGroupOptions{.progress = [driver] { driver->drive(); }});
}

// Until all requests are complete, of which one that failed is. One by one: only a test of a single
// request reports to our communicator's error handler, one of many to the program's.
void MessageGroup::settle(Requests& requests) {
  const auto completed = [this](Request& request) {
    int done = 0;
    const int rc = PMPI_Test(&request.host, &done, MPI_STATUS_IGNORE);
    note(rc, "waiting for messages");
    return done != 0 || rc != MPI_SUCCESS;
  };
  Backoff backoff;
  Patience patience;
  for (;;) {
    std::erase_if(requests, completed);
    if (requests.empty()) return;
    backoff.pause();
    if (patience.ends()) say_alone(patience, rank_, size(), peers_of(requests));
  }
}

}  // namespace stridio
