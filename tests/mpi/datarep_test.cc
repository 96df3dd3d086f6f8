// Data representations: external32 byte for byte, extents in the file, and representations that the program registers.
#include <algorithm>
#include <array>
#include <cfloat>
#include <complex>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "mpi_fixture.h"
#include "prototypes.h"

namespace stridio::testing {
namespace {

using ByteString = std::vector<unsigned char>;

struct Golden {
  const char* name;
  MPI_Datatype datatype;
  ByteString memory;  // one element, its padding 0xaa
  ByteString file;
};

ByteString hex(const std::string& text) {
  ByteString bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<unsigned char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

template <typename Value>
ByteString image(const Value& value) {
  ByteString bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

ByteString image_of_long_double(std::initializer_list<long double> values) {
  ByteString bytes(values.size() * sizeof(long double), 0);
  std::size_t at = 0;
  for (const long double value : values) {
    std::memcpy(bytes.data() + at, &value, 10);
    at += sizeof value;
  }
  return bytes;
}

template <typename Value>
ByteString image_of_pair(const ByteString& value, int index) {
  struct Pair {
    Value value;
    int index;
  };
  ByteString bytes(sizeof(Pair), 0xaa);
  std::copy(value.begin(), value.end(), bytes.begin());
  std::memcpy(bytes.data() + offsetof(Pair, index), &index, sizeof index);
  return bytes;
}

// MPI-4.1 table 14.2, by hand.
std::vector<Golden> all_golden() {
  using Float = std::complex<float>;
  using Double = std::complex<double>;
  const std::string one_quad = "3fff" + std::string(28, '0'), minus_two_quad = "c000" + std::string(28, '0');
  const ByteString long_complex = image_of_long_double({1.0L, -2.0L});
  std::vector<Golden> golden = {
      {"MPI_BYTE", MPI_BYTE, hex("f1"), hex("f1")},
      {"MPI_PACKED", MPI_PACKED, hex("f2"), hex("f2")},
      {"MPI_CHAR", MPI_CHAR, hex("41"), hex("41")},
      {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, hex("fe"), hex("fe")},
      {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, hex("fd"), hex("fd")},
      {"MPI_WCHAR", MPI_WCHAR, image(wchar_t{0x20ac}), hex("20ac")},
      {"MPI_SHORT", MPI_SHORT, image(short{-2}), hex("fffe")},
      {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, image(static_cast<unsigned short>(0x1234)), hex("1234")},
      {"MPI_INT", MPI_INT, image(-2), hex("fffffffe")},
      {"MPI_UNSIGNED", MPI_UNSIGNED, image(0x89abcdefu), hex("89abcdef")},
      {"MPI_LONG", MPI_LONG, image(-3l), hex("fffffffd")},
      {"MPI_LONG, the smallest", MPI_LONG, image(-2147483648l), hex("80000000")},
      {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, image(0xfedcba98ul), hex("fedcba98")},
      {"MPI_LONG_LONG", MPI_LONG_LONG, image(-4ll), hex("fffffffffffffffc")},
      {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, image(0x0123456789abcdefull), hex("0123456789abcdef")},
      {"MPI_INT8_T", MPI_INT8_T, hex("85"), hex("85")},
      {"MPI_INT16_T", MPI_INT16_T, image(std::int16_t{0x1234}), hex("1234")},
      {"MPI_INT32_T", MPI_INT32_T, image(std::int32_t{0x12345678}), hex("12345678")},
      {"MPI_INT64_T", MPI_INT64_T, image(std::int64_t{0x123456789abcdef0}), hex("123456789abcdef0")},
      {"MPI_UINT8_T", MPI_UINT8_T, hex("86"), hex("86")},
      {"MPI_UINT16_T", MPI_UINT16_T, image(std::uint16_t{0xf234}), hex("f234")},
      {"MPI_UINT32_T", MPI_UINT32_T, image(std::uint32_t{0xf2345678}), hex("f2345678")},
      {"MPI_UINT64_T", MPI_UINT64_T, image(std::uint64_t{0xf23456789abcdef0}), hex("f23456789abcdef0")},
      {"MPI_AINT", MPI_AINT, image(MPI_Aint{-5}), hex("fffffffffffffffb")},
      {"MPI_COUNT", MPI_COUNT, image(MPI_Count{6}), hex("0000000000000006")},
      {"MPI_OFFSET", MPI_OFFSET, image(MPI_Offset{7}), hex("0000000000000007")},
      {"MPI_FLOAT", MPI_FLOAT, image(-1.5f), hex("bfc00000")},
      {"MPI_DOUBLE", MPI_DOUBLE, image(3.141592653589793), hex("400921fb54442d18")},
      {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, image_of_long_double({-2.0L}), hex(minus_two_quad)},
      {"MPI_LONG_DOUBLE, its last bit", MPI_LONG_DOUBLE, image_of_long_double({1.0L + LDBL_EPSILON}),
       hex("3fff0000000000000002000000000000")},
      {"MPI_C_BOOL", MPI_C_BOOL, hex("01"), hex("01")},
      {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, image(Float(1, -2)), hex("3f800000c0000000")},
      {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, image(Double(1, -2)), hex("3ff0000000000000c000000000000000")},
      {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, long_complex, hex(one_quad + minus_two_quad)},
      {"MPI_2INT", MPI_2INT, image(std::array{1, -1}), hex("00000001ffffffff")},
      {"MPI_SHORT_INT", MPI_SHORT_INT, image_of_pair<short>(image(short{-2}), 9), hex("fffe00000009")},
      {"MPI_FLOAT_INT", MPI_FLOAT_INT, image_of_pair<float>(image(1.0f), 9), hex("3f80000000000009")},
      {"MPI_LONG_INT", MPI_LONG_INT, image_of_pair<long>(image(-2l), 9), hex("fffffffe00000009")},
      {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, image_of_pair<double>(image(1.0), 9), hex("3ff000000000000000000009")},
      {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, image_of_pair<long double>(image_of_long_double({1.0L}), 9),
       hex(one_quad + "00000009")},
      {"MPI_CXX_BOOL", MPI_CXX_BOOL, hex("01"), hex("01")},
      {"MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX, image(Double(1, -2)), hex("3ff0000000000000c000000000000000")},
      {"MPI_CHARACTER", MPI_CHARACTER, hex("5a"), hex("5a")},
      {"MPI_LOGICAL", MPI_LOGICAL, image(1), hex("00000001")},
      {"MPI_INTEGER", MPI_INTEGER, image(-2), hex("fffffffe")},
      {"MPI_REAL", MPI_REAL, image(-1.5f), hex("bfc00000")},
      {"MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, image(1.0), hex("3ff0000000000000")},
      {"MPI_COMPLEX", MPI_COMPLEX, image(Float(1, -2)), hex("3f800000c0000000")},
      {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, image(Double(1, -2)), hex("3ff0000000000000c000000000000000")},
      {"MPI_INTEGER1", MPI_INTEGER1, hex("81"), hex("81")},
      {"MPI_INTEGER2", MPI_INTEGER2, image(short{-2}), hex("fffe")},
      {"MPI_INTEGER4", MPI_INTEGER4, image(-2), hex("fffffffe")},
      {"MPI_INTEGER8", MPI_INTEGER8, image(-2ll), hex("fffffffffffffffe")},
      {"MPI_REAL4", MPI_REAL4, image(1.0f), hex("3f800000")},
      {"MPI_REAL8", MPI_REAL8, image(1.0), hex("3ff0000000000000")},
      {"MPI_COMPLEX8", MPI_COMPLEX8, image(Float(1, -2)), hex("3f800000c0000000")},
      {"MPI_COMPLEX16", MPI_COMPLEX16, image(Double(1, -2)), hex("3ff0000000000000c000000000000000")},
      {"MPI_2REAL", MPI_2REAL, image(Float(1, -2)), hex("3f800000c0000000")},
      {"MPI_2INTEGER", MPI_2INTEGER, image(std::array{1, -1}), hex("00000001ffffffff")},
      {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, image(Double(1, -2)), hex("3ff0000000000000c000000000000000")},
  };
  // Types that a host without a Fortran compiler, or an old one, does not have.
  std::erase_if(golden, [](const Golden& each) {
    int size = 0;
    if (each.datatype != MPI_DATATYPE_NULL) MPI_Type_size(each.datatype, &size);
    return size == 0;
  });
  // What Fortran's selected_int_kind and selected_real_kind give.
  const auto f90_integer = [&](int range, const ByteString& memory, const char* file) {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    MPI_Type_create_f90_integer(range, &datatype);
    golden.push_back({"f90_integer", datatype, memory, hex(file)});
  };
  const auto f90_real = [&](int digits, int range, const ByteString& memory, const std::string& file) {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    MPI_Type_create_f90_real(digits, range, &datatype);
    golden.push_back({"f90_real", datatype, memory, hex(file)});
  };
  f90_integer(9, image(-2), "fffffffe");
  f90_integer(18, image(-2ll), "fffffffffffffffe");
  f90_real(6, 37, image(-1.5f), "bfc00000");
  f90_real(15, 307, image(1.0), "3ff0000000000000");
  f90_real(15, MPI_UNDEFINED, image(1.0), "3ff0000000000000");
  return golden;
}

class DatarepTest : public MpiTest {
 protected:
  static ByteString contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A file of this rank alone, seen as bytes in external32.
  MPI_File open_alone(const char* datarep = "external32", MPI_Datatype etype = MPI_BYTE) {
    MPI_File fh = MPI_FILE_NULL;
    EXPECT_MPI_OK(
        MPI_File_open(MPI_COMM_SELF, own_path().c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, etype, etype, datarep, MPI_INFO_NULL));
    return fh;
  }
  void TearDown() override {
    std::remove(own_path().c_str());
    MpiTest::TearDown();
  }
};

TEST_F(DatarepTest, External32GoldenBytesAndRoundTripOfEachPredefinedType) {
  for (const Golden& golden : all_golden()) {
    SCOPED_TRACE(golden.name);
    constexpr int kCount = 3;
    ByteString memory, expected;
    for (int i = 0; i < kCount; ++i) {
      memory.insert(memory.end(), golden.memory.begin(), golden.memory.end());
      expected.insert(expected.end(), golden.file.begin(), golden.file.end());
    }
    MPI_File fh = open_alone();
    MPI_Status status;
    EXPECT_MPI_OK(MPI_File_write(fh, memory.data(), kCount, golden.datatype, &status));
    int count = -1;
    MPI_Get_count(&status, golden.datatype, &count);
    EXPECT_EQ(count, kCount);
    EXPECT_EQ(contents(own_path()), expected);
    ByteString back(memory.size(), 0xaa);
    EXPECT_MPI_OK(MPI_File_read_at(fh, 0, back.data(), kCount, golden.datatype, &status));
    EXPECT_EQ(back, memory);
    MPI_Aint extent = -1;
    EXPECT_MPI_OK(MPI_File_get_type_extent(fh, golden.datatype, &extent));
    EXPECT_EQ(extent, static_cast<MPI_Aint>(golden.file.size()));
    // The end of the file cuts the last item.
    EXPECT_MPI_OK(MPI_File_set_size(fh, static_cast<MPI_Offset>(expected.size()) - 1));
    EXPECT_MPI_OK(MPI_File_read_at(fh, 0, back.data(), kCount, golden.datatype, &status));
    MPI_Get_count(&status, golden.datatype, &count);
    EXPECT_EQ(count, kCount - 1);
    MPI_File_close(&fh);
    std::remove(own_path().c_str());
  }
}

// A structure of items at random places, repeated with gaps; what the file must hold is put together from the golden bytes.
TEST_F(DatarepTest, External32OfRandomStructuresThroughEveryKindOfCall) {
  const std::vector<Golden> golden = all_golden();
  const std::uint64_t seed = shared_seed();
  SCOPED_TRACE("STRIDIO_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> displacements;
    std::vector<MPI_Datatype> types;
    ByteString memory_of_one, file_of_one;
    for (auto members = 1 + random() % 5; members > 0; --members) {
      const Golden& member = golden[random() % golden.size()];
      memory_of_one.resize(memory_of_one.size() + random() % 9, 0xaa);
      lengths.push_back(1 + static_cast<int>(random() % 3));
      displacements.push_back(static_cast<MPI_Aint>(memory_of_one.size()));
      types.push_back(member.datatype);
      for (int i = 0; i < lengths.back(); ++i) {
        memory_of_one.insert(memory_of_one.end(), member.memory.begin(), member.memory.end());
        file_of_one.insert(file_of_one.end(), member.file.begin(), member.file.end());
      }
    }
    const int blocks = 1 + static_cast<int>(random() % 400);
    const MPI_Aint step = static_cast<MPI_Aint>(memory_of_one.size() + random() % 7);
    MPI_Datatype one, resized, type;
    MPI_Type_create_struct(static_cast<int>(lengths.size()), lengths.data(), displacements.data(), types.data(), &one);
    MPI_Type_create_resized(one, 0, step, &resized);
    MPI_Type_vector(blocks, 1, 1, resized, &type);
    MPI_Type_commit(&type);
    ByteString memory(static_cast<std::size_t>(step * blocks), 0xaa), expected;
    for (int i = 0; i < blocks; ++i) {
      std::copy(memory_of_one.begin(), memory_of_one.end(), memory.begin() + i * step);
      expected.insert(expected.end(), file_of_one.begin(), file_of_one.end());
    }

    MPI_File fh = open();
    EXPECT_MPI_OK(MPI_File_set_size(fh, 0));
    const auto part = static_cast<MPI_Offset>(expected.size());
    EXPECT_MPI_OK(MPI_File_set_view(fh, rank() * part, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    MPI_Status status;
    MPI_Request request;
    switch (round % 4) {
      case 0: EXPECT_MPI_OK(MPI_File_write_all(fh, memory.data(), 1, type, &status)); break;
      case 1: EXPECT_MPI_OK(MPI_File_write_at(fh, 0, memory.data(), 1, type, &status)); break;
      case 2:
        EXPECT_MPI_OK(MPI_File_iwrite_at_all(fh, 0, memory.data(), 1, type, &request));
        EXPECT_MPI_OK(MPI_Wait(&request, &status));
        break;
      default:
        EXPECT_MPI_OK(MPI_File_write_all_begin(fh, memory.data(), 1, type));
        EXPECT_MPI_OK(MPI_File_write_all_end(fh, memory.data(), &status));
    }
    int count = -1;
    MPI_Get_count(&status, type, &count);
    EXPECT_EQ(count, 1);
    MPI_File_sync(fh);
    MPI_Barrier(MPI_COMM_WORLD);
    const ByteString all = contents(path());
    ASSERT_EQ(all.size(), expected.size() * static_cast<std::size_t>(size()));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + rank() * part));

    ByteString back(memory.size(), 0xaa);
    switch (round % 4) {
      case 0:
        EXPECT_MPI_OK(MPI_File_iread_at(fh, 0, back.data(), 1, type, &request));
        MPI_Type_free(&type);  // allowed while the access is pending
        EXPECT_MPI_OK(MPI_Wait(&request, &status));
        break;
      case 1: EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, back.data(), 1, type, &status)); break;
      case 2:
        EXPECT_MPI_OK(MPI_File_seek(fh, 0, MPI_SEEK_SET));
        EXPECT_MPI_OK(MPI_File_read(fh, back.data(), 1, type, &status));
        break;
      default:
        EXPECT_MPI_OK(MPI_File_read_at_all_begin(fh, 0, back.data(), 1, type));
        EXPECT_MPI_OK(MPI_File_read_at_all_end(fh, back.data(), &status));
    }
    EXPECT_EQ(back, memory) << "round " << round;
    MPI_File_close(&fh);
    MPI_Type_free(&one);
    MPI_Type_free(&resized);
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
}

TEST_F(DatarepTest, External32ViewOfStridedLongs) {
  // Portable file types shrink with their items: every size()-th long is this rank's.
  MPI_Datatype column, filetype;
  MPI_Type_vector(8, 1, size(), MPI_LONG, &column);
  const int sizes[] = {8, size()}, part[] = {8, 1}, start[] = {0, rank()};
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_LONG, &filetype);
  MPI_Type_commit(&filetype);
  MPI_File fh = open();
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_LONG, filetype, "external32", MPI_INFO_NULL));
  MPI_Aint extent = -1;
  EXPECT_MPI_OK(MPI_File_get_type_extent(fh, filetype, &extent));
  EXPECT_EQ(extent, 8 * size() * 4);
  EXPECT_MPI_OK(MPI_File_get_type_extent(fh, column, &extent));
  EXPECT_EQ(extent, (7 * size() + 1) * 4);
  std::vector<long> mine(16), back(16);
  for (int i = 0; i < 16; ++i) mine[static_cast<std::size_t>(i)] = 1000 * rank() - i;
  EXPECT_MPI_OK(MPI_File_write_all(fh, mine.data(), 16, MPI_LONG, MPI_STATUS_IGNORE));
  MPI_Offset disp = -1, bytes = -1;
  EXPECT_MPI_OK(MPI_File_get_byte_offset(fh, 8, &disp));
  EXPECT_EQ(disp, (8 * size() + rank()) * 4);
  EXPECT_MPI_OK(MPI_File_get_size(fh, &bytes));
  MPI_File_sync(fh);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(bytes, 16 * size() * 4);
  const ByteString all = contents(path());
  for (int i = 0; i < 16; ++i) {
    const std::size_t at = static_cast<std::size_t>(i * size() + rank()) * 4;
    const auto number = static_cast<std::int32_t>(all[at] << 24 | all[at + 1] << 16 | all[at + 2] << 8 | all[at + 3]);
    EXPECT_EQ(number, mine[static_cast<std::size_t>(i)]);
  }
  EXPECT_MPI_OK(MPI_File_read_at_all(fh, 0, back.data(), 16, MPI_LONG, MPI_STATUS_IGNORE));
  EXPECT_EQ(back, mine);
  MPI_File_close(&fh);
  MPI_Type_free(&column);
  MPI_Type_free(&filetype);
}

TEST_F(DatarepTest, External32OverflowIsAConversionErrorOnAllRanksAndWritesNothing) {
  MPI_File fh = open();
  EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
  const std::vector<long> values = {1, rank() == size() - 1 ? 2147483648l : 2, 3};
  EXPECT_MPI_ERROR(MPI_File_write_at_all(fh, 3 * rank(), values.data(), 3, MPI_LONG, MPI_STATUS_IGNORE),
                   MPI_ERR_CONVERSION, "2147483648 does not fit");
  const unsigned long too_large = 1ul << 32;
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, 0, &too_large, 1, MPI_UNSIGNED_LONG, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION,
                   "4294967296 does not fit");
  const wchar_t beyond = 0x1f600;
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, 0, &beyond, 1, MPI_WCHAR, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION,
                   "128512 does not fit");
  MPI_Offset bytes = -1;
  MPI_File_get_size(fh, &bytes);
  EXPECT_EQ(bytes, 0);
  MPI_File_close(&fh);
}

