#include "mpiio/view.h"

#include <cstring>
#include <string>

#include "mpiio/convert.h"

namespace stridio::mpiio {
namespace {

// How many blocks of a file type are looked at for torn etypes.
constexpr int kTornEtypeEffort = 4096;

struct ViewTypes {
  View view;
  KeptType etype;
  KeptType filetype;
  std::shared_ptr<const Representation> representation;
};

// What a datatype is in the file.
Result<Type> form_of(MPI_Datatype datatype, const Representation* representation) {
  ASSIGN_OR_RETURN(const auto type, decode(datatype));
  if (representation == nullptr) return *type;
  return in_file(datatype, *representation);
}

Result<Offset> displacement_of(OpenFile& open, MPI_Offset given) {
  const bool sequential = open.file->mode().sequential;
  if (given != MPI_DISPLACEMENT_CURRENT) {
    if (sequential)
      return fail(Code::kArgument,
                  "the file was opened with MPI_MODE_SEQUENTIAL: the displacement must be MPI_DISPLACEMENT_CURRENT");
    if (given < 0)
      return fail(Code::kArgument, "the view's displacement is " + std::to_string(given) + "; it must not be negative");
    return given;
  }
  if (!sequential)
    return fail(Code::kArgument, "MPI_DISPLACEMENT_CURRENT is for files opened with MPI_MODE_SEQUENTIAL");
  ASSIGN_OR_RETURN(const Offset position, open.file->position_shared());
  return open.file->byte_offset(position);
}

// A contiguous etype must not be torn apart by the file type. Exact for the file type's first blocks.
bool tears_etype(const Type& filetype, Bytes etype_size) {
  RunReader runs{Cursor(filetype.pattern)};
  for (int i = 0; i < kTornEtypeEffort; ++i) {
    const auto run = runs.next();
    if (!run) return false;
    if (run->length % etype_size != 0) return true;
  }
  return false;
}

Status check_built_of(const Type& filetype, const Type& etype) {
  const Bytes size = etype.size();
  if (size == 0) return fail(Code::kArgument, "the etype is empty; it must have at least one byte");
  if (filetype.size() == 0) return {};
  const std::string sizes =
      "file type of " + std::to_string(filetype.size()) + " bytes, etype of " + std::to_string(size);
  if (filetype.size() % size != 0)
    return fail(Code::kArgument,
                "the file type is not built of etypes: its size is no multiple of the etype's (" + sizes + ")");
  if (etype.pattern.contiguous() && tears_etype(filetype, size))
    return fail(
        Code::kArgument,
        "the file type is not built of etypes: it has pieces that are no multiple of the etype's size (" + sizes + ")");
  return {};
}

Result<ViewTypes> view_of(OpenFile& open, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                          const char* datarep) {
  ViewTypes result;
  ASSIGN_OR_RETURN(result.representation, find_representation(datarep));
  RETURN_IF_ERROR(decode_committed(etype));
  RETURN_IF_ERROR(decode_committed(filetype));
  ASSIGN_OR_RETURN(const Type etype_form, form_of(etype, result.representation.get()));
  ASSIGN_OR_RETURN(const Type filetype_form, form_of(filetype, result.representation.get()));
  RETURN_IF_ERROR(check_built_of(filetype_form, etype_form));
  ASSIGN_OR_RETURN(result.view.displacement, displacement_of(open, displacement));
  result.view.etype_size = etype_form.size();
  result.view.filetype = filetype_form.pattern;
  result.view.filetype_extent = filetype_form.extent;
  result.view.representation = datarep;
  ASSIGN_OR_RETURN(result.etype, KeptType::keep(etype));
  ASSIGN_OR_RETURN(result.filetype, KeptType::keep(filetype));
  return result;
}

}  // namespace

Result<Bytes> file_extent(const OpenFile& open, MPI_Datatype datatype) {
  ASSIGN_OR_RETURN(const Type type, form_of(datatype, open.representation.get()));
  return type.extent;
}

Status set_view(OpenFile& open, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep,
                MPI_Info info) {
  auto types = view_of(open, displacement, etype, filetype, datarep);
  if (!types) return open.file->set_view({}, hints_of(info), types.error());
  RETURN_IF_ERROR(open.file->set_view(types->view, hints_of(info)));
  open.etype = std::move(types->etype);
  open.filetype = std::move(types->filetype);
  open.datarep = datarep;
  open.representation = std::move(types->representation);
  return {};
}

Status get_view(OpenFile& open, MPI_Offset* displacement, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep) {
  *displacement = open.file->view().displacement;
  ASSIGN_OR_RETURN(OwnedType same_etype, open.etype.duplicate());
  ASSIGN_OR_RETURN(OwnedType same_filetype, open.filetype.duplicate());
  *etype = std::move(same_etype).release();
  *filetype = std::move(same_filetype).release();
  std::strcpy(datarep, open.datarep.c_str());
  return {};
}

}  // namespace stridio::mpiio
