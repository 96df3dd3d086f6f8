"""Two programs share a file: one writes frame after frame, the other reads them while they come.

    stridio run -- mpiexec -n 4 python3 frames.py write FILE --frames 20
    stridio run -- mpiexec -n 3 python3 frames.py read FILE --frames 20

FILE must be new. The Python needs mpi4py and numpy, made for the MPI of mpiexec; those of this checkout, once it is built:

    build/release/bin/stridio run -- .venv/mpich/bin/mpiexec -n 4 .venv/mpich/bin/python examples/frames.py write FILE
    build/release/bin/stridio run -- .venv/ompi/bin/mpiexec -n 3 .venv/ompi/bin/python examples/frames.py read FILE

The two are separate jobs, of different MPIs if you like, started in any order, and coordinate by FILE alone. A frame is a
matrix of which each writer has a tile; a sync commits it as a generation of an interval file. A reader has a tile with
its surroundings (ghost cells), opens the newest generation, and gets it whole, whatever the writers do meanwhile; its
info then makes the next opening wait for a newer one. Nobody waits for a slow reader: it goes on with the newest frame
and has missed those between; the space of the one that it has open is not used again until it closes.

The reader checks every byte. Where no frame comes for --timeout seconds, it ends with an error.
"""

import argparse
import sys
import time


RUN = "run it as `stridio run -- mpiexec ...`"
WITHOUT_STRIDIO = f"this is not Stridio's MPI-IO: {RUN}"


def stop(comm, why):
    """Ends all ranks; the first says why."""
    sys.exit(f"frames: {why}" if comm.rank == 0 else 1)


def tile_bounds(comm, shape, ghost):
    """Start and shape of this rank's tile, widened on all sides but not beyond the matrix."""
    grid = np.array(MPI.Compute_dims(comm.size, 2))
    place = np.array(np.unravel_index(comm.rank, grid))
    start = np.maximum(shape * place // grid - ghost, 0)
    end = np.minimum(shape * (place + 1) // grid + ghost, shape)
    return start, end - start


def tile_of(frame, start, shape, matrix):
    """What the frame has there: each cell of each frame is another number."""
    row = np.arange(start[0], start[0] + shape[0])[:, np.newaxis]
    column = np.arange(start[1], start[1] + shape[1])
    return (frame * 1000003 + (row * matrix[1] + column) * 2654435761).astype(np.uint32)


def set_tile_view(file, matrix, start, shape):
    tile = MPI.UINT32_T.Create_subarray(matrix.tolist(), shape.tolist(), start.tolist()).Commit()
    file.Set_view(0, MPI.UINT32_T, tile)
    tile.Free()


def write(options, comm):
    matrix = np.array(options.shape)
    start, shape = tile_bounds(comm, matrix, ghost=0)
    name = f"interval:{options.file}"
    try:
        file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_EXCL | MPI.MODE_RDWR)
    except MPI.Exception as error:
        stop(comm, f"{options.file} cannot be made: it must be new; and {RUN}: {error}")
    if file.Get_info().Get("stridio_layout") != "interval":  # made by another MPI-IO, under this name
        file.Close()
        if comm.rank == 0:
            MPI.File.Delete(name)
        stop(comm, WITHOUT_STRIDIO)
    set_tile_view(file, matrix, start, shape)
    for frame in range(1, options.frames + 1):
        file.Write_at_all(0, tile_of(frame, start, shape, matrix))
        file.Sync()
        if comm.rank == 0:
            print(f"wrote frame {frame}", flush=True)
        time.sleep(options.pause)
    file.Close()


def read(options, comm):
    matrix = np.array(options.shape)
    start, shape = tile_bounds(comm, matrix, options.ghost)
    values = np.empty(shape, np.uint32)
    # The first generation is the empty file, so frame N is generation N + 1.
    info = MPI.Info.Create()
    info.Set("stridio_wait_generation", "1")
    info.Set("stridio_wait_seconds", str(options.timeout))
    if comm.rank == 0:
        print("waiting for frames", flush=True)
    frame = frames = 0
    while frame < options.frames:
        try:
            file = MPI.File.Open(comm, options.file, MPI.MODE_RDONLY, info)
        except MPI.Exception as error:
            report(comm, frames, frame, values.nbytes)
            stop(comm, f"nothing after frame {frame}: {error}")
        info = file.Get_info()
        if info.Get("stridio_wait_generation") is None:
            file.Close()
            stop(comm, WITHOUT_STRIDIO)
        frame = int(info.Get("stridio_wait_generation")) - 1
        set_tile_view(file, matrix, start, shape)
        file.Read_at_all(0, values)
        time.sleep(options.pause)
        file.Close()
        frames += 1
        wrong = comm.allreduce(int((values != tile_of(frame, start, shape, matrix)).sum()))
        if wrong:
            stop(comm, f"frame {frame}: {wrong} cells are wrong")
    report(comm, frames, frame, values.nbytes)


def report(comm, frames, last, nbytes):
    checked = comm.allreduce(frames * nbytes)
    if comm.rank == 0:
        print(f"read {frames} frames, the last is {last}: {checked} bytes checked by {comm.size} ranks", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("write", "read"))
    parser.add_argument("file", help="that both share; the writer makes it")
    parser.add_argument("--frames", type=int, default=20, help="how many; the reader ends with this one")
    parser.add_argument("--shape", type=int, nargs=2, default=(600, 800), help="rows and columns of the matrix")
    parser.add_argument("--ghost", type=int, default=2, help="cells around a reader's tile")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a frame takes besides")
    parser.add_argument("--timeout", type=int, default=60, help="seconds that a frame may take to come")
    options = parser.parse_args()
    global np, MPI  # from here on, so that --help needs neither
    try:
        import numpy as np
        from mpi4py import MPI
    except ImportError as missing:
        sys.exit(f"frames: {missing}: --help says which Python has it")
    (write if options.action == "write" else read)(options, MPI.COMM_WORLD)


if __name__ == "__main__":
    main()
