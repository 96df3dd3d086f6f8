#pragma once

#include "storage/memory.h"

namespace stridio {

// Passes everything on: for tests that change one call.
class Wrapped : public Storage {
 public:
  explicit Wrapped(std::unique_ptr<Storage> inner = open_memory(make_memory_file(), {.read = true, .write = true}))
      : inner_(std::move(inner)) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return inner_->readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return inner_->writev(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    return inner_->map(range, writes, body);
  }
  Result<Bytes> size() override { return inner_->size(); }
  Status resize(Bytes size) override { return inner_->resize(size); }
  Status reserve(Bytes size) override { return inner_->reserve(size); }
  Status sync() override { return inner_->sync(); }
  Status refresh() override { return inner_->refresh(); }
  void keep_apart() override { inner_->keep_apart(); }
  Status close() override { return inner_->close(); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override { return inner_->lock(range, mode); }
  bool has_locks() override { return inner_->has_locks(); }
  Caps caps() const override { return inner_->caps(); }
  const std::string& path() const override { return inner_->path(); }

 private:
  const std::unique_ptr<Storage> inner_;
};

}  // namespace stridio
