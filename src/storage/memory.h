// A file in memory: for tests, oracles and simulations. Handles made from one MemoryFile share
// bytes and locks.
#pragma once

#include <memory>

#include "storage/storage.h"

namespace stridio {

class MemoryFile;  // the bytes, their mutex and lock table

std::shared_ptr<MemoryFile> make_memory_file();
std::unique_ptr<Storage> open_memory(std::shared_ptr<MemoryFile> file,
                                     const OpenMode& mode = {.read = true, .write = true});

}  // namespace stridio
