// `stridio show view`: the views of the ranks and their interval sets, drawn.
#pragma once

#include <cstdint>
#include <string>

namespace stridio {

struct ShowOptions {
  std::string source;    // the views; form in views.h
  std::string file;      // of a report: whose views; empty: of the only one that has some
  std::string output;    // a picture, PNG if it ends in .png, else SVG; empty: beside the table nothing is written
  std::int64_t end = 0;  // how far to look; 0: as far as one repetition of all views goes
};

// Prints the intervals as a table, at most so many lines, and writes the picture. 0 if the views could be read.
int show_view(const ShowOptions& options);

}  // namespace stridio
