#include "access/batch.h"

#include <algorithm>

namespace stridio {

void fill_direct(Batch& batch, Cursor& file, Cursor& memory, std::byte* base, Bytes to) {
  batch.clear();
  Extent at, in;
  while (!batch.full() && !(at.empty() && file.position() == to)) {
    if (at.empty()) at = file.next_range(to - file.position());
    if (in.empty()) in = memory.next_range();
    const Bytes length = std::min(at.length, in.length);
    batch.add(at.offset, length);
    batch.add(base + in.offset, length);
    at = {at.offset + length, at.length - length};
    in = {in.offset + length, in.length - length};
  }
  if (!at.empty()) file.seek(file.position() - at.length);
  if (!in.empty()) memory.seek(memory.position() - in.length);
}

}  // namespace stridio
