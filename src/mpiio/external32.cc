#include "mpiio/external32.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstring>
#include <unordered_map>

namespace stridio::mpiio {
namespace {

constexpr Form32 kLongDouble = LDBL_MANT_DIG == 113 ? Form32::kFloat : Form32::kExtended;

constexpr Format32 single(Form32 form, int memory, int file, int count = 1) {
  return {.fields = {Field32{form, static_cast<std::uint8_t>(memory), static_cast<std::uint8_t>(file),
                             static_cast<std::uint8_t>(count)}}};
}
constexpr Format32 with_index(Form32 form, int memory, int file) {
  Format32 format = single(form, memory, file);
  format.fields[1] = {Form32::kSigned, sizeof(int), 4, 1};
  format.used = 2;
  return format;
}

// Bytes in the file, MPI-4.1 table 14.2; the bytes in memory are the machine's.
struct Known {
  Form32 form;
  int file;
  int count = 1;
};

const std::unordered_map<std::string, Known>& known() {
  using enum Form32;
  static const auto& table = *new std::unordered_map<std::string, Known>{
      {"MPI_PACKED", {kBytes, 1}},
      {"MPI_BYTE", {kBytes, 1}},
      {"MPI_CHAR", {kBytes, 1}},
      {"MPI_SIGNED_CHAR", {kBytes, 1}},
      {"MPI_UNSIGNED_CHAR", {kBytes, 1}},
      {"MPI_CHARACTER", {kBytes, 1}},
      {"MPI_WCHAR", {kUnsigned, 2}},
      {"MPI_SHORT", {kSigned, 2}},
      {"MPI_UNSIGNED_SHORT", {kUnsigned, 2}},
      {"MPI_INT", {kSigned, 4}},
      {"MPI_UNSIGNED", {kUnsigned, 4}},
      {"MPI_LONG", {kSigned, 4}},
      {"MPI_UNSIGNED_LONG", {kUnsigned, 4}},
      {"MPI_LONG_LONG", {kSigned, 8}},
      {"MPI_LONG_LONG_INT", {kSigned, 8}},
      {"MPI_UNSIGNED_LONG_LONG", {kUnsigned, 8}},
      {"MPI_INT8_T", {kSigned, 1}},
      {"MPI_INT16_T", {kSigned, 2}},
      {"MPI_INT32_T", {kSigned, 4}},
      {"MPI_INT64_T", {kSigned, 8}},
      {"MPI_UINT8_T", {kUnsigned, 1}},
      {"MPI_UINT16_T", {kUnsigned, 2}},
      {"MPI_UINT32_T", {kUnsigned, 4}},
      {"MPI_UINT64_T", {kUnsigned, 8}},
      {"MPI_AINT", {kSigned, 8}},
      {"MPI_COUNT", {kSigned, 8}},
      {"MPI_OFFSET", {kSigned, 8}},
      {"MPI_FLOAT", {kFloat, 4}},
      {"MPI_DOUBLE", {kFloat, 8}},
      {"MPI_LONG_DOUBLE", {kLongDouble, 16}},
      {"MPI_C_BOOL", {kLogical, 1}},
      {"MPI_CXX_BOOL", {kLogical, 1}},
      {"MPI_C_COMPLEX", {kFloat, 4, 2}},
      {"MPI_C_FLOAT_COMPLEX", {kFloat, 4, 2}},
      {"MPI_C_DOUBLE_COMPLEX", {kFloat, 8, 2}},
      {"MPI_C_LONG_DOUBLE_COMPLEX", {kLongDouble, 16, 2}},
      {"MPI_CXX_FLOAT_COMPLEX", {kFloat, 4, 2}},
      {"MPI_CXX_DOUBLE_COMPLEX", {kFloat, 8, 2}},
      {"MPI_CXX_LONG_DOUBLE_COMPLEX", {kLongDouble, 16, 2}},
      {"MPI_LOGICAL", {kLogical, 4}},
      {"MPI_INTEGER", {kSigned, 4}},
      {"MPI_REAL", {kFloat, 4}},
      {"MPI_DOUBLE_PRECISION", {kFloat, 8}},
      {"MPI_COMPLEX", {kFloat, 4, 2}},
      {"MPI_DOUBLE_COMPLEX", {kFloat, 8, 2}},
      {"MPI_INTEGER1", {kSigned, 1}},
      {"MPI_INTEGER2", {kSigned, 2}},
      {"MPI_INTEGER4", {kSigned, 4}},
      {"MPI_INTEGER8", {kSigned, 8}},
      {"MPI_INTEGER16", {kSigned, 16}},
      {"MPI_REAL2", {kFloat, 2}},
      {"MPI_REAL4", {kFloat, 4}},
      {"MPI_REAL8", {kFloat, 8}},
      {"MPI_REAL16", {kFloat, 16}},
      {"MPI_COMPLEX4", {kFloat, 2, 2}},
      {"MPI_COMPLEX8", {kFloat, 4, 2}},
      {"MPI_COMPLEX16", {kFloat, 8, 2}},
      {"MPI_COMPLEX32", {kFloat, 16, 2}},
      {"MPI_2INT", {kSigned, 4, 2}},
      {"MPI_2INTEGER", {kSigned, 4, 2}},
      {"MPI_2REAL", {kFloat, 4, 2}},
      {"MPI_2DOUBLE_PRECISION", {kFloat, 8, 2}},
      // Not in the table; stored as their neighbours are.
      {"MPI_LOGICAL1", {kLogical, 1}},
      {"MPI_LOGICAL2", {kLogical, 2}},
      {"MPI_LOGICAL4", {kLogical, 4}},
      {"MPI_LOGICAL8", {kLogical, 8}},
      {"MPI_LOGICAL16", {kLogical, 16}},
      {"MPI_SHORT_FLOAT", {kFloat, 2}},
      {"MPIX_C_FLOAT16", {kFloat, 2}},
  };
  return table;
}

// A value and an int.
const std::unordered_map<std::string, Known>& known_pairs() {
  using enum Form32;
  static const auto& table = *new std::unordered_map<std::string, Known>{
      {"MPI_FLOAT_INT", {kFloat, 4}},
      {"MPI_DOUBLE_INT", {kFloat, 8}},
      {"MPI_LONG_INT", {kSigned, 4}},
      {"MPI_SHORT_INT", {kSigned, 2}},
      {"MPI_LONG_DOUBLE_INT", {kLongDouble, 16}},
  };
  return table;
}

bool same_size(const Field32& field) { return field.form != Form32::kExtended && field.memory == field.file; }

void copy_reversed(std::byte* to, const std::byte* from, std::size_t size) { std::reverse_copy(from, from + size, to); }

template <typename Word, Word (*swap)(Word)>
void swap_all(std::int64_t count, const std::byte* from, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, from + i * static_cast<Bytes>(sizeof word), sizeof word);
    word = swap(word);
    std::memcpy(to + i * static_cast<Bytes>(sizeof word), &word, sizeof word);
  }
}
std::uint16_t swap16(std::uint16_t word) { return __builtin_bswap16(word); }
std::uint32_t swap32(std::uint32_t word) { return __builtin_bswap32(word); }
std::uint64_t swap64(std::uint64_t word) { return __builtin_bswap64(word); }

