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
from vectors import Vectors, is_halves
from wire import Absent, Damage, File, Newer, Record

NAMED = re.compile(r"(?:m-([0-9a-f]{16})\.manifest|w-([0-9a-f]{16})\.wal|s-([0-9a-f]{16})\.segments|d-([0-9a-f]{16})\.tombstones)\Z")
FIXED = ("HEAD", "LOCK", "WITNESS", "BALLAST")
FIRST_MANIFEST = "m-0000000000000001.manifest"


def is_part(name):
    return name in FIXED or NAMED.match(name) is not None


class Part:
    """A segment of a collection with what is read of it: rows, vectors, dead rows."""

    def __init__(self, database, collection, named, prefix):
        file = database.file(f"s-{named.file:016x}.segments")
        self.segment = Segment(file, named, database.slot.database, prefix)
        self.rows = Rows(self.segment)
        self.vectors = Vectors(self.segment, collection.schema.get("dimension"), collection.schema.get("components", "f32"))
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
        self.everything = sorted(n for n in os.listdir(path) if not os.path.isdir(os.path.join(path, n)))
        self.names = [n for n in self.everything if is_part(n)]
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
        if "HEAD" in self.names and head.unfinished(self.file("HEAD")):
            raise Absent("HEAD", 0, "a restore or a backup was not finished")
        if not any(map(NAMED.match, self.names)):
            raise Absent("HEAD", 0, "no valid slot, and no file of a database: there is none")
        for name in self.everything:
            is_log = name in self.names and name.endswith(".wal")
            if not is_log and name not in FIXED and name != FIRST_MANIFEST:
                raise Damage("HEAD", 0, f"no valid slot, and {name} is there")
            if is_log and any(self.file(name).data[log.START:]):
                raise Damage("HEAD", 0, f"no valid slot, and {name} holds records")
        raise Absent("HEAD", 0, "no valid slot: a creation was not finished")

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
                header = log.read_header(file, None, claim=False)
            except Damage:
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
        self.next_seq, self.next_incarnation = m.next_seq, m.next_incarnation
        for c in m.collections:
            life = Record(name=c.name, incarnation=c.incarnation, schema=dict(c.schema), live={}, known=set(), listed=c)
            self.collections[c.incarnation] = life
            for number, named in enumerate(c.segments):
                self.add_part(life, named, f"{c.name}[{number}].")
        for scan, record in self.records():
            start = record.self_offset + log.RECORD.size
            self.apply(read_commit(scan.file, start, start + record.payload_length, f"record {record.lsn}"), scan.file, start)
        return self.collections

    def add_part(self, life, named, prefix):
        part = Part(self, life, named, prefix)
        part.life = life
        self.parts.append(part)
        dead = set(part.dead)
        life.known.update(part.rows.seqs)
        for row, seq in enumerate(part.rows.seqs):
            if row not in dead:
                life.live[seq] = (part, row)

    def apply(self, commit, file, at):
        """Section 8.1: the catalog in order, then what each collection got."""
        self.numbers(commit, file, at)
        for change in commit.catalog:
            self.change(change, file, at)
        for effects in commit.collections:
            life = self.collections.get(effects.incarnation)
            file.need(life is not None, at, f"no collection of incarnation {effects.incarnation}")
            for named in effects.landed:
                self.add_part(life, named, f"landed at {named.file:x}+{named.offset}.")
            dead = effects.dead
            if effects.dead_file:
                d = self.file(f"d-{effects.dead_file.file:016x}.tombstones")
                self.read_tombstones_header(d, effects.dead_file.file)
                dead = tombstones.read_seqs(d, effects.dead_file)
            for seq, document in effects.rows:
                stored = document.vector is None or life.schema.get("components") != "f16" or is_halves(document.vector)
                file.need(stored, at, f"the vector of seq {seq} has a component that is no binary16")
                fits = document.vector is None or len(document.vector) // 4 == life.schema.get("dimension")
                file.need(fits, at, f"the vector of seq {seq} has another number of components than the collection's")
                life.live[seq] = document
                life.known.add(seq)
            for seq in dead:
                file.need(seq in life.known, at, f"seq {seq} dies, and no row has it")
                life.live.pop(seq, None)

    def numbers(self, commit, file, at):
        """Section 8.1: every number is given once, and in order."""
        seqs, lives = range(self.next_seq, commit.next_seq), range(self.next_incarnation, commit.next_incarnation)
        file.need(self.next_seq <= commit.next_seq and self.next_incarnation <= commit.next_incarnation, at, "the next seq or incarnation goes back")
        for change in commit.catalog:
            begun = change.incarnation if change.kind == 1 else change.new if change.kind == 3 else None
            file.need(begun is None or begun in lives, at, f"incarnation {begun} begins, new ones are {lives}")
        last = {}
        for effects in commit.collections:
            spans = [(seq, seq) for seq, _ in effects.rows] + [(named.base_seq, named.last_seq) for named in effects.landed]
            for first, end in spans:
                file.need(first in seqs and end in seqs, at, f"seqs {first} to {end}, new ones are {seqs}")
                file.need(first > last.get(effects.incarnation, 0), at, f"seq {first} does not ascend")
                last[effects.incarnation] = end
        self.next_seq, self.next_incarnation = commit.next_seq, commit.next_incarnation

    def change(self, change, file, at):
        """Section 8.1: every collection that a change names is there, in the life that it names; what it makes is not there yet."""
        lives = self.collections
        by_name = {life.name: life for life in lives.values()}

        def named(name, incarnation=None):
            life = by_name.get(name)
            file.need(life is not None and incarnation in (None, life.incarnation), at, f"no collection {name!r} of incarnation {incarnation}")
            return life

        if change.kind == 1:
            file.need(change.name not in by_name and change.incarnation not in lives, at, f"collection {change.name!r} is there already")
            lives[change.incarnation] = Record(name=change.name, incarnation=change.incarnation, schema=change.schema, live={}, known=set())
        elif change.kind == 2:
            named(change.name, change.incarnation)
            del lives[change.incarnation]
        elif change.kind == 3:
            old = named(change.name, change.old)
            file.need(change.new not in lives, at, "the new incarnation is there already")
            del lives[change.old]
            lives[change.new] = Record(old, incarnation=change.new, live={}, known=set())
        elif change.kind == 4:
            file.need(change.to not in by_name, at, f"collection {change.to!r} is there already")
            named(change.name, change.incarnation)["name"] = change.to
        elif change.kind == 5:
            a, b = named(change.a), named(change.b)
            a["name"], b["name"] = b.name, a.name
        else:
            life = lives.get(change.incarnation)
            file.need(life is not None, at, f"no collection of incarnation {change.incarnation}")
            fixed = life.schema.setdefault("dimension", change.dimension)
            file.need(fixed == change.dimension, at, "a dimension is fixed twice")


def document_of(entry):
    """A live document: a row of a part, or a version of the log."""
    if isinstance(entry, tuple):
        part, row = entry
        return part.document(row)
    return entry
