#!/usr/bin/python3
"""Draws figures, as SVG, of what bench/run.py measured.

Bars: the time over the limit, a figure for each number of ranks and for slow storage. Curves:
bandwidth against the number of accesses, where a workload was measured with several (NAME:EXTRA).
"""

import argparse
import math
import sys
import textwrap
from pathlib import Path

from launch import ROOT, BenchError
from results import CAP, DIRECTIONS, load_json, machine_text
from targets import COLLECTIVE, SLOW

try:
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
except ImportError:
    sys.exit("figures: no matplotlib for this Python   get it by: scripts/setup.sh")

# Okabe and Ito's palette, which colour-blind readers tell apart.
LINES = {
    ("stock", "collective"): ("stock collective", "#D55E00", "s"),
    ("stock", "independent"): ("stock independent", "#E69F00", "D"),
    ("stridio", "collective"): ("Stridio collective", "#0072B2", "o"),
    ("stridio", "independent"): ("Stridio independent", "#56B4E9", "^"),
    ("stock", "pieces"): ("stock, one call a piece", "#999999", "x"),
}
BARS = list(LINES)[:4]
BAR_WIDTH = 0.2
TICKS = (0.5, 1, 2, 3, 5, 10, 20, 30)
INCHES_A_WORKLOAD = 0.52
WIDE = 9  # inches: room for the legend in one line
CAPTION_LETTER = 0.058  # inches, at the caption's size

matplotlib.rcParams |= {
    "svg.hashsalt": "stridio",  # the same figure is the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
}


