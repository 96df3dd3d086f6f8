"""Translation from end to end, against the flat bytes, by a reader of its own: files for other processes, by threads and
under both MPIs; targets that follow a running program; waiting for its generations."""

import json
import os
import pty
import random
import signal
import struct
import subprocess
import time
import unittest

from stridio import IntervalFile
from stridio.format import crc32c, decode_header
from support import BUILT, COMMAND, SHIM, VENV, WHEELS, CommandTest, WheelsTest, environment

PARTIAL = "stridio-partial"

# Commits frame after frame: all of the file at first, then a fiftieth of it in turn, and the frame's number in front.
WRITER = """\
    import sys, time
    from mpi4py import MPI
    comm, path, frames, pause = MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    block, turns = 1000, 100
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    own = MPI.BYTE.Create_contiguous(block).Create_resized(0, block * comm.size).Commit()
    for frame in range(1, frames + 1):
        file.Set_view(block * comm.rank, MPI.BYTE, own)
        if frame == 1:
            file.Write_at_all(0, bytes([1]) * (block * turns))
        else:
            file.Write_at_all(frame % 50 * 2 * block, bytes([frame]) * (2 * block))
        file.Set_view(0)
        if comm.rank == 0:
            file.Write_at(0, bytes([frame]))
        file.Sync()
        if comm.rank == 0:
            print(frame, flush=True)
        time.sleep(pause)
    file.Close()
"""
BLOCK, TURNS = 1000, 100


def frame_bytes(last, ranks):
    """What the writer's file holds after so many frames."""
    data = bytearray([1]) * (BLOCK * TURNS * ranks)
    for frame in range(2, last + 1):
        for turn in (frame % 50 * 2, frame % 50 * 2 + 1):
            at = turn * BLOCK * ranks
            data[at:at + BLOCK * ranks] = bytes([frame]) * (BLOCK * ranks)
    data[0] = last
    return bytes(data)


