// Errors are values: Result<T> with an Error that names what, where and why. Nothing throws across a
// folder. MPI error classes exist only in mpiio/, which maps Code onto them.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/extent.h"

namespace stridio {

// One enumerator for each kind of failure that a caller may want to tell apart; ordered by nothing.
// The numbers travel between ranks in the agreements of a collective: append only.
enum class Code : std::int32_t {
  kOk = 0,
  kArgument,
  kCount,
  kDatatype,
  kAmode,
  kNoSuchFile,
  kFileExists,
  kBadFileName,
  kAccess,
  kReadOnly,
  kFileInUse,
  kNoSpace,
  kQuota,
  kIo,
  kNotSame,
  kInfo,
  kUnsupportedDatarep,
  kUnsupportedOperation,
  kConversion,
  kDuplicateDatarep,
  kNoMemory,
  kBadHandle,
  kOther,
};

struct [[nodiscard]] Error {
  Code code = Code::kOther;
  std::string what;       // a sentence: what was wrong and what would be right
  int sys_errno = 0;      // 0 where no system call failed
  std::string path = {};  // the file, where known
  int rank = -1;          // the rank of the group that failed, where known

  // One line for people: what, path, errno's text, rank.
  std::string text() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
inline tl::unexpected<Error> fail(Code code, std::string what) {
  return fail(Error{.code = code, .what = std::move(what)});
}
// The error of a failed system call: the code that its errno stands for, and `what` was tried.
tl::unexpected<Error> fail_errno(int sys_errno, std::string what, std::string path = {});
Code code_of_errno(int sys_errno);
const char* name_of(Code code);

}  // namespace stridio

#define STRIDIO_CONCAT_(a, b) a##b
#define STRIDIO_CONCAT(a, b) STRIDIO_CONCAT_(a, b)

#define RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                             \
    if (auto result_ = (expression); !result_) return ::stridio::fail(std::move(result_).error()); \
  } while (false)

#define ASSIGN_OR_RETURN(declaration, expression)                                 \
  auto STRIDIO_CONCAT(result_, __LINE__) = (expression);                          \
  if (!STRIDIO_CONCAT(result_, __LINE__))                                         \
    return ::stridio::fail(std::move(STRIDIO_CONCAT(result_, __LINE__)).error()); \
  declaration = *std::move(STRIDIO_CONCAT(result_, __LINE__))
