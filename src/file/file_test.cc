// A file of a group of threads, end to end on a real file: the smoke test of the composition; the property tests
// go wide.
#include "file/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "group/threads.h"

namespace stridio {
namespace {

const AccessMode kCreate{.read_write = true, .create = true};

class FileTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stridio-file-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/data"; }
  void on_ranks(const std::function<void(std::shared_ptr<Group>)>& body) const {
    const auto [ranks, shared] = GetParam();
    run_threads(ranks, {.ranks_per_node = 0, .shared_memory = shared},
                [&](Group& group) { body(std::shared_ptr<Group>(&group, [](Group*) {})); });
  }
  std::string folder_;
};

TEST_P(FileTest, AFileIsMadeWithTheHintsPermissions) {
  namespace fs = std::filesystem;
  const auto made_with = [&](const HintList& hints) {
    on_ranks([&](std::shared_ptr<Group> group) {
      auto file = File::open(group, path(), kCreate, hints);
      ASSERT_TRUE(file) << file.error().text();
      ASSERT_TRUE((*file)->close());
    });
    const fs::perms permissions = fs::status(path()).permissions();
    fs::remove(path());
    return permissions;
  };
  const mode_t before = umask(027);
  EXPECT_EQ(made_with({}), fs::perms{0640});
  EXPECT_EQ(made_with({{"file_perm", "0662"}}), fs::perms{0640});
  EXPECT_EQ(made_with({{"file_perm", "604"}, {"stridio_layout", "interval"}}), fs::perms{0600});
  EXPECT_EQ(made_with({{"file_perm", "600"}, {"stridio_commit", "atomic"}}), fs::perms{0600});
  umask(before);
}

// Each rank owns every P-th int of the file.
TEST_P(FileTest, WritesAndReadsInterleavedIntsTogether) {
  constexpr int kCount = 10000;
  on_ranks([&](std::shared_ptr<Group> group) {
    const int ranks = group->size(), rank = group->rank();
    auto file = File::open(group, path(), kCreate, {{"romio_cb_write", "enable"}, {"romio_cb_read", "enable"}});
    ASSERT_TRUE(file) << file.error().text();
    const View view{4 * rank, 4, Pattern::run(0, 4), 4 * ranks};
    ASSERT_TRUE((*file)->set_view(view, {}));
    std::vector<int> numbers(kCount);
    for (int i = 0; i < kCount; ++i) numbers[static_cast<std::size_t>(i)] = i * ranks + rank;
    Access access{.direction = Direction::kWrite, .pointer = Pointer::kIndividual, .collective = true};
    access.memory = {reinterpret_cast<std::byte*>(numbers.data()), Pattern::run(0, 4 * kCount)};
    const auto written = (*file)->transfer(access);
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_EQ(*written, 4 * kCount);
    EXPECT_EQ(*(*file)->position(), kCount);

    std::vector<int> back(kCount + 10, -1);
    access.direction = Direction::kRead;
    access.pointer = Pointer::kExplicit;
    access.memory = {reinterpret_cast<std::byte*>(back.data()), Pattern::run(0, 4 * (kCount + 10))};
    const auto read = (*file)->transfer(access);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, 4 * kCount) << "the end of the file counts";
    back.resize(kCount);
    EXPECT_EQ(back, numbers);
    EXPECT_EQ(*(*file)->size(), 4 * kCount * ranks);
    ASSERT_TRUE((*file)->close());
  });
}

// Tile k lies behind the start of tile k + 1, since the file type starts behind its own extent.
TEST_P(FileTest, FindsTheEndThroughAViewThatStartsBehindItsExtent) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto file = File::open(group, path(), kCreate, {});
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_TRUE((*file)->set_size(100));
    ASSERT_TRUE((*file)->set_view({5, 2, Pattern::run(37, 4), 9}, {}));  // 42 to 45, 51 to 54, ... 96 to 99
    ASSERT_TRUE((*file)->seek(0, Whence::kEnd));
    EXPECT_EQ(*(*file)->position(), 14);
    ASSERT_TRUE((*file)->close());
  });
}

