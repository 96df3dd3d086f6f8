#include "storage/wrap/delay.h"

#include <algorithm>
#include <thread>

namespace stridio {

void DelayLine::carry(std::int64_t requests, Bytes bytes) {
  const std::chrono::duration<double> passing(static_cast<double>(bytes) / model_.bytes_per_second);
  Clock::time_point passed;
  {
    std::lock_guard lock(mutex_);
    free_at_ = std::max(free_at_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(passing);
    passed = free_at_;
  }
  std::this_thread::sleep_until(passed + requests * model_.latency);
}

namespace {

class DelayedStorage final : public Storage {
 public:
  DelayedStorage(std::unique_ptr<Storage> storage, std::shared_ptr<DelayLine> line)
      : storage_(std::move(storage)), line_(std::move(line)) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return delayed(storage_->readv(extents, memory));
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return delayed(storage_->writev(extents, memory));
  }
  // A storage at a distance cannot be mapped.
  Result<Transferred> map(Extent, bool, const MapBody&) override {
    return fail({.code = Code::kUnsupportedOperation, .what = "mapping a delayed storage", .path = storage_->path()});
  }
  Result<Bytes> size() override { return delayed(storage_->size()); }
  Status resize(Bytes size) override { return delayed(storage_->resize(size)); }
  Status reserve(Bytes size) override { return delayed(storage_->reserve(size)); }
  void expect_sync() override { storage_->expect_sync(); }
  Status sync() override { return delayed(storage_->sync()); }
  Status refresh() override { return delayed(storage_->refresh()); }
  void keep_apart() override { storage_->keep_apart(); }
  Status close() override { return delayed(storage_->close()); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    return delayed(storage_->lock(range, mode));
  }
  bool has_locks() override { return storage_->has_locks(); }
  Caps caps() const override {
    Caps caps = storage_->caps();
    caps.maps = false;
    return caps;
  }
  const std::string& path() const override { return storage_->path(); }

 private:
  Result<Transferred> delayed(Result<Transferred> moved) {
    line_->carry(moved ? moved->requests : 1, moved ? moved->bytes : 0);
    return moved;
  }
  template <typename T>
  Result<T> delayed(Result<T> result) {
    line_->carry(1, 0);
    return result;
  }

  const std::unique_ptr<Storage> storage_;
  const std::shared_ptr<DelayLine> line_;
};

}  // namespace

std::unique_ptr<Storage> wrap_delay(std::unique_ptr<Storage> storage, std::shared_ptr<DelayLine> line) {
  return std::make_unique<DelayedStorage>(std::move(storage), std::move(line));
}

}  // namespace stridio