class Figures:
    def __init__(self, file, folder):
        self.content, self.results = load_json(file)
        self.labels = self.content["machine"]["mpis"]
        self.prefix = "full-" if self.content["options"]["suite"] == "full" else ""
        self.folder = folder
        self.written = []

    def draw_all(self):
        groups = dict.fromkeys((case.slow, case.ranks) for case in self.results.cases())
        for slow, ranks in groups:
            cases = [c for c in self.results.cases() if (c.slow, c.ranks) == (slow, ranks)]
            plain = [case for case in cases if ":" not in case.workload]
            self.draw_times(plain, slow, ranks)
            for name in dict.fromkeys(
                c.workload.partition(":")[0] for c in cases if c not in plain
            ):
                swept = [case for case in cases if case.workload.startswith(f"{name}:")]
                self.draw_accesses(name, swept, slow, ranks)

    def panels(self, cases, width, height):
        """Write above read, an MPI a column."""
        mpis = list(dict.fromkeys(case.mpi for case in cases))
        figure, axes = pyplot.subplots(
            2,
            len(mpis),
            figsize=(width * len(mpis), height),
            sharex="col",
            sharey=True,
            squeeze=False,
        )
        for column, mpi in enumerate(mpis):
            axes[0][column].set_title(self.labels[mpi], fontsize=10)
        for row, direction in enumerate(DIRECTIONS):
            for column, mpi in enumerate(mpis):
                own = [case for case in cases if case.mpi == mpi]
                axes[row][column].grid(axis="y", linewidth=0.6)
                axes[row][column].tick_params(axis="x", length=0)
                yield figure, axes[row][column], direction, own, column == 0

    def finish(self, figure, title, caption, name):
        """Title and legend above, the caption below the panels, whatever their size."""
        width, height = figure.get_size_inches()
        caption = textwrap.fill(caption, int(width / CAPTION_LETTER))
        handles, texts = figure.axes[0].get_legend_handles_labels()
        figure.text(
            0.5, 1 - 0.08 / height, title, ha="center", va="top", fontsize=11, fontweight="bold"
        )
        figure.legend(
            handles,
            texts,
            loc="upper center",
            bbox_to_anchor=(0.5, 1 - 0.27 / height),
            ncol=len(texts) if width > WIDE else math.ceil(len(texts) / 2),
            columnspacing=1.4,
            handlelength=1.4,
        )
        figure.text(0.01, 0.06 / height, caption, fontsize=7.5, color="#444444", va="bottom")
        bottom = 0.13 * (caption.count("\n") + 1) + 0.12
        top = 0.5 if width > WIDE else 0.65
        figure.tight_layout(rect=(0, bottom / height, 1, 1 - top / height))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.written.append(self.folder / f"{name}.svg")
        figure.savefig(self.written[-1], metadata={"Date": None})
        pyplot.close(figure)

    def medians(self):
        repetitions = self.content["options"]["repetitions"]
        return f"Medians of up to {repetitions}. {machine_text(self.content['machine'])}."

    # ---------------------------------------------------------------------------------- times ---

    def draw_times(self, cases, slow, ranks):
        count = len({case.workload for case in cases})
        if not count:
            return
        width = max(4.0, 1.2 + INCHES_A_WORKLOAD * count)
        for figure, axis, direction, own, is_first in self.panels(cases, width, 5.8):
            self.draw_bars(axis, own, direction)
            if is_first:
                axis.set_ylabel(f"{direction}: time / limit")
        where = f"{ranks} ranks{', slow storage' if slow else ''}"
        caption = (
            "Time from an agreed start to the last rank's end (open, set the view, access, close), "
            "over the time of one contiguous pwrite or pread of the same bytes by the same ranks; "
            f"lower is better. Bars that touch {CAP}: stopped there, or slower. Black marks: targets. "
        )
        if slow:
            caption += "1 ms a request, 1 GB/s for all. "
        name = f"{self.prefix}times-{ranks}-ranks{'-slow' if slow else ''}"
        self.finish(figure, f"Time over the limit, {where}", caption + self.medians(), name)

    def draw_bars(self, axis, cases, direction):
        """They stand on the limit: what is faster hangs below."""
        for index, key in enumerate(BARS):
            label, colour, _ = LINES[key]
            places = [place + (index - 1.5) * BAR_WIDTH for place in range(len(cases))]
            values = [self.results.over_limit(case, *key, direction) for case in cases]
            heights = [0 if math.isnan(value) else value - 1 for value in values]
            axis.bar(places, heights, BAR_WIDTH, bottom=1, color=colour, label=label)
            if key == ("stridio", "collective"):
                self.mark_targets(axis, cases, places, direction)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_ylim(0.5, CAP)
        axis.yaxis.set_major_locator(FixedLocator(TICKS))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.set_xlim(-0.6, len(cases) - 0.4)
        names = [case.workload for case in cases]
        axis.set_xticks(range(len(cases)), names, rotation=40, ha="right", rotation_mode="anchor")

    @staticmethod
    def mark_targets(axis, cases, places, direction):
        for case, place in zip(cases, places):
            target = (SLOW if case.slow else COLLECTIVE).get(case.workload, {}).get(case.ranks)
            if target:
                value = target[DIRECTIONS.index(direction)]
                ends = (place - BAR_WIDTH / 2, place + BAR_WIDTH / 2)
                axis.plot(ends, (value, value), color="black", linewidth=2, solid_capstyle="butt")

    # ------------------------------------------------------------------------------- accesses ---

    def draw_accesses(self, name, cases, slow, ranks):
        for figure, axis, direction, own, is_first in self.panels(cases, 4.2, 5.8):
            self.draw_curves(axis, own, direction)
            if is_first:
                axis.set_ylabel(f"{direction}: GB/s")
            if direction == DIRECTIONS[-1]:
                axis.set_xlabel("accesses a rank")
        megabytes = max(self.results.bytes(case, "read") for case in cases) / 1e6
        where = f"{ranks} ranks{', slow storage' if slow else ''}"
        caption = (
            f"The same {megabytes:.0f} MB in more and smaller pieces: bytes over the time from an agreed "
            "start to the last rank's end (open, set the view, access, close). Limit: one contiguous "
            f"pwrite or pread a rank. What would be slower than a {CAP}th of it is drawn there. "
        )
        file = f"accesses-{name}-{ranks}-ranks{'-slow' if slow else ''}"
        self.finish(
            figure, f"{name}: bandwidth by accesses, {where}", caption + self.medians(), file
        )

    def draw_curves(self, axis, cases, direction):
        cases = sorted(cases, key=lambda case: int(case.workload.partition(":")[2]))
        accesses = [int(case.workload.partition(":")[2]) for case in cases]
        sizes = [self.results.bytes(case, direction) / 1e9 for case in cases]
        limits = [self.results.limit(case, direction) for case in cases]
        rates = [size / limit for size, limit in zip(sizes, limits)]
        axis.plot(accesses, rates, color="black", linestyle="--", linewidth=1.2, label="limit")
        for key, (label, colour, marker) in LINES.items():
            seconds = [self.results.seconds(case, *key, direction) for case in cases]
            if all(map(math.isnan, seconds)):
                continue
            rates = [size / second for size, second in zip(sizes, seconds)]
            axis.plot(
                accesses,
                rates,
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.6,
                label=label,
            )
        axis.set_xscale("log", base=4)
        axis.set_yscale("log")
        axis.xaxis.set_major_locator(FixedLocator(accesses))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.tick_params(axis="x", labelsize=8, labelrotation=40)


def short(number):
    for unit, text in ((2**20, "Mi"), (2**10, "Ki")):
        if number >= unit:
            return f"{number / unit:g} {text}"
    return f"{number:g}"


def parse_arguments():
    description = __doc__.partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="bench/figures.py", description=description)
    add = parser.add_argument
    folder = ROOT / "build/bench"
    files = [folder / "results.json", folder / "full.json"]
    add(
        "--json",
        type=Path,
        action="append",
        metavar="FILE",
        help="of bench/run.py (results.json and full.json in build/bench, of those that are there)",
    )
    add(
        "--folder",
        type=Path,
        default=folder / "figures",
        help="for the figures (build/bench/figures)",
    )
    arguments = parser.parse_args()
    arguments.json = arguments.json or [file for file in files if file.exists()]
    return arguments


def main():
    arguments = parse_arguments()
    if not arguments.json:
        raise BenchError("nothing is measured yet   do it by: make bench")
    for file in arguments.json:
        if not file.exists():
            raise BenchError(f"there is no {file}")
        figures = Figures(file, arguments.folder)
        figures.draw_all()
        for path in figures.written:
            print(f"{path} ({path.stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"figures: {error}")
