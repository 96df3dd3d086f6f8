#include "mpiio/datarep.h"

#include <limits>
#include <map>
#include <mutex>
#include <string>

namespace stridio::mpiio {
namespace {

// Runs the program's functions (MPI-4.1 section 14.5.3).
class UserRepresentation : public Representation {
 public:
  UserRepresentation(std::string name, const Datarep& functions) : name_(std::move(name)), functions_(functions) {}

  Result<Bytes> file_extent(const Item& item) const override {
    MPI_Aint extent = -1;
    const int code = functions_.extent(item.datatype, &extent, functions_.extra_state);
    if (code != MPI_SUCCESS) return failed("the extent function", code);
    if (extent < 0)
      return fail(Code::kConversion, "the extent function of data representation \"" + name_ + "\" gave " +
                                         std::to_string(extent) + " bytes; it must not be negative");
    return extent;
  }

  bool converts(Direction direction) const override {
    if (direction == Direction::kRead) return functions_.read != nullptr || functions_.read_c != nullptr;
    return functions_.write != nullptr || functions_.write_c != nullptr;
  }

  Status to_file(const Buffer& from, std::byte* file) const override {
    return convert(functions_.write, functions_.write_c, from, from.signature.items(), file, "the write function");
  }
  Status from_file(const std::byte* file, std::int64_t items, const Buffer& to) const override {
    return convert(functions_.read, functions_.read_c, to, items, const_cast<std::byte*>(file), "the read function");
  }

 private:
  tl::unexpected<Error> failed(const char* function, int code) const {
    return fail(Code::kConversion, std::string(function) + " of data representation \"" + name_ +
                                       "\" returned the error code " + std::to_string(code));
  }

  Status convert(MPI_Datarep_conversion_function* function, MPI_Datarep_conversion_function_c* function_c,
                 const Buffer& buffer, std::int64_t items, std::byte* file, const char* what) const {
    if (items == 0) return {};
    if (function_c == nullptr && items > std::numeric_limits<int>::max())
      return fail(Code::kCount, std::to_string(items) +
                                    " items are too many for the int count of data representation \"" + name_ +
                                    "\"; register it by MPI_Register_datarep_c or access less at a time");
    const int code =
        function_c != nullptr
            ? function_c(buffer.address, buffer.datatype, items, file, 0, functions_.extra_state)
            : function(buffer.address, buffer.datatype, static_cast<int>(items), file, 0, functions_.extra_state);
    if (code != MPI_SUCCESS) return failed(what, code);
    return {};
  }

  const std::string name_;
  const Datarep functions_;
};

std::mutex mutex;

std::map<std::string, std::shared_ptr<const UserRepresentation>, std::less<>>& registered() {
  static auto& map = *new std::map<std::string, std::shared_ptr<const UserRepresentation>, std::less<>>;
  return map;
}

bool is_predefined(std::string_view name) { return name == "native" || name == "internal" || name == "external32"; }

}  // namespace

Status register_datarep(const char* name, const Datarep& datarep) {
  if (name == nullptr || *name == '\0') return fail(Code::kArgument, "the data representation needs a name");
  if (std::string_view(name).size() >= MPI_MAX_DATAREP_STRING)
    return fail(Code::kArgument, "the data representation's name is longer than MPI_MAX_DATAREP_STRING - 1 = " +
                                     std::to_string(MPI_MAX_DATAREP_STRING - 1) + " characters");
  if (datarep.extent == nullptr)
    return fail(Code::kArgument, "data representation \"" + std::string(name) + "\" needs an extent function");
  const std::lock_guard lock(mutex);
  if (is_predefined(name) || !registered().emplace(name, std::make_shared<UserRepresentation>(name, datarep)).second)
    return fail(Code::kDuplicateDatarep,
                "data representation \"" + std::string(name) + "\" exists already; choose another name");
  return {};
}

std::shared_ptr<const Representation> find_datarep(std::string_view name) {
  const std::lock_guard lock(mutex);
  const auto found = registered().find(name);
  return found == registered().end() ? nullptr : found->second;
}

}  // namespace stridio::mpiio
