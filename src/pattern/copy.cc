// Both sides are taken nest by nest: cut to the same size, and until their levels divide each other, the two loop nests are one,
// of pieces that are equal on both sides. Its loops need not run in data order. Where one side is contiguous along one level
// and the other along another (a transposition: FLASH's variables in memory and in the file), these two become the inner loops,
// in tiles of a cache line each way, so that every line is used whole while it is in the first cache; pieces of 4 and 8 bytes
// change places within registers, several at once.
#include "pattern/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace stridio {
namespace {

constexpr Bytes kCacheLine = 64;

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

// Two loops of pieces of a fixed length.
template <std::size_t kLength>
void move_fixed(std::byte* to, const std::byte* from, Bytes, const Loop& inner, const Loop& outer) {
  for (std::int64_t i = 0; i < outer.count; ++i, to += outer.to, from += outer.from) {
    std::byte* t = to;
    const std::byte* f = from;
    for (std::int64_t j = 0; j < inner.count; ++j, t += inner.to, f += inner.from) std::memcpy(t, f, kLength);
  }
}
void move_any(std::byte* to, const std::byte* from, Bytes length, const Loop& inner, const Loop& outer) {
  for (std::int64_t i = 0; i < outer.count; ++i, to += outer.to, from += outer.from) {
    std::byte* t = to;
    const std::byte* f = from;
    for (std::int64_t j = 0; j < inner.count; ++j, t += inner.to, f += inner.from)
      std::memcpy(t, f, static_cast<std::size_t>(length));
  }
}

// ---- Transpositions

constexpr std::size_t kRegister = 16;
using Pair = std::uint64_t __attribute__((vector_size(kRegister)));
using Quad = std::uint32_t __attribute__((vector_size(kRegister)));

template <typename Vector>
Vector loaded(const std::byte* from) {
  Vector vector;
  std::memcpy(&vector, from, kRegister);
  return vector;
}
template <typename Vector>
void store(std::byte* to, const Vector& vector) {
  std::memcpy(to, &vector, kRegister);
}

// As many registers as one has pieces: what lies along `from` comes to lie across.
void transpose_square(std::byte* to, Bytes to_step, const std::byte* from, Bytes from_step, Pair) {
  const auto a = loaded<Pair>(from), b = loaded<Pair>(from + from_step);
  store(to, __builtin_shufflevector(a, b, 0, 2));
  store(to + to_step, __builtin_shufflevector(a, b, 1, 3));
}
void transpose_square(std::byte* to, Bytes to_step, const std::byte* from, Bytes from_step, Quad) {
  const auto a = loaded<Quad>(from), b = loaded<Quad>(from + from_step);
  const auto c = loaded<Quad>(from + 2 * from_step), d = loaded<Quad>(from + 3 * from_step);
  const Quad low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5));
  store(to + to_step, __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7));
  store(to + 2 * to_step, __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5));
  store(to + 3 * to_step, __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7));
}

// Of two loops, one along which `to` is contiguous, and one along which `from` is.
template <typename Vector>
void transpose(std::byte* to, const std::byte* from, Bytes length, const Loop& inner, const Loop& outer) {
  constexpr auto kLength = sizeof(Vector{}[0]);
  constexpr std::int64_t kLanes = kRegister / kLength;
  const bool straight = inner.to == length && outer.from == length;
  const Loop& along_to = straight ? inner : outer;
  const Loop& along_from = straight ? outer : inner;
  const std::int64_t rows = along_from.count / kLanes * kLanes, columns = along_to.count / kLanes * kLanes;
  for (std::int64_t row = 0; row < rows; row += kLanes)
    for (std::int64_t column = 0; column < columns; column += kLanes)
      transpose_square(to + row * along_from.to + column * length, along_from.to,
                       from + column * along_to.from + row * length, along_to.from, Vector{});
  Loop rest = along_from;
  rest.count -= rows;
  move_fixed<kLength>(to + rows * rest.to, from + rows * rest.from, length, along_to, rest);
  rest = along_to;
  rest.count -= columns;
  Loop done = along_from;
  done.count = rows;
  move_fixed<kLength>(to + columns * rest.to, from + columns * rest.from, length, rest, done);
}

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
    std::memcpy(to + (loop.to_table ? loop.to_table[i] : i * loop.to),
                from + (loop.from_table ? loop.from_table[i] : i * loop.from), static_cast<std::size_t>(length));
}

// The kernels of one piece length.
struct Kernels {
  void (*strided)(std::byte*, const std::byte*, Bytes, const Loop& inner, const Loop& outer) = move_any;
  void (*table)(std::byte*, const std::byte*, Bytes, const Loop&) = move_any_table;
};

template <std::size_t kLength>
constexpr Kernels kFixed = {move_fixed<kLength>, move_table<kLength>};

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
      std::memcpy(to, from, static_cast<std::size_t>(joint_.length));
      return;
    }
    choose_order();
    loop(joint_.depth - 1, to, from);
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
    tile_ = joint_.length < kCacheLine ? kCacheLine / joint_.length : 0;
    const Loop &inner = joint_.loop(0), &outer = joint_.loop(1);
    const bool turned = (inner.to == joint_.length && outer.from == joint_.length) ||
                        (outer.to == joint_.length && inner.from == joint_.length);
    if (turned && joint_.length == 8) kernels_.strided = transpose<Pair>;
    if (turned && joint_.length == 4) kernels_.strided = transpose<Quad>;
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
    if (depth == 0) return kernels_.strided(to, from, joint_.length, each, Loop{});
    if (depth == 1) return inner_two(to, from);
    for (std::int64_t i = 0; i < each.count; ++i, to += each.to, from += each.from) loop(depth - 1, to, from);
  }

  void inner_two(std::byte* to, const std::byte* from) {
    Loop inner = joint_.loop(0), outer = joint_.loop(1);
    if (tile_ == 0 || (inner.count <= tile_ && outer.count <= tile_))
      return kernels_.strided(to, from, joint_.length, inner, outer);
    const Loop all_inner = inner, all_outer = outer;
    for (std::int64_t i = 0; i < all_outer.count; i += tile_) {
      outer.count = std::min(tile_, all_outer.count - i);
      for (std::int64_t j = 0; j < all_inner.count; j += tile_) {
        inner.count = std::min(tile_, all_inner.count - j);
        kernels_.strided(to + i * outer.to + j * inner.to, from + i * outer.from + j * inner.from, joint_.length, inner,
                         outer);
      }
    }
  }

  Joint& joint_;
  Kernels kernels_;
  std::int64_t tile_ = 0;
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
      std::memcpy(to.base + next_to.offset, from.base + next_from.offset, static_cast<std::size_t>(length));
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