TEST_P(FileTest, EachOpenHasASharedPointerOfItsOwn) {
  if (std::get<1>(GetParam())) GTEST_SKIP() << "shared memory is one file's at a time, by the contract of Group";
  on_ranks([&](std::shared_ptr<Group> group) {
    auto one = File::open(group, path(), kCreate, {}), other = File::open(group, path(), kCreate, {});
    ASSERT_TRUE(one && other);
    std::byte data[8] = {};
    const Access access{.direction = Direction::kWrite,
                        .pointer = Pointer::kShared,
                        .collective = true,
                        .memory = {data, Pattern::run(0, 8)}};
    ASSERT_TRUE((*one)->transfer(access));
    EXPECT_EQ(*(*one)->position_shared(), 8 * group->size());
    EXPECT_EQ(*(*other)->position_shared(), 0);
    ASSERT_TRUE((*other)->close());
    ASSERT_TRUE((*one)->close());
  });
}

// Each rank has a link of its own, in a folder of its own, and the process goes elsewhere while the file is open.
TEST_P(FileTest, WhatLiesBesideTheFileAndGoesWithItIsNamedOnce) {
  namespace fs = std::filesystem;
  const auto [ranks, shared] = GetParam();
  for (int rank = 0; rank < ranks; ++rank) {
    fs::create_directory(folder_ + "/" + std::to_string(rank));
    fs::create_symlink("../data", folder_ + "/" + std::to_string(rank) + "/link");
  }
  fs::create_directories(folder_ + "/else/where/0");
  for (const char* kept : {"/data", "/else/where/0/link"}) std::ofstream(folder_ + kept);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  on_ranks([&](std::shared_ptr<Group> group) {
    AccessMode mode = kCreate;
    mode.delete_on_close = true;
    auto file = File::open(group, std::to_string(group->rank()) + "/link", mode, {});
    ASSERT_TRUE(file) << file.error().text();
    if (group->rank() == 0) fs::current_path(folder_ + "/else/where");
    ASSERT_TRUE(group->barrier());
    std::byte data[4] = {};
    const Access access{
        .direction = Direction::kWrite, .pointer = Pointer::kShared, .memory = {data, Pattern::run(0, 4)}};
    const auto written = (*file)->transfer(access);
    EXPECT_TRUE(written) << written.error().text();
    ASSERT_TRUE(group->barrier());
    const auto position = (*file)->position_shared();
    ASSERT_TRUE(position) << position.error().text();
    EXPECT_EQ(*position, 4 * group->size());
    const auto beside = std::count_if(fs::directory_iterator(folder_), fs::directory_iterator(), [](const auto& each) {
      return each.path().filename().string().starts_with("data.stridio-pointer");
    });
    EXPECT_EQ(beside, shared ? 0 : 1);
    const Status closed = (*file)->close();
    ASSERT_TRUE(closed) << closed.error().text();
  });
  fs::current_path(before);
  EXPECT_EQ(fs::file_size(path()), 4U * static_cast<unsigned>(ranks)) << "a link goes, not what it leads to";
  EXPECT_FALSE(fs::is_symlink(folder_ + "/0/link"));
  EXPECT_TRUE(fs::exists(folder_ + "/else/where/0/link"));
}

TEST_P(FileTest, TheSharedPointerStartsAnewWithEachView) {
  on_ranks([&](std::shared_ptr<Group> group) {
    for (int open = 0; open < 3; ++open) {
      auto file = File::open(group, path(), kCreate, {});
      ASSERT_TRUE(file);
      std::byte data[4] = {};
      const Access access{
          .direction = Direction::kWrite, .pointer = Pointer::kShared, .memory = {data, Pattern::run(0, 4)}};
      for (int round = 0; round < 200; ++round) {
        const int writes = (group->rank() + round) % 3;
        for (int i = 0; i < writes; ++i) ASSERT_TRUE((*file)->transfer(access));
        if (round % 7 == 0) {  // what all have written, and no more
          int all = 0;
          for (int rank = 0; rank < group->size(); ++rank) all += (rank + round) % 3;
          ASSERT_TRUE(group->barrier());
          ASSERT_EQ(*(*file)->position_shared(), 4 * all) << round;
        }
        ASSERT_TRUE((*file)->set_view({}, {}));
      }
      EXPECT_EQ(*(*file)->position_shared(), 0);
      ASSERT_TRUE((*file)->close());
    }
  });
}

