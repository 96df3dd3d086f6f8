// Two programs write interleaved blocks of one file at once, each by sieving: where both have
// promised to lock, neither loses a byte of the other's; where they have not, no method touches a
// byte that it was not asked to write.
#include <gtest/gtest.h>

#include <thread>

#include "file/file_impl.h"
#include "group/threads.h"
#include "property/scratch_file.h"
#include "property/seed.h"
#include "property/watched_storage.h"
#include "storage/posix.h"
#include "storage/wrap/delay.h"

namespace stridio::testing {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kBlock = 16;
constexpr int kBlocks = 64;  // of each writer
constexpr int kWritersAtOnce = 2;
constexpr Bytes kLength = kBlock * kBlocks * kWritersAtOnce;

// How a writer's storage is opened, and what it is given on the way.
using Opener = std::function<std::unique_ptr<Storage>(int writer)>;

std::unique_ptr<FileImpl> open_file(Group& group, std::unique_ptr<Storage> storage, const HintList& hints) {
  std::vector<std::string> warnings;
  FileParts parts{.group = {&group, [](Group*) {}},
                  .storage = std::move(storage),
                  .report = std::make_unique<Report>(),
                  .mode = {.read_write = true},
                  .hints = apply_hints({}, hints, "program", warnings),
                  .path = "shared",
                  .report_directory = {},
                  .explain = false};
  auto file = std::make_unique<FileImpl>(std::move(parts));
  EXPECT_TRUE(file->begin());
  return file;
}

// A program of one rank: writes its blocks, `rounds` times, with a value for each round.
void write_blocks(int writer, const Opener& opener, const HintList& hints, int rounds) {
  run_threads(1, {}, [&](Group& group) {
    const auto file = open_file(group, opener(writer), hints);
    const View view{writer * kBlock, 1, Pattern::run(0, kBlock), kWritersAtOnce * kBlock};
    ASSERT_TRUE(file->set_view(view, {}, {}));
    std::vector<std::byte> data(kBlock * kBlocks);
    for (int round = 0; round < rounds; ++round) {
      std::fill(data.begin(), data.end(), static_cast<std::byte>(1 + writer * 100 + round));
      Access access{.direction = Direction::kWrite, .memory = {}};
      access.memory = {data.data(), Pattern::run(0, kBlock * kBlocks)};
      const auto written = file->transfer(access);
      ASSERT_TRUE(written) << written.error().text();
    }
    ASSERT_TRUE(file->close());
  });
}

void write_at_once(const Opener& opener, const HintList& hints, int rounds) {
  std::vector<std::thread> programs;
  for (int writer = 0; writer < kWritersAtOnce; ++writer)
    programs.emplace_back([&, writer] { write_blocks(writer, opener, hints, rounds); });
  for (std::thread& program : programs) program.join();
}

void expect_last_round(const Image& image, int rounds) {
  ASSERT_EQ(static_cast<Bytes>(image.size()), kLength);
  for (Bytes at = 0; at < kLength; ++at)
    ASSERT_EQ(static_cast<int>(image[static_cast<std::size_t>(at)]),
              static_cast<int>(at / kBlock % kWritersAtOnce * 100 + rounds))
        << "byte " << at;
}

const HintList kPromise{{"romio_ds_write", "enable"}, {"ind_wr_buffer_size", "4096"}};

// A slow storage holds the gap between reading a window and writing it back open.
TEST(SieveRace, WritersThatLockLoseNothing) {
  ScratchFile path;
  path.fill(0);
  const auto line = std::make_shared<DelayLine>(DelayModel{.latency = 100us});
  constexpr int kRounds = kSanitized ? 20 : 100;
  write_at_once(
      [&](int) {
        auto storage = open_posix(path.path(), {.read = true, .write = true});
        return wrap_delay(std::move(*storage), line);
      },
      kPromise, kRounds);
  expect_last_round(path.contents(), kRounds);
}

TEST(SieveRace, WithoutThePromiseHolesAreNotTouched) {
  const HintList choices[] = {{},
                              {{"romio_ds_write", "disable"}},
                              {{"stridio_method", "sieve"}},
                              {{"stridio_method", "list"}},
                              {{"romio_ds_write", "disable"}, {"stridio_method", "sieve"}},
                              {{"stridio_method", "two_phase"}, {"romio_cb_write", "enable"}}};
  for (const HintList& hints : choices) {
    const auto file = make_filled_memory(0);
    Watch watches[kWritersAtOnce];
    const auto own = [](int writer, const Extent& range) {
      return range.offset / kBlock % kWritersAtOnce == writer && (range.end() - 1) / kBlock == range.offset / kBlock;
    };
    write_at_once(
        [&](int writer) {
          watches[writer].may_write = [own, writer](const Extent& range) { return own(writer, range); };
          return wrap_watch(open_memory(file), watches[writer]);
        },
        hints, 3);
    for (const Watch& watch : watches) EXPECT_FALSE(watch.stray_write);
    expect_last_round(contents_of_memory(file), 3);
  }
}

}  // namespace
}  // namespace stridio::testing
