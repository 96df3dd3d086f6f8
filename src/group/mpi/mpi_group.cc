// A communicator's pool has a base group, used only within acquire_group, and lanes, one for each
// file open at a time: two files may be in collective calls at once, from two threads, so they
// cannot share a group.
//
// Acquiring, collective and so in the same order on all ranks:
//  1. Agree over the base on the lanes that are free on all ranks, and on `node_ranks`: that of the
//  nodes as they are, and where others are asked for then over theirs. A lane is released by each rank
//  by itself, at
//     different moments: one still held by a slower rank is not free. The lowest is taken.
//  2. Rank 0 zeroes its persistent bytes (nobody uses the lane), then the lane's own barrier shows
//  this to
//     all, and that the lane is sound; one that has failed is never taken again, and step 1
//     repeated.
//  3. If none is free, all make a new one: over the base where memory is shared, so without the
//  host.
//
// The first acquire on a communicator: what tells nodes apart travels with the bootstrap's first
// agreement, so that ranks on one node have their base after two host collectives.
//
// Lifetime: the communicator's attribute owns the pools; so does each lane in use, since a program
// may free the communicator of an open file. MPI_COMM_SELF's attribute is deleted first in
// MPI_Finalize: it drops all pools.
#include "group/mpi/mpi_group.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>

#include "group/mpi/host_driver.h"
#include "group/mpi/message_group.h"
#include "group/overdue.h"
#include "group/shared_group.h"

namespace stridio {
namespace {

constexpr int kMostSharedRanks = 1024;   // a segment grows with the square; no node has more
constexpr std::size_t kMostLanes = 512;  // that are used again; more can be open at a time
using LaneSet = std::bitset<kMostLanes>;

// --- Nodes ---

// What two ranks of one machine, and only they, have in common.
struct NodeCard {
  std::array<char, 40> boot{};
  std::array<char, 64> host{};
  auto operator<=>(const NodeCard&) const = default;
};

NodeCard this_node() {
  NodeCard card;
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    if (std::fgets(card.boot.data(), static_cast<int>(card.boot.size()), file) == nullptr) card.boot = {};
    std::fclose(file);
  }
  gethostname(card.host.data(), card.host.size() - 1);
  return card;
}

// By rank, numbered in the order of their first ranks.
std::vector<int> number_nodes(const std::vector<NodeCard>& cards) {
  std::map<NodeCard, int> numbers;
  std::vector<int> nodes;
  for (const NodeCard& card : cards)
    nodes.push_back(numbers.emplace(card, static_cast<int>(numbers.size())).first->second);
  return nodes;
}

std::vector<int> consecutive_nodes(int size, int node_ranks) {
  std::vector<int> nodes;
  for (int r = 0; r < size; ++r) nodes.push_back(r / node_ranks);
  return nodes;
}

bool all_on_one(const std::vector<int>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](int node) { return node == 0; });
}

// --- The host ---

struct Host {
  MPI_Comm comm;
  int rank;
  int size;
};

Status host_allgather(const Host& host, std::span<const std::byte> mine, std::span<std::byte> all) {
  const int length = static_cast<int>(mine.size());
  return host_status(PMPI_Allgather(mine.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, host.comm),
                     "MPI_Allgather");
}

// A communicator of our own with the same ranks. Not a duplicate: that would call the program's
// attribute callbacks.
Result<std::unique_ptr<Group>> make_message_group(const Host& host, const std::vector<int>& nodes) {
  MPI_Comm own = MPI_COMM_NULL;
  RETURN_IF_ERROR(host_status(PMPI_Comm_split(host.comm, 0, host.rank, &own), "MPI_Comm_split"));
  return MessageGroup::make(own, nodes);
}

Result<std::unique_ptr<Group>> make_lane_of_segment(const Bootstrap& bootstrap) {
  const auto driver = std::make_shared<HostDriver>();
  return make_shared_group(bootstrap,
                           {.progress = [driver] { driver->drive(); }, .one_address_space = bootstrap.size == 1});
}

