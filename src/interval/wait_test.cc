// Waiting for generations: of files that come to be, are written, and are closed.
#include "interval/wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "group/threads.h"
#include "interval/generation.h"
#include "interval/interval_file.h"
#include "storage/posix.h"
#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;

class Wait : public ::testing::Test {
 protected:
  std::unique_ptr<Storage> create() const {
    auto storage = open_posix(path_, {.read = true, .write = true, .create = true});
    EXPECT_TRUE(storage);
    return *std::move(storage);
  }
  // Commits `generations` more than it has, a pause before each, and closes.
  void write(int generations, std::chrono::milliseconds pause) const {
    run_threads(1, {}, [&](Group& group) {
      auto storage = create();
      if (*storage->size() == 0) {
        EXPECT_TRUE(IntervalFile::format(*storage));
      }
      const auto file = IntervalFile::open(group, std::move(storage), true);
      ASSERT_TRUE(file);
      for (int i = 0; i < generations; ++i) {
        std::this_thread::sleep_for(pause);
        EXPECT_TRUE((*file)->resize((*file)->root().size + 1));
        EXPECT_TRUE((*file)->commit());
      }
    });
  }
  Seen wait(const Waiting& waiting, int ranks = 1) const {
    Seen seen;
    run_threads(ranks, {}, [&](Group& group) {
      const auto mine = wait_for_generation(group, path_, waiting);
      ASSERT_TRUE(mine) << mine.error().text();
      if (group.rank() == ranks - 1) seen = *mine;
    });
    return seen;
  }

  const TempDirectory folder_;
  const std::string path_ = folder_.file("file");
};

TEST_F(Wait, ForAFileThatComesToBe) {
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    write(3, std::chrono::milliseconds(100));
  });
  EXPECT_EQ(wait({.newer_than = 0, .seconds = 60}, 3).generation, 1u);
  const Seen second = wait({.newer_than = 1, .seconds = 60}, 3);
  EXPECT_GE(second.generation, 2u);
  EXPECT_TRUE(second.exists);
  EXPECT_EQ(wait({.newer_than = 3, .seconds = 60}).generation, 4u);
  writer.join();
}

TEST_F(Wait, EndsInTime) {
  const auto began = Clock::now();
  const Seen nothing = wait({.newer_than = 0, .seconds = 0.2}, 2);
  EXPECT_EQ(nothing.text(), "it does not exist");
  (void)create();
  EXPECT_EQ(wait({.newer_than = 0, .seconds = 0.1}).text(), "it holds none, and nobody has it open for writing");
  write(1, {});
  EXPECT_EQ(wait({.newer_than = 2, .seconds = 0.1}).text(), "its newest is 2, and nobody has it open for writing");
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(20));
}

TEST_F(Wait, EndsWhenTheWriterHasGone) {
  write(1, {});
  // It looks a second long whether the file is opened again.
  auto began = Clock::now();
  const Seen alone = wait({.newer_than = 2, .seconds = 60, .while_written = true});
  EXPECT_EQ(alone.generation, 2u);
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(900));
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(20));
  // While somebody writes, it goes on.
  std::thread writer([&] { write(1, std::chrono::milliseconds(2500)); });
  while (!look_at(path_)->open_for_writing) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(wait({.newer_than = 2, .seconds = 60, .while_written = true}).generation, 3u);
  writer.join();
}

