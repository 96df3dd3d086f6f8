// Opening and closing, sizes, hints, and what a file tells about itself.
#include <string>

#include "file/hint_sources.h"
#include "group/mpi/mpi_group.h"
#include "mpiio/convert.h"
#include "mpiio/entry.h"
#include "mpiio/request.h"

namespace stridio::mpiio {
namespace {

int node_ranks(const std::string& path, const HintList& hints) {
  std::vector<std::string> ignored;
  return hints_for(path, hints, ignored).node_ranks;
}

// A name or mode that is bad on this rank only still goes into the collective open, which refuses it on every rank.
Result<std::shared_ptr<OpenFile>> open_file(MPI_Comm comm, const char* name, int amode, MPI_Info info) {
  const std::string path = name == nullptr ? "" : name;
  const InCall in_call("MPI_File_open", path);
  auto host = std::make_unique<HostUse>(comm);
  const HintList hints = hints_of(info);
  const auto mode = access_mode(amode);
  ASSIGN_OR_RETURN(auto group, acquire_group(comm, node_ranks(path, hints)));
  auto file = File::open(std::move(group), path, mode.value_or(AccessMode{}), hints);
  if (!mode) return fail(mode.error());
  if (name == nullptr) return fail(Code::kBadFileName, "the file name is a null pointer");
  if (!file) return fail(std::move(file).error());
  auto open = std::make_shared<OpenFile>();
  open->host = std::move(host);
  open->file = *std::move(file);
  open->amode = amode;
  PMPI_Comm_group(comm, &open->group);
  ASSIGN_OR_RETURN(open->handler, attach_handler(default_handler().host));
  return open;
}

int class_of_bad_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return MPI_ERR_COMM;
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  return inter != 0 ? MPI_ERR_COMM : MPI_SUCCESS;
}

}  // namespace
}  // namespace stridio::mpiio

using namespace stridio;
using namespace stridio::mpiio;

STRIDIO_API(int, File_open, (MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh)) {
  *fh = MPI_FILE_NULL;
  if (const int bad = class_of_bad_comm(comm); bad != MPI_SUCCESS)
    return raise(default_handler(), MPI_FILE_NULL, bad,
                 comm == MPI_COMM_NULL ? "the communicator is MPI_COMM_NULL"
                                       : "the communicator is an intercommunicator; an intracommunicator is needed",
                 __func__);
  return without_file([&]() -> Status {
    ASSIGN_OR_RETURN(auto open, open_file(comm, filename, amode, info));
    *fh = enter(std::move(open));
    return {};
  });
}

STRIDIO_API(int, File_close, (MPI_File * fh)) {
  const int code = on_file_together(*fh, [](OpenFile& open) -> Status {
    const bool early = has_pending(open);
    RETURN_IF_ERROR(open.file->close());
    if (early)
      return fail(Code::kOther,
                  "the file was closed with nonblocking accesses that the program has not completed; "
                  "they are done, but MPI_File_close belongs after their MPI_Wait");
    return {};
  });
  if (const auto open = find(*fh)) {
    leave(*fh);
    PMPI_Group_free(&open->group);
    detach_handler(open->handler);
    open->host.reset();
  }
  *fh = MPI_FILE_NULL;
  return code;
}

STRIDIO_API(int, File_delete, (const char* filename, MPI_Info)) {
  return without_file([&]() -> Status {
    if (filename == nullptr) return fail(Code::kBadFileName, "the file name is a null pointer");
    return File::remove(filename);
  });
}

STRIDIO_API(int, File_set_size, (MPI_File fh, MPI_Offset size)) {
  return on_file_together(fh, [&](OpenFile& open) { return open.file->set_size(size); });
}

STRIDIO_API(int, File_preallocate, (MPI_File fh, MPI_Offset size)) {
  return on_file_together(fh, [&](OpenFile& open) { return open.file->preallocate(size); });
}

STRIDIO_API(int, File_get_size, (MPI_File fh, MPI_Offset* size)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    ASSIGN_OR_RETURN(*size, open.file->size());
    return {};
  });
}

STRIDIO_API(int, File_sync, (MPI_File fh)) {
  return on_file_together(fh, [](OpenFile& open) { return open.file->sync(); });
}

STRIDIO_API(int, File_set_info, (MPI_File fh, MPI_Info info)) {
  return on_file_together(fh, [&](OpenFile& open) { return open.file->set_hints(hints_of(info)); });
}

STRIDIO_API(int, File_get_info, (MPI_File fh, MPI_Info* info)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    *info = info_of(open.file->hints());
    return {};
  });
}

STRIDIO_API(int, File_get_amode, (MPI_File fh, int* amode)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    *amode = open.amode;
    return {};
  });
}

STRIDIO_API(int, File_get_group, (MPI_File fh, MPI_Group* group)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    PMPI_Group_excl(open.group, 0, nullptr, group);  // the same members: a reference for the program to free
    return {};
  });
}

STRIDIO_API(int, File_set_atomicity, (MPI_File fh, int flag)) {
  return on_file_together(fh, [&](OpenFile& open) { return open.file->set_atomicity(flag != 0); });
}

STRIDIO_API(int, File_get_atomicity, (MPI_File fh, int* flag)) {
  return on_file(fh, [&](OpenFile& open) -> Status {
    *flag = open.file->atomicity() ? 1 : 0;
    return {};
  });
}