class Translations(CommandTest):
    def setUp(self):
        super().setUp()
        self.stridio = COMMAND
        self.seed = int(os.environ.get("STRIDIO_SEED", random.randrange(1 << 30)))
        self.draw = random.Random(self.seed)
        print(f"STRIDIO_SEED={self.seed}", flush=True)

    def succeed(self, *arguments, **changes):
        done = self.run_stridio(*arguments, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fail_with(self, text, *arguments, status=125):
        done = self.run_stridio(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)

    def flat(self, size):
        path = self.folder / "flat"
        path.write_bytes(self.draw.randbytes(size))
        return path

    def views(self, views, name="views.json"):
        path = self.folder / name
        path.write_text(json.dumps({"views": views}))
        return path

    def random_views(self, ranks):
        """Disjoint or not, covering or not."""
        views = []
        for rank in range(ranks):
            block = self.draw.randrange(1, 3000)
            views.append(self.draw.choice((
                {"displacement": 700 * rank, "extent": 700 * ranks, "regions": [[0, 700]]},
                {"displacement": block, "extent": 5000, "vector": [2, block // 3 + 1, 2000]},
                {"regions": [[block * 7, 50000], [block * 7 + 60000, block]], "extent": 1 << 30},
                {"subarray": {"sizes": [100, 90], "subsizes": [50, 30], "starts": [rank * 10, 30], "element": 8}})))
        return views

    @staticmethod
    def owners(views, size):
        owners = bytearray(size)
        for rank, view in enumerate(views):
            if "subarray" in view:
                box = view["subarray"]
                (rows, columns), (height, width), (top, left) = box["sizes"], box["subsizes"], box["starts"]
                regions = [[((top + row) * columns + left) * 8, width * 8] for row in range(height)]
                extent = rows * columns * 8
            elif "vector" in view:
                count, length, stride = view["vector"]
                regions, extent = [[i * stride, length] for i in range(count)], view["extent"]
            else:
                regions, extent = view["regions"], view["extent"]
            for tile in range(view.get("displacement", 0), size, extent):
                for offset, length in regions:
                    begin, end = min(tile + offset, size), min(tile + offset + length, size)
                    owners[begin:end] = bytes([rank]) * (end - begin)
        return owners

    def expect(self, path, data, owners=None):
        found = bytearray(b"\xff") * len(data)

        with IntervalFile(open(path, "rb")) as file:
            self.assertEqual(file.read(), data)
            for i, entry in enumerate(file.root.parts):
                groups = file._part(i).groups
                for place, length, count, stride in zip(groups.logical, groups.length, groups.count, groups.stride):
                    for at in range(place, place + max(1, count * stride), max(1, stride)):
                        found[at:at + length] = bytes([entry.process]) * length
        if owners is not None:
            self.assertEqual(found, owners)
        self.assertEqual(self.succeed("check", path).stdout, f"{path}: whole\n")
        self.assertEqual([p.name for p in self.folder.iterdir() if PARTIAL in p.name], [])

    def test_each_process_gets_its_view(self):
        for ranks, size in ((1, 70000), (3, 200001), (5, 150000)):
            views = self.random_views(ranks)
            with self.subTest(views=views, seed=self.seed):
                flat, first, second = self.flat(size), self.folder / "first", self.folder / "second"
                self.succeed("translate", flat, first, "--view", self.views(views))
                self.expect(first, flat.read_bytes(), self.owners(views, size))
                # From there to others, and like the first again.
                others = self.random_views(4)
                self.succeed("translate", first, second, "--threads", 3, "--view", self.views(others))
                self.expect(second, flat.read_bytes(), self.owners(others, size))
                self.succeed("translate", second, second.with_name("third"), "--like", first)
                self.expect(second.with_name("third"), flat.read_bytes(), self.owners(views, size))
                self.succeed("flatten", second, self.folder / "back", "--threads", 2)
                self.assertEqual((self.folder / "back").read_bytes(), flat.read_bytes())

    def test_what_no_view_has_is_not_lost_and_told(self):
        flat, target = self.flat(10000), self.folder / "target"
        done = self.succeed("translate", flat, target, "--view",
                            self.views([{"regions": [[0, 100]], "extent": 20000},
                                        {"regions": [[100, 4000]], "extent": 20000}]))
        self.assertIn("no view has 5900 bytes; process 0 gets them", done.stderr)
        self.expect(target, flat.read_bytes(), bytes(100) + b"\1" * 4000 + bytes(5900))

    def test_who_gets_all_by_repetition_is_told(self):
        flat, target, note = self.flat(10000), self.folder / "target", "process 1 gets all 10000 bytes"
        for views, noted in (([{"regions": [[0, 10]]}, {"regions": [[0, 10]]}], True),
                             ([{"regions": [[0, 10]]}, {"regions": [[10, 10]]}], False),  # it begins behind the other
                             ([{"regions": []}, {"regions": [[0, 10]]}], False),
                             ([{"regions": [[0, 5000]], "extent": 10000}, {"regions": [[5000, 5000]]}], False)):
            with self.subTest(views=views):
                done = self.succeed("translate", flat, target, "--view", self.views(views))
                self.assertEqual(done.stderr.count(note), noted, done.stderr)

    # What a root says was not seen by anybody: sums are right in a forged one, too.
    def test_a_file_of_too_many_processes_is_no_model(self):
        flat, model = self.flat(1000), self.folder / "model"
        self.succeed("translate", flat, model, "--view", self.views([{"regions": [[0, 1]]}]))
        stored = bytearray(model.read_bytes())
        for place in range(32768, 163840, 32768):
            if stored[place:place + 8] != stored[:8]:
                continue
            header = decode_header(stored[place:place + 32768])
            begin = place + header.root[0]
            struct.pack_into("<I", stored, begin + 4, (1 << 32) - 1)
            struct.pack_into("<I", stored, place + 40, crc32c(stored[begin:begin + header.root[1]]))
            tail, = struct.unpack_from("<I", stored, place + 44)
            struct.pack_into("<I", stored, place + 48, crc32c(stored[place + 64:place + 64 + tail]))
            struct.pack_into("<I", stored, place + 60, crc32c(stored[place:place + 60]))
        model.write_bytes(stored)
        self.fail_with("it has 4294967295 processes", "translate", flat, self.folder / "target", "--like", model)

    def test_views_end_with_the_file(self):
        flat, target = self.flat(1 << 20), self.folder / "target"
        done = self.run_stridio("translate", flat, target, "--view", self.views([{"vector": [1 << 60, 1, 2]}]), timeout=60)
        self.assertIn(f"no view has {1 << 19} bytes", done.stderr)
        self.succeed("flatten", target, self.folder / "back")
        self.assertTrue((self.folder / "back").read_bytes() == flat.read_bytes())

    def test_only_files_are_read(self):
        flat, views, fifo, target = self.flat(1000), self.views([{"regions": [[0, 1]]}]), self.folder / "fifo", "target"
        os.mkfifo(fifo)
        for path, what in ((fifo, "a pipe"), ("/dev/zero", "a pipe, a device"), (self.folder, "a directory")):
            for command in (["translate", path, target, "--view", views], ["translate", flat, target, "--like", path],
                            ["flatten", path, target]):
                with self.subTest(command=command):
                    self.fail_with(f"it must be a regular file, and is {what}", *command)
        self.assertFalse((self.folder / target).exists())

    def test_errors_name_the_target_that_was_given(self):
        flat, views, target = self.flat(1 << 20), self.views([{"regions": [[0, 1]]}]), self.folder / "target"
        self.succeed("translate", flat, self.folder / "stored", "--view", views)
        for command in (["translate", flat, target, "--view", views], ["flatten", self.folder / "stored", target]):
            for path in (target, self.folder / "missing/target"):
                words = [COMMAND, *command[:2], path, *command[3:]]
                done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 600; exec "$@"', "sh", *words],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 125)
                self.assertIn(f"[file {path}]", done.stderr)
                self.assertNotIn(PARTIAL, done.stderr)

    def test_bad_views_are_refused_as_by_show(self):
        flat, views = self.flat(1000), self.folder / "bad.json"
        for text in ('{"views": [li', '{"views": [{"subarray": {"sizes": [8]}}]}'):
            views.write_text(text)
            shown = self.run_stridio("show", "view", views).stderr
            self.fail_with(shown.removeprefix("stridio show: "), "translate", flat, "target", "--view", views)
        self.fail_with("is a directory; a JSON file is wanted", "translate", flat, "target", "--view", self.folder)

    def test_who_waits_for_a_damaged_file_is_told(self):
        flat, stored = self.flat(100000), self.folder / "stored"
        self.succeed("translate", flat, stored, "--view", self.views([{"regions": [[0, 1]]}]))
        self.assertEqual(self.succeed("wait", stored).stdout, "2\n")
        os.truncate(stored, stored.stat().st_size - 1000)
        for options in ([], ["--timeout", 0.1], ["--timeout", 60]):
            done = self.run_stridio("wait", stored, *options)
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertIn("the interval file is truncated", done.stderr)
        self.fail_with("the interval file is truncated", "flatten", "--follow", stored, "target")

    # Whether its program still writes is not known then: a target that is not the last one must not count as such.
    def test_who_cannot_ask_for_locks_does_not_end_as_if_all_were_well(self):
        source, empty, flat = self.folder / "source", self.file("empty"), self.flat(1000)
        self.succeed("translate", flat, source, "--view", self.views([{"regions": [[0, 1]]}]))
        for errno, text in (("EIO", "asking who holds a lock"), ("ENOLCK", "its newest is 2, and its file system has no locks")):
            with self.subTest(errno=errno):
                done = self.run_stridio("flatten", "--follow", source, "target", LD_PRELOAD=SHIM, STRIDIO_FAULT_PATH=str(source),
                                        STRIDIO_FAULT=f"rank=0,op=9,errno={errno},kind=lock,sticky")  # by then it waits
                self.assertEqual(done.returncode, 125, done.stderr)
                self.assertIn(text, done.stderr)
                self.assertEqual((self.folder / "target").read_bytes(), flat.read_bytes())
        for command, status, text in ((["flatten", "--follow", source, "other"], 125, "a running program cannot be followed"),
                                      (["flatten", "--follow", empty, "other"], 125, "its file system has no locks"),
                                      (["wait", source, "--newer-than", 2, "--timeout", 0.1], 1, "its file system has no locks")):
            done = self.run_stridio(*command, LD_PRELOAD=SHIM, STRIDIO_FAULT_NOLOCK="1")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.run_stridio("wait", source, LD_PRELOAD=SHIM, STRIDIO_FAULT_NOLOCK="1").stdout, "2\n")

    # Each has the generations' numbers of the one before, and the first two its layout.
    def test_sources_that_are_made_anew_are_followed(self):
        views, source, target = self.views([{"regions": [[0, 1]]}]), self.folder / "source", self.folder / "target"
        made = []
        for size in (200000, 200000, 100000, 100000, 250000):
            made.append((self.flat(size).read_bytes(), self.folder / f"made-{len(made)}"))
            self.succeed("translate", "flat", made[-1][1], "--view", views)
        for command in (["flatten"], ["translate", "--view", views]):
            for how in ("renamed", "written over"):
                with self.subTest(command=command, how=how):
                    source.unlink(missing_ok=True)
                    follower = self.start_stridio(*command[:1], "--follow", source, target, *command[1:])
                    for data, path in made:
                        stored = path.read_bytes()
                        if how == "renamed":
                            source.with_name("new").write_bytes(stored)
                            source.with_name("new").rename(source)
                        else:
                            source.write_bytes(stored)
                        time.sleep(0.4)
                    _, errors = follower.communicate(timeout=60)
                    self.assertEqual(follower.returncode, 0, errors)
                    self.succeed("translate", target, self.folder / "whole", "--view", views)
                    self.succeed("flatten", self.folder / "whole", self.folder / "back")
                    self.assertTrue((self.folder / "back").read_bytes() == made[-1][0], f"STRIDIO_SEED={self.seed}")

    def test_only_files_are_replaced(self):
        flat, stored = self.flat(50000), self.folder / "stored"
        self.succeed("translate", flat, stored, "--view", self.views([{"regions": [[0, 1]]}]))
        fifo, link, target = self.folder / "fifo", self.folder / "link", self.folder / "target"
        os.mkfifo(fifo)
        for name, why in ((fifo, "must be a regular file"), ("/dev/stdout", "must be a regular file"), ("-", "file name"),
                          (self.folder, "is a directory"), ("nowhere/at/all", "No such file")):
            with self.subTest(name=name):
                self.fail_with(why, "flatten", stored, name)
        self.assertTrue(fifo.is_fifo())
        target.write_text("old")
        target.chmod(0o640)
        link.symlink_to("target")
        self.succeed("flatten", stored, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(target.read_bytes(), flat.read_bytes())
        self.assertEqual(target.stat().st_mode & 0o777, 0o640)

    def test_who_waits_for_what_is_not_there_is_told(self):
        done = self.run_stridio("wait", "missing", "--timeout", "1.5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing does not exist yet: waiting for it", done.stderr)

    @unittest.skipUnless(BUILT and WHEELS, "needs the libraries and the MPIs' wheels")
    def test_processes_of_an_mpi(self):
        flat, views = self.flat(9 << 20), self.random_views(5)
        owners, views = self.owners(views, 9 << 20), self.views(views)
        for family in WHEELS:
            for processes in (5, 2):  # a rank each; some threads each
                with self.subTest(family=family, processes=processes, views=views.read_text(), seed=self.seed):
                    mpiexec = ["run", "--", VENV / family / "bin/mpiexec", "-n", processes, COMMAND]
                    target, back = self.folder / "target", self.folder / "back"
                    self.succeed(*mpiexec, "translate", flat, target, "--view", views)
                    if family == WHEELS[processes == 2]:  # the reader takes seconds for so much
                        self.expect(target, flat.read_bytes(), owners)
                    self.succeed(*mpiexec, "flatten", target, back)
                    self.assertEqual(back.read_bytes(), flat.read_bytes())
                    with IntervalFile(target.open("rb")) as source:
                        runs = [run for part in source.root.parts for run in part.runs]
                    begin, end = max(runs, key=lambda run: run[1] - run[0])
                    data = bytearray(target.read_bytes())
                    data[(begin + end) // 2] ^= 1  # where data are: between may be space that nobody used
                    damaged = self.folder / "damaged"
                    damaged.write_bytes(data)
                    for command in (["flatten"], ["translate", "--view", views]):
                        done = self.run_stridio(*mpiexec, *command, damaged, back)
                        self.assertNotEqual(done.returncode, 0)
                        self.assertEqual(done.stderr.count("wrong checksum"), 1)
                        self.assertEqual(back.read_bytes(), flat.read_bytes())
                    self.assertEqual([p.name for p in self.folder.iterdir() if PARTIAL in p.name], [])

    @unittest.skipUnless(BUILT and WHEELS, "needs the libraries and the MPIs' wheels")
    def test_processes_that_cannot_work_together(self):
        flat, views, target = self.flat(1000), self.views(self.random_views(2)), self.folder / "target"
        for family in WHEELS:
            launcher = VENV / family / "bin/mpiexec"
            with self.subTest(family=family):
                self.fail_with("start at most 2", "run", "--", launcher, "-n", 3, COMMAND, "translate", flat, target,
                               "--view", views)
                done = subprocess.run([launcher, "-n", "2", COMMAND, "translate", flat, target, "--view", views],
                                      timeout=60, capture_output=True, text=True, env=environment())
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("stridio run -- mpiexec -n 2", done.stderr)
                self.assertFalse(target.exists())

    # Of two containers, say: the other's file, by a name that has nothing but the process's number, is not ours.
    def test_another_with_its_number_loses_nothing(self):
        flat, views, target = self.flat(1000), self.views([{"regions": [[0, 1]]}]), self.folder / "target"
        start = 'echo theirs > "$4.stridio-partial-$$"; exec "$@"'
        done = subprocess.run(["sh", "-c", start, "sh", COMMAND, "translate", flat, target, "--view", views],
                              capture_output=True, text=True)
        left = [p for p in self.folder.iterdir() if PARTIAL in p.name]
        self.assertEqual([p.read_text() for p in left], ["theirs\n"], done.stderr)
        left[0].unlink()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.expect(target, flat.read_bytes())

    def test_who_is_interrupted_leaves_nothing(self):
        flat, target = self.folder / "flat", self.folder / "target"
        with open(flat, "wb") as file:
            file.truncate(1 << 30)
        views = self.views([{"regions": [[0, 1]], "extent": 1}])
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with subprocess.Popen([COMMAND, "translate", flat, target, "--view", views]) as process:
                while process.poll() is None and not any(PARTIAL in p.name for p in self.folder.iterdir()):
                    time.sleep(0.001)
                process.send_signal(number)
                self.assertEqual(process.wait(60), -number)
            self.expect_nothing_left(target)

    # A group's signal reaches the launcher twice, as of a user who presses Ctrl-C again: Hydra then kills the ranks.
    @unittest.skipUnless(BUILT and WHEELS, "needs the libraries and the MPIs' wheels")
    def test_processes_that_are_interrupted_leave_nothing(self):
        flat, target, source = self.folder / "flat", self.folder / "target", self.folder / "source"
        with open(flat, "wb") as file:
            file.truncate(1 << 29)
        self.succeed("translate", flat, source, "--view", self.views([{"regions": [[0, 1]], "extent": 1}]))
        for family in WHEELS:
            for end in (os.kill, os.killpg):
                with self.subTest(family=family, end=end), subprocess.Popen(
                        [COMMAND, "run", "--", VENV / family / "bin/mpiexec", "-n", "2", COMMAND, "flatten", source, target],
                        env=environment(), start_new_session=True, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL) as process:
                    while process.poll() is None and not any(PARTIAL in p.name for p in self.folder.iterdir()):
                        time.sleep(0.001)
                    end(process.pid, signal.SIGINT)
                    if process.wait(60) == 0:  # it was faster, or Hydra says so of ranks that it has killed
                        target.unlink(missing_ok=True)
                    self.expect_nothing_left(target)

    def expect_nothing_left(self, target):
        def left():
            return [p.name for p in self.folder.iterdir() if PARTIAL in p.name or p == target]

        deadline = time.monotonic() + 10
        while left() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(left(), [])

    def test_failures_leave_the_target(self):
        flat, views = self.flat(300000), self.views([{"regions": [[0, 1]], "extent": 1}])
        source, target = self.folder / "source", self.folder / "target"
        self.succeed("translate", flat, source, "--view", views)
        target.write_text("precious")
        self.fail_with("are one file", "translate", source, source, "--view", views)
        self.fail_with("are one file", "flatten", source, source)
        self.fail_with("not an interval file", "translate", source, target, "--like", flat)
        self.fail_with("not an interval file", "flatten", flat, target)
        self.fail_with("No such file", "translate", self.folder / "missing", target, "--view", views)
        self.fail_with("cannot be read", "translate", source, target, "--view", self.folder / "missing")
        self.fail_with("No such file", "translate", source, self.folder / "missing/target", "--view", views)
        data = bytearray(source.read_bytes())
        data[200_000] ^= 1
        source.write_bytes(data)
        self.fail_with("wrong checksum", "translate", source, target, "--view", views)
        self.fail_with("wrong checksum", "flatten", source, target)
        self.assertEqual(target.read_text(), "precious")
        self.assertEqual([p.name for p in self.folder.iterdir() if PARTIAL in p.name], [])

    def test_memory_does_not_follow_the_size(self):
        flat, size = self.folder / "large", 300 << 20
        with open(flat, "wb") as file:
            file.truncate(size)
        views = self.views([{"displacement": 4096 * rank, "extent": 4096 * 4, "regions": [[0, 4096]]}
                            for rank in range(4)])
        for command in (["translate", flat, self.folder / "target", "--view", views],
                        ["flatten", self.folder / "target", self.folder / "back"]):
            with subprocess.Popen([COMMAND, *map(str, command), "--threads", "2"]) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertLess(usage.ru_maxrss, 100 << 10)  # KiB
        self.assertEqual((self.folder / "back").stat().st_size, size)

    def test_a_terminal_shows_how_far_it_is(self):
        flat, views = self.flat(20 << 20), self.views([{"regions": [[0, 1]], "extent": 1}])
        ours, theirs = pty.openpty()
        with subprocess.Popen([COMMAND, "translate", flat, self.folder / "target", "--view", views], stderr=theirs):
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 4096):
                    shown += piece
            except OSError:
                pass  # the end of a terminal
        os.close(ours)
        self.assertIn(b"[====", shown)
        self.assertIn(b"100 %", shown)


# Makes the file anew for each frame, as a program does that opens it by MODE_CREATE after it has removed or emptied it.
REMAKER = """\
    import os, sys, time
    from mpi4py import MPI
    comm, path, how, frames, pause = MPI.COMM_WORLD, sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    for frame in range(1, frames + 1):
        if comm.rank == 0 and os.path.exists(path):
            os.unlink(path) if how == "removed" else os.truncate(path, 0)
        comm.Barrier()
        file = MPI.File.Open(comm, "interval:" + path, MPI.MODE_CREATE | MPI.MODE_RDWR)
        for _ in range(1 + frame % 2):  # of two generations, or three
            file.Write_at_all(100000 * comm.rank, bytes([frame]) * (100000 - frame))
            file.Sync()
        file.Close()
        time.sleep(pause)
"""


class Following(WheelsTest):
    RANKS = 3

    def setUp(self):
        super().setUp()
        self.source = self.folder / "source"
        self.writer = self.script("writer.py", WRITER)
        self.views = self.folder / "views.json"
        self.views.write_text(json.dumps({"views": [{"displacement": 500 * rank, "extent": 1000,
                                                     "regions": [[0, 500]]} for rank in range(2)]}))

    def start_writer(self, family, frames, pause):
        return self.start_stridio(*self.on_ranks(family, self.RANKS, self.writer, f"interval:{self.source}", frames, pause))

    def finish(self, process, status=0):
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, errors)
        return output, errors

    def look(self, path):
        """The frame that a target shows, whole, or None while there is none."""
        if not path.exists():
            return None
        if path.name == "flat":
            data = path.read_bytes()
        else:
            copy = self.folder / "copy"
            done = self.run_stridio("flatten", path, copy)
            self.assertEqual(done.returncode, 0, done.stderr)
            data = copy.read_bytes()
        if data:
            self.assertEqual(data, frame_bytes(data[0], self.RANKS))
        return data[0] if data else 0

    def follow(self, family, *follower):
        """Runs writer and followers at once; all that is ever seen of a target is whole frames."""
        frames, targets = 25, {"flat": ["flatten"], "interval": ["translate", "--view", self.views]}
        followers = [self.start_stridio(*follower, *command[:1], "--follow", "--timeout", 30, self.source, self.folder / name,
                                *command[1:]) for name, command in targets.items()]
        time.sleep(0.2)  # the source does not exist yet
        writer = self.start_writer(family, frames, 0.1)
        seen = {name: set() for name in targets}
        while any(each.poll() is None for each in followers):
            for name in targets:
                seen[name].add(self.look(self.folder / name))
        self.finish(writer)
        for each in followers:
            self.finish(each)
        for name in targets:
            self.assertEqual(self.look(self.folder / name), frames)
            self.assertGreaterEqual(len(seen[name] - {None, 0}), 2, seen)
        with IntervalFile(open(self.folder / "interval", "rb")) as file:
            self.assertEqual(file.read(), frame_bytes(frames, self.RANKS))
        self.assertEqual([p.name for p in self.folder.iterdir() if PARTIAL in p.name], [])

    def test_targets_follow_a_running_program(self):
        for family in WHEELS:
            with self.subTest(family=family):
                for path in (self.source, self.folder / "flat", self.folder / "interval"):
                    path.unlink(missing_ok=True)
                self.follow(family)

    def remade_frame(self, frame):
        part = bytes([frame]) * (100000 - frame) + bytes(frame)
        return (part * self.RANKS)[:-frame]

    def test_files_that_are_made_anew_are_followed(self):
        frames, processes = 5, ["run", "--", VENV / WHEELS[-1] / "bin/mpiexec", "-n", 2, COMMAND]
        for how, by in (("removed", []), ("emptied", []), ("removed", processes)):
            with self.subTest(how=how, by=by):
                for path in (self.source, self.folder / "flat", self.folder / "interval"):
                    path.unlink(missing_ok=True)
                followers = [self.start_stridio(*by, "flatten", "--follow", self.source, self.folder / "flat"),
                             self.start_stridio(*by, "translate", "--follow", self.source, self.folder / "interval", "--view",
                                                self.views)]
                remaker = self.script("remaker.py", REMAKER)
                writer = self.start_stridio(*self.on_ranks(WHEELS[0], self.RANKS, remaker, self.source, how, frames, 0.4))
                for each in (writer, *followers):
                    self.finish(each)
                self.assertEqual(self.run_stridio("flatten", "interval", "back").returncode, 0)
                for name in ("flat", "back"):
                    self.assertTrue((self.folder / name).read_bytes() == self.remade_frame(frames), name)

    def test_processes_follow_too(self):
        family = WHEELS[-1]
        self.follow(family, "run", "--", VENV / family / "bin/mpiexec", "-n", 2, COMMAND)

    def test_the_last_generation_of_a_killed_program_is_followed(self):
        follower = self.start_stridio("translate", "--follow", "--timeout", 30, self.source, self.folder / "interval", "--view",
                              self.views)
        writer = self.start_writer(WHEELS[0], 1000, 0.01)
        for _ in range(20):
            last = int(writer.stdout.readline())
        writer.send_signal(signal.SIGTERM)
        self.finish(follower)
        writer.communicate(timeout=30)
        self.assertGreaterEqual(self.look(self.folder / "interval"), last % 256)

    def test_a_killed_follower_leaves_whole_targets(self):
        writer = self.start_writer(WHEELS[0], 200, 0.02)
        followers = [self.start_stridio("flatten", "--follow", self.source, self.folder / "flat"),
                     self.start_stridio("translate", "--follow", self.source, self.folder / "interval", "--view", self.views)]
        while not (self.look(self.folder / "flat") and self.look(self.folder / "interval")):
            time.sleep(0.05)
        for each in followers:
            time.sleep(random.uniform(0, 0.2))
            each.kill()
            each.communicate(timeout=30)
        self.assertTrue(self.look(self.folder / "flat"))
        self.assertTrue(self.look(self.folder / "interval"))
        self.assertEqual(self.run_stridio("check", self.folder / "interval").returncode, 0)
        self.end(writer)

    def test_following_ends_in_time(self):
        follower = self.start_stridio("flatten", "--follow", "--timeout", 0.5, self.source, self.folder / "flat")
        _, errors = self.finish(follower, status=1)
        self.assertIn("no new generation in time: it does not exist", errors)
        writer = self.start_writer(WHEELS[0], 1, 20)
        self.assertEqual(writer.stdout.readline(), "1\n")
        began = time.monotonic()
        follower = self.start_stridio("flatten", "--follow", "--timeout", 1, self.source, self.folder / "flat")
        _, errors = self.finish(follower, status=1)
        self.assertIn("its newest is 2, and a program has it open for writing", errors)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(self.look(self.folder / "flat"), 1)

    def test_waiting(self):
        waiting = self.start_stridio("wait", self.source, "--timeout", 60)
        third = self.start_stridio("wait", self.source, "--generation", 4, "--timeout", 60)
        self.finish(self.start_writer(WHEELS[0], 3, 0.3))
        self.assertIn(self.finish(waiting)[0], ("2\n", "3\n", "4\n"))  # the newest when it looked
        self.assertEqual(self.finish(third)[0], "4\n")
        self.assertEqual(self.finish(self.start_stridio("wait", self.source, "--newer-than", 2))[0], "4\n")
        began = time.monotonic()
        with subprocess.Popen([COMMAND, "wait", self.source, "--newer-than", "4", "--timeout", "2"], text=True,
                              stderr=subprocess.PIPE) as process:
            errors = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 1)
        self.assertIn("no generation newer than 4 in time: its newest is 4, and nobody has it open for writing", errors)
        self.assertLess(time.monotonic() - began, 15)
        self.assertLess(usage.ru_utime + usage.ru_stime, 0.3)
        flat = self.file("other")
        flat.write_text("flat")
        for path, text in ((flat, "not an interval file"), (self.folder, "directory")):
            done = self.run_stridio("wait", path, "--timeout", 5)
            self.assertEqual(done.returncode, 125)
            self.assertIn(text, done.stderr)
