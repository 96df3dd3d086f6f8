#include "storage/forwarding.h"

namespace stridio {

Result<std::unique_ptr<SharedRead>> Storage::share_read() {
  return fail(Error{.code = Code::kUnsupportedOperation, .what = "sharing a read", .path = path()});
}

Result<StoredAs> Storage::look_up(std::span<const Extent> extents) {
  StoredAs as_asked;
  for (const Extent& extent : extents) as_asked += {.pieces = 1, .touched = extent.length};
  return as_asked;
}

}  // namespace stridio
