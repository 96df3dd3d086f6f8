#include "property/file_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "property/contents.h"
#include "property/seed.h"

namespace stridio::testing {

// ---- Views

ViewModel::ViewModel(const View& view) : view_(view), tile_(flatten(view.filetype)) {}

Offset ViewModel::offset_of(Bytes position) const {
  const auto n = static_cast<Bytes>(tile_.size());
  return view_.displacement + position / n * view_.filetype_extent + tile_[static_cast<std::size_t>(position % n)];
}

std::vector<Offset> ViewModel::offsets(Bytes position, Bytes length) const {
  std::vector<Offset> offsets;
  for (Bytes i = 0; i < length; ++i) offsets.push_back(offset_of(position + i));
  return offsets;
}

Bytes ViewModel::capacity(Offset limit) const {
  if (tile_.empty()) return 0;
  const Offset reach = *std::max_element(tile_.begin(), tile_.end()) + 1;
  const Bytes room = limit - view_.displacement - reach;
  return room < 0 ? 0 : (room / view_.filetype_extent + 1) * static_cast<Bytes>(tile_.size());
}

Offset ViewModel::end(Bytes length) const {
  Bytes position = 0;
  while (!tile_.empty() && offset_of(position) < length) ++position;
  return (position + etype() - 1) / etype();
}

bool ViewModel::regular() const {
  const auto ascends = [&](std::size_t i) { return tile_[i - 1] < tile_[i]; };
  for (std::size_t i = 1; i < tile_.size(); ++i)
    if (!ascends(i)) return false;
  return tile_.empty() || tile_.back() - tile_.front() < view_.filetype_extent;
}

// ---- Settings

namespace {

using Values = std::vector<const char*>;

void draw_hint(Random& random, HintList& hints, const char* name, const Values& values) {
  if (one_in(random, 2)) return;
  hints.emplace_back(name, values[random() % values.size()]);
}

HintList draw_hints(Random& random) {
  HintList hints;
  draw_hint(random, hints, "cb_buffer_size", {"4096", "5000", "8192", "65536"});
  draw_hint(random, hints, "cb_nodes", {"1", "2", "3", "5", "20"});
  draw_hint(random, hints, "romio_cb_read", {"enable", "disable", "automatic"});
  draw_hint(random, hints, "romio_cb_write", {"enable", "disable", "automatic"});
  draw_hint(random, hints, "romio_ds_read", {"enable", "disable", "automatic"});
  draw_hint(random, hints, "romio_ds_write", {"enable", "enable", "disable", "automatic"});
  draw_hint(random, hints, "ind_rd_buffer_size", {"4096", "5001"});
  draw_hint(random, hints, "ind_wr_buffer_size", {"4096", "5001"});
  draw_hint(random, hints, "stridio_method", {"direct", "list", "mapped", "sieve", "independent", "two_phase"});
  return hints;
}

AccessMode draw_mode(Random& random) {
  AccessMode mode;
  const std::int64_t kind = pick(random, 0, 9);
  mode.read_only = kind == 0;
  mode.write_only = kind == 1;
  mode.read_write = kind > 1;
  mode.create = kind == 2;
  mode.unique_open = one_in(random, 3);
  mode.append = one_in(random, 10);
  mode.sequential = !mode.read_write && one_in(random, 4);
  return mode;
}

FaultPlan draw_fault(Random& random) {
  constexpr int kErrors[] = {ENOSPC, EIO, EDQUOT};
  FaultPlan plan{.sys_errno = kErrors[random() % std::size(kErrors)]};
  plan.first = pick(random, 0, one_in(random, 2) ? 3 : 30);
  plan.every = one_in(random, 2) ? 1 : 0;
  plan.prefix = one_in(random, 2) ? 0 : pick(random, 0, 40);
  return plan;
}

}  // namespace

CrewOptions crew_of_setting(std::uint64_t seed) {
  constexpr int kSizes[] = {1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 7, 9};
  const std::uint64_t drawn = mixed(seed);
  const std::uint64_t more = drawn >> 32;
  CrewOptions crew{.ranks = kSizes[drawn % std::size(kSizes)], .shared_memory = more % 3 != 0};
  if (!crew.shared_memory || more % 2 == 0) crew.ranks_per_node = static_cast<int>(more / 6 % 4);
  return crew;
}

FileSetting make_setting(std::uint64_t seed) {
  Random random(mixed(seed ^ 0x2545F4914F6CDD1Du));
  FileSetting setting;
  setting.seed = seed;
  setting.crew = crew_of_setting(seed);
  setting.mode = draw_mode(random);
  setting.hints = draw_hints(random);
  setting.limit = one_in(random, 4) ? pick(random, 3000, 30000) : pick(random, 100, 1500);
  setting.length = pick(random, 0, setting.limit);
  setting.by_path = one_in(random, 4);
  setting.has_locks = setting.by_path || !one_in(random, 5);
  setting.readable = setting.by_path || !setting.mode.write_only || !one_in(random, 3);
  setting.steps = static_cast<int>(pick(random, 1, 8));
  if (!setting.by_path && one_in(random, 3)) {
    setting.fault = draw_fault(random);
    if (!one_in(random, 3)) setting.faulty_rank = static_cast<int>(pick(random, 0, setting.crew.ranks - 1));
  }
  return setting;
}

bool FileSetting::hint_is(const char* name, const char* value) const {
  for (const auto& [given, its_value] : hints)
    if (given == name) return its_value == value;
  return false;
}

std::string FileSetting::text() const {
  std::string text = fmt::format("{} ranks, {}, {} a node; {}{}{}{}{}; file of {} bytes {}", crew.ranks,
                                 crew.shared_memory ? "shared memory" : "messages", crew.ranks_per_node,
                                 mode.read_only    ? "RDONLY"
                                 : mode.write_only ? "WRONLY"
                                                   : "RDWR",
                                 mode.unique_open ? " UNIQUE_OPEN" : "", mode.append ? " APPEND" : "",
                                 mode.sequential ? " SEQUENTIAL" : "", mode.create ? " CREATE" : "", length,
                                 by_path ? "opened by its path" : "in memory");
  if (!has_locks) text += ", without locks";
  if (!readable) text += ", that may not be read";
  if (fault.first >= 0)
    text += fmt::format("; errno {} at operation {} of rank {}", fault.sys_errno, fault.first, faulty_rank);
  for (const auto& [name, value] : hints) text += fmt::format("\n  {}={}", name, value);
  return text;
}

// ---- The world

World::World(const FileSetting& opened, ScratchFile& at)
    : setting(opened),
      path(at),
      random(mixed(opened.seed + 7)),
      image(contents_of(kBefore), contents_of(kBefore) + opened.length),
      ranks(static_cast<std::size_t>(opened.crew.ranks)) {
  if (setting.by_path) path.fill(setting.length);
  if (!setting.by_path) file = make_filled_memory(setting.length);
}

bool World::may_modify_holes() const {
  if (setting.hint_is("romio_ds_write", "disable") || !setting.readable) return false;
  if (setting.locks_writes()) return true;
  return setting.mode.unique_open && same_view && ranks.front().view.regular();
}

bool World::any_struck() const {
  if (setting.fault.first < 0) return false;
  return std::any_of(ranks.begin(), ranks.end(), [](const RankSide& each) { return each.struck() > 0; });
}

bool World::fails(int rank, bool collective) const {
  return collective ? any_struck() : ranks[static_cast<std::size_t>(rank)].struck() > 0;
}

Image World::contents() const { return setting.by_path ? path.contents() : contents_of_memory(file); }

}  // namespace stridio::testing
