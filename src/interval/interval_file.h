// IntervalFile: a file that stores the intervals of each process together, whatever their places in the logical file. A
// Storage like any other, over any other, plus what its group does together. Every writev appends: one contiguous run,
// no lock, no other process, nothing read and written back; where it belongs is noted in this process's log. commit()
// makes the logs of all processes the file's next generation, and what they wrote visible to each other; until then a
// process sees what was committed, its own, and small writes of others on its node.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>

#include "base/times.h"
#include "base/worker.h"
#include "collective/agreement.h"
#include "group/group.h"
#include "interval/generation.h"
#include "interval/shared_log.h"
#include "plan/access_plan.h"
#include "storage/forwarding.h"

namespace stridio {

class IntervalFile final : public Storage {
 public:
  // Makes an empty file one, with a first generation that is empty; durable with the first commit. Returns its head.
  static Result<Head> format(Storage& storage);
  // Where the storage is far, its locks and itself are given back in the background,
  ~IntervalFile() override;
  // until when this waits, of all that the process has closed, at most a minute.
  static void await_closed();
  // What rank 0 can do before the others have opened the storage, which spares requests.
  struct Look;  // what has been asked of a new file; under way
  struct Begun {
    Head head;
    std::unique_ptr<RangeLock> writing;  // held since before the head was read; null: no locks, or no interval file
    std::shared_ptr<Look> look;          // of a new file, whose head is what was written; null: it was there
  };
  // By who will write it. Makes an empty file one; what is none stays as it is. kFileInUse where another program, or this one
  // by another handle, has it open for writing. Where the file has nothing yet, and is not known to be new, which nobody had before,
  // it waits for a moment, since another program may be about to write to what it has made.
  static Result<Begun> begin_writing(Storage& storage, bool is_new = false);
  // By who has made the storage, which nobody had before, for storages that are far: the same, with fewer requests in turn. `began`:
  // before it was made. What is begun must not outlive the storage.
  static Result<Begun> begin_newborn(Storage& storage, SinceBoot began);
  // Opening, in three steps: each rank makes one; rank 0 begins, which fails as begin_writing() does, and returns what the others
  // are to be told; with that all join. `group` must outlive it. `requests`: how data move.
  static std::unique_ptr<IntervalFile> make(Group& group, std::unique_ptr<Storage> storage, bool writes,
                                            const SummedRequests& requests);
  Result<Buffer> begin(Begun begun);
  Status join(std::span<const std::byte> told);
  // All three. Collective; fails alike on all ranks. `begun`: on rank 0, of this storage; of a reader the head alone; nothing: nobody
  // else is about to write to it.
  static Result<std::unique_ptr<IntervalFile>> open(Group& group, std::unique_ptr<Storage> storage, bool writes,
                                                    Begun begun = {}, const SummedRequests& requests = {});

  // Collective; fails alike on all ranks, and then the generation before stands, and what was written since is still there
  // for a further try; so it does where a write has failed and none has succeeded since in its place. Where nobody has changed
  // anything, nothing happens. Accesses of other threads wait for it, but not before all ranks have come. Where ranks have written
  // over one another's bytes, all of them half as much again as is live, it may make two generations of the same bytes.
  Status commit();
  // Collective, with no other rank in an access: what has not been committed is given up, its space by rank 0.
  void give_up();

  // Collective: what each has written since the last commit becomes visible to all, and older than what is written afterwards.
  // Nothing is made durable.
  Status share();
  // Whether, and from now on where, a write is visible to all when it returns, as atomic mode wants it; nothing: where it is
  // small. By all ranks alike, with none in an access. Outside of where, the ranks' accesses do not meet, until a share().
  Status show_at_once(std::function<bool(Extent)> where);
  // What one access writes through it is stored at once, and is part of the file, as one write, when count() says so.
  class Whole;
  std::unique_ptr<Whole> begin_whole();
  // The generation that is read from, and its parts.
  const Root& root() const { return seen_.generation->root(); }
  Result<std::shared_ptr<const Part>> part(std::size_t i) { return seen_.generation->part(i, *storage_); }

  // As Storage says, with what this process can see. By all ranks alike:
  Status resize(Bytes size) override;

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override;
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override;
  Result<Bytes> size() override;
  Status reserve(Bytes size) override;
  Result<std::unique_ptr<SharedRead>> share_read() override;
  Result<std::unique_ptr<StoredRead>> read_stored() override;
  Result<StoredAs> look_up(std::span<const Extent> extents) override;
  // Of this process's bytes alone: only commit() makes a generation of them.
  Status sync() override { return storage_->sync(); }
  Status refresh() override { return storage_->refresh(); }
  void keep_apart() override { storage_->keep_apart(); }
  // They are stored together.
  void expect_write(Bytes bytes) override;
  // Of the lock managers' ranges alone (kIntervalLocks): they tell the ranks of this handle apart.
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override;
  bool has_locks() override { return false; }
  Caps caps() const override;
  const std::string& path() const override { return storage_->path(); }

 private:
  static constexpr Bytes kLeastReclaimed = Bytes{256} << 10;

