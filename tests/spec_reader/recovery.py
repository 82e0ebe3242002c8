"""From a directory to a state: which slot, which logs, the verdict, and the effects (format-spec.md, sections 4.2, 7.3, 7.4, 14)."""

import os
import re

import head
import log
import manifest
import tombstones
from effects import read_commit
from rows import Rows
from segment import Segment
from vectors import Vectors
from wire import Absent, Damage, File, Newer, Record

NAMED = re.compile(r"(?:m-([0-9a-f]{16})\.manifest|w-([0-9a-f]{16})\.wal|s-([0-9a-f]{16})\.segments|d-([0-9a-f]{16})\.tombstones)\Z")
FIXED = ("HEAD", "LOCK", "WITNESS", "BALLAST")
CREATED = ("m-0000000000000001.manifest", "w-0000000000000001.wal")


def is_part(name):
    return name in FIXED or NAMED.match(name) is not None


class Part:
    """A segment of a collection with what is read of it: rows, vectors, dead rows."""

    def __init__(self, database, collection, named, prefix):
        file = database.file(f"s-{named.file:016x}.segments")
        self.segment = Segment(file, named, database.slot.database, prefix)
        self.rows = Rows(self.segment)
        self.vectors = Vectors(self.segment, collection.schema.get("dimension"))
        self.dead, self.frequencies = [], {}
        if named.tombstones:
            dead = database.file(f"d-{named.tombstones.file:016x}.tombstones")
            database.read_tombstones_header(dead, named.tombstones.file)
            where = f"{collection.name}: " if prefix else ""
            self.dead, self.frequencies = tombstones.read_rows(dead, named.tombstones, self.segment.rows, where)

    def document(self, row):
        """The whole version: body, id and vector."""
        body = self.rows.body(row)
        return Record(body, id=self.rows.ids[row], vector=self.vectors.get(row))


