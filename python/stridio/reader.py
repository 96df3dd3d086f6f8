"""The logical file that an interval file holds: any range of it, by reading and verifying the cells that it lies in."""

import contextlib
import fcntl
import struct
import threading
from collections import OrderedDict

import numpy as np

from .format import (
    BIRTH, CELL, FIRST_STORED, IntervalError, Root, crc32c, damaged, decode_part, decode_root, in_tail, newest_header,
    tail_part,
)  # fmt: skip

PINS = (1 << 62) + 1  # and the generation's number: where its readers hold a lock
TRIES = 100
SLICE = 1 << 22  # bytes that are looked up at once,
PIECES = 1 << 16  # and pieces
KEPT_CELLS = 64


class Replaced(IntervalError):
    """Another generation was committed while this one was read without a lock, and its space used again."""


class IntervalFile:
    """Over a binary file that is open for reading and can seek, which it closes. Threads may share it.

    Where the file is a local one its generation is pinned: writers leave it alone until close(). Elsewhere a generation
    that was replaced while it is read is noticed by its checksums: `Replaced`, never wrong bytes.
    """

    def __init__(self, file):
        self._file = file
        self._lock = threading.RLock()
        self._parts = {}
        self._cells = OrderedDict()  # the ones used last
        self._pin = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self):
        for _ in range(TRIES):
            header = self._newest_header()
            self._set_pin(header.generation)
            pinned, header = header.generation, self._newest_header()
            if header.generation == pinned:
                break
        else:
            raise IntervalError("the interval file is committed faster than it can be opened")
        self.generation, self._tail = header.generation, header.tail
        if header.generation == BIRTH:
            self.root = Root(BIRTH, 0, 0, [], 0)
        else:
            root = self._verified(header.root, header.root_sum, "the root")
            self.root = self._checked(decode_root, root, len(self._tail))
            if self.root.generation != self.generation:
                raise damaged(f"the header of generation {self.generation} has the root of {self.root.generation}")
        self.size = self.root.size
        if self.root.end > self._length():
            raise damaged(f"truncated: data lie up to {self.root.end}")

    def close(self):
        self._set_pin(None)
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read(self, begin=0, end=None):
        """Bytes `begin` .. `end` of the logical file, as far as it reaches."""
        end = self.size if end is None else min(end, self.size)
        out = bytearray(max(0, end - begin))
        view = np.frombuffer(out, np.uint8) if out else None
        at = begin
        while at < end:
            at += self._read_slice(at, min(end, at + SLICE), view[at - begin :])
        return bytes(out)

    # ---- The file below

    def _length(self):
        with self._lock:
            return self._file.seek(0, 2)

    def _bytes(self, offset, length):
        data = b""
        if offset + length <= self._length():  # before memory for it is asked for
            with self._lock:
                self._file.seek(offset)
                data = self._file.read(length)
        if len(data) != length:
            raise self._wrong(f"truncated: {length} bytes at {offset} are missing")
        return data

    def _newest_header(self):
        with self._lock:
            self._file.seek(0)
            return newest_header(self._file.read(FIRST_STORED))

    def _verified(self, extent, total, what):
        data = tail_part(self._tail, extent) if in_tail(extent) else self._bytes(*extent)
        if crc32c(data) != total:
            raise self._wrong(f"{what} has a wrong checksum")
        return data

    def _checked(self, decode, *arguments):
        try:
            return decode(*arguments)
        except (MemoryError, OverflowError) as error:
            raise damaged(f"it asks for {error}") from error

    def _wrong(self, what):
        """The error for what does not fit: the file is damaged, or was written anew below us."""
        with contextlib.suppress(IntervalError):
            now = self._newest_header().generation
            if now != getattr(self, "generation", now):
                return Replaced(f"generation {self.generation} was replaced by {now} while it was read: open it again")
        return damaged(what)

    def _set_pin(self, generation):
        """Moves the lock that tells writers which generation is read; None: away. Other than local files have none."""
        with contextlib.suppress(OSError, AttributeError, ValueError):
            descriptor = self._file.fileno()
            wanted = ((fcntl.F_UNLCK, self._pin), (fcntl.F_RDLCK, generation))
            for kind, number in wanted:
                if number is not None:
                    lock = struct.pack("hhqqi0q", kind, 0, PINS + number, 1, 0)
                    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, lock)
            self._pin = generation

    # ---- The logical file

    def _part(self, i):
        with self._lock:
            if i not in self._parts:
                entry = self.root.parts[i]
                data = self._verified(entry.metadata, entry.sum, f"the metadata of process {entry.process}")
                self._parts[i] = self._checked(decode_part, data, entry)
            return self._parts[i]

    def _read_slice(self, begin, end, out):
        """Fills `out` from `begin` on, up to `end` or fewer; returns how many bytes."""
        found = []
        for i, entry in enumerate(self.root.parts):
            if entry.bounds[0] < end and begin < sum(entry.bounds):
                pieces = pieces_between(self._part(i).groups, begin, end)
                if len(pieces[0]) > PIECES:  # a shorter slice, whose pieces are about as many
                    end = int(pieces[0][PIECES])
                    found = [clipped(each, end) for each in found]
                    pieces = clipped(pieces, end)
                found.append((*pieces, np.full(len(pieces[0]), i)))
        found = [each for each in found if len(each[0])]
        if found:
            logical, length, stored, part = (np.concatenate(column) for column in zip(*found))
            order = np.argsort(logical, kind="stable")
            if np.any((logical + length)[order[:-1]] > logical[order[1:]]):
                raise damaged("two processes have the same bytes")
            for i in np.unique(part):
                mine = part == i
                self._copy(int(i), logical[mine] - begin, length[mine], stored[mine], out)
        return end - begin

    def _copy(self, i, places, length, stored, out):
        """Pieces of one part, to their places in `out`."""
        runs, part = self.root.parts[i].runs, self._part(i)
        run = np.searchsorted(runs[:, 1], stored, side="right")
        if np.any(run == len(runs)) or np.any(stored < runs[run, 0]) or np.any(stored + length > runs[run, 1]):
            raise damaged("an interval is stored outside its process's runs")
        # Cut by cells, so that each piece lies within one.
        first, last = stored // CELL, (stored + length - 1) // CELL
        cuts = last - first + 1
        which = np.repeat(np.arange(len(stored)), cuts)
        cell = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
        low = np.maximum(stored[which], cell * CELL)
        high = np.minimum((stored + length)[which], (cell + 1) * CELL)
        places = places[which] + low - stored[which]
        data, start = self._fetch(i, part, np.unique(np.stack((cell, run[which])), axis=1))
        index = np.searchsorted(start[:, 0], low, side="right") - 1  # cells ascend, and runs in them
        gather(data, start[index, 1] + low - start[index, 0], out, places, high - low)

    def _fetch(self, i, part, cells):
        """The bytes of these cells of a part's runs, and where each begins in the file and among the bytes."""
        runs = self.root.parts[i].runs
        order = np.lexsort((cells[1], cells[0]))
        cell, run = cells[0][order], cells[1][order]
        begin = np.maximum(cell * CELL, runs[run, 0])
        end = np.minimum((cell + 1) * CELL, runs[run, 1])
        total = part.sums[part.first_sum[run] + cell - runs[run, 0] // CELL]
        lengths = end - begin
        found, missing = {}, []
        with self._lock:
            for at in begin.tolist():
                if at in self._cells:
                    self._cells.move_to_end(at)
                    found[at] = self._cells[at]
                else:
                    missing.append(at)
        ends = dict(zip(begin.tolist(), zip(end.tolist(), total.tolist())))
        for low, high in joined((at, ends[at][0]) for at in missing):
            data = self._bytes(low, high - low)
            at = low
            while at < high:
                cell_end, wanted = ends[at]
                found[at] = data[at - low : cell_end - low]
                if crc32c(found[at]) != wanted:
                    raise self._wrong(f"the data stored at {at} .. {cell_end} have a wrong checksum")
                at = cell_end
        with self._lock:
            for at in missing[-KEPT_CELLS:]:
                self._cells[at] = found[at]
            while len(self._cells) > KEPT_CELLS:
                self._cells.popitem(last=False)
        data = np.frombuffer(b"".join(found[at] for at in begin.tolist()), np.uint8)
        return data, np.stack((begin, np.cumsum(lengths) - lengths), axis=1)


def joined(extents):
    """Ascending extents, those that touch as one."""
    low = high = None
    for begin, end in extents:
        if begin == high:
            high = end
            continue
        if low is not None:
            yield low, high
        low, high = begin, end
    if low is not None:
        yield low, high


def pieces_between(groups, begin, end):
    """Logical offsets, lengths and stored offsets of the pieces in a range, clipped to it; PIECES + 1 of them at most."""
    ends = groups.end
    first, last = np.searchsorted(ends, begin, side="right"), np.searchsorted(groups.logical, end, side="left")
    logical, length, stored, count, stride, stored_stride = (
        column[first : min(last, first + PIECES + 1)]
        for column in (groups.logical, groups.length, groups.stored, groups.count, groups.stride, groups.stored_stride)
    )
    step = np.maximum(stride, 1)
    low = np.clip((begin - logical - length) // step + 1, 0, count)  # the first that ends behind `begin`
    high = np.clip((end - logical - 1) // step + 1, 0, count)  # the first that begins at `end` or behind it
    many = np.minimum(np.maximum(high - low, 0), PIECES + 1)
    keep = np.searchsorted(np.cumsum(many), PIECES + 1) + 1  # groups
    low, many = low[:keep], many[:keep]
    group = np.repeat(np.arange(len(many)), many)
    index = low[group] + np.arange(len(group)) - np.repeat(np.cumsum(many) - many, many)
    at = logical[group] + index * stride[group]
    from_ = stored[group] + index * stored_stride[group]
    cut = np.maximum(begin - at, 0)
    return clipped((at + cut, length[group] - cut, from_ + cut), end)


def clipped(pieces, end):
    """Those before `end`."""
    logical, length, *rest = pieces
    keep = logical < end
    logical = logical[keep]
    return (logical, np.minimum(length[keep], end - logical), *(column[keep] for column in rest))


def gather(source, source_at, out, out_at, length):
    """Copies pieces: long ones one by one, short ones all at once."""
    long = length >= 1024
    for s, o, n in zip(source_at[long].tolist(), out_at[long].tolist(), length[long].tolist()):
        out[o : o + n] = source[s : s + n]
    source_at, out_at, length = source_at[~long], out_at[~long], length[~long]
    which = np.repeat(np.arange(len(length)), length)
    inside = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)
    out[out_at[which] + inside] = source[source_at[which] + inside]
