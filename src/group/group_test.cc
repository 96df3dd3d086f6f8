// The contract of Group on threads: contents against what every rank can compute, and what happens
// when a rank leaves. STRIDIO_SEED replays a random case.
#include "group/group.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "group/levels.h"
#include "group/overdue.h"
#include "group/parcels.h"
#include "group/segment.h"
#include "group/threads.h"

namespace stridio {
namespace {

using Random = std::mt19937_64;

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("STRIDIO_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }();
  return value;
}

// The byte at `position` of what rank `from` sends to rank `to` in round `round`.
std::byte content(int from, int to, int round, std::size_t position) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(from) * 131 + static_cast<std::uint64_t>(to) * 31 +
                               static_cast<std::uint64_t>(round) * 7 + position) *
                              0x9E3779B97F4A7C15u;
  return static_cast<std::byte>(mixed >> 56);
}

Buffer filled(int from, int to, int round, std::size_t length) {
  Buffer buffer(length);
  for (std::size_t i = 0; i < length; ++i) buffer[i] = content(from, to, round, i);
  return buffer;
}

// Lengths of all messages of a round, the same on every rank: mostly nothing or little, sometimes a
// lot.
std::vector<std::vector<std::size_t>> random_lengths(int ranks, std::uint64_t round_seed, std::size_t longest) {
  Random random(round_seed);
  std::vector<std::vector<std::size_t>> lengths(static_cast<std::size_t>(ranks));
  for (auto& row : lengths) {
    for (int to = 0; to < ranks; ++to) {
      const auto kind = random() % 4;
      row.push_back(kind == 0 ? 0 : random() % (kind == 1 ? 16 : kind == 2 ? 5000 : longest + 1));
    }
  }
  return lengths;
}

struct Shape {
  int ranks;
  int ranks_per_node;
  bool shared_memory;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.ranks << " ranks, " << shape.ranks_per_node << " a node, "
       << (shape.shared_memory ? "shared" : "messages");
}

class GroupTest : public ::testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(Group&)>& body) {
    SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed()));
    run_threads(GetParam().ranks, {GetParam().ranks_per_node, GetParam().shared_memory}, body);
  }
};

