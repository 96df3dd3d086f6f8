// A committed generation of an interval file, as whoever reads it holds it; and the reading of intervals.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "interval/format.h"
#include "plan/access_plan.h"
#include "storage/storage.h"
#include "storage/stored_read.h"

namespace stridio {

// The first bytes of a stored file: the headers with their tails.
struct Head {
  std::vector<std::byte> bytes;
  bool whole = false;  // the file has no more
  std::string path = {};

  // `near`: what is needed by a few small requests; else all by one, which is long.
  static Result<Head> read(Storage& storage, bool near = false);
  // By a few small requests where no header has changed, or was being written.
  Result<Head> read_again(Storage& storage) &&;

  // What the storage holds: an interval file may be damaged.
  enum class Content { kNothing, kIntervals, kOther };
  Content content() const;
  // Whether making the file has ended before its first commit, and not all of it is there: nothing is lost if it is made anew.
  bool is_unfinished() const;
  // The valid header with the highest generation. Where there is none, the error of the first that begins as one.
  Result<Header> newest() const;

 private:
  Result<bool> read_headers(Storage& storage);
  std::span<const std::byte> at(int header, Bytes most = kHeaderStep) const;  // what there is of it, and of its tail
  bool is_cut() const;
};

struct StoredRoot {
  std::vector<std::byte> bytes;  // are one
  Bytes size = 0;                // of the storage, which reaches as far as they say
};
// `even_if_cut`: also where the storage ends before that.
Result<StoredRoot> read_root(Storage& storage, const Head& head, const Header& header, bool even_if_cut = false);

// The newest root of a file to which others may commit meanwhile. As long as the pin is held, all that it refers to stays.
struct PinnedRoot {
  Header header;
  StoredRoot root;
  std::unique_ptr<RangeLock> pin;  // null: the storage has no locks
};
struct Pinning {
  bool by_one_request = false;  // the head is read
  bool even_if_cut = false;
};
// `head`: what has been read already, if anything.
Result<PinnedRoot> pin_newest(Storage& storage, Head head = {}, const Pinning& how = {});

// Where a run of a part lies, and its first cell's sum among the part's.
struct StoredRun {
  Extent stored;
  std::size_t part = 0;
  std::size_t first_sum = 0;
};

// Thread-safe.
class Generation {
 public:
  // The storage reaches as far as the root says.
  explicit Generation(Root root, std::vector<std::byte> tail = {});
  static Result<std::shared_ptr<Generation>> newest(Storage& storage);
  static Result<std::shared_ptr<Generation>> of(Header header, const StoredRoot& root);

  const Root& root() const { return root_; }
  const std::vector<std::byte>& tail() const { return tail_; }  // of the header
  // The numbers of its parts, in the order in which these begin.
  const std::vector<std::size_t>& by_offset() const { return by_offset_; }
  // Of all parts, ascending; found at the first call.
  const std::vector<StoredRun>& stored_runs();
  // The intervals of root().parts[i]: read and checked at the first call.
  Result<std::shared_ptr<const Part>> part(std::size_t i, Storage& storage);
  // They are known already,
  void keep(std::size_t i, std::shared_ptr<const Part> part);
  // or some are, that have not changed since an earlier generation.
  void keep_from(Generation& earlier);

 private:
  const Root root_;
  const std::vector<std::byte> tail_;
  std::vector<std::size_t> by_offset_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Part>> parts_;  // null: not read
  std::once_flag runs_found_;
  std::vector<StoredRun> stored_runs_;
};

// What is read from: a generation, and over it what this process has written since.
struct Intervals {
  std::shared_ptr<Generation> generation;
  Bytes cut = 0;                    // the generation counts below this offset only
  Bytes size = 0;                   // of the logical file
  std::vector<IntervalMap> layers;  // each hides those behind it, and all the generation
};

class ReadSums;

// As Storage::readv does with the logical file; holes are zeros. What a generation stored is checked by its sums: kIo where one
// is wrong. Where `sums` are kept, what is not read of whole cells is not checked, but noted there. Memory: some megabytes besides.
Result<Transferred> read_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents,
                                   std::span<const Span> memory, const SummedRequests& requests,
                                   ReadSums* sums = nullptr);
// Where they are stored: as StoredRead::find() does, of a generation without layers.
Result<Transferred> find_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents,
                                   std::span<const Span> memory, std::vector<StoredPiece>& pieces);
// Of the generation, which is all that is read from.
std::unique_ptr<StoredRead> read_blocks(Storage& storage, std::shared_ptr<Generation> generation);
// How they are stored. Of what lies between pieces as much is touched as is mapped with them.
Result<StoredAs> look_up_intervals(Storage& storage, const Intervals& from, std::span<const Extent> extents);
// Checks what readers have told each other (read_sums.h), and reads the cells that their sums say nothing of.
Status verify_told(Storage& storage, std::span<const std::vector<std::byte>> told, const SummedRequests& requests);

}  // namespace stridio
