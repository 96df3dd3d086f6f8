// Views, file pointers and positions.
#include "mpiio/convert.h"
#include "mpiio/entry.h"
#include "mpiio/request.h"
#include "mpiio/view.h"

using namespace stridio;
using namespace stridio::mpiio;

STRIDIO_API(int, File_set_view,
            (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep,
             MPI_Info info)) {
  return on_file_together(fh, [&](OpenFile& open) { return set_view(open, disp, etype, filetype, datarep, info); });
}

STRIDIO_API(int, File_get_view,
            (MPI_File fh, MPI_Offset* disp, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep)) {
  return on_file(fh, [&](OpenFile& open) { return get_view(open, disp, etype, filetype, datarep); });
}

STRIDIO_API(int, File_seek, (MPI_File fh, MPI_Offset offset, int whence)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(const Whence from, whence_of(whence));
    return open.file->seek(offset, from);
  });
}

STRIDIO_API(int, File_get_position, (MPI_File fh, MPI_Offset* offset)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(*offset, open.file->position());
    return {};
  });
}

// Collective: a rank with a bad whence takes part by seeking to where nobody may.
STRIDIO_API(int, File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence)) {
  return on_file_together(fh, [&](OpenFile& open) -> Status {
    const auto from = whence_of(whence);
    if (from) return open.file->seek_shared(offset, *from);
    (void)open.file->seek_shared(-1, Whence::kSet);
    return fail(from.error());
  });
}

STRIDIO_API(int, File_get_position_shared, (MPI_File fh, MPI_Offset* offset)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    if (open.file->mode().sequential)
      return fail(Code::kUnsupportedOperation, "position: the file was opened with MPI_MODE_SEQUENTIAL");
    ASSIGN_OR_RETURN(*offset, open.file->position_shared());
    return {};
  });
}

STRIDIO_API(int, File_get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset* disp)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(*disp, open.file->byte_offset(offset));
    return {};
  });
}

STRIDIO_API(int, File_get_type_extent, (MPI_File fh, MPI_Datatype datatype, MPI_Aint* extent)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(*extent, file_extent(open, datatype));
    return {};
  });
}

STRIDIO_API(int, File_get_type_extent_c, (MPI_File fh, MPI_Datatype datatype, MPI_Count* extent)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(*extent, file_extent(open, datatype));
    return {};
  });
}
