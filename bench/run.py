#!/usr/bin/python3
"""Measures Stridio against stock MPI-IO and against the limit, on named workloads.

Without --workloads, --all or --full: the target table, and whether Stridio reaches it. The limit is
one contiguous write or read of the same bytes by the same ranks. Every time is from a start on which
all ranks agreed to the last rank's end: open, view, data, close. All that is compared is measured in
turns, in one run of this program; tables give medians. Before that, every byte that is written or
read is verified once, in a run of its own. The workloads and the way they are timed:
docs/benchmarks.md. Exit status: 0 measured (whatever is reached), 1 wrong bytes or a failure.
"""

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import suites
from launch import MPIS, ROOT, SIDES, START_SECONDS, BenchError, Launcher, Overtime, Program
from mount import mounted, why_not
from results import (
    CAP,
    DIRECTIONS,
    Case,
    Results,
    choices,
    failures,
    load_json,
    machine,
    machine_text,
    report,
    save_json,
)
from targets import verdict

SLACK_SECONDS = 2  # that a cell may take beyond the cap before it is stopped
HOPELESS = 2 * CAP  # times the limit: a cell that took so long is not repeated
VERIFY_SECONDS = 120  # for one verified access
VERIFY_PART = 8  # where a part of the workload is verified: its size parameter, divided by this
RESERVE_SECONDS = 15  # of the budget, for the last run and the tables


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folders = {}  # for the data: by whether it is on slow storage
        self.slow = None  # the slow storage that is mounted, if any
        self.launcher = Launcher(arguments.build, arguments.preload)
        self.mpis = [MPIS[name] for name in arguments.mpis]
        self.results = Results()
        self.known = {}  # what the program says about each workload
        self.cases = {}  # with their methods
        self.done = []  # cases that were measured to their end, of a full run
        self.wrong = []
        self.start = time.monotonic()
        self.end = self.start + 60 * arguments.minutes - RESERVE_SECONDS

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
        self.known = self.list_workloads()
        self.facts = machine(self.arguments.dir.resolve(), {m.name: m.label() for m in self.mpis})
        for part in self.parts():
            self.cases |= {case: self.methods(part) for case in self.cases_of(part)}

    def list_workloads(self):
        with Program(self.launcher.command(self.mpis[0], 1, "stock", ["--list"])) as program:
            deadline = time.monotonic() + START_SECONDS
            return {
                found["workload"]: found for found in iter(lambda: program.event(deadline), None)
            }

    def parts(self):
        arguments = self.arguments
        if arguments.suite:
            return getattr(suites, arguments.suite)(self.known)
        chosen = tuple(self.known) if arguments.all else arguments.workloads
        methods = arguments.methods or suites.PLAIN
        ranks = arguments.ranks or (2, 4)
        return (suites.Part(chosen, ranks, methods, arguments.slow is not None),)

    def methods(self, part):
        return self.arguments.methods or part.methods

    def cases_of(self, part):
        unknown = [word for word in part.workloads if word.partition(":")[0] not in self.known]
        if unknown:
            raise BenchError(f"no workload {unknown[0]!r}; there are {', '.join(self.known)}")
        if part.slow and not self.has_slow_storage():
            return
        for mpi in self.mpis:
            for ranks in part.ranks:
                if self.arguments.ranks and ranks not in self.arguments.ranks:
                    continue
                for word in part.workloads:
                    if self.runs_on(ranks, word):
                        yield Case(mpi.name, ranks, word, part.slow)

    def runs_on(self, ranks, word):
        return not self.known[word.partition(":")[0]]["square"] or int(ranks**0.5) ** 2 == ranks

    def has_slow_storage(self):
        """A suite goes on without it."""
        why = why_not(self.arguments.build / "bin/slowfs")
        if why and not self.arguments.suite:
            raise BenchError(f"no slow storage: {why}")
        if why:
            self.say(f"no slow storage, its workloads are left out: {why}")
        return not why

    def make_folders(self, stack):
        self.folders[False] = stack.enter_context(data_folder(self.arguments.dir.resolve()))
        if any(case.slow for case in self.cases):
            slowfs = self.arguments.build / "bin/slowfs"
            self.slow = stack.enter_context(mounted(slowfs, latency_ms=self.arguments.slow or 1))
            self.folders[True] = stack.enter_context(data_folder(self.slow.folder))

    def program(self, case, side, methods, directions, *more, part=1):
        """`part`: of the workload's size, one in so many."""
        name, _, extra = case.workload.partition(":")
        size = max(1, (self.arguments.size or self.known[name]["size"]) // part)
        words = ["--workload", name, "--size", size, "--path", self.folders[case.slow] / "data"]
        words += ["--methods", ",".join(methods), "--directions", ",".join(directions)]
        words += ["--seed", self.arguments.seed, *more]
        if extra:
            words += ["--extra", extra]
        if case.slow:
            words += ["--counts", self.slow.counts_file]
        for hint in self.arguments.hint:
            words += ["--hint", hint]
        return Program(self.launcher.command(MPIS[case.mpi], case.ranks, side, words))

    def methods_on(self, case, side):
        return [method for method in self.cases[case] if suites.is_for(side, method)]

    # ----------------------------------------------------------------------------------- verify ---

    def verify(self, case, side):
        """Stridio at full size where that takes seconds; stock MPI-IO, slow storage and single
        pieces at a part of it. Wrong bytes end the run. Stock independent calls may take a minute on
        slow storage: they are verified elsewhere."""
        methods = [method for method in self.methods_on(case, side) if method != suites.OPEN]
        if case.slow and side == "stock":
            methods = [method for method in methods if method.startswith("collective")]
        pieces = [method for method in methods if method == "pieces"]
        others = [method for method in methods if method != "pieces"]
        is_whole = side == "stridio" and not case.slow
        self.verify_some(case, side, others, 1 if is_whole else VERIFY_PART)
        self.verify_some(case, side, pieces, VERIFY_PART)

    def verify_some(self, case, side, methods, part):
        if not methods:
            return
        try:
            wrong = self.find_wrong(case, side, methods, part)
        except Overtime:
            self.say(f"verify {case}, {side}: stopped, too slow")
            if side == "stridio" and not case.slow:
                self.wrong.append(f"{case}, {side}: no end after {VERIFY_SECONDS} s")
            return
        self.wrong += [f"{case}, {side}: {what}" for what in wrong]
        self.say(f"verify {case}, {side}: {'WRONG' if wrong else 'right'}")

    def find_wrong(self, case, side, methods, part):
        wrong = []
        more = ["--verify", "--max-pieces", 0]
        if side == "stock":
            more.append("--skip-holes")  # ROMIO leaves there what was in its buffers
        with self.program(case, side, methods, DIRECTIONS, *more, part=part) as program:
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
            for method in self.methods_on(case, side)
            if suites.is_of(direction, method)
            and self.is_worth_it(case, side, method, direction)
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

    def is_over(self, case, took):
        """Whether the budget has no room for a case, by what those before took."""
        expected = took.get(case, max(took.values(), default=0))
        return time.monotonic() + expected > self.end

    def verify_case(self, case):
        for side in self.arguments.sides:
            self.verify(case, side)

    def stop_if_wrong(self):
        if self.wrong:
            raise BenchError("wrong results:\n  " + "\n  ".join(self.wrong))

    def run_in_turns(self):
        """Repetition by repetition, so that all cells lose alike when the budget ends."""
        for case in self.cases:
            if not self.arguments.no_verify:
                self.verify_case(case)
        self.stop_if_wrong()
        took = {}
        for repetition in range(self.arguments.repetitions):
            for case in self.cases:
                if took and self.is_over(case, took):
                    self.say("the time is over: not all repetitions were made")
                    return
                began = time.monotonic()
                self.repeat(case, repetition)
                took[case] = time.monotonic() - began

    def repeat(self, case, repetition):
        backwards = repetition % 2 == 1
        for side in self.arguments.sides[:: -1 if backwards else 1]:
            self.measure(case, side, backwards)
        self.say(f"{repetition + 1} of {self.arguments.repetitions}: {self.brief(case)}")

    def run_case_by_case(self):
        """So that a run that ends early can go on later."""
        self.resume()
        left = [case for case in self.cases if str(case) not in self.done]
        self.say(f"{len(self.done)} of {len(self.cases)} cases are there, in {self.arguments.json}")
        took = {}
        for case in left:
            if took and self.is_over(case, took):
                self.say(f"the time is over; {len(left) - len(took)} cases are left: call it again")
                return
            began = time.monotonic()
            if not self.arguments.no_verify:
                self.verify_case(case)
            self.stop_if_wrong()
            for repetition in range(self.arguments.repetitions):
                self.repeat(case, repetition)
            took[case] = time.monotonic() - began
            self.done.append(str(case))
            self.save()

    def resume(self):
        file = self.arguments.json
        if self.arguments.restart or not file.exists():
            return
        content, self.results = load_json(file)
        self.done = content["done"]
        facts = content["machine"]
        for key in ("cpu", "cores", "mpis", "file_system"):
            if facts[key] != self.facts[key]:
                raise BenchError(
                    f"{file} is of another {key}: {facts[key]}   begin anew: --restart"
                )
        commits = dict.fromkeys((*facts["commit"].split(", "), self.facts["commit"]))
        self.facts["commit"] = ", ".join(commits)

    def save(self):
        names = ("repetitions", "seed", "hint", "size", "slow", "suite")
        options = {name: getattr(self.arguments, name) for name in names}
        more = {"options": options, "workloads": list(self.known.values()), "done": self.done}
        save_json(self.arguments.json, self.facts, more, self.results)

    def brief(self, case):
        parts = []
        for side in self.arguments.sides:
            for method in self.methods_on(case, side):
                if method == suites.OPEN:
                    continue
                values = (self.results.over_limit(case, side, method, way) for way in DIRECTIONS)
                parts.append(f"{side} {method} {'/'.join(f'{value:.1f}' for value in values)}")
        return f"{case}: {', '.join(parts)}"


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


def words(text):
    return tuple(text.split(","))


def numbers(text):
    return tuple(int(word) for word in text.split(","))


def methods(text):
    """`forced` stands for all that can be."""
    found = []
    for word in words(text):
        found += suites.forced() if word == "forced" else [word]
    return tuple(found)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.partition("\n\n")[0])
    add = parser.add_argument
    what = parser.add_argument_group("what is measured (the target table)")
    what.add_argument(
        "--workloads", type=words, metavar="LIST", help="NAME, or NAME:EXTRA (the second parameter)"
    )
    what.add_argument("--all", action="store_true", help="all workloads")
    what.add_argument(
        "--full", action="store_true", help="everything; a second call goes on where one ended"
    )
    add("--restart", action="store_true", help="--full: begin anew")
    add("--size", type=int, help="the workloads' size parameter, if not its default")
    add("--ranks", type=numbers, metavar="LIST", help="(2,4)")
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
        type=methods,
        metavar="LIST",
        help="of collective, independent, pieces, open, each with hints if followed by :KEY=VALUE, "
        "or with one of Stridio's methods if by :METHOD; forced: collective with all of these "
        "(collective,independent)",
    )
    add("--hint", action="append", default=[], metavar="KEY=VALUE", help="for all files")
    add("--repetitions", type=int, metavar="N", help="at most (7; --full: 3)")
    add("--minutes", type=float, metavar="N", help="the most that it may take (10; --full: 120)")
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
        metavar="FILE",
        help="all that was measured (build/bench/results.json; --full: full.json there)",
    )
    add("--docs", type=Path, metavar="FILE", help="replace the tables of this document")
    arguments = parser.parse_args()
    set_defaults(arguments)
    check_arguments(parser, arguments)
    return arguments


