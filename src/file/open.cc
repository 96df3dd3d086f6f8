// Opening: rank 0 creates, if so asked, then all open; each step ends with an agreement, so that all ranks succeed or fail
// alike. Where a request takes long, the steps are what opening takes: none looks twice at the file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/guarded.h"
#include "base/log.h"
#include "collective/agreement.h"
#include "file/file_impl.h"
#include "file/hint_sources.h"
#include "file/profiles.h"
#include "interval/interval_file.h"
#include "interval/wait.h"
#include "storage/posix.h"

namespace stridio {

Status AccessMode::check() const {
  const int modes = read_only + write_only + read_write;
  if (modes != 1)
    return fail(Code::kAmode,
                fmt::format("the access mode names {} of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR; "
                            "exactly one is right",
                            modes));
  if (read_only && (create || exclusive))
    return fail(Code::kAmode, "MPI_MODE_RDONLY cannot be combined with MPI_MODE_CREATE or MPI_MODE_EXCL");
  if (read_write && sequential) return fail(Code::kAmode, "MPI_MODE_RDWR cannot be combined with MPI_MODE_SEQUENTIAL");
  return {};
}

namespace {

constexpr std::string_view kIntervalPrefix = "interval:";

// ROMIO's file-system prefixes name the kind of a mounted file system; the path is what follows. So does ours, which
// besides says what a new file becomes.
Result<std::string> path_of(const std::string& name) {
  if (name.starts_with(kIntervalPrefix)) return path_of(name.substr(kIntervalPrefix.size()));
  if (name.empty()) return fail(Code::kBadFileName, "the file name is empty");
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos || colon < 2) return name;
  const std::string_view prefix = std::string_view(name).substr(0, colon);
  for (const std::string_view mounted :
       {"ufs", "nfs", "xfs", "pvfs2", "gpfs", "panfs", "lustre", "daos", "testfs", "ime", "quobyte"})
    if (prefix == mounted) return name.substr(colon + 1);
  for (const std::string_view later : {"stridio", "rados", "exnode"})
    if (prefix == later)
      return fail(Code::kUnsupportedOperation,
                  fmt::format("the prefix {}: names a storage that this version does not have yet; plain "
                              "paths and interval:, ufs:, nfs:, lustre: ... work",
                              prefix));
  if (prefix.find('/') == std::string_view::npos && name.compare(colon, 3, "://") == 0)
    return fail(Code::kBadFileName,
                fmt::format("the prefix {}:// is unknown; plain paths and ufs:, nfs:, lustre: ... work", prefix));
  return name;
}

// Calls `open` with the mode, and where that fails for want of leave to read, for writing alone if that will do.
template <typename Open>
auto open_as(const AccessMode& mode, const Hints& hints, bool creates, Open open) {
  OpenMode wanted{.read = true,  // sieving and sharing need to read what a writer holds
                  .write = mode.writes(),
                  .create = creates && mode.create,
                  .exclusive = creates && mode.exclusive,
                  .permissions = hints.permissions,
                  .keeps_mappings = true};
  auto opened = open(wanted);
  if (opened || !mode.write_only || opened.error().code != Code::kAccess) return opened;
  wanted.read = false;
  return open(wanted);
}

// The values of the hints that must agree, each with a nul behind it.
Buffer common_values(const Hints& hints) {
  Buffer values;
  for (const HintEntry& entry : hint_table()) {
    if (!entry.same_on_all) continue;
    const auto found = hints.entries.find(std::string(entry.name));
    const std::string value = found == hints.entries.end() ? "" : found->second;
    for (const char c : value) values.push_back(static_cast<std::byte>(c));
    values.push_back(std::byte{0});
  }
  return values;
}

Status check_common_values(std::span<const Buffer> all) {
  for (const Buffer& each : all) {
    if (each == all.front()) continue;
    std::size_t index = 0, at = 0;  // the first value that differs, by its place among the nul-ended ones
    while (at < each.size() && at < all.front().size() && each[at] == all.front()[at])
      index += each[at++] == std::byte{0};
    for (const HintEntry& entry : hint_table())
      if (entry.same_on_all && index-- == 0)
        return fail(Code::kNotSame,
                    fmt::format("hint {} must have the same value on all ranks, and has not", entry.name));
  }
  return {};
}

void print(Group& group, const std::vector<std::string>& warnings) {
  if (group.rank() == 0)
    for (const std::string& warning : warnings) warn(warning);
}

// Mode and hints, in one agreement, with whether each rank's `name` is good: what comes after is for all ranks or for none.
Status same_on_all(Group& group, const Status& name, const AccessMode& mode, const Hints& hints) {
  struct Said {
    AccessMode mode;
    Verdict checked;
  };
  const Status checked = mode.check();
  const Said said{mode, verdict_of(checked ? name : checked)};
  const auto first = std::as_bytes(std::span(&said, 1));
  Buffer mine(first.begin(), first.end());
  const Buffer values = common_values(hints);
  mine.insert(mine.end(), values.begin(), values.end());
  ASSIGN_OR_RETURN(std::vector<Buffer> all, allgatherv(group, mine));
  std::vector<Verdict> verdicts;
  bool same = true;
  for (Buffer& each : all) {
    Said theirs;
    std::memcpy(&theirs, each.data(), sizeof theirs);
    each.erase(each.begin(), each.begin() + sizeof theirs);
    verdicts.push_back(theirs.checked);
    same = same && theirs.mode == mode;
  }
  RETURN_IF_ERROR(worst(verdicts));
  if (!same) return fail(Code::kNotSame, "open: the access mode must be the same on all ranks");
  return check_common_values(all);
}

// What rank 0 has learnt of the file, which all take over.
struct Learnt {
  Profile profile = {};  // of its mount
  bool interval = false;
  bool checks = false;
};

// What a rank has opened.
struct Opened {
  FileId id = {};
  bool readable = true;  // in the end by all ranks
  bool caches = false;   // in the end on any node
  Learnt learnt = {};
};

// An agreement after opening; where all could, rank 0 tells the others more. Names are each rank's own, relative to its directory:
// that they lead to one file is seen here, where numbers of files can be compared, which is on one node and device.
Result<Opened> all_opened(Group& group, const Status& mine, const Opened& opened, Buffer& told) {
  struct Entry {
    Verdict verdict;
    Opened opened;
    std::size_t told;  // bytes
  };
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, allgather(group, Entry{verdict_of(mine), opened, told.size()}));
  std::vector<Verdict> verdicts;
  for (const Entry& entry : entries) verdicts.push_back(entry.verdict);
  RETURN_IF_ERROR(worst(verdicts));
  std::vector<int> first_of(static_cast<std::size_t>(group.node_count()), -1);
  for (int rank = 0; rank < group.size(); ++rank) {
    int& first = first_of[static_cast<std::size_t>(group.node_of(rank))];
    if (first < 0) first = rank;
    const FileId& here = entries[static_cast<std::size_t>(rank)].opened.id;
    const FileId& there = entries[static_cast<std::size_t>(first)].opened.id;
    if (here.device == there.device && here.inode != there.inode)
      return fail(Code::kNotSame,
                  fmt::format("open: the names of ranks {} and {} do not lead to the same file; relative ones "
                              "start at each rank's own directory",
                              first, rank));
  }
  Opened all = entries.front().opened;
  for (const Entry& entry : entries) {
    all.readable = all.readable && entry.opened.readable;
    all.caches = all.caches || entry.opened.caches;
  }
  if (entries.front().told == 0) return all;
  told.resize(entries.front().told);
  const Span span{told.data(), std::ssize(told)};
  std::vector<Message> sends, receives;
  if (group.rank() > 0) receives.push_back({0, span});
  for (int rank = 1; group.rank() == 0 && rank < group.size(); ++rank) sends.push_back({rank, span});
  RETURN_IF_ERROR(group.exchange(sends, receives));
  return all;
}