TEST_P(GroupTest, KnowsRanksAndNodes) {
  std::vector<int> seen(static_cast<std::size_t>(GetParam().ranks));
  run([&](Group& group) {
    const int a_node = GetParam().ranks_per_node > 0 ? GetParam().ranks_per_node : group.size();
    EXPECT_EQ(group.size(), GetParam().ranks);
    EXPECT_EQ(group.node_count(), (group.size() + a_node - 1) / a_node);
    for (int r = 0; r < group.size(); ++r) EXPECT_EQ(group.node_of(r), r / a_node);
    ++seen[static_cast<std::size_t>(group.rank())];
  });
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST_P(GroupTest, AllgatherOfEveryLength) {
  run([&](Group& group) {
    int round = 0;
    for (std::size_t length : {0, 1, 8, 64, 4095, 4096, 3, 4096, 4096, 4096, 1}) {
      const Buffer mine = filled(group.rank(), 0, ++round, length);
      Buffer all(length * static_cast<std::size_t>(group.size())), expected;
      for (int r = 0; r < group.size(); ++r) {
        const Buffer theirs = filled(r, 0, round, length);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      ASSERT_TRUE(group.allgather(mine, all));
      ASSERT_EQ(all, expected);
    }
  });
}

TEST_P(GroupTest, ManyAgreementsInARow) {
  run([&](Group& group) {
    for (int round = 0; round < 300; ++round) {
      if (round % 3 == 0) {
        ASSERT_TRUE(group.barrier());
      }
      const auto all = allgather(group, group.rank() * 1000 + round);
      ASSERT_TRUE(all) << all.error().text();
      for (int r = 0; r < group.size(); ++r) ASSERT_EQ((*all)[static_cast<std::size_t>(r)], r * 1000 + round);
    }
  });
}

TEST_P(GroupTest, AlltoallvOfRandomLengths) {
  run([&](Group& group) {
    for (int round = 0; round < 6; ++round) {
      const auto lengths =
          random_lengths(group.size(), seed() + static_cast<unsigned>(round), round == 0 ? 300'000 : 30'000);
      std::vector<Buffer> sends, expected;
      const auto me = static_cast<std::size_t>(group.rank());
      for (int r = 0; r < group.size(); ++r) {
        sends.push_back(filled(group.rank(), r, round, lengths[me][static_cast<std::size_t>(r)]));
        expected.push_back(filled(r, group.rank(), round, lengths[static_cast<std::size_t>(r)][me]));
      }
      const auto received = alltoallv(group, sends);
      ASSERT_TRUE(received) << received.error().text();
      ASSERT_EQ(*received, expected);
    }
  });
}

TEST_P(GroupTest, ParcelsOfRandomLengths) {
  run([&](Group& group) {
    for (int round = 0; round < 6; ++round) {
      const auto lengths = random_lengths(group.size(), seed() + 100 + static_cast<unsigned>(round), 3000);
      const auto of = [&](int from, int to) {
        return lengths[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
      };
      std::vector<Parcel> sends;
      for (int to = group.size() - 1; to >= 0; --to)
        sends.push_back({to, filled(group.rank(), to, round, of(group.rank(), to))});
      const auto received = exchange_parcels(group, std::move(sends));
      ASSERT_TRUE(received) << received.error().text();
      auto next = received->begin();
      for (int from = 0; from < group.size(); ++from) {
        if (of(from, group.rank()) == 0) continue;
        ASSERT_NE(next, received->end());
        ASSERT_EQ(next->peer, from);
        ASSERT_EQ(next->bytes, filled(from, group.rank(), round, of(from, group.rank())));
        ++next;
      }
      ASSERT_EQ(next, received->end());
    }
  });
}

// What is in its first word when all ranks have added their number to it.
std::int64_t sum_in(Segment& segment, Group& group) {
  std::atomic_ref sum(*reinterpret_cast<std::int64_t*>(segment.data()));
  sum += group.rank() + 1;
  EXPECT_TRUE(group.barrier());
  const std::int64_t all = sum.load();
  EXPECT_TRUE(group.barrier());
  return all;
}

TEST_P(GroupTest, ASegmentIsNewZeroedAndOneForAllOrTheGroupKeepsIt) {
  run([&](Group& group) {
    const std::int64_t of_all = group.size() * (group.size() + 1) / 2;
    for (int round = 0; round < 3; ++round) {
      const auto fresh = group.segment(5000, 5000), lasting = group.lasting_segment(5000, 5000);
      for (const auto* const segment : {&fresh, &lasting}) {
        ASSERT_TRUE(*segment) << segment->error().text();
        ASSERT_EQ(**segment != nullptr, group.node_count() == 1 && GetParam().shared_memory);
      }
      if (!*fresh) continue;
      ASSERT_EQ(sum_in(**fresh, group), of_all);
      ASSERT_EQ(sum_in(**lasting, group), (round + 1) * of_all);
      if (group.rank() == 0) {
        ASSERT_EQ((*group.lasting_segment(5000, 5000))->data(), (*lasting)->data()) << "without waiting for anybody";
      }
    }
  });
}

TEST_P(GroupTest, AllgathervOfShortAndLongPieces) {
  run([&](Group& group) {
    for (int round = 0; round < 6; ++round) {
      const auto lengths =
          random_lengths(group.size(), seed() + static_cast<unsigned>(round), round % 2 == 0 ? 4096 : 100'000);
      std::vector<Buffer> expected;
      for (int r = 0; r < group.size(); ++r)
        expected.push_back(filled(r, 0, round, lengths[static_cast<std::size_t>(r)][0]));
      const auto all = allgatherv(group, expected[static_cast<std::size_t>(group.rank())]);
      ASSERT_TRUE(all) << all.error().text();
      ASSERT_EQ(*all, expected);
    }
  });
}

// Sparse exchanges without any agreement between, a message to oneself included: ranks run ahead of
// others.
TEST_P(GroupTest, ExchangesBackToBack) {
  run([&](Group& group) {
    for (int round = 0; round < 50; ++round) {
      const auto lengths = random_lengths(group.size(), seed() + static_cast<unsigned>(round), 20'000);
      const auto me = static_cast<std::size_t>(group.rank());
      std::vector<Buffer> outgoing(lengths.size()), incoming(lengths.size());
      std::vector<Message> sends, receives;
      for (int r = 0; r < group.size(); ++r) {
        const auto them = static_cast<std::size_t>(r);
        outgoing[them] = filled(group.rank(), r, round, lengths[me][them]);
        incoming[them].resize(lengths[them][me]);
        sends.push_back({r, {outgoing[them].data(), std::ssize(outgoing[them])}});
        receives.push_back({r, {incoming[them].data(), std::ssize(incoming[them])}});
      }
      const Status status = group.exchange(sends, receives);
      ASSERT_TRUE(status) << status.error().text();
      for (int r = 0; r < group.size(); ++r)
        ASSERT_EQ(incoming[static_cast<std::size_t>(r)],
                  filled(r, group.rank(), round, lengths[static_cast<std::size_t>(r)][me]));
    }
  });
}

// Several exchanges under way, finished in another order than they were started in; the later ones on one side only.
TEST_P(GroupTest, ExchangesUnderWayAtOnce) {
  run([](Group& group) {
    const int n = group.size(), me = group.rank();
    constexpr std::size_t kLength = 300'000;
    for (int round = 0; round < 3; ++round) {
      const int to = (me + 1) % n, from = (me + n - 1) % n;
      Buffer out = filled(me, to, round, kLength), in(kLength), in_too(kLength);
      Buffer out_too = filled(me, from, round, kLength);
      const Message send{to, {out.data(), kLength}}, receive{from, {in.data(), kLength}};
      const Message send_back{from, {out_too.data(), kLength}}, receive_back{to, {in_too.data(), kLength}};
      const bool both = n > 2;  // else it would be a second message between two ranks
      Exchange receiving(group, {}, {&receive, 1});
      Exchange back(group, {&send_back, both ? 1u : 0u}, {&receive_back, both ? 1u : 0u});
      Exchange sending(group, {&send, 1}, {});
      ASSERT_TRUE(sending.finish());
      ASSERT_TRUE(receiving.finish());
      ASSERT_TRUE(back.finish());
      ASSERT_EQ(in, filled(from, me, round, kLength));
      if (both) {
        ASSERT_EQ(in_too, filled(to, me, round, kLength));
      }
    }
  });
}

TEST_P(GroupTest, NodesGatherThroughTheirLeaders) {
  run([this](Group& group) {
    for (const bool share : {true, false}) {
      const auto made = group.levels(share);
      ASSERT_TRUE(made) << made.error().text();
      Levels& levels = **made;
      const bool several = share && GetParam().shared_memory && GetParam().ranks_per_node > 0;
      ASSERT_EQ(levels.count(), several ? group.node_count() : group.size());
      const auto& members = levels.members(levels.own());
      ASSERT_EQ(levels.node().size(), std::ssize(members));
      ASSERT_EQ(members[static_cast<std::size_t>(levels.node().rank())], group.rank());
      for (const std::size_t length : {1, 100, 1024, 5000}) {
        Buffer all(length * static_cast<std::size_t>(levels.count()));
        ASSERT_TRUE(levels.allgather(filled(group.rank(), 0, 0, length), all));
        for (int node = 0; node < levels.count(); ++node) {
          const auto* begin = all.data() + static_cast<std::size_t>(node) * length;
          ASSERT_EQ(Buffer(begin, begin + length), filled(levels.members(node).front(), 0, 0, length));
        }
        const auto memory = levels.shared(static_cast<Bytes>(length) * 100);
        ASSERT_TRUE(memory);
        ASSERT_GE(memory->length, static_cast<Bytes>(length) * 100);
        memory->data[levels.node().rank()] = static_cast<std::byte>(group.rank());
        ASSERT_TRUE(levels.node().barrier());
        for (std::size_t member = 0; member < members.size(); ++member)
          ASSERT_EQ(memory->data[member], static_cast<std::byte>(members[member]));
        ASSERT_TRUE(levels.node().barrier());
      }
    }
  });
}

TEST_P(GroupTest, SharedMemoryIsOneForAllOrEmptyForAll) {
  run([&](Group& group) {
    for (Bytes length : {100, 5000, 300, 3'000'000}) {
      const auto shared = group.shared(length);
      ASSERT_TRUE(shared) << shared.error().text();
      const bool one_node = group.node_count() == 1 && GetParam().shared_memory;
      ASSERT_EQ(shared->data != nullptr, one_node);
      if (!one_node) continue;
      ASSERT_GE(shared->length, length);
      const Bytes piece = length / group.size();
      std::memset(shared->data + piece * group.rank(), 1 + group.rank(), static_cast<std::size_t>(piece));
      ASSERT_TRUE(group.barrier());
      for (int r = 0; r < group.size(); ++r) ASSERT_EQ(static_cast<int>(shared->data[piece * (r + 1) - 1]), 1 + r);
      ASSERT_TRUE(group.barrier());
    }
  });
}

TEST_P(GroupTest, PersistentBytesAreOneForAllZeroedAndStay) {
  run([&](Group& group) {
    const SharedMemory bytes = group.persistent();
    ASSERT_EQ(bytes.data != nullptr, group.node_count() == 1 && GetParam().shared_memory);
    if (bytes.data == nullptr) return;
    ASSERT_EQ(bytes.length, Group::kPersistentBytes);
    auto& counter = *reinterpret_cast<std::atomic<std::uint64_t>*>(bytes.data);
    ++counter;
    ASSERT_TRUE(group.barrier());
    EXPECT_EQ(counter, static_cast<std::uint64_t>(group.size()));
    ASSERT_TRUE(group.shared(100'000));
    EXPECT_EQ(group.persistent().data, bytes.data);
    ASSERT_TRUE(group.barrier());
  });
}

TEST_P(GroupTest, ARankThatReturnsEarlyFailsTheOthers) {
  if (GetParam().ranks == 1) GTEST_SKIP() << "nobody is left to notice";
  const int culprit = GetParam().ranks - 1;
  run([&](Group& group) {
    ASSERT_TRUE(group.barrier());
    if (group.rank() == culprit) return;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const Status status = group.barrier();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Code::kOther);
      EXPECT_EQ(status.error().rank, culprit) << status.error().text();
    }
    EXPECT_FALSE(alltoallv(group, std::vector<Buffer>(static_cast<std::size_t>(group.size()))));
  });
}

TEST_P(GroupTest, ARankThatReturnsInsteadOfExchangingFailsTheOthers) {
  if (GetParam().ranks == 1) GTEST_SKIP() << "nobody is left to notice";
  run([&](Group& group) {
    if (group.rank() == 0) return;
    Buffer outgoing(1'000'000), incoming(1'000'000);
    const Message send{0, {outgoing.data(), std::ssize(outgoing)}};
    const Message receive{0, {incoming.data(), std::ssize(incoming)}};
    const Status status = group.rank() % 2 == 0 ? group.exchange({&send, 1}, {}) : group.exchange({}, {&receive, 1});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().rank, 0) << status.error().text();
  });
}

TEST_P(GroupTest, AnExceptionReachesTheCaller) {
  EXPECT_THROW(run([](Group& group) {
                 if (group.rank() == 0) throw std::runtime_error("planned");
                 EXPECT_EQ(group.barrier().has_value(), false);
               }),
               std::runtime_error);
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    all.push_back({ranks, 0, true});
    all.push_back({ranks, 0, false});
    if (ranks > 2) all.push_back({ranks, 2, true});
    if (ranks > 3) all.push_back({ranks, 3, true});
    if (ranks > 2) all.push_back({ranks, 2, false});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupTest, ::testing::ValuesIn(shapes()), [](const auto& shape) {
  return std::to_string(shape.param.ranks) + "ranks" + (shape.param.shared_memory ? "Shared" : "Messages") +
         (shape.param.ranks_per_node > 0 ? std::to_string(shape.param.ranks_per_node) + "aNode" : "");
});

TEST(GroupScale, SeventyRanksInOneSegment) {
  run_threads(70, {}, [](Group& group) {
    const std::vector<Buffer> sends(70, filled(group.rank(), 0, 0, 500));
    const auto received = alltoallv(group, sends);
    ASSERT_TRUE(received) << received.error().text();
    for (int r = 0; r < 70; ++r) ASSERT_EQ((*received)[static_cast<std::size_t>(r)], filled(r, 0, 0, 500));
  });
}

// What a rank sent before it left is received while another, which is late, is waited for.
TEST(GroupScale, RanksThatAreThroughLeaveWhileALateOneIsWaitedFor) {
  constexpr int kRanks = 40, kRounds = 50;
  for (int round = 0; round < kRounds; ++round)
    run_threads(kRanks, {}, [&](Group& group) {
      Buffer mine = filled(group.rank(), 0, round, 500);
      const Message send{0, {mine.data(), std::ssize(mine)}};
      if (group.rank() + 1 == kRanks) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (group.rank() > 0) {
        ASSERT_TRUE(group.exchange({&send, 1}, {}));
        return;
      }
      std::vector<Buffer> incoming(kRanks, Buffer(500));
      std::vector<Message> receives;
      for (int r = 1; r < kRanks; ++r) receives.push_back({r, {incoming[static_cast<std::size_t>(r)].data(), 500}});
      const Status status = group.exchange({}, receives);
      ASSERT_TRUE(status) << status.error().text();
      for (int r = 1; r < kRanks; ++r) ASSERT_EQ(incoming[static_cast<std::size_t>(r)], filled(r, 0, round, 500));
    });
}

TEST(GroupScale, AThousandRanksOnThreads) {
  run_threads(1024, {64, false}, [](Group& group) {
    const auto all = allgather(group, group.rank());
    ASSERT_TRUE(all);
    for (int r = 0; r < group.size(); ++r) ASSERT_EQ((*all)[static_cast<std::size_t>(r)], r);
    std::vector<Buffer> sends(1024);
    sends[static_cast<std::size_t>((group.rank() + 1) % 1024)] = filled(group.rank(), 0, 0, 1000);
    const auto received = alltoallv(group, sends);
    ASSERT_TRUE(received);
    const int left = (group.rank() + 1023) % 1024;
    ASSERT_EQ((*received)[static_cast<std::size_t>(left)], filled(left, 0, 0, 1000));
  });
}

// One of whose exchanges, once, fails on one rank as a host's may: the messages have gone, what came is of no use.
class FailsOnce final : public Group {
 public:
  FailsOnce(Group& group, int culprit, int which) : group_(group), left_(group.rank() == culprit ? which + 1 : 0) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  int node_of(int rank) const override { return group_.node_of(rank); }
  int node_count() const override { return group_.node_count(); }
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    return group_.allgather(mine, all);
  }
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override {
    receives_.assign(receives.begin(), receives.end());
    return group_.start(sends, receives);
  }
  Status finish(Ticket ticket) override {
    RETURN_IF_ERROR(group_.finish(ticket));
    if (!armed || left_ == 0 || --left_ > 0) return {};
    for (const Message& each : receives_) std::fill_n(each.bytes.data, each.bytes.length, std::byte{0});
    return fail(Code::kNoSpace, "planned");
  }
  Status barrier() override { return group_.barrier(); }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

  bool armed = false;

 private:
  Result<std::unique_ptr<Levels>> make_levels(bool) override {
    return Levels::make(*this, SharedGroupOptions{.one_address_space = true});
  }

  Group& group_;
  int left_;  // exchanges until then, that one included; 0: none
  std::vector<Message> receives_;
};

// Every node's ranks fail alike or have everything; with the next agreement all fail.
TEST(GroupScale, AFailureOfOneLeadersExchangeIsToldToAllAndLeavesNobodyWaiting) {
  constexpr std::size_t kLength = 2500;
  constexpr int kPieces = 3;  // of it
  for (const auto& [nodes, steps] : std::vector<std::pair<int, int>>{{2, 1}, {3, 2}, {5, 3}, {8, 3}})
    for (int culprit = 0; culprit < 2 * nodes; culprit += 2)
      for (int which = 0; which < kPieces * steps; ++which) {
        std::vector<std::atomic<int>> failed(static_cast<std::size_t>(nodes));
        run_threads(2 * nodes, {.ranks_per_node = 2}, [&, nodes = nodes](Group& all) {
          FailsOnce group(all, culprit, which);
          const auto levels = group.levels();
          ASSERT_TRUE(levels);
          ASSERT_TRUE(all.barrier());
          group.armed = true;
          const auto agree = [&] {
            Buffer gathered(kLength * static_cast<std::size_t>(nodes)), expected;
            for (int node = 0; node < nodes; ++node) {
              const Buffer theirs = filled(2 * node, 0, 0, kLength);
              expected.insert(expected.end(), theirs.begin(), theirs.end());
            }
            const Status status = (*levels)->allgather(filled(group.rank(), 0, 0, kLength), gathered);
            if (status) {
              EXPECT_TRUE(gathered == expected) << "rank " << group.rank();
            } else {
              EXPECT_EQ(status.error().code, Code::kNoSpace) << status.error().text();
              EXPECT_EQ(status.error().rank, culprit);
            }
            return status;
          };
          std::atomic<int>& here = failed[static_cast<std::size_t>((*levels)->own())];
          here += agree() ? 0 : 1;
          ASSERT_TRUE(all.barrier());
          EXPECT_NE(here, 1) << "rank " << group.rank() << " and its neighbour differ";
          EXPECT_EQ(failed[static_cast<std::size_t>(culprit / 2)], 2);
          EXPECT_FALSE(agree()) << "rank " << group.rank();
          ASSERT_TRUE(all.barrier());
        });
        if (HasFailure()) FAIL() << nodes << " nodes, exchange " << which << " of rank " << culprit;
      }
}

TEST(GroupScale, WhoseLeaderGotNoParcelsFails) {
  run_threads(6, {.ranks_per_node = 2}, [](Group& all) {
    FailsOnce group(all, 2, 2);  // after two of the lengths' agreement
    ASSERT_TRUE(group.levels());
    ASSERT_TRUE(all.barrier());
    group.armed = true;
    std::vector<Parcel> parcels;
    for (int to = 0; to < group.size(); ++to) parcels.push_back({to, filled(group.rank(), to, 0, 1000)});
    const auto received = exchange_parcels(group, parcels);
    EXPECT_EQ(received.has_value(), group.node_of(group.rank()) != 1);
    if (!received) {
      EXPECT_EQ(received.error().code, Code::kNoSpace) << received.error().text();
    }
    ASSERT_TRUE(all.barrier());
  });
}

TEST(Alarm, IsDoneWithoutWhereNoThreadCanBeHad) {
  pthread_attr_t before, no_room;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&no_room), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&no_room, std::size_t{1} << 48), 0);
  ASSERT_EQ(pthread_setattr_default_np(&no_room), 0);
  EXPECT_THROW(std::thread([] {}), std::system_error);
  EXPECT_NO_THROW(Alarm(0, 2));
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&no_room);
}

}  // namespace
}  // namespace stridio
