"""The bytes of an interval file, as docs/interval-file-format.md has them. What is not exactly right is refused."""

import struct
from dataclasses import dataclass

import google_crc32c
import numpy as np

MAGIC = b"\x89SIF\r\n\x1a\n"
VERSION = 4
HEADER_STEP = 32768
HEADERS = tuple(i * HEADER_STEP for i in range(5))
HEADER_BYTES = 64
MOST_TAIL = HEADER_STEP - HEADER_BYTES - 2048
CELL = 16384  # stored bytes are summed by cells of this grid
FIRST_STORED = 5 * HEADER_STEP
LARGEST = 1 << 62
BIRTH = 1  # the generation that is empty, and has no root
LAST_GENERATION = (1 << 60) - 2


class IntervalError(OSError):
    """The file is no interval file, or damaged, or of another version."""


class UnknownVersion(IntervalError):
    pass


def damaged(what):
    return IntervalError(f"the interval file is damaged: {what}")


def crc32c(data):
    return google_crc32c.value(bytes(data))


class Fields:
    """Little-endian numbers, one after another. None lies outside 0 .. 2^62, none behind the end."""

    def __init__(self, data, what):
        self.data, self.at, self.what = data, 0, what

    def require(self, holds):
        if not holds:
            raise damaged(f"{self.what} is malformed")

    def bytes(self, length):
        self.require(length <= len(self.data) - self.at)
        self.at += length
        return self.data[self.at - length : self.at]

    def u32(self):
        return struct.unpack("<I", self.bytes(4))[0]

    def u64(self):
        value = struct.unpack("<Q", self.bytes(8))[0]
        self.require(value <= LARGEST)
        return value

    def extent(self):
        offset, length = self.u64(), self.u64()
        self.require(offset + length <= LARGEST)
        return offset, length

    def count(self, each):
        """A number of things of `each` bytes, which lie behind it."""
        number = self.u64()
        self.require(number <= (len(self.data) - self.at) // each)
        return number


@dataclass(frozen=True)
class Header:
    generation: int
    root: tuple  # its extent
    root_sum: int
    tail: bytes  # what stands behind it: the root and metadata of a small generation


def in_tail(extent):
    return extent[0] < FIRST_STORED


def tail_part(tail, extent):
    begin = extent[0] - HEADER_BYTES
    return tail[begin : begin + extent[1]]


def is_in(tail_bytes, extent):
    return extent[0] >= HEADER_BYTES and extent[0] + extent[1] <= HEADER_BYTES + tail_bytes


def begins_interval_file(data):
    return any(data[at : at + len(MAGIC)] == MAGIC for at in HEADERS)


def decode_header(data):
    """From the bytes at a header's place, HEADER_STEP of them."""
    fields = Fields(data, "a header")
    if fields.bytes(len(MAGIC)) != MAGIC:
        raise IntervalError("not an interval file")
    version = fields.u32()
    fields.u32()
    generation, root, root_sum = fields.u64(), fields.extent(), fields.u32()
    tail_bytes, tail_sum = fields.u32(), fields.u32()
    fields.bytes(8)
    if fields.u32() != crc32c(data[: HEADER_BYTES - 4]):
        raise damaged("a header has a wrong checksum")
    if version != VERSION:
        raise UnknownVersion(f"the interval file has format version {version}; this reader knows {VERSION}")
    fields.require(tail_bytes <= MOST_TAIL and 0 < generation <= LAST_GENERATION)
    fields.require(in_tail(root) == (tail_bytes > 0) and (not in_tail(root) or is_in(tail_bytes, root)))
    fields.require(generation != BIRTH or (root[1] == 0 and tail_bytes == 0))
    tail = fields.bytes(tail_bytes)
    if crc32c(tail) != tail_sum:
        raise damaged("what stands behind a header has a wrong checksum")
    return Header(generation, root, root_sum, tail)


def newest_header(data):
    """Of the file's first bytes."""
    if not begins_interval_file(data):
        raise IntervalError("not an interval file")
    found, wrong = [], []
    for at in HEADERS:
        try:
            found.append(decode_header(data[at : at + HEADER_STEP]))
        except UnknownVersion:
            raise
        except IntervalError as error:
            if data[at : at + len(MAGIC)] == MAGIC:
                wrong.append(error)
    newest = max(found, key=lambda header: header.generation, default=None)
    # A commit that was cut off has torn the two copies of one slot.
    if not found or (newest.generation == BIRTH and len(wrong) > 2):
        raise wrong[0]
    if newest.generation == BIRTH and HEADER_BYTES < len(data) < FIRST_STORED:
        raise damaged(f"truncated: it has {len(data)} bytes")
    return newest


@dataclass(frozen=True)
class PartEntry:
    process: int
    sum: int
    metadata: tuple
    bounds: tuple
    bytes: int
    runs: np.ndarray  # offset, end of each


@dataclass(frozen=True)
class Root:
    generation: int
    processes: int
    size: int
    parts: list
    end: int  # of what it refers to


def decode_root(data, tail_bytes):
    fields = Fields(data, "the root")
    fields.require(fields.bytes(4) == b"Root")
    processes, generation, size = fields.u32(), fields.u64(), fields.u64()
    parts, stored = [], []
    for _ in range(fields.count(56)):
        process, total, metadata, bounds, mapped = (
            fields.u32(), fields.u32(), fields.extent(), fields.extent(), fields.u64())  # fmt: skip
        runs = [fields.extent() for _ in range(fields.count(16))]
        fields.require(0 < mapped <= min(bounds[1], sum(length for _, length in runs)))
        fields.require(bounds[0] + bounds[1] <= size)
        fields.require(not in_tail(metadata) or is_in(tail_bytes, metadata))
        ends = np.array([(offset, offset + length) for offset, length in runs], np.int64)
        fields.require(not any(in_tail(run) for run in runs))
        fields.require(all(length for _, length in runs) and np.all(ends[1:, 0] > ends[:-1, 1]))
        parts.append(PartEntry(process, total, metadata, bounds, mapped, ends))
        stored += [metadata, *runs]
    fields.require(fields.at == len(data))
    stored.sort()
    end = 0
    for offset, length in stored:
        if offset < end:
            raise damaged(f"what is stored at {offset} overlaps something else")
        end = offset + length
    return Root(generation, processes, size, parts, max(end, FIRST_STORED))


@dataclass(frozen=True)
class Groups:
    """Of equal pieces at equal distances, ascending in the logical file. Arrays, a number a group."""

    logical: np.ndarray
    length: np.ndarray
    stored: np.ndarray
    count: np.ndarray
    stride: np.ndarray
    stored_stride: np.ndarray

    @property
    def end(self):
        return self.logical + (self.count - 1) * self.stride + self.length


def numbers(data):
    """All LEB128 numbers of a map; a byte of flags is one of them."""
    if not len(data):
        return []
    data = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(data < 0x80)
    first = np.concatenate(([0], last[:-1] + 1)) if len(last) else last
    if not len(last) or last[-1] != len(data) - 1 or np.any(last - first >= 9):
        raise damaged("a map is malformed")
    shift = 7 * (np.arange(len(data)) - np.repeat(first, last - first + 1))
    return np.add.reduceat((data & 0x7F).astype(np.int64) << shift, first).tolist()


def signed(value):  # zigzag
    return (value >> 1) ^ -(value & 1)


def decode_map(data):
    groups = []
    logical_end = stored_end = length = stride = 0
    count = 1
    values = iter(numbers(data))
    try:
        for flags in values:
            logical = logical_end + next(values)
            if not flags & 4:
                length = next(values)
            stored = stored_end + (signed(next(values)) if flags & 2 else 0)
            if flags & 1:
                if not flags & 8:
                    count, stride = next(values), next(values)
                stored_stride = signed(next(values)) if flags & 16 else length
            else:
                count, stride, stored_stride = 1, 0, 0
            last = stored + (count - 1) * stored_stride
            logical_end = logical + (count - 1) * stride + length
            stored_end = last + length
            if (
                flags > 31 or (flags & 24 and not flags & 1) or (flags & 1 and (count < 2 or stride < length))
                or length <= 0 or min(stored, last) < 0 or max(stored + length, stored_end, logical_end) >= LARGEST
            ):  # fmt: skip
                raise damaged("a map is malformed")
            groups.append((logical, length, stored, count, stride, stored_stride))
    except StopIteration:
        raise damaged("a map ends early") from None
    return Groups(*np.array(groups, np.int64).reshape(-1, 6).T)


@dataclass(frozen=True)
class Part:
    groups: Groups
    sums: np.ndarray
    first_sum: np.ndarray  # of each run


def decode_part(data, entry):
    fields = Fields(data, f"the metadata of process {entry.process}")
    fields.require(fields.bytes(4) == b"Part")
    fields.u32()
    count, length = fields.count(4), fields.u64()
    sums = np.frombuffer(fields.bytes(4 * count), "<u4")
    fields.require(length == len(data) - fields.at)
    cells = (entry.runs[:, 1] - 1) // CELL - entry.runs[:, 0] // CELL + 1
    fields.require(count == cells.sum())
    groups = decode_map(fields.bytes(length))
    fields.require(len(groups.end) > 0)
    bounds = int(groups.logical[0]), int(groups.end[-1] - groups.logical[0])
    mapped = sum(a * b for a, b in zip(groups.count.tolist(), groups.length.tolist()))
    fields.require(mapped == entry.bytes and bounds == entry.bounds)
    return Part(groups, sums, np.cumsum(cells) - cells)
