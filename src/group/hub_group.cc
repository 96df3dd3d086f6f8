// Agreements: one counter and two buffers under one mutex. The last rank to arrive completes the
// generation. A rank reads the buffer of generation g after leaving the mutex; it is next written
// in generation g + 2, which no rank enters before all have arrived in g + 1, hence have finished
// reading g. One wait suffices.
//
// Exchange, per call and rank:
//  1. Post every message (a pointer to it) in its receiver's mailbox. Nothing waits here, so that
//  whatever
//     the pattern, all messages of a call come to stand in their mailboxes: no deadlock.
//  2. For each expected message: wait for it in the own mailbox, take it out, copy without any
//  lock, then
//     tell the sender's mailbox. Between taking and telling, the sender's buffer is pinned by
//     step 3.
//  3. Wait until all own messages were told. Hence at most one message stands between two ranks at
//  a time. On failure a rank takes back what nobody has taken yet, then does step 3: its buffers
//  are its own again.
//
// A wait for a rank that has left fails the whole group: its error is set once, and every waiter
// woken. What is complete is answered before failure is looked at, so that an agreement completes
// on all ranks or none.
//
// Cost: a copy a message, O(1) locks a message; an agreement wakes all ranks once.
#include "group/hub_group.h"

#include <algorithm>

namespace stridio {

class HubGroup final : public Group {
 public:
  HubGroup(Hub& hub, int rank) : hub_(hub), rank_(rank) {}
  ~HubGroup() override { hub_.leave(rank_); }
  HubGroup(const HubGroup&) = delete;
  HubGroup& operator=(const HubGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_.mailboxes_.size()); }
  int node_of(int rank) const override {
    return hub_.ranks_per_node_ > 0 ? rank / hub_.ranks_per_node_ : 0;
  }
  int node_count() const override { return node_of(size() - 1) + 1; }

  Status allgather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  Status exchange(std::span<const Message> sends, std::span<const Message> receives) override;
  Status barrier() override { return allgather({}, {}); }
  Result<SharedMemory> shared(Bytes) override { return SharedMemory{}; }

 private:
  Hub::Mailbox& mailbox(int rank) { return hub_.mailboxes_[static_cast<std::size_t>(rank)]; }
  Status arrive(std::span<const std::byte> mine);
  Status await_generation(std::uint64_t generation, std::unique_lock<std::mutex>& lock);
  Status post(std::span<const Message> sends);
  Status receive(const Message& message);
  Result<Span> take(int sender);
  Status await_consumption();
  void withdraw();

  Hub& hub_;
  const int rank_;
};

Hub::Hub(int ranks, int ranks_per_node)
    : ranks_per_node_(ranks_per_node), mailboxes_(static_cast<std::size_t>(ranks)) {}

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
  if (static_cast<Bytes>(mine.size()) > kAgreementBytes ||
      all.size() != mine.size() * static_cast<std::size_t>(size()))
    return fail(Code::kArgument,
                "an agreement takes at most 4096 bytes a rank, and room for all ranks'");
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
  agreement.completed.wait(lock, [&] {
    return agreement.generation == generation || agreement.failure || agreement.left;
  });
  if (agreement.generation == generation) return {};
  if (agreement.failure) return fail(*agreement.failure);
  const int culprit = *agreement.left;
  lock.unlock();
  return fail(hub_.fail_naming(culprit, "a rank left the group while others wait for it"));
}

Status HubGroup::exchange(std::span<const Message> sends, std::span<const Message> receives) {
  if (hub_.failed_) return fail(hub_.failure());
  Status status = post(sends);
  for (const Message& message : receives) {
    if (!status) break;
    if (message.bytes.length > 0) status = receive(message);
  }
  if (status) status = await_consumption();
  if (!status) withdraw();
  return status;
}

Status HubGroup::post(std::span<const Message> sends) {
  for (const Message& message : sends) {
    if (message.bytes.length == 0) continue;
    std::unique_lock own(mailbox(rank_).mutex);
    const bool first = mailbox(rank_).unconsumed.insert(message.peer).second;
    own.unlock();
    if (!first)
      return fail(hub_.fail_naming(rank_, "two messages from one rank to another in one exchange"));
    auto& to = mailbox(message.peer);
    std::lock_guard lock(to.mutex);
    to.posted.emplace(rank_, message.bytes);
    to.changed.notify_all();
  }
  return {};
}

Status HubGroup::receive(const Message& message) {
  ASSIGN_OR_RETURN(const Span sent, take(message.peer));
  const bool agree = sent.length == message.bytes.length;
  if (agree) std::copy_n(sent.data, sent.length, message.bytes.data);
  {
    auto& from = mailbox(message.peer);
    std::lock_guard lock(from.mutex);
    from.unconsumed.erase(rank_);
    from.changed.notify_all();
  }
  if (agree) return {};
  return fail(hub_.fail_naming(message.peer, "rank " + std::to_string(rank_) + " expects " +
                                                 std::to_string(message.bytes.length) +
                                                 " bytes and is sent " +
                                                 std::to_string(sent.length)));
}

// The message of `sender`, out of the mailbox: it must be told when it has been copied.
Result<Span> HubGroup::take(int sender) {
  auto& own = mailbox(rank_);
  std::unique_lock lock(own.mutex);
  own.changed.wait(
      lock, [&] { return own.posted.contains(sender) || hub_.failed_ || mailbox(sender).left; });
  if (const auto found = own.posted.find(sender); found != own.posted.end()) {
    const Span sent = found->second;
    own.posted.erase(found);
    return sent;
  }
  lock.unlock();
  if (hub_.failed_) return fail(hub_.failure());
  return fail(hub_.fail_naming(sender, "a rank left the group without sending what is expected"));
}

Status HubGroup::await_consumption() {
  auto& own = mailbox(rank_);
  std::unique_lock lock(own.mutex);
  auto culprit = own.unconsumed.end();
  own.changed.wait(lock, [&] {
    culprit = own.unconsumed.end();
    if (hub_.some_left_)
      culprit = std::find_if(own.unconsumed.begin(), own.unconsumed.end(),
                             [&](int receiver) { return mailbox(receiver).left.load(); });
    return own.unconsumed.empty() || hub_.failed_ || culprit != own.unconsumed.end();
  });
  if (own.unconsumed.empty()) return {};
  const int gone = culprit == own.unconsumed.end() ? -1 : *culprit;
  lock.unlock();
  if (gone < 0) return fail(hub_.failure());
  return fail(hub_.fail_naming(gone, "a rank left the group without receiving its message"));
}

void HubGroup::withdraw() {
  auto& own = mailbox(rank_);
  std::unique_lock lock(own.mutex);
  const std::vector<int> receivers(own.unconsumed.begin(), own.unconsumed.end());
  for (int receiver : receivers) {
    lock.unlock();
    std::unique_lock theirs(mailbox(receiver).mutex);
    const bool taken_back = mailbox(receiver).posted.erase(rank_) > 0;
    theirs.unlock();
    lock.lock();
    if (taken_back) own.unconsumed.erase(receiver);
  }
  own.changed.wait(lock, [&] { return own.unconsumed.empty(); });
}

}  // namespace stridio
