"""A checkpoint that is replaced whole, by hints in the environment of an unmodified program, also when it is killed."""

import re
import unittest

from support import WHEELS, WheelsTest

SIZE = 1 << 20

CHECKPOINT = f"""\
    import os, signal, sys
    import numpy
    from mpi4py import MPI

    path, letter, what = sys.argv[1:4]
    comm = MPI.COMM_WORLD
    info = MPI.Info.Create()
    if what == "direct":
        info["stridio_commit"] = "direct"
    file = MPI.File.Open(comm, path, MPI.MODE_WRONLY | MPI.MODE_CREATE, info)
    sys.stdout.write(file.Get_info()["stridio_commit"] + "\\n")
    block = numpy.full({SIZE}, ord(letter), "u1")
    if what == "dies" and comm.rank == comm.size - 1:
        file.Write_at(comm.rank * {SIZE}, block[: {SIZE} // 2])
        file.Sync() if comm.size == 1 else None
        os.kill(os.getpid(), signal.SIGKILL)
    file.Write_at_all(comm.rank * {SIZE}, block)
    file.Close()
"""


class Commit(WheelsTest):
    def setUp(self):
        super().setUp()
        self.program = self.script("checkpoint.py", CHECKPOINT)
        self.path = self.folder / "state" / "checkpoint"
        self.path.parent.mkdir()

    def checkpoint(self, family, ranks, letter, what="lives"):
        return self.run_stridio(*self.on_ranks(family, ranks, self.program, self.path, letter, what),
                                STRIDIO_HINTS="stridio_commit=atomic")

    def assert_letters(self, letter, ranks):
        self.assertEqual(self.path.read_bytes(), letter.encode() * SIZE * ranks)

    def test_a_killed_job_leaves_the_file_as_it_was(self):
        for family in WHEELS:
            for ranks in (1, 4):
                with self.subTest(family=family, ranks=ranks):
                    self.path.unlink(missing_ok=True)
                    self.assertNotEqual(self.checkpoint(family, ranks, "x", "dies").returncode, 0)
                    self.assertFalse(self.path.exists())
                    done = self.checkpoint(family, ranks, "a")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout, "atomic\n" * ranks)
                    self.assertNotEqual(self.checkpoint(family, ranks, "b", "dies").returncode, 0)
                    self.assert_letters("a", ranks)
                    self.assertEqual(self.checkpoint(family, ranks, "c").returncode, 0)
                    self.assert_letters("c", ranks)
                    self.assertEqual([each.name for each in self.path.parent.iterdir()], ["checkpoint"])

    def test_hints_of_romios_users_are_in_force_and_printed(self):
        lines = self.folder / "romio-hints"
        lines.write_text("# of the site\ncb_nodes 3\nstridio_commit atomic\nstriping_factor 8\n")
        for family in WHEELS:
            done = self.run_stridio(*self.on_ranks(family, 2, self.program, self.path, "a", "lives",
                                                   options=("--report", self.folder / "report.json")),
                                    ROMIO_HINTS=str(lines), ROMIO_PRINT_HINTS="1", STRIDIO_HINTS="cb_nodes=2")
            self.assertEqual(done.returncode, 0, done.stderr)
            printed = dict(re.findall(r"^key = (\S+) +value = (\S*) *$", done.stdout, re.M))
            for name, value in {"cb_nodes": "2", "stridio_commit": "atomic", "striping_factor": "8",
                                "romio_visibility_immediate": "true", "romio_cb_write": "automatic"}.items():
                self.assertEqual(printed.get(name), value, done.stdout)
            self.assertEqual(done.stdout.count("key = cb_nodes "), 1)

    def test_what_the_program_says_goes_before(self):
        done = self.checkpoint("mpich", 2, "d", "direct")
        self.assertEqual((done.returncode, done.stdout), (0, "direct\n" * 2), done.stderr)


if __name__ == "__main__":
    unittest.main()
