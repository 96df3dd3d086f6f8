// What one rank did with one file, for `stridio run --report`: a JSON file per rank and open.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/extent.h"
#include "base/result.h"
#include "base/times.h"
#include "file/hints.h"
#include "plan/access_plan.h"
#include "storage/wrap/trace.h"

namespace stridio {

// Thread-safe.
class Report {
 public:
  static constexpr std::size_t kLongestView = 64 << 10;

  // `method`: a constant.
  void count(Direction direction, bool collective, Bytes bytes, std::string_view method, std::string_view why);
  // An independent access that was one request.
  void count_one(Direction direction, Bytes bytes) {
    auto& [calls, moved] = single_[static_cast<std::size_t>(direction)];
    calls.add(1);
    moved.add(bytes);
  }
  void note_hints(const Hints& hints) {
    hints_ = hints.entries;
    hint_sources_ = hints.sources;
  }
  void note_profile(std::string profile) { profile_ = std::move(profile); }
  // The last one set, as encoded; longer ones than kLongestView are left out.
  void note_view(Offset displacement, Bytes extent, std::vector<std::byte> pattern);
  // Of atomic mode: the sets of intervals that the last view shares with other ranks', and how many of them are not exact.
  void note_intervals(std::int64_t shared, std::int64_t inexact) {
    shared_sets_ = shared;
    inexact_sets_ = inexact;
  }
  Times& times() { return times_; }
  const std::shared_ptr<StorageCounters>& storage() { return storage_; }

  // Into a file of its own in `directory`.
  Status write(const std::string& directory, const std::string& path, int rank, int ranks);

 private:
  struct Use {
    std::int64_t calls = 0;
    Bytes bytes = 0;
    std::string why;  // of the last call
  };
  struct Key {
    std::string_view method;
    Direction direction;
    bool collective;
    auto operator<=>(const Key&) const = default;
  };
  struct Singles {
    Counter calls, bytes;
  };
  std::array<Singles, 2> single_;  // by direction
  std::mutex mutex_;
  std::map<Key, Use> uses_;
  Times times_;
  std::string profile_;
  std::map<std::string, std::string> hints_, hint_sources_;
  std::int64_t shared_sets_ = 0, inexact_sets_ = 0;
  struct {
    Offset displacement = 0;
    Bytes extent = 1;
    std::vector<std::byte> pattern = {};
  } view_;
  std::shared_ptr<StorageCounters> storage_ = std::make_shared<StorageCounters>();
};

}  // namespace stridio
