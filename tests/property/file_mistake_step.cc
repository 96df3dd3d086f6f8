// Calls that are wrong on one rank: each has its error, on all ranks if the call is collective, and
// changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "property/file_step.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

struct Call {
  File& file;
  bool wrong;           // whether this rank is the one that errs
  Direction direction;  // that the access mode allows
};

struct Mistake {
  const char* name;
  Code code;
  bool collective;    // else only the one that errs calls
  bool needs_others;  // it is no mistake unless somebody does otherwise
  Status (*make)(const Call& call);
  bool (*possible)(const World& world) = [](const World& world) { return !world.setting.mode.sequential; };
};

Status transfer(const Call& call, Access access) {
  access.direction = call.direction;
  RETURN_IF_ERROR(call.file.transfer(access));
  return {};
}

Status set_view(const Call& call, Offset displacement, Bytes etype, const Pattern& filetype, Bytes extent) {
  if (!call.wrong) return call.file.set_view(View{0, 1, Pattern::run(0, 1), 1}, {});
  return call.file.set_view(View{displacement, etype, filetype, extent}, {});
}

constexpr Offset kLargest = std::numeric_limits<Offset>::max();

// Whether no byte has so large a data position: tiles that interleave hold more data than they take room.
bool has_an_end(const World& world) {
  return std::all_of(world.ranks.begin(), world.ranks.end(), [](const RankSide& side) { return side.view.regular(); });
}
bool has_an_end_to_seek(const World& world) { return has_an_end(world) && !world.setting.mode.sequential; }

bool always(const World&) { return true; }
bool writes(const World& world) { return world.setting.mode.writes(); }

const Mistake kMistakes[] = {
    {"a negative offset", Code::kArgument, true, false,
     [](const Call& call) {
       return transfer(call, {.collective = true, .offset = call.wrong ? -1 : 0, .memory = {}});
     }},
    {"a negative offset that is bound", Code::kArgument, true, false,
     [](const Call& call) -> Status {
       const Access access{.direction = call.direction, .collective = true, .offset = call.wrong ? -1 : 0};
       ASSIGN_OR_RETURN(const Access bound, call.file.bind(access));
       return transfer(call, bound);
     }},
    {"a negative offset of one that is bound", Code::kArgument, false, false,
     [](const Call& call) -> Status {
       RETURN_IF_ERROR(call.file.bind({.direction = call.direction, .offset = -1}));
       return {};
     }},
    {"an explicit offset in a sequential file", Code::kUnsupportedOperation, true, false,
     [](const Call& call) { return transfer(call, {.collective = true}); },
     [](const World& world) { return world.setting.mode.sequential; }},
    {"a seek in a sequential file", Code::kUnsupportedOperation, false, false,
     [](const Call& call) { return call.file.seek(0, Whence::kSet); },
     [](const World& world) { return world.setting.mode.sequential; }},
    {"an offset beyond all files", Code::kArgument, true, false,
     [](const Call& call) { return transfer(call, {.collective = true, .offset = call.wrong ? kLargest : 0}); },
     has_an_end_to_seek},
    {"a seek beyond all files", Code::kArgument, false, false,
     [](const Call& call) { return call.file.seek(kLargest, Whence::kSet); }, has_an_end_to_seek},
    {"a seek beyond all offsets", Code::kArgument, false, false,
     [](const Call& call) -> Status {
       ASSIGN_OR_RETURN(const Offset position, call.file.position());
       RETURN_IF_ERROR(call.file.seek(1, Whence::kSet));
       const Status refused = call.file.seek(kLargest, Whence::kCurrent);
       RETURN_IF_ERROR(call.file.seek(position, Whence::kSet));
       return refused;
     },
     has_an_end_to_seek},
    {"the place of an offset beyond all files", Code::kArgument, false, false,
     [](const Call& call) -> Status {
       RETURN_IF_ERROR(call.file.byte_offset(kLargest));
       return {};
     },
     has_an_end},
    {"the place of a negative offset", Code::kArgument, false, false,
     [](const Call& call) -> Status {
       RETURN_IF_ERROR(call.file.byte_offset(-1));
       return {};
     },
     always},
    {"a negative offset of one", Code::kArgument, false, false,
     [](const Call& call) { return transfer(call, {.offset = -1, .memory = {}}); }},
    {"arguments that do not convert", Code::kCount, true, false,
     [](const Call& call) {
       Access access{.collective = true, .memory = {}};
       if (call.wrong) access.invalid = Error{.code = Code::kCount, .what = "count -1 is negative"};
       return transfer(call, access);
     }},
    {"bytes that are no whole etypes", Code::kArgument, true, false,
     [](const Call& call) {
       std::byte byte[64];
       Access access{.collective = true, .memory = {}};
       if (call.wrong) access.memory = {byte, Pattern::run(0, 3)};
       return transfer(call, access);
     },
     [](const World& world) { return !world.setting.mode.sequential && world.ranks.front().view.etype() > 1; }},
    {"reading what may only be written", Code::kAccess, true, false,
     [](const Call& call) {
       return transfer({call.file, call.wrong, Direction::kRead}, {.collective = true, .memory = {}});
     },
     [](const World& world) { return world.setting.mode.write_only && !world.setting.mode.sequential; }},
    {"writing what may only be read", Code::kReadOnly, true, false,
     [](const Call& call) {
       return transfer({call.file, call.wrong, Direction::kWrite}, {.collective = true, .memory = {}});
     },
     [](const World& world) { return world.setting.mode.read_only && !world.setting.mode.sequential; }},
    {"a negative displacement", Code::kArgument, true, false,
     [](const Call& call) { return set_view(call, -1, 1, Pattern::run(0, 1), 1); }, always},
    {"a file type that is not of etypes", Code::kDatatype, true, false,
     [](const Call& call) { return set_view(call, 0, 4, Pattern::run(0, 6), 8); }, always},
    {"a file type that starts below 0", Code::kDatatype, true, false,
     [](const Call& call) { return set_view(call, 0, 1, Pattern::run(-4, 6), 8); }, always},
    {"a file type out of order", Code::kDatatype, true, false,
     [](const Call& call) { return set_view(call, 0, 1, Pattern::strided(2, -10, Pattern::run(20, 2)), 40); }, always},
    {"a file type without extent", Code::kDatatype, true, false,
     [](const Call& call) { return set_view(call, 0, 1, Pattern::run(0, 4), 0); }, always},
    {"a view with hints of one only", Code::kNotSame, true, true,
     [](const Call& call) {
       return call.file.set_view({}, call.wrong ? HintList{{"cb_nodes", "77"}} : HintList{}, {});
     },
     always},
    {"an overlapping file type", Code::kDatatype, true, false,
     [](const Call& call) { return set_view(call, 0, 1, Pattern::strided(3, 2, Pattern::run(0, 4)), 40); }, writes},
    {"different etypes", Code::kNotSame, true, true,
     [](const Call& call) { return set_view(call, 0, 2, Pattern::run(0, 2), 2); }, always},
    {"different sizes", Code::kNotSame, true, true,
     [](const Call& call) { return call.file.set_size(call.wrong ? 10 : 20); }, writes},
    {"a negative size", Code::kArgument, true, false,
     [](const Call& call) { return call.file.set_size(call.wrong ? -1 : 20); }, writes},
    {"resizing what may only be read", Code::kReadOnly, true, false,
     [](const Call& call) { return call.file.set_size(20); },
     [](const World& world) { return !world.setting.mode.writes(); }},
    {"different atomicity", Code::kNotSame, true, true,
     [](const Call& call) { return call.file.set_atomicity(call.wrong); },
     [](const World& world) { return world.setting.has_locks || world.setting.crew.all_share_memory(); }},
    {"different hints", Code::kNotSame, true, true,
     [](const Call& call) {
       return call.file.set_hints({{"cb_nodes", call.wrong ? "7" : "4"}});
     },
     always},
    {"a seek before the start", Code::kArgument, false, false,
     [](const Call& call) { return call.file.seek(-1, Whence::kSet); }},
    {"different shared seeks", Code::kNotSame, true, true,
     [](const Call& call) { return call.file.seek_shared(call.wrong ? 1 : 0, Whence::kSet); }},
};

