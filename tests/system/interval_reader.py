"""A reader of interval files, written from docs/interval-file-format.md alone: it shows that the page is complete."""

import struct

MAGIC = b"\x89SIF\r\n\x1a\n"
CELL = 16384


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = _table()


def crc32c(data):
    state = 0xFFFFFFFF
    for byte in data:
        state = TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def verified(data, total, what):
    if crc32c(data) != total:
        raise ValueError(f"{what} has a wrong checksum")
    return data


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, length):
        self.at += length
        if self.at > len(self.data):
            raise ValueError("ends early")
        return self.data[self.at - length:self.at]

    def u32(self):
        return struct.unpack("<I", self.bytes(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.bytes(8))[0]

    def extent(self):
        return self.u64(), self.u64()

    def leb(self):
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self):
        value = self.leb()
        return (value >> 1) ^ -(value & 1)


def header(slot):
    fields = Fields(slot)
    if fields.bytes(8) != MAGIC:
        raise ValueError("not an interval file")
    version = fields.u32()
    if version != 1:
        raise ValueError(f"version {version}")
    fields.u32()
    found = fields.u64(), fields.extent(), fields.u32()
    verified(slot[:60], struct.unpack("<I", slot[60:64])[0], "header")
    return found


def pieces(data):
    fields = Fields(data)
    logical_end = stored_end = length = stride = 0
    count = 1
    while fields.at < len(data):
        flags = fields.bytes(1)[0]
        logical = logical_end + fields.leb()
        length = length if flags & 4 else fields.leb()
        stored = stored_end + (fields.zigzag() if flags & 2 else 0)
        if flags & 1:
            if not flags & 8:
                count, stride = fields.leb(), fields.leb()
            stored_stride = fields.zigzag() if flags & 16 else length
        else:
            count, stride, stored_stride = 1, 0, 0
        for i in range(count):
            yield logical + i * stride, length, stored + i * stored_stride
        logical_end = logical + (count - 1) * stride + length
        stored_end = stored + (count - 1) * stored_stride + length


def read(path, owned=lambda process, place, length: None):
    """The logical file. `owned` is told each piece."""
    with open(path, "rb") as file:
        data = file.read()
    slots = []
    for at in (0, 4096):
        try:
            slots.append(header(data[at:at + 64]))
        except ValueError:
            pass
    _, (at, length), total = max(slots)
    root = Fields(verified(data[at:at + length], total, "root"))
    assert root.bytes(4) == b"Root"
    root.u32(), root.u64()
    logical = bytearray(root.u64())
    for _ in range(root.u64()):
        process, total, (at, length), _, size = root.u32(), root.u32(), root.extent(), root.extent(), root.u64()
        runs = [root.extent() for _ in range(root.u64())]
        part = Fields(verified(data[at:at + length], total, "metadata"))
        assert part.bytes(4) == b"Part"
        part.u32()
        sums, map_length = part.u64(), part.u64()
        for begin, run_length in runs:
            end = begin + run_length
            while begin < end:
                cell_end = min(end, (begin // CELL + 1) * CELL)
                verified(data[begin:cell_end], part.u32(), "data")
                sums -= 1
                begin = cell_end
        assert sums == 0
        for place, length, stored in pieces(part.bytes(map_length)):
            assert any(begin <= stored and stored + length <= begin + run for begin, run in runs)
            logical[place:place + length] = data[stored:stored + length]
            owned(process, place, length)
            size -= length
        assert size == 0
    return bytes(logical)
