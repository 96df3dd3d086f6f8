#include "base/result.h"

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace stridio {

Code code_of_errno(int sys_errno) {
  switch (sys_errno) {
    case 0: return Code::kOk;
    case ENOENT: return Code::kNoSuchFile;
    case EEXIST: return Code::kFileExists;
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP: return Code::kBadFileName;
    case EACCES:
    case EPERM: return Code::kAccess;
    case EROFS: return Code::kReadOnly;
    case EBUSY:
    case ETXTBSY: return Code::kFileInUse;
    case ENOSPC:
    case EFBIG: return Code::kNoSpace;
    case EDQUOT: return Code::kQuota;
    case ENOMEM: return Code::kNoMemory;
    case ENOSYS:
    case EOPNOTSUPP: return Code::kUnsupportedOperation;
    default: return Code::kIo;
  }
}

tl::unexpected<Error> fail_errno(int sys_errno, std::string what, std::string path) {
  return fail(Error{
      .code = code_of_errno(sys_errno), .what = std::move(what), .sys_errno = sys_errno, .path = std::move(path)});
}

std::string Error::text() const {
  std::string line = what;
  if (!path.empty())
    line += " [file " + shortened(path, 120) + "]";  // MPI's texts are short: the reason is still to come
  if (sys_errno != 0) line += std::string(": ") + std::strerror(sys_errno);
  if (rank >= 0) line += " (rank " + std::to_string(rank) + ")";
  return line;
}

const char* name_of(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kArgument: return "argument";
    case Code::kCount: return "count";
    case Code::kDatatype: return "datatype";
    case Code::kAmode: return "amode";
    case Code::kNoSuchFile: return "no such file";
    case Code::kFileExists: return "file exists";
    case Code::kBadFileName: return "bad file name";
    case Code::kAccess: return "access";
    case Code::kReadOnly: return "read only";
    case Code::kFileInUse: return "file in use";
    case Code::kNoSpace: return "no space";
    case Code::kQuota: return "quota";
    case Code::kIo: return "io";
    case Code::kNotSame: return "not same";
    case Code::kInfo: return "info";
    case Code::kUnsupportedDatarep: return "unsupported data representation";
    case Code::kUnsupportedOperation: return "unsupported operation";
    case Code::kConversion: return "conversion";
    case Code::kDuplicateDatarep: return "duplicate data representation";
    case Code::kNoMemory: return "no memory";
    case Code::kBadHandle: return "bad handle";
    case Code::kOther: return "other";
  }
  return "unknown";
}

}  // namespace stridio
