// Waiting for what another program commits to an interval file: by looking at it, since no file system tells clients of
// other machines that a file has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "group/group.h"
#include "interval/format.h"
#include "storage/posix.h"

namespace stridio {

// A generation, told from those of other files that were at its place before, or come after: their numbers begin anew, and so
// do those of a file that is emptied and made anew.
struct Which {
  FileId file;
  std::uint64_t generation = 0;
  std::uint32_t root_sum = 0;  // as its header has it

  static Which of(const FileId& file, const Root& root);
  bool operator==(const Which&) const = default;
};

struct Waiting {
  std::uint64_t newer_than = 0;
  std::optional<Which> other_than = {};  // and any but this one
  double seconds = 0;                    // how long
  bool while_written = false;            // ends too when nobody has had the file open for writing for a second

  bool ends_with(const Which& newest) const { return newest.generation > newer_than && newest != other_than; }
};

// What a look at a file shows.
struct Seen {
  std::uint64_t generation = 0;  // the newest; 0: no interval file yet
  bool come = false;             // it is one that was waited for
  bool open_for_writing = false;
  bool has_locks = true;  // without, nobody is known to have it open
  bool exists = false;
  Bytes size = 0;                    // of the file, where it has damage
  std::optional<Error> damage = {};  // why it cannot be opened as it is; no generation is seen then

  // "its newest is 7, and nobody has it open for writing"
  std::string text() const;
};
// Of a generation that is waited for it is seen, too, whether its root is whole and all that it refers to is there. kBadFileName
// where the file is there and is no interval file.
Result<Seen> look_at(const std::string& path, const Waiting& waiting = {});

// Collective: until the file has a generation that `waiting` ends with, which may take until it exists, or as long as it
// says. What was seen last says which. Fails where the file is damaged and stays as it is for a second.
Result<Seen> wait_for_generation(Group& group, const std::string& path, const Waiting& waiting);

}  // namespace stridio
