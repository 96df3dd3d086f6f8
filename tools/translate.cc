#include "translate.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/guarded.h"
#include "collective/agreement.h"
#include "file/profiles.h"
#include "group/threads.h"
#include "interval/translate.h"
#include "interval/wait.h"
#include "run.h"
#include "storage/posix.h"
#include "temporary.h"
#include "views.h"
#include "world.h"

namespace stridio {

namespace fs = std::filesystem;

namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();
constexpr double kSilence = 1;  // seconds that a user waits without a word
// Of a file while it is made: what a new one has, and who makes it must be able to open it again.
constexpr fs::perms kNewFile{0666}, kOwn{0600};

// On a terminal.
class Bar {
 public:
  void show(double share) const {
    if (!shown_) return;
    const int filled = static_cast<int>(share * kWidth);
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {:3.0f} %", "", filled, "", kWidth - filled, share * 100);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r{:{}}\r", "", kWidth + 8);
  }

 private:
  static constexpr int kWidth = 40;
  const bool shown_ = isatty(STDERR_FILENO) == 1;
};

tl::unexpected<Error> not_an_interval_file(const std::string& path) {
  return fail(Error{.code = Code::kBadFileName, .what = "not an interval file", .path = path});
}

// What takes the target's place: a symbolic link stays, and the file that it leads to is replaced.
Result<std::string> replaced_by(const std::string& target) {
  const auto refuse = [&](const char* what) {
    return fail(Error{.code = Code::kArgument, .what = what, .path = target});
  };
  std::error_code failed;
  if (target.empty() || target == "-" || fs::equivalent("/dev/stdout", target, failed))
    return refuse("the target is replaced as a whole: give it a file name, not standard output");
  const fs::file_status status = fs::status(target, failed);
  if (fs::is_directory(status)) return refuse("the target is a directory: name a file in it");
  if (fs::exists(status) && !fs::is_regular_file(status))
    return refuse("the target is replaced as a whole: it must be a regular file, or a new one");
  if (!fs::exists(status) && failed && failed.value() != ENOENT)
    return fail_errno(failed.value(), "the target cannot be replaced", target);
  fs::path path = target;
  while (fs::is_symlink(path, failed)) path = path.parent_path() / fs::read_symlink(path, failed);
  return path.string();
}

// What is read, if it is there.
Status check_regular(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || fs::is_regular_file(status)) return {};
  return fail(Error{.code = Code::kBadFileName,
                    .what = fmt::format("it must be a regular file, and is {}",
                                        fs::is_directory(status) ? "a directory" : "a pipe, a device or a socket"),
                    .path = path});
}

// As wait_for_generation, but who waits for a file that is not there is told.
Result<Seen> wait_aloud(Group& group, const char* command, const std::string& path, Waiting waiting) {
  Waiting silent = waiting;
  silent.seconds = std::min(waiting.seconds, kSilence);
  ASSIGN_OR_RETURN(Seen seen, wait_for_generation(group, path, silent));
  if (seen.come || waiting.seconds <= kSilence) return seen;
  if (!seen.exists && group.rank() == 0)
    fmt::print(stderr, "stridio {}: {} does not exist yet: waiting for it\n", command, path);
  waiting.seconds -= kSilence;
  return wait_for_generation(group, path, waiting);
}

// Of threads a user knows no ranks.
std::string text_in_one_process(Error error) {
  error.rank = -1;
  return error.text();
}

// A file that is read: one of the two.
struct Opened {
  std::unique_ptr<IntervalFile> interval;
  std::unique_ptr<Storage> flat;
  FileId id;
  bool locks = false;  // it can be pinned

  Which which() const { return Which::of(id, interval->root()); }
  Storage& storage() const { return interval ? static_cast<Storage&>(*interval) : *flat; }
};

struct OnMount {
  std::unique_ptr<Storage> storage;
  FileId id;
  Profile profile;  // for all alike: as it was measured when a program opened a file there
};

