#include "programs/types.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace stridio::testing {
namespace {

std::vector<MPI_Aint> addresses(const Places& places) { return {places.begin(), places.end()}; }

// Copies of `element` at `places`, repeating every `extent` bytes.
MadeType composed(const MadeType& element, const Places& places, std::int64_t extent, const std::string& how) {
  MadeType made;
  MPI_Datatype copies = MPI_DATATYPE_NULL;
  const auto at = addresses(places);
  MPI_Type_create_hindexed_block(static_cast<int>(places.size()), 1, at.data(), element.datatype, &copies);
  MPI_Type_create_resized(copies, 0, extent, &made.datatype);
  MPI_Type_commit(&made.datatype);
  MPI_Type_free(&copies);
  for (const std::int64_t place : places)
    for (const std::int64_t byte : element.bytes) made.bytes.push_back(place + byte);
  made.how = how;
  return made;
}

View view_of(std::int64_t displacement, const Type& etype, MadeType filetype) {
  View view;
  view.displacement = displacement;
  view.etype = etype;
  view.etype_size = static_cast<std::int64_t>(etype->bytes.size());
  view.extent = extent_of(filetype.datatype);
  view.tile = filetype.bytes;
  view.filetype = owned(std::move(filetype));
  Places sorted = view.tile;
  std::sort(sorted.begin(), sorted.end());
  view.distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  view.in_order =
      view.distinct && sorted == view.tile && (view.tile.empty() || view.tile.back() - view.tile.front() < view.extent);
  return view;
}

Type random_etype(Random& random) {
  if (chance(random, 3)) return byte_view().etype;
  return owned(random_datatype(
      random, {.depth = static_cast<int>(pick(random, 0, 2)), .size = 48, .extent = 96, .for_views = true}));
}

// Nobody, or one rank, has each element of an array.
std::vector<View> shares(Random& random, int ranks, const Type& etype, std::int64_t displacement) {
  const std::int64_t pitch = extent_of(etype->datatype), elements = pick(random, ranks, 5 * ranks);
  std::vector<Places> at(static_cast<std::size_t>(ranks));
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto owner = static_cast<std::size_t>(pick(random, 0, ranks));
    if (owner < at.size()) at[owner].push_back(i * pitch);
  }
  std::vector<View> views;
  for (const Places& places : at) {
    const std::string how = "elements " + std::to_string(places.size()) + " of " + std::to_string(elements) +
                            (places.empty() ? "" : ", first " + std::to_string(places.front() / pitch));
    views.push_back(view_of(displacement, etype, composed(*etype, places, elements * pitch, how)));
  }
  return views;
}

// A distributed array: who has element k of a dimension is what MPI-4.1 section 5.1.4 says.
std::vector<View> distributed(Random& random, int ranks, const Type& etype, std::int64_t displacement) {
  const std::int64_t pitch = extent_of(etype->datatype);
  std::array<int, 2> grid = {0, 0}, sizes, kinds, arguments, blocks;
  MPI_Dims_create(ranks, 2, grid.data());
  std::string how = "darray";
  for (std::size_t d = 0; d < 2; ++d) {
    sizes[d] = static_cast<int>(pick(random, grid[d], 8));
    const bool cyclic = chance(random, 2);
    kinds[d] = cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
    arguments[d] = MPI_DISTRIBUTE_DFLT_DARG;
    blocks[d] = cyclic ? 1 : (sizes[d] + grid[d] - 1) / grid[d];
    if (cyclic && chance(random, 2)) arguments[d] = blocks[d] = static_cast<int>(pick(random, 1, 3));
    how += " " + std::to_string(sizes[d]) + (cyclic ? " cyclic " : " block ") + std::to_string(blocks[d]) + " over " +
           std::to_string(grid[d]);
  }
  const bool fortran = chance(random, 2);
  std::vector<View> views;
  for (int rank = 0; rank < ranks; ++rank) {
    MadeType made;
    MPI_Type_create_darray(ranks, rank, 2, sizes.data(), kinds.data(), arguments.data(), grid.data(),
                           fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, etype->datatype, &made.datatype);
    MPI_Type_commit(&made.datatype);
    made.how = how + (fortran ? " F" : " C") + " rank " + std::to_string(rank);
    const std::array<int, 2> mine = {rank / grid[1], rank % grid[1]};
    const std::size_t slow = fortran ? 1 : 0, fast = 1 - slow;
    for (int i = 0; i < sizes[slow]; ++i)
      for (int k = 0; k < sizes[fast]; ++k)
        if (i / blocks[slow] % grid[slow] == mine[slow] && k / blocks[fast] % grid[fast] == mine[fast])
          for (const std::int64_t byte : etype->bytes) made.bytes.push_back((i * sizes[fast] + k) * pitch + byte);
    views.push_back(view_of(displacement, etype, std::move(made)));
  }
  return views;
}

