"""What the tests of the command share: an installation of its own, and launchers that are none."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import unittest

COMMAND = pathlib.Path(os.environ["STRIDIO_TEST_COMMAND"])
MARKER = pathlib.Path(os.environ["STRIDIO_TEST_MARKER"])
WHERE = os.environ["STRIDIO_TEST_WHERE"]
SHIM = os.environ["STRIDIO_TEST_SHIM"]
FAKES = pathlib.Path(os.environ["STRIDIO_TEST_FAKES"])
VENV = pathlib.Path(os.environ["STRIDIO_TEST_VENV"])
BUILT = "STRIDIO_TEST_BUILT" in os.environ
WHEELS = [family for family in ("mpich", "ompi") if (VENV / family / "bin/python").exists()]

HYDRA = "HYDRA build details:\n    Version:   4.1.2\n"
OPEN_MPI = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
INTEL = "Intel(R) MPI Library for Linux* OS, Version 2021.9\n"

# A launcher of MPICH's kind, for one rank: sets what -genv says for the program, and becomes it.
FAKE_HYDRA = """\
    import os, sys
    arguments = sys.argv[1:]
    while arguments and arguments[0].startswith("-"):
        if arguments[0] == "-genv":
            os.environ[arguments[1]] = arguments[2]
            del arguments[:3]
        else:
            del arguments[:2]
    os.execvp(arguments[0], arguments)
"""


def environment(**changes):
    """This process's environment without what a developer may have set, and with `changes`."""
    result = {name: value for name, value in os.environ.items()
              if name not in ("LD_PRELOAD", "STRIDIO_PRELOAD_EXTRA", "STRIDIO_REPORT_DIR")}
    result.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                  OMPI_MCA_rmaps_base_oversubscribe="1")
    result.update(changes)
    return result


class CommandTest(unittest.TestCase):
    """A fresh folder with an installation of the command; its libraries are markers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stridio-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.stridio = self.install(self.folder / "stridio")

    def install(self, prefix):
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").mkdir()
        shutil.copy(COMMAND, prefix / "bin" / "stridio")
        for family in ("mpich", "ompi", "abi"):
            shutil.copy(MARKER, prefix / "lib" / f"libstridio-{family}.so")
        return prefix / "bin" / "stridio"

    def library(self, family):
        return str(self.folder / "stridio" / "lib" / f"libstridio-{family}.so")

    def script(self, path, text, interpreter="/usr/bin/env python3"):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{interpreter}\n{textwrap.dedent(text)}")
        path.chmod(0o755)
        return path

    def file(self, path):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def launcher(self, path, version=None):
        """A launcher that only answers --version; without an answer, one that must not be asked."""
        text = f"print({version!r}, end='')" if version is not None else "raise SystemExit('asked')"
        return self.script(path, text)

    def hydra(self, prefix="mpich"):
        """A working launcher for one rank, with a libmpi that can be preloaded."""
        library = self.folder / prefix / "lib" / "libmpi.so.12"
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(MARKER, library)
        return self.script(f"{prefix}/bin/mpiexec.hydra", FAKE_HYDRA)

    def run_stridio(self, *arguments, stridio=None, timeout=120, **changes):
        return subprocess.run([stridio or self.stridio, *map(str, arguments)], timeout=timeout,
                              capture_output=True, text=True, cwd=self.folder,
                              env=environment(**changes))

    def start_stridio(self, *arguments):
        """A process that ends with the test at the latest."""
        process = subprocess.Popen([self.stridio, *map(str, arguments)], env=environment(), cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)

    def dry_run(self, *command, options=(), **changes):
        """The arguments that would run, the program's file first."""
        done = self.run_stridio("run", "--dry-run", *options, "--", *command, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def refused(self, *command, options=(), status=125, **changes):
        """What it says when it does not run the command."""
        done = self.run_stridio("run", *options, "--", *command, **changes)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr


@unittest.skipUnless(BUILT and len(WHEELS) == 2, "needs the libraries and both MPIs' wheels")
class WheelsTest(CommandTest):
    """The built command, and programs of mpi4py on the wheels' MPIs."""

    def setUp(self):
        super().setUp()
        self.stridio = COMMAND

    @staticmethod
    def on_ranks(family, ranks, program, *arguments, options=()):
        """What follows `stridio` to run a Python program."""
        return ["run", *options, "--", VENV / family / "bin/mpiexec", "-n", ranks, VENV / family / "bin/python", program,
                *arguments]


def ranks_of(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
