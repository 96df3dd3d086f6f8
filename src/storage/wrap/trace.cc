#include "storage/wrap/trace.h"

#include <chrono>

namespace stridio {

namespace {

using Clock = std::chrono::steady_clock;

// Runs `operation` and counts it.
template <typename Operation>
auto timed(OperationCounters& counters, Operation operation) {
  const Clock::time_point start = Clock::now();
  auto result = operation();
  counters.nanoseconds.add(std::chrono::nanoseconds(Clock::now() - start).count());
  counters.calls.add(1);
  if (!result) counters.failures.add(1);
  return result;
}

template <typename Operation>
auto single(OperationCounters& counters, Operation operation) {
  counters.requests.add(1);
  return timed(counters, operation);
}

template <typename Operation>
Result<Transferred> transfer(OperationCounters& counters, Operation operation) {
  Result<Transferred> moved = timed(counters, operation);
  counters.requests.add(moved ? moved->requests : 1);
  counters.bytes.add(moved ? moved->bytes : 0);
  return moved;
}

class TracedStorage final : public Storage {
 public:
  TracedStorage(std::unique_ptr<Storage> storage, std::shared_ptr<StorageCounters> counters)
      : storage_(std::move(storage)), counters_(std::move(counters)) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return transfer(counters_->read, [&] { return storage_->readv(extents, memory); });
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return transfer(counters_->write, [&] { return storage_->writev(extents, memory); });
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    return transfer(writes ? counters_->write : counters_->read, [&] { return storage_->map(range, writes, body); });
  }
  Result<Bytes> size() override {
    return single(counters_->size, [&] { return storage_->size(); });
  }
  Status resize(Bytes size) override {
    return single(counters_->resize, [&] { return storage_->resize(size); });
  }
  Status reserve(Bytes size) override {
    return single(counters_->reserve, [&] { return storage_->reserve(size); });
  }
  void expect_sync() override { storage_->expect_sync(); }
  Status sync() override {
    return single(counters_->sync, [&] { return storage_->sync(); });
  }
  Status refresh() override { return storage_->refresh(); }
  void keep_apart() override { storage_->keep_apart(); }
  Status close() override { return storage_->close(); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    return single(counters_->lock, [&] { return storage_->lock(range, mode); });
  }
  bool has_locks() override { return storage_->has_locks(); }
  Caps caps() const override { return storage_->caps(); }
  const std::string& path() const override { return storage_->path(); }

 private:
  const std::unique_ptr<Storage> storage_;
  const std::shared_ptr<StorageCounters> counters_;
};

}  // namespace

std::unique_ptr<Storage> wrap_trace(std::unique_ptr<Storage> storage, std::shared_ptr<StorageCounters> counters) {
  return std::make_unique<TracedStorage>(std::move(storage), std::move(counters));
}

}  // namespace stridio
