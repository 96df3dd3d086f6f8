// Does one of everything to the file named on the command line, and prints what came of each.
#include <cstdio>
#include <string>

#include "storage/posix.h"

using namespace stridio;

namespace {

template <typename T>
void tell(const std::string& what, const Result<T>& result) {
  std::printf("%s: %s\n", what.c_str(), name_of(result ? Code::kOk : result.error().code));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto opened = open_posix(argv[1], {.read = true, .write = true, .create = true});
  if (!opened) return 1;
  Storage& file = **opened;
  std::byte data[8] = {};
  for (int i = 0; i < 3; ++i) {
    const auto moved = file.write({8 * i, 8}, data);
    tell("write " + std::to_string(i) + (moved ? " in " + std::to_string(moved->requests) : ""), moved);
  }
  const Extent extent{0, 8};
  const Span pieces[] = {{data, 3}, {data + 3, 5}};
  tell("read", file.readv({&extent, 1}, pieces));
  tell("resize", file.resize(100));
  tell("reserve", file.reserve(200));
  tell("sync", file.sync());
  tell("lock", file.lock({0, 10}, LockMode::kExclusive));
  tell("close", file.close());
}
