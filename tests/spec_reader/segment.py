"""The container of a segment: header, section table, block checksums, footer (format-spec.md, section 9)."""

from wire import (BLOCK_BYTES, SECTION_PAGE_THRESHOLD, SECTIONS_MAX, SEGMENT_ROWS_MAX, Layout, Newer, crc32, crc_with_zero)

SEGMENT_MAGIC = b"\x89TRIseg\n"
FOOTER_MAGIC = b"\nTRIend\x89"
SEGMENT_MAJOR, SEGMENT_MINOR = 1, 0
CRITICAL, DERIVED = 1, 2

HEADER = Layout("SegmentHeader", "magic:8 major:u16 minor:u16 crc:u32 database:16 origin_file:u64 origin_index:u32 reserved:20")
ENTRY = Layout("SectionEntry", """kind:u16 flags:u16 crcs_crc:u32 offset:u64 length:u64 items:u64 aux:u64 crcs_offset:u64 reserved:16""")
FOOTER = Layout("SegmentFooter", """magic:8 length:u64 table_offset:u64 table_copy_offset:u64 sections:u32 table_crc:u32 header_crc:u32
    reserved:16 crc:u32""")

KINDS = {1: "Docs", 2: "DocIndex", 3: "Ids", 4: "Seqs", 5: "Vectors", 6: "VectorRows", 7: "Sources", 32: "IdMap", 33: "VectorNorms",
         34: "Terms", 35: "TermInfos", 36: "Postings", 37: "Lengths", 38: "VectorGraph", 39: "VectorCodes", 40: "Entities", 41: "EntityDocs", 42: "RelationsByTarget",
         43: "MetadataTerms", 44: "MetadataRows", 45: "Statistics", 47: "EntityNames", 48: "Mentions", 49: "RelationsBySource"}
ALWAYS = ("Docs", "DocIndex", "Ids", "Seqs", "Sources", "IdMap")
GROUPS = (("Terms", "TermInfos", "Postings", "Lengths", "Statistics"), ("MetadataTerms", "MetadataRows"),
          ("Entities", "EntityNames", "Mentions", "EntityDocs", "RelationsBySource", "RelationsByTarget"), ("Vectors", "VectorNorms"))


