#include "mpiio/error.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace stridio::mpiio {
namespace {

std::mutex mutex;

struct Ring {
  int codes[kRing] = {};
  int used = 0;
  int next = 0;
};

// The place of the next code of a class; false where the host refuses to make one.
bool next_code(Ring& ring, int error_class, int& code) {
  const int place = ring.next;
  if (place == ring.used) {
    if (PMPI_Add_error_code(error_class, &ring.codes[place]) != MPI_SUCCESS) return false;
    ++ring.used;
  }
  ring.next = (place + 1) % kRing;
  code = ring.codes[place];
  return true;
}

// The texts of codes that the host itself does not tell; guarded by `mutex`.
std::map<int, std::string>& untold() {
  static auto& texts = *new std::map<int, std::string>;
  return texts;
}

// The name is ours too where texts are untold.
int host_error_string(int code, char* text, int* length) {
  using Function = int (*)(int, char*, int*);
  static const auto function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "PMPI_Error_string"));
  return function == nullptr ? MPI_ERR_OTHER : function(code, text, length);
}

// MPICH before 4.1 forgets the texts of codes that were added to a predefined class.
bool host_tells(int code, const std::string& text) {
  char told[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  return host_error_string(code, told, &length) == MPI_SUCCESS && text == told;
}

void log_error(int error_class, const std::string& text) {
  static const char* const setting = std::getenv("STRIDIO_LOG");
  if (setting == nullptr || *setting == '\0' || *setting == '0') return;
  warn(text + " (error class " + std::to_string(error_class) + ")");
}

[[noreturn]] void abort_program(int code, const std::string& text) {
  warn("the file's error handler ends the program: " + text);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // launchers drop what an aborting rank has just said
  PMPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

void call(const HandlerFunction& function, MPI_File fh, int code, const std::string& text) {
  using Kind = HandlerFunction::Kind;
  switch (function.kind) {
    case Kind::kReturn: return;
    case Kind::kFatal:
    case Kind::kAbort: abort_program(code, text);
    case Kind::kUser: {
      int given = code;
      function.user(&fh, &given);
      return;
    }
    case Kind::kUserX: function.user_x(fh, code, function.extra_state); return;
  }
}

}  // namespace

int class_of(Code code) {
  static constexpr std::pair<Code, int> kClasses[] = {
      {Code::kOk, MPI_SUCCESS},
      {Code::kArgument, MPI_ERR_ARG},
      {Code::kCount, MPI_ERR_COUNT},
      {Code::kDatatype, MPI_ERR_TYPE},
      {Code::kAmode, MPI_ERR_AMODE},
      {Code::kNoSuchFile, MPI_ERR_NO_SUCH_FILE},
      {Code::kFileExists, MPI_ERR_FILE_EXISTS},
      {Code::kBadFileName, MPI_ERR_BAD_FILE},
      {Code::kAccess, MPI_ERR_ACCESS},
      {Code::kReadOnly, MPI_ERR_READ_ONLY},
      {Code::kFileInUse, MPI_ERR_FILE_IN_USE},
      {Code::kNoSpace, MPI_ERR_NO_SPACE},
      {Code::kQuota, MPI_ERR_QUOTA},
      {Code::kIo, MPI_ERR_IO},
      {Code::kNotSame, MPI_ERR_NOT_SAME},
      {Code::kInfo, MPI_ERR_INFO},
      {Code::kUnsupportedDatarep, MPI_ERR_UNSUPPORTED_DATAREP},
      {Code::kUnsupportedOperation, MPI_ERR_UNSUPPORTED_OPERATION},
      {Code::kConversion, MPI_ERR_CONVERSION},
      {Code::kDuplicateDatarep, MPI_ERR_DUP_DATAREP},
      {Code::kNoMemory, MPI_ERR_NO_MEM},
      {Code::kBadHandle, MPI_ERR_FILE},
  };
  for (const auto& [each, error_class] : kClasses)
    if (each == code) return error_class;
  return MPI_ERR_OTHER;
}

int make_code(int error_class, const std::string& text) {
  static auto& rings = *new std::map<int, Ring>;
  const std::lock_guard lock(mutex);
  int code = error_class;
  if (!next_code(rings[error_class], error_class, code)) return error_class;
  const std::string kept = text.substr(0, MPI_MAX_ERROR_STRING - 1);
  PMPI_Add_error_string(code, kept.c_str());
  if (host_tells(code, kept)) {
    untold().erase(code);
  } else {
    untold()[code] = kept;
  }
  return code;
}

int error_string(int code, char* text, int* length) {
  const std::lock_guard lock(mutex);
  const auto found = untold().find(code);
  if (found == untold().end()) return host_error_string(code, text, length);
  std::strcpy(text, found->second.c_str());
  *length = static_cast<int>(found->second.size());
  return MPI_SUCCESS;
}

int raise(const ErrorHandler& handler, MPI_File fh, int error_class, const std::string& what, const char* caller) {
  if (*caller == 'P') ++caller;
  const std::string text = std::string(caller) + ": " + what;
  log_error(error_class, text);
  const int code = make_code(error_class, text);
  call(handler.function, fh, code, text);
  return code;
}

int raise(const ErrorHandler& handler, MPI_File fh, const Error& error, const char* caller) {
  return raise(handler, fh, class_of(error.code), error.text(), caller);
}

void call_handler(const ErrorHandler& handler, MPI_File fh, int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  error_string(code, text, &length);
  call(handler.function, fh, code, text);
}

}  // namespace stridio::mpiio
