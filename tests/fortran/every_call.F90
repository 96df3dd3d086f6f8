! Calls every function of MPI-IO from Fortran, and checks data, places in the file, statuses and errors. The file itself is looked
! at by Fortran's own I/O. Run with abort_host_io preloaded behind Stridio, so that no call can reach the host's.
!   every_call PATH
#include "mpi_interface.h"

module checks
  use, intrinsic :: iso_c_binding
  USE_MPI
  implicit none
  INCLUDE_MPI

  integer, parameter :: n = 6  ! integers in each access
  integer :: rank, ranks, ierror, failures = 0, mark = 0
  integer(kind=MPI_OFFSET_KIND) :: first  ! of the access, in integers of the view
  character(len=512) :: path
  TYPE_FILE :: fh
  TYPE_STATUS :: status
  integer :: values(n), back(n)

  integer :: handler_calls = 0, handler_code = 0
  TYPE_FILE :: handler_file

  integer(kind=MPI_ADDRESS_KIND), parameter :: extra_state = 4711
  integer :: conversions = 0

  interface
    integer(c_int) function served_by_stridio() bind(c)
      import :: c_int
    end function
  end interface

contains

  subroutine check(good, call, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: call, what
    if (good) return
    print '(a,i0,4a)', 'rank ', rank, ': ', call, ': ', what
    failures = failures + 1
  end subroutine

  subroutine ok(call)
    character(len=*), intent(in) :: call
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: length, code
    if (ierror == MPI_SUCCESS) return
    call MPI_Error_string(ierror, text, length, code)
    call check(.false., call, text(1:length))
  end subroutine

  ! The last call failed with the class, and its text has the word.
  subroutine failed(call, expected, word)
    character(len=*), intent(in) :: call, word
    integer, intent(in) :: expected
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: length, code, class
    call MPI_Error_class(ierror, class, code)
    call check(class == expected, call, 'another error class')
    call MPI_Error_string(ierror, text, length, code)
    call check(index(text(1:length), word) > 0, call, 'the text "' // text(1:length) // '" lacks ' // word)
  end subroutine

  subroutine count_is(call, expected)
    character(len=*), intent(in) :: call
    integer, intent(in) :: expected
    integer :: count, code
    call MPI_Get_count(status, MPI_INTEGER, count, code)
    call check(count == expected, call, 'another count in the status')
    call MPI_Get_elements(status, MPI_INTEGER, count, code)
    call check(count == expected, call, 'other elements in the status')
  end subroutine

  subroutine barrier
    integer :: code
    call MPI_Barrier(MPI_COMM_WORLD, code)
  end subroutine

  ! Integers of the file from `at` on, seen by Fortran's own I/O; -1 for those that are not there.
  function seen(at, count, endian) result(found)
    integer, intent(in) :: at, count
    character(len=*), intent(in), optional :: endian
    integer :: found(count), unit, i, iostat
    character(len=16) :: convert
    convert = 'native'
    if (present(endian)) convert = endian
    found = -1
    open (newunit=unit, file=path, access='stream', form='unformatted', action='read', status='old', convert=convert)
    do i = 1, count
      read (unit, pos=4 * (at + i - 1) + 1, iostat=iostat) found(i)
    end do
    close (unit)
  end function

  ! Rank r's pairs of integers are interleaved with the others': the place in the file of an integer of its view.
  integer function place(of)
    integer, intent(in) :: of
    place = (of / 2) * 2 * ranks + 2 * rank + mod(of, 2)
  end function

  ! New values to write from `at` on, and pointers there.
  subroutine fill(at)
    integer, intent(in) :: at
    integer :: i
    first = at
    mark = mark + 1
    values = [(10000 * mark + 100 * rank + i, i=1, n)]
    back = -1
    call MPI_File_seek(fh, first, MPI_SEEK_SET, ierror)
    call ok('MPI_File_seek')
  end subroutine

  subroutine wrote(call)
    character(len=*), intent(in) :: call
    integer :: i, found(1)
    call ok(call)
    call count_is(call, n)
    call MPI_File_sync(fh, ierror)
    call ok('MPI_File_sync')
    do i = 1, n
      found = seen(place(int(first) + i - 1), 1)
      call check(found(1) == values(i), call, 'other data in the file')
    end do
    call barrier
    call MPI_File_seek(fh, first, MPI_SEEK_SET, ierror)
  end subroutine

  subroutine got(call)
    character(len=*), intent(in) :: call
    call ok(call)
    call count_is(call, n)
    call check(all(back == values), call, 'other data')
  end subroutine

  subroutine finish(request, call)
    TYPE_REQUEST, intent(inout) :: request
    character(len=*), intent(in) :: call
    call ok(call)
    call MPI_Wait(request, status, ierror)
    call check(request == MPI_REQUEST_NULL, call, 'the request is not MPI_REQUEST_NULL')
  end subroutine

  subroutine on_error(file, code)
    TYPE_FILE :: file
    integer :: code
    handler_calls = handler_calls + 1
    handler_file = file
    handler_code = code
  end subroutine

  ! A data representation whose integers are the negatives.
  subroutine negate(from, to, count, datatype, extra, code)
    integer(c_int32_t), intent(in) :: from(*)
    integer(c_int32_t), intent(inout) :: to(*)
    integer, intent(in) :: count
    TYPE_DATATYPE, intent(in) :: datatype
    integer(kind=MPI_ADDRESS_KIND), intent(in) :: extra
    integer, intent(out) :: code
    conversions = conversions + 1
    code = MPI_SUCCESS
    if (datatype /= MPI_INTEGER .or. extra /= extra_state) code = MPI_ERR_OTHER
    if (count < 1 .or. count > n) code = MPI_ERR_OTHER
    if (code == MPI_SUCCESS) to(1:count) = -from(1:count)
  end subroutine

  subroutine read_negative(userbuf, datatype, count, filebuf, position, extra, code)
    TYPE_BUFFER :: userbuf, filebuf
    TYPE_DATATYPE :: datatype
    integer :: count, code
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra
#if defined(INTERFACE_F08)
    integer(c_int32_t), pointer :: user(:), file(:)
    call c_f_pointer(userbuf, user, [int(position) + count])
    call c_f_pointer(filebuf, file, [count])
    call negate(file, user(int(position) + 1:), count, datatype, extra, code)
#else
    call negate(filebuf, userbuf(int(position) + 1), count, datatype, extra, code)
#endif
  end subroutine

  subroutine write_negative(userbuf, datatype, count, filebuf, position, extra, code)
    TYPE_BUFFER :: userbuf, filebuf
    TYPE_DATATYPE :: datatype
    integer :: count, code
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra
#if defined(INTERFACE_F08)
    integer(c_int32_t), pointer :: user(:), file(:)
    call c_f_pointer(userbuf, user, [int(position) + count])
    call c_f_pointer(filebuf, file, [count])
    call negate(user(int(position) + 1:), file, count, datatype, extra, code)
#else
    call negate(userbuf(int(position) + 1), filebuf, count, datatype, extra, code)
#endif
  end subroutine

  subroutine extent_of(datatype, extent, extra, code)
    TYPE_DATATYPE :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra
    integer :: code
    extent = 4
    code = MPI_SUCCESS
    if (datatype /= MPI_INTEGER .or. extra /= extra_state) code = MPI_ERR_OTHER
  end subroutine

end module

module calls
  use checks
  implicit none

contains

  ! Each rank's pairs of integers are interleaved with the others'.
  subroutine set_interleaved_view
    TYPE_DATATYPE :: pair, filetype, etype
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent
    integer(kind=MPI_OFFSET_KIND) :: displacement, offset
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
    lower = 0
    extent = 8 * ranks
    call MPI_Type_create_resized(pair, lower, extent, filetype, ierror)
    call MPI_Type_commit(filetype, ierror)
    displacement = 8 * rank
    call MPI_File_set_view(fh, displacement, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, ierror)
    call ok('MPI_File_set_view')
    call MPI_Type_free(filetype, ierror)
    call MPI_Type_free(pair, ierror)

    datarep = 'unset'
    displacement = -1
    call MPI_File_get_view(fh, displacement, etype, filetype, datarep, ierror)
    call ok('MPI_File_get_view')
    call check(displacement == 8 * rank .and. etype == MPI_INTEGER, 'MPI_File_get_view', 'not what was set')
    call check(datarep == 'native', 'MPI_File_get_view', 'another data representation, or not padded with blanks')
    call MPI_Type_get_extent(filetype, lower, extent, ierror)
    call check(extent == 8 * ranks, 'MPI_File_get_view', 'another file type')
    call MPI_Type_free(filetype, ierror)

    offset = 3
    call MPI_File_get_byte_offset(fh, offset, displacement, ierror)
    call ok('MPI_File_get_byte_offset')
    call check(displacement == 4 * place(3), 'MPI_File_get_byte_offset', 'another offset')
  end subroutine

  subroutine blocking
    call fill(2)
    call MPI_File_write_at(fh, first, values, n, MPI_INTEGER, status, ierror)
    call wrote('MPI_File_write_at')
    call MPI_File_read_at(fh, first, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at')

    call fill(3)
    call MPI_File_write_at_all(fh, first, values, n, MPI_INTEGER, status, ierror)
    call wrote('MPI_File_write_at_all')
    call MPI_File_read_at_all(fh, first, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at_all')

    call fill(1)
    call MPI_File_write(fh, values, n, MPI_INTEGER, status, ierror)
    call wrote('MPI_File_write')
    call MPI_File_read(fh, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read')

    call fill(5)
    call MPI_File_write_all(fh, values, n, MPI_INTEGER, status, ierror)
    call wrote('MPI_File_write_all')
    call MPI_File_read_all(fh, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_all')

    call fill(0)
    call MPI_File_write_all(fh, values, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    call ok('MPI_File_write_all with MPI_STATUS_IGNORE')
    call MPI_File_read_at(fh, first, back, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    call check(all(back == values), 'MPI_File_read_at with MPI_STATUS_IGNORE', 'other data')
  end subroutine

  subroutine split
    call fill(2)
    call MPI_File_write_at_all_begin(fh, first, values, n, MPI_INTEGER, ierror)
    call ok('MPI_File_write_at_all_begin')
    call MPI_File_write_at_all_end(fh, values, status, ierror)
    call wrote('MPI_File_write_at_all_end')
    call MPI_File_read_at_all_begin(fh, first, back, n, MPI_INTEGER, ierror)
    call ok('MPI_File_read_at_all_begin')
    call MPI_File_read_at_all_end(fh, back, status, ierror)
    call got('MPI_File_read_at_all_end')

    call fill(4)
    call MPI_File_write_all_begin(fh, values, n, MPI_INTEGER, ierror)
    call ok('MPI_File_write_all_begin')
    call MPI_File_write_all_end(fh, values, status, ierror)
    call wrote('MPI_File_write_all_end')
    call MPI_File_read_all_begin(fh, back, n, MPI_INTEGER, ierror)
    call ok('MPI_File_read_all_begin')
    call MPI_File_read_all_end(fh, back, status, ierror)
    call got('MPI_File_read_all_end')
  end subroutine

  subroutine nonblocking
    TYPE_REQUEST :: request
    call fill(2)
    call MPI_File_iwrite_at(fh, first, values, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iwrite_at')
    call wrote('MPI_File_iwrite_at')
    call MPI_File_iread_at(fh, first, back, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iread_at')
    call got('MPI_File_iread_at')

    call fill(3)
    call MPI_File_iwrite(fh, values, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iwrite')
    call wrote('MPI_File_iwrite')
    call MPI_File_iread(fh, back, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iread')
    call got('MPI_File_iread')

    call fill(4)
    call MPI_File_iwrite_at_all(fh, first, values, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iwrite_at_all')
    call wrote('MPI_File_iwrite_at_all')
    call MPI_File_iread_at_all(fh, first, back, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iread_at_all')
    call got('MPI_File_iread_at_all')

    call fill(5)
    call MPI_File_iwrite_all(fh, values, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iwrite_all')
    call wrote('MPI_File_iwrite_all')
    call MPI_File_iread_all(fh, back, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iread_all')
    call got('MPI_File_iread_all')
  end subroutine

  ! The requests of files in every call that completes requests, together with a message's.
  subroutine completions
    TYPE_REQUEST :: requests(3)
    TYPE_STATUSES(3) :: statuses
    integer :: sent, received, i, which, count, indices(3), done
    integer(kind=MPI_OFFSET_KIND) :: offsets(2)
    logical :: flag
    do i = 1, 7
      call fill(2)
      offsets = [first, first + 3]
      back = -1
      sent = i
      received = -1
      call MPI_File_iwrite_at(fh, offsets(1), values(1:3), 3, MPI_INTEGER, requests(1), ierror)
      call MPI_Irecv(received, 1, MPI_INTEGER, rank, i, MPI_COMM_WORLD, requests(2), ierror)
      call MPI_File_iwrite_at(fh, offsets(2), values(4:6), 3, MPI_INTEGER, requests(3), ierror)
      call MPI_Send(sent, 1, MPI_INTEGER, rank, i, MPI_COMM_WORLD, ierror)
      done = 0
      select case (i)
      case (1)
        call MPI_Waitall(3, requests, statuses, ierror)
        done = 3
      case (2)
        flag = .false.
        do while (.not. flag)
          call MPI_Testall(3, requests, flag, statuses, ierror)
        end do
        done = 3
      case (3)  ! the index is not looked at: MPICH 4.0's mpi_f08 counts from 0
        do while (done < 3)
          call MPI_Waitany(3, requests, which, status, ierror)
          done = done + 1
        end do
      case (4)
        do while (done < 3)
          call MPI_Testany(3, requests, which, flag, status, ierror)
          if (flag) done = done + 1
        end do
      case (5)
        do while (done < 3)
          call MPI_Waitsome(3, requests, count, indices, statuses, ierror)
          done = done + count
        end do
      case (6)
        do while (done < 3)
          call MPI_Testsome(3, requests, count, indices, statuses, ierror)
          done = done + count
        end do
      case (7)
        flag = .false.
        do while (.not. flag)
          call MPI_Request_get_status(requests(1), flag, status, ierror)
        end do
        call count_is('MPI_Request_get_status', 3)
        call MPI_Request_free(requests(1), ierror)
        flag = .false.
        do while (.not. flag)
          call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE, ierror)
        end do
        flag = .false.
        do while (.not. flag)
          call MPI_Test(requests(3), flag, status, ierror)
        end do
        call count_is('MPI_Test', 3)
        done = 3
      end select
      call ok('the completion')
      call check(done == 3 .and. received == i, 'the completion', 'not all was done')
      call check(all([(requests(which) == MPI_REQUEST_NULL, which=1, 3)]), 'the completion', 'requests are left')
      call MPI_File_read_at(fh, first, back, n, MPI_INTEGER, status, ierror)
      call got('MPI_File_read_at after completion')
    end do
  end subroutine

  ! Each rank's block is in the file once, at a multiple of the block's size.
  subroutine each_once(call)
    character(len=*), intent(in) :: call
    integer :: contents(n * ranks), i, times
    integer(kind=MPI_OFFSET_KIND) :: position
    call ok(call)
    call count_is(call, n)
    call MPI_File_sync(fh, ierror)
    call barrier
    call MPI_File_get_position_shared(fh, position, ierror)
    call ok('MPI_File_get_position_shared')
    call check(position == n * ranks, call, 'another position')
    contents = seen(0, n * ranks)
    times = 0
    do i = 0, ranks - 1
      if (all(contents(n * i + 1:n * (i + 1)) == values)) times = times + 1
    end do
    call check(times == 1, call, 'the block is not there once')
    call to_start
  end subroutine

  ! Each block was read by one rank.
  subroutine each_read(call)
    character(len=*), intent(in) :: call
    integer :: readers(0:ranks - 1), all_readers(0:ranks - 1), of, code
    call ok(call)
    call count_is(call, n)
    readers = 0
    of = mod(back(1), 10000) / 100
    if (of >= 0 .and. of < ranks) then
      if (all(back - values == 100 * (of - rank))) readers(of) = 1
    end if
    call MPI_Allreduce(readers, all_readers, ranks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call check(all(all_readers == 1), call, 'not each block was read by one rank')
    call to_start
  end subroutine

  subroutine to_start
    integer(kind=MPI_OFFSET_KIND), parameter :: start = 0
    call barrier
    call MPI_File_seek_shared(fh, start, MPI_SEEK_SET, ierror)
    call ok('MPI_File_seek_shared')
  end subroutine

  subroutine in_order(call)
    character(len=*), intent(in) :: call
    call ok(call)
    call count_is(call, n)
    call MPI_File_sync(fh, ierror)
    call check(all(seen(n * rank, n) == values), call, 'other data in the file')
    call to_start
  end subroutine

  subroutine shared
    TYPE_REQUEST :: request
    integer(kind=MPI_OFFSET_KIND), parameter :: displacement = 0
    call MPI_File_set_view(fh, displacement, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
    call ok('MPI_File_set_view')

    call fill(0)
    call MPI_File_write_shared(fh, values, n, MPI_INTEGER, status, ierror)
    call each_once('MPI_File_write_shared')
    call MPI_File_read_shared(fh, back, n, MPI_INTEGER, status, ierror)
    call each_read('MPI_File_read_shared')

    call fill(0)
    call MPI_File_iwrite_shared(fh, values, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iwrite_shared')
    call each_once('MPI_File_iwrite_shared')
    call MPI_File_iread_shared(fh, back, n, MPI_INTEGER, request, ierror)
    call finish(request, 'MPI_File_iread_shared')
    call each_read('MPI_File_iread_shared')

    call fill(0)
    call MPI_File_write_ordered(fh, values, n, MPI_INTEGER, status, ierror)
    call in_order('MPI_File_write_ordered')
    call MPI_File_read_ordered(fh, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_ordered')
    call to_start

    call fill(0)
    call MPI_File_write_ordered_begin(fh, values, n, MPI_INTEGER, ierror)
    call ok('MPI_File_write_ordered_begin')
    call MPI_File_write_ordered_end(fh, values, status, ierror)
    call in_order('MPI_File_write_ordered_end')
    call MPI_File_read_ordered_begin(fh, back, n, MPI_INTEGER, ierror)
    call ok('MPI_File_read_ordered_begin')
    call MPI_File_read_ordered_end(fh, back, status, ierror)
    call got('MPI_File_read_ordered_end')
  end subroutine

  subroutine properties
    integer(kind=MPI_OFFSET_KIND) :: offset
    integer(kind=MPI_ADDRESS_KIND) :: extent
    integer :: number, code
    logical :: flag
    character(len=64) :: text
    TYPE_GROUP :: group
    TYPE_INFO :: info, used
    call MPI_File_get_amode(fh, number, ierror)
    call ok('MPI_File_get_amode')
    call check(number == ior(MPI_MODE_RDWR, MPI_MODE_CREATE), 'MPI_File_get_amode', 'another mode')
    call MPI_File_get_group(fh, group, ierror)
    call ok('MPI_File_get_group')
    call MPI_Group_size(group, number, code)
    call check(number == ranks, 'MPI_File_get_group', 'another size')
    call MPI_Group_rank(group, number, code)
    call check(number == rank, 'MPI_File_get_group', 'another rank')
    call MPI_Group_free(group, code)

    call MPI_Info_create(info, code)
    call MPI_Info_set(info, 'cb_buffer_size', '65536', code)
    call MPI_File_set_info(fh, info, ierror)
    call ok('MPI_File_set_info')
    call MPI_Info_free(info, code)
    call MPI_File_get_info(fh, used, ierror)
    call ok('MPI_File_get_info')
    call MPI_Info_get(used, 'cb_buffer_size', 64, text, flag, code)
    call check(flag .and. text == '65536', 'MPI_File_get_info', 'another cb_buffer_size')
    call MPI_Info_free(used, code)

    offset = 100
    call MPI_File_set_size(fh, offset, ierror)
    call ok('MPI_File_set_size')
    offset = -1
    call MPI_File_get_size(fh, offset, ierror)
    call ok('MPI_File_get_size')
    call check(offset == 100, 'MPI_File_get_size', 'not what was set')
    offset = 5000000000_MPI_OFFSET_KIND
    call MPI_File_set_size(fh, offset, ierror)
    offset = -1
    call MPI_File_get_size(fh, offset, ierror)
    call check(offset == 5000000000_MPI_OFFSET_KIND, 'MPI_File_get_size', 'not the 5 GB that were set')
    call barrier
    offset = 0
    call MPI_File_set_size(fh, offset, ierror)
    offset = 200
    call MPI_File_preallocate(fh, offset, ierror)
    call ok('MPI_File_preallocate')
    call MPI_File_get_size(fh, offset, ierror)
    call check(offset == 200, 'MPI_File_preallocate', 'another size')

    flag = .true.
    call MPI_File_get_atomicity(fh, flag, ierror)
    call ok('MPI_File_get_atomicity')
    call check(.not. flag, 'MPI_File_get_atomicity', 'not .false. at first')
    call MPI_File_set_atomicity(fh, .true., ierror)
    call ok('MPI_File_set_atomicity')
    call MPI_File_get_atomicity(fh, flag, ierror)
    call check(flag, 'MPI_File_get_atomicity', 'not what was set')
    call MPI_File_set_atomicity(fh, .false., ierror)

    call MPI_File_get_type_extent(fh, MPI_DOUBLE_PRECISION, extent, ierror)
    call ok('MPI_File_get_type_extent')
    call check(extent == 8, 'MPI_File_get_type_extent', 'another extent')
  end subroutine

  subroutine pointers
    integer(kind=MPI_OFFSET_KIND) :: offset
    offset = 5
    call MPI_File_seek(fh, offset, MPI_SEEK_SET, ierror)
    call ok('MPI_File_seek')
    offset = -2
    call MPI_File_seek(fh, offset, MPI_SEEK_CUR, ierror)
    call MPI_File_get_position(fh, offset, ierror)
    call ok('MPI_File_get_position')
    call check(offset == 3, 'MPI_File_get_position', 'another position')
    offset = -10
    call MPI_File_seek(fh, offset, MPI_SEEK_CUR, ierror)
    call failed('MPI_File_seek', MPI_ERR_ARG, 'before')
    offset = 4
    call MPI_File_seek_shared(fh, offset, MPI_SEEK_SET, ierror)
    call ok('MPI_File_seek_shared')
    offset = 3
    call MPI_File_seek_shared(fh, offset, MPI_SEEK_CUR, ierror)
    call MPI_File_get_position_shared(fh, offset, ierror)
    call ok('MPI_File_get_position_shared')
    call check(offset == 7, 'MPI_File_get_position_shared', 'another position')
    call barrier
  end subroutine

  subroutine handlers
    TYPE_ERRHANDLER :: handler, of_file
    TYPE_FILE :: other
    integer :: code
    call MPI_File_create_errhandler(on_error, handler, ierror)
    call ok('MPI_File_create_errhandler')
    call MPI_File_set_errhandler(fh, handler, ierror)
    call ok('MPI_File_set_errhandler')
    call MPI_File_get_errhandler(fh, of_file, ierror)
    call ok('MPI_File_get_errhandler')
    call check(of_file == handler, 'MPI_File_get_errhandler', 'not the one that was set')
    call MPI_Errhandler_free(of_file, code)

    handler_calls = 0
    call MPI_File_call_errhandler(fh, MPI_ERR_IO, ierror)
    call ok('MPI_File_call_errhandler')
    call check(handler_calls == 1 .and. handler_code == MPI_ERR_IO, 'MPI_File_call_errhandler', 'another call')
    call check(handler_file == fh, 'MPI_File_call_errhandler', 'another file')

    ! A failing call, and the handler of files to be opened.
    handler_code = MPI_SUCCESS
    call MPI_File_write_at(fh, -1_MPI_OFFSET_KIND, values, n, MPI_INTEGER, status, ierror)
    call failed('MPI_File_write_at', MPI_ERR_ARG, 'offset')
    call check(handler_calls == 2 .and. handler_code == ierror, 'the error handler', 'another code')
    call MPI_File_set_errhandler(MPI_FILE_NULL, handler, ierror)
    call ok('MPI_File_set_errhandler of MPI_FILE_NULL')
    call MPI_Errhandler_free(handler, code)
    handler_file = fh
    call MPI_File_open(MPI_COMM_WORLD, trim(path) // '/no/such', MPI_MODE_RDONLY, MPI_INFO_NULL, other, ierror)
    call check(handler_calls == 3 .and. handler_code == ierror, 'the error handler of MPI_FILE_NULL', 'not called')
    call check(handler_file == MPI_FILE_NULL, 'the error handler of MPI_FILE_NULL', 'another file')
    call MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, other, ierror)
    call ok('MPI_File_open')
    call MPI_File_write(other, values, n, MPI_INTEGER, status, ierror)
    call check(handler_calls == 4 .and. handler_file == other .and. other /= fh, 'the inherited handler', 'not called')
    call MPI_File_close(other, ierror)
    call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN, ierror)
    call MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN, ierror)
    call ok('MPI_File_set_errhandler to MPI_ERRORS_RETURN')

    call PMPI_File_create_errhandler(on_error, handler, ierror)
    call ok('PMPI_File_create_errhandler')
    call PMPI_File_set_errhandler(fh, handler, ierror)
    call ok('PMPI_File_set_errhandler')
    call PMPI_File_call_errhandler(fh, MPI_ERR_ARG, ierror)
    call check(handler_calls == 5 .and. handler_code == MPI_ERR_ARG, 'PMPI_File_call_errhandler', 'another call')
    call MPI_Errhandler_free(handler, code)
    call MPI_File_set_errhandler(fh, MPI_ERRORS_RETURN, ierror)
  end subroutine

  subroutine errors
    TYPE_FILE :: other
    integer(kind=MPI_OFFSET_KIND) :: offset
    call MPI_File_open(MPI_COMM_WORLD, trim(path) // '.none', MPI_MODE_RDONLY, MPI_INFO_NULL, other, ierror)
    call failed('MPI_File_open', MPI_ERR_NO_SUCH_FILE, '.none')
    call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_CREATE, ior(MPI_MODE_EXCL, MPI_MODE_RDWR)), MPI_INFO_NULL, &
                       other, ierror)
    call failed('MPI_File_open', MPI_ERR_FILE_EXISTS, 'exist')
    call MPI_File_write(fh, values, -1, MPI_INTEGER, status, ierror)
    call failed('MPI_File_write', MPI_ERR_COUNT, 'count')
    call MPI_File_delete(trim(path) // '.none', MPI_INFO_NULL, ierror)
    call failed('MPI_File_delete', MPI_ERR_NO_SUCH_FILE, '.none')
    other = MPI_FILE_NULL
    call MPI_File_get_size(other, offset, ierror)
    call failed('MPI_File_get_size', MPI_ERR_FILE, 'MPI_FILE_NULL')
    call MPI_File_set_view(fh, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'no such', MPI_INFO_NULL, ierror)
    call failed('MPI_File_set_view', MPI_ERR_UNSUPPORTED_DATAREP, 'no such')

    ! Behind the end there is nothing to read.
    offset = 10000000
    call MPI_File_read_at(fh, offset, back, n, MPI_INTEGER, status, ierror)
    call ok('MPI_File_read_at behind the end')
    call count_is('MPI_File_read_at behind the end', 0)
  end subroutine

  subroutine data_representations
    integer(kind=MPI_OFFSET_KIND), parameter :: displacement = 0
    integer(kind=MPI_ADDRESS_KIND) :: extra
    extra = extra_state
    call MPI_Register_datarep('negative ', read_negative, write_negative, extent_of, extra, ierror)
    call ok('MPI_Register_datarep')
    extra = 0  ! its value counted at the call
    call MPI_File_set_view(fh, displacement, MPI_INTEGER, MPI_INTEGER, 'negative', MPI_INFO_NULL, ierror)
    call ok('MPI_File_set_view with a registered representation')
    call fill(n * rank)
    conversions = 0
    call MPI_File_write_at_all(fh, first, values, n, MPI_INTEGER, status, ierror)
    call ok('MPI_File_write_at_all through a registered representation')
    call check(conversions >= 1, 'MPI_Register_datarep', 'the write function was not called')
    call MPI_File_sync(fh, ierror)
    call check(all(seen(n * rank, n) == -values), 'MPI_Register_datarep', 'the file has not what was converted')
    conversions = 0
    call MPI_File_read_at_all(fh, first, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at_all through a registered representation')
    call check(conversions >= 1, 'MPI_Register_datarep', 'the read function was not called')

    extra = extra_state
    call MPI_Register_datarep('negative', read_negative, write_negative, extent_of, extra, ierror)
    call failed('MPI_Register_datarep', MPI_ERR_DUP_DATAREP, 'exists')

#if defined(INTERFACE_F08)
    call MPI_Register_datarep('unconverted', MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, extra)
    ierror = MPI_SUCCESS
#else
    call register_unconverted(extent_of, extra, ierror)
#endif
    call ok('MPI_Register_datarep of null functions')
    call MPI_File_set_view(fh, displacement, MPI_INTEGER, MPI_INTEGER, 'unconverted', MPI_INFO_NULL, ierror)
    call fill(n * rank)
    call MPI_File_write_at_all(fh, first, values, n, MPI_INTEGER, status, ierror)
    call ok('MPI_File_write_at_all, unconverted')
    call MPI_File_sync(fh, ierror)
    call check(all(seen(n * rank, n) == values), 'MPI_CONVERSION_FN_NULL', 'other data in the file')
    call MPI_File_read_at_all(fh, first, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at_all, unconverted')

    call PMPI_Register_datarep('other', read_negative, write_negative, extent_of, extra, ierror)
    call ok('PMPI_Register_datarep')

    call MPI_File_set_view(fh, displacement, MPI_INTEGER, MPI_INTEGER, 'external32', MPI_INFO_NULL, ierror)
    call ok('MPI_File_set_view with external32')
    call fill(n * rank)
    call MPI_File_write_at_all(fh, first, values, n, MPI_INTEGER, status, ierror)
    call ok('MPI_File_write_at_all through external32')
    call MPI_File_sync(fh, ierror)
    call check(all(seen(n * rank, n, 'big_endian') == values), 'external32', 'other data in the file')
    call MPI_File_read_at_all(fh, first, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at_all through external32')
  end subroutine

  ! Fortran's types, in memory that is not one run.
  subroutine types
    integer(kind=MPI_OFFSET_KIND) :: displacement
    integer(kind=MPI_ADDRESS_KIND) :: addresses(5), lower, extent
    integer :: number, code, whole(2 * n)
    real :: a_real
    double precision :: a_double
    complex :: a_complex
    logical :: a_logical
    character(len=5) :: text
    TYPE_DATATYPE :: together, every_second, precise
    number = 42 + rank
    a_real = 1.5 * rank
    a_double = 2.25d0 * rank
    a_complex = cmplx(rank, -rank)
    a_logical = mod(rank, 2) == 0
    text = 'text' // achar(iachar('0') + rank)
    call MPI_Get_address(a_real, addresses(1), code)
    call MPI_Get_address(a_double, addresses(2), code)
    call MPI_Get_address(a_complex, addresses(3), code)
    call MPI_Get_address(a_logical, addresses(4), code)
    call MPI_Get_address(text, addresses(5), code)
    call MPI_Type_create_struct(5, [1, 1, 1, 1, 5], addresses, &
                                [MPI_REAL, MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_LOGICAL, MPI_CHARACTER], together, code)
    call MPI_Type_commit(together, code)
    displacement = 100 * rank
    call MPI_File_set_view(fh, displacement, MPI_CHARACTER, MPI_CHARACTER, 'native', MPI_INFO_NULL, ierror)
    call MPI_File_write_at_all(fh, 0_MPI_OFFSET_KIND, MPI_BOTTOM, 1, together, status, ierror)
    call ok('MPI_File_write_at_all from MPI_BOTTOM')
    call MPI_Get_count(status, together, number, code)
    call check(number == 1, 'MPI_File_write_at_all from MPI_BOTTOM', 'another count')
    call clear(a_real, a_double, a_complex, a_logical, text)
    call MPI_File_read_at_all(fh, 0_MPI_OFFSET_KIND, MPI_BOTTOM, 1, together, status, ierror)
    call ok('MPI_File_read_at_all to MPI_BOTTOM')
    call MPI_Get_elements(status, together, number, code)
    call check(number == 9, 'MPI_File_read_at_all to MPI_BOTTOM', 'other elements')
    call keep(a_real, a_double, a_complex, a_logical, text)
    call check(a_real == 1.5 * rank .and. a_double == 2.25d0 * rank .and. a_complex == cmplx(rank, -rank) .and. &
               (a_logical .eqv. mod(rank, 2) == 0) .and. text == 'text' // achar(iachar('0') + rank), &
               'MPI_File_read_at_all to MPI_BOTTOM', 'other data')
    call MPI_Type_free(together, code)

    call MPI_Type_vector(n, 1, 2, MPI_INTEGER, every_second, code)
    call MPI_Type_commit(every_second, code)
    call MPI_File_set_view(fh, displacement, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
    call fill(0)
    whole = -1
    whole(1::2) = values
    call MPI_File_write_all(fh, whole, 1, every_second, status, ierror)
    call ok('MPI_File_write_all of a vector')
    call count_is('MPI_File_write_all of a vector', n)
    call MPI_File_read_at(fh, 0_MPI_OFFSET_KIND, back, n, MPI_INTEGER, status, ierror)
    call got('MPI_File_read_at of what a vector held')
    call MPI_Type_free(every_second, code)

#if defined(INTERFACE_F08)
    call sections
#endif

    call MPI_Type_create_f90_real(12, MPI_UNDEFINED, precise, code)
    call MPI_File_get_type_extent(fh, precise, extent, ierror)
    call ok('MPI_File_get_type_extent of a type by precision')
    call check(extent == 8, 'MPI_File_get_type_extent', 'another extent of a type by precision')
    call MPI_File_set_view(fh, displacement, precise, precise, 'native', MPI_INFO_NULL, ierror)
    call ok('MPI_File_set_view of a type by precision')
    a_double = 0.1d0 + rank
    call MPI_File_write_at_all(fh, 3_MPI_OFFSET_KIND, a_double, 1, precise, status, ierror)
    call ok('MPI_File_write_at_all of a type by precision')
    a_double = 0
    call MPI_File_read_at_all(fh, 3_MPI_OFFSET_KIND, a_double, 1, precise, status, ierror)
    call check(a_double == 0.1d0 + rank, 'MPI_File_read_at_all of a type by precision', 'other data')
    call MPI_Type_get_extent(precise, lower, extent, code)
  end subroutine

#if defined(INTERFACE_F08)
  ! Array sections that are not contiguous: a descriptor in MPICH, a copy elsewhere, which nonblocking calls cannot take.
  subroutine sections
    integer :: whole(2 * n)
    TYPE_REQUEST :: request
    call fill(0)
    whole = -1
    whole(2::2) = values
    call MPI_File_write_all(fh, whole(2::2), n, MPI_INTEGER, status)
    call MPI_File_read_at(fh, 0_MPI_OFFSET_KIND, back, n, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(all(back == values), 'MPI_File_write_all of a section', 'other data')
    whole = -1
    call MPI_File_read_at_all(fh, 0_MPI_OFFSET_KIND, whole(1::2), n, MPI_INTEGER, status)
    call check(all(whole(1::2) == values) .and. all(whole(2::2) == -1), 'MPI_File_read_at_all to a section', 'other data')
    if (.not. MPI_SUBARRAYS_SUPPORTED) return
    call fill(0)
    whole(2::2) = values
    call MPI_File_iwrite_at(fh, first, whole(2::2), n, MPI_INTEGER, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_File_read_at_all_begin(fh, first, whole(1::2), n, MPI_INTEGER)
    call MPI_File_read_at_all_end(fh, whole(1::2), status)
    call check(all(whole(1::2) == values), 'split and nonblocking accesses of sections', 'other data')
  end subroutine
#endif

  ! Out of line, so that the compiler forgets and remembers what MPI may change by address.
  subroutine clear(a_real, a_double, a_complex, a_logical, text)
    real :: a_real
    double precision :: a_double
    complex :: a_complex
    logical :: a_logical
    character(len=*) :: text
    a_real = -1
    a_double = -1
    a_complex = -1
    a_logical = .not. a_logical
    text = '?'
  end subroutine

  subroutine keep(a_real, a_double, a_complex, a_logical, text)
    real :: a_real
    double precision :: a_double
    complex :: a_complex
    logical :: a_logical
    character(len=*) :: text
    if (rank < 0) call clear(a_real, a_double, a_complex, a_logical, text)
  end subroutine

end module

! MPICH's module mpi lacks MPI_CONVERSION_FN_NULL.
subroutine register_unconverted(extent_of, extra, ierror)
  use, intrinsic :: iso_c_binding, only: c_intptr_t
  implicit none
  integer(c_intptr_t) :: extra
  integer :: ierror
  external :: extent_of, MPI_CONVERSION_FN_NULL, MPI_Register_datarep
  call MPI_Register_datarep('unconverted', MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, extra, ierror)
end subroutine

program every_call
  use checks
  use calls
  implicit none
  integer :: code, all_failures
  logical :: there

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, path)
  call check(served_by_stridio() == 1, 'every function', 'is not Stridio''s')

  call MPI_File_open(MPI_COMM_WORLD, path, ior(MPI_MODE_RDWR, MPI_MODE_CREATE), MPI_INFO_NULL, fh, ierror)
  call ok('MPI_File_open')
  call properties
  call pointers
  call handlers
  call errors
  call set_interleaved_view
  call blocking
  call split
  call nonblocking
  call completions
  call shared
  call data_representations
  call types
  call MPI_File_close(fh, ierror)
  call ok('MPI_File_close')
  call check(fh == MPI_FILE_NULL, 'MPI_File_close', 'the handle is not MPI_FILE_NULL')

  call barrier
  if (rank == 0) then
    call MPI_File_delete(path, MPI_INFO_NULL, ierror)
    call ok('MPI_File_delete')
    inquire (file=path, exist=there)
    call check(.not. there, 'MPI_File_delete', 'the file is still there')
  end if
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0) print '(i0,a)', all_failures, ' failures'
  call MPI_Finalize(code)
  if (all_failures /= 0) stop 1
end program