// Collective.
Result<OnMount> open_together(Group& group, const std::string& path, bool writes) {
  FileId id;
  auto storage = open_posix(path, {.read = true, .write = writes}, &id);
  RETURN_IF_ERROR(agree(group, storage ? Status() : fail(storage.error())));
  ASSIGN_OR_RETURN(const auto known, allgather(group, known_profile_of(path, id).value_or(Profile())));
  return OnMount{*std::move(storage), id, known.front()};
}

// Collective.
Result<Opened> open_source(Group& group, const std::string& path) {
  ASSIGN_OR_RETURN(OnMount opened, open_together(group, path, false));
  auto& storage = opened.storage;
  auto head = Head::read(*storage);
  RETURN_IF_ERROR(agree(group, head ? Status() : fail(head.error())));
  if (head->content() != Head::Content::kIntervals) return Opened{nullptr, std::move(storage), opened.id};
  const bool locks = storage->has_locks();
  ASSIGN_OR_RETURN(auto interval,
                   IntervalFile::open(group, std::move(storage), false, {*std::move(head), nullptr, nullptr},
                                      summed_requests(opened.profile)));
  return Opened{std::move(interval), nullptr, opened.id, locks};
}

// What one process does. The members that change are a leader's to change, between agreements.
class Translation {
 public:
  Translation(const TranslateOptions& options, World& world, LastWill& will)
      : options_(options), world_(world), will_(will) {}

  Status run();
  const std::optional<std::string>& gave_up() const { return gave_up_; }
  // What is wrong with the views, which is longer than what processes tell each other.
  const std::string& bad_views() const { return bad_views_; }

 private:
  bool flat() const { return options_.like.empty() && options_.views.empty(); }
  // Of all processes.
  int threads() const {
    const int cores = world_.launched() ? 1 : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return (options_.threads > 0 ? options_.threads : cores) * world_.processes().size();
  }

  Status check_names();
  Result<int> read_owners();
  std::vector<IntervalMap> views() const;
  Result<bool> wait();
  Result<bool> is_there(const Opened& opened) const;
  Result<std::optional<Opened>> open_next();
  Result<bool> goes_on_from(Opened& before);
  Status next();
  Status on_rank(Group& group, bool leads);
  void note_who_gets_all();
  Status to_intervals(Group& group, const std::string& partial, std::unique_ptr<IntervalFile>& target);
  Status to_flat(Group& group, const std::string& partial, std::unique_ptr<Storage>& target);
  Status create(Group& group, const std::string& partial) const;
  Status give_name(const std::string& partial) const;

  const TranslateOptions& options_;
  World& world_;
  LastWill& will_;                        // of the process that makes the target
  std::string target_;                    // behind symbolic links
  std::optional<fs::perms> permissions_;  // of the target that there is
  Views views_;
  std::string bad_views_;
  std::vector<IntervalMap> like_;

  Opened source_;
  std::optional<Which> which_;  // it is, of an interval file
  Bytes size_ = 0;
  IntervalMap content_;   // to be moved
  bool goes_on_ = false;  // the target has a generation of this very file,
  IntervalMap changed_;   // since which this has; a flat target takes the rest from the one before
  Owners owners_;         // of the content
  bool opened_ = false, ended_ = false, told_ = false, noted_ = false;
  std::optional<std::string> gave_up_;  // what was seen then
  Bar bar_;
};

Status Translation::check_names() {
  ASSIGN_OR_RETURN(target_, replaced_by(options_.target));
  RETURN_IF_ERROR(check_regular(options_.source));
  if (!options_.like.empty()) RETURN_IF_ERROR(check_regular(options_.like));
  std::error_code ignored;
  if (fs::equivalent(options_.source, target_, ignored))
    return fail(
        Error{.code = Code::kArgument, .what = "the source and the target are one file", .path = options_.target});
  if (const auto status = fs::status(target_, ignored); fs::exists(status)) permissions_ = status.permissions();
  return {};
}

