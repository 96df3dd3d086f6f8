// The measured constants of the cost model. Defaults: page cache and tmpfs of a 2-core virtual machine, GCC 12, medians
// of a few runs; they decide between methods by ratio, so that a factor of two in them rarely changes a choice.
#pragma once

#include "base/extent.h"

namespace stridio {

struct Profile {
  double request_seconds = 1.2e-6;     // one read or write request, besides its bytes
  double storage_byte_seconds = 2e-10; // one byte of a long request (5 GB/s)
  double copy_byte_seconds = 1.2e-10;  // one byte moved between buffers (8 GB/s)
  double copy_range_seconds = 1e-9;    // one more piece in a copy
  double structure_byte_seconds = 5e-9; // one byte of a pattern's structure: sent, read and united with the others'
  double lock_seconds = 1.5e-6;        // taking and dropping a free range lock
  double agreement_seconds = 4e-5;     // one agreement of a group on one node, oversubscribed
  Bytes staging = Bytes{1} << 20;      // a staging buffer that stays in the caches
  Bytes long_range = 2048;             // memory ranges from here on go to the storage without staging
};

}  // namespace stridio
