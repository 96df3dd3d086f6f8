"""What was measured, and the tables made of it."""

import datetime
import json
import math
import os
import platform
import re
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

GOOD_CHOICE = 1.25
CAP = 30  # a cell that takes longer than so many times the limit counts as this
PHASES = ("total", "open", "view", "access", "close", "late")
DIRECTIONS = ("write", "read")


@dataclass(frozen=True)
class Case:
    mpi: str
    ranks: int
    workload: str  # NAME, or NAME:EXTRA with the second parameter
    slow: bool = False  # on slow storage

    def __str__(self):
        where = ", slow storage" if self.slow else ""
        return f"{self.mpi}, {self.ranks} ranks{where}, {self.workload}"


@dataclass
class Cell:
    """All repetitions of one measurement: lists of seconds, by phase."""

    bytes: int = 0
    times: dict = field(default_factory=lambda: {phase: [] for phase in PHASES})
    storage: list = field(default_factory=list)  # what slow storage counted, each time
    stopped: bool = False  # at the cap
    error: str = ""

    def add(self, event):
        self.bytes = event["bytes"]
        for phase in PHASES:
            self.times[phase].append(event[phase])
        if "storage" in event:
            self.storage.append(event["storage"])

    def is_measured(self):
        return bool(self.times["total"]) or self.stopped

    def counted(self, function):
        """The median of a function of what the storage counted."""
        return statistics.median(map(function, self.storage)) if self.storage else math.nan

    def median(self, phase="total"):
        return statistics.median(self.times[phase]) if self.times[phase] else math.nan

    def median_for(self, all_bytes):
        """Of the whole time, as if all bytes had been moved: `pieces` moves a part only."""
        if not self.bytes or self.bytes >= all_bytes:
            return self.median()
        return self.median() + self.median("access") * (all_bytes / self.bytes - 1)


