"""Interval files from end to end: an unmodified program writes one, any other reads it, the tools and a reader made
from the format's description (python/stridio, which has no line in common with the C++ code) agree on what it holds."""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from stridio import IntervalFile
from stridio.format import crc32c
from support import VENV, WHEELS, WheelsTest, environment

HERE = pathlib.Path(__file__).resolve().parent

# Rank by rank in turn, blocks of 1000 bytes; then a hole, and a tail that the last rank writes.
PROGRAM = """\
    import sys
    from mpi4py import MPI
    comm, path, mode = MPI.COMM_WORLD, sys.argv[1], sys.argv[2]
    block, turns, writers, hole, tail = 1000, 40, int(sys.argv[3]), 5000, 777
    body = bytes(i * 7919 // 13 % 251 for i in range(block * turns * writers))
    whole = body + bytes(hole) + body[:tail]
    if mode == "write":
        file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
        own = MPI.BYTE.Create_contiguous(block).Create_resized(0, block * comm.size).Commit()
        file.Set_view(block * comm.rank, MPI.BYTE, own)
        mine = b"".join(body[at:at + block] for at in range(block * comm.rank, len(body), block * comm.size))
        file.Write_all(mine)
        file.Set_view(0)
        if comm.rank == comm.size - 1:
            file.Write_at(len(body) + hole, body[:tail])
        file.Close()
    else:
        file = MPI.File.Open(comm, path, MPI.MODE_RDONLY)
        share = (len(whole) + comm.size - 1) // comm.size
        mine = bytearray(len(whole[comm.rank * share:][:share]))
        file.Read_at_all(comm.rank * share, mine)
        assert mine == whole[comm.rank * share:][:share]
        file.Close()
        if comm.rank == 0 and len(sys.argv) > 4:
            open(sys.argv[4], "wb").write(whole)
"""


