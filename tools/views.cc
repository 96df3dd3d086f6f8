#include "views.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stridio {
namespace {

using Json = nlohmann::json;

constexpr int kMostRanks = 1024;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

Pattern box(const Json& json) {
  const auto sizes = json.at("sizes").get<std::vector<Bytes>>(),
             subsizes = json.at("subsizes").get<std::vector<Bytes>>(),
             starts = json.at("starts").get<std::vector<Bytes>>();
  if (sizes.empty() || sizes.size() != subsizes.size() || sizes.size() != starts.size())
    refuse("a subarray needs as many sizes as subsizes and starts");
  Bytes unit = json.value("element", Bytes{1});
  Pattern pattern = Pattern::run(0, unit);
  for (std::size_t d = sizes.size(); d-- > 0; unit *= sizes[d])
    pattern = Pattern::strided(subsizes[d], unit, pattern).shifted(starts[d] * unit);
  return pattern;
}

std::vector<std::byte> bytes_of_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TiledView read_view(const Json& json, Offset end) {
  TiledView view;
  view.displacement = json.value("displacement", Offset{0});
  Bytes natural = end;
  if (json.contains("pattern")) {
    auto decoded = Pattern::decode(bytes_of_hex(json.at("pattern").get<std::string>()));
    if (!decoded) refuse(decoded.error().what);
    view.tile = *std::move(decoded);
  } else if (json.contains("vector")) {
    const auto [count, length, stride] = json.at("vector").get<std::array<Bytes, 3>>();
    view.tile = Pattern::strided(count, stride, Pattern::run(0, length));
  } else if (json.contains("subarray")) {
    view.tile = box(json.at("subarray"));
    Bytes whole = json.at("subarray").value("element", Bytes{1});
    for (const Bytes size : json.at("subarray").at("sizes").get<std::vector<Bytes>>()) whole *= size;
    natural = std::max(natural, whole);
  } else {
    std::vector<Extent> regions;
    for (const auto& [offset, length] : json.value("regions", std::vector<std::pair<Offset, Bytes>>()))
      regions.push_back({offset, length});
    view.tile = Pattern::extents(regions);
  }
  view.extent = json.value("extent", std::max<Bytes>({1, natural, view.tile.upper()}));
  if (view.displacement < 0 || view.extent <= 0 || view.tile.lower() < 0 || !view.tile.nondecreasing())
    refuse("a view is none: displacements must not be negative and ascend, and extents be positive");
  return view;
}

}  // namespace

Views read_views(const std::string& source, const std::string& of_file) {
  std::ifstream stream(source);
  if (!stream) refuse("cannot be read");
  const Json json = Json::parse(stream);
  Json views = json.value("views", Json());
  if (json.contains("files"))
    for (const Json& file : json.at("files"))
      if (views.empty() && (of_file.empty() || file.at("file") == of_file)) views = file.value("views", Json());
  Views all{{}, json.value("end", Offset{0})};
  for (const Json& view : views) {
    const std::size_t rank = view.value("rank", all.by_rank.size());
    if (rank >= kMostRanks) refuse(fmt::format("there are views of more than {} ranks", kMostRanks));
    if (rank >= all.by_rank.size()) all.by_rank.resize(rank + 1);
    all.by_rank[rank] = read_view(view, all.end);
  }
  if (all.by_rank.empty()) refuse("it holds no views");
  return all;
}

}  // namespace stridio
