#include "file/view.h"

#include <fmt/format.h>

#include <limits>

namespace stridio {

Pattern view_pattern(const View& view, Bytes position, Bytes length) {
  if (length <= 0) return {};
  const Bytes tile = view.filetype.size();
  if (view.filetype.contiguous() && view.filetype_extent == tile)
    return Pattern::run(view.displacement + view.filetype.lower() + position, length);
  const std::int64_t first = position / tile;
  const std::int64_t last = (position + length - 1) / tile;
  const Bytes begin = position - first * tile;
  return Pattern::strided(last - first + 1, view.filetype_extent, view.filetype)
      .slice(begin, begin + length)
      .shifted(view.displacement + first * view.filetype_extent);
}

Bytes reach(const View& view) {
  constexpr __int128 kMost = std::numeric_limits<Offset>::max();
  if (view.filetype.empty()) return std::numeric_limits<Bytes>::max();
  const __int128 room = kMost - view.displacement - view.filetype.upper();
  if (room < 0) return -1;
  const __int128 tiles = room / view.filetype_extent;
  return static_cast<Bytes>(std::min(kMost, (tiles + 1) * view.filetype.size() - 1));
}

Status check_reach(const View& view, Offset offset, Bytes length) {
  if (__int128{offset} * view.etype_size + length <= reach(view)) return {};
  return fail(Code::kArgument, fmt::format("offset {} lies beyond the largest that a file can have", offset));
}

Bytes view_bytes_below(const View& view, Offset offset) {
  const Offset in_view = offset - view.displacement;
  if (in_view <= 0 || view.filetype.empty()) return 0;
  const Bytes extent = std::max<Bytes>(view.filetype_extent, 1);
  // The tile whose bytes start last before it; a file type may start anywhere, also behind its own extent.
  const std::int64_t tile = std::max<Offset>(0, in_view - view.filetype.lower()) / extent;
  const Bytes before = tile * view.filetype.size();
  if (!view.filetype.ascending()) return before;
  return before + view.filetype.bytes_below(in_view - tile * extent);
}

bool holes_belong_to_view(const View& view) {
  return view.filetype.ascending() && view.filetype.upper() - view.filetype.lower() <= view.filetype_extent;
}

Status View::check(const AccessMode& mode) const {
  const auto wrong = [](Code code, std::string what) { return fail(code, std::move(what)); };
  if (displacement < 0)
    return wrong(
        Code::kArgument,
        fmt::format("view displacement {} is negative; it counts bytes from the start of the file", displacement));
  if (etype_size <= 0) return wrong(Code::kDatatype, "the etype has no bytes");
  if (filetype.size() % etype_size != 0)
    return wrong(Code::kDatatype,
                 fmt::format("the file type's size {} is no multiple of the etype's size {}; a file type is "
                             "built of whole etypes",
                             filetype.size(), etype_size));
  if (filetype.empty()) return {};
  if (filetype.lower() < 0)
    return wrong(Code::kDatatype,
                 fmt::format("the file type starts at {}; its displacements must not be negative", filetype.lower()));
  if (!filetype.nondecreasing())
    return wrong(Code::kDatatype,
                 "the file type's displacements are not in ascending order, as MPI requires of file types");
  if (mode.writes() && !filetype.ascending())
    return wrong(Code::kDatatype,
                 "the file type has overlapping regions; a file opened for writing must not have such a view");
  if (filetype_extent <= 0)
    return wrong(
        Code::kDatatype,
        fmt::format("the file type's extent {} is not positive: its tiles would all fall together", filetype_extent));
  return {};
}

}  // namespace stridio