class Database:
    """What stands in a directory. Opening reads HEAD, the manifest and the logs; `load` reads segments and applies the log."""

    def __init__(self, path):
        self.path, self.notes, self.headers_read = path, [], set()
        if not os.path.isdir(path):
            raise Absent(path, 0, "there is no such directory")
        self.names = sorted(n for n in os.listdir(path) if is_part(n) and os.path.isfile(os.path.join(path, n)))
        self.files = {}
        self.witness = head.witness(self.file("WITNESS")) if "WITNESS" in self.names else 0
        self.choose()
        self.manifest = manifest.read_manifest(self.file(f"m-{self.slot.manifest_number:016x}.manifest"), self.slot)
        self.follow_logs()
        self.judge_others()
        self.judge_active()

    def file(self, name):
        """A file that something names: it must be there."""
        if name not in self.files:
            if name not in self.names:
                raise Damage(name, 0, "the file is missing")
            with open(os.path.join(self.path, name), "rb") as f:
                self.files[name] = File(name, f.read())
        return self.files[name]

    def choose(self):
        """Sections 4.2 and 14.8."""
        chosen = head.choose(self.file("HEAD")) if "HEAD" in self.names else None
        if chosen:
            self.slot, self.index, self.other = chosen
            return
        for name in self.names:
            if name not in FIXED and name not in CREATED:
                raise Damage("HEAD", 0, f"no valid slot, and {name} is there")
            if name.endswith(".wal") and any(self.file(name).data[log.START:]):
                raise Damage("HEAD", 0, f"no valid slot, and {name} holds records")
        raise Absent("HEAD", 0, "no valid slot: a creation was not finished, or nothing is there")

    def follow_logs(self):
        """Section 7.3: the active log, and back by links to the one that holds applied_lsn + 1."""
        self.logs, sequence, identity, successor = [], self.slot.wal_sequence, self.slot.wal_id, None
        while True:
            file = self.file(f"w-{sequence:016x}.wal")
            header = log.read_header(file, self.slot.database)
            file.need(header.id == identity, 40, "another identity than its namer gives")
            scan = log.Scan(file, header)
            if successor:
                self.check_predecessor(file, scan, successor)
            self.logs.insert(0, scan)
            if header.first_lsn <= self.slot.applied_lsn + 1:
                return
            file.need(header.has_link, 64, f"starts at lsn {header.first_lsn}, above {self.slot.applied_lsn + 1}, and has no link")
            sequence, identity, successor = header.link_sequence, header.link_id, header

    @staticmethod
    def check_predecessor(file, scan, successor):
        """Whole records exactly to the link; what stands after it does not count."""
        kept = [r for r in scan.records if r.lsn <= successor.link_last_lsn]
        file.need(scan.header.first_lsn + len(kept) - 1 == successor.link_last_lsn, log.START,
                  f"its records end at lsn {scan.next_lsn - 1} and not at {successor.link_last_lsn}")
        scan.records = kept
        scan.next_lsn = successor.link_last_lsn + 1
        ends = log.START if not kept else log.align(kept[-1].self_offset + log.RECORD.size + kept[-1].payload_length, 8)
        file.need(ends == successor.link_end_offset, log.START, f"its records end at {ends} and not at {successor.link_end_offset}")
        scan.end = ends

    def judge_others(self):
        """Section 7.3: a log above the active one that holds a valid record header is corruption."""
        followed = {scan.file.name for scan in self.logs}
        for name in self.names:
            if not name.endswith(".wal") or name in followed or int(name[2:18], 16) <= self.slot.wal_sequence:
                continue
            file = self.file(name)
            try:
                header = log.read_header(file, self.slot.database, claim=False)
            except (Damage, Newer):
                continue
            if any(True for _ in log.headers_anywhere(file, header.id)):
                raise Damage("HEAD", 0, f"older than {name}, which holds records")

    def judge_active(self):
        """Section 7.4."""
        scan = self.logs[-1]
        proven = max(scan.durable(), self.witness, self.slot.durable_lsn)
        if scan.next_lsn <= proven:
            raise scan.file.damage(scan.end, f"lsns {scan.next_lsn} to {proven} were durable and are lost")
        self.torn = scan.torn()
        for s in self.logs:
            for r in s.records:
                if r.lsn > self.slot.applied_lsn and (r.kind != log.COMMIT or r.flags) and r.kind & 0x80:
                    raise Newer(s.file.name, r.self_offset, f"a critical record of kind {r.kind:#x}, flags {r.flags}")

    def read_tombstones_header(self, file, number):
        if file.name not in self.headers_read:
            tombstones.read_header(file, self.slot.database, number)
            self.headers_read.add(file.name)

    def records(self):
        """The records to apply, with their logs."""
        return [(s, r) for s in self.logs for r in s.records if r.lsn > self.slot.applied_lsn and r.kind == log.COMMIT]

    def load(self):
        """Reads every segment's rows and applies the log; answers the collections."""
        m = self.manifest
        self.collections, self.parts, self.envelopes = {}, [], []
        for c in m.collections:
            life = Record(name=c.name, incarnation=c.incarnation, schema=dict(c.schema), live={}, listed=c)
            self.collections[c.incarnation] = life
            for number, named in enumerate(c.segments):
                self.add_part(life, named, f"{c.name}[{number}].")
        self.check_totals()
        for scan, record in self.records():
            start = record.self_offset + log.RECORD.size
            self.apply(read_commit(scan.file, start, start + record.payload_length, f"record {record.lsn}"), scan.file, start)
        return self.collections

    def add_part(self, life, named, prefix):
        part = Part(self, life, named, prefix)
        part.life = life
        self.parts.append(part)
        dead = set(part.dead)
        for row, seq in enumerate(part.rows.seqs):
            if row not in dead:
                life.live[seq] = (part, row)

    def check_totals(self):
        """Vectors of a collection count the live ones (6.2)."""
        for life in self.collections.values():
            vectors = sum(row in part.vectors.by_row for part, row in life.live.values())
            if len(life.live) != life.listed.documents or vectors != life.listed.vectors:
                raise Damage(f"m-{self.slot.manifest_number:016x}.manifest", manifest.HEADER.size, f"totals of {life.name}")

    def apply(self, commit, file, at):
        """Section 8.1: the catalog in order, then what each collection got."""
        for change in commit.catalog:
            self.change(change, file, at)
        for effects in commit.collections:
            life = self.collections.get(effects.incarnation)
            for named in effects.landed:
                if life:
                    self.add_part(life, named, f"landed at {named.file:x}+{named.offset}.")
            dead = effects.dead
            if effects.dead_file:
                d = self.file(f"d-{effects.dead_file.file:016x}.tombstones")
                self.read_tombstones_header(d, effects.dead_file.file)
                dead = tombstones.read_seqs(d, effects.dead_file)
            if life:
                for seq, document in effects.rows:
                    life.live[seq] = document
                for seq in dead:
                    life.live.pop(seq, None)

    def change(self, change, file, at):
        by_name = {life.name: life for life in self.collections.values()}
        if change.kind == 1:
            self.collections[change.incarnation] = Record(name=change.name, incarnation=change.incarnation, schema=change.schema, live={})
        elif change.kind == 2:
            self.collections.pop(change.incarnation, None)
        elif change.kind == 3:
            old = self.collections.pop(change.old)
            self.collections[change.new] = Record(old, incarnation=change.new, live={})
        elif change.kind == 4:
            self.collections[change.incarnation]["name"] = change.to
        elif change.kind == 5:
            by_name[change.a]["name"], by_name[change.b]["name"] = change.b, change.a
        else:
            schema = self.collections[change.incarnation].schema
            file.need(schema.setdefault("dimension", change.dimension) == change.dimension, at, "a dimension is fixed twice")


def document_of(entry):
    """A live document: a row of a part, or a version of the log."""
    if isinstance(entry, tuple):
        part, row = entry
        return part.document(row)
    return entry
