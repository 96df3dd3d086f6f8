// What the ranks of an open file share beyond its bytes: the shared file pointer and the locks of atomic mode. Neither ever
// needs another rank to be inside MPI: on one node they live in memory that all ranks map; across nodes the pointer is a
// small file beside the data, under a storage lock, and the locks are the storage's own.
#pragma once

#include <atomic>
#include <memory>

#include "file/atomicity.h"
#include "group/group.h"

namespace stridio {

class SharedPointer {
 public:
  virtual ~SharedPointer() = default;
  // In bytes of the view's data. Any rank, at any time.
  virtual Result<Bytes> load() = 0;
  virtual Status store(Bytes value) = 0;
  // The value before; kArgument, and unmoved, where it would become more than `most`.
  virtual Result<Bytes> fetch_add(Bytes amount, Bytes most) = 0;
  // Whether what holds the pointer is what this rank has used since the last reset. With an agreement before the reset.
  virtual Status intact() = 0;
  // Called by all ranks with an agreement before, and if it asks for it after: the pointer is at `value`, and holds nothing outside
  // memory.
  virtual Status reset(Bytes value) = 0;
  virtual bool needs_agreement_after_reset() const = 0;
};

// While it lives, this rank counts among those of its node that write much to the file by a planned access, by calls and not
// by a mapping. An estimate: short and collective writes are not counted, and who is killed meanwhile is until the close.
class Writing {
 public:
  // `writers`: as in the shared state.
  explicit Writing(std::atomic<std::int32_t>* writers) : writers_(writers) {
    if (writers_) others_ = writers_->fetch_add(1, std::memory_order_relaxed);
  }
  ~Writing() {
    if (writers_) writers_->fetch_sub(1, std::memory_order_relaxed);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  // That did so before.
  int others() const { return others_; }

 private:
  std::atomic<std::int32_t>* const writers_;
  int others_ = 0;
};

struct SharedState {
  std::unique_ptr<SharedPointer> pointer;
  std::atomic<std::int32_t>* writers = nullptr;  // for Writing; null: the ranks share no memory
  std::unique_ptr<Atomicity> atomicity;          // from the first atomic mode on
};

// Collective. `path`: of the data, by the first rank's name; the file beside what that leads to, NAME.stridio-pointer-ID,
// exists from the pointer's first use to its next reset. ID is of this open alone, so that neither another open of the
// same file nor what a killed program left can be taken for it.
Result<SharedState> share_state(Group& group, const std::string& path);

}  // namespace stridio
