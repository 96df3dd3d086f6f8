// A node's ranks hand their parcels to their leader; the leaders exchange what goes between their nodes, and hand out what
// came. On the way each parcel has a label before it. A leader that got none hands out that it has failed.
#include "group/parcels.h"

#include <algorithm>

#include "group/levels.h"

namespace stridio {
namespace {

struct Label {
  std::int32_t from, to;
  std::int64_t length;
};

// A label that a leader hands out instead of parcels, `from` whom, where it could not get any: `to` is the code.
constexpr std::int32_t kFailed = -1;

void append(Buffer& to, const Label& label, const std::byte* bytes) {
  const auto head = std::as_bytes(std::span(&label, 1));
  to.insert(to.end(), head.begin(), head.end());
  to.insert(to.end(), bytes, bytes + label.length);
}

template <typename Visit>
void each_parcel(std::span<const Buffer> all, Visit visit) {
  for (const Buffer& packed : all)
    for (std::size_t at = 0; at < packed.size();) {
      Label label;
      std::memcpy(&label, packed.data() + at, sizeof label);
      visit(label, packed.data() + at + sizeof label);
      at += sizeof label + static_cast<std::size_t>(label.length);
    }
}

std::vector<Buffer> buffers(int count) { return std::vector<Buffer>(static_cast<std::size_t>(count)); }

Result<std::vector<Buffer>> by_leaders(Levels& levels, int rank, std::span<const Parcel> parcels) {
  Group& node = levels.node();
  std::vector<Buffer> outgoing = buffers(node.size());
  for (const Parcel& parcel : parcels)
    append(outgoing.front(), {rank, parcel.peer, std::ssize(parcel.bytes)}, parcel.bytes.data());
  ASSIGN_OR_RETURN(const std::vector<Buffer> gathered, alltoallv(node, outgoing));
  outgoing = buffers(node.size());
  Status exchanged;
  if (Group* const leaders = levels.leaders()) {
    std::vector<Buffer> between = buffers(levels.count());
    each_parcel(gathered, [&](const Label& label, const std::byte* bytes) {
      append(between[static_cast<std::size_t>(levels.node_of(label.to))], label, bytes);
    });
    const auto arrived = alltoallv(*leaders, between);
    const std::vector<int>& members = levels.members(levels.own());
    if (arrived) {
      each_parcel(*arrived, [&](const Label& label, const std::byte* bytes) {
        const auto member = std::lower_bound(members.begin(), members.end(), label.to) - members.begin();
        append(outgoing[static_cast<std::size_t>(member)], label, bytes);
      });
    } else {
      exchanged = fail(arrived.error());
      for (Buffer& each : outgoing)
        append(each, {kFailed, static_cast<std::int32_t>(exchanged.error().code), 0}, nullptr);
    }
  }
  auto handed_out = alltoallv(node, outgoing);
  RETURN_IF_ERROR(exchanged);
  return handed_out;
}

}  // namespace

Result<std::vector<Parcel>> exchange_parcels(Group& group, std::vector<Parcel> parcels) {
  std::erase_if(parcels, [](const Parcel& parcel) { return parcel.bytes.empty(); });
  std::vector<Parcel> received;
  if (group.node_count() == 1) {
    std::vector<Buffer> outgoing = buffers(group.size());
    for (Parcel& parcel : parcels) outgoing[static_cast<std::size_t>(parcel.peer)] = std::move(parcel.bytes);
    ASSIGN_OR_RETURN(std::vector<Buffer> arrived, alltoallv(group, outgoing));
    for (int rank = 0; rank < group.size(); ++rank)
      if (Buffer& bytes = arrived[static_cast<std::size_t>(rank)]; !bytes.empty())
        received.push_back({rank, std::move(bytes)});
    return received;
  }
  ASSIGN_OR_RETURN(Levels* const levels, group.levels());
  ASSIGN_OR_RETURN(const std::vector<Buffer> arrived, by_leaders(*levels, group.rank(), parcels));
  Status told;
  each_parcel(arrived, [&](const Label& label, const std::byte* bytes) {
    if (label.from != kFailed) {
      received.push_back({label.from, Buffer(bytes, bytes + label.length)});
      return;
    }
    told = fail(Error{.code = static_cast<Code>(label.to),
                      .what = "a host MPI call failed on the rank that gets its node's messages",
                      .rank = levels->members(levels->own()).front()});
  });
  RETURN_IF_ERROR(told);
  std::sort(received.begin(), received.end(), [](const Parcel& a, const Parcel& b) { return a.peer < b.peer; });
  return received;
}

}  // namespace stridio
