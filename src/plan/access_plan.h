// How one process carries out one request: the candidates, their estimated costs, and the choice as printable data.
// Pure: no I/O, no hints, no environment; what the user or the consistency rules forbid comes in as `AccessRules`.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "pattern/pattern.h"
#include "plan/correction.h"
#include "plan/gaps.h"
#include "plan/profile.h"
#include "storage/storage.h"

namespace stridio {

const char* name_of(Method method);

// Memory whose outermost copies lie side by side, less than a cache line apart: FLASH's variables of cells. In data order each
// of them passes over all of the memory.
struct Columns {
  std::int64_t count = 0;                    // 0: it is nothing like that
  Bytes stride = 0;                          // from one to the next
  Bytes inside = 0;                          // bytes of one
  std::array<Bytes, Nest::kLevels> parts{};  // ... of its parts that are nests themselves, the innermost first

  // How they go through a staging buffer: so many columns at once, of each so many bytes.
  std::int64_t together = 0;  // 0: in data order, one after the other
  Bytes part = 0;

  // At most so much of one, of whole parts if it can.
  Bytes part_of(Bytes most) const;
};
Columns columns_of(const Pattern& memory);

// What counts of a request for its cost.
struct RequestShape {
  Direction direction = Direction::kRead;
  Bytes size = 0;
  Extent bounds;    // in the file
  Bytes fresh = 0;  // of a write, what lies past the end of the file
  std::int64_t file_ranges = 0;
  std::int64_t memory_ranges = 0;
  double scattered = 0;   // of the memory, as scattered() says
  double far = 0;         // the share of the memory's ranges whose line no cache has kept since its last piece
  Columns columns;        // of the memory
  bool ascending = true;  // in the file
  Gaps gaps;              // if so
  StoredAs stored = {};   // of a read, where that is known; else nothing
  std::int64_t pieces_together = 0;  // that as many bytes lie in, one after the other
};
// What pieces take that have sums of their own, besides their bytes.
double summing(std::int64_t pieces);
// Of memory ranges shorter than a cache line, not in the order of memory: how many lines a copy waits for, by range; at most 1.
double scattered(const Pattern& memory);
RequestShape shape_of(Direction direction, const Pattern& file, const Pattern& memory,
                      Bytes file_size = std::numeric_limits<Bytes>::max());

// Local file systems admit calls that write to a file one after the other.
bool takes_turns(Direction direction, const StorageCosts& costs);

struct AccessRules {
  // Whether holes may be read, modified and written back (rule 1 of the design), and if not, why.
  bool may_modify_holes = false;
  const char* holes_reason = "other writers might own the holes";
  bool lock_writes = false;  // every write locks its range: the user promised that all writers do
  bool sieve_reads = true;
  bool prefer_sieve = false;  // the user asked for sieving where it is allowed
  int other_writers = 0;      // on the node, that write to the file now by calls
  bool waited_for = false;    // other ranks may wait for the access, which has their share of requests under way then
  Bytes read_window = Bytes{4} << 20;
  Bytes write_window = Bytes{4} << 20;
  std::string force;  // a method's name; empty: the cheapest
};

struct Candidate {
  Method method = Method::kNothing;
  const char* impossible = nullptr;  // why; null: it is not
  Bytes size = 0;                    // of the request
  double seconds = 0;
  double storage_seconds = 0;  // of them
  double requests = 0;         // or mappings
  double moved_bytes = 0;      // from and to the storage
  double spanned_bytes = 0;    // sieve: with the holes that are taken along,
  Bytes largest_gap = 0;       // which are no longer than this
  Columns columns = {};        // list

  // What the cost is made of, or why it is impossible.
  std::string why() const;
};

// How the requests of one list are under way.
struct Deep {
  int depth = 1;                // so many at once,
  Bytes unit = Bytes{1} << 20;  // then of so many bytes at most
  bool extend_first = false;  // a write begins with its end, alone: the rest lies within the file, where writes overlap
};
Deep deep_of(const StorageCosts& costs);

// How bytes that have checksums move.
struct SummedRequests {
  static constexpr Bytes kNever = std::numeric_limits<Bytes>::max();
  static constexpr Bytes kMostMapped = Bytes{64} << 20;

  bool waits = false;                      // for requests, more than for bytes
  Bytes longest_read = Bytes{1} << 20;     // so many are read by one request, then summed
  Bytes longest_written = Bytes{1} << 20;  // so many are summed, then written by one request
  Bytes least_mapped = kNever;  // but where so many lie together they are mapped, at most kMostMapped at a time
  // Of bytes that are streamed only if on average so many lie together: around each such run a mapping has pages brought in that
  // nobody wants. Calls then read to a buffer in the caches.
  Bytes least_mapped_run = 0;
  double calls_a_page = 0;  // so many calls take as long as mapping one page
  Deep read = {};           // of them
  Deep write = {};          // and of these; with `extend_first` the last byte of all that is to come is written first,
  Bytes worth_extending = Bytes{2} << 20;  // where that is not less: else requests go one by one
};
SummedRequests summed_requests(const Profile& profile);

struct AccessPlan {
  Method method = Method::kNothing;
  bool staged = false;     // memory is packed into a buffer on its way; of mapped, where a range cannot be mapped
  bool locked = false;     // each request or window holds an exclusive range lock
  bool pipelined = false;  // one half of the staging buffer is copied while the other moves
  Bytes window = 0;        // staging or sieving buffer, or length of a mapping
  Bytes first_window = std::numeric_limits<Bytes>::max();  // a staged write begins with at most so many bytes
  std::size_t ranges = 1024;                               // of file or memory in one call of the storage
  Deep deep = {};
  Bytes largest_gap = 0;  // sieve: holes up to this are taken along, larger ones part requests
  Columns columns = {};   // a staged list: several in each window
  double seconds = 0;     // as past calls correct it
  double uncorrected_seconds = 0;
  double storage_seconds = 0;  // of seconds
  double latency_seconds = 0;  // of those, for requests and not for bytes
  double moved_bytes = 0;
  std::vector<Candidate> considered = {};

  // One line: chosen, cost, and why not the others.
  std::string explain() const;
};

// What a method is compared with others by: a mapping has to be cheaper by Profile::kWorthMapping.
double weighed(Method method, double seconds);

// `correction`: of the direction.
AccessPlan plan_access(const RequestShape& shape, const Caps& caps, const Profile& profile, const AccessRules& rules,
                       const Correction& correction = {});

}  // namespace stridio
