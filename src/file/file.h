// File: an open file of a group. The composition root: opens the storage, keeps view and pointers, chooses and
// runs a method for each access, and agrees on errors. MPI's semantics without MPI: mpiio/ converts and delegates.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/extent.h"
#include "base/result.h"
#include "file/hints.h"
#include "group/group.h"
#include "pattern/copy.h"
#include "plan/access_plan.h"
#include "storage/storage.h"

namespace stridio {

struct AccessMode {
  bool read_only = false;
  bool write_only = false;
  bool read_write = false;
  bool create = false;
  bool exclusive = false;
  bool delete_on_close = false;
  bool unique_open = false;
  bool sequential = false;
  bool append = false;

  bool reads() const { return read_only || read_write; }
  bool writes() const { return write_only || read_write; }
  bool operator==(const AccessMode&) const = default;
  // kAmode with what is wrong: not exactly one of the three access modes, RDONLY with CREATE or EXCL, RDWR with
  // SEQUENTIAL.
  Status check() const;
};

// MPI-4.1 section 14.3. `filetype` repeats every `extent` bytes from `displacement` on.
struct View {
  Offset displacement = 0;
  Bytes etype_size = 1;
  Pattern filetype = Pattern::run(0, 1);
  Bytes filetype_extent = 1;
  std::string representation = "native";  // its name: the ranks must agree; data come and go converted
  // kDatatype or kArgument with what is wrong with it; an overlapping file type is refused only for writers.
  Status check(const AccessMode& mode) const;
};

enum class Pointer { kExplicit, kIndividual, kShared };
enum class Whence { kSet, kCurrent, kEnd };

struct Access {
  Direction direction = Direction::kRead;
  Pointer pointer = Pointer::kExplicit;
  bool collective = false;  // with Pointer::kShared: the ordered calls
  Offset offset = 0;        // in etypes relative to the view; kExplicit only
  Memory memory = {};       // its size: a multiple of the etype's (checked here)
  // A rank whose arguments were bad still takes part in a collective call: with its error and an empty request.
  std::optional<Error> invalid = {};
  bool bound = false;  // by File::bind: its offset is where it goes, whatever the pointers are now
};

// One thread of a rank at a time for collective members; independent ones may run on several threads at once.
// Errors of collective members are the same on all ranks (the worst, named by rank).
class File {
 public:
  // Collective. Prefixes of `name`: ROMIO's (ufs:, nfs: ...) are dropped; unknown ones are part of the name.
  static Result<std::unique_ptr<File>> open(std::shared_ptr<Group> group, const std::string& name,
                                            const AccessMode& mode, const HintList& hints);
  static Status remove(const std::string& name);
  virtual ~File() = default;

  // Collective; the object is unusable afterwards, also when it fails.
  virtual Status close() = 0;

  // Collective. kNotSame where the ranks disagree.
  virtual Status set_size(Bytes size) = 0;
  virtual Status preallocate(Bytes size) = 0;
  virtual Result<Bytes> size() = 0;
  virtual Status sync() = 0;

  // Collective; resets the pointers. `invalid`: as in Access.
  virtual Status set_view(const View& view, const HintList& hints, std::optional<Error> invalid = {}) = 0;
  virtual const View& view() const = 0;
  virtual Status set_hints(const HintList& hints) = 0;  // collective
  virtual const Hints& hints() const = 0;

  // In etypes, relative to the view. kArgument where the result would be negative. kUnsupportedOperation with
  // sequential mode.
  virtual Status seek(Offset offset, Whence whence) = 0;
  virtual Result<Offset> position() = 0;
  virtual Status seek_shared(Offset offset, Whence whence) = 0;  // collective
  virtual Result<Offset> position_shared() = 0;
  // The absolute byte of the file at which an etype of the view starts.
  virtual Result<Offset> byte_offset(Offset etype_offset) = 0;

  virtual Status set_atomicity(bool atomic) = 0;  // collective
  virtual bool atomicity() const = 0;

  virtual const AccessMode& mode() const = 0;
  virtual const std::string& path() const = 0;

  // For accesses that are done later: checks `access` and moves the pointer that it uses, now; the result is what to
  // transfer, at its place. A collective access with bad arguments comes back with them, to take part with nothing.
  virtual Result<Access> bind(const Access& access) = 0;
  // Whether collective transfers may run on a thread that must not call the MPI library.
  virtual bool collectives_run_anywhere() const = 0;

  // Moves data; returns the bytes moved (a read stops at the end of the file). Collective if access.collective.
  virtual Result<Bytes> transfer(const Access& access) = 0;
};

}  // namespace stridio
