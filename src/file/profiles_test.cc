#include "file/profiles.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "file/file.h"
#include "group/threads.h"
#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Profiles : public ::testing::Test {
 protected:
  Profiles() { setenv("XDG_CACHE_HOME", (directory_.path() + "/cache").c_str(), 1); }

  std::string cache() const { return directory_.path() + "/cache/stridio/profiles.json"; }
  Json read_cache() const {
    std::ifstream in(cache());
    return Json::parse(in, nullptr, false);
  }
  void write_cache(const std::string& text) const {
    fs::create_directories(fs::path(cache()).parent_path());
    std::ofstream(cache()) << text;
  }
  std::string data() const {
    const std::string path = directory_.file("data");
    std::ofstream(path) << "some";
    return path;
  }
  static Profile profile_of(const std::string& path) {
    FileId id;
    EXPECT_TRUE(open_posix(path, {.read = true}, &id));
    return stridio::profile_of(path, id);
  }
  // What the process remembers must not decide: in a process of its own.
  Profile profile_of_new_process() const {
    const std::string path = data();
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    if (fork() == 0) {
      const Profile profile = profile_of(path);
      _exit(write(ends[1], &profile, sizeof profile) == sizeof profile ? 0 : 1);
    }
    Profile profile;
    EXPECT_EQ(read(ends[0], &profile, sizeof profile), static_cast<ssize_t>(sizeof profile));
    close(ends[0]);
    close(ends[1]);
    return profile;
  }

  TempDirectory directory_;
};

TEST_F(Profiles, AreMeasuredOnceAndRemembered) {
  const Profile first = profile_of_new_process();
  EXPECT_GT(first.measured_at, 0);
  Json cached = read_cache();
  ASSERT_EQ(cached["profiles"].size(), 1u) << cached;
  cached["profiles"].front()["read"]["request_seconds"] = 0.5;
  write_cache(cached.dump());
  EXPECT_EQ(profile_of_new_process().read.request_seconds, 0.5) << "the cache counts";
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()), 2)
      << "data and cache: no scratch file is left";
}

TEST_F(Profiles, OldOnesAreMeasuredAnew) {
  profile_of_new_process();
  Json cached = read_cache();
  cached["profiles"].front()["read"]["request_seconds"] = 0.5;
  cached["profiles"].front()["measured_at"] = std::time(nullptr) - 25 * 3600;
  write_cache(cached.dump());
  EXPECT_LT(profile_of_new_process().read.request_seconds, 0.5);
  EXPECT_LT(read_cache()["profiles"].front()["read"]["request_seconds"].get<double>(), 0.5);
}

TEST_F(Profiles, OldOnesOfOtherMountsAreDropped) {
  profile_of_new_process();
  Json cached = read_cache();
  const Json profile = cached["profiles"].front();
  Json old = profile;
  old["measured_at"] = std::time(nullptr) - 25 * 3600;
  cached["profiles"] = {{"host fresh", profile}, {"host old", old}, {"host none", 7}};
  write_cache(cached.dump());
  profile_of_new_process();
  const Json left = read_cache()["profiles"];
  EXPECT_EQ(left.size(), 2u) << left;
  EXPECT_TRUE(left.contains("host fresh")) << left;
}

TEST_F(Profiles, GarbageAndOtherVersionsAreReplaced) {
  for (const char* text : {"", "{", "[]", "17", "{\"version\":1}", "{\"version\":1,\"profiles\":[1]}",
                           "{\"version\":0,\"profiles\":{\"x\":1}}", "{\"version\":99,\"profiles\":7}"}) {
    write_cache(text);
    EXPECT_GT(profile_of_new_process().measured_at, 0) << text;
    EXPECT_EQ(read_cache()["profiles"].size(), 1u) << text;
  }
}

TEST_F(Profiles, NonsenseInAProfileIsIgnored) {
  profile_of_new_process();
  const Json good = read_cache();
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"request_seconds", -1}, {"request_seconds", "1"}, {"byte_seconds", 0}, {"depth", 0}, {"overlap", 1e9}}) {
    Json bad = good;
    bad["profiles"].front()["read"][name] = value;
    write_cache(bad.dump());
    const Profile profile = profile_of_new_process();
    EXPECT_GE(profile.read.depth, 1);
    EXPECT_GT(profile.read.byte_seconds, 0);
    EXPECT_LT(profile.read.request_seconds, 1) << name;
    EXPECT_GE(profile.read.request_seconds, 0) << name;
  }
}

