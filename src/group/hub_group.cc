// Agreements: one counter and two buffers under one mutex. The last rank to arrive completes the
// generation. A rank reads the buffer of generation g after leaving the mutex; it is next written
// in generation g + 2, which no rank enters before all have arrived in g + 1, hence have finished
// reading g. One wait suffices.
//
// Exchange: a mailbox holds, by sender, the message that was posted and the place where it is expected. Whichever of
// the two ranks comes second copies, under the mailbox's mutex; nobody else has to move. A rank whose exchange fails
// takes its own entries out again: its buffers are then its own.
//
// A wait for a rank that has left fails the whole group: its error is set once, and every waiter
// woken. What is complete is answered before failure is looked at, so that an agreement completes
// on all ranks or none.
//
// Cost: a copy and two locks a message; an agreement wakes all ranks once.
#include "group/hub_group.h"

#include <algorithm>
#include <map>

#include "group/levels.h"

namespace stridio {

class HubGroup final : public Group {
 public:
  HubGroup(Hub& hub, int rank) : hub_(hub), rank_(rank) {}
  ~HubGroup() override { hub_.leave(rank_); }
  HubGroup(const HubGroup&) = delete;
  HubGroup& operator=(const HubGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_.mailboxes_.size()); }
  int node_of(int rank) const override { return hub_.ranks_per_node_ > 0 ? rank / hub_.ranks_per_node_ : 0; }
  int node_count() const override { return node_of(size() - 1) + 1; }

  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Ticket start(std::span<const Message> sends, std::span<const Message> receives) override;
  Status finish(Ticket ticket) override;
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

 private:
  Hub::Mailbox& mailbox(int rank) { return hub_.mailboxes_[static_cast<std::size_t>(rank)]; }
  Status arrive(std::span<const std::byte> mine);
  Status await_generation(std::uint64_t generation, std::unique_lock<std::mutex>& lock);
  Result<std::unique_ptr<Levels>> make_levels(bool share) override {
    return Levels::make(*this, share && hub_.shared_memory_
                                   ? std::optional(SharedGroupOptions{.one_address_space = true})
                                   : std::nullopt);
  }

  using Side = std::optional<Span> Hub::Letter::*;
  // This rank's side of a letter.
  struct Entry {
    int from, to;
    Side side;
  };
  Status enter(const Entry& entry, Span bytes);
  Status wait_for(const Entry& entry);
  void take_out(const Entry& entry);
  struct Exchange {
    std::vector<Entry> entries;
    Status status;
  };

  Hub& hub_;
  const int rank_;
  std::map<Ticket, Exchange> exchanges_;
  Ticket last_ = 0;
};

Hub::Hub(int ranks, int ranks_per_node, bool shared_memory)
    : ranks_per_node_(ranks_per_node), shared_memory_(shared_memory), mailboxes_(static_cast<std::size_t>(ranks)) {}

std::unique_ptr<Group> Hub::join(int rank) { return std::make_unique<HubGroup>(*this, rank); }

void Hub::wake_mailboxes() {
  for (auto& mailbox : mailboxes_) {
    std::lock_guard lock(mailbox.mutex);
    mailbox.changed.notify_all();
  }
}

void Hub::leave(int rank) {
  {
    std::lock_guard lock(agreement_.mutex);
    if (!agreement_.left) agreement_.left = rank;
  }
  agreement_.completed.notify_all();
  mailboxes_[static_cast<std::size_t>(rank)].left = true;
  some_left_ = true;
  wake_mailboxes();
}

Error Hub::failure() {
  std::lock_guard lock(agreement_.mutex);
  return *agreement_.failure;
}

// The group's first error: this one, or that of a rank which was faster.
Error Hub::fail_naming(int culprit, const std::string& what) {
  const Error error{.code = Code::kOther, .what = what, .rank = culprit};
  {
    std::lock_guard lock(agreement_.mutex);
    if (agreement_.failure) return *agreement_.failure;
    agreement_.failure = error;
  }
  failed_ = true;
  agreement_.completed.notify_all();
  wake_mailboxes();
  return error;
}

Status HubGroup::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  if (static_cast<Bytes>(mine.size()) > kAgreementBytes || all.size() != mine.size() * static_cast<std::size_t>(size()))
    return fail(Code::kArgument, "an agreement takes at most 4096 bytes a rank, and room for all ranks'");
  std::size_t parity;
  {
    std::lock_guard lock(hub_.agreement_.mutex);
    parity = hub_.agreement_.generation % 2;
  }
  RETURN_IF_ERROR(arrive(mine));
  std::copy_n(hub_.agreement_.bytes[parity].begin(), all.size(), all.begin());
  return {};
}