  // What one writev put into a cell.
  struct Fragment {
    Extent stored;
    std::uint32_t sum;
  };
  struct Appended {
    std::vector<Extent> stored;
    std::vector<Fragment> fragments;
    Transferred moved;
  };
  // What has been appended, and is not committed.
  struct Written {
    std::vector<PieceGroup> groups;  // of all writes, as they came,
    bool has_more = false;           // unless they are too many to be compared
    WriteLog published;              // to the shared log, which hides; others may have overwritten it
    bool lacks_published = false;    // something that may have been
    WriteLog log;                    // since the last share(), which hides
    IntervalMap telling;             // what is being told, which hides
    IntervalMap told;                // what has been, without what others had written over it by then
    std::vector<Fragment> fragments;
    std::vector<Fragment> told_fragments;  // others may read them
    Bytes bytes = 0;                       // of both
  };
  // This process's of it: that of which the others have not been told, and that which is older than all that they have not told.
  struct Mine {
    IntervalMap latest, told;
  };
  // A part of this process's, on its way into the next generation.
  struct Own {
    PartEntry entry;
    std::shared_ptr<const Part> part;  // null: not read, and not changed
    bool changed = false;
    std::vector<std::byte> metadata = {};  // to be stored, since it has changed or is in the tail of a header
  };
  // A rank's lines of it, as it tells them; and their metadata, if all have theirs in the tail.
  struct Lines {
    Buffer entries, metadata;
    bool in_tail = false;
  };
  // The generation that is to be the newest.
  struct Next {
    Root root;
    std::vector<std::byte> encoded;    // the root
    std::vector<std::byte> tail = {};  // of its header: root and metadata, or nothing
  };
  // What a process has done since the last commit.
  struct Announcement {
    Bytes size = 0, cut = 0;
    Bytes stored = 0;     // with what has been overwritten
    bool failed = false;  // some writes have
    Mine written;
  };
  // What a commit does beside: what has been written becomes durable while the ranks still agree on what to commit; rank 0 asks for
  // readers while the header does.
  struct Flush {
    std::optional<std::uint64_t> covers = {};  // appends; nothing: it has not begun
    Status done = {};
    bool unread = false;                       // nobody reads an older generation
    std::vector<Announcement> announced = {};  // by all ranks, once they have
    Worker worker = {};                        // ends before what it writes
  };
  // What could not be written, and has not been since. What others have in its place counts where they wrote it after a commit
  // told that it was missing: what they wrote before may be older than what failed.
  struct Failed {
    IntervalMap fresh, told;  // what no commit has told of, and what one has
    IntervalMap others;       // what others had at that commit
    Error why;

    bool empty() const { return fresh.empty() && told.empty(); }
    void note(const IntervalMap& bytes, const Error& error);
    void forget(const IntervalMap& written);
    void tell(IntervalMap now);
    void cut(Offset end);
  };
  // What rank 0 tells when a generation has become the newest.
  struct Finished {
    Verdict verdict;
    Extent root;          // where the root lies
    Offset end = 0;       // behind it is space for everybody
    bool reuse = false;   // nobody reads older generations
    bool broken = false;  // nobody knows which generation the header names
  };

  IntervalFile(Group& group, std::unique_ptr<Storage> storage, bool writes, const SummedRequests& requests)
      : group_(group), storage_(std::move(storage)), writes_(writes), requests_(requests) {}

  std::shared_lock<std::shared_mutex> stay_in_epoch();
  Result<Intervals> visible(Extent bounds);

  bool is_far() const { return requests_.write.depth > 1; }
  Result<std::vector<std::byte>> begin(Begun begun, Finished& told);
  Status looked();
  bool nobody_reads_before(std::uint64_t generation);
  Status settle_space(const Root& root, Finished& told);
  void adopt(std::shared_ptr<Generation> generation, const std::vector<Own>& own, const Finished& told);

  void find_space(const Finished& told);
  std::atomic<Bytes>* taken_on_node() const;
  Result<Offset> take_space(Bytes bytes);
  std::vector<Extent> stored_space(Extent taken) const;
  Status take_extents(Bytes bytes);
  Status take_chunk(Bytes bytes);
  bool ends_in_cell() const;
  Extent leave_cell();
  bool change_chunk(Bytes bytes);
  void find_whole(Bytes bytes);
  void put_back(Extent rest);
  void add_free(std::span<const Extent> freed, Extent chunk);
  Offset end_of_expected();
  Extent allocate_last(Bytes bytes);
  Result<std::vector<Extent>> allocate(Bytes bytes);
  Result<Extent> allocate_whole(Bytes bytes);
  Result<Transferred> write(std::span<const Extent> extents, std::span<const Span> memory,
                            const std::function<Status(const Appended&)>& stored);
  Status count(const PieceList& pieces);
  Result<Appended> append(Bytes bytes, std::span<const Span> memory);
  static void note(std::span<const Extent> extents, const Appended& appended, Written& written, PieceList& pieces);
  Result<bool> log(const PieceList& pieces);
  Result<bool> publish(const PieceList& pieces);
  bool is_mine(Extent range) const;
  Status look_around();
  WriteLog& shared();
  bool is_untouched() const;
  Status look_around_together();
  Mine as_written();
  Mine still_mine();
  std::vector<Fragment> all_fragments() const;
  Status reclaim(Bytes wanted);
  void free_all_but(const Mine& mine);
  tl::unexpected<Error> refuse(Code code, std::string what) const;
  tl::unexpected<Error> too_many() const;
  tl::unexpected<Error> refuse_broken() const;
  Status check_whole() const;
  Status check_writable() const;
  Status check_end(Offset end, const char* what) const;
  IntervalMap others_of(const std::vector<Announcement>& all) const;
  Status nothing_failed(const std::vector<Announcement>& all);
  Status note_lost(const Flush& flush);

