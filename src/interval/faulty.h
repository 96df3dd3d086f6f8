// What tests of damaged files and of failing storage begin with.
#pragma once

#include "base/crc32c.h"
#include "group/threads.h"
#include "interval/check.h"
#include "interval/testing.h"
#include "storage/memory.h"
#include "storage/wrap/fault.h"
#include "support/wrapped_storage.h"

namespace stridio {

// Has no space where it is told so.
class Full : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<Transferred> writev(std::span<const Extent> extents, std::span<const Span> memory) override {
    if (full) return fail(Error{.code = Code::kNoSpace, .what = "writing", .sys_errno = ENOSPC});
    return Wrapped::writev(extents, memory);
  }
  bool full = false;
};

// A file of three ranks' interleaved blocks, in two generations.
class Faulty : public ::testing::Test {
 protected:
  static constexpr Bytes kBlock = 1000, kTurns = 60;

  void SetUp() override {
    ASSERT_TRUE(IntervalFile::format(*storage()));
    for (int epoch = 0; epoch < 2; ++epoch)
      run_threads(3, {}, [&](Group& group) { write_turns(group, epoch, kTurns); });
    expected_ = pattern(1, kTurns);
    bytes_ = *read_extent(*storage(), {0, *storage()->size()});
  }

  std::unique_ptr<Storage> storage() const { return open_memory(file_); }

  static Data pattern(int epoch, Bytes turns) {
    Random random(static_cast<std::uint64_t>(epoch));
    return random_data(random, 3 * kBlock * turns);
  }

  Status write_turns(Group& group, int epoch, Bytes turns, const FaultPlan& plan = {}) const {
    auto under = storage();
    if (group.rank() == 0) under = wrap_fault(std::move(under), plan);
    ASSIGN_OR_RETURN(const auto file, IntervalFile::open(group, std::move(under), true));
    const Data all = pattern(epoch, turns);
    std::vector<Extent> extents;
    Data mine;
    for (Bytes turn = 0; turn < turns; ++turn) {
      extents.push_back({(3 * turn + group.rank()) * kBlock, kBlock});
      mine.insert(mine.end(), all.begin() + extents.back().offset, all.begin() + extents.back().end());
    }
    const Status written = write_list(*file, extents, mine);
    RETURN_IF_ERROR(agree(group, written));
    const Status committed = file->commit();
    if (!committed) file->give_up();
    return committed;
  }

  // What a reader of these bytes gets.
  static Result<Data> read_back(const Data& bytes) {
    const auto copy = make_memory_file();
    EXPECT_TRUE(open_memory(copy)->write({0, static_cast<Bytes>(bytes.size())}, bytes.data()));
    Result<Data> read = fail(Code::kOther, "not read");
    run_threads(1, {}, [&](Group& group) {
      auto file = IntervalFile::open(group, open_memory(copy, {.read = true}), false);
      read = file ? read_all(**file) : Result<Data>(fail(file.error()));
    });
    return read;
  }

  static Check checked(const Data& bytes) {
    const auto copy = make_memory_file();
    EXPECT_TRUE(open_memory(copy)->write({0, static_cast<Bytes>(bytes.size())}, bytes.data()));
    const auto check = check_interval_file(*open_memory(copy));
    EXPECT_TRUE(check) << check.error().text();
    return check.value_or(Check{});
  }

  // The root with a change, its sums right.
  Data with_root(const std::function<void(Root&)>& change) const {
    const auto head = Head::read(*storage());
    const auto header = head->newest();
    auto root = decode_root(read_root(*storage(), *head, *header)->bytes, std::ssize(header->tail));
    ++root->generation;
    change(*root);
    Data bytes = bytes_, tail = header->tail;
    const Data changed = encode(*root);
    const Extent place{kHeaderBytes + std::ssize(tail), std::ssize(changed)};
    tail.insert(tail.end(), changed.begin(), changed.end());
    const Header moved{
        .generation = header->generation + 1, .root = place, .root_sum = crc32c(changed), .tail = std::move(tail)};
    const Data slot = encode_slot(moved);
    std::copy(slot.begin(), slot.end(), bytes.begin() + slot_of(moved.generation));
    return bytes;
  }

  const std::shared_ptr<MemoryFile> file_ = make_memory_file();
  Data expected_, bytes_;
};

}  // namespace stridio
