#include "views.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace stridio {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostNames = 20;
constexpr Bytes kLargest = Bytes{1} << 62;
constexpr std::string_view kIntervalPrefix = "interval:";  // of names to open; a report has the paths
constexpr const char* kWanted =
    "neither a description of views (`stridio show view --help` says its form) nor a report of `stridio run --report`";

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

std::string text_of(const Json& json) { return shortened(json.dump(), 60); }

// Of "[json.exception...] what is wrong" the second part.
std::string reason_of(const Json::exception& error) {
  const std::string text = error.what();
  return text.substr(text.find("] ") + 2);
}

// ---- Descriptions

void check_keys(const Json& json, const char* what, const std::vector<std::string>& known) {
  if (!json.is_object()) refuse(fmt::format("{} is {}, not an object {{...}}", what, text_of(json)));
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      refuse(fmt::format("\"{}\" is unknown in {}; known are {}", key, what, fmt::join(known, ", ")));
}

std::int64_t number(const Json& json, const char* what, std::int64_t least) {
  const bool large = json.is_number_unsigned() ? json.get<std::uint64_t>() > std::uint64_t{kLargest}
                                               : json.is_number() && json.get<double>() > static_cast<double>(kLargest);
  if (large) refuse(fmt::format("{} is {}, beyond the largest offset, {}", what, text_of(json), kLargest));
  const std::int64_t value = json.is_number_integer() ? json.get<std::int64_t>() : -1;
  if (value < least)
    refuse(fmt::format("{} is {}, not a whole number, {} or more{}", what, text_of(json), least,
                       json.is_number_float() ? ", written as an integer, without point and exponent" : ""));
  return value;
}

const Json& member(const Json& json, const char* what, const char* key) {
  if (!json.contains(key)) refuse(fmt::format("{} lacks \"{}\"", what, key));
  return json.at(key);
}

std::vector<std::int64_t> numbers(const Json& json, const char* what, std::size_t many, std::int64_t least) {
  if (!json.is_array() || json.size() != many)
    refuse(fmt::format("{} is {}, not [{}]", what, text_of(json), counted(static_cast<std::int64_t>(many), "number")));
  std::vector<std::int64_t> values;
  for (const Json& each : json) values.push_back(number(each, what, least));
  return values;
}

// `value`, if what is described ends where a file can.
Bytes in_a_file(__int128 value, const char* what) {
  if (value > kLargest) refuse(fmt::format("{} goes beyond the largest offset, {}", what, kLargest));
  return static_cast<Bytes>(value);
}

Pattern pieces(const Json& json) {
  if (!json.is_array()) refuse(fmt::format("regions are {}, not [[OFFSET, LENGTH], ...]", text_of(json)));
  std::vector<Extent> regions;
  for (const Json& each : json) {
    const auto values = numbers(each, "a region [OFFSET, LENGTH]", 2, 0);
    if (values[1] == 0) refuse(fmt::format("region {} is empty", text_of(each)));
    if (!regions.empty() && values[0] < regions.back().end())
      refuse(fmt::format("region {} begins before the end of the one before it, {}: they must ascend and not overlap",
                         text_of(each), regions.back().end()));
    in_a_file(__int128{values[0]} + values[1], "a region");
    regions.push_back({values[0], values[1]});
  }
  return Pattern::extents(regions);
}

Pattern vector(const Json& json) {
  const auto values = numbers(json, "vector [COUNT, LENGTH, STRIDE]", 3, 1);
  const Bytes count = values[0], length = values[1], stride = values[2];
  if (count > 1 && stride < length)
    refuse(fmt::format("vector {}: its pieces overlap: the stride must be {} or more", text_of(json), length));
  in_a_file(__int128{count - 1} * stride + length, "vector");
  return Pattern::strided(count, stride, Pattern::run(0, length));
}

// And how many bytes the whole array has.
std::pair<Pattern, Bytes> box(const Json& json) {
  check_keys(json, "subarray", {"sizes", "subsizes", "starts", "element"});
  const std::size_t dimensions = member(json, "subarray", "sizes").size();
  if (dimensions == 0) refuse("subarray: sizes must be [...], a number for each dimension");
  const auto sizes = numbers(json.at("sizes"), "sizes", dimensions, 1),
             subsizes = numbers(member(json, "subarray", "subsizes"), "subsizes", dimensions, 1),
             starts = numbers(member(json, "subarray", "starts"), "starts", dimensions, 0);
  Bytes unit = number(json.value("element", Json(1)), "element", 1);
  Pattern pattern = Pattern::run(0, unit);
  for (std::size_t d = dimensions; d-- > 0;) {
    const __int128 end = __int128{starts[d]} + subsizes[d];
    if (end > sizes[d])
      refuse(fmt::format("subarray: in dimension {} it ends at {}, beyond the array's size {}", d, end, sizes[d]));
    const Bytes inside = std::exchange(unit, in_a_file(__int128{unit} * sizes[d], "subarray"));
    pattern = Pattern::strided(subsizes[d], inside, pattern).shifted(starts[d] * inside);
  }
  return {pattern, unit};
}

