// System calls at their worst, within what POSIX allows: half of them are interrupted before they
// do anything, and the others move between one byte and half of what was asked.
#pragma once

#include "storage/posix_calls.h"

namespace stridio {

PosixCalls unreliable_calls();

}  // namespace stridio
