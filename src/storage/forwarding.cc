#include "storage/forwarding.h"

namespace stridio {

Result<std::unique_ptr<SharedRead>> Storage::share_read() {
  return fail(Error{.code = Code::kUnsupportedOperation, .what = "sharing a read", .path = path()});
}

}  // namespace stridio