Status HubGroup::arrive(std::span<const std::byte> mine) {
  auto& agreement = hub_.agreement_;
  std::unique_lock lock(agreement.mutex);
  if (agreement.failure) return fail(*agreement.failure);
  if (agreement.arrived == 0) agreement.length = mine.size();
  if (agreement.length != mine.size()) {
    lock.unlock();
    return fail(hub_.fail_naming(rank_, "the ranks' bytes in an agreement differ in length"));
  }
  const auto generation = agreement.generation;
  Buffer& bytes = agreement.bytes[generation % 2];
  bytes.resize(std::max(bytes.size(), mine.size() * hub_.mailboxes_.size()));
  std::copy_n(mine.begin(), mine.size(), bytes.begin() + rank_ * std::ssize(mine));
  if (++agreement.arrived < size()) return await_generation(generation + 1, lock);
  agreement.arrived = 0;
  ++agreement.generation;
  lock.unlock();
  agreement.completed.notify_all();
  return {};
}

Status HubGroup::await_generation(std::uint64_t generation, std::unique_lock<std::mutex>& lock) {
  auto& agreement = hub_.agreement_;
  agreement.completed.wait(lock,
                           [&] { return agreement.generation == generation || agreement.failure || agreement.left; });
  if (agreement.generation == generation) return {};
  if (agreement.failure) return fail(*agreement.failure);
  const int culprit = *agreement.left;
  lock.unlock();
  return fail(hub_.fail_naming(culprit, "a rank left the group while others wait for it"));
}

Ticket HubGroup::start(std::span<const Message> sends, std::span<const Message> receives) {
  Exchange& exchange = exchanges_[++last_];
  if (hub_.failed_) exchange.status = fail(hub_.failure());
  const auto enter_all = [&](std::span<const Message> messages, auto entry_of) {
    for (const Message& message : messages) {
      if (!exchange.status || message.bytes.length == 0) continue;
      const Entry entry = entry_of(message.peer);
      exchange.status = enter(entry, message.bytes);
      if (exchange.status) exchange.entries.push_back(entry);
    }
  };
  enter_all(receives, [&](int peer) { return Entry{peer, rank_, &Hub::Letter::expected}; });
  enter_all(sends, [&](int peer) { return Entry{rank_, peer, &Hub::Letter::sent}; });
  return last_;
}

Status HubGroup::finish(Ticket ticket) {
  const Exchange exchange = std::move(exchanges_.extract(ticket).mapped());
  Status status = exchange.status;
  for (const Entry& entry : exchange.entries)
    if (status) status = wait_for(entry);
  if (!status)
    for (const Entry& entry : exchange.entries) take_out(entry);
  return status;
}

Status HubGroup::enter(const Entry& entry, Span bytes) {
  auto& box = mailbox(entry.to);
  std::unique_lock lock(box.mutex);
  Hub::Letter& letter = box.letters[entry.from];
  if (letter.*entry.side) {
    lock.unlock();
    return fail(hub_.fail_naming(rank_, "two messages from one rank to another at a time"));
  }
  letter.*entry.side = bytes;
  if (!letter.sent || !letter.expected) return {};
  const Bytes sent = letter.sent->length, expected = letter.expected->length;
  if (sent == expected) std::copy_n(letter.sent->data, sent, letter.expected->data);
  box.letters.erase(entry.from);
  lock.unlock();
  box.changed.notify_all();
  if (sent == expected) return {};
  return fail(hub_.fail_naming(entry.from, "rank " + std::to_string(entry.to) + " expects " + std::to_string(expected) +
                                               " bytes and is sent " + std::to_string(sent)));
}

Status HubGroup::wait_for(const Entry& entry) {
  auto& box = mailbox(entry.to);
  const int peer = entry.from == rank_ ? entry.to : entry.from;
  std::unique_lock lock(box.mutex);
  bool done = false;
  box.changed.wait(lock, [&] {
    const auto found = box.letters.find(entry.from);
    done = found == box.letters.end() || !(found->second.*entry.side);
    return done || hub_.failed_ || mailbox(peer).left;
  });
  if (done) return {};
  lock.unlock();
  if (hub_.failed_) return fail(hub_.failure());
  return fail(hub_.fail_naming(peer, "a rank left the group before its messages were through"));
}

void HubGroup::take_out(const Entry& entry) {
  auto& box = mailbox(entry.to);
  const std::lock_guard lock(box.mutex);
  const auto found = box.letters.find(entry.from);
  if (found == box.letters.end()) return;
  found->second.*entry.side = std::nullopt;
  if (!found->second.sent && !found->second.expected) box.letters.erase(found);
}

}  // namespace stridio
