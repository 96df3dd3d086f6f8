#!/usr/bin/python3
"""Runs other people's test suites on stock MPI-IO and on Stridio, and makes one table of them.

mpi4py's tests of files, HDF5's testpar and PnetCDF's `make ptests`, unchanged. All are built once and kept
in build/conformance, with the results, and each program's last output in logs/. Exit status: 0 Stridio passes
all that any stock MPI-IO passes, 1 it does not, or something else failed.
"""

import argparse
import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "bench"))
from launch import MPIS, ROOT, SIDES, BenchError, end, environment  # noqa: E402
from results import machine, machine_text, session  # noqa: E402
from sources import PNETCDF_FOLDERS, STORE, build, hdf5_programs, source_of  # noqa: E402

LIMIT_SECONDS = 600  # for a program
SOON, TRIES = 2, 5  # seconds in which a program refuses to run, and how often it is asked why
PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"
MARKS = ("<!-- table -->", "<!-- end of table -->")


@dataclass(frozen=True)
class Program:
    """`command`: what is run, made of the start of each command line of ranks and a folder of its own."""

    name: str
    command: typing.Callable
    verdicts: typing.Callable = None  # of the folder, by test, where a program is more than one


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


# --------------------------------------------------------------------------------------- the suites ---


def mpi4py(mpi, ranks):
    python = ROOT / ".venv" / mpi.name / "bin/python"
    tests = ROOT / ".venv/mpi4py-src/test"
    script = Path(__file__).with_name("recorded.py")

    def verdicts(folder):
        """A test passed if it did on all ranks; those that skip it have no part in it."""
        found = {}
        for rank in range(ranks):
            record = folder / str(rank)
            for line in record.read_text().splitlines() if record.exists() else ():
                test, verdict = line.split()
                found.setdefault(test, []).append(verdict)
        return {test: verdict_of_ranks(each, ranks) for test, each in found.items()}

    return [
        Program("test_io test_file", lambda start, folder: [*start, python, script, tests, folder], verdicts)
    ]


def verdict_of_ranks(each, ranks):
    if FAILED in each or len(each) < ranks:
        return FAILED
    return PASSED if PASSED in each else SKIPPED


def hdf5(mpi, _):
    programs = build("hdf5", mpi, say) / "testpar"
    after = {"t_prestart": "t_pshutdown", "t_pflush2": "t_pflush1"}  # they look at another's file

    def program(name):
        chain = [after[name], name] if name in after else [name]

        def command(start, folder):
            for link in chain:  # t_cache_image starts itself from where it is
                (folder / link).symlink_to(programs / link)
            return ["sh", "-c", "; ".join(shlex.join([*start, f"./{link}"]) for link in chain)]

        return Program(name, command)

    names = hdf5_programs(source_of("hdf5", say))
    return [program(name) for name in names if name != "t_pflush1"]  # which ends without closing its file


def pnetcdf(mpi, ranks):
    """Each folder's parallel_run.sh, for one program at a time: it knows each one's arguments, and validates
    the files with programs of its own that do without MPI-IO."""
    tests = build("pnetcdf", mpi, say) / "test"
    recipe = f"--eval=conformance: ; $(TESTS_ENVIRONMENT) $(srcdir)/parallel_run.sh {ranks}"

    def program(folder, name, *choice):
        def command(start, scratch):
            variables = [*choice, f"TESTMPIRUN={shlex.join(start)}", f"TESTOUTDIR={scratch}"]
            return ["make", "-s", "-C", tests / folder, recipe, "conformance", *variables]

        return Program(f"{folder}/{name}", command)

    found = []
    for folder in PNETCDF_FOLDERS:
        script = source_of("pnetcdf", say) / "test" / folder / "parallel_run.sh"
        listed = re.search(r"^for i in \$\{(\w+)\}", script.read_text(), re.MULTILINE)
        if not listed:  # its programs depend on each other
            found.append(program(folder, "*"))
            continue
        for name in make_variable(tests / folder, listed[1]):
            found.append(program(folder, name, f"{listed[1]}={name}"))
    return found


