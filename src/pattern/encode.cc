// The byte form of a pattern, version 1:
//   'P' 1 | body | xxh32(all before), little endian
//   body = zigzag(displacement) node
//   node = 0 size                                             run
//        | 1 count zigzag(stride) node                        strided
//        | 2 n zigzag(stride) irregular n x zigzag(displacement - the one before) [n x copies] node   indexed
//        | 3 n n x body                                       sequence
// Numbers are LEB128. Size follows the structure; decoding refuses a wrong checksum, a depth over 64, a number that
// would overflow 2^62 bytes, offsets so far apart, and any length that the bytes left cannot hold.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pattern/node.h"

namespace stridio {
namespace {

using Node = Pattern::Node;
using Kind = Node::Kind;

constexpr std::uint8_t kMagic = 'P', kVersion = 1;
constexpr int kDeepest = 64;
constexpr __int128 kLargest = __int128{1} << 62;

class Writer {
 public:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void signed_number(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  std::vector<std::byte> seal() {
    const std::uint32_t sum = XXH32(bytes_.data(), bytes_.size(), 0);
    for (int shift = 0; shift < 32; shift += 8) byte(static_cast<std::uint8_t>(sum >> shift));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // After a failed read every number is 0 and ok() stays false.
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63 && ok_; shift += 7) {
      const std::uint8_t next = byte();
      value |= static_cast<std::uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return ok_ ? value : 0;
    }
    ok_ = false;
    return 0;
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  std::uint8_t byte() {
    if (at_ >= bytes_.size()) ok_ = false;
    return ok_ ? static_cast<std::uint8_t>(bytes_[at_++]) : 0;
  }
  // A number of elements, each of at least one byte.
  std::size_t length() {
    const std::uint64_t value = number();
    if (value > bytes_.size() - at_) ok_ = false;
    return ok_ ? static_cast<std::size_t>(value) : 0;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

bool fits(__int128 value) { return value < kLargest && value > -kLargest; }

// Whether `count` copies `stride` apart stay within 2^62, in size and reach: what any kind of node may have that is made
// into this one.
bool fits(std::int64_t count, Bytes stride, const Pattern& child) {
  const __int128 reach = __int128{std::max<std::int64_t>(count - 1, 0)} * stride;
  return fits(__int128{count} * child.size()) && fits(reach) && fits(reach + child.lower()) &&
         fits(reach + child.upper());
}

}  // namespace

struct PatternCodec {
  static void write(Writer& out, const Node& node) {
    out.byte(static_cast<std::uint8_t>(node.kind));
    switch (node.kind) {
      case Kind::kRun: out.number(static_cast<std::uint64_t>(node.size)); return;
      case Kind::kStrided:
        out.number(static_cast<std::uint64_t>(node.count));
        out.signed_number(node.stride);
        return write(out, *node.child);
      case Kind::kIndexed: return write_indexed(out, node);
      case Kind::kSequence:
        out.number(node.parts.size());
        for (const Pattern& part : node.parts) write(out, part);
        return;
    }
  }
  static void write(Writer& out, const Pattern& pattern) {
    out.signed_number(pattern.offset_);
    write(out, *pattern.node_);
  }
  static void write_indexed(Writer& out, const Node& node) {
    out.number(node.displacements.size());
    out.signed_number(node.stride);
    out.byte(node.before.empty() ? 0 : 1);
    Offset previous = 0;
    for (const Offset displacement : node.displacements) {
      out.signed_number(displacement - previous);
      previous = displacement;
    }
    if (!node.before.empty())
      for (std::int64_t i = 0; i < node.blocks(); ++i) out.number(static_cast<std::uint64_t>(node.copies(i)));
    write(out, *node.child);
  }

  static std::optional<Pattern> read_body(Reader& in, int depth) {
    const Offset offset = in.signed_number();
    const auto node = read_node(in, depth);
    if (!node || !fits(__int128{offset} + node->lower()) || !fits(__int128{offset} + node->upper()) ||
        !fits(__int128{node->upper()} - node->lower()))
      return std::nullopt;
    return node->shifted(offset);
  }
  static std::optional<Pattern> read_node(Reader& in, int depth) {
    if (depth > kDeepest) return std::nullopt;
    const std::uint8_t kind = in.byte();
    if (!in.ok()) return std::nullopt;
    switch (kind) {
      case 0: {
        const auto size = static_cast<__int128>(in.number());
        if (!in.ok() || !fits(size)) return std::nullopt;
        return Pattern::run(0, static_cast<Bytes>(size));
      }
      case 1: {
        const auto count = static_cast<__int128>(in.number());
        const Bytes stride = in.signed_number();
        const auto child = read_node(in, depth + 1);
        if (!child || !fits(count) || !fits(static_cast<std::int64_t>(count), stride, *child)) return std::nullopt;
        return Pattern::strided(static_cast<std::int64_t>(count), stride, *child);
      }
      case 2: return read_indexed(in, depth);
      case 3: {
        std::vector<Pattern> parts;  // grows with what is read: nested lengths alone must not cost memory
        __int128 total = 0;
        for (std::size_t left = in.length(); left > 0; --left) {
          auto body = read_body(in, depth + 1);
          if (!body || !fits(total += body->size())) return std::nullopt;
          parts.push_back(*std::move(body));
        }
        return Pattern::sequence(std::move(parts));
      }
      default: return std::nullopt;
    }
  }
  static std::optional<Pattern> read_indexed(Reader& in, int depth) {
    std::vector<Offset> displacements(in.length());
    const Bytes stride = in.signed_number();
    const bool irregular = in.byte() == 1;
    __int128 at = 0;
    for (Offset& displacement : displacements) {
      if (!fits(at += in.signed_number())) return std::nullopt;
      displacement = static_cast<Offset>(at);
    }
    std::vector<std::int64_t> counts(irregular ? displacements.size() : 0);
    __int128 copies = irregular ? 0 : static_cast<__int128>(displacements.size());
    for (std::int64_t& count : counts) {
      const auto value = static_cast<__int128>(in.number());
      if (!fits(value) || !fits(copies += value)) return std::nullopt;
      count = static_cast<std::int64_t>(value);
    }
    const auto child = read_node(in, depth + 1);
    if (!child || !fits(copies * child->size())) return std::nullopt;
    const __int128 lower = child->lower(), upper = child->upper();
    for (std::size_t i = 0; i < displacements.size(); ++i) {
      const __int128 reach = irregular ? __int128{counts[i]} * stride : 0;
      const __int128 last = displacements[i] + reach;
      if (!fits(reach) || !fits(displacements[i] + lower) || !fits(displacements[i] + upper) || !fits(last + lower) ||
          !fits(last + upper))
        return std::nullopt;
    }
    return Pattern::indexed(std::move(displacements), std::move(counts), stride, *child);
  }
};

std::vector<std::byte> Pattern::encode() const {
  Writer out;
  out.byte(kMagic);
  out.byte(kVersion);
  PatternCodec::write(out, *this);
  return out.seal();
}

Result<Pattern> Pattern::decode(std::span<const std::byte> bytes) {
  const auto refuse = [](const char* why) {
    return fail(Code::kArgument, std::string("not an encoded pattern: ") + why);
  };
  if (bytes.size() < 6) return refuse("too short");
  const std::span<const std::byte> body = bytes.first(bytes.size() - 4);
  std::uint32_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum |= static_cast<std::uint32_t>(bytes[body.size() + static_cast<std::size_t>(i)]) << (8 * i);
  if (XXH32(body.data(), body.size(), 0) != sum) return refuse("wrong checksum");
  Reader in(body);
  if (in.byte() != kMagic || in.byte() != kVersion) return refuse("unknown version");
  const auto pattern = PatternCodec::read_body(in, 0);
  if (!pattern || !in.ok() || !in.at_end()) return refuse("malformed");
  return *pattern;
}

}  // namespace stridio