  Result<std::vector<Announcement>> announce();
  Result<std::vector<Own>> prepare(const std::vector<Announcement>& all);
  Own make_own(IntervalMap map, const Sums& stored) const;
  void compact(std::vector<Own>& parts);
  Result<Own> moved(const IntervalMap& map);
  Result<std::shared_ptr<const Part>> known_part(const PartEntry& entry);
  Status merge_small(std::vector<Own>& parts);
  void encode_parts(std::vector<Own>& parts) const;
  Status place(std::vector<Own>& parts);
  Status commit(Flush& flush);
  template <typename Prepare>
  Status advance(Prepare prepare, Bytes size, bool may_be_tail, Flush& flush);
  Status tighten(Bytes written);
  bool is_dirty();
  void begin_flush(Flush& flush);
  Status keep_newborn();
  Result<std::vector<Lines>> tell_lines(Status prepared, std::vector<Own>& own, bool may_be_tail);
  Result<Next> next_of(const std::vector<Lines>& lines, std::vector<Own>& own, Bytes size);
  Status store(const std::vector<Own>& parts, const Next& next, Flush& flush, Extent& root_place);
  Status finish(const Next& next, bool again, Flush& flush, Finished& told);

  Group& group_;
  std::unique_ptr<Storage> storage_;
  const bool writes_;
  const SummedRequests requests_;
  std::unique_ptr<RangeLock> writing_, reading_;  // rank 0's: that nobody else writes; the pin of the generation

  std::mutex turnstile_;                // so that accesses, coming one after the other, do not keep a commit waiting
  std::shared_mutex epoch_;             // shared: accesses; exclusive: the commit
  std::mutex mutex_;                    // of what follows
  Intervals seen_;                      // without layers
  std::uint64_t era_ = 0;               // of what is appended: a commit ends it, and a sync that has failed
  std::vector<std::size_t> own_parts_;  // of the generation's
  Written written_;
  std::unique_ptr<SharedLog> shared_log_;  // null: none
  std::function<bool(Extent)> shown_;      // in atomic mode; as show_at_once() says
  WriteLog shared_;                        // what was in it; hides the log of written_, which hides
  std::vector<PieceGroup> heard_;          // later, and not put into shared_ yet
  std::vector<IntervalMap> others_;        // what others have shared; each hides those behind it
  Failed failed_;
  bool published_ = false;                   // what may not be in shared_ yet
  std::uint64_t appends_ = 0, durable_ = 0;  // that have ended, and how many of them are durable
  Bytes reclaim_at_ = 0;                     // of written_.bytes,
  Bytes look_at_ = 0;                        // and without what this process has overwritten itself
  std::vector<Extent> space_;                // of the stored file, for all ranks to take from, in order
  Bytes taken_ = 0;                          // of it, where there is one rank
  std::vector<Extent> free_;                 // taken by this one, whole cells as a rule, the last to be used first;
  Extent chunk_;                             // the one in use
  std::set<Offset> padded_;                  // where what was stored ends, and has the rest of its cell to itself
  bool reuses_ = false;                      // space, in this epoch
  Bytes expected_ = 0;                       // about to be written
  Offset reach_ = 0;         // behind all that this one has used, or made the file reach, since the last commit
  Offset lengthened_ = 0;    // so far the file reaches, as this one knows
  Offset expected_end_ = 0;  // so far it is to reach: the bytes that come next lie before that; 0: that does not matter
  bool extending_ = false;   // they are being stored,
  std::condition_variable extended_;  // for which the others wait
  Bytes stored_size_ = 0;             // at most so long is the stored file, as rank 0 knows
  bool broken_ = false;
  bool superseded_ = false;  // what is seen, by a generation of the same bytes: its space may have been given back
  std::shared_ptr<Look> look_;
};

class IntervalFile::Whole final : public ForwardingStorage {
 public:
  explicit Whole(IntervalFile& file) : ForwardingStorage(file), file_(file), era_(file.era_) {}
  // What has not been counted has failed.
  ~Whole() override;

  // False, and nothing happens, where a commit came between: its space may have been given away, or its bytes be lost, and it must be
  // written again.
  Result<bool> count();

  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override;

 private:
  IntervalFile& file_;
  const std::uint64_t era_;
  Written written_ = {};  // of it the fragments
  PieceList pieces_;      // not counted yet
};

}  // namespace stridio
