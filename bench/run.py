#!/usr/bin/python3
"""Measures Stridio against stock MPI-IO and against the limit, on named workloads.

The limit is one contiguous write or read of the same bytes by the same ranks. Every time is from
a start on which all ranks agreed to the last rank's end: open, view, data, close. All that is
compared is measured in turns, in one run of this program; tables give medians. Before that, every
byte that is written or read is verified once, in a run of its own. The workloads and the way they
are timed: docs/benchmarks.md.
"""

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from launch import MPIS, ROOT, SIDES, START_SECONDS, BenchError, Launcher, Overtime, Program
from mount import mounted
from results import (
    CAP,
    DIRECTIONS,
    Case,
    Results,
    failures,
    machine,
    machine_text,
    report,
    save_json,
)

DEFAULT_WORKLOADS = ("dist3d", "flash", "unstruc")
METHODS = ("collective", "independent")
SLACK_SECONDS = 2  # that a cell may take beyond the cap before it is stopped
HOPELESS = 2 * CAP  # times the limit: a cell that took so long is not repeated
VERIFY_SECONDS = 120  # for one verified access


class Bench:
    def __init__(self, arguments, folder, slow):
        self.arguments = arguments
        self.folder = folder
        self.slow = slow  # the slow storage that holds the folder, if any
        self.launcher = Launcher(arguments.build, arguments.preload)
        self.mpis = [MPIS[name] for name in arguments.mpis]
        self.results = Results()
        self.workloads = []  # what the program says about each, of those that were chosen
        self.wrong = []
        self.start = time.monotonic()
        self.end = self.start + 60 * arguments.minutes

    def say(self, text):
        print(f"{time.monotonic() - self.start:6.1f} s  {text}", flush=True)

    def prepare(self):
        if self.arguments.docs:
            split_document(self.arguments.docs)
        if "stridio" in self.arguments.sides:
            self.launcher.check(self.mpis)
        for mpi in self.mpis:
            if not mpi.is_here():
                raise BenchError(f"{mpi.name} is not installed   get it by: scripts/setup.sh")
            self.say(f"compiling the workloads for {mpi.name}")
            mpi.compile()
        self.choose_workloads()

    def choose_workloads(self):
        with Program(self.launcher.command(self.mpis[0], 1, "stock", ["--list"])) as program:
            deadline = time.monotonic() + START_SECONDS
            known = {
                found["workload"]: found for found in iter(lambda: program.event(deadline), None)
            }
        chosen = list(known) if self.arguments.all else self.arguments.workloads
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise BenchError(f"no workload {unknown[0]!r}; there are {', '.join(known)}")
        self.workloads = [known[name] for name in chosen]

    def cases(self):
        for mpi in self.mpis:
            for ranks in self.arguments.ranks:
                for workload in self.workloads:
                    if not workload["square"] or int(ranks**0.5) ** 2 == ranks:
                        yield Case(mpi.name, ranks, workload["workload"])

    def program(self, case, side, methods, directions, *more):
        words = ["--workload", case.workload, "--path", self.folder / "data"]
        words += ["--methods", ",".join(methods), "--directions", ",".join(directions)]
        words += ["--seed", self.arguments.seed, *more]
        if self.slow:
            words += ["--counts", self.slow.counts_file]
        if self.arguments.size:
            words += ["--size", self.arguments.size]
        for hint in self.arguments.hint:
            words += ["--hint", hint]
        return Program(self.launcher.command(MPIS[case.mpi], case.ranks, side, words))

    # ----------------------------------------------------------------------------------- verify ---

    def verify(self, case, side):
        """Stops the run if it finds a wrong byte; what is too slow to verify is not measured."""
        label = f"{case.mpi}, {case.ranks} ranks, {case.workload}, {side}"
        try:
            wrong = self.find_wrong(case, side)
        except Overtime:
            self.say(f"verify {label}: stopped, too slow")
            if side == "stridio":
                self.wrong.append(f"{label}: no end after {VERIFY_SECONDS} s")
            return
        self.wrong += [f"{label}: {what}" for what in wrong]
        self.say(f"verify {label}: {'WRONG' if wrong else 'right'}")

    def find_wrong(self, case, side):
        wrong = []
        more = ("--verify", "--max-pieces", 0)
        with self.program(case, side, self.arguments.methods, DIRECTIONS, *more) as program:
            while event := program.event(time.monotonic() + VERIFY_SECONDS):
                if event["event"] == "mismatch":
                    what = "{method} {direction}, {where} of rank {rank} at {at}"
                    wrong.append(what.format(**event))
            status = program.finish()
            if status != 0 and not wrong:
                wrong.append(program.explain(status))
        return wrong

    # ---------------------------------------------------------------------------------- measure ---

    def measure(self, case, side, backwards):
        """One repetition of all methods in both directions. After a cell that had to be stopped,
        the others go on in a new process."""
        pending = [
            (direction, method)
            for direction in DIRECTIONS
            for method in self.arguments.methods
            if self.is_worth_it(case, side, method, direction)
        ]
        while pending:
            pending = self.measure_some(case, side, pending, backwards)

    def is_worth_it(self, case, side, method, direction):
        if self.results.cell(case, side, "first", "write").error:
            return False
        cell = self.results.cell(case, side, method, direction)
        limit = self.results.limit(case, direction)
        return not (cell.stopped or cell.error or cell.median() > HOPELESS * limit)

    def measure_some(self, case, side, pending, backwards):
        """Returns what is still to be measured: less than before. Limits stand at both ends, so
        that other cells are no warmer; the first is the warm-up of its direction."""
        methods = {way: [m for d, m in pending if d == way] for way in DIRECTIONS}
        directions = [way for way in DIRECTIONS if methods[way]]
        directions = [way for way in directions if methods[way] == methods[directions[0]]]
        left = [(way, method) for way, method in pending if way not in directions]
        order = [*methods[directions[0]], "limit"]
        order = ["limit", *order[:: -1 if backwards else 1]]
        todo = [(way, method) for way in directions for method in order]
        with self.program(case, side, order, directions) as program:
            done = self.follow(program, case, side)
        undone = [cell for cell in todo if cell not in done and cell[1] != "limit"]
        failed = self.results.cell(case, side, "first", "write").error
        return [] if failed else undone[1:] + left  # the first undone one failed, or was stopped

    def follow(self, program, case, side):
        """Records what a program measures; returns the cells that it completed."""
        done, now, limits = [], None, {}
        try:
            while event := program.event(time.monotonic() + self.patience(now, limits)):
                now = (event["direction"], event["method"])
                if event["event"] == "cell":
                    is_first = now[1] == "limit" and now[0] not in limits
                    name = "first limit" if is_first else now[1]
                    self.results.cell(case, side, name, now[0]).add(event)
                    done.append(now)
                    if is_first:
                        limits[now[0]] = event["total"]
            status = program.finish()
            if status != 0:
                self.fail(program.explain(status), case, side, now)
        except Overtime:
            if self.is_before_methods(now):
                self.fail(f"no sign of life: {' '.join(program.command)}", case, side, now)
            else:
                self.results.cell(case, side, now[1], now[0]).stopped = True
        return done

    @staticmethod
    def patience(now, limits):
        if now is None or now[0] not in limits:
            return START_SECONDS
        return CAP * limits[now[0]] + SLACK_SECONDS

    @staticmethod
    def is_before_methods(now):
        return now is None or now[1] in ("limit", "first")

    def fail(self, text, case, side, now):
        """Where no method is to blame, nothing more is measured on this side of the case."""
        direction, method = ("write", "first") if self.is_before_methods(now) else now
        self.results.cell(case, side, method, direction).error = text

    # -------------------------------------------------------------------------------------- all ---

    def is_over(self, average):
        """Whether the budget has no room for another run."""
        return time.monotonic() + average > self.end

    def verify_all(self):
        for case in self.cases():
            for side in self.arguments.sides:
                self.verify(case, side)
        if self.wrong:
            raise BenchError("wrong results:\n  " + "\n  ".join(self.wrong))

    def measure_all(self):
        """Repetition by repetition, so that all cells lose alike when the budget ends."""
        runs, began = 0, time.monotonic()
        for repetition in range(self.arguments.repetitions):
            for case in self.cases():
                backwards = repetition % 2 == 1
                for side in self.arguments.sides[:: -1 if backwards else 1]:
                    if runs and self.is_over((time.monotonic() - began) / runs):
                        self.say("the time is over: not all repetitions were made")
                        return
                    self.measure(case, side, backwards)
                    runs += 1
                self.say(f"{repetition + 1} of {self.arguments.repetitions}: {self.brief(case)}")

    def brief(self, case):
        parts = []
        for side in self.arguments.sides:
            for method in self.arguments.methods:
                values = (self.results.over_limit(case, side, method, way) for way in DIRECTIONS)
                parts.append(f"{side} {method} {'/'.join(f'{value:.1f}' for value in values)}")
        return f"{case.mpi}, {case.ranks} ranks, {case.workload}: {', '.join(parts)}"


