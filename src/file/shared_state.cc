#include "file/shared_state.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
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
static_assert(sizeof(Persistent) <= Group::kPersistentBytes);

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

class PointerInMemory final : public SharedPointer {
 public:
  PointerInMemory(Bytes& value, bool first) : value_(value), first_(first) {}
  Result<Bytes> load() override { return value_.load(); }
  Status store(Bytes value) override {
    value_.store(value);
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount) override { return value_.fetch_add(amount); }
  Status reset(Bytes value) override { return first_ ? store(value) : Status(); }

 private:
  std::atomic_ref<Bytes> value_;
  const bool first_;
};

// The file holds how far the pointer has moved since the last reset; no file means not at all.
class PointerInFile final : public SharedPointer {
 public:
  PointerInFile(std::string path, bool first) : path_(std::move(path)), first_(first) {}

  Result<Bytes> load() override { return update([](Bytes value) { return value; }); }
  Status store(Bytes value) override {
    RETURN_IF_ERROR(update([value](Bytes) { return value; }));
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount) override {
    return update([amount](Bytes value) { return value + amount; });
  }
  Status reset(Bytes value) override {
    start_ = value;
    file_.reset();
    if (first_) {
      const Status removed = remove_posix(path_);
      if (!removed && removed.error().code != Code::kNoSuchFile) return removed;
    }
    return {};
  }

 private:
  template <typename Change>
  Result<Bytes> update(Change change) {
    if (!file_) {
      ASSIGN_OR_RETURN(file_, open_posix(path_, {.read = true, .write = true, .create = true}));
    }
    ASSIGN_OR_RETURN(const auto lock, file_->lock(kWholeFile, LockMode::kExclusive));
    Bytes moved = 0;
    RETURN_IF_ERROR(file_->read({0, sizeof moved}, reinterpret_cast<std::byte*>(&moved)));
    const Bytes value = start_ + moved;
    moved = change(value) - start_;
    RETURN_IF_ERROR(file_->write({0, sizeof moved}, reinterpret_cast<const std::byte*>(&moved)));
    return value;
  }

  std::string path_;
  const bool first_;
  Bytes start_ = 0;
  std::unique_ptr<Storage> file_;
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
    // A name of this open's own: another open of the file has another pointer, and a crash may have left one.
    std::random_device random;
    ASSIGN_OR_RETURN(const auto numbers, allgather(group, std::uint64_t{random()} << 32 | random()));
    return SharedState{std::make_unique<PointerInFile>(fmt::format("{}.stridio-pointer-{:016x}", path, numbers.front()),
                                                       group.rank() == 0),
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