// A bootstrap over the host whose first agreement also learns the nodes, and ends the matter with
// kUnsupportedOperation if there are several. `host` and `nodes` must outlive it.
Bootstrap bootstrap_learning_nodes(const Host& host, std::vector<int>& nodes) {
  return {host.rank, host.size, [&](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
            if (!nodes.empty()) return host_allgather(host, mine, all);
            const NodeCard card = this_node();
            Buffer out(sizeof card + mine.size()), in(out.size() * static_cast<std::size_t>(host.size));
            std::memcpy(out.data(), &card, sizeof card);
            std::copy(mine.begin(), mine.end(), out.begin() + sizeof card);
            RETURN_IF_ERROR(host_allgather(host, out, in));
            std::vector<NodeCard> cards(static_cast<std::size_t>(host.size));
            for (std::size_t r = 0; r < cards.size(); ++r) {
              std::memcpy(&cards[r], in.data() + r * out.size(), sizeof card);
              std::copy_n(in.data() + r * out.size() + sizeof card, mine.size(), all.data() + r * mine.size());
            }
            nodes = number_nodes(cards);
            if (all_on_one(nodes)) return {};
            return fail(Code::kUnsupportedOperation, "the ranks are on several nodes");
          }};
}

Status learn_nodes(const Host& host, std::vector<int>& nodes) {
  const NodeCard card = this_node();
  std::vector<NodeCard> cards(static_cast<std::size_t>(host.size));
  RETURN_IF_ERROR(host_allgather(host, std::as_bytes(std::span(&card, 1)), std::as_writable_bytes(std::span(cards))));
  nodes = number_nodes(cards);
  return {};
}

// --- Pools ---

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static Result<std::shared_ptr<Pool>> make(const Host& host, int node_ranks);
  Result<std::shared_ptr<Group>> acquire(const Host& host, int node_ranks);
  // The lanes that are free on all ranks; kNotSame where they name different `node_ranks`.
  Result<LaneSet> free_everywhere(int node_ranks);

 private:
  enum class Use { kFree, kTaken, kBroken };
  struct Lane {
    std::unique_ptr<Group> group;
    Use use;
  };

  Pool(std::unique_ptr<Group> base, std::vector<int> nodes) : base_(std::move(base)), nodes_(std::move(nodes)) {}

  LaneSet free_here();
  Result<std::shared_ptr<Group>> take(std::size_t lane);
  Result<std::shared_ptr<Group>> add(const Host& host);
  std::shared_ptr<Group> lend(std::size_t lane);
  void set(std::size_t lane, Use use);

  const std::unique_ptr<Group> base_;
  const std::vector<int> nodes_;
  std::mutex mutex_;  // guards lanes_: releases come at any time, on any thread
  std::vector<Lane> lanes_;
};

// Whether all ranks were refused a segment, so that all turn to messages.
bool calls_for_messages(const Error& error) {
  return error.code == Code::kNoMemory || error.code == Code::kUnsupportedOperation;
}

bool is_one_segment(const Group& group) { return dynamic_cast<const MessageGroup*>(&group) == nullptr; }

Result<std::shared_ptr<Pool>> Pool::make(const Host& host, int node_ranks) {
  std::vector<int> nodes;
  if (node_ranks > 0) nodes = consecutive_nodes(host.size, node_ranks);
  const bool may_share = host.size <= kMostSharedRanks && (nodes.empty() || all_on_one(nodes));
  if (!may_share && nodes.empty()) RETURN_IF_ERROR(learn_nodes(host, nodes));
  Result<std::unique_ptr<Group>> base;
  if (may_share) base = make_lane_of_segment(bootstrap_learning_nodes(host, nodes));
  if (!base && !calls_for_messages(base.error())) return fail(std::move(base).error());
  if (!may_share || !base) base = make_message_group(host, nodes);
  if (!base) return fail(std::move(base).error());
  return std::shared_ptr<Pool>(new Pool(*std::move(base), std::move(nodes)));
}

LaneSet Pool::free_here() {
  std::lock_guard lock(mutex_);
  LaneSet free;
  for (std::size_t i = 0; i < std::min(kMostLanes, lanes_.size()); ++i) free[i] = lanes_[i].use == Use::kFree;
  return free;
}

Result<LaneSet> Pool::free_everywhere(int node_ranks) {
  struct Said {
    LaneSet free;
    int node_ranks;
  };
  ASSIGN_OR_RETURN(const std::vector<Said> all, allgather(*base_, Said{free_here(), node_ranks}));
  LaneSet free;
  free.set();
  for (const Said& each : all) {
    free &= each.free;
    if (each.node_ranks != all.front().node_ranks)
      return fail(Code::kNotSame, "hint stridio_node_ranks must have the same value on all ranks, and has not");
  }
  return free;
}

