// Geometry of a view: which bytes of the file its data positions are.
#pragma once

#include "file/file.h"

namespace stridio {

// The file bytes of the view's data positions [position, position + length). O(depth of the file type).
Pattern view_pattern(const View& view, Bytes position, Bytes length);

// The largest data position that the view has within the offsets that a file can have; -1 where it has none.
Bytes reach(const View& view);

// kArgument where `length` bytes from the etype `offset` of the view on would reach beyond the largest offset there is.
Status check_reach(const View& view, Offset offset, Bytes length);

// The first data position at or past byte `offset` of the file: how many of the view's bytes lie below it, for a
// view whose tiles do not interleave; else below the tile that holds it.
Bytes view_bytes_below(const View& view, Offset offset);

// Whether a hole within a request can only be a hole of the view: tiles do not interleave.
bool holes_belong_to_view(const View& view);

}  // namespace stridio
