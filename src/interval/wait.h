// Waiting for what another program commits to an interval file: by looking at it, since no file system tells clients of
// other machines that a file has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "group/group.h"

namespace stridio {

// What a look at a file shows.
struct Seen {
  std::uint64_t generation = 0;  // the newest; 0: no interval file yet
  bool open_for_writing = false;
  bool exists = false;
  Bytes size = 0;                    // of the file, where it has damage
  std::optional<Error> damage = {};  // why it cannot be opened as it is; no generation is seen then

  // "its newest is 7, and nobody has it open for writing"
  std::string text() const;
};
// Of a generation newer than that it is seen, too, whether its root is whole and all that it refers to is there. kBadFileName
// where the file is there and is no interval file.
Result<Seen> look_at(const std::string& path, std::uint64_t newer_than = 0);

struct Waiting {
  std::uint64_t newer_than = 0;
  double seconds = 0;          // how long
  bool while_written = false;  // ends too when nobody has had the file open for writing for a second
};
// Collective: until the file has a generation newer than that, which may take until it exists, or as long as `waiting`
// says. What was seen last says which. Fails where the file is damaged and stays as it is for a second.
Result<Seen> wait_for_generation(Group& group, const std::string& path, const Waiting& waiting);

}  // namespace stridio
