! One source for the three interfaces: what differs between them. Compiled with INTERFACE_MPIF_H, INTERFACE_MPI or INTERFACE_F08.
#if defined(INTERFACE_F08)
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#define TYPE_COMM type(MPI_Comm)
#define TYPE_DATATYPE type(MPI_Datatype)
#define TYPE_ERRHANDLER type(MPI_Errhandler)
#define TYPE_FILE type(MPI_File)
#define TYPE_GROUP type(MPI_Group)
#define TYPE_INFO type(MPI_Info)
#define TYPE_REQUEST type(MPI_Request)
#define TYPE_STATUS type(MPI_Status)
#define TYPE_STATUSES(count) type(MPI_Status), dimension(count)
#define TYPE_BUFFER type(c_ptr), value
#else
#if defined(INTERFACE_MPI)
#define USE_MPI use mpi
#define INCLUDE_MPI
#else
#define USE_MPI
#define INCLUDE_MPI include 'mpif.h'
#endif
#define TYPE_COMM integer
#define TYPE_DATATYPE integer
#define TYPE_ERRHANDLER integer
#define TYPE_FILE integer
#define TYPE_GROUP integer
#define TYPE_INFO integer
#define TYPE_REQUEST integer
#define TYPE_STATUS integer, dimension(MPI_STATUS_SIZE)
#define TYPE_STATUSES(count) integer, dimension(MPI_STATUS_SIZE, count)
#define TYPE_BUFFER integer(c_int32_t), dimension(*)
#endif
