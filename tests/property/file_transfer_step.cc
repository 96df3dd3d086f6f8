// Reads and writes through views, by all three pointers, alone and together.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "property/contents.h"
#include "property/file_step.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

// What one rank moves. `offsets` of the file and `places` in memory, byte by byte, in data order.
struct Part {
  Offset offset = 0;  // in etypes, for explicit offsets
  Bytes position = 0;
  Bytes length = 0;
  Pattern memory;
  std::vector<Offset> offsets;
  std::vector<Offset> places;
};

Part nothing_at(Bytes position) {
  Part part;
  part.position = position;
  return part;
}

// A byte that a rank wrote.
struct Claim {
  Offset offset;
  int rank;
  std::byte value;
};

class TransferStep final : public Step {
 public:
  explicit TransferStep(World& world);

  std::string text() const override;
  bool collective() const override { return collective_; }
  Result<Bytes> act(World& world, Group& group) override;
  std::optional<std::string> wrong(World& world) override;
  const Ownership& owners() const override { return owners_; }

 private:
  bool writes() const { return direction_ == Direction::kWrite; }
  bool by_turns() const { return pointer_ == Pointer::kShared && !collective_; }  // in an order that nobody knows
  void draw_kind(World& world);
  void draw_part(World& world, int rank, Bytes& shared);
  void forbid_overlaps();
  void note_owners(World& world);
  std::byte value(int rank, std::size_t index) const;
  UserMemory filled(const World& world, int rank) const;

  std::optional<std::string> wrong_counts(const World& world) const;
  std::optional<std::string> wrong_memory(const World& world, int rank) const;
  std::optional<std::string> wrong_image(World& world) const;
  std::optional<std::string> wrong_order(const std::vector<Claim>& claims, const Image& image) const;
  Bytes right_count(const World& world, const Part& part) const;
  std::vector<Claim> claims() const;
  bool fits_at(const World& world, const Image& image, int rank, Bytes position) const;
  bool place(World& world, const Image& image, Bytes position, unsigned placed);
  void move_pointers(World& world) const;

  Direction direction_ = Direction::kRead;
  Pointer pointer_ = Pointer::kExplicit;
  bool collective_ = false;
  bool binds_ = false;  // first, as nonblocking calls do
  int step_ = 0;
  Bytes region_ = 0;  // of the shared pointer
  std::vector<Part> parts_;
  Ownership owners_;
};

// ---- Drawing

TransferStep::TransferStep(World& world) : step_(world.step) {
  draw_kind(world);
  Bytes shared = world.shared_pointer;
  for (int rank = 0; rank < world.size(); ++rank) draw_part(world, rank, shared);
  region_ = shared - world.shared_pointer;
  if (writes()) forbid_overlaps();
  note_owners(world);
}

void TransferStep::draw_kind(World& world) {
  Random& random = world.random;
  const AccessMode& mode = world.setting.mode;
  const bool write = mode.writes() && (!mode.reads() || !one_in(random, 3));
  direction_ = write ? Direction::kWrite : Direction::kRead;
  collective_ = !one_in(random, 3);
  pointer_ = one_in(random, 2) ? Pointer::kExplicit : Pointer::kIndividual;
  if (world.same_view && (mode.sequential || one_in(random, 3))) pointer_ = Pointer::kShared;
  binds_ = one_in(random, 4) && !(collective_ && pointer_ == Pointer::kShared);
}

void TransferStep::draw_part(World& world, int rank, Bytes& shared) {
  Random& random = world.random;
  const RankSide& side = world.side(rank);
  const Bytes etype = side.view.etype();
  const Bytes capacity = side.view.capacity(world.setting.limit) / etype * etype;
  const bool allowed = !world.setting.mode.sequential || pointer_ == Pointer::kShared;
  Part part;
  part.length = etype * pick(random, 0, one_in(random, 4) ? 1500 : 150);
  if (one_in(random, 10) || !allowed) part.length = 0;
  part.length = std::min(part.length, capacity);
  part.offset = pick(random, 0, (capacity - part.length) / etype);
  if (pointer_ == Pointer::kExplicit) part.position = part.offset * etype;
  if (pointer_ == Pointer::kIndividual) part.position = side.pointer;
  if (pointer_ == Pointer::kShared) part.position = shared;
  part.length = std::max<Bytes>(0, std::min(part.length, capacity - part.position));
  if (pointer_ == Pointer::kShared) shared += part.length;
  part.memory = random_memory(random, part.length);
  part.offsets = side.view.offsets(part.position, part.length);
  part.places = flatten(part.memory);
  parts_.push_back(std::move(part));
}

