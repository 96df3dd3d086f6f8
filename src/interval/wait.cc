#include "interval/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/crc32c.h"
#include "collective/agreement.h"
#include "interval/generation.h"
#include "interval/interval_file.h"

namespace stridio {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kShortestPause{0.001}, kLongestPause{0.1};
constexpr Seconds kGone{1};  // a program may close a file and open it again

}  // namespace

Which Which::of(const FileId& file, const Root& root) {
  return {file, root.generation, root.generation == kBirth ? 0 : crc32c(encode(root))};
}

std::string Seen::text() const {
  if (!exists) return "it does not exist";
  if (damage) return "it cannot be read: " + damage->what;
  const char* const writer = !has_locks ? "its file system has no locks, which would tell whether a program has it open"
                             : open_for_writing ? "a program has it open for writing"
                                                : "nobody has it open for writing";
  if (generation == 0) return fmt::format("it holds none, and {}", writer);
  return fmt::format("its newest is {}, and {}", generation, writer);
}

Result<Seen> look_at(const std::string& path, const Waiting& waiting) {
  FileId id;
  // Anew each time: so network file systems show the newest bytes.
  auto storage = open_posix(path, {.read = true}, &id);
  if (!storage && storage.error().code == Code::kNoSuchFile) return Seen{};
  if (!storage) return fail(storage.error());
  Seen seen{.exists = true};
  // The lock first: what a program has committed before it let go of it is seen.
  const auto locked = is_locked_posix(path, kWriterLock);
  seen.has_locks = locked || locked.error().code != Code::kUnsupportedOperation;
  if (!locked && locked.error().code == Code::kNoSuchFile) return Seen{};
  if (!locked && seen.has_locks) return fail(locked.error());
  seen.open_for_writing = locked.value_or(false);
  ASSIGN_OR_RETURN(const Head head, Head::read(**storage));
  if (head.content() == Head::Content::kNothing) return seen;
  if (head.content() == Head::Content::kOther)
    return fail(Error{.code = Code::kBadFileName, .what = "not an interval file: it has no generations", .path = path});
  const auto header = head.newest();
  if (!header && header.error().code != Code::kIo) return fail(header.error());
  seen.come = header && waiting.ends_with({id, header->generation, header->root_sum});
  if (seen.come) {
    const auto root = read_root(**storage, head, *header);
    if (!root) seen.damage = root.error();
  } else if (!header && !seen.open_for_writing) {  // while the first is being written, none is whole
    seen.damage = header.error();
  }
  if (seen.damage) {
    seen.come = false;
    ASSIGN_OR_RETURN(seen.size, (*storage)->size());
  } else {
    seen.generation = header ? header->generation : 0;
  }
  return seen;
}

Result<Seen> wait_for_generation(Group& group, const std::string& path, const Waiting& waiting) {
  struct Look {
    Verdict verdict, damage;
    bool ends = false, come = false, exists = false, open_for_writing = false, has_locks = true;
    std::uint64_t generation = 0;
  };
  const auto began = Clock::now();
  auto written = began, sound = began;
  Bytes size = 0;
  Seconds pause{0};
  for (;;) {
    Look mine;
    if (group.rank() == 0) {
      std::this_thread::sleep_for(pause);
      pause = std::clamp(pause * 1.5, kShortestPause, kLongestPause);
      const auto seen = look_at(path, waiting);
      const auto now = Clock::now();
      if (seen) {
        if (seen->open_for_writing || !seen->exists) written = now;
        // What is being written, or copied, may look damaged.
        if (!seen->damage || seen->size != size) sound = now;
        size = seen->size;
        if (seen->damage) (now - sound >= kGone ? mine.verdict : mine.damage) = verdict_of(fail(*seen->damage));
        mine.come = seen->come;
        mine.exists = seen->exists;
        mine.open_for_writing = seen->open_for_writing;
        mine.has_locks = seen->has_locks;
        mine.generation = seen->generation;
        mine.ends =
            seen->come || now - began >= Seconds(waiting.seconds) || (waiting.while_written && now - written >= kGone);
      } else {
        mine.verdict = verdict_of(fail(seen.error()));
      }
    }
    ASSIGN_OR_RETURN(const std::vector<Look> all, allgather(group, mine));
    const Look& look = all.front();
    RETURN_IF_ERROR(worst({&look.verdict, 1}));
    if (!look.ends) continue;
    Seen seen{.generation = look.generation,
              .come = look.come,
              .open_for_writing = look.open_for_writing,
              .has_locks = look.has_locks,
              .exists = look.exists};
    if (const Status damage = worst({&look.damage, 1}); !damage) seen.damage = damage.error();
    return seen;
  }
}

}  // namespace stridio