def make_variable(folder, name):
    command = ["make", "-s", "-C", folder, f"--eval=show: ; @echo $({name})", "show"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@dataclass(frozen=True)
class Suite:
    title: str
    programs: typing.Callable
    where: tuple  # MPI and ranks


SUITES = {
    "mpi4py": Suite(
        "mpi4py test_io, test_file", mpi4py, (("mpich", 1), ("mpich", 4), ("ompi", 1), ("ompi", 4))
    ),
    "pnetcdf": Suite("PnetCDF ptests", pnetcdf, (("debian-mpich", 2), ("debian-ompi", 4))),
    "hdf5": Suite("HDF5 testpar", hdf5, (("debian-mpich", 2), ("debian-ompi", 4))),
}


# ---------------------------------------------------------------------------------------- running ---


class Runner:
    def __init__(self, arguments):
        self.arguments = arguments
        self.commit = session()["commit"]
        self.file = STORE / "results.json"
        self.rows = {key_of(row): row for row in load(self.file)}
        self.stridio = arguments.build / "bin/stridio"
        if not self.stridio.exists():
            raise BenchError(f"missing: {self.stridio}   get it by: make build")

    def run_row(self, suite, mpi, ranks):
        """All of a suite's programs, or those that are asked for anew: then the row keeps the others' results."""
        if not mpi.is_here():
            raise BenchError(f"{mpi.name} is not installed   get it by: make setup")
        programs = SUITES[suite].programs(mpi, ranks)
        chosen = [program for program in programs if re.search(self.arguments.only, program.name)]
        row = self.rows.get((suite, mpi.name, ranks))
        if chosen == programs or not row:
            row = {"suite": suite, "mpi": mpi.name, "label": mpi.label(), "ranks": ranks}
            row |= {"served": [], "results": {}}
        row["programs"] = [program.name for program in programs]
        row["results"] = {name: row["results"][name] for name in row["programs"] if name in row["results"]}
        self.rows[key_of(row)] = row
        for program in chosen:
            sides = {side: self.run(row, program, mpi, side) for side in SIDES}
            row["results"][program.name] = {"commit": self.commit, **sides}
            save(self.file, self.ordered())
        if not row["served"]:
            raise BenchError(f"{name_of(row)}: no program was served by Stridio")

    def ordered(self):
        order = [(name, *place) for name, suite in SUITES.items() for place in suite.where]
        return sorted(self.rows.values(), key=lambda row: order.index(key_of(row)))

    def run(self, row, program, mpi, side):
        """How each test of a program ended, and when."""
        where = f"{row['suite']}/{mpi.name}-{row['ranks']}/{side}"
        log = STORE / "logs" / where / (re.sub(r"\W+", "-", program.name) + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="run-", dir=self.arguments.dir) as name:
            folder = Path(name).resolve()
            report = folder / "report.json"
            front = [self.stridio, "run", "--report", report, "--"] if side == "stridio" else []
            start = [str(word) for word in (*front, mpi.mpiexec, "-n", row["ranks"])]
            command = [str(word) for word in program.command(start, folder)]
            began = time.monotonic()
            status = run_limited(command, folder, log)
            took = time.monotonic() - began
            if not program.verdicts:
                verdict = verdict_of_program(status, log.read_text(errors="replace"))
                if verdict == FAILED and took < SOON and refuses(command, folder, log.with_suffix(".again.log")):
                    verdict = SKIPPED
                tests = {program.name: verdict}
            else:
                tests = program.verdicts(folder)
                if status != 0 and FAILED not in tests.values():  # it broke after its tests
                    tests = dict.fromkeys(tests, FAILED)
            if report.exists() and json.loads(report.read_text())["files"]:
                row["served"] = sorted({*row["served"], program.name})
        outcome = "ok" if status == 0 else f"exit status {status}"
        say(f"{where} {program.name}: {outcome}, {took:.1f} s")
        return {"seconds": round(took, 1), "tests": tests}


def refuses(command, folder, log):
    """Whether a program that failed at once says, asked again, that it wants more ranks: launchers end all ranks when one
    exits, and now and then lose what another was about to print. That it passes then counts for nothing."""
    for _ in range(TRIES):
        status = run_limited(command, folder, log)
        if verdict_of_program(status, log.read_text(errors="replace")) == SKIPPED:
            return True
    return False


def verdict_of_program(status, output):
    """A program that refuses so few ranks tests nothing, however it ends."""
    if re.search(r"^\s*Need at least \d+ processes\.", output, re.MULTILINE):
        return SKIPPED
    return PASSED if status == 0 else FAILED


def run_limited(command, folder, log):
    """The exit status. All that a program leaves running is ended."""
    with log.open("w") as output:
        print(shlex.join(command), file=output, flush=True)
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"ended after {LIMIT_SECONDS} s", file=output)
            return f"none: ended after {LIMIT_SECONDS} s"
        finally:
            if process.poll() is None:
                end(process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


# -------------------------------------------------------------------------------------- the table ---


def tests_of(row):
    """By name, the verdicts on both sides. Tests that one side never came to are missing there."""
    found = {}
    for sides in row["results"].values():
        for side in SIDES:
            for test, verdict in sides[side]["tests"].items():
                found.setdefault(test, dict.fromkeys(SIDES, MISSING))[side] = verdict
    return found


def count(row, side, verdict):
    return sum(tests[side] == verdict for tests in tests_of(row).values())


def missed(rows):
    """What some stock MPI-IO passes and Stridio does not, by row."""
    for row in rows:
        others = [tests_of(other) for other in rows if other["suite"] == row["suite"]]
        for test, tests in tests_of(row).items():
            verdicts = [other.get(test, {}).get("stock") for other in others]
            skipped = tests["stock"] == tests["stridio"] == SKIPPED
            if tests["stridio"] != PASSED and PASSED in verdicts and not skipped:
                yield f"{name_of(row)}: {test}"


def name_of(row):
    return f"{SUITES[row['suite']].title}, {row['label']}, {row['ranks']} rank{'s'[: row['ranks'] > 1]}"


def table(rows):
    lines = [
        "| suite | MPI | ranks | run | passed with stock | passed with Stridio | skipped |",
        "|---|---|---|---|---|---|---|",
    ]
    total = [0, 0, 0, 0]
    for row in rows:
        skipped = sum(SKIPPED in tests.values() for tests in tests_of(row).values())
        numbers = [len(tests_of(row)) - skipped, *(count(row, side, PASSED) for side in SIDES), skipped]
        total = [a + b for a, b in zip(total, numbers)]
        cells = [SUITES[row["suite"]].title, row["label"], row["ranks"], *numbers]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, f"| all | | | {' | '.join(map(str, total))} |"]


