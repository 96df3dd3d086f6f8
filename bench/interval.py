#!/usr/bin/python3
"""Measures interval files: writing against stock MPI-IO, PnetCDF, parallel HDF5 and flat files, reading back, flattening.

FLASH checkpoints and tiles, at 2 and 4 ranks, on memory, a disk and slow storage (bench/slowfs). Every time is from an agreed
start to the last rank's end: open, view, data, sync, close; the limit, one contiguous pwrite and fsync a rank of the same
bytes, is measured in every MPI-IO program, in turn with its modes. Of what took turns in one program the ratios are medians of
each turn's: a machine's speed drifts, and files lie in good pages or bad. All programs take turns, several rounds; medians.
Missed targets do not fail the run. The machine should be idle otherwise.
"""

import argparse
import contextlib
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from launch import MPIS, ROOT, BenchError, Launcher, Overtime, Program, output_of
from mount import mounted, why_not
from results import machine, machine_text, table
from run import replace_tables

STORAGES = ("memory", "disk", "slow")
WORKLOADS = ("flash", "tile")
VIEWS = ("rows", "cyclic")
SLOWEST = 20  # seconds for one program: whoever takes longer is stopped
PROGRAMS = ROOT / "build/bench"
WRITES = ("collective:", "independent:")
INTERVAL = ("collective:interval", "independent:interval")
CACHED = ("independent-cached:", "independent-cached:interval")
READS = tuple(f"read:{prefix}:{view}" for view in VIEWS for prefix in ("", "interval"))
HEADERS = {
    "stock collective:": "stock collective",
    "stock independent:": "stock independent",
    "stridio collective:": "Stridio flat collective",
    "stridio independent:": "Stridio flat independent",
    "stridio independent-cached:": "cached",
    "stridio collective:interval": "interval collective",
    "stridio independent:interval": "interval independent",
    "stridio independent-cached:interval": "cached",
}

# Libraries by Debian's packages: name, launcher, compiler, source, its flags.
LIBRARIES = {
    "HDF5, MPICH": ("/usr/bin/mpiexec.mpich", "/usr/bin/h5pcc.mpich", "flash_hdf5.c", ("-shlib",)),
    "HDF5, Open MPI": ("/usr/bin/mpiexec.openmpi", "/usr/bin/h5pcc.openmpi", "flash_hdf5.c", ("-shlib",)),
    "PnetCDF, Open MPI": ("/usr/bin/mpiexec.openmpi", "/usr/bin/mpicc.openmpi", "flash_pnetcdf.c", ("-lpnetcdf",)),
}


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def library_program(name):
    return PROGRAMS / f"interval {name}".replace(", ", "-").replace(" ", "-").lower()


