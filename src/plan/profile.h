// The measured constants of the cost model. Defaults: page cache and tmpfs of a 2-core virtual machine, GCC 12, medians
// of a few runs; they decide between methods by ratio, so that a factor of two in them rarely changes a choice.
#pragma once

#include "base/extent.h"

namespace stridio {

struct Profile {
  static constexpr Bytes kPage = 4096;

  double request_seconds = 1.2e-6;     // one read or write request, besides its bytes
  double storage_byte_seconds = 2e-10; // one byte of a long request (5 GB/s)
  double copy_byte_seconds = 1.2e-10;  // one byte moved between buffers (8 GB/s)
  double copy_range_seconds = 1e-9;    // one more piece in a copy
  double structure_byte_seconds = 5e-9; // one byte of a pattern's structure: sent, read and united with the others'
  double lock_seconds = 1.5e-6;        // taking and dropping a free range lock
  double map_seconds = 1e-5;           // mapping a window and giving it back
  double read_page_seconds = 1e-7;     // bringing one page into a mapping that reads
  double written_page_seconds = 4e-7;  // ... that writes: space for it is reserved first
  double agreement_seconds = 4e-5;     // one agreement of a group on one node, oversubscribed
  Bytes staging = Bytes{1} << 20;      // a staging buffer that stays in the caches
  Bytes map_window = Bytes{16} << 20;
  Bytes long_range = 2048;             // memory ranges from here on go to the storage without staging
};

}  // namespace stridio