def failures(rows, side):
    for row in rows:
        late = [sides[side] for sides in row["results"].values() if sides[side]["seconds"] >= LIMIT_SECONDS]
        late = {test for program in late for test in program["tests"]}
        bad = [test for test, tests in tests_of(row).items() if tests[side] not in (PASSED, SKIPPED)]
        if bad:
            words = (f"`{test}`{f' (no end after {LIMIT_SECONDS} s)' * (test in late)}" for test in bad)
            yield f"- {name_of(row)}: {', '.join(words)}"


def report(rows):
    lines = table(rows)
    for side, title in (("stock", "Failed with stock MPI-IO"), ("stridio", "Failed with Stridio")):
        lines += ["", f"{title}:", "", *(list(failures(rows, side)) or ["- none"])]
    return lines


def load(path):
    return json.loads(path.read_text())["rows"] if path.exists() else []


def save(path, rows):
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    part.replace(path)


def key_of(row):
    return row["suite"], row["mpi"], row["ranks"]


def replace_table(path, rows, facts):
    if left := [name_of(row) for row in rows if set(row["results"]) != set(row["programs"])]:
        raise BenchError(f"not all programs have been run: {', '.join(left)}")
    head, found, rest = path.read_text().partition(MARKS[0])
    _, closed, tail = rest.partition(MARKS[1])
    if not (found and closed):
        raise BenchError(f"{path} has no {MARKS[0]} and {MARKS[1]}")
    commits = dict.fromkeys(program["commit"] for row in rows for program in row["results"].values())
    facts |= {"mpis": {row["mpi"]: row["label"] for row in rows}, "commit": ", ".join(commits)}
    lines = [*report(rows), "", f"{machine_text(facts)}."]
    path.write_text("\n".join((head + MARKS[0], "", *lines, "", MARKS[1] + tail)))


def parse_arguments():
    def words(allowed):
        def parse(text):
            if unknown := set(text.split(",")) - set(allowed):
                raise argparse.ArgumentTypeError(f"{unknown.pop()!r} is not one of {', '.join(allowed)}")
            return tuple(text.split(","))

        return parse

    mpis = tuple(dict.fromkeys(mpi for suite in SUITES.values() for mpi, _ in suite.where))
    parser = argparse.ArgumentParser(prog="tests/suites/run.py", description=__doc__.partition("\n\n")[0])
    add = parser.add_argument
    add("--suites", type=words(SUITES), default=tuple(SUITES), metavar="LIST", help=f"of {', '.join(SUITES)}")
    add("--mpis", type=words(mpis), default=mpis, metavar="LIST", help=f"of {', '.join(mpis)}")
    add("--only", default="", metavar="REGEX", help="programs of such names")
    add("--build", type=Path, default=ROOT / "build/release", help="of Stridio (build/release)")
    add("--dir", type=Path, default=STORE, help="where the tests' files go (build/conformance)")
    add("--docs", type=Path, metavar="FILE", help="replace the table of this document")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    return arguments


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("conformance: terminated"))
    os.environ.pop("MAKEFLAGS", None)  # of a make that called this: not for those that this calls
    arguments = parse_arguments()
    STORE.mkdir(parents=True, exist_ok=True)
    with (STORE / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(f"another run uses {STORE}") from None
        run_all(arguments)


def run_all(arguments):
    runner, facts = Runner(arguments), machine(arguments.dir.resolve(), {})
    for suite in arguments.suites:
        for name, ranks in SUITES[suite].where:
            if name in arguments.mpis:
                runner.run_row(suite, MPIS[name], ranks)
    ordered = runner.ordered()
    print("\n" + "\n".join(report(ordered)))
    if arguments.docs:
        replace_table(arguments.docs, ordered, facts)
    if behind := list(missed(ordered)):
        raise BenchError("a stock MPI-IO passes, Stridio does not:\n  " + "\n  ".join(behind))


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"conformance: {error}")
    except KeyboardInterrupt:
        sys.exit("conformance: interrupted")
