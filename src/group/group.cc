// Variable-length collectives from the virtual ones: lengths first, then the bytes.
//
// allgatherv: one agreement on lengths, beside which short pieces go at once; then one more where
// every piece fits one, else an exchange. alltoallv: one agreement on all lengths up to kMatrixRanks ranks. Beyond, the matrix of
// lengths on every rank would outgrow the messages: one agreement on who sends to whom, a bit each,
// and an exchange of those lengths only; so a sparse pattern costs what its messages cost.
#include "group/group.h"

#include <algorithm>
#include <cassert>

#include "group/levels.h"
#include "group/segment.h"

namespace stridio {
namespace {

constexpr int kMatrixRanks = 64;
constexpr std::size_t kFirstBytes = 16384;  // of all ranks' pieces, that go beside their lengths

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

Span span_of(const Buffer& buffer) {
  return {const_cast<std::byte*>(buffer.data()), static_cast<Bytes>(buffer.size())};
}

// Every piece fits an agreement: pad to the longest and agree once.
Result<std::vector<Buffer>> allgather_padded(Group& group, std::span<const std::byte> mine,
                                             const std::vector<Bytes>& lengths, Bytes longest) {
  Buffer padded(mine.begin(), mine.end());
  padded.resize(static_cast<std::size_t>(longest));
  Buffer all(padded.size() * lengths.size());
  RETURN_IF_ERROR(group.allgather(padded, all));
  std::vector<Buffer> pieces(lengths.size());
  for (std::size_t r = 0; r < pieces.size(); ++r) {
    const auto* begin = all.data() + r * padded.size();
    pieces[r].assign(begin, begin + lengths[r]);
  }
  return pieces;
}

// The lengths of what every rank will send to this one, by rank, where all lengths fit an
// agreement.
Result<std::vector<Bytes>> lengths_by_matrix(Group& group, const std::vector<Bytes>& to_send) {
  const std::size_t ranks = to_send.size();
  std::vector<Bytes> matrix(ranks * ranks), to_receive;
  RETURN_IF_ERROR(group.allgather(std::as_bytes(std::span(to_send)), std::as_writable_bytes(std::span(matrix))));
  for (std::size_t r = 0; r < ranks; ++r) to_receive.push_back(matrix[r * ranks + index(group.rank())]);
  return to_receive;
}

// Row by row, bit by bit: does rank r send anything to rank t? In agreements of at most
// kAgreementBytes.
Result<std::vector<bool>> senders_to(Group& group, const std::vector<Bytes>& to_send) {
  const std::size_t ranks = to_send.size();
  Buffer bits((ranks + 7) / 8);
  for (std::size_t t = 0; t < ranks; ++t)
    if (to_send[t] > 0) bits[t / 8] |= std::byte{1} << (t % 8);
  const std::size_t mine = index(group.rank());
  std::vector<bool> sends(ranks);
  for (std::size_t at = 0; at < bits.size(); at += Group::kAgreementBytes) {
    const auto piece = std::span(bits).subspan(at, std::min<std::size_t>(Group::kAgreementBytes, bits.size() - at));
    Buffer all(piece.size() * ranks);
    RETURN_IF_ERROR(group.allgather(piece, all));
    if (mine / 8 < at || mine / 8 >= at + piece.size()) continue;
    for (std::size_t r = 0; r < ranks; ++r)
      sends[r] = (all[r * piece.size() + mine / 8 - at] >> (mine % 8) & std::byte{1}) != std::byte{0};
  }
  return sends;
}

Result<std::vector<Bytes>> lengths_by_message(Group& group, std::vector<Bytes> to_send) {
  ASSIGN_OR_RETURN(const std::vector<bool> sends_to_me, senders_to(group, to_send));
  std::vector<Bytes> to_receive(to_send.size());
  std::vector<Message> sends, receives;
  const auto length_of = [](int r, Bytes& length) {
    return Message{r, {reinterpret_cast<std::byte*>(&length), sizeof length}};
  };
  for (int r = 0; r < group.size(); ++r) {
    if (to_send[index(r)] > 0) sends.push_back(length_of(r, to_send[index(r)]));
    if (sends_to_me[index(r)]) receives.push_back(length_of(r, to_receive[index(r)]));
  }
  RETURN_IF_ERROR(group.exchange(sends, receives));
  return to_receive;
}

}  // namespace

Group::Group() = default;
Group::~Group() = default;

Result<std::shared_ptr<Segment>> Group::segment(Bytes, Bytes) { return nullptr; }
Result<std::shared_ptr<Segment>> Group::lasting_segment(Bytes, Bytes) { return nullptr; }
std::shared_ptr<Segment> Group::lasting_segment() { return nullptr; }

Status Group::await(Bell&, std::uint32_t, const std::function<std::vector<int>()>&) {
  return fail(Code::kUnsupportedOperation, "waiting in memory that is not shared");
}

Result<Levels*> Group::levels(bool share) {
  auto& levels = share ? shared_levels_ : solo_levels_;
  if (!levels) {
    ASSIGN_OR_RETURN(levels, make_levels(share));
  }
  return levels.get();
}

Result<std::vector<Buffer>> allgatherv(Group& group, std::span<const std::byte> mine) {
  // The first bytes go beside the lengths: as a rule they are all.
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t first = std::min<std::size_t>(Group::kAgreementBytes - sizeof(Bytes), kFirstBytes / ranks);
  const auto length = static_cast<Bytes>(mine.size());
  Buffer head(sizeof length + first), heads(head.size() * ranks);
  std::memcpy(head.data(), &length, sizeof length);
  std::copy_n(mine.begin(), std::min(first, mine.size()), head.begin() + sizeof length);
  RETURN_IF_ERROR(group.allgather(head, heads));
  std::vector<Bytes> lengths(ranks);
  for (std::size_t r = 0; r < ranks; ++r) std::memcpy(&lengths[r], heads.data() + r * head.size(), sizeof length);
  const Bytes longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<Buffer> pieces(ranks);
  if (longest <= static_cast<Bytes>(first)) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto* const begin = heads.data() + r * head.size() + sizeof length;
      pieces[r].assign(begin, begin + lengths[r]);
    }
    return pieces;
  }
  if (longest <= Group::kAgreementBytes) return allgather_padded(group, mine, lengths, longest);
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
  ASSIGN_OR_RETURN(const std::vector<Bytes> to_receive, group.size() <= kMatrixRanks
                                                            ? lengths_by_matrix(group, to_send)
                                                            : lengths_by_message(group, std::move(to_send)));
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
