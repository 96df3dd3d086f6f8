#include "storage/wrap/fault.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "storage/memory.h"

namespace stridio {
namespace {

class Fault : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> faulty(const FaultPlan& plan) { return wrap_fault(open_memory(file_), plan); }

  std::string contents() {
    const auto storage = open_memory(file_);
    std::string text(*storage->size(), '?');
    EXPECT_TRUE(storage->read({0, static_cast<Bytes>(text.size())}, bytes_of(text)));
    return text;
  }

  static std::byte* bytes_of(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }

  Result<Transferred> write(Storage& storage, std::vector<Extent> extents, std::string text) {
    const Span memory{bytes_of(text), static_cast<Bytes>(text.size())};
    return storage.writev(extents, {&memory, 1});
  }

  std::shared_ptr<MemoryFile> file_ = make_memory_file();
};

TEST_F(Fault, EachErrnoBecomesItsCode) {
  const std::vector<std::pair<int, Code>> expected = {{ENOSPC, Code::kNoSpace}, {EDQUOT, Code::kQuota},
                                                      {EIO, Code::kIo},         {EROFS, Code::kReadOnly},
                                                      {EACCES, Code::kAccess},  {ENOMEM, Code::kNoMemory}};
  for (const auto& [sys_errno, code] : expected) {
    const auto storage = faulty({.first = 0, .sys_errno = sys_errno});
    const auto failed = write(*storage, {{0, 1}}, "x");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, code);
    EXPECT_EQ(failed.error().sys_errno, sys_errno);
    EXPECT_EQ(failed.error().path, storage->path());
  }
}

TEST_F(Fault, OneShot) {
  const auto storage = faulty({.first = 2});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(write(*storage, {{i, 1}}, "x").has_value(), i != 2) << i;
}

TEST_F(Fault, ForGood) {
  const auto storage = faulty({.first = 2, .every = 1});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(write(*storage, {{i, 1}}, "x").has_value(), i < 2) << i;
}

TEST_F(Fault, EveryThird) {
  const auto storage = faulty({.first = 1, .every = 3});
  for (int i = 0; i < 9; ++i) EXPECT_EQ(write(*storage, {{i, 1}}, "x").has_value(), i % 3 != 1) << i;
}

TEST_F(Fault, OnlyTheChosenKindsAreCounted) {
  const auto storage = faulty({.kinds = kFaultSync | kFaultWrite, .first = 1});
  EXPECT_TRUE(storage->size());
  EXPECT_TRUE(write(*storage, {{0, 1}}, "x"));
  EXPECT_TRUE(storage->resize(5));
  EXPECT_TRUE(storage->reserve(5));
  EXPECT_TRUE(storage->lock({0, 1}, LockMode::kShared));
  EXPECT_FALSE(storage->sync());
  EXPECT_TRUE(storage->sync());
}

TEST_F(Fault, EveryKindCanFail) {
  const auto storage = faulty({.first = 0, .every = 1});
  std::byte byte{};
  EXPECT_FALSE(storage->read({0, 1}, &byte));
  EXPECT_FALSE(storage->write({0, 1}, &byte));
  EXPECT_FALSE(storage->size());
  EXPECT_FALSE(storage->resize(1));
  EXPECT_FALSE(storage->reserve(1));
  EXPECT_FALSE(storage->sync());
  EXPECT_FALSE(storage->lock({0, 1}, LockMode::kShared));
  EXPECT_FALSE(storage->refresh());
  EXPECT_FALSE(storage->close());
}

// Whatever prefix is moved before the failure: it is there, and nothing else has changed.
TEST_F(Fault, OnlyThePrefixIsMoved) {
  const std::string before = "....................";
  const std::vector<Extent> extents = {{12, 3}, {2, 4}, {8, 0}, {18, 5}};
  for (Bytes prefix = 0; prefix <= 15; ++prefix) {
    ASSERT_TRUE(write(*open_memory(file_), {{0, 20}}, before));
    ASSERT_TRUE(open_memory(file_)->resize(20));
    const auto storage = faulty({.first = 0, .sys_errno = ENOSPC, .prefix = prefix});
    EXPECT_EQ(write(*storage, extents, "abcdefghijkl").error().code, Code::kNoSpace);
    std::string expected = before;
    const std::vector<Offset> places = {12, 13, 14, 2, 3, 4, 5, 18, 19, 20, 21, 22};
    for (Bytes i = 0; i < std::min<Bytes>(prefix, 12); ++i) {
      if (places[i] >= static_cast<Offset>(expected.size())) expected.resize(places[i] + 1);
      expected[places[i]] = static_cast<char>('a' + i);
    }
    EXPECT_EQ(contents(), expected) << prefix;
  }
}

}  // namespace
}  // namespace stridio