class Results:
    def __init__(self):
        self.cells = {}  # (case, side, method, direction); of the limit and first opens too

    def cell(self, case, side, method, direction):
        side = "" if method in ("limit", "first limit") else side  # the same on both sides
        return self.cells.setdefault((case, side, method, direction), Cell())

    def cases(self):
        cells = self.cells.items()
        return list(dict.fromkeys(case for (case, *_), cell in cells if cell.is_measured()))

    def has(self, case, side, method):
        return any(self.cell(case, side, method, way).is_measured() for way in DIRECTIONS)

    def columns(self, cases, with_hints):
        """Sides and methods of these cases that move data: with default hints, or the others."""
        found = dict.fromkeys(
            (side, method)
            for (case, side, method, _), cell in self.cells.items()
            if case in cases and method not in ("first", "first limit", "limit", "open")
            if cell.is_measured()
        )
        found = [each for each in found if (":" in each[1]) == with_hints]
        order = list(dict.fromkeys(method for _, method in found))
        return sorted(found, key=lambda each: (each[0], order.index(each[1])))

    def limit(self, case, direction):
        """The first of a process warms up, and counts only where there is no other."""
        measured = self.cell(case, "", "limit", direction).median()
        first = self.cell(case, "", "first limit", direction).median()
        return first if math.isnan(measured) else measured

    def bytes(self, case, direction):
        return self.cell(case, "", "first limit", direction).bytes

    def seconds(self, case, side, method, direction):
        """The median, at most the cap; not a number where nothing was measured."""
        cell = self.cell(case, side, method, direction)
        limit = self.limit(case, direction)
        if cell.error:
            return math.nan
        if cell.stopped and not cell.times["total"]:
            return CAP * limit
        return min(cell.median_for(self.bytes(case, direction)), CAP * limit)

    def over_limit(self, case, side, method, direction):
        return self.seconds(case, side, method, direction) / self.limit(case, direction)

    def ratio(self, case, method, direction):
        """How many times as long as Stridio stock MPI-IO takes."""
        stock, ours = (self.seconds(case, side, method, direction) for side in ("stock", "stridio"))
        return stock / ours

    def geometric_mean(self, cases, method):
        """Of stock / Stridio, over workloads and directions; and of how many."""
        ratios = [self.ratio(case, method, way) for case in cases for way in DIRECTIONS]
        ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
        return (statistics.geometric_mean(ratios), len(ratios)) if ratios else (math.nan, 0)

    def slower(self, cases, method):
        """Where Stridio takes more than 10% and 1 ms longer than it should at most: collectively
        than the faster of stock collective and independent, else than stock by this method."""
        rivals = ("collective", "independent") if method == "collective" else (method,)
        for case in cases:
            for way in DIRECTIONS:
                stock = (self.seconds(case, "stock", rival, way) for rival in rivals)
                bound = min((each for each in stock if not math.isnan(each)), default=math.nan)
                ours = self.seconds(case, "stridio", method, way)
                if ours > 1.1 * bound and ours > bound + 1e-3:
                    yield case, method, way, ours, bound

    def choices(self):
        """What the planner chose against the best of all that was measured, stock MPI-IO and forced methods: case,
        direction, seconds, the best and its seconds. Not against what needs a promise of the user's. The least times count:
        what a process measures first pays for its threads and pages, and repetitions go forwards and backwards."""
        for case in self.cases():
            columns = [*self.columns([case], False), *self.columns([case], True)]
            columns = [column for column in columns if "=" not in column[1]]
            for way in DIRECTIONS:
                cells = {column: self.cell(case, *column, way) for column in columns}
                times = {column: min(cell.times["total"]) for column, cell in cells.items() if cell.times["total"]}
                chosen = times.get(("stridio", "collective"))
                if chosen and len(times) > 1:
                    best = min(times, key=times.get)
                    yield case, way, chosen, " ".join(best), times[best]

    def opening(self, mpi, ranks, slow, side, direction):
        """What open and close alone take in these cases, in ms."""
        seconds = [
            time
            for (case, *what), cell in self.cells.items()
            if (case.mpi, case.ranks, case.slow) == (mpi, ranks, slow)
            and what == [side, "open", direction]
            for time in cell.times["total"]
        ]
        return statistics.median(seconds) * 1e3 if seconds else math.nan

    def as_json(self):
        for (case, side, method, direction), cell in self.cells.items():
            if not (cell.is_measured() or cell.error):
                continue
            yield {
                "mpi": case.mpi,
                "ranks": case.ranks,
                "workload": case.workload,
                "slow": case.slow,
                "side": side,
                "method": method,
                "direction": direction,
                "bytes": cell.bytes,
                "stopped": cell.stopped,
                "error": cell.error,
                "seconds": cell.times,
                "storage": cell.storage,
            }

    def add_json(self, cells):
        """The reverse of as_json()."""
        for each in cells:
            case = Case(each["mpi"], each["ranks"], each["workload"], each["slow"])
            cell = self.cell(case, each["side"], each["method"], each["direction"])
            cell.bytes, cell.stopped, cell.error = each["bytes"], each["stopped"], each["error"]
            cell.times, cell.storage = each["seconds"], each["storage"]


# --------------------------------------------------------------------------------------------------
# Tables


def plain(value):
    """Two digits or more."""
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def whole(value):
    return "-" if math.isnan(value) else f"{value:.0f}"


def number(value):
    return f">{CAP}" if value >= CAP else plain(value)


