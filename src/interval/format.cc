#include "interval/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"

namespace stridio {
namespace {

// Not text, and harmed by whatever harms line ends.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'S', 'I', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::uint32_t kRootMagic = 0x746f6f52;  // "Root"
constexpr std::uint32_t kPartMagic = 0x74726150;  // "Part"
constexpr std::uint32_t kLogMagic = 0x31676f4c;   // "Log1"
constexpr Bytes kEntryBytes = 56;                 // without its runs
constexpr Bytes kRunBytes = 16;
constexpr Offset kLargest = Offset{1} << 62;

class FieldWriter {
 public:
  void u32(std::uint32_t value) { put(value, 4); }
  void u64(std::int64_t value) { put(static_cast<std::uint64_t>(value), 8); }
  void extent(const Extent& extent) {
    u64(extent.offset);
    u64(extent.length);
  }
  void bytes(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  std::vector<std::byte>& take() { return bytes_; }

 private:
  void put(std::uint64_t value, int length) {
    for (int i = 0; i < length; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte> bytes_;
};

// Past the end, or after a number that is not within 0 .. 2^62, ok() is false and every field 0.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint32_t u32() { return static_cast<std::uint32_t>(get(4)); }
  std::int64_t u64() {
    const std::uint64_t value = get(8);
    ok_ = ok_ && value <= static_cast<std::uint64_t>(kLargest);
    return ok_ ? static_cast<std::int64_t>(value) : 0;
  }
  Extent extent() {
    const Offset offset = u64();
    const Bytes length = u64();
    ok_ = ok_ && length <= kLargest - offset;
    return ok_ ? Extent{offset, length} : Extent{};
  }
  // A number of things of `each` bytes, which lie behind it.
  std::size_t count(Bytes each) {
    const std::int64_t number = u64();
    ok_ = ok_ && number <= static_cast<std::int64_t>(left()) / each;
    return ok_ ? static_cast<std::size_t>(number) : 0;
  }
  std::span<const std::byte> bytes(std::size_t length) {
    ok_ = ok_ && length <= left();
    if (!ok_) return {};
    at_ += length;
    return bytes_.subspan(at_ - length, length);
  }
  std::size_t left() const { return bytes_.size() - at_; }
  bool ok() const { return ok_; }
  void require(bool holds) { ok_ = ok_ && holds; }

 private:
  std::uint64_t get(std::size_t length) {
    std::uint64_t value = 0;
    const auto field = bytes(length);
    for (std::size_t i = field.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(field[i]);
    return value;
  }
  const std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

tl::unexpected<Error> damaged(std::string what) { return fail(Code::kIo, "the interval file is damaged: " + what); }

void put(FieldWriter& out, const PartEntry& entry) {
  out.u32(entry.process);
  out.u32(entry.sum);
  out.extent(entry.metadata);
  out.extent(entry.bounds);
  out.u64(entry.bytes);
  out.u64(static_cast<std::int64_t>(entry.runs.size()));
  for (const Extent& run : entry.runs) out.extent(run);
}

bool is_in(Bytes tail, const Extent& extent) {
  return extent.offset >= kHeaderBytes && extent.end() <= kHeaderBytes + tail;
}

PartEntry read_entry(FieldReader& in, Bytes tail) {
  PartEntry entry;
  entry.process = in.u32();
  entry.sum = in.u32();
  entry.metadata = in.extent();
  entry.bounds = in.extent();
  entry.bytes = in.u64();
  in.require(entry.bytes > 0 && entry.bytes <= entry.bounds.length);
  in.require(!in_tail(entry.metadata) || is_in(tail, entry.metadata));
  Offset end = kFirstStored - 1;
  Bytes stored = 0;
  for (std::size_t left = in.count(kRunBytes); left > 0 && in.ok(); --left) {
    const Extent run = in.extent();
    in.require(run.length > 0 && run.offset > end);
    end = run.end();
    stored += run.length;
    entry.runs.push_back(run);
  }
  in.require(entry.bytes <= stored);
  return entry;
}

}  // namespace

// ---- Header

constexpr std::size_t kTailField = 44, kSumField = kHeaderBytes - 4;  // where the tail's length is, and its own sum

std::vector<std::byte> encode(const Header& header) {
  FieldWriter out;
  out.bytes(std::as_bytes(std::span(kMagic)));
  out.u32(kIntervalVersion);
  out.u32(0);
  out.u64(static_cast<std::int64_t>(header.generation));
  out.extent(header.root);
  out.u32(header.root_sum);
  out.u32(static_cast<std::uint32_t>(header.tail.size()));
  out.u32(crc32c(header.tail));
  std::vector<std::byte>& bytes = out.take();
  bytes.resize(kHeaderBytes - 4);
  out.u32(crc32c(bytes));
  out.bytes(header.tail);
  return std::move(bytes);
}

std::vector<std::byte> birth_header() {
  return encode(Header{.generation = kBirth, .root = {kFirstStored, 0}, .root_sum = 0});
}

std::vector<std::byte> encode_slot(const Header& header) {
  const std::vector<std::byte> copy = encode(header);
  std::vector<std::byte> slot(static_cast<std::size_t>((kCopies - 1) * kHeaderStep) + copy.size());
  for (int i = 0; i < kCopies; ++i) std::copy(copy.begin(), copy.end(), slot.begin() + i * kHeaderStep);
  return slot;
}

bool begins_interval_file(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Bytes tail_behind(std::span<const std::byte> bytes) {
  if (!begins_interval_file(bytes)) return 0;
  FieldReader in(bytes);
  in.bytes(kTailField);
  const std::uint32_t tail = in.u32();
  return in.ok() && tail <= kMostTail ? tail : 0;
}

Result<Header> decode_header(std::span<const std::byte> bytes) {
  if (!begins_interval_file(bytes)) return fail(Code::kBadFileName, "not an interval file");
  // Magic, version and sum stand at the same places in all versions; what else a later one has is not looked at.
  const auto summed = bytes.first(std::min(bytes.size(), kSumField));
  if (std::ssize(bytes) < kHeaderBytes || FieldReader(bytes.subspan(kSumField)).u32() != crc32c(summed))
    return damaged("a header has a wrong checksum");
  FieldReader in(bytes);
  in.bytes(kMagic.size());
  const std::uint32_t version = in.u32();
  if (version != kIntervalVersion)
    return fail(Code::kUnsupportedOperation,
                fmt::format("the interval file has format version {}; this program knows version {}", version,
                            kIntervalVersion));
  in.u32();
  Header header;
  header.generation = static_cast<std::uint64_t>(in.u64());
  header.root = in.extent();
  header.root_sum = in.u32();
  const std::uint32_t tail = in.u32(), tail_sum = in.u32();
  in.bytes(8 + 4);  // zeros, and the sum
  const bool root_in_tail = in_tail(header.root) && is_in(tail, header.root);
  if (!in.ok() || tail > kMostTail || root_in_tail != (tail > 0) || root_in_tail != in_tail(header.root) ||
      header.generation == 0 || header.generation > kLastGeneration ||
      (header.generation == kBirth && (tail > 0 || !header.root.empty())))
    return damaged("a header is malformed");
  const auto behind = in.bytes(tail);
  if (!in.ok() || crc32c(behind) != tail_sum) return damaged("what stands behind a header has a wrong checksum");
  header.tail.assign(behind.begin(), behind.end());
  return header;
}

// ---- Root

Bytes Root::live() const {
  Bytes bytes = 0;
  for (const PartEntry& part : parts) bytes += part.bytes;
  return bytes;
}

Offset Root::end() const {
  Offset end = kFirstStored;
  for (const PartEntry& part : parts) {
    end = std::max(end, part.metadata.end());
    if (!part.runs.empty()) end = std::max(end, part.runs.back().end());
  }
  return end;
}

std::vector<std::byte> encode(std::span<const PartEntry> parts) {
  FieldWriter out;
  for (const PartEntry& part : parts) put(out, part);
  return std::move(out.take());
}

Result<std::vector<PartEntry>> decode_entries(std::span<const std::byte> bytes, Bytes tail) {
  std::vector<PartEntry> parts;
  FieldReader in(bytes);
  while (in.left() > 0) {
    parts.push_back(read_entry(in, tail));
    if (!in.ok()) return damaged(fmt::format("line {} of the process table is malformed", parts.size() - 1));
  }
  return parts;
}

std::vector<std::byte> encode(const Root& root) {
  FieldWriter out;
  out.u32(kRootMagic);
  out.u32(root.processes);
  out.u64(static_cast<std::int64_t>(root.generation));
  out.u64(root.size);
  out.u64(static_cast<std::int64_t>(root.parts.size()));
  out.bytes(encode(std::span(root.parts)));
  return std::move(out.take());
}

Result<Root> decode_root(std::span<const std::byte> bytes, Bytes tail) {
  FieldReader in(bytes);
  in.require(in.u32() == kRootMagic);
  Root root;
  root.processes = in.u32();
  root.generation = static_cast<std::uint64_t>(in.u64());
  root.size = in.u64();
  const std::size_t count = in.count(kEntryBytes);
  if (!in.ok()) return damaged("the root is malformed");
  ASSIGN_OR_RETURN(root.parts, decode_entries(in.bytes(in.left()), tail));
  if (root.parts.size() != count) return damaged("the process table has not as many lines as it says");
  for (const PartEntry& part : root.parts)
    if (part.bounds.end() > root.size) return damaged("intervals lie behind the end of the file");
  RETURN_IF_ERROR(stored_extents(root));
  return root;
}

Result<std::vector<Extent>> stored_extents(const Root& root) {
  std::vector<Extent> extents;
  for (const PartEntry& part : root.parts) {
    extents.push_back(part.metadata);
    extents.insert(extents.end(), part.runs.begin(), part.runs.end());
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i - 1].end() > extents[i].offset)
      return damaged(fmt::format("what is stored at {} and at {} overlaps", extents[i - 1].offset, extents[i].offset));
  std::erase_if(extents, in_tail);
  return extents;
}

// ---- Part

std::vector<std::byte> encode(const Part& part) {
  FieldWriter out;
  out.u32(kPartMagic);
  out.u32(0);
  out.u64(static_cast<std::int64_t>(part.sums.size()));
  out.u64(static_cast<std::int64_t>(part.map.encoded().size()));
  for (const std::uint32_t sum : part.sums) out.u32(sum);
  out.bytes(part.map.encoded());
  return std::move(out.take());
}

Result<Part> decode_part(std::span<const std::byte> bytes, const PartEntry& entry) {
  FieldReader in(bytes);
  in.require(in.u32() == kPartMagic);
  in.u32();
  Part part;
  part.sums.resize(in.count(4));
  const std::int64_t length = in.u64();
  for (std::uint32_t& sum : part.sums) sum = in.u32();
  in.require(static_cast<std::int64_t>(in.left()) == length);
  std::int64_t cells = 0;
  for (const Extent& run : entry.runs) cells += cells_of(run);
  in.require(static_cast<std::int64_t>(part.sums.size()) == cells);
  if (!in.ok()) return damaged("the metadata of a process are malformed");
  const auto map = in.bytes(in.left());
  ASSIGN_OR_RETURN(part.map, IntervalMap::decode({map.begin(), map.end()}));
  if (part.map.size() != entry.bytes || part.map.bounds() != entry.bounds)
    return damaged("the intervals of a process are not those of the process table");
  if (!part.map.stored_within(entry.runs)) return damaged("an interval is stored outside its process's runs");
  return part;
}

void Sums::add(Extent stored, std::uint32_t sum) {
  if (runs.empty() || runs.back().end() < stored.offset) {
    runs.push_back(stored);
    sums.push_back(sum);
    return;
  }
  runs.back().length += stored.length;
  if (stored.offset % kCell == 0) {
    sums.push_back(sum);
  } else {
    sums.back() = crc32c_joined(sums.back(), sum, stored.length);
  }
}

// ---- The log

std::vector<std::byte> encode(const LogHead& head) {
  FieldWriter out;
  out.u32(kLogMagic);
  out.u64(head.used);
  out.u64(static_cast<std::int64_t>(head.areas.size()));
  for (const Offset area : head.areas) out.u64(area);
  std::vector<std::byte>& bytes = out.take();
  bytes.resize(kLogHeadBytes - 4);
  out.u32(crc32c(bytes));
  return std::move(bytes);
}

Result<LogHead> decode_log_head(std::span<const std::byte> bytes) {
  if (std::ssize(bytes) == kLogHeadBytes &&
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; }))
    return LogHead{};
  FieldReader in(bytes);
  LogHead head;
  in.require(std::ssize(bytes) == kLogHeadBytes && in.u32() == kLogMagic);
  head.used = in.u64();
  const std::size_t areas = in.count(sizeof(Offset));
  in.require(areas <= kMostLogAreas);
  for (std::size_t i = 0; i < areas && in.ok(); ++i) head.areas.push_back(in.u64());
  if (!in.ok() || crc32c(bytes.first(kLogHeadBytes - 4)) != FieldReader(bytes.last(4)).u32())
    return damaged("what its ranks tell each other has a wrong head: has another program written to it?");
  return head;
}

std::vector<std::byte> encode(const LogRecord& record) {
  const auto map = record.written.encoded();
  FieldWriter out;
  out.u64(record.size);
  out.u64(std::ssize(map));
  out.bytes(map);
  const std::uint32_t sum = crc32c(out.take());
  out.u32(sum);
  return std::move(out.take());
}

Result<std::vector<LogRecord>> decode_log(std::span<const std::byte> bytes) {
  std::vector<LogRecord> records;
  FieldReader in(bytes);
  while (in.left() > 0) {
    const auto rest = bytes.last(in.left());
    LogRecord record;
    record.size = in.u64();
    const auto map = in.bytes(in.count(1));
    const auto summed = rest.first(rest.size() - in.left());
    in.require(in.u32() == crc32c(summed));
    auto written = IntervalMap::decode({map.begin(), map.end()});
    if (!in.ok() || !written || written->bounds().end() > record.size)
      return damaged("what its ranks tell each other is not right: has another program written to it?");
    record.written = *std::move(written);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace stridio
