"""STRIDIO_CHECK=1 names the ranks, calls and bytes of a race that is planted, and is silent about the mended program."""

import re
import unittest

from support import WHEELS, WheelsTest

# Each rank writes a block and then reads its neighbour's.
PROGRAM = """\
    import sys
    import numpy
    from mpi4py import MPI

    path, how = sys.argv[1:3]
    comm = MPI.COMM_WORLD
    file = MPI.File.Open(comm, path, MPI.MODE_RDWR | MPI.MODE_CREATE)
    if how == "atomic":
        file.Set_atomicity(True)
    block = numpy.full(1000, comm.rank, "u1")
    file.Write_at(1000 * comm.rank, block)
    if how == "synced":
        file.Sync()
        comm.Barrier()
        file.Sync()
    file.Read_at_all(1000 * ((comm.rank + 1) % comm.size), block)
    file.Close()
"""


class Check(WheelsTest):
    def setUp(self):
        super().setUp()
        self.program = self.script("race.py", PROGRAM)

    def conflicts(self, family, how, check="1", hints=""):
        done = self.run_stridio(*self.on_ranks(family, 3, self.program, self.folder / "data", how),
                                STRIDIO_CHECK=check, STRIDIO_HINTS=hints)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "conflict" in line]

    def test_a_race_is_named(self):
        for family in WHEELS:
            for hints in ("", "stridio_node_ranks=2", "stridio_layout=interval"):
                with self.subTest(family=family, hints=hints):
                    (self.folder / "data").unlink(missing_ok=True)
                    lines = self.conflicts(family, "races", hints=hints)
                    self.assertEqual(len(lines), 3, lines)
                    for reader in range(3):
                        writer = (reader + 1) % 3
                        sides = sorted([(writer, "writes", "MPI_File_write_at"), (reader, "reads", "MPI_File_read_at_all")])
                        named = ", ".join(rf"rank {rank} {does} them in {call}(_c)?" for rank, does, call in sides)
                        expected = rf"/data: conflict in bytes {1000 * writer} to {1000 * writer + 999}: {named}, and no MPI_File_sync is"
                        self.assertEqual(sum(bool(re.search(expected, line)) for line in lines), 1, lines)

    def test_the_mended_program_is_not_blamed(self):
        for how in ("synced", "atomic"):
            self.assertEqual(self.conflicts("mpich", how), [])
        self.assertEqual(self.conflicts("mpich", "races", check="0"), [])


if __name__ == "__main__":
    unittest.main()
