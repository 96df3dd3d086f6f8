"""Libraries above MPI-IO write interval files, unmodified: parallel HDF5 and PnetCDF. What they wrote is compared with what
they write to flat files, read by other numbers of ranks and by the formats' own tools."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import BUILT, COMMAND, CommandTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE, EXAMPLES = ROOT / "tests/system", ROOT / "examples"
HDF5 = {"mpich": "/usr/bin/h5pcc.mpich", "openmpi": "/usr/bin/h5pcc.openmpi"}
HDF5 = {mpi: compiler for mpi, compiler in HDF5.items() if os.path.exists(compiler)}
INTERVAL = "stridio_layout=interval"
SLACK = 384 << 10  # of a process: what a file may have beyond 2.5 times what is live


class LibraryTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="stridio-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.programs = pathlib.Path(folder.name)

    @classmethod
    def compile(cls, compiler, name, *sources, flags=()):
        subprocess.run([compiler, "-O1", *map(str, sources), "-o", cls.programs / name, *flags], check=True,
                       capture_output=True, cwd=cls.programs)

    def setUp(self):
        super().setUp()
        self.stridio = COMMAND
        self.path, self.flat, self.direct = (self.folder / name for name in ("file", "flat", "direct"))

    def succeed(self, *arguments, **variables):
        done = self.run_stridio(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def ranks(self, mpi, ranks, program, *arguments, **variables):
        """On Stridio; the variables are for the ranks, which inherit them."""
        launcher = [f"/usr/bin/mpiexec.{mpi}"] + (["--oversubscribe"] if mpi == "openmpi" else [])
        return self.succeed("run", "--", *launcher, "-n", ranks, self.programs / program, *arguments, **variables)

    def flatten(self):
        """Checked first; returns what is known of it."""
        self.assertEqual(self.succeed("check", self.path), f"{self.path}: whole\n")
        self.flat.unlink(missing_ok=True)
        self.succeed("flatten", self.path, self.flat)
        return json.loads(self.succeed("info", "--json", self.path))

    def dump(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


@unittest.skipUnless(BUILT and HDF5, "needs the libraries and parallel HDF5")
class ParallelHdf5(LibraryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for mpi, compiler in HDF5.items():
            cls.compile(compiler, f"flash.{mpi}", EXAMPLES / "flash.c", EXAMPLES / "flash_hdf5.c", flags=["-shlib"])
            cls.compile(compiler, f"groups.{mpi}", HERE / "hdf5_groups.c", flags=["-shlib"])

    def test_a_checkpoint_is_that_of_a_flat_file(self):
        for mpi in HDF5:
            self.direct.unlink(missing_ok=True)
            self.ranks(mpi, 3, f"flash.{mpi}", "write", self.direct)
            for name, variables in ((f"interval:{self.path}", {}), (self.path, {"STRIDIO_HINTS": INTERVAL})):
                with self.subTest(mpi=mpi, name=name):
                    self.path.unlink(missing_ok=True)
                    self.ranks(mpi, 3, f"flash.{mpi}", "write", name, **variables)
                    self.ranks(mpi, 2, f"flash.{mpi}", "read", self.path)
                    self.ranks(mpi, 4, f"flash.{mpi}", "read", f"interval:{self.path}")
                    self.flatten()
                    self.assertEqual(self.flat.read_bytes(), self.direct.read_bytes())
                    self.assertIn("(2,7,7,7): 1535\n",
                                  self.dump("h5dump", "-w", "1", "-m", "%g", "-d", "dens", "-c", "3,8,8,8", self.flat))

    # Metadata leave the cache, and come back from what other ranks wrote.
    def test_much_metadata(self):
        groups = 120
        for mpi in HDF5:
            for variables in ({}, {"SMALL_CACHE": "1"}):
                with self.subTest(mpi=mpi, **variables):
                    self.path.unlink(missing_ok=True)

                    def check(mode):
                        self.ranks(mpi, 2, f"groups.{mpi}", mode, self.path, groups, **variables)
                        facts = self.flatten()
                        self.ranks(mpi, 2, f"groups.{mpi}", mode, self.flat, groups)
                        self.assertLessEqual(self.path.stat().st_size, 2.5 * facts["bytes"] + 3 * SLACK)

                    self.ranks(mpi, 3, f"groups.{mpi}", "write", f"interval:{self.path}", groups, **variables)
                    check("read")
                    self.ranks(mpi, 3, f"groups.{mpi}", "update", self.path, groups, **variables)
                    check("reread")
                    self.assertIn("group119", self.dump("h5ls", self.flat))

    # Across nodes too, in atomic mode or where a hint says so.
    def test_much_metadata_across_nodes(self):
        groups, nodes = 30, "stridio_node_ranks=1"
        for mpi in HDF5:
            for variables in ({"STRIDIO_HINTS": nodes, "ATOMIC": "1"},
                              {"STRIDIO_HINTS": f"{nodes};stridio_visibility=immediate"}):
                with self.subTest(mpi=mpi, **variables):
                    self.path.unlink(missing_ok=True)
                    for mode, name in (("write", f"interval:{self.path}"), ("update", self.path)):
                        self.ranks(mpi, 3, f"groups.{mpi}", mode, name, groups, SMALL_CACHE="1", **variables)
                    self.ranks(mpi, 2, f"groups.{mpi}", "reread", self.path, groups)
                    self.flatten()
                    self.ranks(mpi, 2, f"groups.{mpi}", "reread", self.flat, groups)

    # H5Fflush is a commit: what comes behind it may be lost, what was before it is there.
    def test_flushed_is_committed(self):
        for mpi in HDF5:
            with self.subTest(mpi=mpi):
                self.path.unlink(missing_ok=True)
                done = self.run_stridio("run", "--", f"/usr/bin/mpiexec.{mpi}", *(["--oversubscribe"] * (mpi == "openmpi")),
                                        "-n", 3, self.programs / f"groups.{mpi}", "abandon", f"interval:{self.path}", 50)
                self.assertNotEqual(done.returncode, 0)
                self.flatten()
                self.ranks(mpi, 2, f"groups.{mpi}", "read", self.path, 50)
                self.ranks(mpi, 2, f"groups.{mpi}", "read", self.flat, 50)


@unittest.skipUnless(BUILT and os.path.exists("/usr/include/pnetcdf.h") and shutil.which("mpicc.openmpi"),
                     "needs the libraries and PnetCDF")
class Pnetcdf(LibraryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, sources in (("flash", [EXAMPLES / "flash.c", EXAMPLES / "flash_pnetcdf.c"]),
                              ("redef", [HERE / "pnetcdf_redef.c"])):
            cls.compile("mpicc.openmpi", name, *sources, flags=["-lpnetcdf"])

    def is_interval(self):
        return self.run_stridio("info", self.path).returncode == 0

    def test_a_checkpoint_is_that_of_a_flat_file(self):
        self.ranks("openmpi", 3, "flash", "write", self.direct)
        ways = ((self.path, {"PNETCDF_HINTS": INTERVAL}), (self.path, {"STRIDIO_HINTS": INTERVAL}),
                (f"interval:{self.path}", {}))
        for name, variables in ways:
            with self.subTest(name=name, **variables):
                self.path.unlink(missing_ok=True)
                self.ranks("openmpi", 3, "flash", "write", name, **variables)
                self.flatten()
                self.assertEqual(self.flat.read_bytes(), self.direct.read_bytes())
                self.ranks("openmpi", 2, "flash", "read", self.flat)
                self.assertIn(" 1535", self.dump("ncdump", "-v", "dens", self.flat))

    # It looks at a file by POSIX before it opens it by MPI-IO, and knows its own formats only.
    def test_an_interval_file_is_not_opened(self):
        self.ranks("openmpi", 3, "flash", "write", self.path, STRIDIO_HINTS=INTERVAL)
        done = self.run_stridio("run", "--", "/usr/bin/mpiexec.openmpi", "-n", 1, self.programs / "flash", "read", self.path)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Unknown file format", done.stderr)

    # NC_CLOBBER empties a file by POSIX: what it becomes, the hint says anew.
    def test_clobbered(self):
        self.ranks("openmpi", 3, "flash", "write", self.path, STRIDIO_HINTS=INTERVAL)
        self.assertTrue(self.is_interval())
        self.ranks("openmpi", 2, "flash", "write", self.path, STRIDIO_HINTS=INTERVAL)
        self.assertTrue(self.is_interval())
        self.flatten()
        self.ranks("openmpi", 3, "flash", "read", self.flat)
        self.ranks("openmpi", 2, "flash", "write", self.path)
        self.assertFalse(self.is_interval())
        self.ranks("openmpi", 3, "flash", "read", self.path)

    def test_data_that_the_library_moves(self):
        self.ranks("openmpi", 3, "redef", self.direct)
        for node_ranks in (0, 1):  # all on one node, each on its own
            with self.subTest(node_ranks=node_ranks):
                self.ranks("openmpi", 3, "redef", self.path,
                           PNETCDF_HINTS=f"{INTERVAL};stridio_node_ranks={node_ranks}")
                self.flatten()
                self.assertEqual(self.flat.read_bytes(), self.direct.read_bytes())
                self.assertIn("added3", self.dump("ncdump", "-h", self.flat))
