"""What is measured together: the target table (`make bench`), and all there is (`make bench-full`)."""

import re
from dataclasses import dataclass

from launch import ROOT, BenchError
from targets import COLLECTIVE, SLOW, SLOW_WRITES

HINTS = ROOT / "docs/hints.md"  # made from the one table in src/file/hints.cc
PLAIN = ("collective", "independent")
OPEN = "open"  # open and close alone

# What a method needs beside its name: Stridio sieves writes only where all writers lock.
NEEDS = {"sieve": ":romio_ds_write=enable"}

ACCESSES = tuple(4**power for power in range(2, 11))  # a rank's, of 128 MiB
ROWS = tuple(8**power for power in range(2, 7))

# No choice: what a list of one range is called.
NO_CHOICE = ("direct",)

# Slow storage takes minutes for what is finer than these.
FULL_SLOW = ("contiguous", "ior", "ior_strided", "block2d", "dist3d", "tile", "btio", "cyclic4k")
FULL_SLOW += ("unstruc", "flash", "flash_calls", "flash_plot")


@dataclass(frozen=True)
class Part:
    """Workloads (NAME, or NAME:EXTRA with the second parameter) that are measured alike."""

    workloads: tuple
    ranks: tuple
    methods: tuple
    slow: bool = False


def forced():
    """Collective calls with each of Stridio's methods forced."""
    found = re.search(r"`stridio_method` \| ([\w, ]+) \|", HINTS.read_text())
    if not found:
        raise BenchError(f"{HINTS} does not say what stridio_method may be")
    names = [name for name in found[1].split(", ") if name not in NO_CHOICE]
    return tuple(f"collective:{name}{NEEDS.get(name, '')}" for name in names)


def is_for(side, method):
    """Hints without KEY= are values of stridio_method, which stock MPI-IO does not have."""
    return side == "stridio" or all("=" in hint for hint in method.split(":")[1:])


def is_of(direction, method):
    """Reads with hints that only writes take are reads without any."""
    hints = method.split(":")[1:]
    of_writes = bool(hints) and all(hint.startswith("romio_ds_write=") for hint in hints)
    return direction == "write" or not of_writes


def target(known):
    fast = tuple(COLLECTIVE)
    return (
        Part(fast, (2, 4), (*PLAIN, OPEN)),
        Part(tuple(SLOW), (4,), (*PLAIN, SLOW_WRITES, OPEN), slow=True),
    )


def full(known):
    cyclic = tuple(f"cyclic:{accesses}" for accesses in ACCESSES)
    rows = tuple(f"block2d:{rows}" for rows in ROWS)
    everything = (*PLAIN, "pieces", *forced(), OPEN)
    return (
        Part(tuple(known), (2, 4), everything),
        Part(cyclic, (2, 4), (*PLAIN, "pieces")),
        Part(rows, (4,), PLAIN),
        Part(FULL_SLOW, (4,), (*PLAIN, SLOW_WRITES, *forced(), OPEN), slow=True),
        Part(tuple(known), (1,), everything),
    )
