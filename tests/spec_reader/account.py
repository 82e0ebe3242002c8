"""Accounts for every byte of a database, and holds what is derived against what it is derived from.

Each file is covered by claims, once and only once: a claim is a field of the specification, padding that must be zero, or bytes that the
specification says mean nothing (BALLAST, a tail that was never synced, a leftover).
"""

import head
import log
import segment
import tombstones
from effects import content_hash
from graph import Graph, mentioned
from metadata import MetadataIndex
from recovery import Database
from text import TextIndex
from vector_graph import VectorGraph
from wire import Cursor, Damage, align


class Account:
    """`errors` are bytes without a claim, with two, or padding that is not zero."""

    def __init__(self, path):
        self.database = Database(path)
        self.database.load()
        self.errors, self.claimed, self.total = [], 0, 0
        self.verify()
        self.claim_rest()
        for name in self.database.names:
            self.cover(self.database.file(name))

    def verify(self):
        """Derived against primary, for each segment."""
        for part in self.database.parts:
            part.segment.claim()
            part.rows.verify()
            part.vectors.verify()
            VectorGraph(part.segment, part.vectors, part.life.schema).verify()
            verify_part(part)

        for life in self.database.collections.values():
            if "listed" in life:
                self.check_totals(life)

    def check_totals(self, life):
        """Section 6.2: what a manifest counts of a collection's live documents."""
        name = f"m-{self.database.slot.manifest_number:016x}.manifest"
        parts = [p for p in self.database.parts if p.life is life and p.segment.named in life.listed.segments]
        vectors = tokens = 0
        for part in parts:
            dead = set(part.dead)
            live = [row for row in range(part.segment.rows) if row not in dead]
            vectors += sum(row in part.vectors.by_row for row in live)
            tokens += sum(part.lengths[row] for row in live)
        if vectors != life.listed.vectors or tokens != life.listed.tokens:
            raise Damage(name, 64, f"{life.name} has {vectors} live vectors and {tokens} tokens")

    def claim_rest(self):
        db = self.database
        head.claim_head(db.file("HEAD"))
        for name, what in (("BALLAST", "spare room"), ("LOCK", "for people")):
            if name in db.names:
                db.file(name).claim(0, len(db.file(name)), what)
        applied = {r.lsn for _, r in db.records()}
        for scan in db.logs:
            scan.claim()
            for r in scan.records:
                if r.lsn not in applied:
                    at = r.self_offset + log.RECORD.size
                    scan.file.claim(at, at + r.payload_length, f"record {r.lsn}.payload, in the manifest already")
        for name in db.names:
            file = db.file(name)
            if name.endswith(".segments"):
                claim_between_segments(db, file)
            elif name.endswith(".tombstones") and file.claims:
                claim_other_envelopes(file)
            if not file.claims:
                file.claim(0, len(file), "leftover: nothing names it")

    def cover(self, file):
        end = 0
        for start, stop, what in sorted(file.claims):
            if start > end:
                self.errors.append(f"{file.name}: bytes {end} to {start} are nothing")
            if start < end:
                self.errors.append(f"{file.name}: bytes {start} to {min(end, stop)} are {what} and something else")
            if what.startswith("zero: ") and any(file.data[start:stop]):
                self.errors.append(f"{file.name}: bytes {start} to {stop} ({what}) are not all zero")
            end = max(end, stop)
            self.claimed += stop - start
        if end < len(file):
            self.errors.append(f"{file.name}: bytes {end} to {len(file)} are nothing")
        self.total += len(file)


def verify_part(part):
    """The numbers that a manifest repeats, and all derived sections."""
    s, named = part.segment, part.segment.named
    documents = [part.document(row) for row in range(s.rows)]
    s.file.need(sum(map(content_hash, documents)) % (1 << 64) == named.content_hash, s.start, "content hash of the segment")
    part.lengths = [0] * s.rows
    if "Terms" in s.sections:
        text = TextIndex(s)
        part.lengths = text.lengths
        text.verify([d.text for d in documents])
        s.file.need(text.statistics.tokens == named.tokens, s.start, "tokens of the segment")
        verify_dead(part, text)
    if "MetadataTerms" in s.sections:
        MetadataIndex(s).verify([d.metadata for d in documents])
    extractor = part.life.schema["extractor"]
    some = any(mentioned(d, extractor) or d.relations for d in documents)
    s.file.need(some == ("Entities" in s.sections), s.start, "graph sections are there exactly when a row mentions or relates an entity")
    if some:
        Graph(s).verify(documents, extractor)


def verify_dead(part, text):
    """Section 13.3: in how many dead rows each term stands."""
    dead, expected = set(part.dead), {}
    for ordinal, postings in enumerate(text.postings):
        found = sum(row in dead for row, _ in postings)
        if found:
            expected[ordinal] = found
    if expected != part.frequencies:
        raise Damage(part.segment.file.name, part.segment.start, "dead document frequencies of its tombstones")


def claim_between_segments(db, file):
    """Segments start at multiples of 4,096; one that nothing names is left by a merge of others."""
    ends = sorted((p.segment.start, p.segment.start + p.segment.length) for p in db.parts if p.segment.file is file)
    if not ends:
        return
    end = 0
    for start, stop in ends + [(len(file), len(file))]:
        gap = align(end, 4096)
        if gap < start and file.data[gap:gap + 8] == segment.SEGMENT_MAGIC:
            file.zeros(end, gap, "between segments")
            file.claim(gap, start, "segments that nothing names any more")
        elif end < start:
            file.zeros(end, start, "between segments")
        end = stop


def claim_other_envelopes(file):
    """Walks the envelopes of a file of which some are named, and claims the others."""
    named = {start for start, _, what in file.claims if what.endswith("envelope.magic")}
    at, ends = tombstones.HEADER.size, []
    while at + tombstones.ENVELOPE.size <= len(file):
        # What begins otherwise is no envelope, and claims nothing: zeros after the last one are padding.
        if int.from_bytes(file.data[at:at + 4], "little") != tombstones.ENVELOPE_MAGIC:
            break
        e = file.read(at, tombstones.ENVELOPE, "unnamed.envelope", claim=at not in named)
        end = at + tombstones.ENVELOPE.size + e.body_length
        if at not in named:
            Cursor(file, at + tombstones.ENVELOPE.size, end, "unnamed").take(e.body_length, "body")
        ends.append((at, end))
        at = align(end, tombstones.ALIGN)
    tombstones.claim_padding(file, ends)
