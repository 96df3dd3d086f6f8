// Both sides are taken nest by nest: cut to the same size, and until their levels divide each other, the two loop nests are one,
// of pieces that are equal on both sides. Its loops need not run in data order. Where one side is contiguous along one level
// and the other along another (a transposition: FLASH's variables in memory and in the file), these two become the inner loops,
// in tiles of a cache line each way, so that every line is used whole while it is in the first cache; and the loop of the
// farther steps goes on to its next tile last of all loops, so that few places far apart are read or written at a time. Pieces
// of 4 and 8 bytes change places within registers, several at once; then more places may be far apart, and what comes next can be
// fetched whole.
#include "pattern/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/copy_bytes.h"

namespace stridio {
namespace {

constexpr Bytes kCacheLine = 64;
constexpr std::int64_t kFarPlaces = 64;  // at a time, where whole lines go through registers

// One loop over pieces: the addresses' steps on both sides, or tables of places.
struct Loop {
  std::int64_t count = 1;
  Bytes to = 0, from = 0;
  const Offset* to_table = nullptr;
  const Offset* from_table = nullptr;

  bool strided() const { return !to_table && !from_table; }
};

// The joint nest: pieces of `length` bytes, loops from the inner to the outer one.
struct Joint {
  static constexpr int kLoops = 2 * Nest::kLevels + 2;
  Bytes length = 0;
  int depth = 0;
  std::array<Loop, kLoops> loops;

  Loop& loop(int i) { return loops[static_cast<std::size_t>(i)]; }
  const Loop& loop(int i) const { return loops[static_cast<std::size_t>(i)]; }
  void add(const Loop& next) {
    if (depth > 0) {
      Loop& inner = loop(depth - 1);
      if (inner.strided() && next.strided() && next.to == inner.count * inner.to &&
          next.from == inner.count * inner.from) {
        inner.count *= next.count;
        return;
      }
    } else if (next.strided() && next.to == length && next.from == length) {
      length *= next.count;
      return;
    }
    loop(depth++) = next;
  }
};

// One side's levels while they are joined: the piece is a level of its own where the other side's is shorter.
class Levels {
 public:
  Levels(const Nest& nest, Bytes piece) : nest_(nest) {
    if (nest.length > piece) {
      now_ = {nest.length / piece, piece, piece, nullptr};
    } else {
      fetch();
    }
  }
  bool done() const { return now_.count == 1; }
  std::int64_t count() const { return now_.count; }
  const Nest::Level& level() const { return now_; }
  // Passes the inner `count` copies of the present level; the level's count is a multiple.
  bool pass(std::int64_t count) {
    if (count == now_.count) {
      fetch();
      return true;
    }
    if (now_.table || now_.count % count != 0) return false;
    now_.count /= count;
    now_.stride *= count;
    return true;
  }

