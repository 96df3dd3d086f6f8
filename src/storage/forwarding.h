// A storage that is another one, but for what a class derived from it does otherwise.
#pragma once

#include "storage/storage.h"
#include "storage/stored_read.h"

namespace stridio {

class ForwardingStorage : public Storage {
 public:
  // Must outlive it.
  explicit ForwardingStorage(Storage& to) : to_(to) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    return to_.readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    return to_.writev(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    return to_.map(range, writes, body);
  }
  Result<Bytes> size() override { return to_.size(); }
  Status resize(Bytes size) override { return to_.resize(size); }
  Status reserve(Bytes size) override { return to_.reserve(size); }
  Status sync() override { return to_.sync(); }
  Status refresh() override { return to_.refresh(); }
  void keep_apart() override { to_.keep_apart(); }
  Status close() override { return to_.close(); }
  void expect_sync() override { to_.expect_sync(); }
  void expect_write(Bytes bytes) override { to_.expect_write(bytes); }
  Result<std::unique_ptr<SharedRead>> share_read() override { return to_.share_read(); }
  Result<std::unique_ptr<StoredRead>> read_stored() override { return to_.read_stored(); }
  Result<StoredAs> look_up(std::span<const Extent> extents) override { return to_.look_up(extents); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override { return to_.lock(range, mode); }
  bool has_locks() override { return to_.has_locks(); }
  Caps caps() const override { return to_.caps(); }
  const std::string& path() const override { return to_.path(); }

 private:
  Storage& to_;
};

// Reads what the storage holds when it is made. What several have read counts if none leaves some to the others, or else when each
// has verified what all have told it. readv() only, by any threads, and none after
// one has failed.
class SharedRead : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  // Whether this one alone cannot verify all that it has read.
  virtual bool leaves_some() const = 0;
  // What it tells each of `ranks`,
  virtual std::vector<std::vector<std::byte>> sums(int ranks) const = 0;
  // and what all have told this one, by rank.
  virtual Status verify(std::span<const std::vector<std::byte>> told) = 0;
};

}  // namespace stridio
