// What the simulations of scale share: ranks that are threads, forced nodes, and counts of what goes between them. It
// replaces the allocator: to be included by one source of a program.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "group/levels.h"
#include "group/threads.h"
#include "pattern/pattern.h"

namespace {

// What the calling thread, which is a rank, has allocated and not yet freed. (What another frees counts there.)
thread_local std::int64_t heap_now = 0, heap_most = 0;

constexpr std::size_t kHead = 16;

}  // namespace

void* operator new(std::size_t size) {
  auto* head = static_cast<std::size_t*>(std::malloc(size + kHead));
  if (head == nullptr) throw std::bad_alloc();
  *head = size;
  heap_now += static_cast<std::int64_t>(size);
  heap_most = std::max(heap_most, heap_now);
  return reinterpret_cast<std::byte*>(head) + kHead;
}

void operator delete(void* data) noexcept {
  if (data == nullptr) return;
  auto* head = reinterpret_cast<std::size_t*>(static_cast<std::byte*>(data) - kHead);
  heap_now -= static_cast<std::int64_t>(*head);
  std::free(head);
}

void operator delete(void* data, std::size_t) noexcept { operator delete(data); }

namespace stridio {
namespace {

constexpr int kRanksPerNode = 16;

std::int64_t root(std::int64_t value, int power) {
  const auto raised = [power](std::int64_t base) {
    std::int64_t product = 1;
    for (int i = 0; i < power; ++i) product *= base;
    return product;
  };
  std::int64_t result = 1;
  while (raised(result + 1) <= value) ++result;
  return result;
}

// 24 variables of 8 blocks a rank of 8^3 doubles, each variable an array of its own. Weak.
Pattern flash(int rank, int ranks) {
  constexpr Bytes kRankBytes = Bytes{8} * 8 * 8 * 8 * 8;
  return Pattern::strided(24, ranks * kRankBytes, Pattern::run(0, kRankBytes)).shifted(rank * kRankBytes);
}

// ---- Counting

// Of one rank.
struct Counts {
  std::int64_t messages = 0;  // received from other nodes
  std::int64_t bytes = 0;     // in them
  std::int64_t agreed = 0;    // bytes received in agreements
  std::int64_t steps = 0;     // waits for other nodes, one after the other; an agreement takes log2(ranks)
  std::int64_t heap = 0;      // most bytes on the heap
  std::int64_t writes = 0;    // windows written
};

class CountingGroup final : public Group {
 public:
  CountingGroup(Group& inner, Counts& counts) : inner_(inner), counts_(&counts) {}
  void count_in(Counts& counts) { counts_ = &counts; }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int node_of(int rank) const override { return inner_.node_of(rank); }
  int node_count() const override { return inner_.node_count(); }
  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    counts_->steps += std::bit_width(static_cast<unsigned>(size() - 1));
    counts_->agreed += std::ssize(all);
    return inner_.allgather(mine, all);
  }
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override {
    bool waits = false;
    for (const Message& message : receives) {
      if (node_of(message.peer) == node_of(rank()) || message.bytes.length == 0) continue;
      waits = true;
      ++counts_->messages;
      counts_->bytes += message.bytes.length;
    }
    counts_->steps += waits;
    return inner_.start(sends, receives);
  }
  Status finish(Ticket ticket) override { return inner_.finish(ticket); }
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes length) override { return inner_.shared(length); }
  Status await(Bell& bell, std::uint32_t heard, const std::function<std::vector<int>()>& missing) override {
    return inner_.await(bell, heard, missing);
  }

 private:
  Result<std::unique_ptr<Levels>> make_levels(bool share) override {
    return Levels::make(*this, share ? std::optional(SharedGroupOptions{.one_address_space = true}) : std::nullopt);
  }

  Group& inner_;
  Counts* counts_;
};

// Of the rank that has most.
Counts most_of(const std::vector<Counts>& all) {
  Counts most;
  for (const Counts& each : all)
    for (const auto field :
         {&Counts::messages, &Counts::bytes, &Counts::agreed, &Counts::steps, &Counts::heap, &Counts::writes})
      most.*field = std::max(most.*field, each.*field);
  return most;
}

}  // namespace
}  // namespace stridio
