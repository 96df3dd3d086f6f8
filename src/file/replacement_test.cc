// The hint stridio_commit=atomic, on real files.
#include "file/replacement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "group/threads.h"

namespace stridio {
namespace {

namespace fs = std::filesystem;

constexpr AccessMode kCreate{.read_write = true, .create = true};
const HintList kAtomic{{"stridio_commit", "atomic"}};

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Status write(File& file, Offset offset, std::string text, bool together = true) {
  const Bytes length = static_cast<Bytes>(text.size());
  Access access{.direction = Direction::kWrite, .collective = together, .offset = offset};
  access.memory = {reinterpret_cast<std::byte*>(text.data()), Pattern::run(0, length)};
  RETURN_IF_ERROR(file.transfer(access));
  return {};
}

class ReplacementTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stridio-replacement-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ + "/data"; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }
  void on_ranks(const std::function<void(std::shared_ptr<Group>)>& body) const {
    run_threads(GetParam(), {}, [&](Group& group) { body(std::shared_ptr<Group>(&group, [](Group*) {})); });
  }
  // Each rank writes its number at its place; between `before_close` no rank closes.
  void write_numbers(const std::string& name, const std::function<void()>& before_close) const {
    on_ranks([&](std::shared_ptr<Group> group) {
      auto file = File::open(group, name, kCreate, kAtomic);
      ASSERT_TRUE(file) << file.error().text();
      ASSERT_TRUE(write(**file, group->rank(), std::to_string(group->rank())));
      ASSERT_TRUE((*file)->sync());
      if (group->rank() == 0) before_close();
      ASSERT_TRUE(group->barrier());
      const Status closed = (*file)->close();
      EXPECT_TRUE(closed) << closed.error().text();
    });
  }
  std::string numbers() const { return std::string("0123456").substr(0, static_cast<std::size_t>(GetParam())); }

  std::string folder_;
};

TEST_P(ReplacementTest, ANewFileAppearsWhole) {
  write_numbers(path(), [&] { EXPECT_FALSE(fs::exists(path())); });
  EXPECT_EQ(text_of(path()), numbers());
  EXPECT_EQ(files(), 1) << "nothing else is left";
}

TEST_P(ReplacementTest, AFileIsAsItWasUntilClose) {
  std::ofstream(path()) << "abcdefghij";
  ASSERT_EQ(chmod(path().c_str(), 0640), 0);
  fs::create_symlink("data", folder_ + "/link");
  write_numbers(folder_ + "/link", [&] { EXPECT_EQ(text_of(path()), "abcdefghij"); });
  EXPECT_EQ(text_of(path()), std::string("abcdefghij").replace(0, numbers().size(), numbers()));
  EXPECT_TRUE(fs::is_symlink(folder_ + "/link"));
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms{0640});
  EXPECT_EQ(files(), 2);
}

// What a file is, its content says, and so whether it is replaced.
TEST_P(ReplacementTest, AFlatFileIsReplacedWhateverLayoutIsAskedFor) {
  for (const std::string_view prefix : {"interval:", ""}) {
    std::ofstream(path()) << "abcdefghij";
    on_ranks([&](std::shared_ptr<Group> group) {
      HintList hints = kAtomic;
      if (prefix.empty()) hints.emplace_back("stridio_layout", "interval");
      auto file = File::open(group, std::string(prefix) + path(), kCreate, hints);
      ASSERT_TRUE(file) << file.error().text();
      ASSERT_TRUE(write(**file, group->rank(), std::to_string(group->rank())));
      ASSERT_TRUE(group->barrier());
      EXPECT_EQ(text_of(path()), "abcdefghij");
      ASSERT_TRUE((*file)->close());
    });
    EXPECT_EQ(text_of(path()), std::string("abcdefghij").replace(0, numbers().size(), numbers()));
  }
}