def set_defaults(arguments):
    chosen = arguments.workloads or arguments.all
    arguments.suite = "full" if arguments.full else None if chosen else "target"
    arguments.build = arguments.build.resolve()
    arguments.minutes = arguments.minutes or (120 if arguments.full else 10)
    arguments.repetitions = arguments.repetitions or (3 if arguments.full else 7)
    name = "full.json" if arguments.full else "results.json"
    arguments.json = arguments.json or ROOT / "build/bench" / name


def check_arguments(parser, arguments):
    calls = (*suites.PLAIN, "pieces", suites.OPEN)
    known = {"mpis": tuple(MPIS), "sides": SIDES, "methods": calls}
    for name, allowed in known.items():
        for word in getattr(arguments, name) or ():
            if word.partition(":")[0] not in allowed:
                parser.error(f"--{name}: {word!r} is not one of {', '.join(allowed)}")
    if arguments.full and (arguments.workloads or arguments.all):
        parser.error("--full measures all workloads")
    if arguments.repetitions < 1 or min(arguments.ranks or (1,)) < 1:
        parser.error("--repetitions and --ranks: at least 1")


def summarize(bench, arguments):
    labels = bench.facts["mpis"]
    bench.save()
    hints = f"; hints: {', '.join(arguments.hint)}" if arguments.hint else ""
    if bench.slow:
        hints += f"; slow storage: {arguments.slow or 1:g} ms a request, 1 GB/s for all"
    lines = [
        "Time over the limit, write/read: medians of up to "
        f"{arguments.repetitions} repetitions, seed {arguments.seed}{hints}.",
        "",
        f"{machine_text(bench.facts)}.",
        "",
        *report(bench.results, labels, arguments.phases),
    ]
    if any(method in suites.forced() for _, _, method, _ in bench.results.cells):
        lines += ["", *choices(bench.results)]
    if arguments.suite:
        lines += ["", *verdict(bench.results, labels)]
    print("\n" + "\n".join(lines))
    if arguments.docs:
        replace_tables(arguments.docs, lines)
    if failed := failures(bench.results):
        raise BenchError("failed:\n  " + "\n  ".join(failed))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    arguments = parse_arguments()
    bench = Bench(arguments)
    bench.prepare()
    with contextlib.ExitStack() as stack:
        bench.make_folders(stack)
        if arguments.full:
            bench.run_case_by_case()
        else:
            bench.run_in_turns()
        summarize(bench, arguments)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted")
