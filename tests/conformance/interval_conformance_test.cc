// The suite on an interval file. Handles of one process that see one another's bytes at once are one IntervalFile with
// modes of their own: between two of them stands a commit.
#include "conformance/storage_suite.h"
#include "group/hub_group.h"
#include "interval/interval_file.h"
#include "storage/memory.h"
#include "storage/posix.h"
#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

struct Shared {
  std::shared_ptr<TempDirectory> directory;  // outlives the file in it
  Hub hub{1, 0, true};
  std::unique_ptr<Group> group = hub.join(0);
  std::unique_ptr<IntervalFile> file;
};

class Handle final : public Storage {
 public:
  Handle(std::shared_ptr<Shared> shared, const OpenMode& mode) : shared_(std::move(shared)), mode_(mode) {}

  Result<Transferred> readv(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (!mode_.read) return refuse(Code::kAccess);
    return file().readv(extents, memory);
  }
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (!mode_.write) return refuse(Code::kReadOnly);
    return file().writev(extents, memory);
  }
  Result<Transferred> map(Extent range, bool writes, const MapBody& body) override {
    return file().map(range, writes, body);
  }
  Result<Bytes> size() override { return file().size(); }
  Status resize(Bytes size) override { return mode_.write ? file().resize(size) : refuse(Code::kReadOnly); }
  Status reserve(Bytes size) override { return mode_.write ? file().reserve(size) : refuse(Code::kReadOnly); }
  Status sync() override { return file().commit(); }
  Result<std::unique_ptr<RangeLock>> lock(Extent range, LockMode mode) override { return file().lock(range, mode); }
  bool has_locks() override { return file().has_locks(); }
  Caps caps() const override { return shared_->file->caps(); }
  const std::string& path() const override { return shared_->file->path(); }

 private:
  IntervalFile& file() { return *shared_->file; }
  tl::unexpected<Error> refuse(Code code) const {
    return fail(Error{.code = code, .what = "not opened for that", .path = path()});
  }

  const std::shared_ptr<Shared> shared_;
  const OpenMode mode_;
};

StorageOpener fresh(std::unique_ptr<Storage> storage, std::shared_ptr<TempDirectory> directory = nullptr) {
  auto shared = std::make_shared<Shared>();
  shared->directory = std::move(directory);
  EXPECT_TRUE(IntervalFile::format(*storage));
  auto file = IntervalFile::open(*shared->group, std::move(storage), true);
  EXPECT_TRUE(file) << file.error().text();
  shared->file = *std::move(file);
  return [shared](const OpenMode& mode) { return std::make_unique<Handle>(shared, mode); };
}

StorageOpener fresh_memory() { return fresh(open_memory(make_memory_file())); }

StorageOpener fresh_posix() {
  auto directory = std::make_shared<TempDirectory>();
  return fresh(*open_posix(directory->file("data"), {.read = true, .write = true, .create = true}), directory);
}

INSTANTIATE_TEST_SUITE_P(IntervalFiles, StorageSuite,
                         ::testing::Values(StorageCase{.name = "memory", .fresh = fresh_memory, .sparse = true},
                                           StorageCase{.name = "posix", .fresh = fresh_posix, .sparse = true}),
                         storage_case_name);

}  // namespace
}  // namespace stridio
