// A generation as it is found: headers with their tails, the root, the parts' metadata.
#include "interval/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

#include "base/crc32c.h"

namespace stridio {

namespace {

Status check_reach(Storage& storage, Bytes size, Offset end, const char* what) {
  if (end <= size) return {};
  return fail(
      Error{.code = Code::kIo,
            .what = fmt::format("the interval file is truncated: it has {} bytes, but {} up to {}", size, what, end),
            .path = storage.path()});
}

// It has been seen that the storage reaches so far, before memory is asked for.
Result<std::vector<std::byte>> read_whole(Storage& storage, Extent extent) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(extent.length));
  ASSIGN_OR_RETURN(const Transferred got, storage.read(extent, bytes.data()));
  if (got.eof) return fail(Error{.code = Code::kIo, .what = "the interval file is truncated", .path = storage.path()});
  return bytes;
}

}  // namespace

Result<Head> Head::read(Storage& storage, bool near) {
  Head head{.bytes = {}, .path = storage.path()};
  if (near) {
    ASSIGN_OR_RETURN(const bool found, head.read_headers(storage));
    if (found) return head;
  }
  head.bytes.resize(static_cast<std::size_t>(kFirstStored));
  ASSIGN_OR_RETURN(const Transferred got, storage.read({0, kFirstStored}, head.bytes.data()));
  head.bytes.resize(static_cast<std::size_t>(got.bytes));
  head.whole = got.eof;
  return head;
}

// Headers and tails alone, by a request for each; of a file that is none its first bytes. False where the file ends before what
// is stored. What a commit changes meanwhile has wrong sums.
Result<bool> Head::read_headers(Storage& storage) {
  bool begins = false, ends = false;
  for (int i = 0; i < kHeaders && !ends; ++i) {
    const Offset place = i * kHeaderStep, end = place + kHeaderBytes;
    std::array<std::byte, kHeaderBytes> header{};
    ASSIGN_OR_RETURN(const Transferred got, storage.read({place, kHeaderBytes}, header.data()));
    ends = got.eof;
    if (i == 0) bytes.assign(header.begin(), header.begin() + got.bytes);
    if (!begins_interval_file(header)) continue;
    begins = true;
    const Bytes tail = tail_behind(header);
    bytes.resize(static_cast<std::size_t>(end + tail));
    std::copy(header.begin(), header.end(), bytes.begin() + place);
    if (tail > 0) RETURN_IF_ERROR(storage.read({end, tail}, bytes.data() + end));
  }
  if (!begins) return true;
  ASSIGN_OR_RETURN(const Bytes size, storage.size());
  return size >= kFirstStored;
}

std::span<const std::byte> Head::at(int header, Bytes most) const {
  const auto before = std::min(bytes.size(), static_cast<std::size_t>(header * kHeaderStep));
  return std::span(bytes).subspan(before, std::min(bytes.size() - before, static_cast<std::size_t>(most)));
}

Result<Head> Head::read_again(Storage& storage) && {
  for (int i = 0; i < kHeaders; ++i) {
    std::array<std::byte, kHeaderBytes> now{};
    ASSIGN_OR_RETURN(const Transferred got, storage.read({i * kHeaderStep, kHeaderBytes}, now.data()));
    const bool torn = begins_interval_file(at(i)) && !decode_header(at(i));
    const auto before = at(i, kHeaderBytes);
    const bool same = before.empty()
                          ? !begins_interval_file(now)
                          : std::ranges::equal(before, std::span(now).first(static_cast<std::size_t>(got.bytes)));
    if (torn || !same) return read(storage);
  }
  return std::move(*this);
}

Head::Content Head::content() const {
  if (bytes.empty()) return Content::kNothing;
  for (int i = 0; i < kHeaders; ++i)
    if (begins_interval_file(at(i))) return Content::kIntervals;
  return Content::kOther;
}

bool Head::is_unfinished() const {
  if (!whole || content() != Content::kIntervals) return false;
  if (std::ssize(bytes) < kHeaderBytes) return true;
  std::vector<std::byte> born = birth_header();
  born.resize(bytes.size());
  return is_cut() && bytes == born;
}

