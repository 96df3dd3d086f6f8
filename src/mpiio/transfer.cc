#include "mpiio/transfer.h"

#include <string>

#include "mpiio/convert.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

const char* name_of(Split kind) {
  switch (kind) {
    case Split::kReadAt:
      return "MPI_File_read_at_all";
    case Split::kRead:
      return "MPI_File_read_all";
    case Split::kReadOrdered:
      return "MPI_File_read_ordered";
    case Split::kWriteAt:
      return "MPI_File_write_at_all";
    case Split::kWrite:
      return "MPI_File_write_all";
    case Split::kWriteOrdered:
      return "MPI_File_write_ordered";
  }
  return "?";
}

Result<Memory> memory_of(const UserBuffer& buffer) {
  if (buffer.count < 0)
    return fail(Code::kCount, "the count is " + std::to_string(buffer.count) + "; it must not be negative");
  ASSIGN_OR_RETURN(const auto type, decode_committed(buffer.datatype));
  ASSIGN_OR_RETURN(Pattern pattern, repeat(*type, buffer.count));
  return Memory{static_cast<std::byte*>(buffer.address), std::move(pattern)};
}

Status check(const OpenFile& open, Form form, MPI_Offset offset) {
  if (form.pointer == Pointer::kExplicit && offset < 0)
    return fail(Code::kArgument, "the offset is " + std::to_string(offset) + "; it must not be negative");
  if (form.collective && open.split)
    return fail(Code::kOther, std::string("the split collective ") + name_of(open.split->kind) +
                                  "_begin has not been ended on this file; no other collective access may "
                                  "start before its end");
  return {};
}

Result<Access> access_of(const OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  RETURN_IF_ERROR(check(open, form, offset));
  ASSIGN_OR_RETURN(Memory memory, memory_of(buffer));
  return Access{.direction = form.direction,
                .pointer = form.pointer,
                .collective = form.collective,
                .offset = form.pointer == Pointer::kExplicit ? offset : 0,
                .memory = std::move(memory)};
}

}  // namespace

Result<Access> access_for(const OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  auto access = access_of(open, form, offset, buffer);
  if (access || !form.collective) return access;
  Access nothing;
  nothing.direction = form.direction;
  nothing.pointer = form.pointer;
  nothing.collective = true;
  nothing.invalid = access.error();
  return nothing;
}

Result<Bytes> transfer(OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  if (form.collective) settle(open);
  ASSIGN_OR_RETURN(const Access access, access_for(open, form, offset, buffer));
  return open.file->transfer(access);
}

Status begin(OpenFile& open, Split kind, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  ASSIGN_OR_RETURN(const Bytes bytes, transfer(open, form, offset, buffer));
  open.split = ActiveSplit{kind, bytes};
  return {};
}

Status end(OpenFile& open, Split kind, MPI_Status* status) {
  if (!open.split || open.split->kind != kind)
    return fail(Code::kOther, std::string(name_of(kind)) + "_end without its begin: " +
                                  (open.split ? std::string(name_of(open.split->kind)) + "_begin is active"
                                              : "no split collective is active on this file"));
  set_status(status, open.split->bytes);
  open.split.reset();
  return {};
}

}  // namespace stridio::mpiio