// Numbers begin anew in another file, and in one that is emptied: whatever there is, is another generation.
TEST_F(Wait, ForAFileThatIsMadeAnew) {
  const auto which = [&] {
    FileId id;
    const auto storage = open_posix(path_, {.read = true}, &id);
    return Which::of(id, (*Generation::newest(**storage))->root());
  };
  const auto expect_other_than = [&](const Which& known, std::uint64_t generation) {
    const Seen other = wait({.other_than = known, .seconds = 60}, 2);
    EXPECT_TRUE(other.come);
    EXPECT_EQ(other.generation, generation);
  };
  write(2, {});
  const Which first = which();
  EXPECT_FALSE(wait({.other_than = first, .seconds = 0.1}, 2).come);
  const auto kept = open_posix(path_, {.read = true});  // as a reader keeps it: its number is not used again
  for (const int generations : {1, 2, 3}) {
    ASSERT_TRUE(remove_posix(path_));
    write(generations, {});
    expect_other_than(first, static_cast<std::uint64_t>(generations) + 1);
  }
  // The same file, of which another generation has the same number.
  ASSERT_TRUE(create()->resize(0));
  write(2, {});
  const Which second = which();
  ASSERT_TRUE(create()->resize(0));
  run_threads(1, {}, [&](Group& group) {
    const auto file = IntervalFile::open(group, create(), true);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE((*file)->resize(1000 + i));
      EXPECT_TRUE((*file)->commit());
    }
  });
  EXPECT_EQ(which().file, second.file);
  expect_other_than(second, 3);
  // Who asks by number alone is told of newer numbers alone, and an empty file has none.
  EXPECT_FALSE(wait({.newer_than = 3, .seconds = 0.1}).come);
  ASSERT_TRUE(create()->resize(0));
  EXPECT_FALSE(wait({.other_than = second, .seconds = 0.1}).come);
  run_threads(1, {}, [&](Group& group) { EXPECT_TRUE(IntervalFile::open(group, create(), true)); });
  expect_other_than(second, kBirth);
  EXPECT_FALSE(wait({.other_than = which(), .seconds = 0.1}).come);
}

// What its newest generation needs is beyond its end, or its root is not as it was.
TEST_F(Wait, DamagedFilesAreRefused) {
  write(1, {});
  const auto storage = create();
  const Bytes size = *storage->size();
  std::vector<std::byte> whole(static_cast<std::size_t>(size));
  ASSERT_TRUE(storage->read({0, size}, whole.data()));
  const auto refused = [&](const std::string& what, const Waiting& waiting) {
    run_threads(2, {}, [&](Group& group) {
      const auto seen = wait_for_generation(group, path_, waiting);
      ASSERT_FALSE(seen);
      EXPECT_EQ(seen.error().code, Code::kIo);
      EXPECT_NE(seen.error().what.find(what), std::string::npos) << seen.error().what;
    });
  };
  ASSERT_TRUE(storage->resize(slot_of(2) + 2 * kHeaderStep));
  refused("truncated", {.newer_than = 1, .seconds = 60});
  refused("truncated", {.newer_than = 1, .seconds = 60, .while_written = true});
  const Seen early = wait({.newer_than = 1, .seconds = 0.1}, 2);
  EXPECT_EQ(early.generation, 0u) << "not known";
  ASSERT_TRUE(early.damage);
  EXPECT_NE(early.text().find("it cannot be read: the interval file is truncated"), std::string::npos);
  // Who copies it makes it longer, and at last whole.
  std::thread copier([&] {
    for (int i = 20; i-- > 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_TRUE(storage->write({0, size - i}, whole.data()));
    }
  });
  EXPECT_EQ(wait({.newer_than = 1, .seconds = 60}).generation, 2u);
  copier.join();
  const std::byte wrong{1};
  for (int i = 0; i < kHeaders; ++i) EXPECT_TRUE(storage->write({i * kHeaderStep + 20, 1}, &wrong));
  refused("wrong checksum", {.newer_than = 0, .seconds = 60});
}

TEST_F(Wait, OtherFilesAreRefused) {
  EXPECT_TRUE(create()->write({0, 4}, reinterpret_cast<const std::byte*>("flat")));
  run_threads(2, {}, [&](Group& group) {
    const auto seen = wait_for_generation(group, path_, {.seconds = 60});
    ASSERT_FALSE(seen);
    EXPECT_EQ(seen.error().code, Code::kBadFileName);
  });
}

}  // namespace
}  // namespace stridio