TEST_F(Profiles, AnUnwritableCacheDoesNoHarm) {
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  EXPECT_GT(profile_of_new_process().measured_at, 0);
  const auto calibrated = calibrate_directory(directory_.path());
  ASSERT_TRUE(calibrated) << calibrated.error().text();
  EXPECT_FALSE(calibrated->cached);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_GT(profile_of_new_process().measured_at, 0);
}

TEST_F(Profiles, ALimitOfFileSizesKillsNobody) {
  const std::string path = data();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(profile_of(path).measured_at == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(Profiles, WhatIsNoFileHasDefaults) { EXPECT_EQ(profile_of("/dev/null").measured_at, 0); }

TEST_F(Profiles, AreForgottenWhenOldEnough) {
  profile_of_new_process();
  forget_profile(data());
  EXPECT_EQ(read_cache()["profiles"].size(), 1u) << "just measured";
  Json cached = read_cache();
  cached["profiles"].front()["measured_at"] = std::time(nullptr) - 3600;
  write_cache(cached.dump());
  forget_profile(data());
  EXPECT_EQ(read_cache()["profiles"].size(), 0u);
}

// Where writes overlap within a file only, one begins with its end, the last page of it, alone.
TEST_F(Profiles, WhoHasReachedTheEndOfAFileDoesNotLengthenItFirst) {
  profile_of_new_process();
  Json cached = read_cache();
  Json& mount = cached["profiles"].front();
  mount["write"].update(
      {{"request_seconds", 1e-3}, {"byte_seconds", 1e-9}, {"depth", 16}, {"overlap", 8}, {"extends_alone", true}});
  mount["map_seconds"] = 100;
  write_cache(cached.dump());
  constexpr Bytes kPiece = 8192;
  constexpr int kPieces = 20;
  const auto requests_of = [&](const std::vector<const char*>& calls) {
    const TempDirectory reports;
    const auto body = [&](Group& group) {
      auto file = File::open(std::shared_ptr<Group>(&group, [](Group*) {}), directory_.file("rewritten"),
                             {.read_write = true, .create = true}, {{"romio_ds_write", "disable"}});
      ASSERT_TRUE(file) << file.error().text();
      ASSERT_TRUE((*file)->set_view({0, kPiece, Pattern::run(0, kPiece), 2 * kPiece}, {}));
      std::vector<std::byte> bytes(kPieces * kPiece);
      Access access{.direction = Direction::kWrite, .pointer = Pointer::kExplicit, .collective = false};
      access.memory = {bytes.data(), Pattern::run(0, std::ssize(bytes))};
      for (const std::string_view call : calls) {
        const bool done = call == "cut" ? (*file)->set_size(0).has_value() : (*file)->transfer(access).has_value();
        ASSERT_TRUE(done) << call;
      }
      ASSERT_TRUE((*file)->close());
    };
    const pid_t child = fork();
    if (child == 0) {
      setenv("STRIDIO_REPORT_DIR", reports.path().c_str(), 1);
      run_threads(1, {.ranks_per_node = 0, .shared_memory = true}, body);
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    int requests = 0;
    for (const auto& report : fs::directory_iterator(reports.path())) {
      std::ifstream in(report.path());
      requests = Json::parse(in)["storage"]["write_requests"].get<int>();
    }
    return requests;
  };
  EXPECT_EQ(requests_of({"write"}), kPieces + 1);
  EXPECT_EQ(requests_of({"write", "write"}), 2 * kPieces + 1);
  EXPECT_EQ(requests_of({"write", "cut", "write"}), 2 * kPieces + 2);
}

TEST_F(Profiles, ADirectoryIsCalibratedAnew) {
  const auto calibrated = calibrate_directory(directory_.path());
  ASSERT_TRUE(calibrated) << calibrated.error().text();
  EXPECT_TRUE(calibrated->cached);
  EXPECT_EQ(calibrated->cache, cache());
  EXPECT_TRUE(read_cache()["profiles"].contains(calibrated->mount)) << calibrated->mount;
  EXPECT_FALSE(calibrate_directory(directory_.file("missing")));
}

}  // namespace
}  // namespace stridio
