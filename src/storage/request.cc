#include "storage/request.h"

#include <limits>
#include <string>

namespace stridio {

namespace {

constexpr Offset kMost = std::numeric_limits<Offset>::max();

Result<Bytes> total_of(std::span<const Extent> extents) {
  Bytes total = 0;
  for (const Extent& extent : extents) {
    if (extent.offset < 0 || extent.length < 0 || extent.length > kMost - extent.offset ||
        extent.length > kMost - total)
      return fail(Code::kArgument, "extent of " + std::to_string(extent.length) + " bytes at offset " +
                                       std::to_string(extent.offset) + " is not within 0 .. 2^63 - 1");
    total += extent.length;
  }
  return total;
}

Result<Bytes> total_of(std::span<const Span> memory) {
  Bytes total = 0;
  for (const Span& piece : memory) {
    if (piece.length < 0 || piece.length > kMost - total)
      return fail(Code::kArgument, "memory piece of " + std::to_string(piece.length) + " bytes is not possible");
    total += piece.length;
  }
  return total;
}

}  // namespace

Status check_request(std::span<const Extent> extents, std::span<const Span> memory) {
  ASSIGN_OR_RETURN(const Bytes in_file, total_of(extents));
  ASSIGN_OR_RETURN(const Bytes in_memory, total_of(memory));
  if (in_file != in_memory)
    return fail(Code::kArgument,
                "the extents hold " + std::to_string(in_file) + " bytes, the memory " + std::to_string(in_memory));
  return {};
}

Extent bounds_of(std::span<const Extent> extents) {
  Offset begin = kMost, end = 0;
  for (const Extent& each : extents) {
    if (each.empty()) continue;
    begin = std::min(begin, each.offset);
    end = std::max(end, each.end());
  }
  return end == 0 ? Extent{} : Extent{begin, end - begin};
}

Bytes size_of(std::span<const Extent> extents) {
  Bytes size = 0;
  for (const Extent& extent : extents) size += extent.length;
  return size;
}

}  // namespace stridio
