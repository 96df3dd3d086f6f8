// How a group carries out one collective request: every rank computes the same plan from the same agreed shapes. Pure.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "plan/access_plan.h"

namespace stridio {

const char* name_of(Strategy strategy);

// What one rank tells the others of its request; trivially copyable, travels in the entry agreement.
struct RankShape {
  static constexpr int kParts = 16;

  Bytes size = 0;
  Bytes fresh = 0;  // of a write: what lies past the end of the file
  Offset lower = 0;
  Offset upper = 0;
  std::int64_t file_ranges = 0;
  std::int64_t memory_ranges = 0;
  std::int64_t scattered_ranges = 0;  // of them
  Bytes structure = 0;                // of its file pattern in memory: what an aggregator has to know
  double independent_seconds = 0;     // its own plan's cost,
  double working_seconds = 0;         // without the storage's part,
  double locking_seconds = 0;         // of that with its bounds locked,
  double writing_seconds = 0;         // by calls that the kernel admits to a file one after the other,
  double longest_seconds = 0;         // where it stands for several: of the slowest,
  double longest_latency = 0;         // and of the longest part that is requests, not bytes
  double independent_moved = 0;       // bytes from and to the storage
  std::int64_t stored_pieces = 0;     // that as many bytes lie in, one after the other, where that is another place
  double two_phase_correction = 1;    // as this rank has seen it; all of them count
  std::int32_t cores = 1;             // that the rank's node has
  bool ascending = true;
  bool alternates = false;  // writes in pieces, between which other ranks' can come
  bool lockless = false;    // its writes take no range locks
  // Of the storage's caps, of this rank's handle: machines' mounts of one file differ.
  Bytes alignment = 1;
  bool appends = false;
  bool shares_reads = false;
  // Where the data positions size * i / kParts lie: the density of the request, for domains of equal bytes.
  std::array<Offset, kParts> quantiles{};
};
// `own`: the plan of `request`, whose file pattern is `file`.
RankShape rank_shape(const RequestShape& request, const Pattern& file, const AccessPlan& own, const Caps& caps,
                     int cores, double two_phase_correction = 1);
// Several ranks' as one's: sums, of what is longest the longest, of alignments the largest, of corrections the mean, what is so of
// any. Its quantiles are left zero.
RankShape united(std::span<const RankShape> ranks);

struct Topology {
  std::vector<int> node_of;  // by rank
  int nodes = 1;
};

struct CollectiveRules {
  bool two_phase = true;  // whether it may be, and if not, why
  const char* two_phase_reason = "switched off by a hint";
  bool prefer_two_phase = false;
  int aggregators = 0;            // 0: by nodes, cores and bytes
  Bytes window = Bytes{4} << 20;  // the longest,
  bool shorter_windows = true;    // or each
  bool may_modify_holes = false;  // where all ranks' writes lock
  bool one_by_one = false;        // atomic mode: the requests must not be cut and mixed
  std::string force;              // a strategy's or an access method's name; the latter means independent
};

// The part of the file that a rank reads or writes for all, or verifies.
struct FileDomain {
  int aggregator = 0;  // the rank
  Extent range;
};

struct CollectiveCandidate {
  Strategy strategy = Strategy::kNothing;
  const char* impossible = nullptr;  // why; null: it is not
  double seconds = 0;
  Bytes size = 0;  // of the request
  std::int64_t file_ranges = 0;
  int aggregators = 0;
  Bytes window = 0;
  Bytes whole = 0;  // so many bytes are read instead of
  double runs = 0;  // the union's
  bool in_stored_order = false;

  // What the cost is made of, or why it is impossible.
  std::string why() const;
};

struct CollectivePlan {
  static constexpr int kMostSlots = 3;

  Strategy strategy = Strategy::kNothing;
  std::vector<FileDomain> domains;  // of two-phase; disjoint, ascending, covering every requested byte
  Bytes window = 0;                 // an aggregator's buffer,
  int slots = 2;                    // of which it has so many where ranks share memory
  Bytes largest_gap = 0;            // a read takes holes up to this along
  bool whole = false;               // a read takes all of its domain: nobody asks where the requests leave holes
  // Not empty: ranks that share memory read all between by Storage::read_stored(), so much at a time.
  Extent in_stored_order = {};
  Bytes stored_window = 0;
  int stored_blocks = 32;  // in memory at once
  bool may_modify_holes = false;
  bool lock_writes = false;
  bool verifies_together = false;  // an independent read, by Storage::share_read()
  bool spares_little = false;      // two-phase would be cheaper, but not by enough
  Deep deep = {};                  // an aggregator's requests
  double seconds = 0;              // as past calls correct it
  double uncorrected_seconds = 0;
  StorageCosts read, write;
  std::vector<CollectiveCandidate> considered;

  std::string explain() const;
  // Whether a window of `span` bytes with `bytes` of data in `runs` runs is better written whole, holes read first.
  bool modify_holes(Bytes span, Bytes bytes, std::int64_t runs) const;
};

// `patterns`: every rank's, where every rank knows them all; else empty, and what holes they leave together is estimated
// from the shapes. All arguments are the same on all ranks.
CollectivePlan plan_collective(Direction direction, std::span<const RankShape> ranks, const Topology& topology,
                               const Profile& profile, const CollectiveRules& rules,
                               std::span<const Pattern> patterns = {});

}  // namespace stridio
