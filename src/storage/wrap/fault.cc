#include "storage/wrap/fault.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "storage/request.h"

namespace stridio {

namespace {

std::vector<Extent> first_bytes(std::span<const Extent> extents, Bytes most) {
  std::vector<Extent> kept;
  for (const Extent& extent : extents) {
    kept.push_back({extent.offset, std::min(most, extent.length)});
    most -= kept.back().length;
  }
  return kept;
}

std::vector<Span> first_bytes(std::span<const Span> memory, Bytes most) {
  std::vector<Span> kept;
  for (const Span& piece : memory) {
    kept.push_back({piece.data, std::min(most, piece.length)});
    most -= kept.back().length;
  }
  return kept;
}

class FaultyStorage final : public Storage {
 public:
  FaultyStorage(std::unique_ptr<Storage> storage, const FaultPlan& plan) : storage_(std::move(storage)), plan_(plan) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return transfer(kFaultRead, &Storage::readv, extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return transfer(kFaultWrite, &Storage::writev, extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    RETURN_IF_ERROR(pass(writes ? kFaultWrite : kFaultRead));
    return storage_->map(range, writes, body);
  }
  Result<Bytes> size() override {
    RETURN_IF_ERROR(pass(kFaultSize));
    return storage_->size();
  }
  Status resize(Bytes size) override {
    RETURN_IF_ERROR(pass(kFaultResize));
    return storage_->resize(size);
  }
  Status reserve(Bytes size) override {
    RETURN_IF_ERROR(pass(kFaultReserve));
    return storage_->reserve(size);
  }
  void expect_sync() override { storage_->expect_sync(); }
  Status sync() override {
    RETURN_IF_ERROR(pass(kFaultSync));
    return storage_->sync();
  }
  Status refresh() override {
    RETURN_IF_ERROR(pass(kFaultRefresh));
    return storage_->refresh();
  }
  void keep_apart() override { storage_->keep_apart(); }
  Status close() override {
    const Status passed = pass(kFaultClose);  // it is closed all the same
    const Status closed = storage_->close();
    return passed ? closed : passed;
  }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override {
    RETURN_IF_ERROR(pass(kFaultLock));
    return storage_->lock(range, mode);
  }
  bool has_locks() override { return storage_->has_locks(); }
  Caps caps() const override { return storage_->caps(); }
  const std::string& path() const override { return storage_->path(); }

 private:
  using Transfer = Result<Transferred> (Storage::*)(std::span<const Extent>, std::span<const Span>);

  bool fails(std::int64_t number) const {
    if (plan_.first < 0 || number < plan_.first) return false;
    const std::int64_t after = number - plan_.first;
    return after == 0 || (plan_.every > 0 && after % plan_.every == 0);
  }

  // Counts the operation, and fails it where the plan says so.
  Status pass(unsigned kind) {
    if ((plan_.kinds & kind) == 0) return {};
    const std::int64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    if (!fails(number)) return {};
    return fail_errno(plan_.sys_errno, "fault injected at operation " + std::to_string(number), storage_->path());
  }

  Result<Transferred> transfer(unsigned kind, Transfer move, std::span<const Extent> extents,
                               std::span<const Span> memory) {
    Status passed = pass(kind);
    if (passed) return (storage_.get()->*move)(extents, memory);
    RETURN_IF_ERROR(check_request(extents, memory));
    RETURN_IF_ERROR((storage_.get()->*move)(first_bytes(extents, plan_.prefix), first_bytes(memory, plan_.prefix)));
    return fail(std::move(passed).error());
  }

  const std::unique_ptr<Storage> storage_;
  const FaultPlan plan_;
  std::atomic<std::int64_t> next_ = 0;
};

}  // namespace

std::unique_ptr<Storage> wrap_fault(std::unique_ptr<Storage> storage, const FaultPlan& plan) {
  return std::make_unique<FaultyStorage>(std::move(storage), plan);
}

}  // namespace stridio
