// What the tests of the MPI layer share: ranks, a file of their own, and readable expectations of errors.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace stridio::testing {

inline int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

inline std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

// The call fails with the class, and its text has the words.
#define EXPECT_MPI_ERROR(call, error_class, words)                                                  \
  do {                                                                                              \
    const int code_ = (call);                                                                       \
    EXPECT_EQ(::stridio::testing::class_of(code_), error_class)                                     \
        << #call << ": " << ::stridio::testing::text_of(code_);                                     \
    EXPECT_NE(::stridio::testing::text_of(code_).find(words), std::string::npos)                    \
        << #call << ": \"" << ::stridio::testing::text_of(code_) << "\" lacks \"" << words << "\""; \
  } while (false)

#define EXPECT_MPI_OK(call)                                                               \
  do {                                                                                    \
    const int code_ = (call);                                                             \
    EXPECT_EQ(code_, MPI_SUCCESS) << #call << ": " << ::stridio::testing::text_of(code_); \
  } while (false)

// Every test runs on all ranks and starts without the file path().
class MpiTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  static int rank();
  static int size();
  // The same on all ranks, different in each test.
  const std::string& path() const { return path_; }
  std::string own_path() const { return path_ + "." + std::to_string(rank()); }

  // Collective. The file must open.
  MPI_File open(int amode = MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_Info info = MPI_INFO_NULL) const;
  static void write_ints(MPI_File fh, MPI_Offset offset, const std::vector<int>& values);
  static std::vector<int> read_ints(MPI_File fh, MPI_Offset offset, int count);
  static int ints(const MPI_Status& status);

 private:
  std::string path_;
};

// The same on all ranks: STRIDIO_SEED or a fresh one.
std::uint64_t shared_seed();

}  // namespace stridio::testing
