#include "mpi/random_datatype.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

namespace stridio::testing {
namespace {

struct Layout {
  MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
};

Layout layout_of(MPI_Datatype type) {
  Layout layout;
  MPI_Type_size_x(type, &layout.size);
  MPI_Type_get_extent_x(type, &layout.lb, &layout.extent);
  MPI_Type_get_true_extent_x(type, &layout.true_lb, &layout.true_extent);
  return layout;
}

std::string join(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const auto number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

void release(MPI_Datatype& type) {
  int integers, addresses, types, combiner;
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

// Copies of a child one extent apart, at displacements in bytes.
struct Blocks {
  std::vector<int> lengths;
  std::vector<std::int64_t> displacements;
  std::int64_t unit = 1;

  int count() const { return static_cast<int>(lengths.size()); }
  std::vector<int> narrow() const { return {displacements.begin(), displacements.end()}; }
  std::vector<MPI_Aint> addresses() const { return {displacements.begin(), displacements.end()}; }
  std::string text() const {
    std::string result;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      result += ' ';
      result += std::to_string(lengths[i]);
      result += '@';
      result += std::to_string(displacements[i]);
    }
    return result;
  }
  // Where the copies lie, in bytes.
  std::vector<std::int64_t> places(std::int64_t extent) const {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (int k = 0; k < lengths[i]; ++k) result.push_back(displacements[i] * unit + k * extent);
    return result;
  }
};

// One dimension of an array of elements: the indices that are taken, in order.
struct Dimension {
  std::int64_t size;
  std::vector<std::int64_t> taken;
};

// The elements of an array, the last dimension the fastest.
std::vector<std::int64_t> places_of(const std::vector<Dimension>& dimensions, std::int64_t extent) {
  std::vector<std::int64_t> places = {0};
  for (const Dimension& dimension : dimensions) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t place : places)
      for (const std::int64_t index : dimension.taken) finer.push_back(place * dimension.size + index);
    places = std::move(finer);
  }
  for (std::int64_t& place : places) place *= extent;
  return places;
}

// One random datatype: each member of kMakers wraps a random child by one constructor.
class Maker {
 public:
  Maker(std::mt19937_64& random, const TypeLimits& limits) : random_(random), limits_(limits) {}

  MadeType make(int depth) {
    if (depth == 0 || pick(0, 5) == 0) return leaf();
    using Make = MadeType (Maker::*)(int);
    static constexpr std::array<Make, 12> kMakers = {
        &Maker::dup,           &Maker::contiguous,     &Maker::vector,    &Maker::hvector,
        &Maker::indexed,       &Maker::hindexed,       &Maker::subarray,  &Maker::darray,
        &Maker::indexed_block, &Maker::hindexed_block, &Maker::structure, &Maker::resized};
    MadeType made = (this->*kMakers[static_cast<std::size_t>(pick(0, kMakers.size() - 1))])(depth);
    if (fits(made.datatype) && (!limits_.for_views || tiles_ascend(made))) return made;
    MPI_Type_free(&made.datatype);
    return leaf();
  }

 private:
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  int pick_int(std::int64_t low, std::int64_t high) { return static_cast<int>(pick(low, high)); }

  // Forwards, or now and then backwards. Never so short that neighbours overlap: hosts pack such types wrongly.
  std::int64_t away(std::int64_t distance) { return !limits_.for_views && pick(0, 3) == 0 ? -distance : distance; }

  bool fits(MPI_Datatype type) const {
    const Layout layout = layout_of(type);
    const auto small = [this](MPI_Count n) { return -limits_.extent <= n && n <= limits_.extent; };
    if (layout.size > limits_.size || !small(layout.lb) || !small(layout.extent) || !small(layout.true_lb) ||
        !small(layout.true_extent))
      return false;
    return !limits_.for_views || (layout.size > 0 && layout.lb >= 0 && layout.true_lb >= 0);
  }

  // Not so of a structure with a resized type in it: its bounds are that type's alone.
  static bool tiles_ascend(const MadeType& made) {
    return std::adjacent_find(made.bytes.begin(), made.bytes.end(), std::greater_equal<>()) == made.bytes.end() &&
           made.bytes.back() - made.bytes.front() < layout_of(made.datatype).extent;
  }

