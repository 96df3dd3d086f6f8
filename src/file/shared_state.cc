#include "file/shared_state.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <random>

#include "collective/agreement.h"
#include "storage/posix.h"

namespace stridio {
namespace {

// The group's persistent bytes. A robust mutex: a rank that dies holding it leaves it to the next.
struct Persistent {
  Bytes pointer;
  alignas(8) pthread_mutex_t mutex;
};
static_assert(sizeof(Persistent) <= Group::kPersistentBytes - sizeof(Bytes));  // the last word: an interval file's

Status make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int failed = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (failed != 0) return fail_errno(failed, "making the lock of atomic mode");
  return {};
}

std::uint64_t new_mark() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

bool exceeds(Bytes value, Bytes amount, Bytes most) { return amount > most - value; }

tl::unexpected<Error> too_far() {
  return fail(Code::kArgument, "the shared file pointer would move beyond the largest offset that a file can have");
}

class PointerInMemory final : public SharedPointer {
 public:
  PointerInMemory(Bytes& value, bool first) : value_(value), first_(first) {}
  Result<Bytes> load() override { return value_.load(); }
  Status store(Bytes value) override {
    value_.store(value);
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount, Bytes most) override {
    Bytes value = value_.load();
    do {
      if (exceeds(value, amount, most)) return too_far();
    } while (!value_.compare_exchange_weak(value, value + amount));
    return value;
  }
  Status intact() override { return {}; }
  Status reset(Bytes value) override { return first_ ? store(value) : Status(); }

 private:
  std::atomic_ref<Bytes> value_;
  const bool first_;
};

// The file holds how far the pointer has moved since the last reset; no file means not at all. Whoever makes it writes a
// mark into it, by which the others know it again: one that somebody removed, and the next rank made anew, must not
// pass for the old one. It is opened for each use, which also makes network file systems look at it afresh.
class PointerInFile final : public SharedPointer {
 public:
  PointerInFile(std::string path, bool first) : path_(std::move(path)), first_(first) {}

  Result<Bytes> load() override {
    return update([](Bytes value) { return Result<Bytes>(value); });
  }
  Status store(Bytes value) override {
    RETURN_IF_ERROR(update([value](Bytes) { return Result<Bytes>(value); }));
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount, Bytes most) override {
    return update([&](Bytes value) -> Result<Bytes> {
      if (exceeds(value, amount, most)) return too_far();
      return value + amount;
    });
  }
  Status intact() override {
    const std::scoped_lock lock(mutex_);
    if (mark_ == 0) return {};
    RETURN_IF_ERROR(update_file([](Bytes value) { return Result<Bytes>(value); }));
    return {};
  }
  Status reset(Bytes value) override {
    start_ = value;
    mark_ = 0;
    if (first_) {
      const Status removed = remove_posix(path_);
      if (!removed && removed.error().code != Code::kNoSuchFile) return removed;
    }
    return {};
  }

 private:
  struct Content {
    std::uint64_t mark = 0;
    Bytes moved = 0;
  };

  // `change` makes the new value of the old one, which is returned.
  template <typename Change>
  Result<Bytes> update(Change change) {
    const std::scoped_lock lock(mutex_);
    return update_file(change);
  }

  template <typename Change>
  Result<Bytes> update_file(Change change) {
    auto file = open_posix(path_, {.read = true, .write = true, .create = mark_ == 0});
    if (!file) return lost(file.error());
    const auto lock = (*file)->lock(kWholeFile, LockMode::kExclusive);
    if (!lock) return lost(lock.error());
    Content content;
    if (const auto got = (*file)->read({0, sizeof content}, reinterpret_cast<std::byte*>(&content)); !got)
      return lost(got.error());
    if (mark_ != 0 && content.mark != mark_)
      return lost({.code = Code::kIo, .what = "somebody has removed or replaced it", .path = path_});
    if (content.mark == 0) content.mark = new_mark();
    const Bytes value = start_ + content.moved;
    ASSIGN_OR_RETURN(const Bytes changed, change(value));
    content.moved = changed - start_;
    if (const auto put = (*file)->write({0, sizeof content}, reinterpret_cast<const std::byte*>(&content)); !put)
      return lost(put.error());
    mark_ = content.mark;
    return value;
  }

  static tl::unexpected<Error> lost(Error error) {
    error.what = "the shared file pointer, kept in a file as the ranks are on several nodes: " + error.what;
    if (error.code == Code::kNoSuchFile) error.code = Code::kIo;  // it is not the program's file that is missing
    return fail(std::move(error));
  }

  std::string path_;
  const bool first_;
  std::mutex mutex_;
  Bytes start_ = 0;
  std::uint64_t mark_ = 0;  // of the file that this rank has used; 0: none yet
};

class HeldMutex final : public RangeLock {
 public:
  HeldMutex(pthread_mutex_t& mutex, std::unique_ptr<RangeLock> outside)
      : mutex_(mutex), outside_(std::move(outside)) {}
  ~HeldMutex() override {
    outside_.reset();
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t& mutex_;
  std::unique_ptr<RangeLock> outside_;
};

// Among the ranks by the mutex; against other openers by the storage's lock, where it has one.
class LockInMemory final : public LockManager {
 public:
  LockInMemory(pthread_mutex_t& mutex, Storage& storage) : mutex_(mutex), storage_(storage) {}

  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    const int failed = pthread_mutex_lock(&mutex_);
    if (failed == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    if (failed != 0 && failed != EOWNERDEAD) return fail_errno(failed, "waiting for the lock of atomic mode");
    auto outside = storage_.lock(range, mode);
    if (!outside && outside.error().code != Code::kUnsupportedOperation) {
      pthread_mutex_unlock(&mutex_);
      return outside;
    }
    return std::make_unique<HeldMutex>(mutex_, outside ? *std::move(outside) : nullptr);
  }

 private:
  pthread_mutex_t& mutex_;
  Storage& storage_;
};

class LockOfStorage final : public LockManager {
 public:
  explicit LockOfStorage(Storage& storage) : storage_(storage) {}
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    return storage_.lock(range, mode);
  }

 private:
  Storage& storage_;
};

}  // namespace

Result<SharedState> share_state(Group& group, Storage& storage, const std::string& path) {
  const SharedMemory memory = group.persistent();
  if (memory.length < static_cast<Bytes>(sizeof(Persistent))) {
    ASSIGN_OR_RETURN(const std::vector<std::uint64_t> marks, allgather(group, new_mark()));
    const std::string beside = fmt::format("{}.stridio-pointer-{:x}", path, marks.front());
    return SharedState{std::make_unique<PointerInFile>(beside, group.rank() == 0),
                       std::make_unique<LockOfStorage>(storage)};
  }
  auto& persistent = *reinterpret_cast<Persistent*>(memory.data);
  Status made;
  if (group.rank() == 0) made = make_mutex(persistent.mutex);
  RETURN_IF_ERROR(agree(group, made));
  return SharedState{std::make_unique<PointerInMemory>(persistent.pointer, group.rank() == 0),
                     std::make_unique<LockInMemory>(persistent.mutex, storage)};
}

}  // namespace stridio