TEST_F(DatarepTest, TypeExtentInEachRepresentation) {
  MPI_Datatype contiguous, vector, structure, resized;
  MPI_Type_contiguous(3, MPI_LONG, &contiguous);
  MPI_Type_vector(2, 3, 5, MPI_LONG_INT, &vector);
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {0, 24};
  const MPI_Datatype members[] = {MPI_LONG, MPI_SHORT};
  MPI_Type_create_struct(2, lengths, places, members, &structure);
  MPI_Type_create_resized(MPI_LONG, -8, 100, &resized);
  struct Expected {
    MPI_Datatype datatype;
    MPI_Aint native, external32;
  };
  const std::vector<Expected> all = {{MPI_LONG, 8, 4},     {MPI_LONG_DOUBLE, 16, 16}, {MPI_LONG_INT, 16, 8},
                                     {contiguous, 24, 12}, {vector, 8 * 16, 8 * 8},   {structure, 32, 28},
                                     {resized, 100, 100}};
  MPI_File fh = open();
  for (const char* name : {"native", "internal", "external32"}) {
    EXPECT_MPI_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, name, MPI_INFO_NULL));
    for (const Expected& each : all) {
      MPI_Aint extent = -1;
      MPI_Count extent_c = -1;
      EXPECT_MPI_OK(MPI_File_get_type_extent(fh, each.datatype, &extent));
      EXPECT_EQ(extent, *name == 'e' ? each.external32 : each.native) << name;
      EXPECT_MPI_OK(MPI_File_get_type_extent_c(fh, each.datatype, &extent_c));
      EXPECT_EQ(extent_c, extent);
    }
    char datarep[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    EXPECT_MPI_OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    EXPECT_STREQ(datarep, name);
  }
  MPI_File_close(&fh);
  for (MPI_Datatype* type : {&contiguous, &vector, &structure, &resized}) MPI_Type_free(type);
}

