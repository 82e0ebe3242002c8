"""Bytes, checksums, and the claim that each byte of a file is accounted for (format-spec.md, sections 2 and 3).

A `File` holds the bytes of one file and a list of claims: who read which bytes as what. `account.py` asks whether the claims cover the file
once and only once. A `Cursor` reads one item after another and claims each.
"""

import struct
import zlib


class Problem(Exception):
    """What keeps a reader from answering. `kind` is the verdict that it leads to."""

    kind = "corrupt"

    def __init__(self, file, offset, what):
        super().__init__(f"{file} at byte {offset}: {what}")
        self.file, self.offset, self.what = file, offset, what


class Damage(Problem):
    """A file differs from what the specification allows."""


class Newer(Problem):
    """Sound, and made by a version that this reader does not know."""

    kind = "unsupported"


class Absent(Problem):
    """There is no database, or only an unfinished creation."""

    kind = "not-found"


def crc32(data, seed=b""):
    """Section 3: CRC-32 of ISO 3309, over the seed and then the bytes."""
    return zlib.crc32(data, zlib.crc32(seed))


def crc_with_zero(data, at):
    """The checksum with the four bytes at `at` taken as zero."""
    return zlib.crc32(data[at + 4:], zlib.crc32(b"\0\0\0\0", zlib.crc32(data[:at])))


MASK64 = (1 << 64) - 1
FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


def fnv1a(data):
    """FNV-1a of 64 bits (10.7, 12a.2)."""
    h = FNV_OFFSET
    for b in data:
        h = ((h ^ b) * FNV_PRIME) & MASK64
    return h


def finalise(h):
    """The finaliser of MurmurHash3 (10.7)."""
    h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & MASK64
    h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & MASK64
    return h ^ (h >> 33)


def align(n, to):
    return (n + to - 1) // to * to


class Layout:
    """A table of the specification: names and types of fields, without gaps."""

    CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}

    def __init__(self, name, text):
        self.name, self.fields, self.offsets, self.size = name, [], {}, 0
        for word in text.split():
            field, kind = word.split(":")
            code = self.CODES.get(kind) or f"{kind}s"
            self.fields.append((field, code, struct.calcsize("<" + code)))
            self.offsets[field] = self.size
            self.size += self.fields[-1][2]
        self.struct = struct.Struct("<" + "".join(code for _, code, _ in self.fields))


class Record(dict):
    """The fields of a structure, as keys and as attributes."""

    def __getattribute__(self, name):
        # A field may have the name of a method of dict, as `items` has.
        return self[name] if name in self else dict.__getattribute__(self, name)


class File:
    """The bytes of a file and the claims on them."""

    def __init__(self, name, data):
        self.name, self.data, self.claims = name, data, []

    def __len__(self):
        return len(self.data)

    def damage(self, offset, what):
        return Damage(self.name, offset, what)

    def need(self, condition, offset, what):
        if not condition:
            raise Damage(self.name, offset, what)

    def claim(self, start, end, what):
        """Says that the bytes from start to end are `what`."""
        if start == end:
            return
        if self.claims:
            last = self.claims[-1]
            if last[1] == start and last[2] == what:
                self.claims[-1] = (last[0], end, what)
                return
        self.claims.append((start, end, what))

    def take(self, start, length, what):
        """Bytes that must be there, claimed."""
        self.need(0 <= start and start + length <= len(self.data), start, f"{what}: {length} bytes do not lie inside {len(self.data)}")
        self.claim(start, start + length, what)
        return self.data[start:start + length]

    def read(self, at, layout, prefix, claim=True):
        """A structure by its layout; the caller has checked or will check its checksum."""
        self.need(at + layout.size <= len(self.data), at, f"{prefix}: {layout.size} bytes do not lie inside {len(self.data)}")
        record = Record(zip((f[0] for f in layout.fields), layout.struct.unpack_from(self.data, at)))
        if claim:
            self.claim_record(at, layout, prefix)
        return record

    def claim_record(self, at, layout, prefix):
        for field, _, size in layout.fields:
            self.claim(at, at + size, f"{prefix}.{field}")
            at += size

    def raw(self, at, layout):
        return self.data[at:at + layout.size]

    def reserved_is_zero(self, record, at, layout):
        """Section 2.1: reserved fields and padding of a known version are zero."""
        for field in ("reserved", "padding"):
            value = record.get(field, 0)
            zero = value == 0 if isinstance(value, int) else not any(value)
            self.need(zero, at + layout.offsets.get(field, 0), f"{layout.name}.{field} is not zero")

    def zeros(self, start, end, what):
        """Padding: claimed, and asserted to be zero by whoever accounts for the file."""
        self.claim(start, end, "zero: " + what)


