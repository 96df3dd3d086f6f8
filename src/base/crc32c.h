// CRC32C (Castagnoli), as iSCSI, ext4 and SCTP compute it: by the processor's own instruction where it has one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/copy_bytes.h"
#include "base/extent.h"

namespace stridio {

// Of `bytes` that follow others whose sum is `before`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
// Copies them on the way, as copy_bytes() does; with AVX-512 in about the time of the copy alone.
std::uint32_t copy_crc32c(std::byte* to, std::span<const std::byte> bytes, std::uint32_t before = 0,
                          Stores stores = Stores::kCached);

// Of two strings of bytes one after the other, from their sums; `second_length` < 2^28.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, Bytes second_length);

// Of a string whose parts are with different processes: each sums what a part gives to it, where `behind` bytes come after
// that; the parts' xor is what the string gives as the only part. `behind` < 2^16.
std::uint32_t crc32c_of_part(std::span<const std::byte> part, Bytes behind);
std::uint32_t copy_crc32c_of_part(std::byte* to, std::span<const std::byte> part, Bytes behind,
                                  Stores stores = Stores::kCached);
// Of a part whose own sum is known.
std::uint32_t crc32c_as_part(std::uint32_t sum, Bytes length, Bytes behind);

// For tests: by each way to sum that this processor has.
std::vector<std::uint32_t> crc32c_by_all_ways(std::span<const std::byte> bytes, std::uint32_t before = 0);
// `done` is called with the sum after each.
void copy_crc32c_of_part_by_all_ways(std::byte* to, std::span<const std::byte> part, Bytes behind, Stores stores,
                                     const std::function<void(std::uint32_t)>& done);

}  // namespace stridio
