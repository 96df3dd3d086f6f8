#include "file/hints.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stridio {
namespace {

Hints given_hints(const HintList& given, std::vector<std::string>& warnings) {
  warnings.clear();
  return apply_hints({}, given, warnings);
}

TEST(Hints, DefaultsInTheTableAreTheOnesInForce) {
  std::vector<std::string> warnings;
  HintList defaults;
  for (const HintEntry& entry : hint_table())
    defaults.emplace_back(entry.name, entry.default_value);
  const Hints given = given_hints(defaults, warnings);
  EXPECT_TRUE(warnings.empty());
  const Hints none = given_hints({}, warnings);
  EXPECT_EQ(given.cb_buffer_size, none.cb_buffer_size);
  EXPECT_EQ(given.cb_nodes, none.cb_nodes);
  EXPECT_EQ(given.cb_read, none.cb_read);
  EXPECT_EQ(given.cb_write, none.cb_write);
  EXPECT_EQ(given.ds_read, none.ds_read);
  EXPECT_EQ(given.ds_write, none.ds_write);
  EXPECT_EQ(given.ind_rd_buffer_size, none.ind_rd_buffer_size);
  EXPECT_EQ(given.ind_wr_buffer_size, none.ind_wr_buffer_size);
  EXPECT_EQ(given.node_ranks, none.node_ranks);
}

TEST(Hints, AMisspeltNameWarnsAndNamesTheRightOne) {
  std::vector<std::string> warnings;
  const Hints hints = given_hints({{"stridio_metod", "list"}}, warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("did you mean stridio_method?"), std::string::npos) << warnings[0];
  EXPECT_FALSE(hints.entries.contains("stridio_metod"));
}

TEST(Hints, ABadValueIsIgnoredWithAWarning) {
  std::vector<std::string> warnings;
  for (const auto& [name, value] : HintList{{"cb_buffer_size", "12"},
                                            {"cb_buffer_size", "4096x"},
                                            {"cb_nodes", "-1"},
                                            {"romio_ds_write", "on"},
                                            {"stridio_method", "fastest"}}) {
    const Hints hints = given_hints({{name, value}}, warnings);
    EXPECT_EQ(warnings.size(), 1u) << name << "=" << value;
    EXPECT_EQ(hints.cb_buffer_size, 4 << 20);
  }
}

TEST(Hints, ForeignNamesAreKept) {
  std::vector<std::string> warnings;
  const Hints hints = given_hints({{"striping_factor", "8"}, {"cb_nodes", "3"}}, warnings);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(hints.entries.at("striping_factor"), "8");
  EXPECT_EQ(hints.entries.at("cb_nodes"), "3");
  EXPECT_EQ(hints.cb_nodes, 3);
}

// STRIDIO_UPDATE_DOCS=1 writes the page anew.
TEST(Hints, ThePageIsMadeFromTheTable) {
  const std::string path = STRIDIO_SOURCE_DIR "/docs/hints.md";
  if (std::getenv("STRIDIO_UPDATE_DOCS")) std::ofstream(path) << hints_markdown();
  std::ostringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), hints_markdown());
}

}  // namespace
}  // namespace stridio
