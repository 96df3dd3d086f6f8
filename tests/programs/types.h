// Views and memory of the ranks, random, each with its map of bytes.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mpi/random_datatype.h"

namespace stridio::testing {

using Bytes = std::vector<unsigned char>;
using Places = std::vector<std::int64_t>;  // bytes of a file or of memory, in data order
using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool chance(Random& random, int one_in) { return pick(random, 1, one_in) == 1; }

// What a failure says about two arrays of bytes; empty if they are the same.
std::string first_difference(const Bytes& got, const Bytes& wanted, const std::string& what);

// A random datatype that frees itself.
using Type = std::shared_ptr<const MadeType>;
Type owned(MadeType made);
std::int64_t extent_of(MPI_Datatype type);

struct View {
  std::int64_t displacement = 0;
  Type etype, filetype;
  Places tile = {0};
  std::int64_t etype_size = 1, extent = 1;
  bool in_order = true;  // its places ascend, over all tiles
  bool distinct = true;  // no place twice within a tile

  Places places(std::int64_t position, std::int64_t length) const;  // in bytes of the view's data
  std::int64_t bytes_below(std::int64_t offset) const;              // for views in order
  std::string text() const;
};

// What a file has before any view is set.
View byte_view();
// One byte of a few: what goes through it takes many requests.
View striped_view(Random& random);
// One view for each rank, of one etype: shares of an array, slots of a tile, or any, overlapping; all the same if told.
// `repeats`: places may come twice, for files that are only read.
std::vector<View> random_views(Random& random, int ranks, bool same, bool repeats);

// Memory for `count` elements of a random type of whole etypes, in any order; overlapping only to write from.
struct Memory {
  Type type;
  std::int64_t count = 0;
  Bytes bytes;              // with a margin on both sides that must stay as it is
  Places places;            // into bytes
  std::int64_t origin = 0;  // the displacement of bytes[0]

  Memory(Random& random, const View& view, std::int64_t most, bool overlaps);
  void* address() { return bytes.data() - origin; }
  std::int64_t size() const { return static_cast<std::int64_t>(places.size()); }
  Bytes data() const;
  Type at_its_address();  // all elements as one, from MPI_BOTTOM
  std::string text() const;

 private:
  void make(Random& random, const View& view, std::int64_t most, bool tame);
};

}  // namespace stridio::testing
