"""Runs mpi4py's own tests of files on every rank, and records how each test ended in FOLDER/RANK.

  recorded.py MPI4PYS-TESTS FOLDER
"""
import os
import runpy
import sys
import unittest

from mpi4py import MPI

TESTS, FOLDER = sys.argv[1:]


class RecordedResult(unittest.TextTestResult):
    """A line a test, written when it ends: tests after a crash are missing."""

    file = open(os.path.join(FOLDER, str(MPI.COMM_WORLD.rank)), "w", buffering=1)

    def startTest(self, test):
        super().startTest(test)
        self.before = len(self.failures) + len(self.errors), len(self.skipped)

    def stopTest(self, test):
        failed, skipped = len(self.failures) + len(self.errors), len(self.skipped)
        verdict = "failed" if failed > self.before[0] else "skipped" if skipped > self.before[1] else "passed"
        self.file.write(f"{test.id()} {verdict}\n")
        super().stopTest(test)


if __name__ == "__main__":
    unittest.TextTestRunner.resultclass = RecordedResult
    sys.path.insert(0, TESTS)
    sys.dont_write_bytecode = True
    sys.argv = ["main.py", "--no-skip-mpi", "-i", "test_io", "-i", "test_file"]
    runpy.run_path(os.path.join(TESTS, "main.py"), run_name="__main__")
