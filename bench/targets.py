"""What `make bench` must reach, and whether it does."""

import math

from results import DIRECTIONS, Case, number, pair, plain, table

# Collective calls with default hints: most times the limit, write and read, by ranks.
COLLECTIVE = {
    "block2d": {2: (1.2, 1.3), 4: (1.3, 1.5)},
    "dist3d": {2: (1.2, 1.3), 4: (1.3, 1.5)},
    "tile": {2: (1.2, 1.3), 4: (1.3, 1.5)},
    "btio": {4: (1.3, 1.5)},  # runs on square numbers of ranks
    "cyclic4k": {2: (1.3, 1.8), 4: (1.4, 2.3)},
    "cyclic256": {2: (1.6, 2.8), 4: (1.6, 3.0)},
    "unstruc": {2: (2.0, 3.5), 4: (2.2, 4.0)},
    "flash": {2: (1.8, 3.0), 4: (2.0, 3.5)},
    "interleaved": {2: (2.5, 4.0), 4: (2.5, 4.0)},
}
SLOW = {name: {4: (1.3, 1.5)} for name in ("flash", "tile", "cyclic4k")}

# Stock / Stridio, collective, geometric mean over workloads and directions: ranks, workloads that
# are left out, least.
MEANS = (
    (2, (), 2.7),
    (2, ("interleaved",), 1.9),
    (4, (), 3.0),
)

# On slow storage independent calls are compared with this hint too: both sides then sieve.
SLOW_WRITES = "independent:romio_ds_write=enable"

# Where the host's collective calls spin, for milliseconds: open and close may be added.
SPINS = {("mpich", 4)}


class Verdicts:
    """Counts what is reached, and makes the lines."""

    def __init__(self, results, labels):
        self.results = results
        self.labels = labels
        self.reached, self.missed = 0, 0
        self.aside = 0  # of the missed: reached but for open and close

    def count(self, is_reached):
        self.reached += is_reached
        self.missed += not is_reached

    def cell(self, case, direction, must):
        """As in `1.4`, or `2.1 (+17%)` where it is missed."""
        value = self.results.over_limit(case, "stridio", "collective", direction)
        if math.isnan(value):
            return "-"
        self.count(value <= must)
        if value <= must:
            return plain(value)
        excess = f"+{100 * (value / must - 1):.0f}%"
        if (case.mpi, case.ranks) in SPINS and value - self.opening(case, direction) <= must:
            self.aside += 1
            excess += ", reached but for open and close"
        return f"{number(value)} ({excess})"

    def opening(self, case, direction):
        """Open and close alone, over the limit."""
        seconds = self.results.cell(case, "stridio", "open", direction).median()
        return seconds / self.results.limit(case, direction)

    def collective(self):
        """A line a workload and number of ranks."""
        for slow, targets in ((False, COLLECTIVE), (True, SLOW)):
            for ranks in sorted({ranks for by_ranks in targets.values() for ranks in by_ranks}):
                for workload, by_ranks in targets.items():
                    if ranks in by_ranks:
                        yield self.collective_line(workload, ranks, slow, by_ranks[ranks])

    def collective_line(self, workload, ranks, slow, musts):
        where = ", slow storage" if slow else ""
        line = [f"{ranks} ranks{where}: {workload}", "/".join(map(str, musts))]
        for mpi in self.labels:
            case = Case(mpi, ranks, workload, slow)
            cells = (self.cell(case, way, must) for way, must in zip(DIRECTIONS, musts))
            line.append(" / ".join(cells))
        return line

    def means(self):
        for ranks, without, must in MEANS:
            left_out = f" without {', '.join(without)}" if without else ""
            line = [f"{ranks} ranks: geometric mean of stock / stridio{left_out}", f">= {must}"]
            for mpi in self.labels:
                cases = [
                    case
                    for case in self.results.cases()
                    if (case.mpi, case.ranks, case.slow) == (mpi, ranks, False)
                    and case.workload in COLLECTIVE
                    and case.workload not in without
                ]
                line.append(self.mean(cases, must))
            yield line

    def mean(self, cases, must):
        value, _ = self.results.geometric_mean(cases, "collective")
        if math.isnan(value):
            return "-"
        self.count(value >= must)
        shortfall = "" if value >= must else f" (-{100 * (1 - value / must):.0f}%)"
        return plain(value) + shortfall

    def never_slower(self):
        """Each of these is one target an MPI; shortfalls() names the cells."""
        groups = dict.fromkeys((case.slow, case.ranks) for case in self.results.cases())
        for slow, ranks in sorted(groups):
            for method in ("collective", "independent", *([SLOW_WRITES] if slow else [])):
                where = ", slow storage" if slow else ""
                line = [f"{ranks} ranks{where}: {method} slower than stock", "nowhere"]
                line += [self.slower_of(mpi, ranks, slow, method) for mpi in self.labels]
                yield line

    def slower_of(self, mpi, ranks, slow, method):
        cases = [
            case
            for case in self.results.cases()
            if (case.mpi, case.ranks, case.slow) == (mpi, ranks, slow)
        ]
        found = [
            (ours / bound, case, way)
            for case, _, way, ours, bound in self.results.slower(cases, method)
        ]
        if not any(self.results.has(case, "stridio", method) for case in cases):
            return "-"
        self.count(not found)
        if not found:
            return "nowhere"
        worst, case, way = max(found, key=lambda each: each[0])
        return f"{len(found)}, worst: {case.workload} {way} +{100 * (worst - 1):.0f}%"

    def openings(self):
        """What open and close cost by themselves, the median of all cases, in ms."""
        groups = dict.fromkeys((case.slow, case.ranks) for case in self.results.cases())
        for slow, ranks in sorted(groups):
            for side in ("stock", "stridio"):
                where = ", slow storage" if slow else ""
                line = [f"{ranks} ranks{where}: {side} open and close alone, ms", ""]
                for mpi in self.labels:
                    opening = (mpi, ranks, slow, side)
                    line.append(pair(self.results.opening, *opening, text=plain))
                yield line


def verdict(results, labels):
    """Lines of Markdown: each target, reached or missed by how much. `labels`: MPIs' full names."""
    verdicts = Verdicts(results, labels)
    lines = [["write / read", "target", *labels.values()]]
    lines += [*verdicts.collective(), *verdicts.means(), *verdicts.never_slower()]
    lines += verdicts.openings()
    count = f"{verdicts.reached} of {verdicts.reached + verdicts.missed} targets are reached"
    if verdicts.aside:
        count += f", {verdicts.aside} more but for what the host's spinning costs in open and close"
    return [
        "**Targets**",
        "",
        f"Stridio collective over the limit; what is missed says by how much. {count}.",
        "",
        *table(lines),
    ]
