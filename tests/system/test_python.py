"""The Python package against the files that MPI programs write: any range, h5py and xarray, damage of all kinds, and
generations that are replaced while they are read."""

import contextlib
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import fsspec
import h5py
import numpy as np
import xarray

import stridio
from stridio.format import (
    FIRST_STORED, HEADER_BYTES, HEADER_STEP, HEADERS, crc32c, decode_header, decode_root, in_tail, newest_header, tail_part,
)  # fmt: skip
from support import BUILT, COMMAND, VENV, environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = VENV / "mpich/bin"
SEED = int(os.environ.get("STRIDIO_SEED", random.randrange(1 << 30)))
SECONDS = float(os.environ.get("STRIDIO_SECONDS", 8))  # of each kind of damage

# Regular and irregular pieces, in several epochs, by several ranks; a hole.
PROGRAM = """\
import random, sys
from mpi4py import MPI
comm, path, size, epochs, seed = MPI.COMM_WORLD, sys.argv[1], *map(int, sys.argv[2:])
file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
draw = random.Random(seed + comm.rank)
block = size // (40 * comm.size)
cyclic = MPI.BYTE.Create_contiguous(block).Create_resized(0, block * comm.size).Commit()
file.Set_view(block * comm.rank, MPI.BYTE, cyclic)
file.Write_all(draw.randbytes(30 * block))
file.Sync()
for epoch in range(epochs):
    file.Set_view(0)
    for _ in range(20):
        at, length = draw.randrange(size), draw.choice((8, 100, block, 3 * block))
        file.Write_at(at, draw.randbytes(min(length, size - at)))
    places = sorted(draw.sample(range(size // 16), size // 200))
    pieces = MPI.BYTE.Create_hindexed([8] * len(places), [16 * place for place in places]).Commit()
    file.Set_view(0, MPI.BYTE, pieces)
    file.Write_at(0, draw.randbytes(8 * len(places)))
    file.Sync()
file.Close()
"""


def run(*command, **variables):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, env=environment(**variables))
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def write(path, size, epochs, seed, ranks=3):
    run(COMMAND, "run", "--", WHEEL / "mpiexec", "-n", ranks, WHEEL / "python", "-c", PROGRAM, f"interval:{path}", size,
        epochs, seed)


def flattened(path):
    flat = path.with_name(f"{path.name}.flat")
    flat.unlink(missing_ok=True)
    run(COMMAND, "flatten", path, flat)
    return flat.read_bytes()


class Unpinned:
    """A file that has no descriptor to lock, as those of other than local file systems."""

    def __init__(self, path):
        self.file = open(path, "rb")

    def seek(self, *arguments):
        return self.file.seek(*arguments)

    def read(self, *arguments):
        return self.file.read(*arguments)

    def close(self):
        self.file.close()


