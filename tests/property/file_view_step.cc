// Setting views: different on every rank, the same on all, or parts of one tile that all share.
#include <fmt/format.h>

#include "property/contents.h"
#include "property/file_step.h"
#include "property/seed.h"

namespace stridio::testing {
namespace {

// A file type of whole etypes: a pattern of any class, of which odd bytes at the end are cut off.
Pattern draw_filetype(Random& random, Bytes etype, Bytes span) {
  const Shape shape = kShapes[random() % std::size(kShapes)];
  const Pattern pattern = random_ascending(random, shape, span);
  const Pattern cut = pattern.slice(0, pattern.size() / etype * etype);
  return cut.empty() ? Pattern::run(0, etype) : cut;
}

View draw_view_of(Random& random, Bytes etype, Offset limit) {
  View view;
  view.displacement = one_in(random, 2) ? 0 : pick(random, 0, limit / 4);
  view.etype_size = etype;
  view.filetype = draw_filetype(random, etype, pick(random, 4, std::max<Bytes>(4, limit / 3)));
  view.filetype_extent = view.filetype.upper() + (one_in(random, 2) ? 0 : pick(random, 0, 20));
  return view;
}

// Elements of a rank's own in tiles that interleave: columns of a matrix, say.
View draw_interleaved(Random& random, Bytes etype, int rank, int ranks) {
  const Bytes element = etype * pick(random, 1, 5);
  const std::int64_t tiles = pick(random, 1, 4);
  View view;
  view.displacement = element * tiles * rank;
  view.etype_size = etype;
  view.filetype = Pattern::strided(pick(random, 1, 3), element * tiles * ranks, Pattern::run(0, element));
  view.filetype_extent = element;
  return view;
}

// The ranks' parts of a common tile.
View draw_part(Random& random, Bytes etype, int rank, int ranks, Offset limit) {
  View view = draw_view_of(random, etype, std::max<Offset>(12, limit / ranks));
  const Bytes tile = view.filetype_extent;
  view.displacement += rank * tile;
  view.filetype_extent = ranks * tile;
  return view;
}

class ViewStep final : public Step {
 public:
  explicit ViewStep(World& world) {
    Random& random = world.random;
    const Bytes etype = Bytes{1} << pick(random, 0, 3);
    const std::int64_t kind = pick(random, 0, 6);
    const std::uint64_t common = random();
    const char* buffers[] = {"4096", "4500", "9000"};
    if (one_in(random, 3)) hints_ = {{"cb_buffer_size", buffers[random() % 3]}, {"cb_nodes", "2"}};
    same_ = kind < 2 || world.size() == 1;
    for (int rank = 0; rank < world.size(); ++rank) {
      Random alike(common);
      if (kind < 2)
        views_.push_back(draw_view_of(alike, etype, world.setting.limit));
      else if (kind < 4)
        views_.push_back(draw_view_of(random, etype, world.setting.limit));
      else if (kind < 6)
        views_.push_back(draw_part(alike, etype, rank, world.size(), world.setting.limit));
      else
        views_.push_back(draw_interleaved(alike, etype, rank, world.size()));
    }
  }

  std::string text() const override {
    std::string text = "set_view";
    for (const View& view : views_)
      text += fmt::format(" [{}: {} bytes in {} ranges up to {} every {}, etype {}]", view.displacement,
                          view.filetype.size(), view.filetype.runs(), view.filetype.upper(), view.filetype_extent,
                          view.etype_size);
    return text;
  }
  bool collective() const override { return true; }

  Result<Bytes> act(World& world, Group& group) override {
    File& file = *world.side(group.rank()).file;
    RETURN_IF_ERROR(file.set_view(views_[static_cast<std::size_t>(group.rank())], hints_));
    return 0;
  }

  std::optional<std::string> wrong(World& world) override {
    if (auto failed = any_failed(world)) return failed;
    for (int rank = 0; rank < world.size(); ++rank) {
      world.side(rank).view = ViewModel(views_[static_cast<std::size_t>(rank)]);
      world.side(rank).pointer = 0;
    }
    world.shared_pointer = 0;
    world.same_view = same_;
    return std::nullopt;
  }

 private:
  std::vector<View> views_;
  HintList hints_;
  bool same_;
};

}  // namespace

std::unique_ptr<Step> draw_view(World& world) { return std::make_unique<ViewStep>(world); }

}  // namespace stridio::testing
