"""The data of a FLASH checkpoint as a matrix, cut into one tile a rank, through mpi4py.

    tiles.py write FILE    each rank writes its tile of a flat file of doubles
    tiles.py read FILE     each rank reads its tile and its surroundings, and verifies every value

The matrix has a row for each block of each variable and a column for each cell of a block, as the
values lie in the file. FILE is one that `write` made, or a checkpoint in a classic netCDF format
(CDF-1, 2 or 5): there the variables stand one after another at the end, in big-endian byte order.
"""

import sys
import time

import numpy as np
from mpi4py import MPI

VARIABLES, BLOCKS, CELLS = 24, 320, 8 * 8 * 8
SHAPE = np.array([VARIABLES * BLOCKS, CELLS])
OVERLAP = np.array([8, 64])  # eight blocks, and one plane of cells
MATRIX_BYTES = int(SHAPE.prod()) * 8


def tile_bounds(comm, overlap):
    """Start and shape of this rank's tile, widened on all sides but not beyond the matrix."""
    grid = np.array(MPI.Compute_dims(comm.size, 2))
    place = np.array(np.unravel_index(comm.rank, grid))
    start = np.maximum(SHAPE * place // grid - overlap, 0)
    end = np.minimum(SHAPE * (place + 1) // grid + overlap, SHAPE)
    return start, end - start


def expected_tile(start, shape):
    """A variable's value in a cell is cell + variable / 32, cells counted through all blocks."""
    variable, block = np.divmod(np.arange(start[0], start[0] + shape[0]), BLOCKS)
    cell = np.arange(start[1], start[1] + shape[1])
    return (block * CELLS + variable / 32)[:, np.newaxis] + cell


def set_tile_view(file, displacement, start, shape):
    tile = MPI.DOUBLE.Create_subarray(SHAPE.tolist(), shape.tolist(), start.tolist()).Commit()
    file.Set_view(displacement, MPI.DOUBLE, tile)
    tile.Free()


def write(path, comm):
    start, shape = tile_bounds(comm, overlap=0)
    values = expected_tile(start, shape)

    begin = agreed_start(comm)
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_WRONLY)
    set_tile_view(file, 0, start, shape)
    file.Write_all([values, MPI.DOUBLE])
    file.Close()
    report("write", values.nbytes, begin, comm)


def read(path, comm):
    start, shape = tile_bounds(comm, OVERLAP)
    displacement, byte_order = where_the_matrix_is(path, comm)
    values = np.full(shape, -1, dtype=byte_order + "f8")

    begin = agreed_start(comm)
    file = MPI.File.Open(comm, path, MPI.MODE_RDONLY)
    set_tile_view(file, displacement, start, shape)
    file.Read_all([values, MPI.DOUBLE])
    file.Close()
    report("read", values.nbytes, begin, comm)

    wrong = comm.allreduce(int((values != expected_tile(start, shape)).sum()))
    if wrong:
        sys.exit(f"tiles: {path}: {wrong} values are wrong" if comm.rank == 0 else 1)


def where_the_matrix_is(path, comm):
    """Displacement of the matrix in the file, and its byte order."""
    found = None
    if comm.rank == 0:
        with open(path, "rb") as file:
            is_netcdf = file.read(3) == b"CDF"
            found = (file.seek(0, 2) - MATRIX_BYTES, ">") if is_netcdf else (0, "=")
    return comm.bcast(found)


def agreed_start(comm):
    comm.Barrier()
    return time.monotonic()


def report(what, nbytes, begin, comm):
    """From the first rank's start to the last rank's end: a node has one monotonic clock."""
    end = time.monotonic()
    seconds = comm.allreduce(end, MPI.MAX) - comm.allreduce(begin, MPI.MIN)
    nbytes = comm.allreduce(nbytes)
    if comm.rank == 0:
        print(f"{what}: {nbytes} bytes in {seconds:.6f} s by {comm.size} ranks", flush=True)


def main():
    actions = {"write": write, "read": read}
    if len(sys.argv) != 3 or sys.argv[1] not in actions:
        sys.exit(__doc__ if MPI.COMM_WORLD.rank == 0 else 2)
    actions[sys.argv[1]](sys.argv[2], MPI.COMM_WORLD)


if __name__ == "__main__":
    main()