// What a file is, its content says; an empty one becomes what is wanted, before anything that takes time is done. `made`: of a new
// one, before that.
Result<bool> is_interval_file(Storage& storage, const FileParts& parts, const FileId& id, bool wants_intervals,
                              std::optional<SinceBoot> made, IntervalFile::Begun& begun) {
  const auto known = known_profile_of(storage.path(), id);
  const bool writes = parts.mode.writes();
  if (wants_intervals && writes) {
    const bool far = known && known->write.waits();
    ASSIGN_OR_RETURN(begun, made && far ? IntervalFile::begin_newborn(storage, *made)
                                        : IntervalFile::begin_writing(storage, made.has_value()));
    if (begun.head.content() == Head::Content::kOther)
      warn(fmt::format("{} is a flat file and stays one, though an interval file is asked for: delete it before",
                       parts.path));
  } else {
    ASSIGN_OR_RETURN(begun.head, Head::read(storage, known && !known->read.waits()));
    if (writes && begun.head.content() == Head::Content::kIntervals) {
      ASSIGN_OR_RETURN(begun, IntervalFile::begin_writing(storage));
    }
  }
  return begun.head.content() == Head::Content::kIntervals;
}

Error must_be_readable(const std::string& path) {
  return {.code = Code::kAccess, .what = "an interval file must be readable by who writes it", .path = path};
}

