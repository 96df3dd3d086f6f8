"""Tests of the driver's judgement: what counts as run, passed and missed, and that nothing hangs."""

import re
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import run


def row(mpi, tests):
    """`tests`: name to the verdicts on stock and Stridio, by their first letters; m: none."""
    words = {"p": run.PASSED, "f": run.FAILED, "s": run.SKIPPED}
    sides = {
        side: {"seconds": 1, "tests": {name: words[pair[i]] for name, pair in tests.items() if pair[i] in words}}
        for i, side in enumerate(run.SIDES)
    }
    return {"suite": "hdf5", "mpi": mpi, "label": mpi, "ranks": 2, "results": {"program": sides}}


class Table(unittest.TestCase):
    def test_counts(self):
        lines = run.table([row("a", {"1": "pp", "2": "pf", "3": "fp", "4": "ss", "5": "mp"})])
        self.assertEqual("| HDF5 testpar | a | 2 | 4 | 2 | 3 | 1 |", lines[2])
        self.assertEqual("| all | | | 4 | 2 | 3 | 1 |", lines[3])

    def test_failures_tell_those_of_the_time_limit(self):
        late = row("a", {"1": "pf"})
        self.assertEqual(["- HDF5 testpar, a, 2 ranks: `1`"], list(run.failures([late], "stridio")))
        late["results"]["program"]["stridio"]["seconds"] = run.LIMIT_SECONDS
        self.assertEqual(
            ["- HDF5 testpar, a, 2 ranks: `1` (no end after 600 s)"], list(run.failures([late], "stridio"))
        )

    def test_nothing_is_missed_where_both_agree(self):
        self.assertEqual([], list(run.missed([row("a", {"1": "pp", "2": "ff", "3": "fp", "4": "ss", "5": "mf"})])))

    def test_what_does_not_pass_is_missed(self):
        rows = [row("a", {"1": "pf", "2": "pm", "3": "ps", "4": "pp"})]
        self.assertEqual(3, len(list(run.missed(rows))))

    def test_what_another_stock_passes_is_missed(self):
        rows = [row("a", {"1": "ff"}), row("b", {"1": "pp"})]
        self.assertEqual(["HDF5 testpar, a, 2 ranks: 1"], list(run.missed(rows)))

    def test_a_refusal_that_was_lost_is_asked_for_again(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = "test -e here && echo Need at least 3 processes.; touch here; exit 3"
            self.assertTrue(run.refuses(["sh", "-c", words], folder, folder / "log"))
            self.assertFalse(run.refuses(["sh", "-c", "exit 3"], folder, folder / "log"))

    def test_a_test_fails_with_one_rank_or_without_it(self):
        self.assertEqual(run.PASSED, run.verdict_of_ranks([run.PASSED, run.SKIPPED], 2))
        self.assertEqual(run.SKIPPED, run.verdict_of_ranks([run.SKIPPED, run.SKIPPED], 2))
        self.assertEqual(run.FAILED, run.verdict_of_ranks([run.PASSED, run.FAILED], 2))
        self.assertEqual(run.FAILED, run.verdict_of_ranks([run.PASSED], 2))

    def test_a_program_that_wants_more_ranks_is_skipped(self):
        self.assertEqual(run.SKIPPED, run.verdict_of_program(3, "=====\n    Need at least 3 processes.  Exiting.\n"))
        self.assertEqual(run.FAILED, run.verdict_of_program(3, "Need at least\n"))
        self.assertEqual(run.PASSED, run.verdict_of_program(0, ""))


class Documents(unittest.TestCase):
    def test_readme_says_the_totals_of_the_table(self):
        total = re.search(r"^\| all \|.*", (run.ROOT / "docs/conformance.md").read_text(), re.MULTILINE)[0]
        ran, stock, ours = re.findall(r"\d+", total)[:3]
        readme = " ".join((run.ROOT / "README.md").read_text().split())
        self.assertIn(f"of {ran} tests and programs stock MPI-IO passes {stock}, Stridio {ours};", readme)


class Limit(unittest.TestCase):
    def run_program(self, text):
        with tempfile.TemporaryDirectory() as folder:
            return run.run_limited([sys.executable, "-c", text], folder, Path(folder) / "log")

    def test_status(self):
        self.assertEqual(0, self.run_program("pass"))
        self.assertEqual(3, self.run_program("raise SystemExit(3)"))

    def test_endless_program_fails_in_time(self):
        began = time.monotonic()
        with mock.patch.object(run, "LIMIT_SECONDS", 0.5):
            self.assertNotEqual(0, self.run_program("import time; time.sleep(1000)"))
        self.assertLess(time.monotonic() - began, 30)


if __name__ == "__main__":
    unittest.main()