// Between the machine's order of bytes and the file's; either way.
void reorder(std::int64_t count, std::size_t size, const std::byte* from, std::byte* to) {
  if (std::endian::native == std::endian::big || size == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
  } else if (size == 2) {
    swap_all<std::uint16_t, swap16>(count, from, to);
  } else if (size == 4) {
    swap_all<std::uint32_t, swap32>(count, from, to);
  } else if (size == 8) {
    swap_all<std::uint64_t, swap64>(count, from, to);
  } else {
    for (; count > 0; --count, from += size, to += size) copy_reversed(to, from, size);
  }
}

__int128 load(const std::byte* memory, const Field32& field) {
  static_assert(std::endian::native == std::endian::little, "numbers are loaded from their low bytes");
  unsigned __int128 bits = 0;
  std::memcpy(&bits, memory, field.memory);
  const int unused = 128 - 8 * field.memory;
  if (field.form != Form32::kSigned) return static_cast<__int128>(bits);
  return static_cast<__int128>(bits << unused) >> unused;
}

__int128 load_big(const std::byte* file, const Field32& field) {
  unsigned __int128 bits = 0;
  for (int i = 0; i < field.file; ++i) bits = bits << 8 | std::to_integer<unsigned>(file[i]);
  const int unused = 128 - 8 * field.file;
  if (field.form != Form32::kSigned) return static_cast<__int128>(bits);
  return static_cast<__int128>(bits << unused) >> unused;
}

void store_big(std::byte* file, int size, __int128 number) {
  for (int i = size; i-- > 0; number >>= 8) file[i] = static_cast<std::byte>(number & 0xff);
}

bool fits(__int128 number, const Field32& field) {
  if (field.file >= field.memory) return true;
  const int bits = 8 * field.file;
  if (field.form == Form32::kSigned)
    return number >= -(__int128{1} << (bits - 1)) && number < __int128{1} << (bits - 1);
  return number >= 0 && number < __int128{1} << bits;
}

// Integers of 16 bytes are as long in the file, so that a number that does not fit has at most 64 bits.
Status too_large(__int128 number, const Field32& field) {
  const std::string text = field.form == Form32::kSigned ? std::to_string(static_cast<std::int64_t>(number))
                                                         : std::to_string(static_cast<std::uint64_t>(number));
  return fail(Code::kConversion, text + " does not fit into the " + std::to_string(field.file) +
                                     " bytes that external32 has for it; nothing was written");
}

