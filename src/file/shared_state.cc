#include "file/shared_state.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <climits>
#include <mutex>
#include <random>

#include "collective/agreement.h"
#include "storage/posix.h"

namespace stridio {
namespace {

std::uint64_t new_mark() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

bool exceeds(Bytes value, Bytes amount, Bytes most) { return amount > most - value; }

tl::unexpected<Error> too_far() {
  return fail(Code::kArgument, "the shared file pointer would move beyond the largest offset that a file can have");
}

// How far the pointer has moved since the last reset is in two words by turns: the one that comes next was zeroed by the first rank at
// the reset before, when all had left it.
class PointerInMemory final : public SharedPointer {
 public:
  // Both are zero.
  PointerInMemory(Bytes& even, Bytes& odd, bool first) : words_{&even, &odd}, first_(first) {}
  Result<Bytes> load() override { return start_ + moved().load(); }
  Status store(Bytes value) override {
    moved().store(value - start_);
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount, Bytes most) override {
    Bytes before = moved().load();
    do {
      if (exceeds(start_ + before, amount, most)) return too_far();
    } while (!moved().compare_exchange_weak(before, before + amount));
    return start_ + before;
  }
  Status intact() override { return {}; }
  Status reset(Bytes value) override {
    if (first_) moved().store(0);
    start_ = value;
    odd_ = !odd_;
    return {};
  }
  bool needs_agreement_after_reset() const override { return false; }

 private:
  std::atomic_ref<Bytes> moved() { return std::atomic_ref<Bytes>(*words_[odd_ ? 1 : 0]); }

  const std::array<Bytes*, 2> words_;
  const bool first_;
  Bytes start_ = 0;
  bool odd_ = false;
};

// The file holds how far the pointer has moved since the last reset; no file means not at all. Whoever makes it writes a
// mark into it, by which the others know it again: one that somebody removed, and the next rank made anew, must not
// pass for the old one. It is opened for each use, which also makes network file systems look at it afresh.
class PointerInFile final : public SharedPointer {
 public:
  PointerInFile(std::string path, bool first) : path_(std::move(path)), first_(first) {}

  Result<Bytes> load() override {
    return update([](Bytes value) { return Result<Bytes>(value); });
  }
  Status store(Bytes value) override {
    RETURN_IF_ERROR(update([value](Bytes) { return Result<Bytes>(value); }));
    return {};
  }
  Result<Bytes> fetch_add(Bytes amount, Bytes most) override {
    return update([&](Bytes value) -> Result<Bytes> {
      if (exceeds(value, amount, most)) return too_far();
      return value + amount;
    });
  }
  Status intact() override {
    const std::scoped_lock lock(mutex_);
    if (mark_ == 0) return {};
    RETURN_IF_ERROR(update_file([](Bytes value) { return Result<Bytes>(value); }));
    return {};
  }
  Status reset(Bytes value) override {
    start_ = value;
    mark_ = 0;
    if (first_) {
      const Status removed = remove_posix(path_);
      if (!removed && removed.error().code != Code::kNoSuchFile) return removed;
    }
    return {};
  }
  bool needs_agreement_after_reset() const override { return true; }

 private:
  struct Content {
    std::uint64_t mark = 0;
    Bytes moved = 0;
  };

  // `change` makes the new value of the old one, which is returned.
  template <typename Change>
  Result<Bytes> update(Change change) {
    const std::scoped_lock lock(mutex_);
    return update_file(change);
  }

  template <typename Change>
  Result<Bytes> update_file(Change change) {
    auto file = open_posix(path_, {.read = true, .write = true, .create = mark_ == 0});
    if (!file) return lost(file.error());
    const auto lock = (*file)->lock(kWholeFile, LockMode::kExclusive);
    if (!lock) return lost(lock.error());
    Content content;
    if (const auto got = (*file)->read({0, sizeof content}, reinterpret_cast<std::byte*>(&content)); !got)
      return lost(got.error());
    if (mark_ != 0 && content.mark != mark_)
      return lost({.code = Code::kIo, .what = "somebody has removed or replaced it", .path = path_});
    if (content.mark == 0) content.mark = new_mark();
    const Bytes value = start_ + content.moved;
    ASSIGN_OR_RETURN(const Bytes changed, change(value));
    content.moved = changed - start_;
    if (const auto put = (*file)->write({0, sizeof content}, reinterpret_cast<const std::byte*>(&content)); !put)
      return lost(put.error());
    mark_ = content.mark;
    return value;
  }

  static tl::unexpected<Error> lost(Error error) {
    error.what = "the shared file pointer, kept in a file as the ranks are on several nodes: " + error.what;
    if (error.code == Code::kNoSuchFile) error.code = Code::kIo;  // it is not the program's file that is missing
    return fail(std::move(error));
  }

  std::string path_;
  const bool first_;
  std::mutex mutex_;
  Bytes start_ = 0;
  std::uint64_t mark_ = 0;  // of the file that this rank has used; 0: none yet
};

// What the first rank has, on all: whoever has it passes it on to one who has not.
Status spread(Group& group, Span bytes) {
  const int rank = group.rank();
  for (int have = 1; have < group.size(); have *= 2) {
    std::vector<Message> sends, receives;
    if (rank < have && rank + have < group.size()) sends.push_back({rank + have, bytes});
    if (rank >= have && rank < 2 * have) receives.push_back({rank - have, bytes});
    RETURN_IF_ERROR(group.exchange(sends, receives));
  }
  return {};
}

// Where the pointer's file is, the first rank says: the others' names may be other links to the data, or start elsewhere.
struct Place {
  std::uint64_t mark;
  char data[PATH_MAX + 1];  // cut where it is too long for any call, and stays so
};

}  // namespace

Result<SharedState> share_state(Group& group, const std::string& path) {
  const SharedMemory memory = group.persistent();
  const bool first = group.rank() == 0;
  if (memory.length >= Group::kPersistentBytes) {
    Bytes* const words = reinterpret_cast<Bytes*>(memory.data);
    return SharedState{std::make_unique<PointerInMemory>(words[0], words[1], first),
                       reinterpret_cast<std::atomic<std::int32_t>*>(words + 2), nullptr};
  }
  Place place{};
  if (first) {
    place.mark = new_mark();
    resolved_posix(path).copy(place.data, PATH_MAX);
  }
  RETURN_IF_ERROR(spread(group, {reinterpret_cast<std::byte*>(&place), sizeof place}));
  const std::string beside = fmt::format("{}.stridio-pointer-{:x}", place.data, place.mark);
  return SharedState{std::make_unique<PointerInFile>(beside, first), nullptr, nullptr};
}

}  // namespace stridio