MadeType random_filetype(Random& random, const MadeType& etype) {
  return random_datatype(random, {.depth = 2, .size = 320, .extent = 1500, .for_views = true, .base = &etype});
}

MadeType resized(MadeType inner, std::int64_t extent) {
  MadeType made{MPI_DATATYPE_NULL, "resized " + std::to_string(extent) + "(" + inner.how + ")", inner.bytes};
  MPI_Type_create_resized(inner.datatype, 0, extent, &made.datatype);
  MPI_Type_commit(&made.datatype);
  MPI_Type_free(&inner.datatype);
  return made;
}

// A tile with a slot for each rank, and a random type in each.
std::vector<View> slots(Random& random, int ranks, const Type& etype, std::int64_t displacement) {
  std::vector<MadeType> inside;
  std::int64_t room = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    inside.push_back(random_filetype(random, *etype));
    room = std::max(room, inside.back().bytes.back() + 1 + pick(random, 0, 8));
  }
  const auto turn = pick(random, 0, ranks - 1);
  std::vector<View> views;
  for (int rank = 0; rank < ranks; ++rank) {
    MadeType& type = inside[static_cast<std::size_t>(rank)];
    const std::int64_t at = (rank + turn) % ranks * room;
    MadeType tile = composed(type, {at}, ranks * room, "slot " + std::to_string(at) + "(" + type.how + ")");
    MPI_Type_free(&type.datatype);
    views.push_back(view_of(displacement, etype, std::move(tile)));
  }
  return views;
}

View any_view(Random& random, const Type& etype, bool repeats) {
  const std::int64_t displacement = chance(random, 3) ? 0 : pick(random, 0, 300);
  const bool solid =
      etype->bytes.front() == 0 && etype->bytes.back() + 1 == static_cast<std::int64_t>(etype->bytes.size());
  if (repeats && solid && chance(random, 3)) {
    Places at = {0};
    while (chance(random, 2) || at.size() < 2)
      at.push_back(at.back() + (chance(random, 2) ? 0 : pick(random, 1, 3) * extent_of(etype->datatype)));
    const std::int64_t extent = at.back() + extent_of(etype->datatype);
    return view_of(displacement, etype, composed(*etype, at, extent, "repeated"));
  }
  MadeType filetype = random_filetype(random, *etype);
  const std::int64_t extent = extent_of(filetype.datatype);
  if (chance(random, 10)) filetype = resized(std::move(filetype), pick(random, 1, extent));  // its tiles interleave
  return view_of(displacement, etype, std::move(filetype));
}

std::string hex(int byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", byte);
  return text;
}

}  // namespace

std::string first_difference(const Bytes& got, const Bytes& wanted, const std::string& what) {
  const auto [here, there] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  if (here == got.end() && there == wanted.end()) return "";
  const auto at = std::to_string(here - got.begin());
  if (here == got.end() || there == wanted.end())
    return what + " has " + std::to_string(got.size()) + " bytes, not " + std::to_string(wanted.size());
  return what + ": byte " + at + " is " + hex(*here) + ", not " + hex(*there);
}

Type owned(MadeType made) {
  return {new MadeType(std::move(made)), [](const MadeType* type) {
            int integers, addresses, types, combiner;
            MPI_Type_get_envelope(type->datatype, &integers, &addresses, &types, &combiner);
            MPI_Datatype datatype = type->datatype;
            if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&datatype);
            delete type;
          }};
}

std::int64_t extent_of(MPI_Datatype type) {
  MPI_Count lb = 0, extent = 0;
  MPI_Type_get_extent_x(type, &lb, &extent);
  return extent;
}