def table(lines):
    """Markdown that reads well as text too. The first column is words, the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines = [lines[0], ["-" * width for width in widths], *lines[1:]]
    for index, line in enumerate(lines):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        if index == 1:
            cells[1:] = [cell[:-1] + ":" for cell in cells[1:]]
        yield "| " + " | ".join(cells) + " |"


def pair(function, *arguments, text=number):
    return "/".join(text(function(*arguments, direction=way)) for way in DIRECTIONS)


def compare(results, cases, columns):
    """The table of one MPI and one number of ranks; each pair is write/read."""
    ratios = [
        method for side, method in columns if side == "stridio" and ("stock", method) in columns
    ]
    head = ["workload", "MB", "limit, ms"]
    head += [f"{side} {method}" for side, method in columns]
    head += [f"stock / stridio {method}" for method in ratios]
    lines = [head]
    for case in cases:
        megabytes = results.bytes(case, "read") / 1e6
        line = [case.workload, f"{megabytes:.0f}"]
        line.append(
            pair(lambda direction, case=case: results.limit(case, direction) * 1e3, text=plain)
        )
        line += [pair(results.over_limit, case, *column) for column in columns]
        line += [pair(results.ratio, case, method, text=plain) for method in ratios]
        lines.append(line)
    return list(table(lines))


def report(results, labels, with_phases):
    """All tables, as lines of Markdown. `labels`: the MPIs' full names."""
    lines = []
    groups = dict.fromkeys((case.slow, case.ranks, case.mpi) for case in results.cases())
    for group in sorted(groups):
        slow, ranks, mpi = group
        cases = [c for c in results.cases() if (c.slow, c.ranks, c.mpi) == group]
        lines += [f"**{labels[mpi]}, {ranks} ranks{', slow storage' if slow else ''}**", ""]
        lines += report_group(results, cases, with_phases)
    if {side for _, side, *_ in results.cells} >= {"stock", "stridio"}:
        lines += shortfalls(results, labels)
    return lines


def report_group(results, cases, with_phases):
    """Of one MPI, number of ranks and storage."""
    columns = results.columns(cases, with_hints=False)
    lines = [*compare(results, cases, columns), ""]
    if with_phases:
        lines += [*phases(results, cases, columns), ""]
    if any(cell.storage for (case, *_), cell in results.cells.items() if case in cases):
        lines += [*storage_use(results, cases, columns), ""]
    both = [
        method for side, method in columns if ("stock", method) in columns and side == "stridio"
    ]
    if both:
        means = (f"{plain(results.geometric_mean(cases, m)[0])} {m}" for m in both)
        lines += [f"Geometric mean of stock / stridio: {', '.join(means)}.", ""]
    if hinted := results.columns(cases, with_hints=True):
        these = [case for case in cases if any(results.has(case, *column) for column in hinted)]
        lines += ["With hints:", "", *compare(results, these, hinted), ""]
    return [*lines, first_opens(results, cases), ""]


def choices(results):
    """How far what the planner chose is from the best."""
    found = sorted(results.choices(), key=lambda each: each[4] / each[2])
    far = [each for each in found if each[2] > GOOD_CHOICE * each[4]]
    lines = [
        f"**The planner's choice, collective, against the best of stock MPI-IO and all methods: {len(found) - len(far)} of "
        f"{len(found)} within {GOOD_CHOICE}, {sum(each[2] > 2 * each[4] for each in found)} over 2**",
        "",
    ]
    cells = [["", "chosen, ms", "best, ms", "ratio", "which"]]
    for case, way, chosen, name, best in far:
        cells.append([f"{case}, {way}", plain(chosen * 1e3), plain(best * 1e3), plain(chosen / best), name])
    return [*lines, *(table(cells) if far else ())]


def phases(results, cases, columns):
    """Where the time goes: medians of the slowest rank's, in ms. Ranks wait for each other in any
    of them, so that they add up to more than the whole."""
    lines = [["write/read, ms", *PHASES[:-1]]]
    for case in cases:
        for side, method in columns:
            cells = [results.cell(case, side, method, way) for way in DIRECTIONS]
            medians = (
                "/".join(plain(cell.median(phase) * 1e3) for cell in cells) for phase in PHASES[:-1]
            )
            lines.append([f"{case.workload} {side} {method}", *medians])
    return list(table(lines))


def requests(counts):
    return counts["reads"] + counts["writes"]


def kib_a_request(counts):
    return (counts["bytes_read"] + counts["bytes_written"]) / 1024 / max(1, requests(counts))


STORAGE_COLUMNS = {
    "reads and writes": requests,
    "KiB each": kib_a_request,
    "most in flight": lambda counts: counts["most_in_flight"],
    "locks": lambda counts: counts["locks"],
    "others": lambda counts: counts["others"],
}


