// The interval sets are cut by the ranks' own code, on threads.
#include "show.h"

#include <cairo.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/text.h"
#include "group/threads.h"
#include "interval/sets.h"
#include "output.h"
#include "views.h"

namespace stridio {

namespace {

constexpr std::int64_t kMostLines = 40;
constexpr int kWidth = 1000, kRow = 22, kLeft = 80, kRight = 20, kTop = 34, kFontSize = 12;
constexpr double kGap = 0.3, kThinnest = 0.3;  // between intervals, and of one
constexpr double kPalest = 0.15;               // opacity of a column with few bytes
constexpr int kPixels = 2;                     // of a PNG, for a unit of width

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

// ---- Intervals

// What is alike: bytes that the same ranks share. One rank: private.
struct Class {
  std::vector<int> ranks;
  Pattern bytes;
  bool exact = true;
};

std::vector<IntervalSets> cut(const Views& views) {
  std::vector<IntervalSets> all(views.by_rank.size());
  IntervalOptions options;
  if (views.end > 0) options.end = views.end;
  run_threads(static_cast<int>(all.size()), {}, [&](Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    auto sets = cut_intervals(group, views.by_rank[rank], options);
    if (!sets) refuse(sets.error().what);
    all[rank] = *std::move(sets);
  });
  return all;
}

std::vector<Class> classes_of(const std::vector<IntervalSets>& all) {
  std::vector<Class> classes;
  std::set<std::pair<int, std::uint32_t>> known;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (Pattern alone = all[rank].private_bytes(); !alone.empty()) classes.push_back({{static_cast<int>(rank)}, alone});
    for (const SharedIntervals& each : all[rank].shared()) {
      if (!known.emplace(each.manager, each.lock).second) continue;
      Class shared{{}, each.bytes, each.exact};
      RunReader runs{Cursor(each.sharers)};
      while (const auto run = runs.next())
        for (Offset sharer = run->offset; sharer < run->end(); ++sharer)
          shared.ranks.push_back(static_cast<int>(sharer));
      classes.push_back(std::move(shared));
    }
  }
  return classes;
}

std::string text_of(const Class& each) {
  std::string text = each.ranks.size() == 1 ? "private to rank"
                     : each.exact           ? "shared by ranks"
                                            : "perhaps shared by ranks";
  for (std::size_t i = 0; i < each.ranks.size(); ++i) {
    const bool goes_on = i > 0 && each.ranks[i] == each.ranks[i - 1] + 1;
    const bool ends = i + 1 == each.ranks.size() || each.ranks[i + 1] != each.ranks[i] + 1;
    if (!goes_on)
      text += fmt::format(" {}", each.ranks[i]);
    else if (ends)
      text += fmt::format("-{}", each.ranks[i]);
  }
  return text;
}

void print_table(const std::vector<Class>& classes, Offset end, Bytes period) {
  std::map<Offset, std::pair<Offset, std::size_t>> intervals;
  std::int64_t count = 0;
  std::map<std::size_t, Bytes> bytes;  // by number of sharers
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bytes[classes[i].ranks.size()] += classes[i].bytes.size();
    count += classes[i].bytes.runs();
    if (classes[i].bytes.runs() > kMostLines) continue;
    RunReader runs{Cursor(classes[i].bytes)};
    while (const auto run = runs.next()) intervals[run->offset] = {run->end(), i};
  }
  fmt::print("{} in {}", counted(count, "interval"), counted(end, "byte"));
  if (period > 0) fmt::print(", of which the last {} repeat", period);
  for (const auto& [sharers, sum] : bytes)
    fmt::print("; {} {}", counted(sum, "byte"),
               sharers == 1 ? std::string("private") : fmt::format("shared by {}", sharers));
  fmt::print("\n");
  if (count > kMostLines) {
    fmt::print("They are more than {}, and not listed: --output draws them, --end N looks at those below byte N only\n",
               kMostLines);
    return;
  }
  for (const auto& [begin, interval] : intervals)
    fmt::print("{:>12} - {:<12} {}\n", begin, interval.first - 1, text_of(classes[interval.second]));
}

// ---- Drawing

using Color = std::uint32_t;  // 0xRRGGBB, of Okabe and Ito's palette
constexpr Color kPrivate = 0x56B4E9, kByTwo = 0xE69F00, kByThree = 0xD55E00, kByMore = 0xCC79A7, kPerhaps = 0x999999;

Color color_of(const Class& each) {
  if (!each.exact) return kPerhaps;
  switch (each.ranks.size()) {
    case 1: return kPrivate;
    case 2: return kByTwo;
    case 3: return kByThree;
    default: return kByMore;
  }
}

struct Rectangle {
  double x, y, width, height;
  Color color;
  double opacity = 1;
  std::string title = "";  // a tooltip, where there are such
};

struct Label {
  double x, y;  // of the line that it stands on: where it begins, or ends
  std::string text;
  bool ends = false;
};

template <auto release>
struct Release {
  void operator()(auto* what) const { release(what); }
};
using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Pen = std::unique_ptr<cairo_t, Release<cairo_destroy>>;

