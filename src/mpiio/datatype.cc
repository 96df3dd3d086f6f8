// Each combiner becomes the pattern node that describes it, at the cost of the constructor's own arguments:
// a vector of 10^8 blocks is one node. Extents come from the host; sizes are checked against it.
#include "mpiio/datatype.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "mpiio/contents.h"
#include "mpiio/process.h"
#include "mpiio/type_builder.h"

namespace stridio::mpiio {
namespace {

using TypePtr = std::shared_ptr<const Type>;

// Guards the caches; MPI allows no program to free a type that another thread uses.
std::mutex mutex;

int delete_cached(MPI_Datatype, int, void* value, void*) {
  delete static_cast<TypePtr*>(value);
  return MPI_SUCCESS;
}

int copy_nothing(MPI_Datatype, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

int type_keyval = MPI_KEYVAL_INVALID;

int keyval() {
  if (type_keyval == MPI_KEYVAL_INVALID) PMPI_Type_create_keyval(copy_nothing, delete_cached, &type_keyval, nullptr);
  return type_keyval;
}

// Predefined types live as long as the program, so that their handles are good keys.
std::map<MPI_Datatype, TypePtr>& predefined_types() {
  static auto& types = *new std::map<MPI_Datatype, TypePtr>;
  return types;
}

TypePtr find_cached(MPI_Datatype datatype) {
  const std::lock_guard lock(mutex);
  const auto found = predefined_types().find(datatype);
  if (found != predefined_types().end()) return found->second;
  TypePtr* cached = nullptr;
  int flag = 0;
  PMPI_Type_get_attr(datatype, keyval(), &cached, &flag);
  return flag != 0 ? *cached : nullptr;
}

void cache(MPI_Datatype datatype, const TypePtr& type) {
  const std::lock_guard lock(mutex);
  if (type->predefined) {
    predefined_types()[datatype] = type;
  } else {
    PMPI_Type_set_attr(datatype, keyval(), new TypePtr(type));
  }
}

}  // namespace

Result<TypePtr> decode(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL)
    return fail(Code::kDatatype, "the datatype is MPI_DATATYPE_NULL; a committed datatype is needed");
  if (auto cached = find_cached(datatype)) return cached;
  ASSIGN_OR_RETURN(Type built, build_type(datatype, nullptr));
  auto type = std::make_shared<const Type>(std::move(built));
  cache(datatype, type);
  return type;
}

void forget_types() {
  const std::lock_guard lock(mutex);
  if (type_keyval != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&type_keyval);
}

Result<Type> in_file(MPI_Datatype datatype, const Representation& representation) {
  return build_type(datatype, &representation);
}

// MPI has no call that tells: a message to nobody asks for a committed type and moves nothing.
Result<TypePtr> decode_committed(MPI_Datatype datatype) {
  ASSIGN_OR_RETURN(TypePtr type, decode(datatype));
  if (!type->predefined && PMPI_Send(&type, 1, datatype, MPI_PROC_NULL, 0, private_comm()) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the datatype has not been committed; MPI_Type_commit belongs before its first use");
  return type;
}

Result<Pattern> repeat(const Type& type, std::int64_t count) {
  Bytes total = 0;
  Bytes reach = 0;
  if (__builtin_mul_overflow(type.size(), count, &total) || __builtin_mul_overflow(type.extent, count, &reach))
    return fail(Code::kCount, "the count " + std::to_string(count) + " of elements of " + std::to_string(type.extent) +
                                  " bytes is more than 2^63 - 1 bytes");
  if (count == 1) return type.pattern;
  return Pattern::strided(count, type.extent, type.pattern);
}

OwnedType::~OwnedType() {
  if (derived_) PMPI_Type_free(&datatype_);
}

OwnedType::OwnedType(OwnedType&& other) noexcept
    : datatype_(other.datatype_), derived_(std::exchange(other.derived_, false)) {}

OwnedType& OwnedType::operator=(OwnedType&& other) noexcept {
  std::swap(datatype_, other.datatype_);
  std::swap(derived_, other.derived_);
  return *this;
}

OwnedType OwnedType::predefined(MPI_Datatype datatype) {
  OwnedType type;
  type.datatype_ = datatype;
  return type;
}

MPI_Datatype OwnedType::release() && {
  derived_ = false;
  return datatype_;
}

Result<KeptType> KeptType::keep(MPI_Datatype datatype) {
  ASSIGN_OR_RETURN(const TypePtr type, decode(datatype));
  KeptType kept;
  if (type->predefined) {
    kept.type_ = OwnedType::predefined(datatype);
    return kept;
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  if (PMPI_Type_contiguous(0, datatype, &made) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI makes no type of this datatype");
  kept.type_ = OwnedType(made);
  return kept;
}

Result<OwnedType> KeptType::original() const {
  if (!type_.derived()) return OwnedType::predefined(type_.get());
  int count = 0;
  MPI_Aint no_address = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type_.get(), 1, 0, 1, &count, &no_address, &datatype) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI does not give back the datatype that a type was made of");
  OwnedType original(datatype);
  if (PMPI_Type_commit(&datatype) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI does not commit a datatype that was committed before");
  return original;
}

Result<OwnedType> KeptType::duplicate() const {
  ASSIGN_OR_RETURN(OwnedType type, original());
  if (!type.derived()) return type;
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  if (PMPI_Type_dup(type.get(), &copy) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI does not duplicate this datatype");
  return OwnedType(copy);
}

}  // namespace stridio::mpiio