Result<std::shared_ptr<Group>> Pool::acquire(const Host& host, int node_ranks) {
  for (;;) {
    ASSIGN_OR_RETURN(const LaneSet free, free_everywhere(node_ranks));
    const std::size_t lane = free._Find_first();
    if (lane == kMostLanes) return add(host);
    if (auto taken = take(lane)) return taken;
  }
}

Result<std::shared_ptr<Group>> Pool::take(std::size_t lane) {
  set(lane, Use::kTaken);
  auto group = lend(lane);
  if (const SharedMemory bytes = group->persistent(); base_->rank() == 0 && bytes.data != nullptr)
    std::memset(bytes.data, 0, static_cast<std::size_t>(bytes.length));
  const Status sound = group->barrier();
  if (sound) return group;
  group.reset();
  set(lane, Use::kBroken);
  return fail(sound.error());
}

Result<std::shared_ptr<Group>> Pool::add(const Host& host) {
  Result<std::unique_ptr<Group>> group;
  const bool share = is_one_segment(*base_);
  if (share) group = make_lane_of_segment(bootstrap_over(*base_));
  if (!share || (!group && calls_for_messages(group.error()))) group = make_message_group(host, nodes_);
  if (!group) return fail(std::move(group).error());
  std::unique_lock lock(mutex_);
  lanes_.push_back({*std::move(group), Use::kTaken});
  const std::size_t lane = lanes_.size() - 1;
  lock.unlock();
  return lend(lane);
}

std::shared_ptr<Group> Pool::lend(std::size_t lane) {
  std::lock_guard lock(mutex_);
  return {lanes_[lane].group.get(), [pool = shared_from_this(), lane](Group*) { pool->set(lane, Use::kFree); }};
}

void Pool::set(std::size_t lane, Use use) {
  std::lock_guard lock(mutex_);
  lanes_[lane].use = use;
}

// --- What hangs on communicators ---

// The pools of one communicator, by node_ranks.
using Pools = std::map<int, std::shared_ptr<Pool>>;

// The one mutable global, which MPI forces on whoever caches by communicator: a keyval is a number
// of the whole process. Never destroyed: a communicator may be freed by a static destructor. No
// host call is made under `mutex`: the host may hold its own lock when it calls the callbacks.
struct Registry {
  std::mutex creating;   // of the keyvals; not taken by any callback
  bool on_self = false;  // MPI_COMM_SELF's attribute is set; guarded by `creating`
  std::mutex mutex;      // guards what follows
  int comm_keyval = MPI_KEYVAL_INVALID;
  std::size_t acquiring = 0;                     // calls that use the keyval
  std::map<void*, std::unique_ptr<Pools>> live;  // by attribute value
};

Registry& registry() {
  static Registry& only = *new Registry;
  return only;
}

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* copied) {
  *copied = 0;
  return MPI_SUCCESS;
}

// With the last communicator that has pools the keyval goes: behind the last session there may be another, which does not know it.
void free_unused_keyval() {
  int unused = MPI_KEYVAL_INVALID;
  {
    std::lock_guard lock(registry().mutex);
    if (registry().acquiring == 0 && registry().live.empty())
      unused = std::exchange(registry().comm_keyval, MPI_KEYVAL_INVALID);
  }
  if (unused != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&unused);
}

// The communicator is being freed.
int drop_pools(MPI_Comm, int, void* value, void*) {
  {
    std::unique_lock lock(registry().mutex);
    const auto dropped = registry().live.extract(value);
    lock.unlock();
  }  // `dropped` is destroyed here, where host calls may be made
  free_unused_keyval();
  return MPI_SUCCESS;
}

// MPI_Finalize has begun.
int drop_all_pools(MPI_Comm, int, void*, void*) {
  std::unique_lock lock(registry().mutex);
  const auto dropped = std::exchange(registry().live, {});
  lock.unlock();
  return MPI_SUCCESS;
}

// A process that has only sessions has no MPI_COMM_SELF, and frees its communicators before they end.
Status watch_finalize() {
  int initialized = 0;
  PMPI_Initialized(&initialized);
  if (!initialized || registry().on_self) return {};
  int of_self = MPI_KEYVAL_INVALID;
  RETURN_IF_ERROR(
      host_status(PMPI_Comm_create_keyval(copy_nothing, drop_all_pools, &of_self, nullptr), "MPI_Comm_create_keyval"));
  RETURN_IF_ERROR(host_status(PMPI_Comm_set_attr(MPI_COMM_SELF, of_self, nullptr), "MPI_Comm_set_attr"));
  PMPI_Comm_free_keyval(&of_self);  // when the attribute goes
  registry().on_self = true;
  return {};
}

