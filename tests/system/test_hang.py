"""A collective call that some ranks do not come to names them, and goes on when they come."""

import re
import unittest

from support import WHEELS, WheelsTest

WHY = "not in the call yet, or held up by their storage"

PROGRAM = """\
    import os, sys, time
    import numpy
    from mpi4py import MPI

    path, where = sys.argv[1:3]
    comm = MPI.COMM_WORLD
    late = comm.rank in (1, 3)

    def come(place):
        if late and where == place:
            time.sleep(2.5)

    comm.Barrier()
    come("open")
    file = MPI.File.Open(comm, path, MPI.MODE_RDWR | MPI.MODE_CREATE)
    come("write")
    file.Write_at_all(comm.rank, b"0123"[comm.rank : comm.rank + 1])
    file.Sync()
    comm.Barrier()
    come("iread")
    buffer = bytearray(4)
    request = file.Iread_at_all(0, buffer)
    if where == "iread" and not late:
        time.sleep(2.5)
    request.Wait()
    come("close")
    file.Close()
    assert buffer == b"0123", buffer
"""


class Hang(WheelsTest):
    def setUp(self):
        super().setUp()
        self.program = self.script("late.py", PROGRAM)

    def complaints(self, family, where, seconds="0.8", hints=""):
        done = self.run_stridio(*self.on_ranks(family, 4, self.program, self.folder / "data", where),
                                STRIDIO_HANG_SECONDS=seconds, STRIDIO_HINTS=hints)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "waited" in line]

    def test_the_missing_ranks_are_named_once(self):
        calls = {"write": "MPI_File_write_at_all", "iread": "MPI_File_iread_at_all", "close": "MPI_File_close"}
        for family in WHEELS:
            for where, call in calls.items():
                with self.subTest(family=family, where=where):
                    lines = self.complaints(family, where)
                    self.assertEqual(len(lines), 1, lines)
                    expected = rf"rank [02] of 4 has waited 0.8 s in {call}(_c)? of .*/data: ranks 1 and 3 are missing: {WHY}$"
                    self.assertRegex(lines[0], expected)

    def test_where_no_memory_is_shared_yet_those_that_wait_say_so(self):
        for family in WHEELS:
            with self.subTest(family=family):
                lines = self.complaints(family, "open")
                self.assertTrue(all("MPI_File_open of" in line for line in lines), lines)
                self.assertEqual(sorted(re.search(r"rank (\d) of 4", line)[1] for line in lines), ["0", "2"])

    def test_across_nodes_too(self):
        for family in WHEELS:
            with self.subTest(family=family):
                lines = self.complaints(family, "write", hints="stridio_node_ranks=2")
                self.assertEqual({re.search(r"rank (\d) of 4", line)[1] for line in lines}, {"0", "2"}, lines)
                for line in lines:
                    self.assertRegex(line, f"(: rank [13] is missing: {WHY}|those that do not are missing)$")

    def test_across_nodes_of_one_rank_each_says_for_whom_it_waits(self):
        for family in WHEELS:
            with self.subTest(family=family):
                lines = self.complaints(family, "write", hints="stridio_node_ranks=1")
                found = {re.search(r"rank (\d) of 4 .* for ranks? ([\d, and]*);", line).groups() for line in lines}
                self.assertEqual({rank for rank, _ in found}, {"0", "2"}, lines)
                self.assertEqual({word for _, whom in found for word in re.findall(r"\d", whom)}, {"1", "3"}, lines)

    def test_nothing_is_said_in_time_or_where_nobody_wants_it(self):
        self.assertEqual(self.complaints("mpich", "write", seconds="20"), [])
        self.assertEqual(self.complaints("mpich", "write", seconds="0"), [])


if __name__ == "__main__":
    unittest.main()
