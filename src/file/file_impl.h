// The one implementation of File.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "base/worker.h"
#include "collective/collective.h"
#include "file/conflicts.h"
#include "file/file.h"
#include "file/replacement.h"
#include "file/report.h"
#include "file/shared_state.h"
#include "interval/cache.h"
#include "interval/interval_file.h"

namespace stridio {

struct FileParts {
  std::shared_ptr<Group> group;
  std::unique_ptr<Storage> storage;  // traced into report
  IntervalFile* interval = nullptr;  // the storage, if it is one
  std::unique_ptr<Report> report;
  AccessMode mode;
  Hints hints;
  std::string path;
  bool checks = false;                                 // accesses for conflicts
  bool replaces = false;                               // the storage is a new version of the file at `path`,
  std::unique_ptr<Replacement> replacement = nullptr;  // rank 0's
  std::string report_directory;                        // empty: no report
  bool explain = false;
  bool readable = true;  // a write-only file may forbid reading
  bool caches = false;   // a node may not see what others write (Caps), and so all refresh
  Profile profile = {};  // the same on all ranks
};

class FileImpl final : public File {
 public:
  explicit FileImpl(FileParts parts);

  Status close() override;
  Status set_size(Bytes size) override;
  Status preallocate(Bytes size) override;
  Result<Bytes> size() override;
  Status sync() override;
  Status set_view(const View& view, const HintList& hints, std::optional<Error> invalid) override;
  const View& view() const override { return view_; }
  Status set_hints(const HintList& hints) override;
  const Hints& hints() const override { return parts_.hints; }
  Status seek(Offset offset, Whence whence) override;
  Result<Offset> position() override;
  Status seek_shared(Offset offset, Whence whence) override;
  Result<Offset> position_shared() override;
  Result<Offset> byte_offset(Offset etype_offset) override;
  Status set_atomicity(bool atomic) override;
  bool atomicity() const override { return atomic_; }
  const AccessMode& mode() const override { return parts_.mode; }
  const std::string& path() const override { return parts_.path; }
  Result<Access> bind(const Access& access) override;
  bool collectives_run_anywhere() const override { return parts_.group->runs_anywhere(); }
  Result<Bytes> transfer(const Access& access) override;

  // What a rank has to do after the storage is open: shares pointer and locks with the others, and puts both pointers
  // at the start of the file, or at its end in append mode. Collective.
  Status begin();

 private:
  Status reset_shared_pointer(Bytes value);
  Status check(const Access& access) const;
  Result<Bytes> take_position(const Access& access, Bytes length);
  Result<Bytes> take_ordered(Bytes length);
  Result<Bytes> transfer_alone(const Access& access);
  Result<Bytes> transfer_together(const Access& access);
  Result<std::unique_ptr<RangeLock>> hold(Direction direction, Extent range);
  Result<Transferred> atomically(Direction direction, Extent range, const AccessTo& access);
  bool wants_reasons() const { return parts_.explain || !parts_.report_directory.empty(); }
  bool is_one_request(Direction direction, const Pattern& file, const Memory& memory) const;
  Result<Transferred> move_one(Direction direction, Storage& storage, const Pattern& file, const Memory& memory);
  Result<Transferred> execute_alone(Direction direction, const Pattern& file, const Memory& memory);
  Result<Bytes> write_alone(const Pattern& file, const Memory& memory);
  Result<CollectiveOutcome> move_together(CollectiveRequest& request);

  // Writes that are kept (cached.cc).
  Bytes long_write() const;
  Bytes cache_budget() const;
  bool may_keep() const;
  bool keeps(Bytes bytes) const;
  Result<Bytes> keep(const Pattern& file, const Memory& memory, bool collective);
  Result<bool> kept_together(const CollectiveRequest& request);
  Storage& seen_storage();
  Status drain();
  void drain_beside();
  Status hand_on();
  Status flush_together();
  Status flush_batches();
  CollectiveRequest request_for(const WriteCache::Batch& batch);

  AccessRules access_rules(Direction direction, const Pattern& file) const;
  CollectiveRules collective_rules(Direction direction) const;
  Result<Offset> seek_target(Offset offset, Whence whence, Bytes current);
  Status move_shared_pointer(Offset offset, Whence whence);
  Status change_size(Bytes size, Status (Storage::*change)(Bytes), const char* what);
  Status show_writes(bool atomic = false);
  Status cut_view(const View& view);
  Status agreed_view(const View& view, const HintList& hints, std::optional<Error> invalid);
  Correction correction(Direction direction);
  template <typename Learn>
  void correct(Direction direction, Learn learn) {
    const std::scoped_lock lock(correction_mutex_);
    learn(corrections_[static_cast<std::size_t>(direction)]);
  }
  void note_layout();
  void note_reached(Offset end);
  Status replace(const Status& closed);
  void note(Direction direction, const Pattern& file);
  Status check_conflicts();
  Status refresh();
  Status share();
  void explain(const char* call, const std::string& why) const;

  FileParts parts_;
  SharedState shared_;
  std::string removed_;  // at the close, if at all
  View view_;
  std::atomic<bool> write_failed_ = false;
  std::atomic<Offset> reached_ = 0;  // by this rank's writes: the file is so long, if nobody has cut it
  bool own_holes_ = false;           // nobody of the group or outside writes the holes of this rank's requests
  bool atomic_ = false;
  const bool shown_;  // all that is written, to all ranks at once
  std::mutex correction_mutex_;
  std::array<Correction, 2> corrections_;  // by direction
  PatternCache patterns_;                  // of the last collective access across nodes
  std::unique_ptr<WriteCache> cache_;      // a writer's
  std::unique_ptr<Conflicts> conflicts_;
  std::mutex draining_;                          // who hands on what it keeps,
  std::atomic<bool> flushing_together_ = false;  // with other ranks, who may come late
  std::atomic<bool> draining_beside_ = false;    // in the background
  std::mutex pointer_mutex_;
  Bytes pointer_ = 0;  // in bytes of the view's data
  Worker beside_;      // ends before what its tasks use
};

// Collective: the ranks must agree on what hints must agree on; the first rank prints the warnings.
Result<Hints> agree_on_hints(Group& group, Hints hints, const std::vector<std::string>& warnings);

}  // namespace stridio