// The keyval of communicators' pools; valid while it lives.
class PoolsKeyval {
 public:
  PoolsKeyval() {
    std::lock_guard lock(registry().mutex);
    ++registry().acquiring;
  }
  ~PoolsKeyval() {
    {
      std::lock_guard lock(registry().mutex);
      --registry().acquiring;
    }
    free_unused_keyval();
  }
  PoolsKeyval(const PoolsKeyval&) = delete;
  PoolsKeyval& operator=(const PoolsKeyval&) = delete;

  Result<int> get() const {
    std::lock_guard creating(registry().creating);
    RETURN_IF_ERROR(watch_finalize());
    {
      std::lock_guard lock(registry().mutex);
      if (registry().comm_keyval != MPI_KEYVAL_INVALID) return registry().comm_keyval;
    }
    int made = MPI_KEYVAL_INVALID;
    RETURN_IF_ERROR(
        host_status(PMPI_Comm_create_keyval(copy_nothing, drop_pools, &made, nullptr), "MPI_Comm_create_keyval"));
    std::lock_guard lock(registry().mutex);
    return registry().comm_keyval = made;
  }
};

// Null: MPI_Finalize has dropped them, and the program opens a file even so.
Pools* live_pools(void* value) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().live.find(value);
  return found == registry().live.end() ? nullptr : found->second.get();
}

Pools* new_pools() {
  auto pools = std::make_unique<Pools>();
  Pools* const made = pools.get();
  std::lock_guard lock(registry().mutex);
  registry().live.emplace(made, std::move(pools));
  return made;
}

// The communicator's pools; made and attached at the first call.
Result<Pools*> pools_of(MPI_Comm comm) {
  const PoolsKeyval use;
  ASSIGN_OR_RETURN(const int keyval, use.get());
  void* value = nullptr;
  int found = 0;
  RETURN_IF_ERROR(host_status(PMPI_Comm_get_attr(comm, keyval, &value, &found), "MPI_Comm_get_attr"));
  if (Pools* const known = found ? live_pools(value) : nullptr) return known;
  Pools* const made = new_pools();
  RETURN_IF_ERROR(host_status(PMPI_Comm_set_attr(comm, keyval, made), "MPI_Comm_set_attr"));
  return made;
}

Result<Host> host_of(MPI_Comm comm) {
  int is_inter = 0;
  Host host{comm, 0, 1};
  if (comm != MPI_COMM_NULL) RETURN_IF_ERROR(host_status(PMPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter"));
  if (comm == MPI_COMM_NULL || is_inter) return fail(Code::kArgument, "a file is opened by an intracommunicator");
  RETURN_IF_ERROR(host_status(PMPI_Comm_rank(comm, &host.rank), "MPI_Comm_rank"));
  RETURN_IF_ERROR(host_status(PMPI_Comm_size(comm, &host.size), "MPI_Comm_size"));
  return host;
}

// Made at the first call, which is collective.
Result<Pool*> pool_of(const Host& host, Pools& pools, int node_ranks) {
  auto& pool = pools[node_ranks];
  if (!pool) {
    const Alarm alarm(host.rank, host.size);
    ASSIGN_OR_RETURN(pool, Pool::make(host, node_ranks));
  }
  return pool.get();
}

}  // namespace

Result<std::shared_ptr<Group>> acquire_group(MPI_Comm comm, int node_ranks) {
  ASSIGN_OR_RETURN(const Host host, host_of(comm));
  ASSIGN_OR_RETURN(Pools* const pools, pools_of(comm));
  node_ranks = std::max(0, node_ranks);
  // The pool of the nodes as they are comes first for all, since others may be other ranks' wish.
  ASSIGN_OR_RETURN(Pool* const real, pool_of(host, *pools, 0));
  if (node_ranks == 0) return real->acquire(host, node_ranks);
  RETURN_IF_ERROR(real->free_everywhere(node_ranks));
  ASSIGN_OR_RETURN(Pool* const wished, pool_of(host, *pools, node_ranks));
  return wished->acquire(host, node_ranks);
}

}  // namespace stridio
