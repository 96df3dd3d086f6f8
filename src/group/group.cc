// Variable-length collectives from the virtual ones: lengths first, then the bytes.
//
// Cost: allgatherv is two agreements where every piece fits one, else one agreement and an exchange;
// alltoallv is one agreement of size() lengths a rank (one exchange of lengths beyond kMatrixRanks ranks,
// where the matrix of all lengths on every rank would outgrow the messages) and one exchange.
#include "group/group.h"

#include <algorithm>
#include <cassert>

namespace stridio {
namespace {

constexpr int kMatrixRanks = 64;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

Span span_of(const Buffer& buffer) {
  return {const_cast<std::byte*>(buffer.data()), static_cast<Bytes>(buffer.size())};
}

// Every piece fits an agreement: pad to the longest and agree once.
Result<std::vector<Buffer>> allgather_padded(Group& group, std::span<const std::byte> mine,
                                             const std::vector<Bytes>& lengths, Bytes longest) {
  Buffer padded(mine.begin(), mine.end());
  padded.resize(index(static_cast<int>(longest)));
  Buffer all(padded.size() * lengths.size());
  RETURN_IF_ERROR(group.allgather(padded, all));
  std::vector<Buffer> pieces(lengths.size());
  for (std::size_t r = 0; r < pieces.size(); ++r) {
    const auto* begin = all.data() + r * padded.size();
    pieces[r].assign(begin, begin + lengths[r]);
  }
  return pieces;
}

// The bytes that every rank will send to this one, by rank.
Result<std::vector<Bytes>> receive_lengths(Group& group, std::vector<Bytes> to_send) {
  const std::size_t ranks = to_send.size();
  std::vector<Bytes> to_receive(ranks);
  if (group.size() <= kMatrixRanks) {
    std::vector<Bytes> matrix(ranks * ranks);
    RETURN_IF_ERROR(group.allgather(std::as_bytes(std::span(to_send)),
                                    std::as_writable_bytes(std::span(matrix))));
    for (std::size_t r = 0; r < ranks; ++r)
      to_receive[r] = matrix[r * ranks + index(group.rank())];
    return to_receive;
  }
  std::vector<Message> sends, receives;
  for (int r = 0; r < group.size(); ++r) {
    sends.push_back({r, {reinterpret_cast<std::byte*>(&to_send[index(r)]), sizeof(Bytes)}});
    receives.push_back({r, {reinterpret_cast<std::byte*>(&to_receive[index(r)]), sizeof(Bytes)}});
  }
  RETURN_IF_ERROR(group.exchange(sends, receives));
  return to_receive;
}

}  // namespace

Result<std::vector<Buffer>> allgatherv(Group& group, std::span<const std::byte> mine) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> lengths,
                   allgather(group, static_cast<Bytes>(mine.size())));
  const Bytes longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest <= Group::kAgreementBytes) return allgather_padded(group, mine, lengths, longest);
  std::vector<Buffer> pieces(lengths.size());
  std::vector<Message> sends, receives;
  for (int r = 0; r < group.size(); ++r) {
    pieces[index(r)].resize(static_cast<std::size_t>(lengths[index(r)]));
    if (r == group.rank()) continue;
    sends.push_back({r, {const_cast<std::byte*>(mine.data()), static_cast<Bytes>(mine.size())}});
    receives.push_back({r, span_of(pieces[index(r)])});
  }
  std::copy(mine.begin(), mine.end(), pieces[index(group.rank())].begin());
  RETURN_IF_ERROR(group.exchange(sends, receives));
  return pieces;
}

Result<std::vector<Buffer>> alltoallv(Group& group, std::span<const Buffer> sends) {
  assert(sends.size() == index(group.size()));
  std::vector<Bytes> to_send(sends.size());
  std::transform(sends.begin(), sends.end(), to_send.begin(),
                 [](const Buffer& buffer) { return static_cast<Bytes>(buffer.size()); });
  ASSIGN_OR_RETURN(const std::vector<Bytes> to_receive, receive_lengths(group, std::move(to_send)));
  std::vector<Buffer> pieces(sends.size());
  std::vector<Message> outgoing, incoming;
  for (int r = 0; r < group.size(); ++r) {
    pieces[index(r)].resize(static_cast<std::size_t>(to_receive[index(r)]));
    if (r == group.rank()) continue;
    if (!sends[index(r)].empty()) outgoing.push_back({r, span_of(sends[index(r)])});
    if (!pieces[index(r)].empty()) incoming.push_back({r, span_of(pieces[index(r)])});
  }
  pieces[index(group.rank())] = sends[index(group.rank())];
  RETURN_IF_ERROR(group.exchange(outgoing, incoming));
  return pieces;
}

}  // namespace stridio
