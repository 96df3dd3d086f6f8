#!/usr/bin/python3
"""Measures how much of a nonblocking collective access is hidden behind a computation.

MPI_THREAD_FUNNELED, ranks that compute without any MPI call, slow storage (bench/slowfs), one
aggregator and two phases, so that the ranks really exchange. The access alone, the computation
alone (about as long) and both together are measured in turns. 1.0 is complete overlap: both take as
long as the longer one; 2.0 is none; inf did not end. The machine should be idle otherwise. Exit
status 1: Stridio takes more than the limit.
"""

import argparse
import math
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from launch import MPIS, ROOT, SIDES, BenchError, Launcher, Overtime, Program
from mount import mounted
from results import DIRECTIONS, machine, machine_text, plain, table

LIMIT = 1.2
RUN_SECONDS = 120
PIECE = 262144
# The last is ours: no other MPI-IO knows it.
HINTS = ("cb_nodes=1", "romio_cb_write=enable", "romio_cb_read=enable", "stridio_method=two_phase")


def measure(arguments, folder, mpi, side, direction):
    """All repetitions, as dictionaries of seconds; None if they take too long."""
    words = [folder / "data", arguments.mib, PIECE, direction, arguments.repetitions, *HINTS]
    launcher = Launcher(arguments.build)
    command = launcher.command(mpi, arguments.ranks, side, words, program="overlap")
    with Program(command) as program:
        deadline = time.monotonic() + RUN_SECONDS
        try:
            found = list(iter(lambda: program.event(deadline), None))
        except Overtime:
            return None
        status = program.finish()
        if status != 0:
            raise BenchError(program.explain(status))
    return found


def summarize(times):
    """The medians of the parts in seconds, and that of both over the longer one."""
    if not times:
        return [math.nan] * 3, math.inf
    parts = {part: statistics.median(time[part] for time in times) for part in times[0]}
    return parts.values(), parts["both"] / max(parts["access"], parts["compute"])


def measure_all(arguments, storage):
    """Lines of a table; which of Stridio's are over the limit."""
    lines = [["", "access, ms", "compute, ms", "both, ms", "both / longer", "in flight"]]
    over = []
    for mpi in (MPIS[name] for name in arguments.mpis):
        for direction in DIRECTIONS:
            for side in arguments.sides:
                storage.reset()
                folder = Path(tempfile.mkdtemp(dir=storage.folder))
                parts, ratio = summarize(measure(arguments, folder, mpi, side, direction))
                label = f"{mpi.label()} {side} i{direction}_all"
                in_flight = storage.counts()["most_in_flight"]
                line = [label, *(plain(part * 1e3) for part in parts), f"{ratio:.2f}"]
                lines.append([*line, str(in_flight)])
                print(*line, flush=True)
                if side == "stridio" and in_flight != 1:
                    raise BenchError(f"{label}: not one rank alone used the storage: no exchange")
                if side == "stridio" and ratio > LIMIT:
                    over.append(f"{label}: {ratio:.2f}")
                (folder / "data").unlink()
    return lines, over


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/overlap.py", description=__doc__.partition("\n\n")[0]
    )
    add = parser.add_argument
    words = lambda text: tuple(text.split(","))  # noqa: E731
    mpis = ", ".join(MPIS)
    add("--mpis", type=words, default=("mpich", "ompi"), metavar="LIST", help=f"of {mpis}")
    add("--sides", type=words, default=SIDES, metavar="LIST", help=f"({','.join(SIDES)})")
    add("--ranks", type=int, default=2, help="(2)")
    add("--mib", type=int, default=64, help="of the file (64)")
    add("--latency", type=float, default=5, metavar="MS", help="of a request (5)")
    add("--repetitions", type=int, default=7, metavar="N", help="(7)")
    add("--build", type=Path, default=ROOT / "build/release", help="of Stridio (build/release)")
    return parser.parse_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("overlap: terminated"))
    arguments = parse_arguments()
    mpis = [MPIS[name] for name in arguments.mpis]
    Launcher(arguments.build).check(mpis)
    for mpi in mpis:
        mpi.compile("overlap")
    with mounted(arguments.build / "bin/slowfs", latency_ms=arguments.latency) as storage:
        facts = machine(storage.folder, {mpi.name: mpi.label() for mpi in mpis})
        lines, over = measure_all(arguments, storage)
    print(
        f"\n{arguments.ranks} ranks, {arguments.mib} MiB in pieces of {PIECE} bytes, medians of "
        f"{arguments.repetitions}; {arguments.latency:g} ms a request, 1 GB/s for all.\n"
    )
    print(f"{machine_text(facts)}.\n")
    print("\n".join(table(lines)))
    print(f"\noverlap: {'NO, ' + '; '.join(over) if over else 'yes'} (limit {LIMIT})")
    return 1 if over else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"overlap: {error}")
    except KeyboardInterrupt:
        sys.exit("overlap: interrupted")