// How many processes the target has.
Result<int> Translation::read_owners() {
  if (flat()) return threads();
  if (!options_.like.empty()) {
    ASSIGN_OR_RETURN(const Opened like, open_source(world_.processes(), options_.like));
    if (!like.interval) return not_an_interval_file(options_.like);
    const auto most = std::max(kMostRanks, static_cast<std::size_t>(world_.processes().size()));
    if (const std::size_t processes = like.interval->root().processes; processes > most)
      return fail(
          Error{.code = Code::kArgument,
                .what = fmt::format("it has {} processes, and there can be {} at most, or as many as mpiexec starts",
                                    processes, most),
                .path = options_.like});
    ASSIGN_OR_RETURN(like_, content_by_process(*like.interval));
    return static_cast<int>(like_.size());
  }
  Status read;
  try {
    views_ = read_views(options_.views, options_.file);
  } catch (const std::exception& error) {
    bad_views_ = fmt::format("{}: {}", options_.views, error.what());
    read = fail(Error{.code = Code::kArgument, .what = error.what(), .path = options_.views});
  }
  RETURN_IF_ERROR(agree(world_.processes(), read));
  return static_cast<int>(views_.by_rank.size());
}

std::vector<IntervalMap> Translation::views() const {
  if (!options_.like.empty()) return like_;
  std::vector<IntervalMap> bytes;
  for (const TiledView& view : views_.by_rank) bytes.push_back(bytes_of(view, size_));
  return bytes;
}

// For a generation that the target has not; false: there is none, and none will be waited for.
Result<bool> Translation::wait() {
  if (!options_.follow) return !opened_;
  const Waiting waiting{.other_than = which_, .seconds = options_.timeout.value_or(kForEver), .while_written = true};
  Group& group = world_.processes();
  ASSIGN_OR_RETURN(const Seen seen, which_ ? wait_for_generation(group, options_.source, waiting)
                                           : wait_aloud(group, options_.command, options_.source, waiting));
  if (seen.come) return true;
  if (seen.damage) return fail(*seen.damage);
  if (seen.open_for_writing || !seen.exists) gave_up_ = seen.text();
  if (which_ && !seen.has_locks)  // there were some
    return fail(Error{.code = Code::kUnsupportedOperation,
                      .what = fmt::format("whether its program still writes it is not known any more: {}", seen.text()),
                      .path = options_.source});
  if (which_ || gave_up_) return false;
  return fail(Error{
      .code = Code::kNoSuchFile, .what = fmt::format("no generation came: {}", seen.text()), .path = options_.source});
}

// By the leaders together: whether what they have opened is still there, so that it is one file.
Result<bool> Translation::is_there(const Opened& opened) const {
  FileId now;
  const bool mine = open_posix(options_.source, {.read = true}, &now) && now == opened.id;
  ASSIGN_OR_RETURN(const auto all, allgather(world_.processes(), int{mine}));
  return std::find(all.begin(), all.end(), 0) == all.end();
}

// By the leaders together; nothing: none will be waited for. What has come may be gone again, while its program makes the file
// anew, and is waited for again; who looks at it says what is wrong if it stays so.
Result<std::optional<Opened>> Translation::open_next() {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kPause{10};
  for (int left = options_.follow ? kTries : 1;; std::this_thread::sleep_for(kPause)) {
    ASSIGN_OR_RETURN(const bool more, wait());
    if (!more) return std::nullopt;
    auto opened = open_source(world_.processes(), options_.source);
    bool gone = opened ? !opened->interval
                       : opened.error().code == Code::kNoSuchFile || opened.error().code == Code::kBadFileName ||
                             opened.error().code == Code::kIo;
    if (!gone && opened && options_.follow && world_.processes().size() > 1) {
      ASSIGN_OR_RETURN(const bool there, is_there(*opened));
      gone = !there;
    }
    if (gone && --left > 0) continue;
    if (!opened) return fail(opened.error());
    return *std::move(opened);
  }
}

// By the leaders together: whether the source is a later generation of the file that was there before; then `changed_` is
// what it has changed. What cannot be read of the one before any more is another file's by now.
Result<bool> Translation::goes_on_from(Opened& before) {
  bool goes_on = before.interval && before.id == source_.id &&
                 before.interval->root().generation < source_.interval->root().generation;
  if (goes_on) {
    auto changed = guarded([&] { return changed_between(*before.interval, *source_.interval); });
    goes_on = changed.has_value();
    changed_ = goes_on ? *std::move(changed) : IntervalMap();
  }
  ASSIGN_OR_RETURN(const auto all, allgather(world_.processes(), int{goes_on}));
  return std::find(all.begin(), all.end(), 0) == all.end();
}