class MistakeStep final : public Step {
 public:
  MistakeStep(World& world, const Mistake& mistake)
      : mistake_(mistake), culprit_(static_cast<int>(pick(world.random, 0, world.size() - 1))) {}

  std::string text() const override { return fmt::format("{} on rank {}", mistake_.name, culprit_); }
  bool collective() const override { return mistake_.collective; }

  Result<Bytes> act(World& world, Group& group) override {
    const bool wrong = group.rank() == culprit_;
    if (!wrong && !mistake_.collective) return 0;
    const auto direction = world.setting.mode.reads() ? Direction::kRead : Direction::kWrite;
    RETURN_IF_ERROR(mistake_.make({*world.side(group.rank()).file, wrong, direction}));
    return 0;
  }

  std::optional<std::string> wrong(World& world) override {
    for (int rank = 0; rank < world.size(); ++rank) {
      const Result<Bytes>& result = world.side(rank).result;
      const bool fails = mistake_.collective || rank == culprit_;
      if (fails == result.has_value())
        return fmt::format("rank {} {}", rank, fails ? "succeeds" : "fails: " + result.error().text());
      if (fails && result.error().code != mistake_.code)
        return fmt::format("rank {} fails with another error: {}", rank, result.error().text());
    }
    return std::nullopt;
  }

 private:
  const Mistake& mistake_;
  const int culprit_;
};

}  // namespace

std::unique_ptr<Step> draw_mistake(World& world) {
  const Mistake& mistake = kMistakes[world.random() % std::size(kMistakes)];
  if ((mistake.needs_others && world.size() == 1) || !mistake.possible(world)) return draw_transfer(world);
  return std::make_unique<MistakeStep>(world, mistake);
}

}  // namespace stridio::testing