  // The new type, of the child's copies at `places`; the child's own reference is given back.
  MadeType wrap(MPI_Datatype datatype, MadeType child, const std::vector<std::int64_t>& places,
                const std::string& constructor) {
    MadeType made{datatype, constructor, {}};
    made.how += '(';
    made.how += child.how;
    made.how += ')';
    if (fits(datatype))
      for (const std::int64_t place : places)
        for (const std::int64_t byte : child.bytes) made.bytes.push_back(place + byte);
    release(child.datatype);
    return made;
  }

  MadeType leaf() {
    if (limits_.base == nullptr) return named();
    MadeType copy = *limits_.base;
    copy.how = "base";
    MPI_Type_dup(limits_.base->datatype, &copy.datatype);
    return copy;
  }

  // Without long double: hosts pack its ten bytes of value and leave its padding out.
  MadeType named() {
    struct Named {
      MPI_Datatype type;
      const char* name;
      int hole_at;  // the padding of a pair, in front of its index
    };
    static const Named kNamed[] = {{MPI_BYTE, "byte", 0},           {MPI_CHAR, "char", 0},
                                   {MPI_SHORT, "short", 0},         {MPI_INT, "int", 0},
                                   {MPI_LONG, "long", 0},           {MPI_FLOAT, "float", 0},
                                   {MPI_DOUBLE, "double", 0},       {MPI_LONG_LONG, "long_long", 0},
                                   {MPI_INT8_T, "int8", 0},         {MPI_UINT16_T, "uint16", 0},
                                   {MPI_SHORT_INT, "short_int", 2}, {MPI_DOUBLE_INT, "double_int", 0},
                                   {MPI_LONG_INT, "long_int", 0},   {MPI_2INT, "2int", 0},
                                   {MPI_FLOAT_INT, "float_int", 0}, {MPI_C_DOUBLE_COMPLEX, "double_complex", 0}};
    const Named& chosen = kNamed[pick(0, std::size(kNamed) - 1)];
    MadeType made{chosen.type, chosen.name, {}};
    const Layout layout = layout_of(chosen.type);
    for (std::int64_t i = 0; i < layout.size; ++i)
      made.bytes.push_back(chosen.hole_at > 0 && i >= chosen.hole_at ? i + layout.true_extent - layout.size : i);
    return made;
  }

  MadeType dup(int depth) {
    MadeType child = make(depth - 1);
    MPI_Datatype made;
    MPI_Type_dup(child.datatype, &made);
    return wrap(made, std::move(child), {0}, "dup");
  }

  MadeType contiguous(int depth) {
    MadeType child = make(depth - 1);
    const Blocks one{{pick_int(limits_.for_views ? 1 : 0, 5)}, {0}};
    MPI_Datatype made;
    MPI_Type_contiguous(one.lengths[0], child.datatype, &made);
    return wrap(made, std::move(child), one.places(layout_of(child.datatype).extent),
                "contiguous " + std::to_string(one.lengths[0]));
  }

  static Blocks regular(std::int64_t count, int length, std::int64_t stride, std::int64_t unit) {
    Blocks blocks{{}, {}, unit};
    for (std::int64_t i = 0; i < count; ++i) {
      blocks.lengths.push_back(length);
      blocks.displacements.push_back(i * stride);
    }
    return blocks;
  }

  MadeType vector(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const int count = pick_int(1, 6), length = pick_int(1, 4);
    const auto stride = away(length + pick(0, 3));
    MPI_Datatype made;
    MPI_Type_vector(count, length, static_cast<int>(stride), child.datatype, &made);
    return wrap(made, std::move(child), regular(count, length, stride, extent).places(extent),
                "vector " + join({count, length, stride}));
  }

  MadeType hvector(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const int count = pick_int(1, 6), length = pick_int(1, 4);
    const auto stride = away(length * extent + pick(0, 30));
    MPI_Datatype made;
    MPI_Type_create_hvector(count, length, stride, child.datatype, &made);
    return wrap(made, std::move(child), regular(count, length, stride, 1).places(extent),
                "hvector " + join({count, length, stride}));
  }

