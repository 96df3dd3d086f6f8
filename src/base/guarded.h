// Where exceptions of the standard library end: they become errors, so that none crosses a folder, leaves a thread, or keeps
// a rank from an agreement that others wait in.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "base/result.h"

namespace stridio {

// Calls `body`, which returns a Result or Status.
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "out of memory");
  } catch (const std::length_error&) {
    return fail(Code::kNoMemory, "out of memory: more than there can be is asked for");
  } catch (const std::exception& exception) {
    return fail(Code::kOther, exception.what());
  }
}

}  // namespace stridio
