"""Two jobs, of different MPIs, share a file: tiles are written and read with their surroundings, frame by frame."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from support import VENV, WheelsTest, environment

FRAMES = pathlib.Path(__file__).resolve().parents[2] / "examples/frames.py"


class Frames(WheelsTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "frames"

    def start_frames(self, family, ranks, action, *options):
        return self.start_stridio(*self.on_ranks(family, ranks, FRAMES, action, self.path, *options))

    def start_reader(self, family, ranks, *options):
        process = self.start_frames(family, ranks, "read", *options)
        self.assertEqual(process.stdout.readline(), "waiting for frames\n")
        return process

    def finish(self, process, status=0):
        output, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, status, output + errors)
        return output, errors

    def summary(self, output):
        found = re.search(r"read (\d+) frames, the last is (\d+): (\d+) bytes checked", output)
        self.assertTrue(found, output)
        return tuple(map(int, found.groups()))

    def test_help_needs_no_packages(self):
        for words, status, said in ((["--help"], 0, "FILE must be new"), (["read", "x"], 1, "--help says which Python")):
            done = subprocess.run([sys.executable, "-S", "-I", FRAMES, *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stdout + done.stderr)

    def test_what_goes_wrong_is_said_once(self):
        for family in ("mpich", "ompi"):
            with self.subTest(family=family):
                self.path.write_text("old")
                _, errors = self.finish(self.start_frames(family, 3, "write"), status=1)
                self.assertEqual(errors.count("frames: "), 1, errors)
                self.assertIn(f"{self.path} cannot be made: it must be new", errors)
                self.assertNotIn("Traceback", errors)
                self.assertEqual(self.path.read_text(), "old")
                self.path.write_bytes(bytes(600 * 800 * 4))
                other = self.folder / "other"
                for action, path in (("write", "other"), ("write", other), ("read", self.path)):
                    done = subprocess.run([VENV / family / "bin/mpiexec", "-n", "3", VENV / family / "bin/python", FRAMES,
                                           action, path], capture_output=True, text=True, env=environment(), timeout=60,
                                          cwd=self.folder)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(done.stderr.count("run it as `stridio run -- mpiexec ...`"), 1, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)
                    self.assertEqual([p.name for p in self.folder.iterdir() if "other" in p.name], [])

    def test_readers_of_the_other_mpi_see_whole_frames(self):
        for writer, reader in (("mpich", "ompi"), ("ompi", "mpich")):
            for pause in (0.05, 0):  # as they come; as fast as they can be written
                with self.subTest(writer=writer, reader=reader, pause=pause):
                    self.path.unlink(missing_ok=True)
                    reading = self.start_reader(reader, 3, "--frames", 20, "--ghost", 3)
                    writing = self.start_frames(writer, 4, "write", "--frames", 20, "--pause", pause)
                    self.finish(writing)
                    frames, last, checked = self.summary(self.finish(reading)[0])
                    self.assertEqual(last, 20)
                    self.assertGreaterEqual(frames, 3 if pause else 1)
                    self.assertGreater(checked, frames * 600 * 800 * 4)  # ghost cells are read twice

    def test_a_slow_reader_misses_frames_and_holds_nobody_up(self):
        reading = self.start_reader("mpich", 2, "--frames", 30, "--pause", 1)
        writing = self.start_frames("ompi", 2, "write", "--frames", 30, "--pause", 0.05)
        self.finish(writing)
        frames, last, _ = self.summary(self.finish(reading)[0])
        self.assertEqual(last, 30)
        self.assertLess(frames, 30)

    def test_a_killed_writer_ends_the_reader_in_time_with_the_last_whole_frame(self):
        for writer, reader in (("mpich", "ompi"), ("ompi", "mpich")):
            with self.subTest(writer=writer, reader=reader):
                self.path.unlink(missing_ok=True)
                reading = self.start_reader(reader, 2, "--frames", 100000, "--timeout", 10)
                writing = self.start_frames(writer, 3, "write", "--frames", 100000)
                last = 0
                while last < 10:
                    last = int(writing.stdout.readline().split()[-1])
                time.sleep(random.uniform(0, 0.1))
                ranks = self.ranks_of(writing.pid)
                self.assertEqual(len(ranks), 3)
                os.kill(random.choice(ranks), signal.SIGKILL)
                killed = time.monotonic()
                output, _ = writing.communicate(timeout=60)
                for number in re.findall(r"^wrote frame (\d+)$", output, re.M):  # the launcher tells of the kill, too
                    last = int(number)
                output, errors = self.finish(reading, status=1)
                self.assertLess(time.monotonic() - killed, 60)
                _, seen, _ = self.summary(output)
                self.assertIn(seen, (last, last + 1))  # the last may have been committed, and not told any more
                self.assertIn(f"nothing after frame {seen}", errors)
                self.assertIn(f"no generation newer than {seen + 1}", errors)
                self.assertIn("nobody has it open for writing; asked for by the hints stridio_wait_generation", errors)

    @staticmethod
    def ranks_of(pid):
        """The programs below a launcher: those of its descendants that run the example and have no children."""
        children, commands = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    commands[int(entry.name)] = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                children.setdefault(parent, []).append(int(entry.name))
        found, left = [], [pid]
        while left:
            each = left.pop()
            left += children.get(each, [])
            if each not in children and b"frames.py" in commands.get(each, b""):
                found.append(each)
        return found
