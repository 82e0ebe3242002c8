"""The metadata index (format-spec.md, section 12a)."""

import json
import struct

import roaring
from fst import Fst
from wire import Cursor, Layout, fnv1a

ENTRY = Layout("MetadataRowsEntry", "location:u64")
LIST = Layout("MetadataListHeader", "rows:u32 length:u32")
PATH_MAX, STRING_MAX, PLAIN_MAX, SOLE = 256, 128, 8, 1 << 63


def number(value):
    """Section 12a.3: ten bytes in the order of numbers."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        value = float(value)
    f = float(value) or 0.0
    bits = struct.unpack(">Q", struct.pack(">d", f))[0]
    bits = bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 1 << 63
    excess = value - int(f) if isinstance(value, int) else 0
    return struct.pack(">QH", bits, excess + 32768)


def hashed(data):
    return struct.pack(">Q", fnv1a(data))


def field(path):
    path = path.encode()
    return path + b"\xff" if len(path) <= PATH_MAX else path[:PATH_MAX] + b"\xfe" + hashed(path) + b"\xff"


def key_of(value):
    """Kind and value of a scalar, or None."""
    if value is None:
        return 2, b""
    if isinstance(value, bool):
        return 3, b"\x01" if value else b"\x00"
    if isinstance(value, (int, float)):
        return 4, number(value)
    if isinstance(value, str):
        text = value.encode()
        return 5, text if len(text) <= STRING_MAX else text[:STRING_MAX] + b"\xff" + hashed(text)
    return None


def paths(metadata):
    """Section 12a.1: each path with the value that it reaches."""
    found = dict(metadata)

    def below(path, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                step = f"{path}.{key}"
                if "." not in key:
                    # A key of the metadata itself goes first, but hides only this one text and not what lies deeper.
                    found.setdefault(step, inner)
                    below(step, inner)

    for key, value in metadata.items():
        if "." not in key:
            below(key, value)
    return found


def keys(text):
    """The keys of a document by its metadata, as stored."""
    found = set()
    for path, value in paths(json.loads(text)).items():
        name = field(path)
        found.add(name + b"\x01")
        some = [(value, 0)] + [(v, 16) for v in (value if isinstance(value, list) else [])]
        for v, extra in some:
            scalar = key_of(v)
            if scalar:
                found.add(name + bytes([scalar[0] + extra]) + scalar[1])
    return found


class MetadataIndex:
    """Both sections decoded whole: the rows of every key."""

    def __init__(self, segment):
        terms, rows = segment.sections["MetadataTerms"], segment.sections["MetadataRows"]
        self.terms, self.rows_section, file = terms, rows, segment.file
        terms.whole(), rows.whole()
        terms.need(terms.aux == segment.rows and rows.items == terms.items, "items and aux")
        rows.need(rows.length == rows.aux + 8 * rows.items, "length")
        pairs = Fst(file, terms.start, terms.length, terms.prefix).pairs()
        terms.need([rank for _, rank in pairs] == list(range(terms.items)), "ranks")
        self.found, end = {}, 0
        for key, rank in pairs:
            at = rows.start + rows.aux + 8 * rank
            location = file.read(at, ENTRY, f"{rows.prefix}.entry").location
            if location & SOLE:
                self.found[key] = [location ^ SOLE]
                continue
            rows.need(location == end, "lists do not follow each other", location)
            self.found[key], end = self.read_list(file, rows, location)
        rows.need(end == rows.aux, "bytes after the last list")

    def read_list(self, file, s, location):
        at = s.start + location
        s.need(location + LIST.size <= s.aux, "a list leaves the lists", location)
        h = file.read(at, LIST, f"{s.prefix}.list")
        end = at + LIST.size + h.length
        s.need(h.rows >= 2 and end <= s.start + s.aux, "a list", location)
        c = Cursor(file, at + LIST.size, end, f"{s.prefix}.rows")
        found = [c.u32("row") for _ in range(h.rows)] if h.rows <= PLAIN_MAX else roaring.read32(c)
        c.finish("the last row")
        s.need(len(found) == h.rows and all(a < b for a, b in zip(found, found[1:])), "rows of a list", location)
        return found, end - s.start

    def verify(self, metadata):
        """Compares with the metadata of the rows, None where a row has none."""
        expected = {}
        for row, text in enumerate(metadata):
            for key in keys(text) if text is not None else ():
                expected.setdefault(key, []).append(row)
        self.terms.need(expected.keys() == self.found.keys(), "the keys are not those of the metadata")
        for key, rows in expected.items():
            self.rows_section.need(self.found[key] == rows, f"rows of {key!r}")