TEST_P(ReplacementTest, OneWriterAtATime) {
  on_ranks([&](std::shared_ptr<Group> group) {
    auto one = File::open(group, path(), kCreate, kAtomic);
    ASSERT_TRUE(one) << one.error().text();
    const auto other = File::open(group, path(), kCreate, kAtomic);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, Code::kFileInUse);
    ASSERT_TRUE(write(**one, group->rank(), std::to_string(group->rank())));
    ASSERT_TRUE((*one)->close());
  });
  EXPECT_EQ(text_of(path()), numbers());
}

TEST_P(ReplacementTest, WhatADeadJobLeftIsNotInTheNext) {
  std::ofstream(Replacement::beside(path())) << "of a job that died, longer than what comes";
  write_numbers(path(), [] {});
  EXPECT_EQ(text_of(path()), numbers());
  EXPECT_EQ(files(), 1);
}

TEST_P(ReplacementTest, OpeningFailsAsItWouldWithout) {
  std::ofstream(path()) << "abc";
  on_ranks([&](std::shared_ptr<Group> group) {
    const auto code = [&](const std::string& name, AccessMode mode) {
      const auto file = File::open(group, name, mode, kAtomic);
      return file ? Code::kOther : file.error().code;
    };
    EXPECT_EQ(code(path(), {.write_only = true, .create = true, .exclusive = true}), Code::kFileExists);
    EXPECT_EQ(code(folder_ + "/missing", {.write_only = true}), Code::kNoSuchFile);
    EXPECT_EQ(code(folder_, kCreate), Code::kBadFileName);
    EXPECT_EQ(code(folder_ + "/no/such", kCreate), Code::kNoSuchFile);
    auto reader = File::open(group, path(), {.read_only = true}, kAtomic);  // is not concerned
    ASSERT_TRUE(reader) << reader.error().text();
    ASSERT_TRUE((*reader)->close());
  });
  EXPECT_EQ(text_of(path()), "abc");
  EXPECT_EQ(files(), 1);
}

TEST_P(ReplacementTest, DeletedOnCloseIsDeleted) {
  on_ranks([&](std::shared_ptr<Group> group) {
    AccessMode mode = kCreate;
    mode.delete_on_close = true;
    auto file = File::open(group, path(), mode, kAtomic);
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_TRUE((*file)->close());
  });
  EXPECT_EQ(files(), 0);
}

TEST_P(ReplacementTest, ARelativeNameIsThatOfTheOpening) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_numbers("data", [&] { fs::current_path("/"); });
  fs::current_path(before);
  EXPECT_EQ(text_of(path()), numbers());
  EXPECT_EQ(files(), 1);
}

TEST_P(ReplacementTest, AnIntervalFileIsItsOwn) {
  on_ranks([&](std::shared_ptr<Group> group) {
    for (const std::string_view prefix : {"interval:", ""}) {
      auto file = File::open(group, fmt::format("{}{}", prefix, path()), kCreate, kAtomic);
      ASSERT_TRUE(file) << file.error().text();
      EXPECT_EQ((*file)->hints().entries.at("stridio_layout"), "interval");
      ASSERT_TRUE((*file)->close());
    }
  });
  EXPECT_EQ(files(), 1);
}