@unittest.skipUnless(BUILT and (WHEEL / "python").exists(), "needs the libraries and the MPIs' wheels")
class Reading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stridio-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.path = self.folder / "file"
        self.draw = random.Random(SEED)
        print(f"STRIDIO_SEED={SEED}", file=sys.stderr)

    def url(self, path=None):
        return f"stridio-interval://{path or self.path}"

    def test_any_range(self):
        for size, epochs, ranks in ((900_000, 3, 3), (8_000_000, 1, 1), (50_000, 4, 2)):
            self.path.unlink(missing_ok=True)
            write(self.path, size, epochs, SEED, ranks)
            expected = flattened(self.path)
            with stridio.IntervalFile(open(self.path, "rb")) as file:
                self.assertEqual(file.size, len(expected))
                self.assertEqual(file.read(), expected)
                for _ in range(300):
                    begin = self.draw.randrange(len(expected) + 100)
                    end = begin + int(self.draw.expovariate(1 / self.draw.choice((10, 1000, 100_000))))
                    self.assertEqual(file.read(begin, end), expected[begin:end])
            with fsspec.open(self.url()) as file:
                self.assertEqual(file.read(100), expected[:100])
                file.seek(-50, 2)
                self.assertEqual(file.read(), expected[-50:])
            fs = fsspec.filesystem("stridio-interval")
            self.assertEqual(fs.cat_file(self.path, 5, 5000), expected[5:5000])
            self.assertEqual(fs.info(self.url())["size"], len(expected))
            sizes = {pathlib.Path(each["name"]).name: each["size"] for each in fs.ls(self.folder)}
            self.assertEqual(sizes, {"file": len(expected), "file.flat": None})

    # A piece of a large file costs a few cells, not the file.
    def test_reads_only_what_is_asked(self):
        write(self.path, 8_000_000, 0, SEED)

        class Counting(Unpinned):
            bytes = 0

            def read(self, length):
                self.bytes += length
                return super().read(length)

        below = Counting(self.path)
        with stridio.IntervalFile(below) as file:
            file.read(4_000_000, 4_000_100)
            self.assertLess(below.bytes, 2 * FIRST_STORED + 60_000)

    @unittest.skipUnless(os.path.exists("/usr/bin/h5pcc.mpich"), "needs parallel HDF5")
    def test_h5py_and_xarray(self):
        program = self.folder / "flash"
        subprocess.run(["/usr/bin/h5pcc.mpich", "-O1", ROOT / "examples/flash.c", ROOT / "examples/flash_hdf5.c", "-o",
                        program, "-shlib"], check=True, capture_output=True, cwd=self.folder)
        run(COMMAND, "run", "--", "/usr/bin/mpiexec.mpich", "-n", 3, program, "write", f"interval:{self.path}")
        flat = self.folder / "flat"
        run(COMMAND, "flatten", self.path, flat)
        with fsspec.open(self.url()) as file, h5py.File(file) as ours, h5py.File(flat) as theirs:
            self.assertEqual(list(ours), list(theirs))
            for name in theirs:
                self.assertTrue(np.array_equal(ours[name], theirs[name]))
        with fsspec.open(f"stridio-interval::file://{self.path}") as file:
            options = {"engine": "h5netcdf", "phony_dims": "sort"}
            with xarray.open_dataset(file, **options) as ours, xarray.open_dataset(flat, **options) as theirs:
                self.assertEqual(float(ours.dens[2, 7, 7, 7]), 1535)
                xarray.testing.assert_identical(ours, theirs)

    # By its entry point, as pip installs it.
    def test_installed(self):
        source, target = self.folder / "source", self.folder / "target"
        shutil.copytree(ROOT / "python", source)
        run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
            "--disable-pip-version-check", "--target", target, source)
        write(self.path, 50_000, 1, SEED)
        expected = self.folder / "expected"
        expected.write_bytes(flattened(self.path))
        run(sys.executable, "-c", "import fsspec, sys; a, b = sys.argv[1:]\n"
            "assert fsspec.open(a).open().read() == open(b, 'rb').read()", self.url(), expected, PYTHONPATH=str(target))

    # ---- Damage

    def read_damaged(self, data, expected, may_differ=False):
        """None, or the package's own error; whatever else comes out fails the test."""
        path = self.folder / "damaged"
        path.write_bytes(data)
        start = time.monotonic()
        try:
            with stridio.IntervalFile(open(path, "rb")) as file:
                for begin, end in ((0, 1 << 20), (len(expected) // 2, len(expected)), (0, 10)):
                    got = file.read(begin, end)
                    if not may_differ:
                        self.assertEqual(got, expected[begin:end])
        except stridio.IntervalError as error:
            return error
        finally:
            self.assertLess(time.monotonic() - start, 5)

    def test_flipped_bits_and_truncation(self):
        write(self.path, 50_000, 3, SEED)
        data, expected = self.path.read_bytes(), flattened(self.path)
        self.assertIsNone(self.read_damaged(data, expected))
        end, damaged, whole = time.monotonic() + SECONDS, 0, 0
        while time.monotonic() < end:
            changed = bytearray(data)
            for _ in range(self.draw.choice((1, 1, 3, 50))):
                at = self.draw.choice((self.draw.randrange(len(data)), self.draw.choice(HEADERS) + self.draw.randrange(64)))
                changed[at] ^= 1 << self.draw.randrange(8)
            if self.draw.random() < 0.3:
                del changed[self.draw.randrange(len(changed)) :]
            # Where both copies of the newest header are gone, what the other slot names may be whole.
            length = HEADER_BYTES + len(newest_header(data).tail)
            lost = all(changed[at : at + length] != data[at : at + length] for at in copies(data))
            error = self.read_damaged(changed, expected, may_differ=lost)
            damaged, whole = damaged + bool(error), whole + (not error)
        print(f"{damaged} damaged, {whole} whole", file=sys.stderr)
        self.assertGreater(min(damaged, whole), 0)

    # Root and metadata changed and summed anew: what a hostile writer may say.
    def test_wrong_numbers_with_right_sums(self):
        write(self.path, 50_000, 2, SEED)
        data, expected = self.path.read_bytes(), flattened(self.path)
        header = newest_header(data)
        self.assertTrue(in_tail(header.root))
        root = decode_root(tail_part(header.tail, header.root), len(header.tail))
        first = copies(data)[0]
        end, seen = time.monotonic() + SECONDS, {}
        while time.monotonic() < end:
            changed = bytearray(data)
            entries = [(each.metadata, index) for index, each in enumerate(root.parts)]
            (offset, length), index = self.draw.choice([(header.root, None), *entries])
            extent = (first + offset, length)
            for _ in range(self.draw.choice((1, 1, 2, 5))):
                at = extent[0] + self.draw.randrange(extent[1])
                value = self.draw.choice((0, 1, 0x7F, 0x80, 0xFF, changed[at] ^ (1 << self.draw.randrange(8))))
                changed[at : at + 1] = bytes([value])
                if self.draw.random() < 0.2:
                    large = struct.pack("<Q", self.draw.choice((1 << 62, (1 << 63) + 5, (1 << 64) - 1, 1 << 40)))
                    changed[at : min(at + 8, sum(extent))] = large[: max(0, min(8, sum(extent) - at))]
            reseal(changed, copies(data), header, root, index)
            error = self.read_damaged(changed, expected, may_differ=True)
            seen[str(error).partition(" of process")[0][:40]] = seen.get(str(error)[:40], 0) + 1
        print(*sorted(seen), sep="\n", file=sys.stderr)
        self.assertGreater(len(seen), 4)

    def test_the_root_of_another_generation_is_refused(self):
        write(self.path, 50_000, 2, SEED)
        data = bytearray(self.path.read_bytes())
        header, places = newest_header(data), copies(data)
        root = decode_root(tail_part(header.tail, header.root), len(header.tail))
        data[places[0] + header.root[0] + 8] ^= 1  # of its generation's number
        reseal(data, places, header, root, None)
        self.assertIn(f"the header of generation {header.generation} has the root of", str(self.read_damaged(data, b"")))

    def test_other_files_are_refused(self):
        for content in (b"", b"x" * 10_000, b"\x89SIF\r\n\x1a\n"):
            self.assertIsInstance(self.read_damaged(content, b""), stridio.IntervalError)
        write(self.path, 50_000, 0, SEED)
        data = bytearray(self.path.read_bytes())
        data[8] = 9
        self.assertIsNone(self.read_damaged(data, flattened(self.path)), "one copy is damaged")
        data[60:64] = struct.pack("<I", crc32c(data[:60]))
        self.assertIn("version 9", str(self.read_damaged(data, b"")))
        with self.assertRaises(NotImplementedError):
            fsspec.open(self.url(), "wb").open()
        with self.assertRaises(FileNotFoundError):
            fsspec.open(self.url("/nowhere/file")).open()
        files = fsspec.filesystem("stridio-interval")
        for change in (lambda: files.rm(str(self.path)), lambda: files.copy(str(self.path), f"{self.path}.copy")):
            with self.assertRaisesRegex(NotImplementedError, "only be read"):
                change()
        self.path.write_bytes(data[:20_000])
        with self.assertRaisesRegex(stridio.IntervalError, f"{self.path}: "):
            fsspec.open(self.url()).open()

    # ---- Generations

    def test_a_generation_that_is_read_stays(self):
        write(self.path, 200_000, 1, SEED)
        before = flattened(self.path)
        with fsspec.open(self.url()) as file:
            for epoch in range(3):
                write(self.path, 200_000, 2, SEED + 100 + epoch)
            self.assertEqual(file.read(), before)
        with fsspec.open(self.url()) as file:
            self.assertEqual(file.read(), flattened(self.path))

    def test_a_generation_that_is_replaced_is_noticed(self):
        write(self.path, 200_000, 1, SEED)
        before = flattened(self.path)
        with stridio.IntervalFile(Unpinned(self.path)) as file:
            self.assertEqual(file.read(0, 10), before[:10])
            for epoch in range(12):
                write(self.path, 200_000, 2, SEED + 100 + epoch)
                try:
                    self.assertEqual(file.read(), before)
                except stridio.Replaced:
                    return
            self.fail("its space is never used again")


def whole_header(data, at):
    with contextlib.suppress(stridio.IntervalError):
        return decode_header(data[at : at + HEADER_STEP])


def copies(data):
    """Where the newest header stands."""
    return [at for at in HEADERS if whole_header(data, at) == newest_header(data)]


def reseal(data, places, header, root, index):
    """Sums of what may have changed in the tail of the first copy: a part's metadata, or only the root."""
    first = places[0]
    at, length = first + header.root[0], header.root[1]
    if index is not None:
        place = at + 32 + sum(56 + 16 * len(each.runs) for each in root.parts[:index]) + 4
        begin, size = first + root.parts[index].metadata[0], root.parts[index].metadata[1]
        data[place : place + 4] = struct.pack("<I", crc32c(data[begin : begin + size]))
    tail = first + HEADER_BYTES
    data[first + 40 : first + 44] = struct.pack("<I", crc32c(data[at : at + length]))
    data[first + 48 : first + 52] = struct.pack("<I", crc32c(data[tail : tail + len(header.tail)]))
    data[first + 60 : first + 64] = struct.pack("<I", crc32c(data[first : first + HEADER_BYTES - 4]))
    for copy in places[1:]:
        data[copy : copy + HEADER_BYTES + len(header.tail)] = data[first : tail + len(header.tail)]