Places View::places(std::int64_t position, std::int64_t length) const {
  Places result;
  const auto n = static_cast<std::int64_t>(tile.size());
  for (std::int64_t p = position; p < position + length; ++p)
    result.push_back(displacement + p / n * extent + tile[static_cast<std::size_t>(p % n)]);
  return result;
}

std::int64_t View::bytes_below(std::int64_t offset) const {
  std::int64_t below = 0;
  for (std::int64_t start = displacement; !tile.empty() && start + tile.front() < offset; start += extent)
    for (const std::int64_t byte : tile) below += start + byte < offset ? 1 : 0;
  return below;
}

std::string View::text() const {
  return "at " + std::to_string(displacement) + ", etype " + etype->how + " of " + std::to_string(etype_size) +
         " bytes, file type " + filetype->how + " of " + std::to_string(tile.size()) + " bytes, extent " +
         std::to_string(extent);
}

View byte_view() {
  View view;
  view.etype = view.filetype = owned({MPI_BYTE, "byte", {0}});
  return view;
}

View striped_view(Random& random) {
  const Type byte = byte_view().etype;
  const std::int64_t extent = pick(random, 2, 5);
  return view_of(pick(random, 0, 40), byte, composed(*byte, {0}, extent, "one byte of " + std::to_string(extent)));
}

std::vector<View> random_views(Random& random, int ranks, bool same, bool repeats) {
  const Type etype = random_etype(random);
  const std::int64_t displacement = chance(random, 2) ? 0 : pick(random, 0, 300);
  if (same) return std::vector<View>(static_cast<std::size_t>(ranks), any_view(random, etype, repeats));
  switch (pick(random, 0, 3)) {
    case 0: return shares(random, ranks, etype, displacement);
    case 1: return distributed(random, ranks, etype, displacement);
    case 2: return slots(random, ranks, etype, displacement);
    default:
      std::vector<View> views;
      for (int rank = 0; rank < ranks; ++rank) views.push_back(any_view(random, etype, repeats));
      return views;
  }
}

Memory::Memory(Random& random, const View& view, std::int64_t most, bool overlaps) {
  make(random, view, most, false);
  if (!overlaps) {
    Places sorted = places;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) make(random, view, most, true);
  }
  if (places.empty()) {
    bytes.resize(16);
    return;
  }
  const auto [lowest, highest] = std::minmax_element(places.begin(), places.end());
  origin = *lowest - 8;
  bytes.resize(static_cast<std::size_t>(*highest - *lowest + 17));
  for (std::int64_t& place : places) place -= origin;
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
}

void Memory::make(Random& random, const View& view, std::int64_t most, bool tame) {
  const bool of_bytes = view.etype->how == "byte";  // matches any type
  type = owned(random_datatype(random, {.depth = static_cast<int>(pick(random, 0, 2)),
                                        .size = 256,
                                        .extent = 2048,
                                        .for_views = tame,
                                        .base = of_bytes ? nullptr : view.etype.get()}));
  const auto fit = most / std::max<std::int64_t>(1, static_cast<std::int64_t>(type->bytes.size()));
  count = view.tile.empty() && !type->bytes.empty() ? 0 : pick(random, 0, std::min<std::int64_t>(fit, 20));
  const std::int64_t extent = extent_of(type->datatype);
  places.clear();
  for (std::int64_t i = 0; i < count; ++i)
    for (const std::int64_t byte : type->bytes) places.push_back(i * extent + byte);
}

Bytes Memory::data() const {
  Bytes data;
  for (const std::int64_t place : places) data.push_back(bytes[static_cast<std::size_t>(place)]);
  return data;
}

Type Memory::at_its_address() {
  MadeType made;
  const int length = static_cast<int>(count);
  MPI_Aint start = 0;
  MPI_Get_address(bytes.data(), &start);
  start -= origin;
  MPI_Type_create_hindexed(1, &length, &start, type->datatype, &made.datatype);
  MPI_Type_commit(&made.datatype);
  return owned(std::move(made));
}

std::string Memory::text() const {
  return std::to_string(count) + " x " + type->how + " = " + std::to_string(size()) + " bytes";
}

}  // namespace stridio::testing
