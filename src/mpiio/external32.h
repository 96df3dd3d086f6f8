// external32 (MPI-4.1 section 14.5.2): big-endian, two's complement and IEEE 754 in all its sizes, nothing between the items.
// A long takes 4 bytes, a wide character 2, a long double the 16 bytes of binary128, a logical is 0 or 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/extent.h"
#include "base/result.h"

namespace stridio::mpiio {

enum class Form32 : std::uint8_t {
  kBytes,   // as it is
  kSigned,  // two's complement
  kUnsigned,
  kFloat,     // an IEEE 754 interchange format: the file differs from memory in the order of bytes alone
  kExtended,  // the machine's long double
  kLogical,
};

// `count` equal numbers one after the other, each of so many bytes in memory and in the file.
struct Field32 {
  Form32 form = Form32::kBytes;
  std::uint8_t memory = 1;
  std::uint8_t file = 1;
  std::uint8_t count = 1;
};

// An item: one field, or a value and its index. In memory without padding, as a pattern yields it.
struct Format32 {
  std::array<Field32, 2> fields = {};
  std::uint8_t used = 1;

  Bytes memory_size() const;
  Bytes file_size() const;
};

// The format of the predefined datatype of this name that takes `size` bytes in memory; nothing for an unknown one.
std::optional<Format32> format32_of_name(const std::string& name, Bytes size);
// Those of MPI_Type_create_f90_integer, _real (1 part) and _complex (2), by the digits and range asked for; negative for
// none. Nothing where the host gave a longer or shorter number.
Format32 format32_of_f90_integer(int range, Bytes size);
std::optional<Format32> format32_of_f90_real(int precision, int range, Bytes size, int parts);

// kConversion, naming the first number that does not fit.
Status to_external32(const Format32& format, std::int64_t items, const std::byte* memory, std::byte* file);
// Rounds where the machine's long double is shorter than binary128.
void from_external32(const Format32& format, std::int64_t items, const std::byte* file, std::byte* memory);

}  // namespace stridio::mpiio
