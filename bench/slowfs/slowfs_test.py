"""What slow storage promises: the bytes, a latency a request, one bandwidth, overlap, counts."""

import concurrent.futures
import contextlib
import fcntl
import mmap
import os
import random
import struct
import sys
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mount import mounted, why_not  # noqa: E402

PROGRAM = Path(os.environ["STRIDIO_TEST_SLOWFS"])
MIB = 1 << 20


def setUpModule():
    if why := why_not(PROGRAM):
        raise unittest.SkipTest(why)


class Stopwatch:
    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.start


class SlowfsTest(unittest.TestCase):
    def mount(self, **speed):
        self.storage = self.enterContext(mounted(PROGRAM, **speed))
        return self.storage.folder

    def open(self, path, flags=os.O_RDWR | os.O_CREAT):
        file = os.open(path, flags, 0o640)
        self.addCleanup(os.close, file)
        return file

    def together(self, tasks):
        with concurrent.futures.ThreadPoolExecutor(len(tasks)) as pool, Stopwatch() as watch:
            for done in [pool.submit(*task) for task in tasks]:
                done.result()
        return watch.seconds

    def test_bytes_and_names_pass_through(self):
        folder = self.mount(latency_ms=0)
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        file, expected = self.open(folder / "file"), bytearray(3 * MIB)
        for _ in range(200):
            length = chance.choice((1, 100, 5000, 70000, 2 * MIB))
            offset = chance.randrange(len(expected) - length + 1)
            data = chance.randbytes(length)
            self.assertEqual(os.pwrite(file, data, offset), length)
            expected[offset : offset + length] = data
            offset = chance.randrange(len(expected) - length + 1)
            other = os.open(folder / "file", os.O_RDONLY)
            end = max(offset, min(offset + length, os.fstat(other).st_size))
            self.assertEqual(os.pread(other, length, offset), expected[offset:end])
            os.close(other)
        os.ftruncate(file, 1234)
        self.assertEqual((folder / "file").read_bytes(), expected[:1234])
        os.posix_fallocate(file, 0, 5000)
        self.assertEqual((folder / "file").stat().st_size, 5000)
        self.assertEqual((folder / "file").stat().st_mode & 0o777, 0o640 & ~self.umask())
        (folder / "one").mkdir()
        (folder / "file").rename(folder / "one/two")
        self.assertEqual(os.listdir(folder), ["one"])
        (folder / "one/two").unlink()
        (folder / "one").rmdir()
        self.assertEqual(os.listdir(folder), [])
        with self.assertRaises(FileNotFoundError):
            (folder / "file").read_bytes()

    @staticmethod
    def umask():
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_each_request_takes_the_latency(self):
        file = self.open(self.mount(latency_ms=20) / "file")
        with Stopwatch() as watch:
            for i in range(5):
                os.pwrite(file, b"x", i)
        self.assertGreaterEqual(watch.seconds, 5 * 0.020)

    def test_all_share_the_bandwidth(self):
        folder = self.mount(latency_ms=0, bandwidth_mb=20)
        files = [self.open(folder / f"file{i}") for i in range(4)]
        data = bytes(1_000_000)
        seconds = self.together([(os.pwrite, file, data, 0) for file in files])
        self.assertGreaterEqual(seconds, 4 / 20)
        self.storage.reset()
        with Stopwatch() as watch:
            os.pread(files[0], len(data), 0)
        self.assertGreaterEqual(watch.seconds, 1 / 20)

    def test_opens_of_one_file_write_beyond_its_end_together(self):
        folder = self.mount(latency_ms=200)
        files = [self.open(folder / "file") for _ in range(8)]
        self.storage.reset()
        tasks = [(os.pwrite, file, b"x" * 4096, 4096 * i) for i, file in enumerate(files)]
        seconds = self.together(tasks)
        counts = self.storage.counts()
        self.assertEqual(counts["most_in_flight"], 8)
        self.assertEqual((counts["writes"], counts["bytes_written"]), (8, 8 * 4096))
        self.assertLess(seconds, 2 * 0.200)

    def test_one_open_reads_and_writes_within_the_file_together(self):
        file = self.open(self.mount(latency_ms=200) / "file")
        os.pwrite(file, bytes(9 * 4096), 0)
        self.storage.reset()
        tasks = [(os.pwrite, file, b"x" * 4096, 4096 * i) for i in range(4)]
        tasks += [(os.pread, file, 4096, 4096 * i) for i in range(4, 8)]
        seconds = self.together(tasks)
        self.assertEqual(self.storage.counts()["most_in_flight"], 8)
        self.assertLess(seconds, 2 * 0.200)

    def test_a_mebibyte_is_one_request(self):
        file = self.open(self.mount(latency_ms=0) / "file")
        self.storage.reset()
        with mmap.mmap(-1, 4 * MIB) as memory:  # whole pages
            self.assertEqual(os.pwrite(file, memory, 0), 4 * MIB)
        counts = self.storage.counts()
        self.assertEqual((counts["writes"], counts["largest"]), (4, MIB))

    def test_reset_and_counts_are_no_requests(self):
        self.mount()
        self.storage.reset()
        self.assertEqual(set(self.storage.counts().values()), {0})

    def test_locks_exclude_other_opens_and_are_counted(self):
        folder = self.mount(latency_ms=0)
        one, other = self.open(folder / "file"), self.open(folder / "file")
        self.storage.reset()
        self.ofd_lock(one, fcntl.F_WRLCK, 0, 100)
        self.ofd_lock(other, fcntl.F_WRLCK, 100, 100)
        with self.assertRaises(BlockingIOError):
            self.ofd_lock(other, fcntl.F_RDLCK, 50, 100)
        self.assertEqual(self.storage.counts()["locks"], 3)
        free = threading.Timer(0.2, lambda: self.ofd_lock(one, fcntl.F_UNLCK, 0, 100))
        free.start()
        with Stopwatch() as watch:
            self.ofd_lock(other, fcntl.F_RDLCK, 50, 100, waits=True)
        free.join()
        self.assertGreater(watch.seconds, 0.15)

    @staticmethod
    def ofd_lock(file, kind, start, length, waits=False):
        command = fcntl.F_OFD_SETLKW if waits else fcntl.F_OFD_SETLK
        fcntl.fcntl(file, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))

    def test_nothing_is_left_when_a_user_is_still_there(self):
        with mounted(PROGRAM, latency_ms=0) as storage:
            point = storage.folder
            file = os.open(point / "file", os.O_RDWR | os.O_CREAT)
        self.assertFalse(point.exists())
        with self.assertRaises(OSError):
            os.pwrite(file, b"x", 0)
        with contextlib.suppress(OSError):  # nobody is there to hear of it
            os.close(file)


if __name__ == "__main__":
    unittest.main()