  // Random blocks in units of `unit` bytes of a child of `step` units.
  Blocks irregular(std::int64_t step, std::int64_t slack, std::int64_t unit, bool equal_lengths) {
    Blocks result{{}, {}, unit};
    const auto count = pick(1, 5);
    const int length = pick_int(1, 3);
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      result.lengths.push_back(equal_lengths ? length : pick_int(limits_.for_views ? 1 : 0, 3));
      result.displacements.push_back(limits_.for_views ? next + pick(0, slack) : pick(-slack, 4 * slack));
      next = result.displacements.back() + result.lengths.back() * step;
    }
    return result;
  }

  MadeType indexed(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const Blocks blocks = irregular(1, 4, extent, false);
    MPI_Datatype made;
    MPI_Type_indexed(blocks.count(), blocks.lengths.data(), blocks.narrow().data(), child.datatype, &made);
    return wrap(made, std::move(child), blocks.places(extent), "indexed" + blocks.text());
  }

  MadeType hindexed(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const Blocks blocks = irregular(extent, 40, 1, false);
    MPI_Datatype made;
    MPI_Type_create_hindexed(blocks.count(), blocks.lengths.data(), blocks.addresses().data(), child.datatype, &made);
    return wrap(made, std::move(child), blocks.places(extent), "hindexed" + blocks.text());
  }

  MadeType indexed_block(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const Blocks blocks = irregular(1, 4, extent, true);
    MPI_Datatype made;
    MPI_Type_create_indexed_block(blocks.count(), blocks.lengths[0], blocks.narrow().data(), child.datatype, &made);
    return wrap(made, std::move(child), blocks.places(extent), "indexed_block" + blocks.text());
  }

  MadeType hindexed_block(int depth) {
    MadeType child = make(depth - 1);
    const auto extent = layout_of(child.datatype).extent;
    const Blocks blocks = irregular(extent, 40, 1, true);
    MPI_Datatype made;
    MPI_Type_create_hindexed_block(blocks.count(), blocks.lengths[0], blocks.addresses().data(), child.datatype, &made);
    return wrap(made, std::move(child), blocks.places(extent), "hindexed_block" + blocks.text());
  }

  MadeType structure(int depth) {
    MadeType result;
    Blocks blocks;
    std::vector<MPI_Datatype> types;
    std::int64_t next = 0;
    result.how = "struct{";
    for (int i = pick_int(1, 3); i > 0; --i) {
      const MadeType child = make(depth - 1);
      const Layout layout = layout_of(child.datatype);
      const auto extent = layout.extent;
      const Blocks block{{pick_int(1, 3)}, {limits_.for_views ? next + pick(0, 20) : pick(-50, 200)}};
      next = block.displacements[0] +
             std::max(block.lengths[0] * extent, (block.lengths[0] - 1) * extent + layout.true_lb + layout.true_extent);
      for (const std::int64_t place : block.places(extent))
        for (const std::int64_t byte : child.bytes) result.bytes.push_back(place + byte);
      types.push_back(child.datatype);
      blocks.lengths.push_back(block.lengths[0]);
      blocks.displacements.push_back(block.displacements[0]);
      result.how += child.how;
      result.how += ' ';
    }
    result.how += blocks.text() + '}';
    MPI_Type_create_struct(blocks.count(), blocks.lengths.data(), blocks.addresses().data(), types.data(),
                           &result.datatype);
    for (MPI_Datatype& type : types) release(type);
    return result;
  }

  // C's order has the last dimension fastest, Fortran's the first.
  static std::vector<std::int64_t> array_places(std::vector<Dimension> dimensions, int order, std::int64_t extent) {
    if (order == MPI_ORDER_FORTRAN) std::reverse(dimensions.begin(), dimensions.end());
    return places_of(dimensions, extent);
  }

  int random_order() { return pick(0, 1) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN; }

