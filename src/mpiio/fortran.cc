// What defining the C names leaves to do for Fortran. Its interfaces call them, so that nearly all works by itself; but
// two functions are given functions of the program, which expect integer handles and arguments by reference: MPICH hands
// these to C as they are, and Open MPI makes error handlers without calling C.
#include <dlfcn.h>

#include <string>
#include <string_view>

#include "mpiio/datarep.h"
#include "mpiio/entry.h"

#undef MPI_CONVERSION_FN_NULL  // a name below

// Defines pmpi_<name>_ and its other names: those that compilers give the procedures of mpif.h and `use mpi`, and those of
// mpi_f08's procedures in MPICH (pmpir) and Open MPI.
#define FORTRAN_ALIAS(original, name, ...) \
  extern "C" __attribute__((visibility("default"), alias(#original) __VA_OPT__(, ) __VA_ARGS__)) decltype(original) name
#define STRIDIO_FORTRAN_API(lower, upper, parameters)                                \
  extern "C" __attribute__((visibility("default"))) void pmpi_##lower##_ parameters; \
  FORTRAN_ALIAS(pmpi_##lower##_, pmpi_##lower);                                      \
  FORTRAN_ALIAS(pmpi_##lower##_, pmpi_##lower##__);                                  \
  FORTRAN_ALIAS(pmpi_##lower##_, PMPI_##upper);                                      \
  FORTRAN_ALIAS(pmpi_##lower##_, pmpi_##lower##_f08_);                               \
  FORTRAN_ALIAS(pmpi_##lower##_, pmpir_##lower##_f08_);                              \
  FORTRAN_ALIAS(pmpi_##lower##_, mpi_##lower, weak);                                 \
  FORTRAN_ALIAS(pmpi_##lower##_, mpi_##lower##_, weak);                              \
  FORTRAN_ALIAS(pmpi_##lower##_, mpi_##lower##__, weak);                             \
  FORTRAN_ALIAS(pmpi_##lower##_, MPI_##upper, weak);                                 \
  FORTRAN_ALIAS(pmpi_##lower##_, mpi_##lower##_f08_, weak);                          \
  void pmpi_##lower##_ parameters

namespace stridio::mpiio {
namespace {

using FortranHandler = void(int* file, int* code);
using FortranConversion = void(void* memory, int* datatype, int* count, void* file, MPI_Offset* position,
                               MPI_Aint* extra_state, int* ierror);
using FortranExtent = void(int* datatype, MPI_Aint* extent, MPI_Aint* extra_state, int* ierror);

void call_fortran_handler(MPI_File fh, int code, void* function) {
  int file = to_integer(fh, 0);
  reinterpret_cast<FortranHandler*>(function)(&file, &code);
}

// The extra state of a representation whose functions are Fortran's.
struct FortranDatarep {
  FortranConversion* read;
  FortranConversion* write;
  FortranExtent* extent;
  MPI_Aint extra_state;
};

template <FortranConversion* FortranDatarep::*function>
int call_conversion(void* memory, MPI_Datatype datatype, int count, void* file, MPI_Offset position, void* state) {
  auto& datarep = *static_cast<FortranDatarep*>(state);
  int integer = PMPI_Type_c2f(datatype);
  int ierror = MPI_SUCCESS;
  (datarep.*function)(memory, &integer, &count, file, &position, &datarep.extra_state, &ierror);
  return ierror;
}

int call_extent(MPI_Datatype datatype, MPI_Aint* bytes, void* state) {
  auto& datarep = *static_cast<FortranDatarep*>(state);
  int integer = PMPI_Type_c2f(datatype);
  int ierror = MPI_SUCCESS;
  datarep.extent(&integer, bytes, &datarep.extra_state, &ierror);
  return ierror;
}

// MPI_CONVERSION_FN_NULL is known by its address. In an executable of fixed addresses each of its names has one of its own.
bool is_null(FortranConversion* function) {
  for (const char* name : {"mpi_conversion_fn_null_", "mpi_conversion_fn_null", "mpi_conversion_fn_null__",
                           "MPI_CONVERSION_FN_NULL", "__mpi_f08_callbacks_MOD_mpi_conversion_fn_null"})
    if (reinterpret_cast<void*>(function) == dlsym(RTLD_DEFAULT, name)) return true;
  return false;
}

// In mpi_f08 `ierror` is optional.
void give(int code, int* ierror) {
  if (ierror != nullptr) *ierror = code;
}

}  // namespace
}  // namespace stridio::mpiio

using namespace stridio;
using namespace stridio::mpiio;

STRIDIO_FORTRAN_API(file_create_errhandler, FILE_CREATE_ERRHANDLER,
                    (FortranHandler * function, int* errhandler, int* ierror)) {
  MPI_Errhandler host = MPI_ERRHANDLER_NULL;
  const int code = create_handler({.kind = HandlerFunction::Kind::kUserX,
                                   .user_x = call_fortran_handler,
                                   .extra_state = reinterpret_cast<void*>(function)},
                                  &host);
  if (code == MPI_SUCCESS) *errhandler = PMPI_Errhandler_c2f(host);
  give(code, ierror);
}

// Defined here to be found by is_null() wherever the host was loaded; never called.
STRIDIO_FORTRAN_API(conversion_fn_null, CONVERSION_FN_NULL, (void*, int*, int*, void*, MPI_Offset*, MPI_Aint*, int*)) {}
FORTRAN_ALIAS(pmpi_conversion_fn_null_, __mpi_f08_callbacks_MOD_mpi_conversion_fn_null, weak);  // gfortran's mpi_f08

STRIDIO_FORTRAN_API(register_datarep, REGISTER_DATAREP,
                    (const char* name, FortranConversion* read, FortranConversion* write, FortranExtent* extent,
                     MPI_Aint* extra_state, int* ierror, int length)) {
  const int code = without_file(
      [&]() -> Status {
        const std::string_view padded(name, static_cast<std::size_t>(length));
        // Kept for good: no call of MPI unregisters a representation.
        auto* datarep = new FortranDatarep{read, write, extent, *extra_state};
        return register_datarep(std::string(padded.substr(0, padded.find_last_not_of(' ') + 1)).c_str(),
                                {.read = is_null(read) ? nullptr : call_conversion<&FortranDatarep::read>,
                                 .write = is_null(write) ? nullptr : call_conversion<&FortranDatarep::write>,
                                 .extent = call_extent,
                                 .extra_state = datarep});
      },
      "MPI_Register_datarep");
  give(code, ierror);
}
