#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "file/hint_sources.h"

namespace stridio {
namespace {

Hints given_hints(const HintList& given, std::vector<std::string>& warnings) {
  warnings.clear();
  return apply_hints({}, given, "program", warnings);
}

TEST(Hints, DefaultsInTheTableAreTheOnesInForce) {
  std::vector<std::string> warnings;
  HintList defaults;
  for (const HintEntry& entry : hint_table())
    if (!entry.default_value.empty()) defaults.emplace_back(entry.name, entry.default_value);
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

TEST(Hints, WhatCountsAtOpenIsIgnoredLater) {
  const HintList later = of_open_files({{"stridio_commit", "atomic"}, {"cb_nodes", "2"}, {"theirs", "kept"}});
  EXPECT_EQ(later, (HintList{{"cb_nodes", "2"}, {"theirs", "kept"}}));
}

TEST(Hints, TheEnvironmentsMistakesAreNamed) {
  setenv("STRIDIO_HINTS", "nonsense; stridio_layout = interval ;;Stridio_method=list;stridio_cache=on", 1);
  std::vector<std::string> warnings;
  const Hints hints = hints_for("name", {}, warnings);
  unsetenv("STRIDIO_HINTS");
  EXPECT_TRUE(hints.interval);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("nonsense is ignored: write NAME=VALUE"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("did you mean stridio_method?"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[2].find("its values are enable, disable, automatic"), std::string::npos) << warnings[2];
}

TEST(Hints, ABadValueIsIgnoredWithAWarning) {
  std::vector<std::string> warnings;
  for (const auto& [name, value] : HintList{{"cb_buffer_size", "12"},
                                            {"cb_buffer_size", "4096x"},
                                            {"cb_nodes", "-1"},
                                            {"file_perm", "rw-r-----"},
                                            {"file_perm", "02755"},
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

TEST(Hints, RomiosFileIsReadAsRomioDoes) {
  EXPECT_EQ(parse_hint_lines("# a comment\ncb_nodes 7\n\nromio_cb_write   enable  # and so on\nalone\n"),
            (HintList{{"cb_nodes", "7"}, {"romio_cb_write", "enable"}}));
}

TEST(Hints, PatternsOfNames) {
  const std::string text = "*.h5:cb_nodes=3:romio_cb_write=enable,/scratch/*:cb_nodes=5,a?c:cb_nodes=9";
  EXPECT_EQ(parse_hint_patterns(text, "/home/x.h5"), (HintList{{"cb_nodes", "3"}, {"romio_cb_write", "enable"}}));
  EXPECT_EQ(parse_hint_patterns(text, "/scratch/deep/abc"), (HintList{{"cb_nodes", "5"}, {"cb_nodes", "9"}}));
  EXPECT_TRUE(parse_hint_patterns(text, "/home/h5").empty());
  EXPECT_TRUE(parse_hint_patterns("", "/home/h5").empty());
}

TEST(Hints, TheStrongestSourceCountsAndIsNamed) {
  const std::string path = testing::TempDir() + "stridio-romio-hints";
  std::ofstream(path) << "cb_nodes 1\ncb_buffer_size 8192\nromio_ds_read disable\nstriping_factor 8\n";
  setenv("ROMIO_HINTS", path.c_str(), 1);
  setenv("MPICH_MPIIO_HINTS", "*.nc:cb_nodes=2:cb_buffer_size=16384", 1);
  setenv("STRIDIO_HINTS", "cb_nodes=3;romio_ds_write=disable", 1);
  std::vector<std::string> warnings;
  const Hints hints = hints_for("a.nc", {{"romio_ds_write", "automatic"}}, warnings);
  const Hints other = hints_for("a.h5", {}, warnings);
  setenv("ROMIO_HINTS", "/no/such/file", 1);
  const Hints missing = hints_for("a.h5", {}, warnings);
  for (const char* name : {"ROMIO_HINTS", "MPICH_MPIIO_HINTS", "STRIDIO_HINTS"}) unsetenv(name);
  std::remove(path.c_str());
  const auto has = [](const Hints& all, const char* name, const std::string& value, const std::string& source) {
    const auto given = all.sources.find(name);
    return all.entries.at(name) == value && (given == all.sources.end() ? kFromDefault : given->second) == source;
  };
  EXPECT_TRUE(has(hints, "cb_nodes", "3", "STRIDIO_HINTS"));
  EXPECT_TRUE(has(hints, "cb_buffer_size", "16384", "MPICH_MPIIO_HINTS"));
  EXPECT_TRUE(has(hints, "romio_ds_read", "disable", path));
  EXPECT_TRUE(has(hints, "romio_ds_write", "automatic", kFromProgram));
  EXPECT_TRUE(has(hints, "romio_cb_read", "automatic", kFromDefault));
  EXPECT_TRUE(has(hints, "striping_factor", "8", path));
  EXPECT_EQ(hints.cb_nodes, 3);
  EXPECT_EQ(other.cb_buffer_size, 8192);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings.front().find("/no/such/file"), std::string::npos);
  EXPECT_TRUE(has(missing, "cb_buffer_size", "4194304", kFromDefault));
}

TEST(Hints, CollectiveBufferingMeansBothDirections) {
  std::vector<std::string> warnings;
  const Hints off = given_hints({{"collective_buffering", "false"}}, warnings);
  EXPECT_EQ(off.cb_read, Switch::kDisable);
  EXPECT_EQ(off.cb_write, Switch::kDisable);
  EXPECT_EQ(off.entries.at("romio_cb_write"), "disable");
  const Hints later = given_hints({{"collective_buffering", "false"}, {"romio_cb_read", "enable"}}, warnings);
  EXPECT_EQ(later.cb_read, Switch::kEnable);
  EXPECT_EQ(later.cb_write, Switch::kDisable);
  EXPECT_TRUE(warnings.empty());
  given_hints({{"collective_buffering", "perhaps"}}, warnings);
  EXPECT_EQ(warnings.size(), 1u);
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