// Before a first header is written the file reaches beyond all headers, unless a power loss cuts it.
bool Head::is_cut() const { return whole && std::ssize(bytes) > kHeaderBytes && std::ssize(bytes) < kFirstStored; }

Result<Header> Head::newest() const {
  Result<Header> best = fail(Code::kBadFileName, "not an interval file");
  std::optional<Error> damage;
  int damaged = 0;
  for (int i = 0; i < kHeaders; ++i) {
    auto header = decode_header(at(i));
    if (header) {
      if (!best || header->generation > best->generation) best = std::move(header);
      continue;
    }
    header.error().path = path;
    if (header.error().code == Code::kUnsupportedOperation) return header;
    if (header.error().code == Code::kBadFileName) continue;
    ++damaged;
    if (!damage) damage = std::move(header).error();
  }
  if (!best && damage) return fail(*damage);
  if (!best) best.error().path = path;
  // A commit is told from damage: it tears one slot.
  if (best && best->generation == kBirth && damaged > kCopies) return fail(*damage);
  if (best && best->generation == kBirth && is_cut())
    return fail(
        Error{.code = Code::kIo,
              .what = fmt::format("the interval file is truncated{}: it has {} bytes",
                                  is_unfinished() ? ", or making it was cut off (who writes to it begins anew)" : "",
                                  bytes.size()),
              .path = path});
  return best;
}

Result<StoredRoot> read_root(Storage& storage, const Head& head, const Header& header, bool even_if_cut) {
  StoredRoot root{.bytes = {}, .size = static_cast<Bytes>(head.bytes.size())};
  if (!head.whole) {
    ASSIGN_OR_RETURN(root.size, storage.size());
  }
  if (header.generation == kBirth) {
    root.bytes = encode(Root{.generation = kBirth, .size = 0, .processes = 0, .parts = {}});
    return root;
  }
  if (in_tail(header.root)) {
    const auto bytes = tail_part(header.tail, header.root);
    root.bytes.assign(bytes.begin(), bytes.end());
  } else {
    RETURN_IF_ERROR(check_reach(storage, root.size, header.root.end(), "its root lies"));
    ASSIGN_OR_RETURN(root.bytes, read_whole(storage, header.root));
  }
  if (crc32c(root.bytes) != header.root_sum)
    return fail(Error{.code = Code::kIo,
                      .what = "the interval file is damaged: its root has a wrong checksum",
                      .path = storage.path()});
  ASSIGN_OR_RETURN(const Root decoded, decode_root(root.bytes, std::ssize(header.tail)));
  if (decoded.generation != header.generation)
    return fail(
        Error{.code = Code::kIo,
              .what = fmt::format("the interval file is damaged: the header of generation {} has the root of {}",
                                  header.generation, decoded.generation),
              .path = storage.path()});
  if (!even_if_cut) RETURN_IF_ERROR(check_reach(storage, root.size, decoded.end(), "data lie"));
  return root;
}

Result<PinnedRoot> pin_newest(Storage& storage, Head head, const Pinning& how) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0 || head.bytes.empty()) {
      ASSIGN_OR_RETURN(head, Head::read(storage));
    }
    auto found = head.newest();
    if (!found) {  // several commits may have come while it was read
      ASSIGN_OR_RETURN(head, Head::read(storage));
      found = head.newest();
    }
    ASSIGN_OR_RETURN(Header header, std::move(found));
    const std::uint64_t pinned = header.generation;
    auto pin = storage.lock(pin_of(pinned), LockMode::kShared);
    if (!pin && pin.error().code != Code::kUnsupportedOperation) return fail(pin.error());
    ASSIGN_OR_RETURN(head, how.by_one_request ? Head::read(storage) : std::move(head).read_again(storage));
    ASSIGN_OR_RETURN(header, head.newest());
    if (header.generation != pinned) continue;  // committed meanwhile, maybe before we held the pin
    ASSIGN_OR_RETURN(StoredRoot root, read_root(storage, head, header, how.even_if_cut));
    return PinnedRoot{std::move(header), std::move(root), pin ? *std::move(pin) : nullptr};
  }
  return fail(Error{.code = Code::kIo,
                    .what = "the interval file is committed faster than it can be opened",
                    .path = storage.path()});
}

