// The measured constants of the cost model. Defaults: page cache and tmpfs of a 2-core virtual machine, GCC 12, medians
// of a few runs; they decide between methods by ratio. What a storage takes, pages and copies are measured for each mount
// (access/calibrate.h): between machines they differ by factors. Trivially copyable: rank 0 tells it to the others.
#pragma once

#include <string>

#include "base/extent.h"
#include "base/page_buffer.h"

namespace stridio {

enum class Direction { kRead, kWrite };

// What a storage takes, in one direction.
struct StorageCosts {
  double request_seconds = 1e-6;       // one request, besides its bytes
  double byte_seconds = 1.35e-10;      // one byte of a long request (7 GB/s)
  double shared_byte_seconds = 7e-11;  // one byte where several ranks transfer at once: never less than one alone takes
                                       // by itself divided by the ranks
  int depth = 1;                       // requests of one list that are best kept under way at once,
  double overlap = 1;                  // and how many of these pass in the time of one
  bool extends_alone = false;          // writes overlap within the file only, not those that lengthen it

  // A request this long takes as long for its bytes as for itself: so long a hole is better read than left out.
  double request_bytes() const { return request_seconds / overlap / byte_seconds; }
  // Whether a request is mostly waited for, which ranks do together, or worked on, which cores do one at a time.
  bool waits() const { return request_seconds > 2e-5; }
};

struct Profile {
  static constexpr Bytes kPage = kPageBytes;
  static constexpr double kUnwanted = 1.3;      // bytes that nobody wants take caches and bandwidth from others, too
  static constexpr double kWorthMapping = 0.8;  // page faults wait for each other, and vary most

  StorageCosts read, write;
  double copy_byte_seconds = 1.2e-10;  // one byte moved between buffers (8 GB/s)
  double copy_range_seconds = 1e-9;    // one more piece in a copy
  double scattered_range_seconds =
      6e-9;  // ... that is shorter than a cache line, and far from the one before; more by way of a staging buffer,
  double far_range_seconds = 1.2e-8;        // and where no cache has kept the line since the last piece of it
  double structure_byte_seconds = 5e-9;     // one byte of a pattern's structure: sent, read and united with the others'
  double lock_seconds = 1.5e-6;             // taking and dropping a free range lock
  double map_seconds = 1e-5;                // mapping a window and giving it back
  double read_page_seconds = 3e-7;          // bringing one page into a mapping that reads, and giving it back
  double run_page_seconds = 3e-7;           // ... of what was written in long runs, which may lie in large folios
  double written_page_seconds = 6e-7;       // ... that writes
  double new_page_seconds = 1.2e-6;         // more for one by which a call makes the file longer,
  double new_mapped_page_seconds = 2.4e-6;  // or a mapping, which reserves space for it first
  double shared_page_seconds = 2.4e-6;      // a new page of the memory of a node's ranks, once all have it
  double agreement_seconds = 3e-6;          // one agreement of a group on one node, each rank with a core,
  double crowded_agreement_seconds = 5e-5;  // more ranks than cores, or several nodes
  double turns_taken = 1.25;                // times as long do ranks' writes to a local file take where they alternate
  Bytes staging = Bytes{1} << 20;           // a staging buffer that stays in the caches,
  Bytes longest_staging = Bytes{4} << 20;   // and one for storage that answers slowly,
  // Of which a write first fills so much: nothing moves beside that copy, nor beside its request where that makes the file longer.
  Bytes first_staging = Bytes{512} << 10;
  Bytes map_window = Bytes{16} << 20;
  Bytes long_range = 2048;       // memory ranges from here on go to the storage without staging
  std::int64_t measured_at = 0;  // when the storage was measured, in seconds since 1970; 0: it was not

  const StorageCosts& of(Direction direction) const { return direction == Direction::kRead ? read : write; }
};

// One line for people: what was measured, and when.
std::string describe(const Profile& profile);

}  // namespace stridio
