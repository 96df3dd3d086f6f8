#include "mpiio/type_builder.h"

#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "mpiio/contents.h"
#include "mpiio/representation.h"

namespace stridio::mpiio {
namespace {

using Numbers = std::span<const std::int64_t>;

struct Bounds {
  Bytes size = 0;
  Bytes lb = 0;
  Bytes extent = 0;
  Bytes true_lb = 0;
  Bytes true_extent = 0;
};

Result<Bounds> bounds_of(MPI_Datatype datatype) {
  MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
  if (PMPI_Type_size_x(datatype, &size) != MPI_SUCCESS ||
      PMPI_Type_get_extent_x(datatype, &lb, &extent) != MPI_SUCCESS ||
      PMPI_Type_get_true_extent_x(datatype, &true_lb, &true_extent) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI does not know this datatype's size");
  return Bounds{size, lb, extent, true_lb, true_extent};
}

Result<Item> item_of(MPI_Datatype datatype, const Contents& contents, Bytes size) {
  const auto number = [&](std::size_t i) { return static_cast<int>(contents.numbers[i]); };
  Item item{.datatype = datatype, .size = size};
  switch (contents.combiner) {
    case Combiner::kF90Integer: item.external32 = format32_of_f90_integer(number(0), size); return item;
    case Combiner::kF90Real: item.external32 = format32_of_f90_real(number(0), number(1), size, 1); return item;
    case Combiner::kF90Complex: item.external32 = format32_of_f90_real(number(0), number(1), size, 2); return item;
    default:
      char name[MPI_MAX_OBJECT_NAME + 1] = {};
      int length = 0;
      if (PMPI_Type_get_name(datatype, name, &length) != MPI_SUCCESS)
        return fail(Code::kDatatype, "the host MPI does not name this predefined datatype");
      item.external32 = format32_of_name(name, size);
      return item;
  }
}

// A hole in a predefined type is the padding before a pair's index, an int, its last member.
Pattern predefined(const Bounds& bounds) {
  if (bounds.size == bounds.true_extent) return Pattern::run(bounds.true_lb, bounds.size);
  const Bytes index = sizeof(int);
  return Pattern::sequence({Pattern::run(bounds.true_lb, bounds.size - index),
                            Pattern::run(bounds.true_lb + bounds.true_extent - index, index)});
}

std::vector<Offset> scaled(Numbers numbers, Bytes factor) {
  std::vector<Offset> result(numbers.begin(), numbers.end());
  for (Offset& number : result) number *= factor;
  return result;
}

std::vector<std::int64_t> copied(Numbers numbers) { return {numbers.begin(), numbers.end()}; }

Pattern vector(std::int64_t count, std::int64_t length, Bytes stride, const Type& child) {
  return Pattern::strided(count, stride, Pattern::strided(length, child.extent, child.pattern));
}

// count, lengths, displacements in units of `unit` bytes.
Pattern indexed(Numbers numbers, Bytes unit, const Type& child) {
  const auto count = static_cast<std::size_t>(numbers[0]);
  return Pattern::indexed(scaled(numbers.subspan(1 + count, count), unit), copied(numbers.subspan(1, count)),
                          child.extent, child.pattern);
}

// count, length, displacements.
Pattern indexed_block(Numbers numbers, Bytes unit, const Type& child) {
  const auto count = static_cast<std::size_t>(numbers[0]);
  return Pattern::indexed(scaled(numbers.subspan(2, count), unit), {}, 0,
                          Pattern::strided(numbers[1], child.extent, child.pattern));
}

// count, lengths, displacements; a type each.
Pattern structure(Numbers numbers, std::span<const Type> children) {
  const auto count = static_cast<std::size_t>(numbers[0]);
  std::vector<Pattern> parts;
  parts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Type& child = children[i];
    parts.push_back(Pattern::strided(numbers[1 + i], child.extent, child.pattern).shifted(numbers[1 + count + i]));
  }
  return Pattern::sequence(std::move(parts));
}

// The dimensions from the fastest to the slowest: C's last is the fastest, Fortran's first.
std::vector<std::size_t> dimensions(std::int64_t count, std::int64_t order) {
  std::vector<std::size_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<std::size_t>(order == MPI_ORDER_C ? count - 1 - i : i));
  return result;
}

// ndims, sizes, subsizes, starts, order.
Pattern subarray(Numbers numbers, const Type& child) {
  const auto n = static_cast<std::size_t>(numbers[0]);
  const Numbers sizes = numbers.subspan(1, n);
  const Numbers subsizes = numbers.subspan(1 + n, n);
  const Numbers starts = numbers.subspan(1 + 2 * n, n);
  Pattern pattern = child.pattern;
  Bytes step = child.extent;
  for (const std::size_t i : dimensions(numbers[0], numbers[1 + 3 * n])) {
    pattern = Pattern::strided(subsizes[i], step, pattern).shifted(starts[i] * step);
    step *= sizes[i];
  }
  return pattern;
}

struct Distribution {
  std::int64_t size;       // of the global array in this dimension
  std::int64_t block;      // indices in a block
  std::int64_t processes;  // that take blocks in turn
  std::int64_t coordinate;
};

// One dimension of a distributed array: the blocks `coordinate`, `coordinate` + `processes`, ...
Pattern distributed(const Distribution& d, Bytes step, const Pattern& child) {
  const std::int64_t first = d.block * d.coordinate;
  const std::int64_t cycle = d.block * d.processes;
  if (first >= d.size) return {};
  const std::int64_t whole = (d.size - first) / cycle + ((d.size - first) % cycle >= d.block ? 1 : 0);
  const std::int64_t rest_at = first + whole * cycle;
  const Pattern blocks =
      Pattern::strided(whole, cycle * step, Pattern::strided(d.block, step, child)).shifted(first * step);
  if (rest_at >= d.size) return blocks;
  return Pattern::sequence({blocks, Pattern::strided(d.size - rest_at, step, child).shifted(rest_at * step)});
}

std::int64_t block_of(std::int64_t kind, std::int64_t argument, std::int64_t size, std::int64_t processes) {
  if (kind == MPI_DISTRIBUTE_NONE) return std::max<std::int64_t>(size, 1);
  if (argument != MPI_DISTRIBUTE_DFLT_DARG) return argument;
  return kind == MPI_DISTRIBUTE_BLOCK ? std::max<std::int64_t>((size + processes - 1) / processes, 1) : 1;
}

// size, rank, ndims, gsizes, distribs, dargs, psizes, order. Ranks are row-major in the process grid, always.
Pattern darray(Numbers numbers, const Type& child) {
  const auto n = static_cast<std::size_t>(numbers[2]);
  const Numbers sizes = numbers.subspan(3, n);
  const Numbers kinds = numbers.subspan(3 + n, n);
  const Numbers arguments = numbers.subspan(3 + 2 * n, n);
  const Numbers processes = numbers.subspan(3 + 3 * n, n);
  std::vector<std::int64_t> coordinates(n);
  std::int64_t rank = numbers[1];
  for (std::size_t i = n; i-- > 0; rank /= processes[i]) coordinates[i] = rank % processes[i];
  Pattern pattern = child.pattern;
  Bytes step = child.extent;
  for (const std::size_t i : dimensions(numbers[2], numbers[3 + 4 * n])) {
    const Distribution distribution{
        .size = sizes[i],
        .block = block_of(kinds[i], arguments[i], sizes[i], processes[i]),
        .processes = processes[i],
        .coordinate = coordinates[i],
    };
    pattern = distributed(distribution, step, pattern);
    step *= sizes[i];
  }
  return pattern;
}

// A value and its index, laid out as a C structure.
Pattern value_index(const Type& value, const Type& index) {
  const Bytes alignment = std::max<Bytes>(index.extent, 1);
  const Offset at = (value.extent + alignment - 1) / alignment * alignment;
  return Pattern::sequence({value.pattern, index.pattern.shifted(at)});
}

Pattern pattern_of(const Contents& contents, std::span<const Type> children) {
  const Numbers n = contents.numbers;
  switch (contents.combiner) {
    case Combiner::kDup:
    case Combiner::kResized: return children[0].pattern;
    case Combiner::kContiguous: return Pattern::strided(n[0], children[0].extent, children[0].pattern);
    case Combiner::kVector: return vector(n[0], n[1], n[2] * children[0].extent, children[0]);
    case Combiner::kHvector: return vector(n[0], n[1], n[2], children[0]);
    case Combiner::kIndexed: return indexed(n, children[0].extent, children[0]);
    case Combiner::kHindexed: return indexed(n, 1, children[0]);
    case Combiner::kIndexedBlock: return indexed_block(n, children[0].extent, children[0]);
    case Combiner::kHindexedBlock: return indexed_block(n, 1, children[0]);
    case Combiner::kStruct: return structure(n, children);
    case Combiner::kSubarray: return subarray(n, children[0]);
    case Combiner::kDarray: return darray(n, children[0]);
    case Combiner::kValueIndex: return value_index(children[0], children[1]);
    default: return {};
  }
}

std::int64_t total(Numbers numbers) { return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}); }
std::int64_t product(Numbers numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

Signature signature_of(const Contents& contents, std::span<const Type> children, Bytes size) {
  const Numbers n = contents.numbers;
  switch (contents.combiner) {
    case Combiner::kContiguous: return Signature::repeated(n[0], children[0].signature);
    case Combiner::kVector:
    case Combiner::kHvector: return Signature::repeated(n[0] * n[1], children[0].signature);
    case Combiner::kIndexed:
    case Combiner::kHindexed:
      return Signature::repeated(total(n.subspan(1, static_cast<std::size_t>(n[0]))), children[0].signature);
    case Combiner::kIndexedBlock:
    case Combiner::kHindexedBlock: return Signature::repeated(n[0] * n[1], children[0].signature);
    case Combiner::kStruct: {
      std::vector<Signature> parts;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n[0]); ++i)
        parts.push_back(Signature::repeated(n[1 + i], children[i].signature));
      return Signature::sequence(parts);
    }
    case Combiner::kValueIndex: return Signature::sequence({children[0].signature, children[1].signature});
    case Combiner::kSubarray: {
      const auto dimensions = static_cast<std::size_t>(n[0]);
      return Signature::repeated(product(n.subspan(1 + dimensions, dimensions)), children[0].signature);
    }
    case Combiner::kDarray:
      return Signature::repeated(children[0].size() > 0 ? size / children[0].size() : 0, children[0].signature);
    default: return children[0].signature;
  }
}