def compile_libraries():
    bench, examples = ROOT / "bench", ROOT / "examples"
    for name, (_, compiler, source, flags) in LIBRARIES.items():
        if not Path(compiler).exists():
            raise BenchError(f"{compiler} is missing   get it by: scripts/setup.sh")
        sources = (bench / "interval" / source, examples / "flash.c", bench / "meeting.c")
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        output_of([compiler, "-O2", f"-I{bench}", f"-I{examples}", *sources, "-o", library_program(name), *flags],
                  cwd=PROGRAMS)  # where object files are left


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.launcher = Launcher(arguments.build)
        self.mpis = [MPIS[name] for name in arguments.mpis]
        self.times = {}  # by (storage, workload, ranks): by what was measured: seconds
        self.hopeless = set()
        self.start = time.monotonic()

    def say(self, *words):
        print(f"{time.monotonic() - self.start:6.1f} s ", *words, flush=True)

    def note(self, case, what, seconds):
        self.times.setdefault(case, {}).setdefault(what, []).append(seconds)

    def median(self, case, what):
        found = self.times.get(case, {}).get(what)
        return statistics.median(found) if found else None

    def run(self, case, who, modes, command, **variables):
        """Its times, as WHO MODE; the limit is everybody's, too."""
        if (case, f"{who} {modes[-1]}") in self.hopeless:
            return
        front = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]
        with Program([*front, *command]) as program:
            deadline = time.monotonic() + SLOWEST
            try:
                for event in iter(lambda: program.event(deadline), None):
                    mode = event["mode"]
                    self.note(case, f"{who} {mode}", event["seconds"])
                    if mode == "limit":
                        self.note(case, mode, event["seconds"])
            except Overtime:
                self.hopeless.add((case, f"{who} {modes[-1]}"))
                self.say(*case, who, modes[-1], f"is stopped after {SLOWEST} s")
                return
            status = program.finish()
            if status != 0:
                raise BenchError(program.explain(status))

    def measure(self, case, folder):
        _, workload, ranks = case
        repetitions = self.arguments.repetitions
        for mpi in self.mpis:
            words = [folder / "data", workload, repetitions]
            # Stock modes apart: one may take for ever.
            for side, modes in (("stock", WRITES[:1]), ("stock", WRITES[1:]), ("stridio", (*WRITES, *INTERVAL, *CACHED, *READS))):
                command = self.launcher.command(mpi, ranks, side, [*words, "limit", *modes], program="interval")
                self.run(case, f"{mpi.name} {side}", modes, command)
        if workload == "flash":
            for name in LIBRARIES:
                self.measure_library(case, folder, name)
        for _ in range(repetitions):
            (folder / "flattened").unlink(missing_ok=True)
            start = time.monotonic()
            output_of([self.arguments.build / "bin/stridio", "flatten", folder / "data.interval", folder / "flattened"])
            self.note(case, "flatten", time.monotonic() - start)
        for file in folder.iterdir():
            if not file.name.startswith("."):
                file.unlink()

    def measure_library(self, case, folder, name):
        launcher = LIBRARIES[name][0]
        command = [launcher, *(["--oversubscribe"] if "openmpi" in launcher else []), "-n", str(case[2])]
        command += [str(library_program(name)), "write", str(folder / "library")]
        repetitions = {"REPETITIONS": self.arguments.repetitions}
        self.run(case, name, ["library"], command, **repetitions)
        stridio = [str(self.arguments.build / "bin/stridio"), "run", "--", *command]
        self.run(case, f"{name} on Stridio, flat", ["library"], stridio, **repetitions)
        hints = {"STRIDIO_HINTS": "stridio_layout=interval"}
        self.run(case, f"{name} on Stridio, interval", ["library"], stridio, **repetitions, **hints)

    # ---- What it says

    def tables(self):
        for storage in self.arguments.storages:
            cases = [case for case in self.times if case[0] == storage]
            yield from (f"**{storage}: writing, times over the limit**", "")
            lines = [["", "MPI", "ranks", "limit, ms", *HEADERS.values(), "flatten, ms", "saved, ms"]]
            lines += [self.write_line(case, mpi) for case in cases for mpi in self.mpis]
            yield from (*table(lines), "", f"**{storage}: FLASH by libraries, times over the limit**", "")
            lines = [["", "ranks", "stock", "on Stridio, flat", "on Stridio, interval"]]
            lines += [self.library_line(case, name) for case in cases if case[1] == "flash" for name in LIBRARIES]
            yield from (*table(lines), "", f"**{storage}: reading back by other views, collective, ms**", "")
            head = [text for view in VIEWS for text in (f"{view}: flat", "interval", "ratio")]
            lines = [["", "MPI", "ranks", *head]]
            lines += [self.read_line(case, mpi) for case in cases for mpi in self.mpis]
            yield from (*table(lines), "")

    def ratio(self, case, what, beside):
        """Of modes that took turns in one program: the median of each turn's, since where files lie, and the machine, change."""
        times = self.times[case]
        return statistics.median(one / other for one, other in zip(times[what], times[beside]))

    def over_limit(self, case, what):
        """Where that is Stridio's, of the limit in the same program."""
        seconds = self.median(case, what)
        if not seconds:
            return "stopped" if (case, what) in self.hopeless else "-"
        who = what.rpartition(" ")[0]
        if who.endswith(" stridio"):
            return number(self.ratio(case, what, f"{who} limit"))
        return number(seconds / (self.median(case, f"{who} limit") or self.median(case, "limit")))

    def write_line(self, case, mpi):
        flatten = self.median(case, "flatten")
        stock = [self.median(case, f"{mpi.name} stock {mode}") for mode in WRITES]
        own = self.median(case, f"{mpi.name} stridio collective:interval")
        saved = number(1e3 * (min(filter(None, stock)) - own)) if any(stock) and own else "-"
        cells = [self.over_limit(case, f"{mpi.name} {what}") for what in HEADERS]
        return [case[1], mpi.label(), str(case[2]), number(1e3 * self.median(case, "limit")), *cells,
                number(1e3 * flatten), saved]  # fmt: skip

    def library_line(self, case, name):
        ways = (name, f"{name} on Stridio, flat", f"{name} on Stridio, interval")
        return [name, str(case[2]), *(self.over_limit(case, f"{way} library") for way in ways)]

    def read_line(self, case, mpi):
        cells = []
        for view in VIEWS:
            flat, interval = (f"{mpi.name} stridio read:{prefix}:{view}" for prefix in ("", "interval"))
            cells += [number(1e3 * self.median(case, what)) for what in (flat, interval)]
            cells.append(number(self.ratio(case, interval, flat)))
        return [case[1], mpi.label(), str(case[2]), *cells]

    def targets(self):
        """Each a line: what, what was measured, what should be, whether."""
        for case in self.times:
            storage, workload, ranks = case
            limit = self.median(case, "limit")
            for mpi in self.mpis:
                where = f"{storage}, {workload}, {mpi.name}, {ranks} ranks"
                own = {mode: self.median(case, f"{mpi.name} stridio {mode}") for mode in (*INTERVAL, CACHED[1])}
                for mode in own:
                    over = self.ratio(case, f"{mpi.name} stridio {mode}", f"{mpi.name} stridio limit")
                    yield f"{where}: interval, {mode.partition(':')[0]} / limit", over, "<=", 1.2
                stock = self.median(case, f"{mpi.name} stock independent:")
                if workload == "tile":
                    yield from against(f"{where}: stock independent", stock, own[INTERVAL[1]], limit, 10)
                if workload == "flash" and storage == "slow":
                    for name in LIBRARIES:
                        peer = self.median(case, f"{name} library")
                        times = 9 if "PnetCDF" in name else 5
                        yield from against(f"{where}: {name}", peer, own[INTERVAL[0]], limit, times)
                for view in VIEWS:
                    flat, interval = (f"{mpi.name} stridio read:{prefix}:{view}" for prefix in ("", "interval"))
                    yield f"{where}: reading {view}, interval / flat", self.ratio(case, interval, flat), "<=", 1.35

    def verdict(self):
        lines, met = [["", "measured", "target", "met"]], 0
        for what, measured, relation, target in self.targets():
            reached = measured <= target if relation == "<=" else measured >= target
            met += reached
            lines.append([what, number(measured), f"{relation} {target:.3g}", "yes" if reached else "NO"])
        yield from (f"**Targets: {met} of {len(lines) - 1} met**", "", *table(lines))


