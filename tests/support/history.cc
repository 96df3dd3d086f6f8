// Known: who came before whom in time, and that who saw a value came after its writer. Every other writer of a cell that was
// seen comes before the writer seen or after the reader; where one of these is impossible, the other is known too. When
// nothing more follows, an open choice is made and what follows from it worked out; a circle is a contradiction. (A choice
// goes by who began first, and is never taken back.)
#include "support/history.h"

#include <algorithm>
#include <map>
#include <set>

namespace stridio::testing {
namespace {

class Order {
 public:
  explicit Order(std::size_t count) : count_(count), words_((count + 63) / 64), after_(count * words_) {}

  bool before(std::size_t a, std::size_t b) const { return after_[a * words_ + b / 64] >> (b % 64) & 1; }
  // False where it would close a circle.
  bool add(std::size_t a, std::size_t b) {
    if (a == b || before(b, a)) return false;
    if (before(a, b)) return true;
    for (std::size_t i = 0; i < count_; ++i) {
      if (i != a && !before(i, a)) continue;
      after_[i * words_ + b / 64] |= std::uint64_t{1} << (b % 64);
      for (std::size_t w = 0; w < words_; ++w) after_[i * words_ + w] |= after_[b * words_ + w];
    }
    return true;
  }

 private:
  const std::size_t count_, words_;
  std::vector<std::uint64_t> after_;
};

std::string name(const Operation& operation) {
  return std::string(operation.writes ? "the write of " : "a read at ") +
         std::to_string(operation.writes ? static_cast<std::int64_t>(operation.value) : operation.begin) + " by rank " +
         std::to_string(operation.rank);
}

}  // namespace

std::string explain_disorder(const std::vector<Operation>& history) {
  Order order(history.size());
  for (std::size_t a = 0; a < history.size(); ++a)
    for (std::size_t b = 0; b < history.size(); ++b)
      if (history[a].end < history[b].begin && !order.add(a, b)) return "time runs in a circle";

  std::map<std::uint64_t, std::size_t> writer_of;
  std::map<std::uint32_t, std::vector<std::size_t>> writers;  // by cell
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (!history[i].writes) continue;
    writer_of[history[i].value] = i;
    for (const std::uint32_t cell : history[i].cells) writers[cell].push_back(i);
  }
  // `other` is not between `writer` and `reader`; no writer: it is not before `reader`.
  struct Choice {
    std::size_t writer, reader, other;
  };
  constexpr std::size_t kNobody = ~std::size_t{0};
  std::set<std::tuple<std::size_t, std::size_t, std::size_t>> choices;
  for (std::size_t reader = 0; reader < history.size(); ++reader) {
    const Operation& read = history[reader];
    if (read.writes) continue;
    for (std::size_t i = 0; i < read.cells.size(); ++i) {
      std::size_t writer = kNobody;
      if (read.seen[i] != 0) {
        const auto found = writer_of.find(read.seen[i]);
        if (found == writer_of.end()) return name(read) + " saw a value that nobody wrote";
        writer = found->second;
        if (!order.add(writer, reader)) return name(read) + " saw " + name(history[writer]) + " before it was";
      }
      for (const std::size_t other : writers[read.cells[i]])
        if (other != writer) choices.emplace(writer, reader, other);
    }
  }
  std::vector<Choice> open;
  for (const auto& [writer, reader, other] : choices) open.push_back({writer, reader, other});
  bool guess = false;
  while (!open.empty()) {
    const std::size_t before = open.size();
    for (std::size_t i = 0; i < open.size();) {
      const auto [writer, reader, other] = open[i];
      const auto complain = [&] {
        return name(history[reader]) + " saw " + (writer == kNobody ? "nothing" : name(history[writer])) +
               " although " + name(history[other]) + " came between";
      };
      bool settled = false;
      if (writer == kNobody || order.before(writer, other)) {
        if (!order.add(reader, other)) return complain();
        settled = true;
      } else if (order.before(other, reader)) {
        if (!order.add(other, writer)) return complain();
        settled = true;
      } else if (order.before(other, writer) || order.before(reader, other)) {
        settled = true;
      } else if (guess) {
        guess = false;
        settled = history[reader].begin < history[other].begin ? order.add(reader, other) : order.add(other, writer);
        if (!settled) return complain();
      }
      if (settled) {
        open[i] = open.back();
        open.pop_back();
      } else {
        ++i;
      }
    }
    guess = open.size() == before;
  }
  return "";
}

}  // namespace stridio::testing
