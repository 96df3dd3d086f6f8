// Type signatures: the predefined datatypes that a datatype is made of, in type-map order, without their places. Kept as
// structured as the datatype: a contiguous type of 10^8 doubles is one part.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "base/result.h"
#include "mpiio/external32.h"
#include "mpiio/host.h"

namespace stridio::mpiio {

// A predefined datatype, a *data item* of MPI-4.1 section 14.5, and its bytes in memory without padding.
struct Item {
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  Bytes size = 0;
  std::optional<Format32> external32 = {};  // nothing for an extension that has none
};

class Signature {
 public:
  // The empty signature.
  Signature() = default;
  explicit Signature(const Item& item);
  static Signature repeated(std::int64_t count, const Signature& child);
  static Signature sequence(const std::vector<Signature>& parts);

  std::int64_t items() const { return items_; }

  // Calls `body(item, count)` for runs of equal items, in order, until it returns false. Returns false if it did.
  template <typename Body>
  bool for_each_run(Body&& body) const {
    for (const Part& part : parts_) {
      if (!part.child) {
        if (!body(part.item, part.count)) return false;
        continue;
      }
      for (std::int64_t i = 0; i < part.count; ++i)
        if (!part.child->for_each_run(body)) return false;
    }
    return true;
  }

  // The sum over all items of `value(item)`, a Result<Bytes>, at the cost of the structure. kCount where it overflows.
  template <typename Value>
  Result<Bytes> sum(Value&& value) const {
    Bytes total = 0;
    for (const Part& part : parts_) {
      const Result<Bytes> each = part.child ? part.child->sum(value) : value(part.item);
      if (!each) return each;
      Bytes all = 0;
      if (__builtin_mul_overflow(*each, part.count, &all) || __builtin_add_overflow(total, all, &total))
        return fail(Code::kCount, "the data take more than 2^63 - 1 bytes in the file");
    }
    return total;
  }

 private:
  struct Part {
    std::int64_t count;
    Item item;                               // where there is no child
    std::shared_ptr<const Signature> child;  // of several parts
  };
  void append(const Part& part);

  std::vector<Part> parts_;
  std::int64_t items_ = 0;
};

}  // namespace stridio::mpiio