TEST_F(DatarepTest, RanksMustAgreeOnTheRepresentation) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  MPI_File fh = open();
  EXPECT_MPI_ERROR(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, rank() == 0 ? "external32" : "native", MPI_INFO_NULL),
                   MPI_ERR_NOT_SAME, "data representation");
  MPI_File_close(&fh);
}

// ---- Registered representations: an int is stored in 8 bytes, as its distance from a base that the extra state holds.

struct Seen {
  std::int64_t base = 0;
  int calls = 0;
  std::int64_t items = 0;
  int answer = MPI_SUCCESS;
};

int extent_of(MPI_Datatype datatype, MPI_Aint* extent, void*) {
  int size = 0;
  MPI_Type_size(datatype, &size);
  *extent = datatype == MPI_INT ? 8 : size;
  return MPI_SUCCESS;
}

// Where the `item`-th int of the tiled datatype lies: the test uses contiguous ints and every other int.
int* place(void* memory, MPI_Datatype datatype, MPI_Offset item) {
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_get_extent(datatype, &lb, &extent);
  return static_cast<int*>(memory) + item * (datatype == MPI_INT ? 1 : 2);
}

template <typename Count>
int store(void* memory, MPI_Datatype datatype, Count count, void* file, MPI_Offset position, void* state) {
  auto& seen = *static_cast<Seen*>(state);
  ++seen.calls;
  seen.items += count;
  for (Count i = 0; i < count; ++i) {
    const std::int64_t number = *place(memory, datatype, position + i) - seen.base;
    std::memcpy(static_cast<char*>(file) + i * 8, &number, 8);
  }
  return seen.answer;
}
template <typename Count>
int fetch(void* memory, MPI_Datatype datatype, Count count, void* file, MPI_Offset position, void* state) {
  auto& seen = *static_cast<Seen*>(state);
  ++seen.calls;
  seen.items += count;
  for (Count i = 0; i < count; ++i) {
    std::int64_t number;
    std::memcpy(&number, static_cast<char*>(file) + i * 8, 8);
    *place(memory, datatype, position + i) = static_cast<int>(number + seen.base);
  }
  return seen.answer;
}