// A rank's write must not overlap itself, as through tiles that interleave it may.
void TransferStep::forbid_overlaps() {
  const auto overlap = [](std::vector<Offset> offsets) {
    std::sort(offsets.begin(), offsets.end());
    return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
  };
  std::vector<Offset> all;
  bool forbidden = false;
  for (const Part& part : parts_) {
    forbidden = forbidden || overlap(part.offsets);
    all.insert(all.end(), part.offsets.begin(), part.offsets.end());
  }
  if (!forbidden && (kMayOverlap || !overlap(all))) return;
  for (Part& each : parts_) each = nothing_at(each.position);
  region_ = 0;
}

void TransferStep::note_owners(World& world) {
  Offset upper = 0;
  for (const Part& part : parts_)
    for (const Offset offset : part.offsets) upper = std::max(upper, offset + 1);
  owners_.reset(upper);
  const bool mixed = collective_ || by_turns();
  for (int rank = 0; rank < world.size(); ++rank)
    for (const Offset offset : parts_[static_cast<std::size_t>(rank)].offsets)
      owners_.add(rank, Pattern::run(offset, 1));
  for (int rank = 0; rank < world.size(); ++rank) {
    Watch& watch = world.side(rank).watch;
    const bool holes = world.may_modify_holes();
    watch.must_lock = world.setting.locks_writes();
    watch.yields = writes() && world.size() > 1;
    watch.may_write = [this, rank, mixed, holes](const Extent& range) {
      if (!writes()) return range.empty();
      if (holes) return range.offset >= 0 && range.end() <= owners_.upper();
      return owners_.covers(range, mixed ? kAnybody : set_of(rank));
    };
  }
}

std::string TransferStep::text() const {
  const char* pointers[] = {"explicit offsets", "individual pointers", "shared pointer"};
  std::string text = fmt::format("{}{} by {}:", writes() ? "write" : "read", collective_ ? "_all" : "",
                                 pointers[static_cast<int>(pointer_)]);
  for (const Part& part : parts_) text += fmt::format(" {}+{}", part.position, part.length);
  return text;
}

// ---- Acting

std::byte TransferStep::value(int rank, std::size_t index) const {
  return contents_of(rank)[(static_cast<Offset>(index) + 977 * step_) % kMostOffsets];
}

UserMemory TransferStep::filled(const World&, int rank) const {
  const Part& part = parts_[static_cast<std::size_t>(rank)];
  UserMemory memory = noise_for(part.memory);
  if (writes())
    for (std::size_t i = 0; i < part.places.size(); ++i) memory.base()[part.places[i]] = value(rank, i);
  return memory;
}

Result<Bytes> TransferStep::act(World& world, Group& group) {
  RankSide& side = world.side(group.rank());
  const Part& part = parts_[static_cast<std::size_t>(group.rank())];
  side.memory = filled(world, group.rank());
  if (world.setting.mode.sequential && pointer_ != Pointer::kShared) return 0;
  Access access{.direction = direction_,
                .pointer = pointer_,
                .collective = collective_,
                .offset = pointer_ == Pointer::kExplicit ? part.offset : 0,
                .memory = {side.memory.base(), part.memory}};
  if (binds_) {
    ASSIGN_OR_RETURN(access, side.file->bind(access));
  }
  return side.file->transfer(access);
}

// ---- Judging

// A read ends at the first byte past the end of the file.
Bytes TransferStep::right_count(const World& world, const Part& part) const {
  if (writes()) return part.length;
  const auto past_end = [&](Offset offset) { return offset >= static_cast<Offset>(world.image.size()); };
  return std::find_if(part.offsets.begin(), part.offsets.end(), past_end) - part.offsets.begin();
}

std::optional<std::string> TransferStep::wrong_counts(const World& world) const {
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    const Bytes right = right_count(world, parts_[rank]);
    if (*world.ranks[rank].result == right) continue;
    return fmt::format("rank {} moved {} bytes, right is {}", rank, *world.ranks[rank].result, right);
  }
  return std::nullopt;
}

std::optional<std::string> TransferStep::wrong_memory(const World& world, int rank) const {
  const Part& part = parts_[static_cast<std::size_t>(rank)];
  UserMemory right = filled(world, rank);
  if (!writes())
    for (Bytes i = 0; i < right_count(world, part); ++i)
      right.base()[part.places[static_cast<std::size_t>(i)]] =
          world.image[static_cast<std::size_t>(part.offsets[static_cast<std::size_t>(i)])];
  const Image& is = world.ranks[static_cast<std::size_t>(rank)].memory.bytes;
  for (std::size_t at = 0; at < is.size(); ++at)
    if (is[at] != right.bytes[at])
      return fmt::format("rank {} has {} at byte {} of its memory, right is {}", rank, static_cast<int>(is[at]),
                         static_cast<Offset>(at) - right.margin, static_cast<int>(right.bytes[at]));
  return std::nullopt;
}

std::vector<Claim> TransferStep::claims() const {
  std::vector<Claim> claims;
  for (std::size_t rank = 0; rank < parts_.size(); ++rank)
    for (std::size_t i = 0; i < parts_[rank].offsets.size(); ++i)
      claims.push_back({parts_[rank].offsets[i], static_cast<int>(rank), value(static_cast<int>(rank), i)});
  std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) { return a.offset < b.offset; });
  return claims;
}