// ---- Generation

Generation::Generation(Root root, std::vector<std::byte> tail)
    : root_(std::move(root)), tail_(std::move(tail)), by_offset_(root_.parts.size()), parts_(root_.parts.size()) {
  std::iota(by_offset_.begin(), by_offset_.end(), std::size_t{0});
  std::sort(by_offset_.begin(), by_offset_.end(),
            [&](std::size_t a, std::size_t b) { return root_.parts[a].bounds.offset < root_.parts[b].bounds.offset; });
}

Result<std::shared_ptr<Generation>> Generation::newest(Storage& storage) {
  ASSIGN_OR_RETURN(const Head head, Head::read(storage));
  ASSIGN_OR_RETURN(Header header, head.newest());
  ASSIGN_OR_RETURN(const StoredRoot stored, read_root(storage, head, header));
  return of(std::move(header), stored);
}

Result<std::shared_ptr<Generation>> Generation::of(Header header, const StoredRoot& root) {
  ASSIGN_OR_RETURN(Root decoded, decode_root(root.bytes, std::ssize(header.tail)));
  return std::make_shared<Generation>(std::move(decoded), std::move(header.tail));
}

Result<std::shared_ptr<const Part>> Generation::part(std::size_t i, Storage& storage) {
  const std::scoped_lock lock(mutex_);
  if (parts_[i]) return parts_[i];
  const PartEntry& entry = root_.parts[i];
  std::vector<std::byte> read;
  if (!in_tail(entry.metadata)) {
    ASSIGN_OR_RETURN(read, read_whole(storage, entry.metadata));
  }
  const auto bytes = in_tail(entry.metadata) ? tail_part(tail_, entry.metadata) : std::span<const std::byte>(read);
  if (crc32c(bytes) != entry.sum)
    return fail(
        Error{.code = Code::kIo,
              .what = fmt::format("the interval file is damaged: the metadata of process {} have a wrong checksum",
                                  entry.process),
              .path = storage.path()});
  ASSIGN_OR_RETURN(Part part, decode_part(bytes, entry));
  parts_[i] = std::make_shared<const Part>(std::move(part));
  return parts_[i];
}

const std::vector<StoredRun>& Generation::stored_runs() {
  std::call_once(runs_found_, [this] {
    std::vector<StoredRun> runs;
    for (std::size_t i = 0; i < root_.parts.size(); ++i) {
      std::size_t sums = 0;
      for (const Extent& run : root_.parts[i].runs) {
        runs.push_back({run, i, sums});
        sums += static_cast<std::size_t>(cells_of(run));
      }
    }
    std::sort(runs.begin(), runs.end(),
              [](const StoredRun& a, const StoredRun& b) { return a.stored.offset < b.stored.offset; });
    stored_runs_ = std::move(runs);
  });
  return stored_runs_;
}

void Generation::keep(std::size_t i, std::shared_ptr<const Part> part) {
  const std::scoped_lock lock(mutex_);
  parts_[i] = std::move(part);
}

void Generation::keep_from(Generation& earlier) {
  const std::scoped_lock lock(earlier.mutex_);
  std::map<std::pair<Offset, Bytes>, std::shared_ptr<const Part>> known;
  for (std::size_t i = 0; i < earlier.parts_.size(); ++i) {
    const Extent metadata = earlier.root_.parts[i].metadata;
    if (earlier.parts_[i] && !in_tail(metadata)) known[{metadata.offset, metadata.length}] = earlier.parts_[i];
  }
  for (std::size_t i = 0; i < parts_.size() && !known.empty(); ++i) {
    const Extent metadata = root_.parts[i].metadata;
    if (const auto part = known.find({metadata.offset, metadata.length}); part != known.end()) keep(i, part->second);
  }
}

}  // namespace stridio