// One rank's write fails, another's program does not look at what its own writes said.
TEST_P(ReplacementTest, AFailedWriteLeavesTheFileAsItWas) {
  std::ofstream(path()) << "abcdefghij";
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  on_ranks([&](std::shared_ptr<Group> group) {
    auto file = File::open(group, path(), kCreate, kAtomic);
    ASSERT_TRUE(file) << file.error().text();
    const bool fails = group->rank() == group->size() - 1;
    EXPECT_EQ(write(**file, fails ? 2000 : 0, "new", false).has_value(), !fails);
    const Status closed = (*file)->close();
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, Code::kIo);
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(text_of(path()), "abcdefghij");
  EXPECT_EQ(files(), 1);
}

// One process at a time: what another does in between is done where the file beside is opened.
class ReplacementRace : public ReplacementTest {
 protected:
  using Begun = Result<std::unique_ptr<Replacement>>;

  Begun begin(const Replacement::Open& open = nullptr) const { return Replacement::begin(path(), kCreate, 0644, open); }
  // Another program makes `text` the file.
  void replace_by(const std::string& text) const {
    auto other = begin();
    ASSERT_TRUE(other) << other.error().text();
    std::ofstream(Replacement::beside(path())) << text;
    const Status done = (*other)->commit();
    ASSERT_TRUE(done) << done.error().text();
  }
  // As open_posix(), but another program's version, `text`, has become the file by the time that it returns.
  auto late(const std::string& text) const {
    return [this, text](const std::string& beside, const OpenMode& mode, FileId* id) {
      std::unique_ptr<Replacement> other;
      if (auto theirs = begin()) other = *std::move(theirs);
      std::ofstream(beside) << text;
      auto opened = open_posix(beside, mode, id);
      EXPECT_TRUE(other && other->commit());
      return opened;
    };
  }
};

TEST_P(ReplacementRace, WhoComesWhileAnotherEndsDoesNotEmptyTheFile) {
  for (const bool existed : {false, true}) {
    int opened = 0;
    const auto begun = begin([&](const std::string& beside, const OpenMode& mode, FileId* id) {
      return ++opened == 1 ? late("theirs")(beside, mode, id) : open_posix(beside, mode, id);
    });
    ASSERT_TRUE(begun) << begun.error().text();
    EXPECT_EQ(opened, 2) << "the file " << (existed ? "existed" : "is new");
    EXPECT_EQ(text_of(path()), "theirs");
    EXPECT_EQ(text_of(Replacement::beside(path())), "theirs") << "it begins with what the file is now";
    std::ofstream(Replacement::beside(path())) << "ours";
    ASSERT_TRUE((*begun)->commit());
    EXPECT_EQ(text_of(path()), "ours");
    EXPECT_EQ(files(), 1);
  }
}

// It still has the file open that it has just made the live one.
TEST_P(ReplacementRace, WhoIsDoneDoesNotKeepOthersOut) {
  auto other = begin();
  ASSERT_TRUE(other);
  int opened = 0;
  const auto begun = begin([&](const std::string& beside, const OpenMode& mode, FileId* id) {
    auto storage = open_posix(beside, mode, id);
    EXPECT_TRUE(++opened > 1 || (*other)->commit());
    return storage;
  });
  EXPECT_TRUE(begun) << begun.error().text();
  EXPECT_EQ(opened, 2);
}

TEST_P(ReplacementRace, WhoNeverGetsAFileOfItsOwnGivesUp) {
  int opened = 0;
  const auto begun = begin([&](const std::string& beside, const OpenMode& mode, FileId* id) {
    return late(std::to_string(++opened))(beside, mode, id);
  });
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kFileInUse);
  EXPECT_EQ(text_of(path()), std::to_string(opened));
  EXPECT_EQ(files(), 1);
}

TEST_P(ReplacementRace, AFileThatAppearsMeanwhileExists) {
  const auto begun = Replacement::begin(path(), {.read_write = true, .create = true, .exclusive = true}, 0644,
                                        [&](const std::string& beside, const OpenMode& mode, FileId* id) {
                                          if (!fs::exists(path())) replace_by("theirs");
                                          return open_posix(beside, mode, id);
                                        });
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kFileExists);
  EXPECT_EQ(text_of(path()), "theirs");
  EXPECT_EQ(files(), 1);
}

TEST_P(ReplacementRace, WhatAnotherIsWritingStaysWhereItCannotBeOpened) {
  auto other = begin();
  ASSERT_TRUE(other);
  const auto begun = begin([](const std::string& beside, const OpenMode&, FileId*) {
    return Result<std::unique_ptr<Storage>>(fail_errno(EACCES, "opening or creating", beside));
  });
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, Code::kAccess);
  ASSERT_TRUE((*other)->commit());
  EXPECT_TRUE(fs::exists(path()));
}

INSTANTIATE_TEST_SUITE_P(One, ReplacementRace, ::testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Groups, ReplacementTest, ::testing::Values(1, 2, 3, 4, 7));

}  // namespace
}  // namespace stridio