// By the leaders together: what is to be moved next.
Status Translation::next() {
  ASSIGN_OR_RETURN(auto opened, open_next());
  ended_ = !opened;
  if (ended_) return {};
  opened_ = true;
  Opened before = std::exchange(source_, *std::move(opened));  // keeps its pin until the two are compared
  if (options_.follow && source_.interval && !source_.locks)
    return fail(Error{.code = Code::kUnsupportedOperation,
                      .what = "its file system has no locks: a running program cannot be followed there",
                      .path = options_.source});
  if (source_.interval) {
    which_ = source_.which();
    size_ = source_.interval->root().size;
    ASSIGN_OR_RETURN(goes_on_, goes_on_from(before));
    if (flat() || !goes_on_) {
      ASSIGN_OR_RETURN(content_, content_of(*source_.interval));
    } else {
      content_ = changed_;
    }
  } else if (flat() || options_.follow) {
    return not_an_interval_file(options_.source);
  } else {
    ASSIGN_OR_RETURN(size_, source_.flat->size());
    content_ = all_bytes(size_);
  }
  if (!flat()) owners_ = assign(views(), content_);
  return {};
}

Status Translation::create(Group& group, const std::string& partial) const {
  Status created;
  if (group.rank() == 0)
    created = [&]() -> Status {
      ASSIGN_OR_RETURN(auto file,
                       open_posix(partial, {.read = true,
                                            .write = true,
                                            .create = true,
                                            .exclusive = true,
                                            .permissions = static_cast<int>(permissions_.value_or(kNewFile) | kOwn)}));
      return flat() ? file->resize(size_) : Status();  // an empty one becomes an interval file when it is opened
    }();
  return agree(group, created);
}

Status Translation::give_name(const std::string& partial) const {
  std::error_code failed;
  if (permissions_) fs::permissions(partial, *permissions_, failed);
  if (!failed) fs::rename(partial, target_, failed);
  return failed ? fail_errno(failed.value(), "giving the target its name", options_.target) : Status();
}

// Of views, which repeat: that one has hidden all others may surprise.
void Translation::note_who_gets_all() {
  noted_ = !content_.empty();
  if (options_.views.empty() || owners_.unclaimed > 0 || content_.empty()) return;
  const auto all = views();
  const auto have_some = std::count_if(all.begin(), all.end(), [](const IntervalMap& each) { return !each.empty(); });
  for (std::size_t process = 0; process < owners_.bytes.size(); ++process)
    if (have_some > 1 && owners_.bytes[process].size() == content_.size())
      fmt::print(stderr,
                 "stridio {}: note: process {} gets all {} bytes, the other processes none: a view repeats from its "
                 "extent on, and of bytes that several have the last gets them\n",
                 options_.command, process, content_.size());
}

// A generation of the target for one of the source.
Status Translation::to_intervals(Group& group, const std::string& partial, std::unique_ptr<IntervalFile>& target) {
  if (!target) {
    RETURN_IF_ERROR(create(group, partial));
    ASSIGN_OR_RETURN(OnMount opened, open_together(group, partial, true));
    ASSIGN_OR_RETURN(target,
                     IntervalFile::open(group, std::move(opened.storage), true, {}, summed_requests(opened.profile)));
  }
  if (group.rank() == 0 && owners_.unclaimed > 0 && !std::exchange(told_, true))
    fmt::print(stderr, "stridio {}: note: no view has {} bytes; process 0 gets them\n", options_.command,
               owners_.unclaimed);
  if (group.rank() == 0 && !noted_) note_who_gets_all();
  if (!goes_on_) RETURN_IF_ERROR(target->resize(0));  // what it has is another file's
  RETURN_IF_ERROR(target->resize(size_));
  RETURN_IF_ERROR(move_to_owners(group, source_.storage(), content_, owners_, *target, threads(),
                                 [&](double share) { bar_.show(share); }));
  return target->commit();
}

