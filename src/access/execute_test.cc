#include "access/execute.h"

#include <gtest/gtest.h>

#include "storage/memory.h"
#include "storage/wrap/fault.h"

namespace stridio {
namespace {

// Nor does it fail then: a rank that has nothing to do with a fault must not hide another's error.
TEST(Execute, AnAccessOfNoBytesDoesNotAskForTheSizeOfTheFile) {
  const auto storage = wrap_fault(open_memory(make_memory_file(), {.read = true, .write = true}),
                                  {.kinds = kFaultAny, .first = 0, .every = 1, .sys_errno = EIO});
  ASSERT_TRUE(storage->caps().maps) << "nobody asks for the size then";
  const Memory memory{nullptr, Pattern::run(0, 8)};
  EXPECT_FALSE(shape_on(*storage, Profile{}, Direction::kWrite, Pattern::run(0, 8), memory));
  EXPECT_TRUE(shape_on(*storage, Profile{}, Direction::kWrite, Pattern(), {nullptr, Pattern()}));
}

}  // namespace
}  // namespace stridio