class Section:
    """A section, whose blocks are checked before they are used."""

    def __init__(self, segment, entry, name):
        self.segment, self.entry, self.name = segment, entry, name
        self.file, self.start = segment.file, segment.start + entry.offset
        self.length, self.items, self.aux = entry.length, entry.items, entry.aux
        self.end = self.start + self.length
        self.blocks = (self.length + BLOCK_BYTES - 1) // BLOCK_BYTES
        self.crcs_start = segment.start + entry.crcs_offset
        self.checked, self.array_checked = set(), False
        self.prefix = f"{segment.prefix}{name}"

    def check(self, start=0, end=None):
        """Compares the checksums of the blocks that hold the bytes from start to end of the section."""
        end = self.length if end is None else end
        if not self.array_checked:
            array = self.file.data[self.crcs_start:self.crcs_start + 4 * self.blocks]
            self.file.need(crc32(array) == self.entry.crcs_crc, self.crcs_start, f"{self.prefix}: checksum of the block checksums")
            self.array_checked = True
        for block in range(start // BLOCK_BYTES, (end + BLOCK_BYTES - 1) // BLOCK_BYTES):
            if block not in self.checked:
                at = self.start + block * BLOCK_BYTES
                stored = int.from_bytes(self.file.data[self.crcs_start + 4 * block:self.crcs_start + 4 * block + 4], "little")
                data = self.file.data[at:min(at + BLOCK_BYTES, self.end)]
                self.file.need(crc32(data) == stored, at, f"{self.prefix}: checksum of block {block}")
                self.checked.add(block)

    def part(self, start, length):
        """Checked bytes of the section, not claimed."""
        self.file.need(0 <= start and start + length <= self.length, self.start, f"{self.prefix}: {length} bytes at {start} leave it")
        self.check(start, start + length)
        return self.file.data[self.start + start:self.start + start + length]

    def whole(self):
        self.check()
        return self.file.data[self.start:self.end]

    def claim(self, start, end, what):
        self.file.claim(self.start + start, self.start + end, f"{self.prefix}.{what}")

    def need(self, condition, what, at=0):
        self.file.need(condition, self.start + at, f"{self.prefix}: {what}")


class Segment:
    """A segment as `named` says: its offset, length and the checksum of its footer."""

    def __init__(self, file, named, database, prefix=""):
        self.file, self.named, self.prefix, self.notes = file, named, prefix, []
        self.start, self.length = named.offset, named.length
        need = file.need
        need(self.start + self.length <= len(file), self.start, f"the segment does not lie inside {len(file)} bytes")
        need(self.length >= HEADER.size + FOOTER.size, self.start, "shorter than header and footer")
        self.read_footer()
        self.read_header(database)
        entries = self.read_table()
        self.sections = {}
        for entry in entries:
            name = KINDS.get(entry.kind)
            if name is None:
                if entry.flags & CRITICAL:
                    raise Newer(file.name, self.start, f"a critical section of kind {entry.kind}")
                name = f"kind {entry.kind}"
            need(name not in self.sections, self.start, f"{name} stands twice in the table")
            self.sections[name] = Section(self, entry, name)
        self.check_layout()
        self.check_numbers()

    def at(self, offset):
        return self.start + offset

    def read_footer(self):
        at = self.start + self.length - FOOTER.size
        need = self.file.need
        raw = self.file.raw(at, FOOTER)
        need(raw[:8] == FOOTER_MAGIC, at, "magic of the footer")
        f = self.footer = self.file.read(at, FOOTER, "footer", claim=False)
        need(crc32(raw[:60]) == f.crc, at, "checksum of the footer")
        need(f.crc == self.named.crc, at, "the footer is not the one that was named")
        need(f.length == self.length, at, "length")
        need(f.sections <= SECTIONS_MAX, at, "too many sections")
        self.file.reserved_is_zero(f, at, FOOTER)
        size = f.sections * ENTRY.size
        for offset in (f.table_offset, f.table_copy_offset):
            need(HEADER.size <= offset and offset + size <= self.length - FOOTER.size, at, "a table leaves the segment")

    def read_header(self, database):
        raw, need = self.file.raw(self.start, HEADER), self.file.need
        need(raw[:8] == SEGMENT_MAGIC, self.start, "magic of the header")
        h = self.header = self.file.read(self.start, HEADER, "header", claim=False)
        need(crc_with_zero(raw, HEADER.offsets["crc"]) == h.crc, self.start, "checksum of the header")
        need(h.major >= 1, self.start, "version 0 was never released")
        if h.major > SEGMENT_MAJOR:
            raise Newer(self.file.name, self.start, f"segment version {h.major}")
        need(h.crc == self.footer.header_crc, self.start, "the header is not the one that the footer names")
        need(h.database == database, self.start, "of another database")
        if h.minor <= SEGMENT_MINOR:
            self.file.reserved_is_zero(h, self.start, HEADER)

    def read_table(self):
        f, size = self.footer, self.footer.sections * ENTRY.size
        for offset in (f.table_offset, f.table_copy_offset):
            at = self.at(offset)
            if crc32(self.file.data[at:at + size]) == f.table_crc:
                return [self.file.read(at + i * ENTRY.size, ENTRY, "entry", claim=False) for i in range(f.sections)]
            self.notes.append(Note(self.file.name, at, "a copy of the section table fails its checksum"))
        raise self.file.damage(self.at(f.table_offset), "both copies of the section table fail their checksum")

    def check_layout(self):
        need, at = self.file.need, self.at(self.footer.table_offset)
        end = HEADER.size
        for s in self.sections.values():
            e = s.entry
            to = 4096 if e.length >= SECTION_PAGE_THRESHOLD else 64
            need(e.offset >= end and e.offset % to == 0, at, f"{s.name} starts at {e.offset}")
            end = e.offset + e.length
            need(end <= self.footer.table_offset, at, f"{s.name} ends at {end}")
        for s in self.sections.values():
            e = s.entry
            need(e.crcs_offset % 4 == 0 and e.crcs_offset >= end, at, f"block checksums of {s.name}")
            end = e.crcs_offset + 4 * s.blocks
            need(end <= self.footer.table_offset, at, f"block checksums of {s.name}")
            need(not any(e.reserved), at, f"reserved bytes of {s.name}")
            expected = CRITICAL if e.kind < 32 else DERIVED
            need(e.flags & 3 == expected or s.name.startswith("kind"), at, f"flags of {s.name}")

    def check_numbers(self):
        """Section 9.5, 11, 12 and 19: items and aux against lengths and each other."""
        at, s = self.at(self.footer.table_offset), self.sections

        def need(condition, what):
            self.file.need(condition, at, what)

        for name in ALWAYS:
            need(name in s, f"no section {name}")
        for group in GROUPS:
            need(len({name in s for name in group}) == 1, f"some but not all of {group}")
        rows = s["Docs"].items
        need(rows <= SEGMENT_ROWS_MAX and rows == self.named.rows, "rows")
        need(all(s[name].items == rows for name in ("Ids", "Seqs", "IdMap")), "sections differ in rows")
        need(s["DocIndex"].length == 24 * s["DocIndex"].items and s["DocIndex"].aux == 0, "DocIndex")
        need(s["Ids"].length == 8 * (rows + 1) + s["Ids"].aux, "Ids")
        need(s["Seqs"].aux in (0, 4, 8) and s["Seqs"].length == rows * s["Seqs"].aux, "Seqs")
        buckets = 1
        while buckets < (rows * 10 + 6) // 7:
            buckets *= 2
        need(s["IdMap"].aux == buckets and s["IdMap"].length == 8 * buckets, "IdMap")
        self.rows = rows

    def claim(self):
        """Claims all but the sections themselves."""
        file, f, prefix = self.file, self.footer, self.prefix
        file.claim_record(self.start, HEADER, prefix + "header")
        end = self.at(HEADER.size)
        for s in self.sections.values():
            file.zeros(end, s.start, f"before {s.name}")
            end = s.end
        for s in self.sections.values():
            file.zeros(end, s.crcs_start, "before block checksums")
            end = s.crcs_start + 4 * s.blocks
            file.claim(s.crcs_start, end, f"{s.prefix}.block checksums")
        file.zeros(end, self.at(f.table_offset), "before the section table")
        for offset, what in ((f.table_offset, "section table"), (f.table_copy_offset, "copy of the section table")):
            for i, name in enumerate(self.sections):
                file.claim_record(self.at(offset) + i * ENTRY.size, ENTRY, f"{prefix}{what}.{name}")
        end = self.at(f.table_offset) + f.sections * ENTRY.size
        file.zeros(end, self.at(f.table_copy_offset), "before the copy of the section table")
        at = self.start + self.length - FOOTER.size
        file.zeros(self.at(f.table_copy_offset) + f.sections * ENTRY.size, at, "before the footer")
        file.claim_record(at, FOOTER, prefix + "footer")
        first, copy = self.at(f.table_offset), self.at(f.table_copy_offset)
        size = f.sections * ENTRY.size
        file.need(file.data[first:first + size] == file.data[copy:copy + size], copy, "the copies of the section table differ")


class Note:
    """Damage that a reader gets around."""

    def __init__(self, file, offset, what):
        self.file, self.offset, self.what = file, offset, what