class RegisteredTest : public DatarepTest {
 protected:
  static inline Seen seen_;
  static void SetUpTestSuite() {
    EXPECT_MPI_OK(MPI_Register_datarep("distance", fetch<int>, store<int>, extent_of, &seen_));
    EXPECT_MPI_OK(MPI_Register_datarep_c("distance_c", fetch<MPI_Count>, store<MPI_Count>, extent_of, &seen_));
    EXPECT_MPI_OK(MPI_Register_datarep("as_it_is", nullptr, nullptr, native_extent, nullptr));
  }
  static int native_extent(MPI_Datatype datatype, MPI_Aint* extent, void*) {
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
  }
  void SetUp() override {
    DatarepTest::SetUp();
    seen_ = {};
    seen_.base = 1'000'000;
  }
};

TEST_F(RegisteredTest, ConvertsWhatIsWrittenAndRead) {
  for (const char* name : {"distance", "distance_c"}) {
    seen_ = {.base = 1'000'000};
    MPI_File fh = open();
    EXPECT_MPI_OK(MPI_File_set_view(fh, rank() * 80, MPI_INT, MPI_INT, name, MPI_INFO_NULL));
    MPI_Datatype every_other;
    MPI_Type_vector(10, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    std::vector<int> mine(20, -7), back(10, 0);
    for (int i = 0; i < 10; ++i) mine[static_cast<std::size_t>(2 * i)] = 100 * rank() + i;
    MPI_Status status;
    EXPECT_MPI_OK(MPI_File_write_all(fh, mine.data(), 1, every_other, &status));
    EXPECT_EQ(seen_.calls, 1);
    EXPECT_EQ(seen_.items, 10);
    EXPECT_EQ(ints(status), 10);
    MPI_File_sync(fh);
    MPI_Barrier(MPI_COMM_WORLD);
    std::int64_t number = 0;
    const ByteString all = contents(path());
    ASSERT_EQ(all.size(), static_cast<std::size_t>(80 * size()));
    std::memcpy(&number, all.data() + rank() * 80 + 72, 8);
    EXPECT_EQ(number, 100 * rank() + 9 - 1'000'000);
    MPI_Request request;
    EXPECT_MPI_OK(MPI_File_iread_at(fh, 2, back.data(), 8, MPI_INT, &request));
    EXPECT_MPI_OK(MPI_Wait(&request, &status));
    EXPECT_EQ(ints(status), 8);
    EXPECT_EQ(back[0], 100 * rank() + 2);
    EXPECT_EQ(back[7], 100 * rank() + 9);
    MPI_Aint extent = -1;
    EXPECT_MPI_OK(MPI_File_get_type_extent(fh, every_other, &extent));
    EXPECT_EQ(extent, 19 * 8);
    MPI_Type_free(&every_other);
    MPI_File_close(&fh);
  }
}

TEST_F(RegisteredTest, TheEndOfTheFileCountsWholeItems) {
  MPI_File fh = open_alone("distance", MPI_INT);
  std::vector<int> values = {1, 2, 3, 4};
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), 4, MPI_INT, MPI_STATUS_IGNORE));
  EXPECT_MPI_OK(MPI_File_set_size(fh, 27));
  std::vector<int> back(10, -1);
  MPI_Status status;
  EXPECT_MPI_OK(MPI_File_read_at(fh, 0, back.data(), 10, MPI_INT, &status));
  EXPECT_EQ(ints(status), 3);
  EXPECT_EQ(back, (std::vector<int>{1, 2, 3, -1, -1, -1, -1, -1, -1, -1}));
  MPI_File_close(&fh);
}

