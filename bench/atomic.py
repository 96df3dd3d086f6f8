#!/usr/bin/python3
"""Measures atomic mode: ranks write overlapping tiles, and tiles of their own, all at once.

On memory (/dev/shm) and on slow storage (bench/slowfs), stock MPI-IO and Stridio, on flat and on
interval files, a file in atomic mode and one that is not in turns. The tiles of a repetition are one
independent write a rank; medians of all rounds. What atomic mode costs is the median of the ratios of
repetitions that follow each other. The machine should be idle otherwise. The limit is one contiguous
pwrite a rank of as many bytes. Exit status 1: overlapping tiles are not as many times faster than stock's
as they should be, or private tiles in atomic mode take longer than without it.
"""

import argparse
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from launch import MPIS, ROOT, BenchError, Launcher, Program
from mount import mounted
from results import machine, machine_text, table

FASTER, PRIVATE = 5.0, 1.1
RUN_SECONDS = 300
MODES = ("atomic", "nonatomic")
# Whose, and the prefix of the name.
FILES = {"stock": ("stock", ""), "flat": ("stridio", ""), "interval": ("stridio", "interval:")}
SIDES = FILES | {"limit": ("stock", "")}
OURS = ("flat", "interval")


def measure(arguments, folder, mpi, kind, ghost):
    """Seconds by mode, turn by turn."""
    side, prefix = SIDES[kind]
    mode = "limit" if kind == "limit" else "modes"
    words = [f"{prefix}{folder / 'picture'}", *arguments.tile, ghost, mode, arguments.repetitions]
    command = Launcher(arguments.build).command(mpi, arguments.ranks, side, words, program="atomic")
    with Program(command) as program:
        deadline = time.monotonic() + RUN_SECONDS
        times = {}
        for event in iter(lambda: program.event(deadline), None):
            times.setdefault(event["mode"], []).append(event["seconds"])
        status = program.finish()
        if status != 0:
            raise BenchError(program.explain(status))
    for file in folder.glob("picture*"):
        file.unlink()
    return times


def measure_storage(arguments, name, folder, lines, missed):
    for mpi in (MPIS[each] for each in arguments.mpis):
        for ghost in (arguments.ghost, 0):
            all_times = {}
            for _ in range(arguments.rounds):
                for kind in SIDES:
                    for mode, times in measure(arguments, folder, mpi, kind, ghost).items():
                        all_times.setdefault((kind, mode), []).extend(times)
            found = {what: statistics.median(times) * 1e3 for what, times in all_times.items()}
            limit = found["limit", "limit"]
            times = [f"{found[kind, mode]:.2f}" for kind in FILES for mode in MODES] + [f"{limit:.2f}"]
            faster = {kind: found["stock", "atomic"] / found[kind, "atomic"] for kind in OURS}
            turns = {kind: zip(*(all_times[kind, mode] for mode in MODES)) for kind in OURS}
            cost = {kind: statistics.median(atomic / not_so for atomic, not_so in turns[kind]) for kind in OURS}
            tiles = "overlapping" if ghost else "private"
            lines.append([f"{name}, {mpi.label()}, {tiles}", *times])
            lines[-1] += [f"{value:.1f}" for value in (*faster.values(), found["stock", "atomic"] / limit)]
            lines[-1] += [f"{cost[kind]:.2f}" for kind in OURS]
            print(*lines[-1], flush=True)
            for kind in OURS:
                where = f"{lines[-1][0]}, {kind}"
                if ghost and faster[kind] < FASTER:
                    missed.append(f"{where}: {faster[kind]:.1f} times stock's, not {FASTER:g}")
                if not ghost and cost[kind] > PRIVATE:
                    missed.append(f"{where}: {cost[kind]:.2f} of nonatomic, not {PRIVATE:g}")


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/atomic.py", description=__doc__.partition("\n\n")[0]
    )
    add = parser.add_argument
    words = lambda text: tuple(text.split(","))  # noqa: E731
    add("--mpis", type=words, default=("mpich",), metavar="LIST", help=f"of {', '.join(MPIS)}")
    add("--ranks", type=int, default=8, help="(8)")
    add("--tile", type=words, default=("1024", "256"), metavar="W,H", help="ints (1024,256)")
    add("--ghost", type=int, default=16, help="ints that neighbours share on each side (16)")
    add("--latency", type=float, default=1, metavar="MS", help="of a slow request (1)")
    add("--rounds", type=int, default=3, metavar="N", help="(3)")
    add("--repetitions", type=int, default=15, metavar="N", help="(15)")
    add("--build", type=Path, default=ROOT / "build/release", help="of Stridio (build/release)")
    return parser.parse_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("atomic: terminated"))
    arguments = parse_arguments()
    mpis = [MPIS[name] for name in arguments.mpis]
    Launcher(arguments.build).check(mpis)
    for mpi in mpis:
        mpi.compile("atomic")
    head = ["ms", *(f"{kind} {mode}" for kind in FILES for mode in MODES), "limit"]
    head += [f"stock / {kind}" for kind in (*OURS, "limit")] + [f"{kind}: atomic / not" for kind in OURS]
    lines, missed = [head], []
    with tempfile.TemporaryDirectory(prefix="stridio-atomic-", dir="/dev/shm") as folder:
        measure_storage(arguments, "memory", Path(folder), lines, missed)
    with mounted(arguments.build / "bin/slowfs", latency_ms=arguments.latency) as storage:
        measure_storage(arguments, "slow", storage.folder, lines, missed)
        facts = machine(storage.folder, {mpi.name: mpi.label() for mpi in mpis})
    print(
        f"\n{arguments.ranks} ranks, tiles of {' x '.join(arguments.tile)} ints, "
        f"{arguments.ghost} shared on each side; {arguments.latency:g} ms a slow request.\n"
    )
    print(f"{machine_text(facts)}.\n")
    print("\n".join(table(lines)))
    print(f"\natomic: {'NO, ' + '; '.join(missed) if missed else 'yes'}")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"atomic: {error}")
    except KeyboardInterrupt:
        sys.exit("atomic: interrupted")