 private:
  void fetch() {
    now_ = {1, 0, 0, nullptr};
    while (next_ < nest_.depth && now_.count == 1) now_ = nest_.levels[static_cast<std::size_t>(next_++)];
  }
  const Nest& nest_;
  int next_ = 0;
  Nest::Level now_ = {1, 0, 0, nullptr};
};

// False where the levels do not divide each other.
bool join(const Nest& to, const Nest& from, Joint& joint) {
  joint.length = std::min(to.length, from.length);
  joint.depth = 0;
  if (std::max(to.length, from.length) % joint.length != 0) return false;
  Levels a(to, joint.length), b(from, joint.length);
  while (!a.done() && !b.done()) {
    const std::int64_t count = std::min(a.count(), b.count());
    const Loop loop{count, a.level().stride, b.level().stride, a.level().table, b.level().table};
    if (!a.pass(count) || !b.pass(count)) return false;
    joint.add(loop);
  }
  return a.done() && b.done();
}

// The innermost loops, which one call of a kernel carries out: of less, the others are one copy.
constexpr int kInner = 3;
using Inner = std::array<Loop, kInner>;

// Pieces of `kLength` bytes; 0: of any length.
template <std::size_t kLength>
void move_strided(std::byte* to, const std::byte* from, Bytes length, const Inner& loops) {
  const std::size_t bytes = kLength > 0 ? kLength : static_cast<std::size_t>(length);
  const auto [inner, middle, outer] = loops;
  for (std::int64_t i = 0; i < outer.count; ++i)
    for (std::int64_t j = 0; j < middle.count; ++j) {
      std::byte* t = to + i * outer.to + j * middle.to;
      const std::byte* f = from + i * outer.from + j * middle.from;
      for (std::int64_t k = 0; k < inner.count; ++k, t += inner.to, f += inner.from)
        kLength > 0 ? void(std::memcpy(t, f, bytes)) : copy_bytes(t, f, bytes);
    }
}

// ---- Transpositions

template <typename Lane, std::size_t kBytes>
struct Register;
template <>
struct Register<std::uint32_t, 16> {
  using Type = std::uint32_t __attribute__((vector_size(16)));
  using Anywhere = std::uint32_t __attribute__((vector_size(16), aligned(1), may_alias));
};
template <>
struct Register<std::uint64_t, 16> {
  using Type = std::uint64_t __attribute__((vector_size(16)));
  using Anywhere = std::uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
};
template <>
struct Register<std::uint32_t, 32> {
  using Type = std::uint32_t __attribute__((vector_size(32)));
  using Anywhere = std::uint32_t __attribute__((vector_size(32), aligned(1), may_alias));
};
template <>
struct Register<std::uint64_t, 32> {
  using Type = std::uint64_t __attribute__((vector_size(32)));
  using Anywhere = std::uint64_t __attribute__((vector_size(32), aligned(1), may_alias));
};

#define STRIDIO_INLINE [[gnu::always_inline]] inline  // into functions for newer processors too

// Of each 2 * kHalf lanes, `a` gets the lower halves of both and `b` the upper ones.
template <int kHalf, typename V, int... kLane>
STRIDIO_INLINE void part_halves(V& a, V& b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  const V lower = __builtin_shufflevector(a, b, (kLane & kHalf ? kLanes + kLane - kHalf : kLane)...);
  b = __builtin_shufflevector(a, b, (kLane & kHalf ? kLanes + kLane : kLane + kHalf)...);
  a = lower;
}

template <int kHalf, typename V, int... kRow>
STRIDIO_INLINE void part_rows(V* rows, std::integer_sequence<int, kRow...> all) {
  ((kRow & kHalf ? void() : part_halves<kHalf>(rows[kRow], rows[kRow | kHalf], all)), ...);
  if constexpr (kHalf > 1) part_rows<kHalf / 2>(rows, all);
}

// As many registers as one has lanes: halves change places, then quarters, down to single lanes.
template <typename R, int... kRow>
STRIDIO_INLINE void transpose_square(std::byte* to, Bytes to_step, const std::byte* from, Bytes from_step,
                                     std::integer_sequence<int, kRow...> all) {
  using Anywhere = typename R::Anywhere;
  typename R::Type rows[] = {*reinterpret_cast<const Anywhere*>(from + kRow * from_step)...};
  part_rows<sizeof...(kRow) / 2>(rows, all);
  ((*reinterpret_cast<Anywhere*>(to + kRow * to_step) = rows[kRow]), ...);
}

// Of two loops, one along which `to` is contiguous, and one along which `from` is, `copies` times; what fills no registers of so
// many bytes goes through shorter ones.
template <typename Lane, std::size_t kBytes>
STRIDIO_INLINE void transpose_loops(std::byte* to, const std::byte* from, Loop along_to, Loop along_from, Loop copies) {
  constexpr int kLanes = kBytes / sizeof(Lane);
  constexpr auto kLength = static_cast<Bytes>(sizeof(Lane));
  if constexpr (kBytes < 16) {
    move_strided<sizeof(Lane)>(to, from, kLength, {along_to, along_from, copies});
  } else {
    const std::int64_t rows = along_from.count / kLanes * kLanes, columns = along_to.count / kLanes * kLanes;
    const bool jumps = copies.from != along_to.count * along_to.from;  // else the processor foresees what comes next
    for (std::int64_t i = 0; i < copies.count; ++i) {
      for (std::int64_t column = 0; jumps && i + 1 < copies.count && column < columns; ++column)
        for (Bytes at = 0; at < rows * kLength; at += kCacheLine)
          __builtin_prefetch(from + (i + 1) * copies.from + column * along_to.from + at);
      for (std::int64_t row = 0; row < rows; row += kLanes)
        for (std::int64_t column = 0; column < columns; column += kLanes)
          transpose_square<Register<Lane, kBytes>>(to + i * copies.to + row * along_from.to + column * kLength,
                                                   along_from.to,
                                                   from + i * copies.from + column * along_to.from + row * kLength,
                                                   along_to.from, std::make_integer_sequence<int, kLanes>{});
    }
    Loop rest = along_to;
    rest.count -= columns;
    if (rest.count > 0 && rows > 0) {
      Loop done = along_from;
      done.count = rows;
      transpose_loops<Lane, kBytes / 2>(to + columns * rest.to, from + columns * rest.from, rest, done, copies);
    }
    rest = along_from;
    rest.count -= rows;
    if (rest.count > 0)
      transpose_loops<Lane, kBytes / 2>(to + rows * rest.to, from + rows * rest.from, along_to, rest, copies);
  }
}

template <typename Lane, std::size_t kBytes>
STRIDIO_INLINE void transpose_by(std::byte* to, const std::byte* from, const Inner& loops) {
  const bool straight = loops[0].to == sizeof(Lane) && loops[1].from == sizeof(Lane);
  transpose_loops<Lane, kBytes>(to, from, loops[straight ? 0 : 1], loops[straight ? 1 : 0], loops[2]);
}
template <typename Lane>
void transpose(std::byte* to, const std::byte* from, Bytes, const Inner& loops) {
  transpose_by<Lane, 16>(to, from, loops);
}
#ifdef __x86_64__
template <typename Lane>
__attribute__((target("avx2"))) void transpose_wide(std::byte* to, const std::byte* from, Bytes, const Inner& loops) {
  transpose_by<Lane, 32>(to, from, loops);
}
#endif

// ---- Pieces at any places

template <std::size_t kLength>
void move_table(std::byte* to, const std::byte* from, Bytes, const Loop& loop) {
  if (!loop.from_table) {
    for (std::int64_t i = 0; i < loop.count; ++i, from += loop.from) std::memcpy(to + loop.to_table[i], from, kLength);
  } else if (!loop.to_table) {
    for (std::int64_t i = 0; i < loop.count; ++i, to += loop.to) std::memcpy(to, from + loop.from_table[i], kLength);
  } else {
    for (std::int64_t i = 0; i < loop.count; ++i)
      std::memcpy(to + loop.to_table[i], from + loop.from_table[i], kLength);
  }
}
void move_any_table(std::byte* to, const std::byte* from, Bytes length, const Loop& loop) {
  for (std::int64_t i = 0; i < loop.count; ++i)
    copy_bytes(to + (loop.to_table ? loop.to_table[i] : i * loop.to),
               from + (loop.from_table ? loop.from_table[i] : i * loop.from), static_cast<std::size_t>(length));
}

using Strided = void (*)(std::byte*, const std::byte*, Bytes, const Inner&);

template <typename Lane>
Strided fastest_transpose() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return transpose_wide<Lane>;
#endif
  return transpose<Lane>;
}

// The kernels of one piece length.
struct Kernels {
  Strided strided = move_strided<0>;
  void (*table)(std::byte*, const std::byte*, Bytes, const Loop&) = move_any_table;
};

template <std::size_t kLength>
constexpr Kernels kFixed = {move_strided<kLength>, move_table<kLength>};

Kernels kernels_for(Bytes length) {
  switch (length) {
    case 1: return kFixed<1>;
    case 2: return kFixed<2>;
    case 3: return kFixed<3>;
    case 4: return kFixed<4>;
    case 8: return kFixed<8>;
    case 12: return kFixed<12>;
    case 16: return kFixed<16>;
    case 24: return kFixed<24>;
    case 32: return kFixed<32>;
    case 40: return kFixed<40>;
    case 48: return kFixed<48>;
    case 64: return kFixed<64>;
    case 128: return kFixed<128>;
    default: return {};
  }
}

class Mover {
 public:
  explicit Mover(Joint& joint) : joint_(joint), kernels_(kernels_for(joint.length)) {}