void widen(const std::byte* memory, std::byte* file) {
  long double number;
  std::memcpy(&number, memory, sizeof number);
  const __float128 wide = number;
  copy_reversed(file, reinterpret_cast<const std::byte*>(&wide), sizeof wide);
}

void narrow(const std::byte* file, std::byte* memory) {
  __float128 wide;
  copy_reversed(reinterpret_cast<std::byte*>(&wide), file, sizeof wide);
  const auto number = static_cast<long double>(wide);
  std::memset(memory, 0, sizeof number);
  std::memcpy(memory, &number, LDBL_MANT_DIG == 64 ? 10 : sizeof number);
}

Status write_field(const Field32& field, std::int64_t count, const std::byte* memory, std::byte* file) {
  if (field.form != Form32::kLogical && same_size(field)) {
    reorder(count, field.memory, memory, file);
    return {};
  }
  for (; count > 0; --count, memory += field.memory, file += field.file) {
    if (field.form == Form32::kExtended) {
      widen(memory, file);
      continue;
    }
    __int128 number = load(memory, field);
    if (field.form == Form32::kLogical) number = number != 0 ? 1 : 0;
    if (!fits(number, field)) return too_large(number, field);
    store_big(file, field.file, number);
  }
  return {};
}

void read_field(const Field32& field, std::int64_t count, const std::byte* file, std::byte* memory) {
  if (field.form != Form32::kLogical && same_size(field)) {
    reorder(count, field.memory, file, memory);
    return;
  }
  for (; count > 0; --count, memory += field.memory, file += field.file) {
    if (field.form == Form32::kExtended) {
      narrow(file, memory);
      continue;
    }
    __int128 number = load_big(file, field);
    if (field.form == Form32::kLogical) number = number != 0 ? 1 : 0;
    std::memcpy(memory, &number, field.memory);
  }
}

}  // namespace

Bytes Format32::memory_size() const {
  Bytes size = 0;
  for (int i = 0; i < used; ++i) size += Bytes{fields[i].memory} * fields[i].count;
  return size;
}

Bytes Format32::file_size() const {
  Bytes size = 0;
  for (int i = 0; i < used; ++i) size += Bytes{fields[i].file} * fields[i].count;
  return size;
}

std::optional<Format32> format32_of_name(const std::string& name, Bytes size) {
  const int bytes = static_cast<int>(size);
  if (bytes == 0) return {};  // a type that the host's compiler lacks
  if (const auto found = known().find(name); found != known().end()) {
    const auto& [form, file, count] = found->second;
    return single(form, bytes / count, file, count);
  }
  if (const auto found = known_pairs().find(name); found != known_pairs().end())
    return with_index(found->second.form, bytes - static_cast<int>(sizeof(int)), found->second.file);
  return {};
}

// MPI-4.1 section 14.5.2: the bytes follow from what was asked for, not from what the compiler had.
Format32 format32_of_f90_integer(int range, Bytes size) {
  const int file = range > 18 ? 16 : range > 9 ? 8 : range > 4 ? 4 : range > 2 ? 2 : 1;
  return single(Form32::kSigned, static_cast<int>(size), file);
}

// gfortran's kind 10 is the x87 number, with up to 18 digits; beyond it is kind 16, binary128.
std::optional<Format32> format32_of_f90_real(int precision, int range, Bytes size, int parts) {
  const int file = precision > 15 || range > 307 ? 16 : precision > 6 || range > 37 ? 8 : 4;
  const int memory = static_cast<int>(size) / parts;
  if (memory != file) return {};
  const bool long_double = memory == 16 && precision <= LDBL_DIG;
  return single(long_double ? kLongDouble : Form32::kFloat, memory, file, parts);
}

Status to_external32(const Format32& format, std::int64_t items, const std::byte* memory, std::byte* file) {
  const Field32& first = format.fields[0];
  if (format.used == 1) return write_field(first, items * first.count, memory, file);
  const Field32& second = format.fields[1];
  for (; items > 0; --items, memory += format.memory_size(), file += format.file_size()) {
    RETURN_IF_ERROR(write_field(first, 1, memory, file));
    RETURN_IF_ERROR(write_field(second, 1, memory + first.memory, file + first.file));
  }
  return {};
}

void from_external32(const Format32& format, std::int64_t items, const std::byte* file, std::byte* memory) {
  const Field32& first = format.fields[0];
  if (format.used == 1) return read_field(first, items * first.count, file, memory);
  const Field32& second = format.fields[1];
  for (; items > 0; --items, memory += format.memory_size(), file += format.file_size()) {
    read_field(first, 1, file, memory);
    read_field(second, 1, file + first.file, memory + first.memory);
  }
}

}  // namespace stridio::mpiio
