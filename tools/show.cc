// The interval sets are cut by the ranks' own code, on threads.
#include "show.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/text.h"
#include "group/threads.h"
#include "interval/sets.h"
#include "output.h"
#include "views.h"

namespace stridio {

namespace {

constexpr std::int64_t kMostLines = 40;
constexpr std::int64_t kMostRectangles = 2000;  // of a row; then by columns
constexpr int kWidth = 1000, kRow = 22, kLeft = 80, kTop = 34;

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
  if (count > kMostLines) return;
  for (const auto& [begin, interval] : intervals)
    fmt::print("{:>12} - {:<12} {}\n", begin, interval.first - 1, text_of(classes[interval.second]));
}

// ---- Drawing

const char* color_of(const Class& each) {
  if (!each.exact) return "#999999";
  switch (each.ranks.size()) {  // Okabe and Ito's palette
    case 1: return "#56B4E9";
    case 2: return "#E69F00";
    case 3: return "#D55E00";
    default: return "#CC79A7";
  }
}

class Picture {
 public:
  explicit Picture(Offset end) : end_(end) {}

  // The bytes of a class in a row; where they are many, each column as dense as they are there.
  void draw(int row, const Class& each) {
    const std::string color = color_of(each), title = text_of(each);
    if (each.bytes.runs() <= kMostRectangles) {
      RunReader runs{Cursor(each.bytes)};
      while (const auto run = runs.next()) add(row, x_of(run->offset), x_of(run->end()), 1, color, title);
      return;
    }
    for (int column = 0; column < kWidth; ++column) {
      const auto edge = [&](int at) { return static_cast<Offset>(__int128{end_} * at / kWidth); };
      const Bytes inside = each.bytes.bytes_below(edge(column + 1)) - each.bytes.bytes_below(edge(column));
      if (inside > 0)
        add(row, column, column + 1, static_cast<double>(inside) / static_cast<double>(edge(column + 1) - edge(column)),
            color, title);
    }
  }

  std::string svg(int ranks) const {
    const int height = kTop + kRow * (ranks + 1) + 40;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + 20, height);
    text +=
        fmt::format("<text x=\"{}\" y=\"18\">byte 0</text>\n<text x=\"{}\" y=\"18\" text-anchor=\"end\">{}</text>\n",
                    kLeft, kLeft + kWidth, end_);
    for (int row = 0; row <= ranks; ++row)
      text += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, kTop + kRow * row + 15,
                          row < ranks ? fmt::format("rank {}", row) : "all");
    text += rectangles_;
    int x = kLeft;
    for (const auto& [color, name] : {std::pair("#56B4E9", "private"),
                                      {"#E69F00", "shared by 2"},
                                      {"#D55E00", "by 3"},
                                      {"#CC79A7", "by more"},
                                      {"#999999", "perhaps shared"}}) {
      text += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n<text x=\"{}\" y=\"{}\">{}</text>\n", x,
          height - 24, color, x + 16, height - 14, name);
      x += 120;
    }
    return text + "</svg>\n";
  }

 private:
  double x_of(Offset offset) const { return static_cast<double>(offset) / static_cast<double>(end_) * kWidth; }
  void add(int row, double from, double to, double opacity, const std::string& color, const std::string& title) {
    rectangles_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{:.2f}\" "
        "stroke=\"white\" "
        "stroke-width=\"0.3\"><title>{}</title></rect>\n",
        kLeft + from, kTop + kRow * row, std::max(to - from, 0.3), kRow - 4, color, opacity, title);
  }

  const Offset end_;
  std::string rectangles_;
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
    Picture picture(end);
    for (const Class& each : classes) {
      for (const int rank : each.ranks) picture.draw(rank, each);
      picture.draw(ranks, each);
    }
    const Status written = write_file(options.output, picture.svg(ranks));
    if (!written) refuse("the picture " + written.error().text());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "stridio show: {}: {}\n", options.source, error.what());
    return 1;
  }
}

}  // namespace stridio
