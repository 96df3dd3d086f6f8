#include "storage/forwarding.h"

namespace stridio {

Result<std::unique_ptr<SharedRead>> Storage::share_read() {
  return fail(Error{.code = Code::kUnsupportedOperation, .what = "sharing a read", .path = path()});
}

Result<std::unique_ptr<StoredRead>> Storage::read_stored() {
  return fail(
      Error{.code = Code::kUnsupportedOperation, .what = "reading in the order of what is stored", .path = path()});
}

Result<StoredAs> Storage::look_up(std::span<const Extent>) {
  return fail(Error{.code = Code::kUnsupportedOperation, .what = "looking up how bytes are stored", .path = path()});
}

}  // namespace stridio