def storage_use(results, cases, columns):
    """What reached the storage, open and close included."""
    lines = [["write/read", "ms", *STORAGE_COLUMNS]]
    for case in cases:
        for side, method in (("", "limit"), *columns):
            cells = [results.cell(case, side, method, way) for way in DIRECTIONS]
            line = [" ".join(filter(None, (case.workload, side, method)))]
            line.append("/".join(plain(cell.median() * 1e3) for cell in cells))
            for function in STORAGE_COLUMNS.values():
                line.append("/".join(whole(cell.counted(function)) for cell in cells))
            lines.append(line)
    return list(table(lines))


def first_opens(results, cases):
    """A process's first file: opened, viewed, written a little and closed."""
    times = []
    for side in dict.fromkeys(side for case, side, *_ in results.cells if side and case in cases):
        seconds = [
            time
            for case in cases
            for way in DIRECTIONS
            for time in results.cell(case, side, "first", way).times["total"]
        ]
        times.append(
            f"{side} {plain(statistics.median(seconds) * 1e3 if seconds else math.nan)} ms"
        )
    return f"First file of a process, open to close: {', '.join(times)}."


def shortfalls(results, labels):
    """Where Stridio is slower than it must not be, and what failed."""
    methods = dict.fromkeys(method for _, side, method, _ in results.cells if side == "stock")
    lines = [
        f"- {labels[case.mpi]}, {case.ranks} ranks{', slow storage' if case.slow else ''}, "
        f"{case.workload} {method} {way}: {ours * 1e3:.1f} ms, stock {bound * 1e3:.1f} ms"
        for each in methods
        if each.startswith(("collective", "independent"))
        for case, method, way, ours, bound in results.slower(results.cases(), each)
    ]
    head = (
        "Slower than stock MPI-IO by more than 10% and 1 ms (collective: than its faster method):"
    )
    return [head, "", *(lines or ["- nowhere"])]


def failures(results):
    return [
        f"{case} {side} {method} {way}: {cell.error}"
        for (case, side, method, way), cell in results.cells.items()
        if cell.error
    ]


# --------------------------------------------------------------------------------------------------
# The machine


def first_match(file, pattern):
    found = re.search(pattern, Path(file).read_text(), re.MULTILINE)
    return found[1].strip() if found else "unknown"


def file_system(folder):
    """The type of the file system that holds a folder."""
    mounts = (line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines())
    holding = [(len(point), kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding)[1] if holding else "unknown"


def git(*words):
    done = subprocess.run(
        ["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return done.stdout.strip() if done.returncode == 0 else ""


LOADS = ("load_average_at_start", "load_average_at_end")


def machine(folder, labels):
    memory = int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)")) / 2**20
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:(.*)"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "kernel": platform.release().partition("-")[0],
        "compiler": subprocess.run(
            ["cc", "--version"], capture_output=True, text=True
        ).stdout.partition("\n")[0],
        "mpis": labels,
        "file_system": file_system(folder),
        **session(),
    }


def session():
    """What differs between two runs on one machine."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": git("describe", "--always", "--dirty", "--exclude", "*"),
        "load_average_at_start": round(os.getloadavg()[0], 1),
    }


def machine_text(facts):
    loads = [facts[key] for key in LOADS if key in facts]
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']:.0f} GiB; "
        f"{facts['system']}, Linux {facts['kernel']}; {', '.join(facts['mpis'].values())}; "
        f"files on {facts['file_system']}; commit {facts['commit']}; {facts['date']}; "
        f"load average {' to '.join(map(str, loads))}"
    )


def save_json(path, facts, more, results):
    """Whole or not at all: a run may be ended at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts[LOADS[1]] = round(os.getloadavg()[0], 1)
    content = {"machine": facts, **more, "cells": list(results.as_json())}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def load_json(path):
    """The content, and the results in it."""
    content = json.loads(path.read_text())
    results = Results()
    results.add_json(content["cells"])
    return content, results
