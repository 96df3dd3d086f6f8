// The model of an open file of a group, held against the real one step by step: bytes, views and
// pointers by MPI's definitions, byte by byte, and the ranks' real files beside them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "file/file.h"
#include "property/crew.h"
#include "property/oracle.h"
#include "property/scratch_file.h"
#include "property/watched_storage.h"
#include "storage/memory.h"
#include "storage/wrap/fault.h"
#include "support/random_pattern.h"

namespace stridio::testing {

// A view by its definition: data position p stands at displacement + (p / n) * extent + offset p
// mod n of the n bytes of the file type.
class ViewModel {
 public:
  ViewModel() : ViewModel(View{}) {}
  explicit ViewModel(const View& view);

  const View& view() const { return view_; }
  Bytes etype() const { return view_.etype_size; }
  Offset offset_of(Bytes position) const;
  std::vector<Offset> offsets(Bytes position, Bytes length) const;
  // Data positions of whole tiles below the file's byte `limit`.
  Bytes capacity(Offset limit) const;
  // The etypes that start below the end of a file of `length` bytes.
  Offset end(Bytes length) const;
  // Whether tiles follow one another, so that data positions ascend.
  bool regular() const;

 private:
  View view_;
  std::vector<Offset> tile_;
};

// What does not change while the file is open.
struct FileSetting {
  std::uint64_t seed = 0;
  CrewOptions crew;
  AccessMode mode;
  HintList hints;
  Offset limit = 0;       // views and sizes stay about below it
  Bytes length = 0;       // of the file, before it is opened
  bool by_path = false;   // opened by File::open; else put together over a storage in memory that may fail
  bool has_locks = true;  // of the storage in memory
  bool readable = true;
  FaultPlan fault;
  int faulty_rank = -1;  // -1: every rank, if the plan says ever
  int steps = 0;

  bool locks_writes() const { return has_locks && hint_is("romio_ds_write", "enable"); }
  bool hint_is(const char* name, const char* value) const;
  std::string text() const;
};
FileSetting make_setting(std::uint64_t seed);
CrewOptions crew_of_setting(std::uint64_t seed);

// One rank: the model's side, and the real file with what it answered in this step.
struct RankSide {
  ViewModel view;
  Bytes pointer = 0;
  std::unique_ptr<File> file;
  Watch watch;
  int failures_before = 0;  // of the watch, when the step began

  Result<Bytes> result;  // of the step: the bytes moved, or another number that the step asks for
  UserMemory memory;
  std::optional<Offset> position;  // of the pointers, after the step
  std::optional<Offset> shared_position;

  int struck() const { return watch.failures - failures_before; }
};

struct World {
  explicit World(const FileSetting& opened, ScratchFile& path);

  const FileSetting setting;
  ScratchFile& path;
  std::shared_ptr<MemoryFile> file;
  Random random;
  Image image;
  std::vector<RankSide> ranks;
  Bytes shared_pointer = 0;
  bool same_view = true;
  bool atomic = false;
  int step = 0;

  int size() const { return setting.crew.ranks; }
  RankSide& side(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  // Whether writes may put back bytes that nobody asked for: all lock, or nobody has them in view.
  bool may_modify_holes() const;
  // Whether the injected fault was met in this step.
  bool any_struck() const;
  // Whether the fault was met in this step and, if the step is collective, by anybody.
  bool fails(int rank, bool collective) const;
  Image contents() const;
};

}  // namespace stridio::testing
