// The storage's side of a two-phase access, on the rank that serves a file domain.
#pragma once

#include "base/times.h"
#include "collective/window_reader.h"
#include "plan/collective_plan.h"
#include "storage/storage.h"

namespace stridio {

// What an aggregator tells of its next window; empty for other ranks and at the end.
struct Round {
  Extent window;
  Offset valid_end = 0;  // a read: where the file ended, if inside the window; else the window's end
  std::int32_t failed = 0;
};

// What the ranks do after they have told each other: move a window's bytes, end, as nobody has one left, or give up: then
// bytes of the window before may be missing, too.
enum class Next { kMove, kEnd, kFail };

// The data positions of `file` that lie in a round's window.
Extent positions(const Pattern& file, const Round& round);

// Window after window of the union of all ranks' patterns: read when it is found, or written when it is full.
class Aggregator {
 public:
  // `patterns`: every rank's bytes in the domain. Windows hold at most `most` bytes of `counted` together, each pattern's
  // counted; `most` is not less than their number.
  Aggregator(Storage& storage, const CollectivePlan& plan, Direction direction, std::span<const Pattern> patterns,
             Times& times, std::vector<Pattern> counted = {}, Bytes most = 0)
      : storage_(storage),
        plan_(plan),
        reads_(direction == Direction::kRead),
        windows_(patterns, plan.window),
        counted_(std::move(counted)),
        most_(most),
        times_(times) {}

  // Goes to the next window; for a read, takes it into `buffer`, small holes included.
  Status next(std::byte* buffer);
  // Writes the window before it, which stands in `buffer`.
  Status flush_previous(std::byte* buffer);
  // The same in two steps: which window that is, and to write it, from any thread.
  FileWindow take_previous();
  Status write(const FileWindow& window, std::byte* buffer) const;

  Round round() const { return {window_.range, valid_end_}; }
  std::int64_t requests() const { return requests_; }

 private:
  FileWindow find();
  Bytes count(const Extent& range) const;
  Status fetch(std::byte* buffer);
  Result<std::unique_ptr<RangeLock>> lock_of(Extent range) const;

  Storage& storage_;
  const CollectivePlan& plan_;
  const bool reads_;
  WindowReader windows_;
  const std::vector<Pattern> counted_;
  const Bytes most_;
  Times& times_;
  FileWindow window_, previous_;
  FileWindow rest_;  // of a window that held too much
  Offset valid_end_ = 0;
  std::int64_t requests_ = 0;
};

}  // namespace stridio