// A file for each generation.
Status Translation::to_flat(Group& group, const std::string& partial, std::unique_ptr<Storage>& target) {
  RETURN_IF_ERROR(create(group, partial));
  ASSIGN_OR_RETURN(OnMount opened, open_together(group, partial, true));
  const auto before = std::exchange(target, std::move(opened.storage));
  const std::optional<Earlier> earlier =
      before && goes_on_ ? std::optional<Earlier>({*before, changed_}) : std::nullopt;
  Deep writes = deep_of(opened.profile.write);
  writes.extend_first = false;  // it has its length
  RETURN_IF_ERROR(move_to_flat(group, source_.storage(), content_, *target, writes, earlier ? &*earlier : nullptr,
                               [&](double share) { bar_.show(share); }));
  return agree(group, target->sync());
}

// The target gets its name when it is complete, each time that it is made anew. Until then it has one that nobody else gives: of
// processes the numbers are the same in several containers.
Status Translation::on_rank(Group& group, bool leads) {
  std::random_device random;
  ASSIGN_OR_RETURN(const auto drawn, allgather(group, std::uint64_t{random()} << 32 | random()));
  const std::string ending = fmt::format(".stridio-partial-{:016x}", drawn.front());
  const std::string partial = target_ + ending;
  if (group.rank() == 0) will_.remove(partial);
  std::unique_ptr<IntervalFile> target;
  std::unique_ptr<Storage> flat_target;
  for (;;) {
    RETURN_IF_ERROR(agree(group, leads ? guarded([&] { return next(); }) : Status()));
    if (ended_) return {};
    const bool named = target != nullptr;
    Status done = flat() ? to_flat(group, partial, flat_target) : to_intervals(group, partial, target);
    if (group.rank() == 0) bar_.clear();
    if (!done && done.error().path.ends_with(ending)) done.error().path = options_.target;
    if (group.rank() == 0 && !named) {
      if (done) done = give_name(partial);
      if (!done) (void)remove_posix(partial);
    }
    RETURN_IF_ERROR(agree(group, done));
  }
}

Status Translation::run() {
  RETURN_IF_ERROR(agree(world_.processes(), check_names()));
  ASSIGN_OR_RETURN(const int ranks, read_owners());
  return world_.on_ranks(ranks, [&](Group& group, bool leads) { return on_rank(group, leads); });
}

// Every rank has the target open.
void allow_open_files() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int translate(const TranslateOptions& options, const Environment& environment) {
  allow_open_files();
  LastWill will;
  const auto complain = [&](const std::string& text) { fmt::print(stderr, "stridio {}: {}\n", options.command, text); };
  int status = kOwnError;
  const Status done = in_world(environment, [&](World& world) -> Status {
    Translation translation(options, world, will);
    const Status mine = agree(world.processes(), translation.run());
    if (mine) status = translation.gave_up() ? kNotInTime : 0;
    if (world.processes().rank() == 0 && !mine)
      complain(!translation.bad_views().empty() ? translation.bad_views()
               : world.launched()               ? mine.error().text()
                                                : text_in_one_process(mine.error()));
    if (world.processes().rank() == 0 && status == kNotInTime)
      complain(fmt::format("{}: no new generation in time: {}", options.source, *translation.gave_up()));
    return world.processes().barrier();  // a launcher ends all when the first has failed: when it is told
  });
  if (!done) complain(done.error().text());
  return done ? status : kOwnError;
}

int wait_for(const std::string& path, std::uint64_t newer_than, std::optional<double> timeout) {
  int status = 0;
  run_threads(1, {}, [&](Group& group) {
    const auto seen =
        wait_aloud(group, "wait", path, {.newer_than = newer_than, .seconds = timeout.value_or(kForEver)});
    if (!seen || seen->damage) {
      fmt::print(stderr, "stridio wait: {}\n", text_in_one_process(seen ? *seen->damage : seen.error()));
      status = kOwnError;
    } else if (seen->come) {
      fmt::print("{}\n", seen->generation);
    } else {
      fmt::print(stderr, "stridio wait: {}: no generation newer than {} in time: {}\n", path, newer_than, seen->text());
      status = kNotInTime;
    }
  });
  return status;
}

}  // namespace stridio
