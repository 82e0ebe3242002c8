"""Docs, DocIndex, Ids, Seqs, Sources, IdMap (format-spec.md, section 10)."""

import struct

import lz4
from effects import read_document
from wire import NAME_BYTES_MAX, Cursor, File, Layout, finalise, fnv1a

INDEX_ENTRY = Layout("DocIndexEntry", "offset:u64 first_row:u32 rows:u32 stored_length:u32 raw_length:u32")
BLOCK_RAW_MAX = 75497472


def hash_of_id(text):
    return finalise(fnv1a(text.encode()))


class Rows:
    """The rows of a segment. Bodies are read block by block, when asked for."""

    def __init__(self, segment):
        self.segment, self.count = segment, segment.rows
        self.sections = segment.sections
        self.ids = self.read_ids()
        self.seqs = self.read_seqs()
        self.index = self.read_index()
        self.bodies = {}

    def read_ids(self):
        s = self.sections["Ids"]
        data = s.whole()
        starts = struct.unpack_from(f"<{self.count + 1}Q", data)
        base = 8 * (self.count + 1)
        s.claim(0, base, "starts")
        s.claim(base, s.length, "text")
        s.need(starts[0] == 0 and starts[-1] == s.aux, "starts")
        s.need(all(1 <= b - a <= NAME_BYTES_MAX for a, b in zip(starts, starts[1:])), "length of an id")
        try:
            return [data[base + a:base + b].decode("utf-8") for a, b in zip(starts, starts[1:])]
        except UnicodeDecodeError:
            raise s.file.damage(s.start, "an id is not UTF-8") from None

    def read_seqs(self):
        s, named = self.sections["Seqs"], self.segment.named
        data = s.whole()
        s.claim(0, s.length, "seqs")
        if s.aux == 0:
            relative = range(self.count)
        else:
            relative = struct.unpack(f"<{self.count}{'I' if s.aux == 4 else 'Q'}", data)
        s.need(all(a < b for a, b in zip(relative, relative[1:])), "seqs do not ascend")
        s.need(not self.count or named.base_seq + relative[-1] == named.last_seq, "last_seq is not that of the last row")
        return [named.base_seq + r for r in relative]

    def read_index(self):
        s, docs = self.sections["DocIndex"], self.sections["Docs"]
        s.whole()
        entries, row, offset, raw = [], 0, 0, 0
        for i in range(s.items):
            e = s.file.read(s.start + 24 * i, INDEX_ENTRY, f"{s.prefix}[{i}]")
            s.need(e.offset == offset and e.first_row == row and e.rows >= 1, f"entry {i}", 24 * i)
            s.need(e.stored_length <= e.raw_length <= min(255 * e.stored_length, BLOCK_RAW_MAX), f"lengths of entry {i}", 24 * i)
            s.need(e.raw_length >= 4 * e.rows, f"raw length of entry {i}", 24 * i)
            offset, row, raw = offset + e.stored_length, row + e.rows, raw + e.raw_length
            entries.append(e)
        s.need(row == self.count and offset == docs.length and raw == docs.aux, "the blocks are not those of Docs")
        return entries

    def body(self, row):
        """The document version of a row, without id and vector."""
        if row not in self.bodies:
            number = next(i for i, e in enumerate(self.index) if e.first_row <= row < e.first_row + e.rows)
            self.read_block(number)
        return self.bodies[row]

    def read_block(self, number):
        s, e = self.sections["Docs"], self.index[number]
        stored = s.part(e.offset, e.stored_length)
        raw = stored if e.stored_length == e.raw_length else lz4.decompress(stored, e.raw_length)
        s.need(raw is not None, f"block {number} does not decompress to {e.raw_length} bytes", e.offset)
        file = File(f"{s.file.name}, Docs block {number}", raw)
        ends = struct.unpack(f"<{e.rows}I", file.take(0, 4 * e.rows, "ends"))
        base, start = 4 * e.rows, 0
        for i, end in enumerate(ends):
            s.need(start <= end <= len(raw) - base, f"ends of block {number}", e.offset)
            cursor = Cursor(file, base + start, base + end, "body")
            self.bodies[e.first_row + i] = read_document(cursor, body=True)
            cursor.finish("the document")
            start = end
        if base + start < len(raw):
            file.claim(base + start, len(raw), "after the last body")
        if e.stored_length < e.raw_length:
            s.claim(e.offset, e.offset + e.stored_length, f"block {number}")
        else:
            for a, b, what in file.claims:
                s.claim(e.offset + a, e.offset + b, f"block {number}.{what}")

    def verify(self):
        """Checks the derived and the doubled against the bodies: every block, Sources and IdMap."""
        for row in range(self.count):
            self.body(row)
        self.verify_sources()
        self.verify_id_map()

    def verify_sources(self):
        s, count = self.sections["Sources"], self.count
        of_row = [self.bodies[r].source for r in range(count)]
        data = s.whole()
        names = sorted({n for n in of_row if n is not None}, key=str.encode)
        s.need(s.items == len(names), "number of sources")
        if not names:
            s.need(s.length == 0 and s.aux == 0, "sources without a name")
            return
        known = sum(n is not None for n in of_row)
        n, at, parts = len(names), 0, {}
        for what, code, items in (("name_starts", "Q", n + 1), ("row_starts", "I", n + 1), ("source_of_row", "I", count), ("rows", "I", known)):
            size = struct.calcsize(f"<{items}{code}")
            s.need(at + size <= s.length, "length")
            parts[what] = list(struct.unpack_from(f"<{items}{code}", data, at))
            s.claim(at, at + size, what)
            at += size
        s.need(s.length == at + s.aux, "length")
        s.claim(at, s.length, "names")
        encoded = [name.encode() for name in names]
        s.need(data[at:] == b"".join(encoded), "names")
        rows = [[r for r in range(count) if of_row[r] == name] for name in names]
        s.need(parts["name_starts"] == running(map(len, encoded)), "name_starts")
        s.need(parts["row_starts"] == running(map(len, rows)), "row_starts")
        s.need(parts["rows"] == [r for some in rows for r in some], "rows")
        number = {name: i + 1 for i, name in enumerate(names)}
        s.need(parts["source_of_row"] == [number.get(name, 0) for name in of_row], "source_of_row")

    def verify_id_map(self):
        s = self.sections["IdMap"]
        buckets = [0] * s.aux
        for row, text in enumerate(self.ids):
            h = hash_of_id(text)
            at = h & (s.aux - 1)
            while buckets[at]:
                at = (at + 1) & (s.aux - 1)
            buckets[at] = h >> 32 << 32 | (row + 1)
        s.need(s.whole() == struct.pack(f"<{s.aux}Q", *buckets), "buckets")
        s.claim(0, s.length, "buckets")


def running(lengths):
    """0 and the sums up to each."""
    sums = [0]
    for n in lengths:
        sums.append(sums[-1] + n)
    return sums