  MadeType subarray(int depth) {
    MadeType child = make(depth - 1);
    std::vector<int> sizes, subsizes, starts;
    std::vector<Dimension> dimensions;
    std::string how = "subarray";
    for (int i = pick_int(1, 3); i > 0; --i) {
      sizes.push_back(pick_int(1, 6));
      subsizes.push_back(pick_int(1, sizes.back()));
      starts.push_back(pick_int(0, sizes.back() - subsizes.back()));
      dimensions.push_back({sizes.back(), {}});
      for (int k = 0; k < subsizes.back(); ++k) dimensions.back().taken.push_back(starts.back() + k);
      how += ' ' + join({sizes.back(), subsizes.back(), starts.back()});
    }
    const int order = random_order();
    how += order == MPI_ORDER_C ? " C" : " F";
    MPI_Datatype made;
    MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(), starts.data(), order,
                             child.datatype, &made);
    const auto places = array_places(dimensions, order, layout_of(child.datatype).extent);
    return wrap(made, std::move(child), places, how);
  }

  // One dimension of a distributed array: index k belongs to process (k / block) % processes.
  struct Distributed {
    int size, kind, argument, processes, block;
  };

  Distributed random_distribution() {
    Distributed d{pick_int(1, 9), MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG, 1, 9};
    const auto kind = pick(0, 2);
    if (kind == 2) return d;
    d.kind = kind == 0 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
    d.processes = pick_int(1, 3);
    d.block = kind == 0 ? (d.size + d.processes - 1) / d.processes : 1;
    if (pick(0, 1) == 0) d.argument = d.block = pick_int(d.block, d.block + 2);
    return d;
  }

  MadeType darray(int depth) {
    MadeType child = make(depth - 1);
    if (child.bytes.empty()) {  // Open MPI distributes no empty elements
      release(child.datatype);
      child = leaf();
    }
    std::vector<Distributed> all;
    std::vector<int> sizes, kinds, arguments, processes;
    int size = 1;
    std::string how = "darray";
    for (int i = pick_int(1, 3); i > 0; --i) {
      const Distributed d = random_distribution();
      all.push_back(d);
      sizes.push_back(d.size);
      kinds.push_back(d.kind);
      arguments.push_back(d.argument);
      processes.push_back(d.processes);
      size *= d.processes;
      how += ' ' + join({d.size, d.kind, d.argument, d.processes});
    }
    const int rank = pick_int(0, size - 1);
    const int order = random_order();
    how += (order == MPI_ORDER_C ? " C rank " : " F rank ") + std::to_string(rank);
    MPI_Datatype made;
    MPI_Type_create_darray(size, rank, static_cast<int>(all.size()), sizes.data(), kinds.data(), arguments.data(),
                           processes.data(), order, child.datatype, &made);
    const auto places = array_places(share_of(rank, all), order, layout_of(child.datatype).extent);
    return wrap(made, std::move(child), places, how);
  }

  // Ranks are in row-major order in the grid of processes, whatever the order of the array.
  static std::vector<Dimension> share_of(int rank, const std::vector<Distributed>& all) {
    std::vector<Dimension> dimensions(all.size());
    for (std::size_t i = all.size(); i-- > 0; rank /= all[i].processes) {
      dimensions[i].size = all[i].size;
      for (int k = 0; k < all[i].size; ++k)
        if (k / all[i].block % all[i].processes == rank % all[i].processes) dimensions[i].taken.push_back(k);
    }
    return dimensions;
  }

  MadeType resized(int depth) {
    MadeType child = make(depth - 1);
    const Layout layout = layout_of(child.datatype);
    const auto lb = limits_.for_views ? 0 : pick(-20, 20);
    const auto reach = limits_.for_views ? layout.true_lb + layout.true_extent : layout.true_extent;
    const auto extent = reach + pick(0, 20);  // never negative: hosts pack such types wrongly
    MPI_Datatype made;
    MPI_Type_create_resized(child.datatype, lb, extent, &made);
    return wrap(made, std::move(child), {0}, "resized " + join({lb, extent}));
  }

  std::mt19937_64& random_;
  TypeLimits limits_;
};

}  // namespace

MadeType random_datatype(std::mt19937_64& random, const TypeLimits& limits) {
  MadeType made = Maker(random, limits).make(limits.depth);
  const MadeType inner = made;
  MPI_Type_dup(inner.datatype, &made.datatype);  // a type of the caller's own, also where it is a named one
  MPI_Type_commit(&made.datatype);
  MPI_Datatype given_back = inner.datatype;
  release(given_back);
  return made;
}

}  // namespace stridio::testing
