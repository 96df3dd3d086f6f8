#include "property/watched_storage.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace stridio::testing {
namespace {

class WatchedLock final : public RangeLock {
 public:
  WatchedLock(std::unique_ptr<RangeLock> lock, Watch& watch, const Extent& range)
      : lock_(std::move(lock)), watch_(watch) {
    const std::scoped_lock guard(watch_.mutex);
    held_ = watch_.held.insert(watch_.held.end(), range);
  }
  ~WatchedLock() override {
    const std::scoped_lock guard(watch_.mutex);
    watch_.held.erase(held_);
  }

 private:
  const std::unique_ptr<RangeLock> lock_;
  Watch& watch_;
  std::list<Extent>::iterator held_;
};

class WatchedStorage final : public Storage {
 public:
  WatchedStorage(std::unique_ptr<Storage> storage, Watch& watch) : storage_(std::move(storage)), watch_(watch) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    auto moved = note(storage_->readv(extents, memory));
    if (watch_.yields) std::this_thread::yield();
    return moved;
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    for (const Extent& extent : extents) judge_write(extent);
    return note(storage_->writev(extents, memory));
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    // A writing body gets a copy: in the mapping others may write meanwhile.
    auto moved = storage_->map(range, writes, [&](std::byte* data, Bytes present) {
      if (!writes) return body(data, present);
      const std::vector<std::byte> before(data, data + present);
      std::vector<std::byte> after = before;
      const Bytes bytes = body(after.data(), present);
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == after[i]) continue;
        judge_write({range.offset + static_cast<Offset>(i), 1});
        data[i] = after[i];
      }
      return bytes;
    });
    if (!moved && moved.error().code == Code::kUnsupportedOperation) return moved;
    return note(std::move(moved));
  }
  Result<Bytes> size() override { return note(storage_->size()); }
  Status resize(Bytes size) override { return note(storage_->resize(size)); }
  Status reserve(Bytes size) override { return note(storage_->reserve(size)); }
  Status sync() override { return note(storage_->sync()); }
  Status refresh() override { return note(storage_->refresh()); }
  void keep_apart() override { storage_->keep_apart(); }
  Status close() override { return note(storage_->close()); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    if (!watch_.has_locks) return fail(Code::kUnsupportedOperation, "no locks here");
    auto lock = note(storage_->lock(range, mode));
    if (!lock || mode == LockMode::kShared) return lock;
    return std::make_unique<WatchedLock>(std::move(*lock), watch_, range);
  }
  bool has_locks() override { return watch_.has_locks && storage_->has_locks(); }
  Caps caps() const override { return storage_->caps(); }
  const std::string& path() const override { return storage_->path(); }

 private:
  void judge_write(const Extent& extent) {
    const std::scoped_lock guard(watch_.mutex);
    if (watch_.may_write && !watch_.stray_write && !watch_.may_write(extent)) watch_.stray_write = extent;
    const auto holds = [&](const Extent& held) { return intersect(held, extent) == extent; };
    if (watch_.must_lock && !watch_.unlocked_write && std::none_of(watch_.held.begin(), watch_.held.end(), holds))
      watch_.unlocked_write = extent;
  }
  template <typename T>
  T note(T result) {
    if (result) return result;
    const std::scoped_lock guard(watch_.mutex);
    ++watch_.failures;
    return result;
  }

  const std::unique_ptr<Storage> storage_;
  Watch& watch_;
};

}  // namespace

std::unique_ptr<Storage> wrap_watch(std::unique_ptr<Storage> storage, Watch& watch) {
  return std::make_unique<WatchedStorage>(std::move(storage), watch);
}

}  // namespace stridio::testing