TEST_F(RegisteredTest, AnErrorOfItsFunctionIsAConversionError) {
  MPI_File fh = open_alone("distance", MPI_INT);
  int value = 5;
  seen_.answer = MPI_ERR_OTHER;
  EXPECT_MPI_ERROR(MPI_File_write_at(fh, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION,
                   "the write function of data representation \"distance\"");
  seen_.answer = MPI_SUCCESS;
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  seen_.answer = MPI_ERR_OTHER;
  MPI_Request request;
  EXPECT_MPI_OK(MPI_File_iread_at(fh, 0, &value, 1, MPI_INT, &request));
  EXPECT_MPI_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION, "the read function");
  MPI_File_close(&fh);
}

TEST_F(RegisteredTest, WithoutConversionFunctionsBytesGoAsTheyAre) {
  MPI_File fh = open_alone("as_it_is", MPI_INT);
  const std::vector<int> values = {1, 2, 3};
  EXPECT_MPI_OK(MPI_File_write_at(fh, 0, values.data(), 3, MPI_INT, MPI_STATUS_IGNORE));
  MPI_File_sync(fh);
  ByteString expected(12);
  std::memcpy(expected.data(), values.data(), 12);
  EXPECT_EQ(contents(own_path()), expected);
  EXPECT_EQ(read_ints(fh, 0, 3), values);
  MPI_File_close(&fh);
}

}  // namespace
}  // namespace stridio::testing
