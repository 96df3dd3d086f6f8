// Steps that move no data: open and close, seeks, sizes, sync, atomicity.
#include "property/file_step.h"

#include <fmt/format.h>

#include "file/file_impl.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

// A group that the file shares with the crew.
std::shared_ptr<Group> borrowed(Group& group) {
  return {&group, [](Group*) {}};
}

class OpenStep final : public Step {
 public:
  std::string text() const override { return "open"; }
  bool collective() const override { return true; }

  Result<Bytes> act(World& world, Group& group) override {
    const FileSetting& setting = world.setting;
    RankSide& side = world.side(group.rank());
    if (setting.by_path) {
      ASSIGN_OR_RETURN(side.file, File::open(borrowed(group), world.path.path(), setting.mode, setting.hints));
      return 0;
    }
    auto file = put_together(world, group);
    RETURN_IF_ERROR(file->begin());
    side.file = std::move(file);
    return 0;
  }

  std::optional<std::string> wrong(World& world) override {
    const Bytes start = world.setting.mode.append ? world.setting.length : 0;
    for (RankSide& side : world.ranks) side.pointer = start;
    world.shared_pointer = start;
    return any_failed(world);
  }

 private:
  static std::unique_ptr<FileImpl> put_together(World& world, Group& group) {
    const FileSetting& setting = world.setting;
    std::vector<std::string> warnings;
    FileParts parts{.group = borrowed(group),
                    .storage = open_memory(world.file, {.read = setting.readable, .write = true}),
                    .report = std::make_unique<Report>(),
                    .mode = setting.mode,
                    .hints = apply_hints({}, setting.hints, "program", warnings),
                    .path = world.path.path(),  // the shared pointer may be a file beside it
                    .report_directory = {},
                    .explain = false,
                    .readable = setting.readable};
    world.side(group.rank()).watch.has_locks = setting.has_locks;
    const bool faulty = setting.faulty_rank < 0 || setting.faulty_rank == group.rank();
    if (setting.fault.first >= 0 && faulty) parts.storage = wrap_fault(std::move(parts.storage), setting.fault);
    parts.storage = wrap_watch(std::move(parts.storage), world.side(group.rank()).watch);
    return std::make_unique<FileImpl>(std::move(parts));
  }
};

class CloseStep final : public Step {
 public:
  std::string text() const override { return "close"; }
  bool collective() const override { return true; }
  Result<Bytes> act(World& world, Group& group) override {
    const auto file = std::move(world.side(group.rank()).file);
    RETURN_IF_ERROR(file->close());
    return 0;
  }
  std::optional<std::string> wrong(World& world) override { return any_failed(world); }
};

std::optional<std::string> all_fail(const World& world, Code code) {
  for (const RankSide& side : world.ranks)
    if (side.result || side.result.error().code != code) return "not every rank fails as it should";
  return std::nullopt;
}

// Each rank for itself, or all by the shared pointer.
class SeekStep final : public Step {
 public:
  SeekStep(World& world, bool shared) : shared_(shared) {
    Random& random = world.random;
    for (int rank = 0; rank < world.size(); ++rank) {
      if (shared && rank > 0) break;
      const RankSide& side = world.side(rank);
      const Offset target = pick(random, 0, side.view.capacity(world.setting.limit) / side.view.etype());
      const auto whence = Whence(pick(random, 0, side.view.regular() ? 2 : 1));
      const Offset now = (shared ? world.shared_pointer : side.pointer) / side.view.etype();
      Offset base = whence == Whence::kCurrent ? now : 0;
      if (whence == Whence::kEnd) base = side.view.end(static_cast<Bytes>(world.image.size()));
      seeks_.push_back({target, target - base, whence});
    }
  }
  std::string text() const override { return shared_ ? "seek_shared" : "seek"; }
  bool collective() const override { return shared_; }

  Result<Bytes> act(World& world, Group& group) override {
    File& file = *world.side(group.rank()).file;
    const Seek& seek = shared_ ? seeks_.front() : seeks_[static_cast<std::size_t>(group.rank())];
    RETURN_IF_ERROR(shared_ ? file.seek_shared(seek.offset, seek.whence) : file.seek(seek.offset, seek.whence));
    return file.byte_offset(seek.target);
  }

  std::optional<std::string> wrong(World& world) override {
    for (int rank = 0; rank < world.size(); ++rank) {
      RankSide& side = world.side(rank);
      const Offset target = (shared_ ? seeks_.front() : seeks_[static_cast<std::size_t>(rank)]).target;
      Bytes& pointer = shared_ ? world.shared_pointer : side.pointer;
      pointer = target * side.view.etype();
      if (side.result && *side.result != side.view.offset_of(target * side.view.etype()))
        return fmt::format("rank {}: byte_offset of etype {} is {}", rank, target, *side.result);
    }
    return any_failed(world);
  }