  void run(std::byte* to, const std::byte* from) {
    if (joint_.depth == 0) {
      copy_bytes(to, from, static_cast<std::size_t>(joint_.length));
      return;
    }
    choose_order();
    while (strided_ < std::min<int>(joint_.depth, kInner) && joint_.loop(strided_).strided()) ++strided_;
    if (tile_ == 0) return loop(joint_.depth - 1, to, from);
    const Loop far = joint_.loop(1);
    for (std::int64_t i = 0; i < far.count; i += far_tile_) {
      joint_.loop(1).count = std::min(far_tile_, far.count - i);
      loop(joint_.depth - 1, to + i * far.to, from + i * far.from);
    }
  }

 private:
  // Brings the loop that is nearest to contiguous on the one side, and that on the other, inside: the one whose farther
  // steps are the shorter innermost.
  void choose_order() {
    int a = -1, b = -1;
    for (int i = 0; i < joint_.depth; ++i) {
      const Loop& each = joint_.loop(i);
      if (!each.strided()) continue;
      if (a < 0 || std::abs(each.to) < std::abs(joint_.loop(a).to)) a = i;
      if (b < 0 || std::abs(each.from) < std::abs(joint_.loop(b).from)) b = i;
    }
    if (a < 0) return;
    if (farther(joint_.loop(b)) < farther(joint_.loop(a))) std::swap(a, b);
    auto* loops = joint_.loops.data();
    std::rotate(loops, loops + a, loops + a + 1);
    if (a == b) return;
    if (b < a) ++b;
    std::rotate(loops + 1, loops + b, loops + b + 1);
    tile_ = far_tile_ = joint_.length < kCacheLine ? kCacheLine / joint_.length : 0;
    const Loop &inner = joint_.loop(0), &outer = joint_.loop(1);
    const bool turned = (inner.to == joint_.length && outer.from == joint_.length) ||
                        (outer.to == joint_.length && inner.from == joint_.length);
    if (!turned || (joint_.length != 4 && joint_.length != 8)) return;
    kernels_.strided = joint_.length == 8 ? fastest_transpose<std::uint64_t>() : fastest_transpose<std::uint32_t>();
    far_tile_ = kFarPlaces;
  }
  static Bytes farther(const Loop& loop) { return std::max(std::abs(loop.to), std::abs(loop.from)); }

