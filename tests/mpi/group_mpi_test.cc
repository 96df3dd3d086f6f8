// Groups over a host MPI: contents by shared memory and by messages, lanes, and lifetimes. Every
// rank runs every test, in lockstep. With --measure, prints what an agreement costs instead.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include "group/mpi/message_group.h"
#include "group/mpi/mpi_group.h"

namespace stridio {
namespace {

using std::chrono::steady_clock;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// The same on all ranks.
std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("STRIDIO_SEED");
    unsigned long long drawn = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    MPI_Bcast(&drawn, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    return drawn;
  }();
  return value;
}

Buffer content(int from, int to, std::size_t length) {
  Buffer bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(
        (static_cast<std::size_t>(from) * 37 + static_cast<std::size_t>(to) * 11 + i) * 2654435761u >> 24);
  return bytes;
}

void expect_allgather_works(Group& group) {
  for (int round = 0; round < 20; ++round) {
    const auto all = allgather(group, group.rank() * 100 + round);
    ASSERT_TRUE(all) << all.error().text();
    for (int r = 0; r < group.size(); ++r) ASSERT_EQ((*all)[static_cast<std::size_t>(r)], r * 100 + round);
  }
  const Buffer mine = content(group.rank(), 0, Group::kAgreementBytes);
  const auto all = allgatherv(group, mine);
  ASSERT_TRUE(all) << all.error().text();
  for (int r = 0; r < group.size(); ++r)
    ASSERT_EQ((*all)[static_cast<std::size_t>(r)], content(r, 0, Group::kAgreementBytes));
  ASSERT_TRUE(group.barrier());
}

void expect_alltoallv_works(Group& group, std::size_t longest) {
  std::mt19937_64 random(seed());
  const auto ranks = static_cast<std::size_t>(group.size()), me = static_cast<std::size_t>(group.rank());
  std::vector<std::size_t> lengths(ranks * ranks);
  for (auto& length : lengths) length = random() % 3 == 0 ? 0 : random() % (longest + 1);
  std::vector<Buffer> sends, expected;
  for (std::size_t r = 0; r < ranks; ++r) {
    sends.push_back(content(group.rank(), static_cast<int>(r), lengths[me * ranks + r]));
    expected.push_back(content(static_cast<int>(r), group.rank(), lengths[r * ranks + me]));
  }
  const auto received = alltoallv(group, sends);
  ASSERT_TRUE(received) << received.error().text();
  ASSERT_TRUE(*received == expected) << "STRIDIO_SEED=" << seed();
}

class GroupOverMpi : public ::testing::TestWithParam<int> {};  // node_ranks

TEST_P(GroupOverMpi, KnowsRanksAndNodes) {
  const auto group = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(group) << group.error().text();
  const int a_node = GetParam() > 0 ? GetParam() : world_size();
  EXPECT_EQ((*group)->rank(), world_rank());
  EXPECT_EQ((*group)->size(), world_size());
  EXPECT_EQ((*group)->node_count(), (world_size() + a_node - 1) / a_node);
  for (int r = 0; r < world_size(); ++r) EXPECT_EQ((*group)->node_of(r), r / a_node);
}

TEST_P(GroupOverMpi, AgreesAndExchanges) {
  const auto group = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(group) << group.error().text();
  expect_allgather_works(**group);
  for (std::size_t longest : {100, 10'000, 3'000'000}) expect_alltoallv_works(**group, longest);
}

TEST_P(GroupOverMpi, SharesMemoryOnOneNodeOnly) {
  const auto group = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(group) << group.error().text();
  const auto memory = (*group)->shared(1'000'000);
  ASSERT_TRUE(memory);
  ASSERT_EQ(memory->data != nullptr, (*group)->node_count() == 1);
  ASSERT_EQ((*group)->persistent().data != nullptr, (*group)->node_count() == 1);
  if (memory->data == nullptr) return;
  memory->data[world_rank()] = static_cast<std::byte>(world_rank() + 1);
  ASSERT_TRUE((*group)->barrier());
  for (int r = 0; r < world_size(); ++r) ASSERT_EQ(memory->data[r], static_cast<std::byte>(r + 1));
  ASSERT_TRUE((*group)->barrier());
}

TEST_P(GroupOverMpi, OpenFilesHaveLanesOfTheirOwnThatAreUsedAgain) {
  auto first = acquire_group(MPI_COMM_WORLD, GetParam());
  auto second = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(first && second);
  ASSERT_NE(first->get(), second->get());
  // The ranks release in different orders: rank 0 has not the same lane free as the others.
  Group* const kept[] = {first->get(), second->get()};
  (world_rank() == 0 ? first : second)->reset();
  auto third = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(third) << third.error().text();
  if (world_size() > 1) {
    EXPECT_NE(third->get(), kept[0]);
    EXPECT_NE(third->get(), kept[1]);
  }
  expect_allgather_works(**third);
  (world_rank() == 0 ? second : first)->reset();
  third->reset();
  ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  auto fourth = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(fourth);
  EXPECT_EQ(fourth->get(), kept[0]) << "the lowest";
  expect_allgather_works(**fourth);
}

TEST_P(GroupOverMpi, TwoFilesAreUsedByTwoThreads) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "the host has no MPI_THREAD_MULTIPLE";
  auto first = acquire_group(MPI_COMM_WORLD, GetParam());
  auto second = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(first && second);
  std::thread other([&] {
    expect_alltoallv_works(**first, 200'000);
    expect_allgather_works(**first);
  });
  expect_allgather_works(**second);
  expect_alltoallv_works(**second, 200'000);
  other.join();
}

TEST_P(GroupOverMpi, OutlivesItsCommunicator) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, -world_rank(), &comm);
  auto group = acquire_group(comm, GetParam());
  ASSERT_TRUE(group) << group.error().text();
  MPI_Comm_free(&comm);
  EXPECT_EQ((*group)->size(), (world_size() + 1 - world_rank() % 2) / 2);
  expect_allgather_works(**group);
  expect_alltoallv_works(**group, 10'000);
}

// Rank 0 waits in the group with a large receive posted, which the others cannot finish without it.
TEST_P(GroupOverMpi, AWaitDrivesTheHost) {
  const auto group = acquire_group(MPI_COMM_WORLD, GetParam());
  ASSERT_TRUE(group);
  const int bytes = 4'000'000;
  const Buffer sent(bytes, std::byte{7});
  std::vector<Buffer> landed(static_cast<std::size_t>(world_size()));
  std::vector<MPI_Request> requests;
  if (world_rank() == 0) {
    for (int r = 1; r < world_size(); ++r) {
      landed[static_cast<std::size_t>(r)].resize(bytes);
      MPI_Irecv(landed[static_cast<std::size_t>(r)].data(), bytes, MPI_BYTE, r, 5, MPI_COMM_WORLD,
                &requests.emplace_back());
    }
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    MPI_Ssend(sent.data(), bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
  }
  ASSERT_TRUE((*group)->barrier());
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int r = 1; r < world_size() && world_rank() == 0; ++r) EXPECT_EQ(landed[static_cast<std::size_t>(r)], sent);
}

INSTANTIATE_TEST_SUITE_P(NodeRanks, GroupOverMpi, ::testing::Values(0, 1, 2),
                         [](const auto& node_ranks) { return std::to_string(node_ranks.param); });

TEST(PooledGroup, PersistentBytesAreZeroedForTheNextFile) {
  for (int file = 0; file < 3; ++file) {
    auto group = acquire_group(MPI_COMM_WORLD, 0);
    ASSERT_TRUE(group);
    const SharedMemory bytes = (*group)->persistent();
    ASSERT_NE(bytes.data, nullptr);
    EXPECT_EQ(bytes.data[0], std::byte{0});
    ASSERT_TRUE((*group)->barrier());
    if (world_rank() == 0) bytes.data[0] = std::byte{99};
    ASSERT_TRUE((*group)->barrier());
    group->reset();
    MPI_Barrier(MPI_COMM_WORLD);  // lest a rank still holds the lane, and another is taken
  }
}

TEST(AcquireGroup, RefusesIntercommunicators) {
  EXPECT_EQ(acquire_group(MPI_COMM_NULL, 0).error().code, Code::kArgument);
  if (world_size() < 2) GTEST_SKIP() << "one rank makes no intercommunicator";
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - world_rank() % 2, 3, &inter);
  EXPECT_EQ(acquire_group(inter, 0).error().code, Code::kArgument);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

TEST(AcquireGroup, OfOneProcess) {
  const auto group = acquire_group(MPI_COMM_SELF, 0);
  ASSERT_TRUE(group) << group.error().text();
  EXPECT_EQ((*group)->size(), 1);
  expect_allgather_works(**group);
  const auto memory = (*group)->shared(1000);
  ASSERT_TRUE(memory);
  EXPECT_NE(memory->data, nullptr);
}

int count_copy(MPI_Comm, int, void* count, void*, void*, int* copied) {
  ++*static_cast<int*>(count);
  *copied = 0;
  return MPI_SUCCESS;
}

TEST(AcquireGroup, LeavesTheProgramsAttributesAlone) {
  int copies = 0, keyval = MPI_KEYVAL_INVALID;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_keyval(count_copy, MPI_COMM_NULL_DELETE_FN, &keyval, &copies);
  MPI_Comm_set_attr(comm, keyval, nullptr);
  for (int node_ranks : {0, 1}) {
    ASSERT_TRUE(acquire_group(comm, node_ranks));
  }
  EXPECT_EQ(copies, 0);
  MPI_Comm_free(&comm);
  MPI_Comm_free_keyval(&keyval);
}

TEST(MessageGroup, CutsLongMessages) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<int> nodes(static_cast<std::size_t>(world_size()));
  std::iota(nodes.begin(), nodes.end(), 0);
  auto group = MessageGroup::make(comm, nodes, 1000);
  ASSERT_TRUE(group);
  expect_alltoallv_works(**group, 100'000);
}

// What the host refuses on one rank is an error there, and from the next agreement on everywhere.
TEST(MessageGroup, AFailureOfOneRankIsAgreedUpon) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  auto group = MessageGroup::make(comm, std::vector<int>(static_cast<std::size_t>(world_size())));
  ASSERT_TRUE(group);
  std::byte byte{};
  const Message to_nobody{world_size(), {&byte, 1}};
  const bool culprit = world_rank() == 0;
  EXPECT_EQ((*group)->exchange({&to_nobody, culprit ? 1u : 0u}, {}).has_value(), !culprit);
  for (int call = 0; call < 2; ++call) {
    const Status agreed = (*group)->barrier();
    ASSERT_FALSE(agreed);
    EXPECT_EQ(agreed.error().code, Code::kOther);
    EXPECT_EQ(agreed.error().rank, 0) << agreed.error().text();
  }
}

// A file that is never closed: its group is dropped when MPI is long gone, at the process's exit.
TEST(AcquireGroup, LanesMayOutliveMpi) {
  static std::vector<std::shared_ptr<Group>> forgotten;
  for (int node_ranks : {0, 1}) {
    auto group = acquire_group(MPI_COMM_WORLD, node_ranks);
    ASSERT_TRUE(group) << group.error().text();
    forgotten.push_back(*std::move(group));
  }
}

// --- Measuring ---

template <typename Call>
void measure(const char* what, int calls, Call call) {
  call();
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::micro> took = steady_clock::now() - begin;
  if (world_rank() == 0) std::printf("%-44s %10.1f us\n", what, took.count() / calls);
}

TEST(Measure, Calls) {
  if (std::getenv("STRIDIO_MEASURE") == nullptr) GTEST_SKIP() << "only with STRIDIO_MEASURE=1";
  const auto ranks = static_cast<std::size_t>(world_size());
  Buffer mine(64), all(64 * ranks);
  measure("MPI_Comm_dup, first acquire, release, free", 5, [] {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    (void)acquire_group(comm, 0);
    MPI_Comm_free(&comm);
  });
  measure("MPI_Comm_dup, free", 5, [] {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_free(&comm);
  });
  measure("later acquire_group, one node", 100, [] { (void)acquire_group(MPI_COMM_WORLD, 0); });
  const auto shared = acquire_group(MPI_COMM_WORLD, 0), messages = acquire_group(MPI_COMM_WORLD, 1);
  measure("allgather of 64 bytes, shared", 2000, [&] { (void)(*shared)->allgather(mine, all); });
  measure("allgather of 64 bytes, messages", 200, [&] { (void)(*messages)->allgather(mine, all); });
  measure("MPI_Allgather of 64 bytes", 200,
          [&] { MPI_Allgather(mine.data(), 64, MPI_BYTE, all.data(), 64, MPI_BYTE, MPI_COMM_WORLD); });
  const std::vector<Buffer> large(ranks, Buffer(1'000'000));
  measure("alltoallv of 1 MB a pair, shared", 20, [&] { (void)alltoallv(**shared, large); });
  measure("alltoallv of 1 MB a pair, messages", 20, [&] { (void)alltoallv(**messages, large); });
}

}  // namespace
}  // namespace stridio