 private:
  struct Seek {
    Offset target;  // in etypes
    Offset offset;
    Whence whence;
  };
  const bool shared_;
  std::vector<Seek> seeks_;
};

class ResizeStep final : public Step {
 public:
  ResizeStep(World& world, bool resizes) : resizes_(resizes), size_(pick(world.random, 0, world.setting.limit)) {}
  std::string text() const override { return fmt::format("{} {}", resizes_ ? "set_size" : "preallocate", size_); }
  bool collective() const override { return true; }

  Result<Bytes> act(World& world, Group& group) override {
    File& file = *world.side(group.rank()).file;
    RETURN_IF_ERROR(resizes_ ? file.set_size(size_) : file.preallocate(size_));
    return 0;
  }
  std::optional<std::string> wrong(World& world) override {
    if (auto failed = any_failed(world)) return failed;
    const auto size = static_cast<std::size_t>(size_);
    if (resizes_ || size > world.image.size()) world.image.resize(size);
    if (world.contents() != world.image) return "the file is not as it was, cut or extended with zeros";
    return std::nullopt;
  }

 private:
  const bool resizes_;
  const Bytes size_;
};

class SizeStep final : public Step {
 public:
  std::string text() const override { return "size"; }
  bool collective() const override { return false; }
  Result<Bytes> act(World& world, Group& group) override { return world.side(group.rank()).file->size(); }
  std::optional<std::string> wrong(World& world) override {
    if (auto failed = any_failed(world)) return failed;
    for (const RankSide& side : world.ranks)
      if (*side.result != static_cast<Bytes>(world.image.size()))
        return fmt::format("size is {}, right is {}", *side.result, world.image.size());
    return std::nullopt;
  }
};

class SyncStep final : public Step {
 public:
  std::string text() const override { return "sync"; }
  bool collective() const override { return true; }
  Result<Bytes> act(World& world, Group& group) override {
    RETURN_IF_ERROR(world.side(group.rank()).file->sync());
    return 0;
  }
  std::optional<std::string> wrong(World& world) override { return any_failed(world); }
};

class AtomicityStep final : public Step {
 public:
  explicit AtomicityStep(World& world) : atomic_(!world.atomic) {}
  std::string text() const override { return atomic_ ? "atomic mode" : "no atomic mode"; }
  bool collective() const override { return true; }
  Result<Bytes> act(World& world, Group& group) override {
    File& file = *world.side(group.rank()).file;
    RETURN_IF_ERROR(file.set_atomicity(atomic_));
    return file.atomicity();
  }
  std::optional<std::string> wrong(World& world) override {
    // Across nodes the lock of atomic mode is the storage's.
    if (atomic_ && !world.setting.has_locks && !world.setting.crew.all_share_memory())
      return all_fail(world, Code::kUnsupportedOperation);
    if (auto failed = any_failed(world)) return failed;
    world.atomic = atomic_;
    for (const RankSide& side : world.ranks)
      if (*side.result != static_cast<Bytes>(atomic_)) return "the atomicity was not set";
    return std::nullopt;
  }

 private:
  const bool atomic_;
};

}  // namespace

const Ownership& Step::owners() const {
  static const Ownership nobody;
  return nobody;
}

std::unique_ptr<Step> open_step() { return std::make_unique<OpenStep>(); }
std::unique_ptr<Step> close_step() { return std::make_unique<CloseStep>(); }

std::unique_ptr<Step> draw_step(World& world) {
  const FileSetting& setting = world.setting;
  const bool may_seek = !setting.mode.sequential && world.ranks.front().view.capacity(setting.limit) > 0;
  switch (pick(world.random, 0, 23)) {
    case 0: return std::make_unique<SyncStep>();
    case 1: return std::make_unique<AtomicityStep>(world);
    case 2: return draw_mistake(world);
    case 3:
      if (!setting.mode.writes()) break;
      return std::make_unique<ResizeStep>(world, one_in(world.random, 2));
    case 11: return std::make_unique<SizeStep>();
    case 4:
      if (!may_seek || !world.same_view) break;
      return std::make_unique<SeekStep>(world, true);
    case 5:
    case 6:
      if (!may_seek) break;
      return std::make_unique<SeekStep>(world, false);
    case 7:
    case 8:
    case 9:
    case 10: return draw_view(world);
    default: break;
  }
  return draw_transfer(world);
}

std::optional<std::string> any_failed(const World& world) {
  for (std::size_t rank = 0; rank < world.ranks.size(); ++rank)
    if (const auto& result = world.ranks[rank].result; !result)
      return fmt::format("rank {} fails: {}", rank, result.error().text());
  return std::nullopt;
}

}  // namespace stridio::testing