def against(what, peer, own, limit, times):
    """So many times faster than a peer, or 0.8 of what the limit would be where that is less."""
    if peer:
        yield f"{what} / interval (limit: {number(peer / limit)})", peer / own, ">=", min(times, 0.8 * peer / limit)
    else:
        yield f"{what} / interval: the peer was stopped", SLOWEST / own, ">=", times


@contextlib.contextmanager
def folder_on(storage, arguments):
    if storage == "slow":
        with mounted(arguments.build / "bin/slowfs", latency_ms=arguments.latency) as slow:
            yield slow.folder
        return
    parent = Path("/dev/shm") if storage == "memory" else arguments.disk
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="stridio-interval-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/interval.py", description=__doc__.partition("\n\n")[0])
    add = parser.add_argument
    words = lambda text: tuple(text.split(","))  # noqa: E731
    add("--mpis", type=words, default=("mpich", "ompi"), metavar="LIST", help=f"of {', '.join(MPIS)}")
    add("--ranks", type=lambda text: tuple(map(int, text.split(","))), default=(2, 4), metavar="LIST", help="(2,4)")
    add("--workloads", type=words, default=WORKLOADS, metavar="LIST", help=f"({','.join(WORKLOADS)})")
    add("--storages", type=words, default=STORAGES, metavar="LIST", help=f"({','.join(STORAGES)})")
    add("--disk", type=Path, default=PROGRAMS / "disk", help="a folder on the disk (build/bench/disk)")
    add("--latency", type=float, default=1, metavar="MS", help="of a slow request (1)")
    add("--minutes", type=float, default=9, metavar="N", help="no further round where it would take longer (9)")
    add("--rounds", type=int, default=3, metavar="N", help="of all programs, at most (3)")
    add("--repetitions", type=int, default=2, metavar="N", help="in a program's run, after one that is not counted (2)")
    add("--build", type=Path, default=ROOT / "build/release", help="of Stridio (build/release)")
    add("--json", type=Path, default=PROGRAMS / "interval.json", metavar="FILE", help="all that was measured")
    add("--docs", type=Path, metavar="FILE", help="replace the tables of this document")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    return arguments


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interval: terminated"))
    arguments = parse_arguments()
    bench = Bench(arguments)
    bench.launcher.check(bench.mpis)
    if "slow" in arguments.storages and (why := why_not(arguments.build / "bin/slowfs")):
        bench.say(f"no slow storage, it is left out: {why}")
        arguments.storages = tuple(each for each in arguments.storages if each != "slow")
    for mpi in bench.mpis:
        mpi.compile("interval")
    compile_libraries()
    facts = machine(ROOT, {mpi.name: mpi.label() for mpi in bench.mpis})
    for round_number in range(arguments.rounds):
        elapsed = time.monotonic() - bench.start
        if round_number and elapsed * (round_number + 1) / round_number > 60 * arguments.minutes:
            break
        for storage in arguments.storages:
            with folder_on(storage, arguments) as folder:
                for ranks in arguments.ranks:
                    for workload in arguments.workloads:
                        case = (storage, workload, ranks)
                        bench.measure(case, folder)
                        bench.say(f"round {round_number + 1} of {arguments.rounds}:", *case)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    measured = [{"storage": s, "workload": w, "ranks": r, "seconds": times} for (s, w, r), times in bench.times.items()]
    arguments.json.write_text(json.dumps({"machine": facts, "measured": measured}, indent=1))
    modes = "stock programs: default hints; HDF5: collective transfers, H5Fflush before the close; PnetCDF: collective, ncmpi_sync"
    lines = [f"{machine_text(facts)}.", "", f"{arguments.latency:g} ms a slow request; {modes}.", "", *bench.tables(), *bench.verdict()]
    print("\n" + "\n".join(lines))
    if arguments.docs:
        replace_tables(arguments.docs, lines)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"interval: {error}")
    except KeyboardInterrupt:
        sys.exit("interval: interrupted")