class Picture {
 public:
  Picture(int ranks, Offset end) : end_(end), height_(kTop + kRow * (ranks + 1) + 40) {
    labels_ = {{kLeft, 18, "byte 0"}, {kLeft + kWidth, 18, std::to_string(end), true}};
    for (int row = 0; row <= ranks; ++row)
      labels_.push_back({kLeft - 8, kTop + kRow * row + 15.0, row < ranks ? fmt::format("rank {}", row) : "all", true});
    double x = kLeft;
    for (const auto& [color, name] : {std::pair(kPrivate, "private"),
                                      {kByTwo, "shared by 2"},
                                      {kByThree, "by 3"},
                                      {kByMore, "by more"},
                                      {kPerhaps, "perhaps shared"}}) {
      rectangles_.push_back({x, height_ - 24.0, 12, 12, color});
      labels_.push_back({x + 16, height_ - 14.0, name});
      x += 120;
    }
  }

  // The bytes of a class in a row; where they are crowded, by columns, each as dense as they are there.
  void draw(int row, const Class& each) {
    const auto add = [&, title = text_of(each)](double from, double width, double opacity) {
      rectangles_.push_back({kLeft + from, kTop + 1.0 * kRow * row, width, kRow - 4, color_of(each), opacity, title});
    };
    if (!crowded(each.bytes)) {
      RunReader runs{Cursor(each.bytes)};
      while (const auto run = runs.next()) {
        const double from = x_of(run->offset);
        add(from, std::max(x_of(run->end()) - from - kGap, kThinnest), 1);
      }
      return;
    }
    for (int column = 0; column < kWidth; ++column) {
      const auto edge = [&](int at) { return static_cast<Offset>(__int128{end_} * at / kWidth); };
      const Bytes inside = each.bytes.bytes_below(edge(column + 1)) - each.bytes.bytes_below(edge(column));
      if (inside > 0)
        add(column, 1,
            std::max(static_cast<double>(inside) / static_cast<double>(edge(column + 1) - edge(column)), kPalest));
    }
  }

  std::string svg() const {
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"{2}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + kRight, height_, kFontSize);
    for (const auto& [x, y, width, height, color, opacity, title] : rectangles_)
      text += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"#{:06X}\" "
          "fill-opacity=\"{:.2f}\">{}</rect>\n",
          x, y, width, height, color, opacity, title.empty() ? title : "<title>" + title + "</title>");
    for (const auto& [x, y, words, ends] : labels_)
      text +=
          fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, ends ? "end" : "start", words);
    return text + "</svg>\n";
  }

  std::string png() const {
    const int width = kPixels * (kLeft + kWidth + kRight), height = kPixels * height_;
    const Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height));
    const Pen pen(cairo_create(surface.get()));
    draw_with(pen.get());
    cairo_status_t status = cairo_status(pen.get());
    std::string file;
    const auto append = [](void* to, const unsigned char* data, unsigned length) {
      static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface.get(), append, &file);
    if (status != CAIRO_STATUS_SUCCESS)
      refuse(fmt::format("a PNG of {} x {} pixels cannot be drawn: {}; an SVG has no limit", width, height,
                         cairo_status_to_string(status)));
    return file;
  }

 private:
  double x_of(Offset offset) const { return static_cast<double>(offset) / static_cast<double>(end_) * kWidth; }

  // Whether two intervals begin within a column.
  bool crowded(const Pattern& bytes) const {
    RunReader runs{Cursor(bytes)};
    double last = -1;
    while (const auto run = runs.next())
      if (const double from = x_of(run->offset); from - std::exchange(last, from) < 1) return true;
    return false;
  }

  void draw_with(cairo_t* pen) const {
    const auto choose = [&](Color color, double opacity) {
      const auto part = [&](int shift) { return (color >> shift & 0xFF) / 255.0; };
      cairo_set_source_rgba(pen, part(16), part(8), part(0), opacity);
    };
    cairo_scale(pen, kPixels, kPixels);
    choose(0xFFFFFF, 1);
    cairo_paint(pen);
    for (const Rectangle& each : rectangles_) {
      choose(each.color, each.opacity);
      cairo_rectangle(pen, each.x, each.y, each.width, each.height);
      cairo_fill(pen);
    }
    choose(0x000000, 1);
    cairo_select_font_face(pen, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(pen, kFontSize);
    for (const Label& each : labels_) {
      cairo_text_extents_t extents;
      cairo_text_extents(pen, each.text.c_str(), &extents);
      cairo_move_to(pen, each.ends ? each.x - extents.x_advance : each.x, each.y);
      cairo_show_text(pen, each.text.c_str());
    }
  }

  const Offset end_;
  const int height_;
  std::vector<Rectangle> rectangles_;
  std::vector<Label> labels_;
};

}  // namespace

int show_view(const ShowOptions& options) {
  try {
    Views views = read_views(options.source, options.file);
    if (options.end > 0) views.end = options.end;
    const std::vector<IntervalSets> sets = cut(views);
    const std::vector<Class> classes = classes_of(sets);
    const int ranks = static_cast<int>(sets.size());
    Offset end = 1;
    for (const IntervalSets& each : sets) end = std::max(end, each.end());
    print_table(classes, end, sets.front().period());
    if (options.output.empty()) return 0;
    Picture picture(ranks, end);
    for (const Class& each : classes) {
      for (const int rank : each.ranks) picture.draw(rank, each);
      picture.draw(ranks, each);
    }
    const Status written = write_file(options.output, options.output.ends_with(".png") ? picture.png() : picture.svg());
    if (!written) refuse("the picture " + written.error().text());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "stridio show: {}: {}\n", options.source, error.what());
    return 1;
  }
}

}  // namespace stridio
