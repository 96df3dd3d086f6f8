#include "property/oracle.h"

#include <fmt/format.h>

#include <cstring>

#include "property/contents.h"

namespace stridio::testing {

Bytes bytes_before_end(const Pattern& file, Bytes length) {
  Bytes bytes = 0;
  for (Cursor cursor(file); !cursor.done();) {
    const Extent range = cursor.next_range();
    if (range.end() > length) return bytes + std::max<Bytes>(0, length - range.offset);
    bytes += range.length;
  }
  return bytes;
}

void Ownership::add(int writer, const Pattern& file) {
  for (Cursor cursor(file); !cursor.done();) {
    const Extent range = cursor.next_range();
    for (Offset at = range.offset; at < range.end(); ++at) writers_[static_cast<std::size_t>(at)] |= set_of(writer);
  }
}

bool Ownership::covers(const Extent& range, Writers set) const {
  if (range.offset < 0 || range.end() > upper()) return false;
  for (Offset at = range.offset; at < range.end(); ++at)
    if ((this->at(at) & set) == 0) return false;
  return true;
}

bool Ownership::overlap() const {
  return std::any_of(writers_.begin(), writers_.end(), [](Writers set) { return (set & (set - 1)) != 0; });
}

namespace {

// Whether a byte can be what the writers leave there. A byte that only failed ranks write may be as
// before.
bool possible(std::byte byte, Offset at, std::byte before, Ownership::Writers writers, Ownership::Writers failed) {
  if ((writers & ~failed) == 0 && byte == before) return true;
  for (int writer = 0; writer < kMostRanks; ++writer)
    if ((writers & set_of(writer)) != 0 && byte == contents_of(writer)[at]) return true;
  return false;
}

std::string owners_text(Ownership::Writers writers) {
  std::string text;
  for (int writer = 0; writer < kMostRanks; ++writer)
    if ((writers & set_of(writer)) != 0) text += fmt::format(" {}", writer);
  return text.empty() ? " nobody" : text;
}

std::optional<std::string> wrong_length(Bytes length, const Ownership& owners, Bytes before,
                                        Ownership::Writers failed) {
  Bytes least = before, most = before;
  for (Offset at = owners.upper() - 1; at >= before; --at) {
    if (owners.at(at) == 0) continue;
    most = std::max(most, at + 1);
    if ((owners.at(at) & ~failed) == 0) continue;
    least = at + 1;
    break;
  }
  if (length >= least && length <= most) return std::nullopt;
  return fmt::format("the file has {} bytes, right is {} to {}", length, least, most);
}

}  // namespace

std::optional<std::string> wrong_file(const Image& file, const Ownership& owners, Bytes before,
                                      Ownership::Writers failed) {
  if (auto wrong = wrong_length(static_cast<Bytes>(file.size()), owners, before, failed)) return wrong;
  const std::byte* old = contents_of(kBefore);
  for (Offset at = 0; at < static_cast<Offset>(file.size()); ++at) {
    const std::byte byte = file[static_cast<std::size_t>(at)];
    const std::byte was = at < before ? old[at] : std::byte{0};
    const Ownership::Writers writers = at < owners.upper() ? owners.at(at) : Ownership::Writers{0};
    if (possible(byte, at, was, writers, failed)) continue;
    return fmt::format("byte {} of the file is {}, was {}; written by:{}; failed:{}", at, static_cast<int>(byte),
                       static_cast<int>(was), owners_text(writers), owners_text(failed));
  }
  return std::nullopt;
}

UserMemory noise_for(const Pattern& memory) {
  UserMemory user;
  user.margin = kMargin - std::min<Offset>(0, memory.lower());
  user.bytes.resize(static_cast<std::size_t>(user.margin + std::max<Offset>(0, memory.upper()) + kMargin));
  for (std::size_t at = 0; at < user.bytes.size(); at += kMostOffsets)
    std::memcpy(user.bytes.data() + at, contents_of(kNoise),
                std::min<std::size_t>(kMostOffsets, user.bytes.size() - at));
  return user;
}

UserMemory memory_to_write(const RankRequest& request, int rank) {
  UserMemory user = noise_for(request.memory);
  each_piece(request.file, request.memory, request.file.size(), [&](Offset file, Offset memory, Bytes length) {
    std::memcpy(user.base() + memory, contents_of(rank) + file, static_cast<std::size_t>(length));
  });
  return user;
}

UserMemory memory_after_read(const RankRequest& request, const Image& file, Bytes bytes) {
  UserMemory user = noise_for(request.memory);
  each_piece(request.file, request.memory, bytes, [&](Offset at, Offset memory, Bytes length) {
    std::memcpy(user.base() + memory, file.data() + at, static_cast<std::size_t>(length));
  });
  return user;
}

}  // namespace stridio::testing