// Where a type made of these starts and how far its copies are apart, by the rules of the constructors alone.
Extent outline_of(const Contents& contents, std::span<const Type> children) {
  const Numbers n = contents.numbers;
  switch (contents.combiner) {
    case Combiner::kDup: return {children[0].lb, children[0].extent};
    case Combiner::kResized: return {n[0], n[1]};
    case Combiner::kSubarray: return {0, product(n.subspan(1, static_cast<std::size_t>(n[0]))) * children[0].extent};
    case Combiner::kDarray: return {0, product(n.subspan(3, static_cast<std::size_t>(n[2]))) * children[0].extent};
    default:
      std::vector<Type> outlines(children.begin(), children.end());
      for (Type& outline : outlines) outline.pattern = Pattern::run(outline.lb, std::max<Bytes>(outline.extent, 0));
      return pattern_of(contents, outlines).bounds();
  }
}

// Not the true bounds: hosts differ in whether empty parts count.
Status check(const Type& type, const Bounds& bounds) {
  if (type.size() == bounds.size) return {};
  return fail(Code::kDatatype,
              "the host MPI's description of this datatype contradicts itself: " + std::to_string(type.size()) +
                  " bytes by its contents, " + std::to_string(bounds.size) + " by its size");
}

}  // namespace

Result<Type> build_type(MPI_Datatype datatype, const Representation* representation) {
  ASSIGN_OR_RETURN(const Bounds bounds, bounds_of(datatype));
  ASSIGN_OR_RETURN(const Contents contents, Contents::of(datatype));
  if (is_predefined(contents.combiner)) {
    ASSIGN_OR_RETURN(const Item item, item_of(datatype, contents, bounds.size));
    Type type{.pattern = predefined(bounds),
              .signature = Signature(item),
              .lb = bounds.lb,
              .extent = bounds.extent,
              .predefined = true};
    if (representation == nullptr) return type;
    ASSIGN_OR_RETURN(type.extent, representation->file_extent(item));
    type.lb = 0;
    type.pattern = Pattern::run(0, type.extent);
    return type;
  }
  std::vector<Type> children;
  for (std::size_t i = 0; i < contents.types.size(); ++i) {
    const MPI_Datatype inner = contents.types[i];
    if (i > 0 && inner == contents.types[i - 1]) {
      children.push_back(children.back());
      continue;
    }
    ASSIGN_OR_RETURN(Type child, build_type(inner, representation));
    children.push_back(std::move(child));
  }
  Type type{.pattern = pattern_of(contents, children),
            .signature = representation == nullptr ? signature_of(contents, children, bounds.size) : Signature(),
            .lb = bounds.lb,
            .extent = bounds.extent};
  if (representation == nullptr) {
    RETURN_IF_ERROR(check(type, bounds));
    return type;
  }
  const Extent outline = outline_of(contents, children);
  type.lb = outline.offset;
  type.extent = outline.length;
  return type;
}

}  // namespace stridio::mpiio