class IntervalFiles(WheelsTest):
    def setUp(self):
        super().setUp()
        self.program = self.script("program.py", PROGRAM)
        self.path = self.folder / "file"

    def ranks(self, family, ranks, *arguments):
        done = self.run_stridio(*self.on_ranks(family, ranks, self.program, *arguments))
        self.assertEqual(done.returncode, 0, done.stderr)

    def read_in_python(self, path):
        with IntervalFile(open(path, "rb")) as file:
            return file.read()

    def write(self, family="mpich", writers=3):
        self.ranks(family, writers, f"interval:{self.path}", "write", writers)
        self.ranks(family, 1, self.path, "read", writers, self.folder / "expected")
        return (self.folder / "expected").read_bytes()

    def succeed(self, *arguments):
        done = self.run_stridio(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_written_read_and_flattened(self):
        for family in WHEELS:
            for writers, readers in ((3, 2), (1, 4)):
                with self.subTest(family=family, writers=writers):
                    self.path.unlink(missing_ok=True)
                    expected = self.write(family, writers)
                    self.ranks(family, readers, self.path, "read", writers)
                    self.assertEqual(self.read_in_python(self.path), expected)
                    self.assertEqual(self.succeed("check", self.path), f"{self.path}: whole\n")
                    self.succeed("flatten", self.path, self.folder / "flat")
                    self.assertEqual((self.folder / "flat").read_bytes(), expected)
                    facts = json.loads(self.succeed("info", "--json", self.path))
                    self.assertEqual((facts["size"], facts["bytes"], facts["processes"]),
                                     (len(expected), len(expected) - 5000, writers))
                    self.assertIn(f"{len(expected)} bytes", self.succeed("info", self.path))
        self.assertEqual([p.name for p in self.folder.iterdir() if "partial" in p.name], [])

    def test_damage_is_told(self):
        self.write()
        facts = json.loads(self.succeed("info", "--json", self.path))
        data = bytearray(self.path.read_bytes())
        data[200_000] ^= 4  # of the first chunk, which some rank has filled
        self.path.write_bytes(data)
        check = self.run_stridio("check", self.path)
        self.assertEqual(check.returncode, 1)
        self.assertIn("wrong checksum", check.stdout)
        flatten = self.run_stridio("flatten", self.path, self.folder / "flat")
        self.assertEqual(flatten.returncode, 125)
        self.assertIn("wrong checksum", flatten.stderr)
        self.assertFalse((self.folder / "flat").exists())
        self.path.write_bytes(data[:facts["size"] // 2])
        check = self.run_stridio("check", self.path)
        self.assertEqual(check.returncode, 1)
        self.assertIn("truncated", check.stdout)
        self.assertIn("of process 2", check.stdout)

    def test_what_is_written_is_told(self):
        views, flat, stored = self.folder / "views.json", self.folder / "flat", self.folder / "stored"
        views.write_text('{"views": [{"regions": [[0, 1]]}]}')
        for size, text in ((0, "size      0 bytes\n"), (4000, "size      4000 bytes, all of them written\n")):
            flat.write_bytes(bytes(size))
            self.succeed("translate", flat, stored, "--view", views)
            self.assertIn(text, self.succeed("info", stored))
        self.write()
        self.assertIn("size      125777 bytes, 120777 of them written, the others zeros\n", self.succeed("info", self.path))

    # As a later version of the format may be: its sums are right.
    def test_another_version_is_not_damage(self):
        self.write()
        data = bytearray(self.path.read_bytes())
        for at in range(0, 5 * 32768, 32768):
            if data[at:at + 4] == b"\x89SIF":
                data[at + 8] += 1
                data[at + 60:at + 64] = crc32c(bytes(data[at:at + 60])).to_bytes(4, "little")
        self.path.write_bytes(data)
        for command in (["check"], ["info"]):
            done = self.run_stridio(*command, self.path)
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertIn("has format version", done.stderr)

    # Each at a random moment of many commits, one rank, which the launcher sees, or all. STRIDIO_KILLS: how many.
    def test_killed_programs_leave_their_last_commit(self):
        ranks, bytes_of_file = 3, 3 * 500 * 40
        seed = int(os.environ.get("STRIDIO_SEED", random.randrange(1 << 30)))
        print(f"STRIDIO_SEED={seed}", file=sys.stderr)
        draw = random.Random(seed)
        for family in WHEELS:
            subprocess.run([VENV / family / "bin/mpicc", "-O1", HERE / "endless.c", "-o", self.folder / family],
                           check=True, capture_output=True)
        commits = []
        for kill in range(int(os.environ.get("STRIDIO_KILLS", 50))):
            family = WHEELS[kill % len(WHEELS)]
            with self.subTest(kill=kill, family=family, seed=seed):
                folder = self.folder / f"kill-{kill}"
                folder.mkdir()
                path, progress = folder / "file", folder / "progress"
                with subprocess.Popen(
                        [self.stridio, "run", "--", VENV / family / "bin/mpiexec", "-n", str(ranks), self.folder / family,
                         f"interval:{path}", folder],
                        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                    deadline = time.monotonic() + 60
                    while not (progress.exists() and progress.read_text().count("\n") >= 3):
                        self.assertLess(time.monotonic(), deadline, "the program does not start")
                        time.sleep(0.01)
                    time.sleep(draw.uniform(0, 0.2))
                    one, all_of_them = draw.randrange(ranks), draw.randrange(2)
                    for rank in range(ranks):
                        if all_of_them or rank == one:
                            with contextlib.suppress(ProcessLookupError):  # the launcher was faster
                                os.kill(int((folder / f"pid-{rank}").read_text()), signal.SIGKILL)
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)
                last = int(progress.read_text().splitlines()[-1])
                commits.append(last)
                self.succeed("check", path)
                flat = self.read_in_python(path)
                self.assertEqual(len(flat), bytes_of_file)
                self.assertEqual(flat, flat[:1] * bytes_of_file)
                self.assertIn(flat[0], (last % 251, (last + 1) % 251))
        print(f"{len(commits)} killed, after {min(commits)} to {max(commits)} commits", file=sys.stderr)

    def test_other_files_are_refused(self):
        flat = self.file("other")
        for command in (["info", flat], ["check", flat], ["flatten", flat, self.folder / "flat"]):
            done = self.run_stridio(*command)
            self.assertEqual(done.returncode, 125)
            self.assertIn("not an interval file", done.stderr)
        done = self.run_stridio("check", self.folder / "missing")
        self.assertEqual(done.returncode, 125)
        self.assertIn("No such file", done.stderr)
