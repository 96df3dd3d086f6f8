! Ranks write their blocks of a three-dimensional array by subarray views in Fortran's order, with every kind of collective
! write, from blocks that lie in larger arrays with a border. Run with and without Stridio, the files must be equal.
!   subarray PATH
#include "mpi_interface.h"

program subarray
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: block(3) = [5, 3, 4], border = 1
  integer :: rank, ranks, ierror, i, j, k, written, sizes(3), starts(3), dims(3), memory_sizes(3), memory_starts(3)
  integer(kind=MPI_OFFSET_KIND) :: displacement
  double precision :: memory(7, 5, 6)
  character(len=512) :: path
  TYPE_FILE :: fh
  TYPE_DATATYPE :: filetype, memtype
  TYPE_STATUS :: status

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call get_command_argument(1, path)

  dims = 0
  call MPI_Dims_create(ranks, 3, dims, ierror)
  sizes = dims * block
  starts = [mod(rank, dims(1)), mod(rank / dims(1), dims(2)), rank / (dims(1) * dims(2))] * block
  call MPI_Type_create_subarray(3, sizes, block, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, filetype, ierror)
  call MPI_Type_commit(filetype, ierror)
  memory_sizes = block + 2 * border
  memory_starts = border
  call MPI_Type_create_subarray(3, memory_sizes, block, memory_starts, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, memtype, &
                                ierror)
  call MPI_Type_commit(memtype, ierror)
  do k = 1, 6
    do j = 1, 5
      do i = 1, 7
        memory(i, j, k) = 1000 * rank + 100 * i + 10 * j + k + 0.5d0
      end do
    end do
  end do

  call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, fh, ierror)
  if (ierror /= MPI_SUCCESS) call stop_with('MPI_File_open')
  displacement = 24
  call MPI_File_set_view(fh, displacement, MPI_DOUBLE_PRECISION, filetype, 'native', MPI_INFO_NULL, ierror)
  if (ierror /= MPI_SUCCESS) call stop_with('MPI_File_set_view')
  do i = 1, 4
    memory = memory + 10000
    select case (i)
    case (1)
      call MPI_File_write_all(fh, memory, 1, memtype, status, ierror)
    case (2)
      call MPI_File_write(fh, memory, 1, memtype, status, ierror)
    case (3)
      call MPI_File_write_all_begin(fh, memory, 1, memtype, ierror)
      call MPI_File_write_all_end(fh, memory, status, ierror)
    case (4)
      displacement = 3 * product(block)
      call MPI_File_write_at_all(fh, displacement, memory, 1, memtype, status, ierror)
    end select
    if (ierror /= MPI_SUCCESS) call stop_with('a write')
    call MPI_Get_count(status, memtype, written, ierror)
    if (written /= 1) call stop_with('a status')
  end do
  call MPI_Type_free(memtype, ierror)
  call MPI_Type_free(filetype, ierror)
  call MPI_File_close(fh, ierror)
  call MPI_Finalize(ierror)

contains

  subroutine stop_with(what)
    character(len=*), intent(in) :: what
    print *, what, ' failed'
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

end program