  void loop(int depth, std::byte* to, const std::byte* from) {
    const Loop& each = joint_.loop(depth);
    if (!each.strided()) {
      if (depth == 0) return kernels_.table(to, from, joint_.length, each);
      for (std::int64_t i = 0; i < each.count; ++i)
        loop(depth - 1, to + (each.to_table ? each.to_table[i] : i * each.to),
             from + (each.from_table ? each.from_table[i] : i * each.from));
      return;
    }
    if (depth < strided_) return innermost(depth, to, from);
    for (std::int64_t i = 0; i < each.count; ++i, to += each.to, from += each.from) loop(depth - 1, to, from);
  }

  void innermost(int depth, std::byte* to, const std::byte* from) {
    Inner loops;
    std::copy_n(joint_.loops.begin(), depth + 1, loops.begin());
    const Loop all = loops[0], copies = loops[2];
    if (tile_ == 0 || all.count <= tile_) return kernels_.strided(to, from, joint_.length, loops);
    loops[2].count = 1;
    for (std::int64_t i = 0; i < copies.count; ++i, to += copies.to, from += copies.from)
      for (std::int64_t j = 0; j < all.count; j += tile_) {
        loops[0].count = std::min(tile_, all.count - j);
        kernels_.strided(to + j * all.to, from + j * all.from, joint_.length, loops);
      }
  }

  Joint& joint_;
  Kernels kernels_;
  std::int64_t tile_ = 0, far_tile_ = 0;
  int strided_ = 0;  // loops that are a kernel's
};

// Cuts the nest with the longer inside of its outermost level to the first copy.
void cut_coarser(Nest& a, Nest& b) {
  const auto inside = [](const Nest& nest) { return nest.depth > 0 ? nest.outer().inside : 0; };
  Nest& coarser = inside(a) >= inside(b) ? a : b;
  coarser.shorten(coarser.outer().inside);
}

// The longest start of both that is one joint nest; they end at the same size.
void match(Nest& to, Nest& from, Joint& joint) {
  for (;;) {
    while (to.size != from.size) {
      to.shorten(from.size);
      from.shorten(to.size);
    }
    if (join(to, from, joint)) return;
    cut_coarser(to, from);
  }
}

}  // namespace

void copy(Side& to, Side& from, Bytes bytes) {
  Joint joint;
  while (bytes > 0) {
    const Nest& next_to = to.cursor.peek();
    const Nest& next_from = from.cursor.peek();
    if (next_to.depth == 0 && next_from.depth == 0) {
      const Bytes length = std::min({next_to.length, next_from.length, bytes});
      copy_bytes(to.base + next_to.offset, from.base + next_from.offset, static_cast<std::size_t>(length));
      to.cursor.skip(length);
      from.cursor.skip(length);
      bytes -= length;
      continue;
    }
    Nest a = next_to, b = next_from;
    a.shorten(bytes);
    match(a, b, joint);
    Mover(joint).run(to.base + a.offset, from.base + b.offset);
    to.cursor.skip(a.size);
    from.cursor.skip(a.size);
    bytes -= a.size;
  }
}

void pack(std::byte* to, const std::byte* base, const Pattern& from) {
  Side target{to, Cursor(Pattern::run(0, from.size()))};
  Side source{const_cast<std::byte*>(base), Cursor(from)};
  copy(target, source, from.size());
}

void unpack(std::byte* base, const Pattern& to, const std::byte* from) {
  Side target{base, Cursor(to)};
  Side source{const_cast<std::byte*>(from), Cursor(Pattern::run(0, to.size()))};
  copy(target, source, to.size());
}

}  // namespace stridio
