// MPI_File is an OpenFile of ours. Handles are looked up in a table of the open ones, never dereferenced unseen:
// a closed, foreign or garbage handle is MPI_ERR_FILE. The table also gives the integers of c2f and toint.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/worker.h"
#include "file/file.h"
#include "mpiio/datatype.h"
#include "mpiio/errhandler.h"
#include "mpiio/host.h"
#include "mpiio/process.h"
#include "mpiio/representation.h"

namespace stridio::mpiio {

enum class Split { kReadAt, kRead, kReadOrdered, kWriteAt, kWrite, kWriteOrdered };

// A begun split collective: its data is moved, its status waits for the end.
struct ActiveSplit {
  Split kind;
  Bytes bytes;
};

struct OpenFile {
  std::unique_ptr<HostUse> host;
  std::unique_ptr<File> file;
  int amode = 0;
  MPI_Group group = MPI_GROUP_NULL;
  KeptType etype;
  KeptType filetype;
  std::string datarep = "native";
  std::shared_ptr<const Representation> representation;  // null: as in memory
  ErrorHandler handler;
  std::optional<ActiveSplit> split;
  int integer = 0;
  std::uint64_t number = 0;   // of its opening, counted in this process
  Worker independent_worker;  // the nonblocking accesses in progress
  Worker collective_worker;

  MPI_File handle() { return reinterpret_cast<MPI_File>(this); }
};

// Enters a file into the table, which owns it, and returns its handle.
MPI_File enter(std::shared_ptr<OpenFile> file);
// The open file of a handle; null for any other value.
std::shared_ptr<OpenFile> find(MPI_File fh);
// Removes it from the table; it is destroyed when its last user has gone.
void leave(MPI_File fh);

// All open files, in the order of their opening.
std::vector<std::shared_ptr<OpenFile>> open_files();

// The integer of a handle (that of MPI_FILE_NULL for a bad one) and back (MPI_FILE_NULL for an unknown integer).
int to_integer(MPI_File fh, int null_integer);
MPI_File from_integer(int integer, int null_integer);

}  // namespace stridio::mpiio
