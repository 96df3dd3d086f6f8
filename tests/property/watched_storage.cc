#include "property/watched_storage.h"

namespace stridio::testing {
namespace {

class WatchedStorage final : public Storage {
 public:
  WatchedStorage(std::unique_ptr<Storage> storage, Watch& watch)
      : storage_(std::move(storage)), watch_(watch) {}

  Result<Transferred> readv(std::span<const Extent> extents,
                            std::span<const Span> memory) override {
    return note(storage_->readv(extents, memory));
  }
  Result<Transferred> writev(std::span<const Extent> extents,
                             std::span<const Span> memory) override {
    ++watch_.writes;
    for (const Extent& extent : extents)
      if (watch_.may_write && !watch_.stray_write && !watch_.may_write(extent))
        watch_.stray_write = extent;
    return note(storage_->writev(extents, memory));
  }
  Result<Bytes> size() override { return note(storage_->size()); }
  Status resize(Bytes size) override { return note(storage_->resize(size)); }
  Status reserve(Bytes size) override { return note(storage_->reserve(size)); }
  Status sync() override { return note(storage_->sync()); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    ++watch_.locks;
    return note(storage_->lock(range, mode));
  }
  Caps caps() const override { return storage_->caps(); }
  const std::string& path() const override { return storage_->path(); }

 private:
  template <typename T>
  T note(T result) {
    ++watch_.operations;
    if (!result) ++watch_.failures;
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