// By rank 0, for all.
Result<Learnt> learn(Storage& storage, const FileId& id, FileParts& parts, bool wants_intervals,
                     std::optional<SinceBoot> made, IntervalFile::Begun& begun) {
  bool interval = false;
  if (parts.readable) {
    ASSIGN_OR_RETURN(interval, is_interval_file(storage, parts, id, wants_intervals, made, begun));
  } else if (wants_intervals) {
    return fail(must_be_readable(storage.path()));
  }
  parts.profile = profile_of(storage.path(), id);
  return Learnt{.profile = parts.profile, .interval = interval, .checks = Conflicts::wanted()};
}

// Collective: the storage and what it is. The first rank creates the file; what only it does then, it does while the others open it.
Status open_storage(Group& group, const std::string& path, bool wants_intervals, FileParts& parts) {
  const AccessMode& mode = parts.mode;
  Opened opened;
  const auto open_here = [&](const OpenMode& wanted) -> Result<std::unique_ptr<Storage>> {
    parts.readable = opened.readable = wanted.read;
    return open_posix(path, wanted, &opened.id);
  };
  const bool creates = mode.create && !parts.replaces, first = group.rank() == 0;
  Result<std::unique_ptr<Storage>> storage = nullptr;
  std::optional<SinceBoot> made;  // of a new file, before that
  if (first && creates && wants_intervals) {
    AccessMode new_only = mode;
    new_only.exclusive = true;
    const SinceBoot began = since_boot();
    storage = open_as(new_only, parts.hints, creates, open_here);
    if (storage) made = began;
  }
  if (first && !made) storage = open_as(mode, parts.hints, creates, open_here);
  if (creates) RETURN_IF_ERROR(agree(group, storage ? Status() : fail(storage.error())));
  if (!first) storage = open_as(mode, parts.hints, false, open_here);
  Status mine = storage ? Status() : fail(storage.error());
  if (storage) opened.caches = (*storage)->caps().caches;
  std::unique_ptr<IntervalFile> interval;
  IntervalFile::Begun begun{};  // ends before what has the storage
  Buffer told;
  const auto make_interval = [&] {
    interval = IntervalFile::make(group, wrap_trace(std::move(*storage), parts.report->storage()), mode.writes(),
                                  summed_requests(parts.profile));
  };
  if (storage && first)
    mine = guarded([&]() -> Status {
      ASSIGN_OR_RETURN(opened.learnt, learn(**storage, opened.id, parts, wants_intervals, made, begun));
      if (!opened.learnt.interval) return {};
      make_interval();
      ASSIGN_OR_RETURN(told, interval->begin(std::move(begun)));
      return {};
    });
  ASSIGN_OR_RETURN(const Opened agreed, all_opened(group, mine, opened, told));
  parts.readable = agreed.readable;
  parts.caches = agreed.caches;
  if (agreed.learnt.interval && !agreed.readable) return fail(must_be_readable(parts.path));
  parts.profile = agreed.learnt.profile;
  parts.checks = agreed.learnt.checks;
  if (!agreed.learnt.interval) {
    parts.storage = wrap_trace(std::move(*storage), parts.report->storage());
    if (parts.replaces) parts.storage->expect_sync();
    return {};
  }
  if (!first) make_interval();
  RETURN_IF_ERROR(interval->join(told));
  parts.interval = interval.get();
  parts.storage = std::move(interval);
  return {};
}

