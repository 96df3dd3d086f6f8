#include "oracle.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 0xA5 };

/* Eight bytes of the file. */
static uint64_t word(uint64_t seed, int64_t index) {
  uint64_t z = (uint64_t)index * 0x9e3779b97f4a7c15u + seed;
  z = (z ^ z >> 32) * 0xd6e8feb86659fd93u;
  return z ^ z >> 32;
}

static void expected_bytes(unsigned char* to, uint64_t seed, int64_t offset, int64_t length) {
  while (length > 0) {
    const uint64_t value = word(seed, offset / 8);
    const int64_t skip = offset % 8, room = 8 - skip, take = length < room ? length : room;
    memcpy(to, (const unsigned char*)&value + skip, (size_t)take);
    to += take;
    offset += take;
    length -= take;
  }
}

struct image {
  unsigned char* bytes;
  uint64_t seed;
  const unsigned char* from;
};

static void set_in_memory(void* context, int64_t memory, int64_t file, int64_t length) {
  const struct image* image = context;
  expected_bytes(image->bytes + memory, image->seed, file, length);
}

static void set_in_file(void* context, int64_t memory, int64_t file, int64_t length) {
  const struct image* image = context;
  (void)memory;
  expected_bytes(image->bytes + file, image->seed, file, length);
}

static void copy_in_file(void* context, int64_t memory, int64_t file, int64_t length) {
  const struct image* image = context;
  (void)memory;
  memcpy(image->bytes + file, image->from + file, (size_t)length);
}

static unsigned char* file_of_all_pieces(const struct share* share, piece_visitor* visit, const unsigned char* from) {
  struct image image = {calloc(1, (size_t)share->file_bytes + 1), share->seed, from};
  if (!image.bytes) abort();
  for (int rank = 0; rank < share->ranks; ++rank) {
    struct share other = {.workload = share->workload,
                          .size = share->size,
                          .extra = share->extra,
                          .seed = share->seed,
                          .writing = share->writing,
                          .ranks = share->ranks,
                          .rank = rank};
    share_plan(&other);
    share_pieces(&other, visit, &image);
    share_free(&other);
  }
  return image.bytes;
}

void oracle_memory(const struct share* share, unsigned char* memory) {
  struct image image = {memory, share->seed, NULL};
  memset(memory, GUARD, (size_t)share->memory_bytes);
  share_pieces(share, set_in_memory, &image);
}

unsigned char* oracle_file(const struct share* share) { return file_of_all_pieces(share, set_in_file, NULL); }

unsigned char* oracle_covered(const struct share* share, const unsigned char* file) {
  return file_of_all_pieces(share, copy_in_file, file);
}

int64_t first_difference(const unsigned char* a, const unsigned char* b, int64_t bytes) {
  enum { CHUNK = 1 << 16 };
  for (int64_t at = 0; at < bytes; at += CHUNK) {
    const int64_t length = bytes - at < CHUNK ? bytes - at : CHUNK;
    if (memcmp(a + at, b + at, (size_t)length) == 0) continue;
    while (a[at] == b[at]) ++at;
    return at;
  }
  return -1;
}