class Cursor:
    """Reads items from `pos` to `end` of a file, claiming each under `prefix`."""

    def __init__(self, file, pos, end, prefix):
        self.file, self.pos, self.end, self.prefix = file, pos, end, prefix

    def take(self, length, what):
        if self.pos + length > self.end:
            raise self.file.damage(self.pos, f"{self.prefix}.{what}: {length} bytes do not fit before {self.end}")
        data = self.file.data[self.pos:self.pos + length]
        self.file.claim(self.pos, self.pos + length, f"{self.prefix}.{what}")
        self.pos += length
        return data

    def number(self, code, what):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0]

    def u8(self, what):
        return self.number("B", what)

    def u16(self, what):
        return self.number("H", what)

    def u32(self, what):
        return self.number("I", what)

    def u64(self, what):
        return self.number("Q", what)

    def f32(self, what):
        return self.number("f", what)

    def f64(self, what):
        return self.number("d", what)

    def varint(self, what, limit=MASK64):
        """Section 2.2."""
        value, start, data = 0, self.pos, self.file.data
        for i in range(10):
            if start + i >= self.end:
                raise self.file.damage(start, f"{self.prefix}.{what}: a varint does not end")
            byte = data[start + i]
            if i == 9 and byte > 1:
                raise self.file.damage(start, f"{self.prefix}.{what}: a varint is too large")
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                self.file.claim(start, start + i + 1, f"{self.prefix}.{what}")
                self.pos = start + i + 1
                break
        else:
            raise self.file.damage(start, f"{self.prefix}.{what}: a varint is too long")
        if value > limit:
            raise self.file.damage(start, f"{self.prefix}.{what}: {value} is above {limit}")
        return value

    def count(self, what, least=1):
        """A varint that counts things of at least `least` bytes each, so that it cannot be more than what is left."""
        value = self.varint(what)
        if value * least > self.end - self.pos:
            raise self.file.damage(self.pos, f"{self.prefix}.{what}: {value} of them do not fit")
        return value

    def bytes(self, what, limit=MASK64):
        """`bytes` of section 8: a varint length and that many bytes."""
        return self.take(self.varint(what + ".length", limit), what)

    def text(self, what, limit=MASK64):
        """`text` of section 8: bytes in UTF-8."""
        at = self.pos
        try:
            return self.bytes(what, limit).decode("utf-8")
        except UnicodeDecodeError:
            raise self.file.damage(at, f"{self.prefix}.{what} is not UTF-8") from None

    def name(self, what):
        """`name` of section 8: text of 1 to NAME_BYTES_MAX bytes."""
        at = self.pos
        text = self.text(what, NAME_BYTES_MAX)
        self.file.need(text, at, f"{self.prefix}.{what} is empty")
        return text

    def finish(self, what):
        self.file.need(self.pos == self.end, self.pos, f"{self.prefix}: {self.end - self.pos} bytes after {what}")


COUNTER_MAX = (1 << 63) - 1
NAME_BYTES_MAX = 1024
METADATA_BYTES_MAX = 1 << 20
TEXT_BYTES_MAX = 64 << 20
GRAPH_BYTES_MAX = 4 << 20
DIMENSION_MAX = 65535
SEGMENT_ROWS_MAX = 1 << 31
RECORD_BYTES_MAX = 8 << 20
BLOCK_BYTES = 4096
SECTION_PAGE_THRESHOLD = 65536
SECTIONS_MAX = 256