// What a rank wrote to an interval file others read after a commit: who reads holes before and writes them back would undo it.
TEST_P(FileTest, HolesOfAnIntervalFileAreNotWrittenBack) {
  constexpr int kPieces = 1000, kPiece = 8;  // too many to be told to all
  on_ranks([&](std::shared_ptr<Group> group) {
    AccessMode mode = kCreate;
    mode.unique_open = true;
    auto file = File::open(group, path(), mode, {{"stridio_layout", "interval"}, {"stridio_method", "sieve"}});
    ASSERT_TRUE(file) << file.error().text();
    const auto write = [&](int place) {
      std::vector<std::byte> data(kPieces * kPiece, static_cast<std::byte>('a' + place));
      Access access{.direction = Direction::kWrite};
      access.memory = {data.data(), Pattern::run(0, std::ssize(data))};
      const auto written = (*file)->transfer(access);
      EXPECT_TRUE(written) << written.error().text();
    };
    for (int place = 0; place < 2; ++place) {  // of the pieces, which the ranks write in turns
      ASSERT_TRUE((*file)->set_view({place * kPiece, 1, Pattern::run(0, kPiece), 2 * kPiece}, {}));
      if (group->rank() == place % group->size()) write(place);
      ASSERT_TRUE(group->barrier());
    }
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->set_view({0, 1, Pattern::run(0, 1), 1}, {}));
    std::vector<std::byte> back(2 * kPieces * kPiece);
    Access access{.direction = Direction::kRead};
    access.memory = {back.data(), Pattern::run(0, std::ssize(back))};
    EXPECT_EQ(*(*file)->transfer(access), std::ssize(back));
    for (int i = 0; i < 2 * kPieces; ++i)
      ASSERT_EQ(back[static_cast<std::size_t>(i * kPiece)], static_cast<std::byte>('a' + i % 2)) << "piece " << i;
    ASSERT_TRUE((*file)->close());
  });
}

TEST_P(FileTest, FailsAlikeOnAllRanks) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const auto missing = File::open(group, path(), {.read_only = true}, {});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::kNoSuchFile);
    auto file = File::open(group, path(), kCreate, {});
    ASSERT_TRUE(file) << file.error().text();
    Access access{.direction = Direction::kRead, .collective = true};
    if (group->rank() == group->size() - 1) access.offset = -1;
    const auto refused = (*file)->transfer(access);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kArgument);
    EXPECT_EQ(refused.error().rank, group->size() - 1);
    const auto size = (*file)->set_size(group->rank() == 0 && group->size() > 1 ? 5 : 6);
    EXPECT_EQ(size.has_value(), group->size() == 1);
    ASSERT_TRUE((*file)->close());
  });
}

TEST_P(FileTest, ABadNameOfOneRankIsRefusedOnAll) {
  on_ranks([&](std::shared_ptr<Group> group) {
    const int bad = group->size() - 1;
    for (const HintList& hints : {HintList{}, HintList{{"stridio_commit", "atomic"}}}) {
      const auto refused = File::open(group, group->rank() == bad ? "rados:x" : path(), kCreate, hints);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::kUnsupportedOperation);
      EXPECT_EQ(refused.error().rank, bad);
    }
  });
  EXPECT_FALSE(std::filesystem::exists(path()));
}

INSTANTIATE_TEST_SUITE_P(Groups, FileTest, ::testing::Combine(::testing::Values(1, 2, 3, 4, 7), ::testing::Bool()));

}  // namespace
}  // namespace stridio
