// The host MPI as a preloaded library sees it: every symbol of it is a weak reference, so that the library
// loads, and does nothing, in a process without MPI. Only PMPI names are called: profiling tools see the
// program's calls, not ours. Also force-included before group/mpi's sources.
#pragma once

#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#if defined(OPEN_MPI)
// Open MPI's header stops at MPI-3.1: what its library may have beyond it, and the types that MPI-4 adds.
extern "C" {
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_abort;
}
inline bool is_errors_abort(MPI_Errhandler handler) {
  return handler != nullptr && handler == reinterpret_cast<MPI_Errhandler>(&ompi_mpi_errors_abort);
}
typedef int(MPI_Datarep_conversion_function_c)(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset, void*);
#else
#define STRIDIO_LARGE_COUNT_HOST 1
inline bool is_errors_abort(MPI_Errhandler handler) { return handler == MPI_ERRORS_ABORT; }
#endif

// clang-format off
#if defined(OPEN_MPI)
#pragma weak ompi_mpi_byte
#pragma weak ompi_mpi_comm_null
#pragma weak ompi_mpi_comm_self
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_datatype_null
#pragma weak ompi_mpi_errors_abort
#pragma weak ompi_mpi_errors_are_fatal
#pragma weak ompi_mpi_errors_return
#pragma weak ompi_mpi_errhandler_null
#pragma weak ompi_mpi_file_null
#pragma weak ompi_mpi_group_empty
#pragma weak ompi_mpi_group_null
#pragma weak ompi_mpi_info_null
#pragma weak ompi_mpi_int
#pragma weak ompi_mpi_char
#pragma weak ompi_mpi_long_long_int
#pragma weak ompi_mpi_int64_t
#pragma weak ompi_mpi_op_max
#pragma weak ompi_mpi_op_min
#pragma weak ompi_mpi_op_sum
#pragma weak ompi_mpi_op_band
#pragma weak ompi_mpi_op_land
#pragma weak ompi_request_null
#endif
#if defined(OPEN_MPI)  // macros elsewhere
#pragma weak PMPI_Errhandler_c2f
#pragma weak PMPI_Type_c2f
#endif
#if defined(OPEN_MPI) || defined(MPI_ABI)  // elsewhere the name is ours
#pragma weak PMPI_Error_string
#endif
#pragma weak PMPI_Abort
#pragma weak PMPI_Add_error_code
#pragma weak PMPI_Add_error_string
#pragma weak PMPI_Allgather
#pragma weak PMPI_Allgatherv
#pragma weak PMPI_Allreduce
#pragma weak PMPI_Alltoall
#pragma weak PMPI_Barrier
#pragma weak PMPI_Bcast
#pragma weak PMPI_Comm_call_errhandler
#pragma weak PMPI_Comm_compare
#pragma weak PMPI_Comm_create_errhandler
#pragma weak PMPI_Comm_create_group
#pragma weak PMPI_Comm_create_keyval
#pragma weak PMPI_Comm_delete_attr
#pragma weak PMPI_Comm_dup
#pragma weak PMPI_Comm_free
#pragma weak PMPI_Comm_free_keyval
#pragma weak PMPI_Comm_get_attr
#pragma weak PMPI_Comm_get_errhandler
#pragma weak PMPI_Comm_group
#pragma weak PMPI_Comm_rank
#pragma weak PMPI_Comm_set_attr
#pragma weak PMPI_Comm_set_errhandler
#pragma weak PMPI_Comm_size
#pragma weak PMPI_Comm_split
#pragma weak PMPI_Comm_split_type
#pragma weak PMPI_Comm_test_inter
#pragma weak PMPI_Errhandler_free
#pragma weak PMPI_Error_class
#pragma weak PMPI_Finalized
#pragma weak PMPI_Gather
#pragma weak PMPI_Get_address
#pragma weak PMPI_Get_count
#pragma weak PMPI_Get_processor_name
#pragma weak PMPI_Grequest_complete
#pragma weak PMPI_Grequest_start
#pragma weak PMPI_Group_excl
#pragma weak PMPI_Group_free
#pragma weak PMPI_Group_incl
#pragma weak PMPI_Group_rank
#pragma weak PMPI_Iallgather
#pragma weak PMPI_Iallreduce
#pragma weak PMPI_Ibarrier
#pragma weak PMPI_Info_create
#pragma weak PMPI_Info_free
#pragma weak PMPI_Info_get
#pragma weak PMPI_Info_get_nkeys
#pragma weak PMPI_Info_get_nthkey
#pragma weak PMPI_Info_get_valuelen
#pragma weak PMPI_Info_set
#pragma weak PMPI_Initialized
#pragma weak PMPI_Iprobe
#pragma weak PMPI_Irecv
#pragma weak PMPI_Isend
#pragma weak PMPI_Query_thread
#pragma weak PMPI_Recv
#pragma weak PMPI_Send
#pragma weak PMPI_Status_set_cancelled
#pragma weak PMPI_Status_set_elements_x
#pragma weak PMPI_Type_commit
#pragma weak PMPI_Type_contiguous
#pragma weak PMPI_Type_create_keyval
#pragma weak PMPI_Type_delete_attr
#pragma weak PMPI_Type_dup
#pragma weak PMPI_Type_free
#pragma weak PMPI_Type_free_keyval
#pragma weak PMPI_Type_get_attr
#pragma weak PMPI_Type_get_contents
#pragma weak PMPI_Type_get_contents_c
#pragma weak PMPI_Type_get_envelope
#pragma weak PMPI_Type_get_envelope_c
#pragma weak PMPI_Type_get_extent
#pragma weak PMPI_Type_get_extent_x
#pragma weak PMPI_Type_get_name
#pragma weak PMPI_Type_get_true_extent_x
#pragma weak PMPI_Type_set_attr
#pragma weak PMPI_Type_size_x
#pragma weak PMPIX_Comm_create_errhandler_x
// clang-format on