def split_document(path):
    """What stands before and after the tables, with their marks."""
    begin, end = "<!-- tables -->", "<!-- end of tables -->"
    head, found, rest = path.read_text().partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise BenchError(f"{path} has no {begin} and {end}")
    return head + begin, end + tail


def replace_tables(path, lines):
    head, tail = split_document(path)
    path.write_text("\n".join((head, "", *lines, "", tail)))


@contextlib.contextmanager
def data_folder(parent):
    folder = Path(tempfile.mkdtemp(prefix="stridio-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def slow_storage(arguments):
    """A context of what --slow asks for, or of nothing."""
    if arguments.slow is None:
        return contextlib.nullcontext()
    return mounted(arguments.build / "bin/slowfs", latency_ms=arguments.slow)


def words(text):
    return tuple(text.split(","))


def numbers(text):
    return tuple(int(word) for word in text.split(","))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.partition("\n\n")[0])
    add = parser.add_argument
    add(
        "--workloads",
        type=words,
        default=DEFAULT_WORKLOADS,
        metavar="LIST",
        help=f"({','.join(DEFAULT_WORKLOADS)})",
    )
    add("--all", action="store_true", help="all workloads")
    add("--size", type=int, help="the workloads' size parameter, if not its default")
    add("--ranks", type=numbers, default=(2, 4), metavar="LIST", help="(2,4)")
    add(
        "--mpis",
        type=words,
        default=("mpich", "ompi"),
        metavar="LIST",
        help=f"of {', '.join(MPIS)} (mpich,ompi)",
    )
    add("--sides", type=words, default=SIDES, metavar="LIST", help=f"({','.join(SIDES)})")
    add(
        "--methods",
        type=words,
        default=METHODS,
        metavar="LIST",
        help=f"of {', '.join(METHODS)}, pieces ({','.join(METHODS)})",
    )
    add("--hint", action="append", default=[], metavar="KEY=VALUE", help="for all files")
    add("--repetitions", type=int, default=5, metavar="N", help="(5)")
    add("--minutes", type=float, default=10, metavar="N", help="the most that it may take (10)")
    add("--seed", type=int, default=1, help="of random places and of the data (1)")
    add("--dir", type=Path, default=Path("/dev/shm"), help="where the files go (/dev/shm)")
    add(
        "--slow",
        type=float,
        nargs="?",
        const=1.0,
        metavar="MS",
        help="on storage where a request takes so long (1) and all share 1 GB/s, not in --dir",
    )
    add("--no-verify", action="store_true", help="measure only")
    add("--preload", action="store_true", help="set LD_PRELOAD by hand, without `stridio run`")
    add("--build", type=Path, default=ROOT / "build/release", help="of Stridio (build/release)")
    add("--phases", action="store_true", help="tables of open, view, access and close too")
    add(
        "--json",
        type=Path,
        default=ROOT / "build/bench/results.json",
        metavar="FILE",
        help="all that was measured (build/bench/results.json)",
    )
    add("--docs", type=Path, metavar="FILE", help="replace the tables of this document")
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    return arguments


def check_arguments(parser, arguments):
    arguments.build = arguments.build.resolve()
    for name, known in (("mpis", MPIS), ("sides", SIDES), ("methods", (*METHODS, "pieces"))):
        for word in getattr(arguments, name):
            if word not in known:
                parser.error(f"--{name}: {word!r} is not one of {', '.join(known)}")
    if arguments.repetitions < 1 or min(arguments.ranks) < 1:
        parser.error("--repetitions and --ranks: at least 1")


def summarize(bench, arguments):
    labels = {mpi.name: mpi.label() for mpi in bench.mpis}
    facts = machine(bench.folder, labels)
    names = ("repetitions", "seed", "hint", "ranks", "size", "slow")
    options = {name: getattr(arguments, name) for name in names}
    save_json(arguments.json, facts, options, bench.workloads, bench.results)
    hints = f"; hints: {', '.join(arguments.hint)}" if arguments.hint else ""
    if arguments.slow is not None:
        hints += f"; {arguments.slow:g} ms a request, 1 GB/s for all"
    lines = [
        "Time over the limit, write/read: medians of up to "
        f"{arguments.repetitions} repetitions, seed {arguments.seed}{hints}.",
        "",
        f"{machine_text(facts)}.",
        "",
        *report(bench.results, labels, arguments.methods, arguments.sides, arguments.phases),
    ]
    print("\n" + "\n".join(lines))
    if arguments.docs:
        replace_tables(arguments.docs, lines)
    if failed := failures(bench.results):
        raise BenchError("failed:\n  " + "\n  ".join(failed))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    arguments = parse_arguments()
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(slow_storage(arguments))
        parent = slow.folder if slow else arguments.dir.resolve()
        bench = Bench(arguments, stack.enter_context(data_folder(parent)), slow)
        bench.prepare()
        if not arguments.no_verify:
            bench.verify_all()
        bench.measure_all()
        summarize(bench, arguments)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