std::optional<std::string> TransferStep::wrong_image(World& world) const {
  const Image image = world.contents();
  Image right = world.image;
  const std::vector<Claim> all = claims();
  if (!all.empty() && all.back().offset >= static_cast<Offset>(right.size()))
    right.resize(static_cast<std::size_t>(all.back().offset + 1));
  if (image.size() != right.size())
    return fmt::format("the file has {} bytes, right is {}", image.size(), right.size());
  for (const Claim& claim : all) {  // of several writers of a byte, the one that it is of
    const auto at = static_cast<std::size_t>(claim.offset);
    const bool first = &claim == all.data() || (&claim - 1)->offset != claim.offset;
    if (first || image[at] == claim.value) right[at] = claim.value;
  }
  for (std::size_t at = 0; at < image.size(); ++at)
    if (image[at] != right[at])
      return fmt::format("byte {} of the file is {}, right is {}", at, static_cast<int>(image[at]),
                         static_cast<int>(right[at]));
  if (world.atomic)
    if (auto wrong = wrong_order(all, image)) return wrong;
  world.image = image;
  return std::nullopt;
}

// In atomic mode the outcome is that of the writes one after the other: nobody comes after himself.
// later[a] are those that came after a, since one of a's bytes is theirs.
std::optional<std::string> TransferStep::wrong_order(const std::vector<Claim>& claims, const Image& image) const {
  unsigned later[kMostRanks] = {};
  for (std::size_t i = 0, end = 0; i < claims.size(); i = end) {
    unsigned winners = 0, all = 0;
    for (end = i; end < claims.size() && claims[end].offset == claims[i].offset; ++end) {
      all |= 1u << claims[end].rank;
      if (image[static_cast<std::size_t>(claims[i].offset)] == claims[end].value) winners |= 1u << claims[end].rank;
    }
    if ((winners & (winners - 1)) != 0) continue;  // two wrote the same value
    for (int rank = 0; rank < kMostRanks; ++rank)
      if ((all & ~winners & (1u << rank)) != 0) later[rank] |= winners;
  }
  for (int middle = 0; middle < kMostRanks; ++middle)
    for (unsigned& set : later)
      if ((set & (1u << middle)) != 0) set |= later[middle];
  for (int rank = 0; rank < kMostRanks; ++rank)
    if ((later[rank] & (1u << rank)) != 0)
      return fmt::format("atomic mode: rank {} wrote before and after another", rank);
  return std::nullopt;
}

// Whether what a rank did by the shared pointer can have been at `position`.
bool TransferStep::fits_at(const World& world, const Image& image, int rank, Bytes position) const {
  const auto index = static_cast<std::size_t>(rank);
  const Part& part = parts_[index];
  const std::vector<Offset> offsets = world.ranks[index].view.offsets(position, part.length);
  Part moved = part;
  moved.offsets = offsets;
  const Bytes count = right_count(world, moved);
  if (*world.ranks[index].result != count) return false;
  for (Bytes i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto offset = static_cast<std::size_t>(offsets[at]);
    const std::byte theirs =
        writes() ? value(rank, at)
                 : world.ranks[index]
                       .memory.bytes[static_cast<std::size_t>(part.places[at] + world.ranks[index].memory.margin)];
    if (offset >= image.size() || image[offset] != theirs) return false;
  }
  return true;
}

// Finds an order in which the ranks not yet placed can have taken the shared pointer from
// `position` on.
bool TransferStep::place(World& world, const Image& image, Bytes position, unsigned placed) {
  bool all = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)];
    if ((placed & (1u << rank)) != 0) continue;
    all = false;
    if (!fits_at(world, image, rank, position)) continue;
    if (!place(world, image, position + part.length, placed | 1u << rank)) continue;
    part.position = position;
    part.offsets = world.side(rank).view.offsets(position, part.length);
    return true;
  }
  return all;
}

void TransferStep::move_pointers(World& world) const {
  if (pointer_ == Pointer::kShared) world.shared_pointer += region_;
  if (pointer_ != Pointer::kIndividual) return;
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) world.ranks[rank].pointer += parts_[rank].length;
}

std::optional<std::string> TransferStep::wrong(World& world) {
  if (auto failed = any_failed(world)) return failed;
  if (by_turns() && !place(world, world.contents(), world.shared_pointer, 0))
    return "no order of the ranks explains what the shared pointer gave them";
  if (auto wrong = wrong_counts(world)) return wrong;
  for (int rank = 0; rank < world.size(); ++rank)
    if (auto wrong = wrong_memory(world, rank)) return wrong;
  if (writes())
    if (auto wrong = wrong_image(world)) return wrong;
  move_pointers(world);
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Step> draw_transfer(World& world) { return std::make_unique<TransferStep>(world); }

}  // namespace stridio::testing