std::vector<std::byte> bytes_of_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

// As a report has it, from a program.
Pattern encoded(const Json& json) {
  const auto hex = json.get<std::string>();
  if (hex.find_first_not_of("0123456789abcdef") != hex.npos) refuse("its pattern is not hexadecimal");
  auto decoded = Pattern::decode(bytes_of_hex(hex));
  if (!decoded) refuse(decoded.error().what);
  if (decoded->lower() < 0 || !decoded->nondecreasing())
    refuse("its pattern is no view's: displacements must not be negative, and ascend");
  return *std::move(decoded);
}

TiledView read_view(const Json& json, Offset end) {
  check_keys(json, "a view", {"rank", "displacement", "extent", "regions", "vector", "subarray", "pattern"});
  if (json.count("regions") + json.count("vector") + json.count("subarray") + json.count("pattern") != 1)
    refuse("exactly one of regions, vector and subarray is wanted");
  TiledView view;
  view.displacement = number(json.value("displacement", Json(0)), "displacement", 0);
  Bytes natural = end;
  if (json.contains("pattern")) {
    view.tile = encoded(json.at("pattern"));
  } else if (json.contains("vector")) {
    view.tile = vector(json.at("vector"));
  } else if (json.contains("subarray")) {
    Bytes whole = 0;
    std::tie(view.tile, whole) = box(json.at("subarray"));
    natural = std::max(natural, whole);
  } else {
    view.tile = pieces(json.at("regions"));
  }
  view.extent = number(json.value("extent", Json(std::max<Bytes>({1, natural, view.tile.upper()}))), "extent", 1);
  if (!json.contains("pattern") && view.tile.upper() > view.extent)
    refuse(fmt::format("its bytes reach to {}, beyond its extent {}", view.tile.upper(), view.extent));
  return view;
}

// ---- Reports

std::string listed(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), kMostNames);
  const auto more = names.size() - shown;
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// The views of the file that is asked for, or of the only one that has some.
Json views_of(const Json& files, std::string name) {
  if (name.starts_with(kIntervalPrefix)) name.erase(0, kIntervalPrefix.size());
  std::vector<std::string> names, with_views;
  Json found;
  for (const Json& file : files) {
    names.push_back(file.at("file"));
    const Json views = file.value("views", Json::array());
    if (!views.empty()) with_views.push_back(names.back());
    if (name.empty() ? !views.empty() : name == names.back()) found = views;
  }
  if (with_views.empty()) refuse("the report holds no views");
  if (name.empty() && with_views.size() > 1)
    refuse(fmt::format("choose one of the report's files by --file: {}", listed(with_views)));
  if (found.is_null()) refuse(fmt::format("the report has no file {}, but {}", name, listed(names)));
  if (found.empty()) refuse(fmt::format("it holds no views of {}, but of {}", name, listed(with_views)));
  return found;
}

Views read(const Json& json, const std::string& of_file) {
  if (!json.is_object() || !(json.contains("views") || json.contains("files"))) refuse(kWanted);
  const bool report = json.contains("files");
  if (!report) check_keys(json, "the description", {"views", "end"});
  if (!report && !of_file.empty()) refuse("--file is of a report, and this is a description of views");
  const Json views = report ? views_of(json.at("files"), of_file) : json.at("views");
  if (!views.is_array() || views.empty()) refuse("it holds no views: \"views\" must be [...], one a rank");
  Views all{{}, number(json.value("end", Json(0)), "end", 0)};
  std::map<std::size_t, TiledView> by_rank;
  for (const Json& view : views) {
    const std::size_t next = by_rank.empty() ? 0 : by_rank.rbegin()->first + 1;
    std::size_t rank = next;
    try {
      rank = view.is_object() ? static_cast<std::size_t>(number(view.value("rank", Json(next)), "rank", 0)) : next;
      if (rank >= kMostRanks) refuse(fmt::format("there can be {} ranks at most", kMostRanks));
      if (!by_rank.emplace(rank, read_view(view, all.end)).second) refuse("the rank has two views");
    } catch (const std::runtime_error& error) {
      refuse(fmt::format("view of rank {}: {}", rank, error.what()));
    } catch (const Json::exception& error) {
      refuse(fmt::format("view of rank {}: {}", rank, reason_of(error)));
    }
  }
  all.by_rank.resize(by_rank.rbegin()->first + 1);
  for (auto& [rank, view] : by_rank) all.by_rank[rank] = std::move(view);
  return all;
}

}  // namespace

Views read_views(const std::string& source, const std::string& of_file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) refuse("is a directory; a JSON file is wanted");
  std::ifstream stream(source);
  if (!stream) refuse("cannot be read");
  try {
    return read(Json::parse(stream), of_file);
  } catch (const Json::exception& error) {
    refuse(fmt::format("{}: {}", kWanted, reason_of(error)));
  }
}

}  // namespace stridio