// Collective: whether the file is replaced, which an interval file is not. Rank 0 gets what does it.
Result<bool> begin_replacement(Group& group, const std::string& path, const AccessMode& mode, const Hints& hints,
                               bool wants_intervals, std::unique_ptr<Replacement>& made) {
  Status mine;
  int replaces = 1;
  if (group.rank() == 0) {
    mine = guarded([&]() -> Status {
      Head::Content content = Head::Content::kNothing;
      if (const auto storage = open_posix(path, {.read = true})) {
        ASSIGN_OR_RETURN(const Head head, Head::read(**storage));
        content = head.content();
      }
      if (content == Head::Content::kIntervals || (content == Head::Content::kNothing && wants_intervals)) {
        replaces = 0;
        return {};
      }
      ASSIGN_OR_RETURN(made, Replacement::begin(path, mode, hints.permissions));
      return {};
    });
  }
  RETURN_IF_ERROR(agree(group, mine));
  ASSIGN_OR_RETURN(const std::vector<int> all, allgather(group, replaces));
  return all.front() == 1;
}

// As long as the hints say, for a generation that is newer than they say. Collective.
Status wait_as_hinted(Group& group, const std::string& path, const Hints& hints) {
  const std::uint64_t newer_than = *hints.wait_generation;
  const Waiting waiting{.newer_than = newer_than, .seconds = static_cast<double>(hints.wait_seconds)};
  ASSIGN_OR_RETURN(const Seen seen, wait_for_generation(group, path, waiting));
  if (seen.come) return {};
  if (seen.damage) return fail(*seen.damage);
  return fail(
      Error{.code = Code::kNoSuchFile,
            .what = fmt::format("no generation newer than {} of the interval file came within {} s: {}; asked for by "
                                "the hints stridio_wait_generation and stridio_wait_seconds",
                                newer_than, hints.wait_seconds, seen.text()),
            .path = path});
}

}  // namespace

Result<Hints> agree_on_hints(Group& group, Hints hints, const std::vector<std::string>& warnings) {
  print(group, warnings);
  ASSIGN_OR_RETURN(const std::vector<Buffer> all, allgatherv(group, common_values(hints)));
  RETURN_IF_ERROR(check_common_values(all));
  return hints;
}

Result<std::unique_ptr<File>> File::open(std::shared_ptr<Group> group, const std::string& name, const AccessMode& mode,
                                         const HintList& given) {
  auto report = std::make_unique<Report>();
  FileParts parts{.group = group,
                  .storage = nullptr,
                  .report = std::move(report),
                  .mode = mode,
                  .hints = {},
                  .path = {},
                  .report_directory = {},
                  .explain = false};
  {
    const Stopwatch watch(parts.report->times().open), all(parts.report->times().total);
    std::vector<std::string> warnings;
    parts.hints = hints_for(name, given, warnings);
    print(*group, warnings);
    auto path = path_of(name);
    RETURN_IF_ERROR(same_on_all(*group, path ? Status() : fail(path.error()), mode, parts.hints));
    const bool wants_intervals = parts.hints.interval || name.starts_with(kIntervalPrefix);
    parts.path = *path;
    if (parts.hints.commit_atomic && mode.writes()) {
      ASSIGN_OR_RETURN(parts.replaces,
                       begin_replacement(*group, *path, mode, parts.hints, wants_intervals, parts.replacement));
      if (parts.replaces) path = Replacement::beside(*path);
    }
    if (mode.read_only && parts.hints.wait_generation) RETURN_IF_ERROR(wait_as_hinted(*group, *path, parts.hints));
    RETURN_IF_ERROR(open_storage(*group, *path, wants_intervals, parts));
  }
  if (const char* directory = std::getenv("STRIDIO_REPORT_DIR")) parts.report_directory = directory;
  if (const char* explain = std::getenv("STRIDIO_EXPLAIN")) parts.explain = *explain == '1';
  if (parts.explain && group->rank() == 0) inform(fmt::format("{}: {}", parts.path, describe(parts.profile)));
  auto file = std::make_unique<FileImpl>(std::move(parts));
  if (group->rank() == 0) print_hints_if_wanted(file->hints());
  RETURN_IF_ERROR(file->begin());
  return file;
}

Status File::remove(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, path_of(name));
  IntervalFile::await_closed();
  return remove_posix(path);
}

}  // namespace stridio
