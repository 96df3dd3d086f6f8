#include "mpiio/transfer.h"

#include <string>

#include "base/guarded.h"
#include "mpiio/convert.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

const char* name_of(Split kind) {
  switch (kind) {
    case Split::kReadAt: return "MPI_File_read_at_all";
    case Split::kRead: return "MPI_File_read_all";
    case Split::kReadOrdered: return "MPI_File_read_ordered";
    case Split::kWriteAt: return "MPI_File_write_at_all";
    case Split::kWrite: return "MPI_File_write_all";
    case Split::kWriteOrdered: return "MPI_File_write_ordered";
  }
  return "?";
}

// Through the file's representation where it has one.
Result<Prepared> prepare_memory(const OpenFile& open, Direction direction, const UserBuffer& buffer) {
  if (buffer.count < 0)
    return fail(Code::kCount, "the count is " + std::to_string(buffer.count) + "; it must not be negative");
  ASSIGN_OR_RETURN(const auto type, decode_committed(buffer.datatype));
  ASSIGN_OR_RETURN(Pattern pattern, repeat(*type, buffer.count));
  Prepared prepared;
  prepared.access.memory = {static_cast<std::byte*>(buffer.address), std::move(pattern)};
  if (!open.representation || !open.representation->converts(direction)) return prepared;
  ASSIGN_OR_RETURN(prepared.conversion, Conversion::start(open.representation, direction,
                                                          {buffer.address, buffer.datatype, prepared.access.memory,
                                                           Signature::repeated(buffer.count, type->signature)}));
  prepared.access.memory = prepared.conversion->staged();
  return prepared;
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

Result<Prepared> prepare_checked(const OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  RETURN_IF_ERROR(check(open, form, offset));
  ASSIGN_OR_RETURN(Prepared prepared, prepare_memory(open, form.direction, buffer));
  prepared.access.direction = form.direction;
  prepared.access.pointer = form.pointer;
  prepared.access.collective = form.collective;
  prepared.access.offset = form.pointer == Pointer::kExplicit ? offset : 0;
  return prepared;
}

}  // namespace

Result<Prepared> prepare(const OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  auto prepared = guarded([&] { return prepare_checked(open, form, offset, buffer); });
  if (prepared || !form.collective) return prepared;
  Prepared nothing;
  nothing.access.direction = form.direction;
  nothing.access.pointer = form.pointer;
  nothing.access.collective = true;
  nothing.access.invalid = prepared.error();
  return nothing;
}

Result<Bytes> finish(Conversion* conversion, Bytes moved) {
  return conversion == nullptr ? Result<Bytes>(moved) : conversion->finish(moved);
}

Result<Bytes> transfer(OpenFile& open, Form form, MPI_Offset offset, const UserBuffer& buffer) {
  if (form.collective) settle(open);
  ASSIGN_OR_RETURN(const Prepared prepared, prepare(open, form, offset, buffer));
  ASSIGN_OR_RETURN(const Bytes moved, open.file->transfer(prepared.access));
  return finish(prepared.conversion.get(), moved);
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
